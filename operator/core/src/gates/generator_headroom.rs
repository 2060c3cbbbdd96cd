//! Generator headroom: the workload's own generator is a small part of what is timed.
//!
//! What the generator takes of the primary role's time is the same under every config, so it hides that part of an effect: at
//! a share of g an effect shows as 1 - g of itself. That makes harm look smaller than its margin, and configs look
//! alike. Only the baseline is asked: a faster config has a larger share, and must not be punished for it.

use std::collections::BTreeMap;

use assay_protocol::{Summary, Workload};

use super::view::View;
use super::{Code, Findings, Gate};
use crate::experiment::ConfigUnderTest;
use crate::stats::median;

/// At most a tenth of an effect may be hidden. Margins are of a few percent, so that changes none by more than a
/// fraction of a percent.
pub(super) const PERCENT: f64 = 10.0;
/// From here on the making of operations differs between two programs, in percent of the baseline's time per step.
const PROGRAM_PERCENT: f64 = 1.0;
/// Half of that where a workload stands for a real system, whose steps are long enough to hide their making.
pub(super) const SYSTEM_PERCENT: f64 = 5.0;

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    let mut shares: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for &trial in view.completed().iter().filter(|&&trial| view.is_baseline(trial)) {
        if findings.trials[trial].is_empty() {
            let summary = view.summary(trial);
            shares.entry(&summary.trial.scenario).or_default().push(summary.primary.generator_percent);
        }
    }
    for (scenario, shares) in shares {
        let limit = view.experiment.scenario(scenario).map_or(PERCENT, |scenario| limit(&scenario.workload));
        if let Some(share) = median(&shares).filter(|&share| share > limit) {
            let message = format!(
                "in {scenario}, generating operations takes {share:.1} % of the primary role's time (limit \
                 {limit:.0} %: it hides that share of every effect)"
            );
            findings.scenario(scenario, Code::GeneratorBound, message);
        }
    }
    other_programs(view, findings);
}

/// Two programs may differ in more than their RocksDB. What one of them takes longer to make operations is an effect as well, and
/// nobody would look for it there.
fn other_programs(view: &View<'_>, findings: &mut Findings) {
    let image = |config: &ConfigUnderTest| config.image.clone();
    let Some(baseline) = view.experiment.baseline_config() else { return };
    for config in view.experiment.configs.iter().filter(|config| image(config) != image(baseline)) {
        for scenario in &view.experiment.scenarios {
            // Steps take as much time as their rate says: per step, a share of that.
            let per_step = |name: &str, percent: fn(&Summary) -> f64| {
                let trials = view.completed().iter().map(|&trial| view.summary(trial));
                let own = trials.filter(|s| s.trial.config == name && s.trial.scenario == scenario.name);
                let times =
                    own.filter_map(|s| Some(percent(s) / s.metrics.get("throughput").filter(|&&rate| rate > 0.0)?));
                median(&times.collect::<Vec<_>>())
            };
            let generator = |name: &str| per_step(name, |s| s.primary.generator_percent);
            let (Some(own), Some(there), Some(step)) =
                (generator(&config.name), generator(&baseline.name), per_step(&baseline.name, |_| 100.0))
            else {
                continue;
            };
            let percent = 100.0 * (own - there) / step;
            if percent.abs() > PROGRAM_PERCENT {
                let more = if percent > 0.0 { "more" } else { "less" };
                let text = format!(
                    "In {}, its program takes {more} time than {}'s to generate operations, by {:.1} % of {}'s time \
                     per step. That part of an effect is not RocksDB's. Compare evidence.build of their records.",
                    scenario.name,
                    baseline.name,
                    percent.abs(),
                    baseline.name,
                );
                findings.note(Gate::GeneratorHeadroom, Some(&config.name), text);
            }
        }
    }
}

fn limit(workload: &Workload) -> f64 {
    if workload.kind().real_size().is_some() { SYSTEM_PERCENT } else { PERCENT }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{codes, experiment, gated_with_all};
    use super::*;

    fn found(generator: impl Fn(&str, u32) -> f64) -> Vec<Code> {
        let gated = gated_with_all(&experiment(), |s| {
            s.primary.generator_percent = generator(&s.trial.config, s.trial.block);
            s.primary.db_percent = 100.0 - s.primary.generator_percent;
        });
        assert!(gated.trials.iter().all(|state| codes(state).is_empty()), "no run is to blame");
        gated.scenarios.get("fill").into_iter().flatten().map(|finding| finding.code).collect()
    }

    #[test]
    fn the_baseline_must_not_wait_for_its_generator() {
        assert_eq!(found(|_, _| 10.0), []);
        assert_eq!(found(|_, _| 10.1), [Code::GeneratorBound]);
    }

    #[test]
    fn what_another_program_takes_longer_by_itself_is_told() {
        let notes = |image: Option<&str>, generator: f64, rate: f64| -> Vec<String> {
            let mut experiment = experiment();
            experiment.configs[1].image = image.map(str::to_owned);
            let gated = gated_with_all(&experiment, |s| {
                let is_other = s.trial.config == "candidate";
                s.primary.generator_percent = if is_other { generator } else { 4.0 };
                // Powers of two keep shares of steps exact.
                s.metrics.insert("throughput".to_owned(), if is_other { rate } else { 1024.0 });
            });
            let notes = gated.notes.into_iter().filter(|note| note.text.contains("generate operations"));
            notes.map(|note| format!("{}: {}", note.config.unwrap_or_default(), note.text)).collect()
        };
        // A twenty-fifth of the baseline's step, and a fifth of one that takes twice as long.
        assert_eq!(
            notes(Some("other"), 20.0, 512.0),
            ["candidate: In fill, its program takes more time than base's to generate operations, by 36.0 % of \
              base's time per step. That part of an effect is not RocksDB's. Compare evidence.build of their \
              records."]
        );
        // A faster RocksDB leaves a larger share to the same generator.
        assert_eq!(notes(Some("other"), 8.0, 2048.0), [""; 0]);
        assert_eq!(notes(None, 20.0, 512.0), [""; 0], "the same program");
        // A hundredth of the baseline's step is the most that is noise.
        assert_eq!(notes(Some("other"), 5.0, 1024.0), [""; 0]);
        assert!(
            notes(Some("other"), 5.5, 1024.0)[0]
                .contains("takes more time than base's to generate operations, by 1.5 %")
        );
        assert!(
            notes(Some("other"), 2.0, 1024.0)[0]
                .contains("takes less time than base's to generate operations, by 2.0 %")
        );
        assert_eq!(notes(Some("other"), 20.0, 0.0), [""; 0], "without steps there is no time of one");
    }

    #[test]
    fn a_workload_of_a_real_system_hides_less() {
        assert_eq!(limit(&experiment().scenarios[0].workload), 10.0);
        let ethrex = serde_json::json!({"ethrex": {"blocks": 1000, "accounts": 440_000, "storageSlots": 2_090_000}});
        let ethrex: Workload = serde_json::from_value(ethrex).unwrap_or_else(|error| unreachable!("{error}"));
        assert_eq!(limit(&ethrex), 5.0);
    }

    #[test]
    fn a_fast_config_is_not_punished_and_one_run_decides_nothing() {
        assert_eq!(found(|config, _| if config == "candidate" { 60.0 } else { 5.0 }), []);
        assert_eq!(found(|config, _| if config == "base" { 60.0 } else { 5.0 }), [Code::GeneratorBound]);
        assert_eq!(found(|_, block| if block < 3 { 60.0 } else { 5.0 }), []);
    }
}
