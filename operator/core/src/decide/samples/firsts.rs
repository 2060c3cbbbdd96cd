//! First attempts: what each run would have been if nothing had been run again ("First attempts").
//!
//! A run is repeated if something disturbed it, or its block took too long. If a config's slow runs are the ones that are repeated, what
//! counts in the end are its fast ones. So nothing good is claimed that first attempts don't show as well, each with the CPU time that others
//! took from it given back.

use std::collections::BTreeMap;

use assay_protocol::{Summary, metric};

use super::{Samples, value};
use crate::decide::{Fate, Places};
use crate::gates::{Note, share_taken};
use crate::stats::Direction;
use crate::verdict::{Design, MetricRule};

/// The numbers of a run of the plan: its scenario, block, config (none for the baseline) and replicate.
type Run = (usize, usize, Option<usize>, u32);

/// The most of a run's time that is given back: a larger share is not known well enough.
const MOST: f64 = 0.5;

/// A first attempt that measured something.
struct First<'a> {
    number: u32,
    position: usize,
    summary: &'a Summary,
    is_disturbed: bool,
}

impl First<'_> {
    /// The attempt's value of a metric. If it was disturbed, a rate or a time is corrected for the CPU time that other programs took, but is
    /// no better than `instead`, the value of an undisturbed run in its place.
    fn value(&self, rule: &MetricRule, instead: impl FnOnce() -> Option<f64>) -> Option<f64> {
        let measured = value(self.summary, rule)?;
        if !self.is_disturbed || !metric(&rule.name).is_some_and(|info| info.is_time) {
            return Some(measured);
        }
        let left = 1.0 - share_taken(self.summary).unwrap_or(0.0).min(MOST);
        let instead = instead();
        Some(match rule.direction {
            Direction::Higher => (measured / left).min(instead.unwrap_or(f64::INFINITY)),
            Direction::Lower => (measured * left).max(instead.unwrap_or(0.0)),
        })
    }
}

impl Samples {
    pub(super) fn firsts(&mut self, places: &Places<'_>, design: &Design, positions: &[usize]) {
        let mut firsts: BTreeMap<Run, First<'_>> = BTreeMap::new();
        for (index, attempt) in places.attempts().iter().enumerate() {
            let id = attempt.trial();
            let config = design.configs.iter().position(|config| *config == id.config);
            let scenario = design.scenarios.iter().position(|scenario| scenario.name == id.scenario);
            let (Some(scenario), Some(summary)) = (scenario, places.summary(index)) else { continue };
            let (is_measured, is_disturbed) = match places.fate(index) {
                Fate::Used | Fate::BlockInterrupted => (true, false),
                Fate::Invalid(found) => (found.iter().all(|finding| finding.gate.is_about_circumstances()), true),
                // Too good to count for its config, and too good to leave out of what that is compared with.
                Fate::Held(_) => (config.is_none(), false),
                Fate::Failed | Fate::Lost(_) | Fate::Superseded => (false, false),
            };
            if is_measured {
                let own = First { number: id.attempt, position: positions[index], summary, is_disturbed };
                let run = (scenario, id.block as usize, config, id.replicate);
                if firsts.get(&run).is_none_or(|first| own.number < first.number) {
                    firsts.insert(run, own);
                }
            }
        }
        let mut all = self.observed.samples.clone();
        let mut all_positions = self.observed.positions.clone();
        let mut others: BTreeMap<Option<usize>, usize> = BTreeMap::new();
        for (&(scenario, block, config, replicate), first) in &firsts {
            let mut is_other = false;
            if let Some(place) = all_positions[scenario].run_mut(config, block, replicate) {
                *place = Some(first.position as f64);
            }
            let counted = &self.observed.samples[scenario];
            for ((samples, rule), counted) in all[scenario].iter_mut().zip(&design.metrics).zip(counted) {
                let Some(place) = samples.run_mut(config, block, replicate) else { continue };
                let Some(value) = first.value(rule, || place.or_else(|| counted.median(config))) else { continue };
                is_other |= *place != Some(value);
                *place = Some(value);
            }
            *others.entry(config).or_default() += usize::from(is_other);
        }
        if all == self.observed.samples {
            return;
        }
        self.observed.firsts = all;
        self.observed.first_positions = all_positions;
        if !places.is_complete() {
            return;
        }
        let baseline = others.get(&None).copied().unwrap_or(0);
        for (config, name) in design.configs.iter().enumerate() {
            let own = others.get(&Some(config)).copied().unwrap_or(0);
            if own + baseline > 0 {
                let text = format!(
                    "Claims in its favor must also hold if the first attempt of each run counts: that differs for {own} of \
                     its own and {baseline} of the baseline's."
                );
                self.notes.insert(Note::new(Some(name), text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use assay_protocol::Summary;

    use crate::attempt::{Attempt, TRIES};
    use crate::experiment::Experiment;
    use crate::gates::testing::{experiment, plan, summaries};
    use crate::judge::judge;
    use crate::report::Report;

    /// Judges runs with these attempts at each: its number, its throughput, and whether it was disturbed.
    fn judged(tries: impl Fn(&Summary, f64) -> Vec<(u32, f64, bool)>) -> (String, Report) {
        judged_in(&experiment(), tries)
    }

    fn judged_in(experiment: &Experiment, tries: impl Fn(&Summary, f64) -> Vec<(u32, f64, bool)>) -> (String, Report) {
        let mut attempts = Vec::new();
        for good in summaries(experiment) {
            let usual = good.metrics["throughput"];
            for (number, throughput, disturbed) in tries(&good, usual) {
                let mut run = good.clone();
                run.trial.attempt = number;
                run.metrics.insert("throughput".to_owned(), throughput);
                if disturbed {
                    run.disturbance.clock_step_seconds = Some(9.0);
                }
                attempts.push(Attempt::Finished(run.into()));
            }
        }
        let report = judge(&plan(experiment), &attempts).unwrap_or_else(|error| unreachable!("{error}"));
        (format!("{:?} {}", report.configs[0].ruling.verdict, report.configs[0].ruling.reason), report)
    }

    fn is_candidate(summary: &Summary, blocks: &[u32]) -> bool {
        summary.trial.config == "candidate" && blocks.contains(&summary.trial.block)
    }

    fn gain(summary: &Summary, usual: f64) -> f64 {
        if summary.trial.config == "candidate" { 1.2 * usual } else { usual }
    }

    #[test]
    fn a_run_that_is_repeated_until_it_is_fast_was_slow() {
        let repeated = |first: f64| {
            judged(move |summary, usual| {
                let value = gain(summary, usual);
                let again = is_candidate(summary, &[1, 6]);
                if again { vec![(0, first * value, true), (1, value, false)] } else { vec![(0, value, false)] }
            })
        };
        assert_eq!(repeated(0.4).0, "Inconclusive Underpowered");
        let (verdict, report) = repeated(1.0);
        assert_eq!(verdict, "Win Better:throughput");
        assert!(!report.notes.iter().any(|note| note.text.starts_with("Claims in its favor")));
        assert!(repeated(0.4).1.notes.iter().any(|note| note.text.ends_with("2 of its own and 0 of the baseline's.")));
    }

    #[test]
    fn the_first_try_is_that_of_the_lowest_number_and_of_two_the_first() {
        let tried = |tries: fn(f64) -> Vec<(u32, f64, bool)>| {
            let tries = move |summary: &Summary, usual: f64| {
                let value = gain(summary, usual);
                if is_candidate(summary, &[1, 6]) { tries(value) } else { vec![(0, value, false)] }
            };
            judged(tries).0
        };
        let (slow, fast) = ("Inconclusive Underpowered", "Win Better:throughput");
        assert_eq!(tried(|value| vec![(1, value, false), (0, 0.4 * value, true)]), slow);
        assert_eq!(tried(|value| vec![(0, 0.4 * value, true), (0, value, true), (1, value, false)]), slow);
        assert_eq!(tried(|value| vec![(0, value, true), (0, 0.4 * value, true), (1, value, false)]), fast);
    }

    #[test]
    fn only_who_was_tried_again_is_told_so() {
        let mut experiment = experiment();
        let mut same = experiment.configs[1].clone();
        same.name = "same".to_owned();
        experiment.configs.push(same);
        let told = |config: &'static str| {
            let (_, report) = judged_in(&experiment, |summary, usual| {
                let again = summary.trial.config == config && summary.trial.block == 2;
                if again { vec![(0, 0.9 * usual, true), (1, usual, false)] } else { vec![(0, usual, false)] }
            });
            let notes = report.notes.into_iter().filter(|note| note.text.starts_with("Claims in its favor"));
            notes.filter_map(|note| note.config).collect::<Vec<_>>()
        };
        assert_eq!(told("candidate"), ["candidate"]);
        // Who is compared with it is concerned.
        assert_eq!(told("base"), ["candidate", "same"]);
    }

    /// Both arms alike: the blocks that are slow on either side say nothing about one of them.
    #[test]
    fn what_disturbs_both_arms_alike_takes_no_win() {
        let (verdict, _) = judged(|summary, usual| {
            let value = gain(summary, usual);
            if summary.trial.block == 2 {
                vec![(0, 0.4 * value, true), (1, value, false)]
            } else {
                vec![(0, value, false)]
            }
        });
        assert_eq!(verdict, "Win Better:throughput");
    }

    #[test]
    fn a_block_that_is_repeated_for_a_slow_run_had_it() {
        let overdue = |first: f64| {
            judged(move |summary, usual| {
                let value = gain(summary, usual);
                match (summary.trial.block, is_candidate(summary, &[1, 6])) {
                    (1 | 6, true) => vec![(0, first * value, false), (TRIES, value, false)],
                    (1 | 6, false) => vec![(TRIES, value, false)],
                    _ => vec![(0, value, false)],
                }
            })
        };
        assert_eq!(overdue(1.0).0, "Win Better:throughput");
        assert_eq!(overdue(0.25).0, "Inconclusive Underpowered");
    }

    /// A run that is held back for being too good can't be left out of what a config is compared with.
    #[test]
    fn the_baseline_keeps_its_best_runs() {
        let fast = |config: &'static str| {
            judged(move |summary, usual| {
                let is_fast = summary.trial.config == config && [1, 6].contains(&summary.trial.block);
                vec![(0, if is_fast { 4.0 * usual } else { gain(summary, usual) }, false)]
            })
        };
        assert_eq!(fast("base").0, "Inconclusive Underpowered");
        let (verdict, report) = fast("candidate");
        assert_eq!((verdict.as_str(), report.configs[0].ruling.estimates[0].blocks), ("Win Better:throughput", 6));
    }
}
