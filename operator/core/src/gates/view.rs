use assay_protocol::{Summary, TrialId};

use crate::attempt::{has_failed, pass};
use crate::experiment::{ConfigUnderTest, Experiment};

/// The trials, grouped as gates compare them.
pub(super) struct View<'a> {
    pub experiment: &'a Experiment,
    summaries: &'a [&'a Summary],
    baseline: &'a str,
    /// In the order of [`View::key`].
    all: Vec<usize>,
    /// Those that ran to their end.
    completed: Vec<usize>,
}

impl<'a> View<'a> {
    pub fn new(experiment: &'a Experiment, summaries: &'a [&'a Summary]) -> Self {
        let mut all: Vec<usize> = (0..summaries.len()).collect();
        all.sort_by_key(|&i| Self::key(&summaries[i].trial));
        let completed: Vec<usize> = all.iter().copied().filter(|&i| !has_failed(summaries[i])).collect();
        let baseline = experiment.baseline_config().map_or("", |config| config.name.as_str());
        Self { experiment, summaries, baseline, all, completed }
    }

    /// An order that only depends on what the trials are, not on when they came in.
    fn key(id: &TrialId) -> (&str, u32, u32, &str, u32) {
        (&id.scenario, id.block, id.attempt, &id.config, id.replicate)
    }

    pub fn summary(&self, trial: usize) -> &'a Summary {
        self.summaries[trial]
    }

    pub fn config(&self, trial: usize) -> Option<&'a ConfigUnderTest> {
        self.experiment.config(&self.summaries[trial].trial.config)
    }

    pub fn is_baseline(&self, trial: usize) -> bool {
        self.summaries[trial].trial.config == self.baseline
    }

    /// All trials, whether or not they ran to their end.
    pub fn all(&self) -> &[usize] {
        &self.all
    }

    pub fn completed(&self) -> &[usize] {
        &self.completed
    }

    /// Completed trials of each pass over a block, which stand together in the order of [`View::key`].
    pub fn blocks(&self) -> impl Iterator<Item = &[usize]> {
        let pass = |trial: usize| {
            let id = &self.summaries[trial].trial;
            (id.block, pass(id.attempt), id.scenario.as_str())
        };
        self.completed.chunk_by(move |&a, &b| pass(a) == pass(b))
    }
}

/// The value that most of the given have; the first of them where several are equally frequent, with `false`.
pub(super) fn majority<T: PartialEq>(values: impl Iterator<Item = T>) -> Option<(T, bool)> {
    let mut counts: Vec<(T, usize)> = Vec::new();
    for value in values {
        match counts.iter_mut().find(|(seen, _)| *seen == value) {
            Some((_, count)) => *count += 1,
            None => counts.push((value, 1)),
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max()?;
    let clear = counts.iter().filter(|(_, count)| *count == most).count() == 1;
    counts.into_iter().find(|(_, count)| *count == most).map(|(value, _)| (value, clear))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{experiment, scenario, summaries};
    use super::*;

    #[test]
    fn majorities() {
        assert_eq!(majority([1, 2, 2].into_iter()), Some((2, true)));
        assert_eq!(majority([3, 2].into_iter()), Some((3, false)));
        assert_eq!(majority(std::iter::empty::<u8>()), None);
    }

    /// By scenario, block, attempt, config and replicate, in whatever order they come in.
    #[test]
    fn the_order_of_trials_is_their_own() {
        let mut experiment = experiment();
        experiment.scenarios.push(scenario("drain"));
        (experiment.baseline_replicates, experiment.repetitions) = (2, 2);
        let first = summaries(&experiment);
        let again = first.iter().cloned().map(|mut summary| {
            summary.trial.attempt = 1;
            summary
        });
        let all: Vec<Summary> = first.iter().cloned().chain(again).collect();
        let mut expected = Vec::new();
        for scenario in ["drain", "fill"] {
            for (block, attempt) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                for (config, replicate) in [("base", 0), ("base", 1), ("candidate", 0)] {
                    expected.push((scenario, block, attempt, config, replicate));
                }
            }
        }
        let count = all.len();
        // Seven and 24 have no common factor, so each comes once.
        for order in
            [(0..count).collect::<Vec<_>>(), (0..count).rev().collect(), (0..count).map(|i| i * 7 % count).collect()]
        {
            let given: Vec<&Summary> = order.into_iter().map(|i| &all[i]).collect();
            let view = View::new(&experiment, &given);
            let of = |trials: &[usize]| -> Vec<_> {
                let ids = trials.iter().map(|&trial| &view.summary(trial).trial);
                ids.map(|id| (id.scenario.as_str(), id.block, id.attempt, id.config.as_str(), id.replicate)).collect()
            };
            assert_eq!(of(view.all()), expected);
            assert_eq!(of(view.completed()), expected);
            let blocks: Vec<_> = view.blocks().map(of).collect();
            assert_eq!(blocks, expected.chunks(6).map(<[_]>::to_vec).collect::<Vec<_>>());
        }
    }
}
