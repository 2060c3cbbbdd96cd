use statrs::distribution::{ContinuousCDF, StudentsT};

/// A step of a series ("Nightly series").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// The first value after the step.
    pub index: usize,
    /// Mean from the change point before, or the beginning.
    pub mean_before: f64,
    /// Mean up to the change point after, or the end.
    pub mean_after: f64,
    /// Of a t test between the two. The position was chosen to make it small: it ranks steps and is no error rate.
    pub p: f64,
}

/// Values that are searched at a time: older ones say nothing about a step of today.
const WINDOW: usize = 50;

/// Largest p of a change point.
const MAX_P: f64 = 0.001;

/// The first pass is lenient, because a step that another one hides may look weaker than it is.
const WEAK_P: f64 = 10.0 * MAX_P;

/// Where a series of positive values changed by more than `min_change` (0.05 = 5 %), ascending ("Nightly series"). Steps are found as in Matteson
/// and James, "A Nonparametric Approach for Multiple Change Point Analysis of Multivariate Data", and kept or dropped as in
/// Fleming and others, "Hunter: Using Change Point Detection to Hunt for Performance Regressions". A change point is a reason
/// to run an experiment, not a finding.
pub fn change_points(series: &[f64], min_change: f64) -> Vec<ChangePoint> {
    let mut steps = weak_steps(series);
    loop {
        let points = measured(series, &steps);
        let Some(weakest) = weakest(&points, min_change) else { return points };
        steps.remove(weakest);
    }
}

/// Position of the point to drop next: that of the largest p, or, where every p is small enough, that of the smallest change.
fn weakest(points: &[ChangePoint], min_change: f64) -> Option<usize> {
    let positions = || 0..points.len();
    let unsure = positions().max_by(|&a, &b| points[a].p.total_cmp(&points[b].p))?;
    if points[unsure].p >= MAX_P {
        return Some(unsure);
    }
    let small = positions().min_by(|&a, &b| points[a].change().total_cmp(&points[b].change()))?;
    (points[small].change() <= min_change).then_some(small)
}

impl ChangePoint {
    /// Size of the step relative to its smaller side.
    fn change(&self) -> f64 {
        let ratio = self.mean_after / self.mean_before;
        (ratio - 1.0).abs().max((1.0 / ratio - 1.0).abs())
    }
}

/// Each step with its means up to the neighbouring ones.
fn measured(series: &[f64], steps: &[usize]) -> Vec<ChangePoint> {
    let end = |i: usize| steps.get(i).copied().unwrap_or(series.len());
    let point = |(i, &index): (usize, &usize)| {
        let start = if i == 0 { 0 } else { steps[i - 1] };
        let (before, after) = (&series[start..index], &series[index..end(i + 1)]);
        ChangePoint { index, mean_before: mean(before), mean_after: mean(after), p: t_test(before, after) }
    };
    steps.iter().enumerate().map(point).collect()
}

/// Candidates of all windows, each half a window on, or at the last step of the one before if that is later.
fn weak_steps(series: &[f64]) -> Vec<usize> {
    let mut steps = Vec::new();
    let mut start = 0;
    while start < series.len() {
        let window = &series[start..series.len().min(start + WINDOW)];
        let found = steps_of(window);
        let last = found.last().map_or(0, |step| start + step);
        steps.extend(found.into_iter().map(|step| start + step));
        start = last.max(start + WINDOW / 2);
    }
    steps.sort_unstable();
    steps.dedup();
    steps
}

/// Splits at the place of the greatest divergence, again and again, as long as the parts differ.
fn steps_of(window: &[f64]) -> Vec<usize> {
    let mut steps: Vec<usize> = Vec::new();
    loop {
        let ends: Vec<usize> = [0].into_iter().chain(steps.iter().copied()).chain([window.len()]).collect();
        let best = ends
            .windows(2)
            .filter_map(|part| split(&window[part[0]..part[1]]).map(|(step, divergence)| (part[0] + step, divergence)))
            .reduce(|best, other| if other.1 > best.1 { other } else { best });
        let Some((step, _)) = best else { return steps };
        let position = steps.partition_point(|&earlier| earlier < step);
        steps.insert(position, step);
        if measured(window, &steps)[position].p > WEAK_P {
            steps.remove(position);
            return steps;
        }
    }
}

/// The first value of the second part, and the divergence, where the energy distance of two neighbouring parts is greatest. The
/// second part may end early: a later step back must not hide the first.
fn split(values: &[f64]) -> Option<(usize, f64)> {
    let n = values.len();
    let distance = |i: usize, j: usize| (values[i] - values[j]).abs();
    let mut best: Option<(usize, f64)> = None;
    for step in 1..n {
        let before: f64 = pairs(0, step).map(|(i, j)| distance(i, j)).sum();
        let (mut between, mut after) = (0.0, 0.0);
        // The second part grows value by value.
        for end in step + 1..=n {
            let added = end - 1;
            between += (0..step).map(|i| distance(i, added)).sum::<f64>();
            after += (step..added).map(|i| distance(i, added)).sum::<f64>();
            let (a, b) = (step as f64, (end - step) as f64);
            let within = |sum: f64, own: f64, other: f64| if own > 1.0 { other / (own - 1.0) * sum } else { 0.0 };
            let divergence = 2.0 / (a + b) * (between - within(before, a, b) - within(after, b, a));
            if best.is_none_or(|(_, most)| divergence > most) {
                best = Some((step, divergence));
            }
        }
    }
    best
}

fn pairs(start: usize, end: usize) -> impl Iterator<Item = (usize, usize)> {
    (start..end).flat_map(move |j| (start..j).map(move |i| (i, j)))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Two-sided p of the t test with pooled variance; the variances divide by the number of values, as in the published method.
fn t_test(before: &[f64], after: &[f64]) -> f64 {
    let (n, m) = (before.len() as f64, after.len() as f64);
    let freedom = n + m - 2.0;
    let Ok(distribution) = StudentsT::new(0.0, 1.0, freedom) else { return 1.0 };
    let change = mean(after) - mean(before);
    if change == 0.0 {
        return 1.0;
    }
    let pooled = ((n - 1.0) * variance(before) + (m - 1.0) * variance(after)) / freedom;
    2.0 * distribution.cdf(-change.abs() / (pooled * (1.0 / n + 1.0 / m)).sqrt())
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise of +-1 % that is the same everywhere.
    fn noise(i: usize) -> f64 {
        ((i * 7919) % 101) as f64 / 5000.0 - 0.01
    }

    fn series(levels: &[(usize, f64)]) -> Vec<f64> {
        let values = levels.iter().flat_map(|&(nights, level)| std::iter::repeat_n(level, nights));
        values.enumerate().map(|(i, level)| level * (1.0 + noise(i))).collect()
    }

    fn found(series: &[f64], min_change: f64) -> Vec<usize> {
        change_points(series, min_change).iter().map(|point| point.index).collect()
    }

    /// Székely and Rizzo's energy distance, with unbiased means within the parts, times n m / (n + m): at the second value of the
    /// second part, 2 * 2 / 4 * (2 / 4 * (5 + 7 + 4 + 6) - 1 - 2).
    #[test]
    fn a_divergence_is_the_energy_distance_between_both_parts() {
        assert_eq!(split(&[0.0, 1.0, 5.0, 7.0]), Some((2, 8.0)));
        // Two values have no others to be compared with.
        assert_eq!(split(&[0.0, 3.0]), Some((1, 3.0)));
        assert_eq!(split(&[3.0]), None);
    }

    #[test]
    fn steps_are_found_in_every_window() {
        assert_eq!(found(&series(&[(30, 1.0), (40, 0.9), (70, 0.8)]), 0.05), [30, 70]);
        // Up and down again.
        assert_eq!(found(&series(&[(25, 1.0), (12, 1.2), (25, 1.0)]), 0.05), [25, 37]);
    }

    #[test]
    fn steps_below_the_margin_are_none() {
        let small = series(&[(40, 1.0), (40, 0.97)]);
        assert_eq!(found(&small, 0.05), [0; 0]);
        assert_eq!(found(&small, 0.01), [40]);
    }

    #[test]
    fn noise_has_no_steps() {
        assert_eq!(found(&series(&[(200, 1.0)]), 0.0), [0; 0]);
        assert_eq!(found(&[1.0; 60], 0.0), [0; 0]);
        for short in [&[][..], &[1.0], &[1.0, 2.0]] {
            assert_eq!(found(short, 0.0), [0; 0]);
        }
    }

    #[test]
    fn one_bad_night_is_no_step() {
        let mut values = series(&[(60, 1.0)]);
        values[30] = 0.5;
        assert_eq!(found(&values, 0.05), [0; 0]);
    }
}
