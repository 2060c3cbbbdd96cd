//! Whether measurements fit any number of steps in one direction: a change that was undone and made again has no first bad candidate.

use statrs::distribution::{ChiSquared, ContinuousCDF};

use super::belief::Spread;
use super::visit::Visit;

/// p of the hypothesis that candidates only get worse, by the distances of all visits against the good end from the closest such course.
///
/// Given how many levels that course has, the squared distances over their variances have a chi-square distribution with as many degrees
/// of freedom as there are visits beyond levels, at most (Robertson, Wright and Dykstra, "Order Restricted Statistical Inference").
pub fn monotone(visits: &[Visit], spread: &Spread) -> f64 {
    let mut seen: Vec<(usize, f64, f64)> = visits
        .iter()
        .filter(|visit| visit.reference == 0 && !visit.losses.is_empty())
        .map(|visit| {
            let blocks = visit.losses.len();
            (visit.candidate, visit.losses.iter().sum::<f64>() / blocks as f64, spread.weight(blocks))
        })
        .collect();
    seen.sort_by_key(|(candidate, ..)| *candidate);
    let mut levels: Vec<Level> = Vec::new();
    let mut candidates = seen.chunk_by(|a, b| a.0 == b.0);
    for visits in &mut candidates {
        let mut level = Level::default();
        for (_, mean, weight) in visits {
            level.add(*mean, *weight);
        }
        // Pools neighbours that go the wrong way (the pool-adjacent-violators algorithm).
        while let Some(before) = levels.pop_if(|before| before.mean() >= level.mean()) {
            level = before.with(&level);
        }
        levels.push(level);
    }
    let distance: f64 = levels.iter().map(Level::scatter).sum();
    let freedom = (seen.len() - levels.len()) as f64;
    // Without any there is nothing to contradict.
    ChiSquared::new(freedom).map_or(1.0, |chi| chi.sf(distance.max(0.0)))
}

/// Sums over visits with a common mean.
#[derive(Default)]
struct Level {
    weight: f64,
    sum: f64,
    squares: f64,
}

impl Level {
    fn add(&mut self, mean: f64, weight: f64) {
        self.weight += weight;
        self.sum += weight * mean;
        self.squares += weight * mean * mean;
    }

    fn with(&self, other: &Self) -> Self {
        Self { weight: self.weight + other.weight, sum: self.sum + other.sum, squares: self.squares + other.squares }
    }

    fn mean(&self) -> f64 {
        self.sum / self.weight
    }

    fn scatter(&self) -> f64 {
        self.squares - self.sum * self.sum / self.weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPREAD: Spread = Spread { block: 0.02, visit: 0.0 };

    fn p(visits: &[(usize, f64)]) -> f64 {
        let visit = |&(candidate, loss): &(usize, f64)| Visit { reference: 0, candidate, losses: vec![loss; 4] };
        monotone(&visits.iter().map(visit).collect::<Vec<_>>(), &SPREAD)
    }

    #[test]
    fn steps_in_one_direction_fit_and_others_do_not() {
        assert_eq!((p(&[]), p(&[(3, 0.05)])), (1.0, 1.0));
        assert_eq!(p(&[(8, 0.03), (2, 0.0), (5, 0.015)]), 1.0, "two steps are no contradiction");
        // The means of visits scatter by 0.01: two that differ by 0.03 the wrong way are 0.015 from their mean, so 4.5 with 1 degree.
        let wrong = p(&[(2, 0.03), (5, 0.0)]);
        assert!((wrong - 0.033_894_853_524_689).abs() < 1e-9, "{wrong}");
        assert!(p(&[(2, 0.05), (5, 0.0), (8, 0.05), (5, 0.0), (2, 0.05)]) < 0.001, "change, fix, change");
    }

    #[test]
    fn visits_of_one_candidate_must_agree_too() {
        assert!(p(&[(4, 0.05), (4, 0.0)]) < 0.001);
        assert!(p(&[(4, 0.02), (4, 0.01)]) > 0.3);
    }
}
