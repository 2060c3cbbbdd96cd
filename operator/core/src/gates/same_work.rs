//! Same work: all runs of a block did the same operations on the same data, got the same answers and removed what was due.

use std::collections::BTreeMap;

use assay_protocol::{Digest, Summary};

use super::view::{View, majority};
use super::{Code, Finding, Findings};
use crate::stats::median;

/// One run that differs can be an accident; so many are the config.
pub(crate) const REPEATED: usize = 2;

/// How removal works is the config's own affair, and so is what it keeps for a while. Of which most is left has not been removed.
const OVERDUE_PERCENT: f64 = 50.0;

/// What must be equal. Engine bytes are not here: they are what configs change.
#[derive(PartialEq)]
struct Work<'a> {
    hash: &'a Digest,
    counts: &'a Digest,
    user_bytes: u64,
    dataset: &'a Digest,
}

impl<'a> Work<'a> {
    fn of(summary: &'a Summary) -> Self {
        let parity = &summary.parity;
        Self { hash: &parity.work, counts: &parity.counts, user_bytes: parity.user_bytes, dataset: &parity.dataset }
    }
}

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    removal(view, findings);
    let mut different: BTreeMap<&str, Vec<(usize, Code, String)>> = BTreeMap::new();
    for block in view.blocks() {
        let baseline = || block.iter().copied().filter(|&trial| view.is_baseline(trial));
        let parity = |trial: usize| &view.summary(trial).parity;
        let Some((expected, agreed)) = majority(baseline().map(|trial| Work::of(view.summary(trial)))) else {
            continue;
        };
        // Absent answers depend on timing and can't be compared.
        let answers = majority(baseline().filter_map(|trial| parity(trial).answers.as_ref()));
        for &trial in block {
            let seen = parity(trial);
            let mut found = difference(&expected, &Work::of(view.summary(trial)));
            if found.is_none()
                && let (Some((expected, _)), Some(own)) = (&answers, &seen.answers)
                && *expected != own
            {
                found =
                    Some((Code::AnswersMismatch, format!("answers digest {own}, but the baseline's is {expected}")));
            }
            if found.is_none() && !agreed && view.is_baseline(trial) {
                // With the baseline at odds with itself nobody can say which of its runs is right.
                found = Some((Code::WorkMismatch, "the baseline's runs in this block did different work".to_owned()));
            }
            if let Some((code, message)) = found {
                different.entry(&view.summary(trial).trial.config).or_default().push((trial, code, message));
            }
        }
    }
    for (config, found) in different {
        let mut trials: Vec<usize> = found.iter().map(|(trial, ..)| *trial).collect();
        trials.sort_unstable();
        trials.dedup();
        if trials.len() >= REPEATED
            && let Some((_, code, message)) = found.first()
        {
            findings.config(config, *code, format!("{} runs differ; first: {message}", trials.len()));
        }
        for (trial, code, message) in found {
            findings.trial(trial, code, message);
        }
    }
}

/// A run whose reads returned something else than was written has failed: that is no mismatch of work, but a fact about its config.
pub fn wrong_answers(summary: &Summary) -> Option<Finding> {
    let wrong = summary.parity.wrong_answers;
    (wrong > 0).then(|| Finding::new(Code::WrongAnswers, format!("{wrong} reads did not return what was written")))
}

/// Whoever removes nothing saves the work of it, and must not be compared with those who do.
fn removal(view: &View<'_>, findings: &mut Findings) {
    let mut overdue: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for &trial in view.completed() {
        let summary = view.summary(trial);
        if let Some(percent) = summary.steady.overdue_percent {
            overdue.entry((&summary.trial.scenario, &summary.trial.config)).or_default().push(percent);
        }
    }
    let baseline = view.experiment.baseline_config().map_or("", |config| config.name.as_str());
    for ((scenario, config), percents) in overdue {
        let Some(percent) = median(&percents).filter(|&percent| percent > OVERDUE_PERCENT) else { continue };
        let message = format!("in {scenario}, {config} kept {percent:.0} % of the data due for removal");
        if config == baseline {
            findings.scenario(scenario, Code::RemovalOverdue, message);
        } else {
            findings.cell(scenario, config, Code::RemovalOverdue, message);
        }
    }
}

fn difference(expected: &Work<'_>, seen: &Work<'_>) -> Option<(Code, String)> {
    if seen.dataset != expected.dataset {
        let message = format!("dataset {} at the start, but the baseline's is {}", seen.dataset, expected.dataset);
        Some((Code::DatasetMismatch, message))
    } else if seen.hash != expected.hash {
        Some((Code::WorkMismatch, format!("workload hash {}, but the baseline's is {}", seen.hash, expected.hash)))
    } else if seen.counts != expected.counts {
        let message = format!("operation counts {}, but the baseline's are {}", seen.counts, expected.counts);
        Some((Code::CountsMismatch, message))
    } else if seen.user_bytes != expected.user_bytes {
        let message = format!("wrote {} user bytes, but the baseline wrote {}", seen.user_bytes, expected.user_bytes);
        Some((Code::UserBytesMismatch, message))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use assay_protocol::{Digest, Summary};

    use super::super::TrialState;
    use super::super::testing::{codes, experiment, gated_with, gated_with_all};
    use super::Code;

    /// What is found when one thing of one run is broken; trial 1 is the candidate of the first block.
    fn broken(change: impl Fn(&mut Summary)) -> Vec<Code> {
        codes(&gated_with(&experiment(), 1, change).trials[1])
    }

    #[test]
    fn every_difference_is_found_and_named() {
        let other = || Digest::of(b"other");
        assert_eq!(broken(|_| ()), []);
        assert_eq!(broken(|s| s.parity.work = other()), [Code::WorkMismatch]);
        assert_eq!(broken(|s| s.parity.counts = other()), [Code::CountsMismatch]);
        assert_eq!(broken(|s| s.parity.user_bytes += 1), [Code::UserBytesMismatch]);
        assert_eq!(broken(|s| s.parity.answers = Some(other())), [Code::AnswersMismatch]);
        // Of a run that read something wrong the work is no matter: it has failed.
        let wrong = gated_with(&experiment(), 1, |s| (s.parity.wrong_answers, s.parity.user_bytes) = (1, 0));
        assert_eq!(wrong.trials[1], TrialState::Failed);
        assert_eq!(broken(|s| s.parity.dataset = other()), [Code::DatasetMismatch]);
        // Unknown answers can't be compared; the other digests still are.
        assert_eq!(broken(|s| s.parity.answers = None), []);
        // The same content in other files is no other work; what else it is, is for another gate.
        assert_eq!(broken(|s| s.parity.dataset_files = other()), [Code::DatasetFilesMismatch]);
    }

    #[test]
    fn once_is_the_run_twice_is_the_config() {
        let experiment = experiment();
        assert!(gated_with(&experiment, 1, |s| s.parity.user_bytes += 1).configs.is_empty());
        let gated = gated_with_all(&experiment, |s| {
            if s.trial.config == "candidate" && s.trial.block < 2 {
                s.parity.user_bytes += 1;
            }
        });
        let found: Vec<Code> = gated.configs["candidate"].iter().map(|finding| finding.code).collect();
        assert_eq!(found, [Code::UserBytesMismatch]);
        assert!(!gated.configs.contains_key("base"));
    }

    #[test]
    fn blocks_are_not_compared_with_each_other() {
        let gated = gated_with_all(&experiment(), |s| s.parity.work = Digest::of(&s.trial.block.to_le_bytes()));
        assert!(gated.trials.iter().all(|state| codes(state).is_empty()));
    }

    #[test]
    fn a_baseline_at_odds_with_itself_can_not_judge() {
        let mut experiment = experiment();
        experiment.baseline_replicates = 2;
        let gated = gated_with_all(&experiment, |s| {
            if s.trial.config == "base" && s.trial.replicate == 1 && s.trial.block == 0 {
                s.parity.user_bytes += 1;
            }
        });
        let invalid = gated.trials.iter().filter(|state| !codes(state).is_empty()).count();
        assert_eq!(invalid, 2, "both runs of the baseline");
    }

    #[test]
    fn who_removes_nothing_is_not_compared() {
        let leaving = |config: &'static str, percent: f64| {
            gated_with_all(&experiment(), |s| {
                s.steady.overdue_percent = Some(if s.trial.config == config { percent } else { 0.0 });
            })
        };
        let gated = leaving("candidate", 50.0);
        assert!(gated.cells.is_empty() && gated.scenarios.is_empty());
        let cell = ("fill".to_owned(), "candidate".to_owned());
        let gated = leaving("candidate", 100.0);
        let codes: Vec<Code> = gated.cells[&cell].iter().map(|finding| finding.code).collect();
        assert_eq!(codes, [Code::RemovalOverdue]);
        assert!(gated.scenarios.is_empty());
        assert!(leaving("base", 100.0).scenarios.contains_key("fill"), "without a baseline there is no comparison");
    }
}
