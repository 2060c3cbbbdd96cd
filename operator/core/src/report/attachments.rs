//! What plots need of full records, one record after the other, so that nobody has to hold them all at once.

use std::collections::BTreeMap;

use assay_protocol::{Series, TrialRecord};

use super::latency::Merged;

/// The trials of one config in one scenario, as plots show them: display only, nothing is judged by it.
#[derive(Clone, Debug, PartialEq)]
pub struct Attachment {
    pub scenario: String,
    pub config: String,
    /// Trials that went into it.
    pub trials: u32,
    /// Latency in nanoseconds of the primary role's steps, by the share of steps that took longer, as one in so many.
    pub latency: Vec<(f64, u64)>,
    /// Seconds that each point of the series stands for.
    pub seconds_per_point: f64,
    /// By name, the medians over the trials from the opening of the window on, up to where half of the trials have ended.
    pub series: BTreeMap<String, Vec<f64>>,
}

/// Points of a series that a small plot can show.
const POINTS: f64 = 60.0;

/// Seconds of the shortest point: about how often a bench samples a short window.
const FINEST: f64 = 0.25;

/// Write amplification from the window's start to each of its seconds, which no record has as a column.
pub(super) const WRITE_AMPLIFICATION: &str = "write_amplification";

/// The columns that are shown.
const COLUMNS: [&str; 6] = [
    "steps_per_second",
    "stall_fraction",
    "flush_bytes_per_second",
    "compaction_write_bytes_per_second",
    "l0_files",
    "pending_compaction_bytes",
];

/// Collects attachments from records in any order.
#[derive(Clone, Debug, Default)]
pub struct Attachments {
    cells: BTreeMap<(String, String), Cell>,
}

#[derive(Clone, Debug, Default)]
struct Cell {
    latency: Merged,
    trials: Vec<Trial>,
}

/// One trial's series: every point is the mean of `width` seconds, which is [`FINEST`] times a power of two.
#[derive(Clone, Debug, PartialEq)]
struct Trial {
    width: f64,
    columns: BTreeMap<&'static str, Vec<f64>>,
}

impl Attachments {
    /// Adds a trial. Give only trials that count.
    pub fn add(&mut self, record: &TrialRecord) {
        let trial = &record.spec.trial;
        let cell = self.cells.entry((trial.scenario.clone(), trial.config.clone())).or_default();
        let primary = record.spec.workload.primary_role().and_then(|role| record.latency.get(&role.name));
        if let Some(latency) = primary {
            cell.latency.add(&latency.histogram);
        }
        cell.trials.push(Trial::new(&record.series));
    }

    /// What was added, by scenario and config.
    pub fn finish(self) -> Vec<Attachment> {
        self.cells
            .into_iter()
            .map(|((scenario, config), cell)| {
                let width = cell.trials.iter().map(|trial| trial.width).fold(FINEST, f64::max);
                let trials: Vec<Trial> = cell.trials.into_iter().map(|trial| trial.widened(width)).collect();
                Attachment {
                    scenario,
                    config,
                    trials: trials.len() as u32,
                    latency: cell.latency.tail(),
                    seconds_per_point: width,
                    series: medians(&trials),
                }
            })
            .collect()
    }
}

impl Trial {
    fn new(series: &Series) -> Self {
        let rows = series.seconds.len();
        let ends = || series.seconds.iter().copied();
        let starts = || [0.0].into_iter().chain(ends());
        if !starts().zip(ends()).all(|(start, end)| end > start && end.is_finite()) {
            return Self { width: FINEST, columns: BTreeMap::new() };
        }
        // A column of another length would put its values at the wrong seconds.
        let column = |name: &str| series.columns.get(name).filter(|values| values.len() == rows);
        let mut columns: BTreeMap<&'static str, Vec<f64>> =
            COLUMNS.iter().filter_map(|name| Some((*name, column(name)?.clone()))).collect();
        if let (Some(user), Some(flushed), Some(compacted)) = (
            column("user_bytes_per_second"),
            column("flush_bytes_per_second"),
            column("compaction_write_bytes_per_second"),
        ) {
            let (mut asked, mut written) = (0.0, 0.0);
            let so_far = starts().zip(ends()).enumerate().map(|(row, (start, end))| {
                let seconds = end - start;
                asked += user[row] * seconds;
                written += (flushed[row] + compacted[row]) * seconds;
                if asked > 0.0 { written / asked } else { 0.0 }
            });
            let so_far: Vec<f64> = so_far.collect();
            // Without writes there is nothing to amplify.
            if asked > 0.0 {
                columns.insert(WRITE_AMPLIFICATION, so_far);
            }
        }
        let mut width = FINEST;
        while ends().last().unwrap_or_default() > POINTS * width {
            width *= 2.0;
        }
        for values in columns.values_mut() {
            *values = resampled(&series.seconds, values, width);
        }
        Self { width, columns }
    }

    /// The same with fewer points. Widths are powers of two, so that points nest.
    fn widened(mut self, width: f64) -> Self {
        let together = (width / self.width) as usize;
        if together > 1 {
            for values in self.columns.values_mut() {
                *values = values.chunks(together).map(mean).collect();
            }
            self.width = width;
        }
        self
    }
}

/// Means of `width` seconds each, of values of which each holds from the end of the one before to its own end. A bench samples at its own
/// times, and less often in long windows, so a row is no measure of time.
fn resampled(ends: &[f64], values: &[f64], width: f64) -> Vec<f64> {
    let (mut means, mut sum, mut covered) = (Vec::new(), 0.0, 0.0);
    for (&end, &value) in ends.iter().zip(values) {
        while covered < end {
            let next = width * (means.len() + 1) as f64;
            let until = end.min(next);
            sum += value * (until - covered);
            covered = until;
            if covered >= next {
                means.push(sum / width);
                sum = 0.0;
            }
        }
    }
    let rest = covered - width * means.len() as f64;
    // A sliver of a last point would show a moment as if it were as long as the others.
    if rest >= 0.5 * width || means.is_empty() && rest > 0.0 {
        means.push(sum / rest);
    }
    means
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn medians(trials: &[Trial]) -> BTreeMap<String, Vec<f64>> {
    let mut series: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for name in COLUMNS.into_iter().chain([WRITE_AMPLIFICATION]) {
        let own: Vec<&Vec<f64>> = trials.iter().filter_map(|trial| trial.columns.get(name)).collect();
        let longest = own.iter().map(|values| values.len()).max().unwrap_or(0);
        let points = (0..longest).map_while(|point| {
            let there: Vec<f64> = own.iter().filter_map(|values| values.get(point).copied()).collect();
            // Beyond, the line would be about the slower half only.
            if 2 * there.len() < own.len() {
                None
            } else {
                crate::stats::median(&there).filter(|value| value.is_finite())
            }
        });
        let points: Vec<f64> = points.collect();
        if !points.is_empty() {
            series.insert(name.to_owned(), points);
        }
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(rows: usize, stall: f64) -> Series {
        let column = |value: f64| vec![value; rows];
        let columns = [
            ("stall_fraction", column(stall)),
            ("user_bytes_per_second", column(100.0)),
            ("flush_bytes_per_second", column(110.0)),
            ("compaction_write_bytes_per_second", (0..rows).map(|row| row as f64 * 100.0).collect()),
        ];
        Series {
            seconds: (1..=rows).map(|second| second as f64).collect(),
            columns: columns.into_iter().map(|(name, values)| (name.to_owned(), values)).collect(),
        }
    }

    #[test]
    fn write_amplification_counts_from_the_start() {
        let trial = Trial::new(&series(3, 0.0));
        let each_second = trial.columns[WRITE_AMPLIFICATION].iter().step_by(4);
        let seen: Vec<String> = each_second.map(|value| format!("{value:.2}")).collect();
        assert_eq!(seen, ["1.10", "1.60", "2.10"]);
        let mut reads = series(3, 0.0);
        reads.columns.insert("user_bytes_per_second".to_owned(), vec![0.0; 3]);
        assert!(!Trial::new(&reads).columns.contains_key(WRITE_AMPLIFICATION));
    }

    #[test]
    fn long_series_become_short_ones_with_the_same_mean() {
        let trial = Trial::new(&series(1000, 0.25));
        assert_eq!((trial.width, trial.columns["stall_fraction"].len()), (32.0, 31));
        assert!(trial.columns["stall_fraction"].iter().all(|value| *value == 0.25));
        assert_eq!(Trial::new(&series(15, 0.25)).width, FINEST);
    }

    #[test]
    fn points_are_seconds_however_often_a_bench_samples() {
        // Twenty samples in the first six seconds, then one a second.
        let fine = (1..=20).map(|row| f64::from(row) * 0.3);
        let ends: Vec<f64> = fine.chain((7..=30).map(f64::from)).collect();
        let values: Vec<f64> = ends.iter().map(|&end| if end <= 6.0 { 1.0 } else { 5.0 }).collect();
        let columns = [("l0_files".to_owned(), values)].into();
        let trial = Trial::new(&Series { seconds: ends, columns });
        let points = &trial.columns["l0_files"];
        assert_eq!((trial.width, points.len()), (0.5, 60));
        let near = |points: &[f64], value: f64| points.iter().all(|point| (point - value).abs() < 1e-9);
        assert!(near(&points[..12], 1.0) && near(&points[12..], 5.0), "{points:?}");
        // What is shorter than a point is one; a sliver at the end is none.
        for (ends, values, points) in [(&[0.1][..], &[3.0][..], 1), (&[0.5, 0.6], &[3.0, 9.0], 2)] {
            let seen = resampled(ends, values, 0.25);
            assert!(near(&seen, 3.0) && seen.len() == points, "{seen:?}");
        }
    }

    #[test]
    fn times_that_do_not_rise_are_no_series() {
        for odd in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let mut series = series(3, 0.1);
            series.seconds[1] = odd;
            assert!(Trial::new(&series).columns.is_empty(), "{odd}");
        }
    }

    #[test]
    fn lines_are_medians_and_end_with_half_of_the_trials() {
        let trials =
            [(10, 0.1), (20, 0.2), (30, 0.9)].map(|(rows, stall)| Trial::new(&series(rows, stall)).widened(0.5));
        let stalls = &medians(&trials)["stall_fraction"];
        assert_eq!(stalls.len(), 40);
        assert_eq!((stalls[0], stalls[19]), (0.2, 0.2));
        assert!((stalls[20] - 0.55).abs() < 1e-9);
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out() {
        let mut odd = series(5, 0.1);
        odd.columns.insert("l0_files".to_owned(), vec![1.0; 4]);
        let trial = Trial::new(&odd);
        assert!(!trial.columns.contains_key("l0_files") && trial.columns.contains_key("stall_fraction"));
    }
}
