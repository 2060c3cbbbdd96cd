//! Attrition: what is left of a config's runs may not be typical when too many gave no measurement, or when more of
//! them were invalid than of the baseline's, so that the config itself seems to decide which runs count ("Attrition").

use std::collections::BTreeMap;

use super::Samples;
use crate::decide::{Fate, Place, Places};
use crate::gates::{Code, Finding, attrition};
use crate::stats::{ALPHA, fisher_two_sided};
use crate::verdict::{Design, Scope, unstable};

/// How the places of an arm in one scenario ended.
#[derive(Clone, Copy, Default)]
struct Tally {
    planned: usize,
    measured: usize,
    failed: usize,
}

impl Samples {
    pub(super) fn attrition(&mut self, places: &Places<'_>, design: &Design) {
        if !self.observed.invalid.is_empty() && places.is_over() {
            return;
        }
        for ((scenario, arm), message) in missing(places, design).into_iter().chain(uneven(places, design)) {
            let config = design.configs.iter().position(|name| *name == arm);
            let known = config.is_some_and(|config| self.is_unstable(scenario, config));
            if known || places.gated().configs.contains_key(&arm) {
                continue;
            }
            let finding = Finding::new(Code::Attrition, message);
            if let Some(config) = config {
                self.mark(Scope::Cell { scenario, config }, Code::Attrition);
                self.findings.entry(arm).or_default().push(finding);
            } else {
                self.mark(Scope::Scenario(scenario), Code::Attrition);
                self.baseline_findings.push(finding);
            }
        }
    }

    /// Whether failures are enough for a verdict of their own, which says more than that runs are missing.
    fn is_unstable(&self, scenario: usize, config: usize) -> bool {
        let counts = &self.observed.attempts[scenario];
        unstable(counts.configs[config], counts.baseline)
    }
}

/// A scenario's position and an arm, with what is wrong about it.
type Found = ((usize, String), String);

/// Arms of which too many places stayed empty.
fn missing(places: &Places<'_>, design: &Design) -> Vec<Found> {
    let mut tallies: BTreeMap<(usize, &str), Tally> = BTreeMap::new();
    for (planned, state) in places.plan().blocks.iter().zip(places.blocks()) {
        let Some(scenario) = design.scenarios.iter().position(|s| s.name == planned.scenario) else { continue };
        for (slot, place) in planned.slots.iter().zip(&state.places).filter(|(_, place)| **place != Place::Freed) {
            let is_baseline = !design.configs.contains(&slot.config);
            let tally = tallies.entry((scenario, slot.config.as_str())).or_default();
            tally.planned += 1;
            tally.failed += usize::from(matches!(place, Place::Failed(_)));
            // That a block's baseline is lost says nothing about the other configs: they were not run to their end.
            let excused = state.is_lost() && !is_baseline;
            tally.measured += usize::from(matches!(place, Place::Valid(_)) || excused);
        }
    }
    let too_many =
        tallies.into_iter().filter(|(_, tally)| attrition::too_many(tally.planned - tally.measured, tally.planned));
    too_many
        .map(|((scenario, arm), tally)| {
            let message = format!(
                "{} of {} runs of {arm} in {} gave no measurement, {} of them failed under the config",
                tally.planned - tally.measured,
                tally.planned,
                design.scenarios[scenario].name,
                tally.failed
            );
            ((scenario, arm.to_owned()), message)
        })
        .collect()
}

/// Configs whose runs were invalid more often, or less, than the baseline's beside them. Reruns that count don't mend that:
/// which run counts was not left to chance.
fn uneven(places: &Places<'_>, design: &Design) -> Vec<Found> {
    let mut counts: BTreeMap<(usize, &str), (u32, u32)> = BTreeMap::new();
    for (index, attempt) in places.attempts().iter().enumerate() {
        let id = attempt.trial();
        let Some(scenario) = design.scenarios.iter().position(|s| s.name == id.scenario) else { continue };
        // What failed under its config or was lost was not judged by any gate.
        let invalid = match places.fate(index) {
            Fate::Invalid(_) => true,
            Fate::Used | Fate::Held(_) | Fate::BlockInterrupted | Fate::Superseded => false,
            Fate::Failed | Fate::Lost(_) => continue,
        };
        let (bad, good) = counts.entry((scenario, id.config.as_str())).or_default();
        if invalid {
            *bad += 1;
        } else {
            *good += 1;
        }
    }
    let baseline = places.plan().experiment.baseline_config().map_or("", |config| config.name.as_str());
    let of = |arm: (usize, &str)| counts.get(&arm).copied().unwrap_or_default();
    let cells = (0..design.scenarios.len()).flat_map(|s| design.configs.iter().map(move |config| (s, config.as_str())));
    cells
        .filter_map(|(scenario, config)| {
            let (own, base) = (of((scenario, config)), of((scenario, baseline)));
            let p = fisher_two_sided(own, base);
            (p < ALPHA).then(|| {
                let message = format!(
                    "{} of {} runs of {config} in {} were invalid, and {} of {} of the baseline's: p = {p:.3} if only chance \
                     chose them",
                    own.0,
                    own.0 + own.1,
                    design.scenarios[scenario].name,
                    base.0,
                    base.0 + base.1,
                );
                ((scenario, config.to_owned()), message)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use assay_protocol::Summary;

    use crate::attempt::{Attempt, Lost, LostReason};
    use crate::gates::testing::{experiment, plan, summaries};
    use crate::judge::judge;
    use crate::report::Report;

    /// Judges runs of which some were invalid at first and then run again. The answer says how often each was.
    fn judged(tries: impl Fn(&Summary) -> u32) -> Report {
        let experiment = experiment();
        let mut attempts = Vec::new();
        for good in summaries(&experiment) {
            let tries = tries(&good);
            for attempt in 0..=tries {
                let mut run = good.clone();
                run.trial.attempt = attempt;
                if attempt < tries {
                    run.disturbance.memory_pressure_full_percent = Some(9.0);
                }
                attempts.push(Attempt::Finished(run.into()));
            }
        }
        judge(&plan(&experiment), &attempts).unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn verdict(report: &Report) -> String {
        format!("{:?} {}", report.configs[0].ruling.verdict, report.configs[0].ruling.reason)
    }

    #[test]
    fn reruns_do_not_hide_that_a_config_is_invalid_more_often() {
        let often = |count: u32| judged(move |s| u32::from(s.trial.config == "candidate" && s.trial.block < count));
        // 4 of 12 against 0 of 8 is chance, 8 of 16 is not.
        assert_eq!(verdict(&often(4)), "Neutral Equivalent");
        let uneven = often(8);
        assert_eq!(verdict(&uneven), "Invalid Attrition in fill");
        assert_eq!(uneven.progress.trials_valid, 16, "every place has its run");
        let message = &uneven.configs[0].findings[0].message;
        assert_eq!(
            message,
            "8 of 16 runs of candidate in fill were invalid, and 0 of 8 of the baseline's: p = 0.022 if only chance chose them"
        );
    }

    #[test]
    fn what_disturbs_all_alike_says_nothing_about_a_config() {
        assert_eq!(verdict(&judged(|_| 1)), "Neutral Equivalent");
        // As telling in the other direction.
        assert_eq!(verdict(&judged(|s| u32::from(s.trial.config == "base"))), "Invalid Attrition in fill");
    }

    #[test]
    fn running_out_of_memory_is_a_failure_without_a_record() {
        let experiment = experiment();
        let attempts: Vec<Attempt> = summaries(&experiment)
            .into_iter()
            .map(|summary| {
                if summary.trial.config == "base" || summary.trial.block > 5 {
                    return Attempt::Finished(summary.into());
                }
                Attempt::Lost(Lost {
                    plan: plan(&experiment).digest,
                    trial: summary.trial,
                    started_unix_ms: summary.started_unix_ms,
                    boot: summary.parity.boot,
                    reason: LostReason::OutOfMemory,
                    message: "the kernel killed it".to_owned(),
                })
            })
            .collect();
        let report = judge(&plan(&experiment), &attempts).unwrap_or_else(|error| unreachable!("{error}"));
        assert_eq!(verdict(&report), "Reject Unstable");
        assert_eq!((report.progress.failed, report.progress.lost), (6, 0));
        assert_eq!((report.cells[0].runs, report.cells[0].failed), (8, 6));
    }
}
