//! Generator headroom: the part of what is timed that is the workload's own generator.
//!
//! What the generator takes of the primary role's time is the same under every config, so it hides that part of an effect: at
//! a share of g an effect shows as 1 - g of itself. A difference that is shown stands, since hiding can't make one. What hiding
//! does make smaller is the margin within which nothing was seen: that of Neutral and of non-inferiority. The share is the
//! baseline's: a faster config has a larger one, and must not be punished for it.

use std::collections::BTreeMap;

use assay_protocol::Summary;

use super::view::View;
use super::{Findings, Gate};
use crate::experiment::ConfigUnderTest;
use crate::stats::median;

/// Smallest share that is noted, in percent of the primary role's time.
const SHARE_PERCENT: f64 = 1.0;
/// From here on the making of operations differs between two programs, in percent of the baseline's time per step.
const PROGRAM_PERCENT: f64 = 1.0;

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    let mut shares: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for &trial in view.completed().iter().filter(|&&trial| view.is_baseline(trial)) {
        if findings.trials[trial].is_empty() {
            let summary = view.summary(trial);
            shares.entry(&summary.trial.scenario).or_default().push(summary.primary.generator_percent);
        }
    }
    for (scenario, shares) in shares {
        let Some(percent) = median(&shares) else { continue };
        let share = (percent / 100.0).clamp(0.0, 1.0);
        findings.generator_shares.insert(scenario.to_owned(), share);
        if percent > SHARE_PERCENT {
            let text = format!(
                "In {scenario}, generating operations takes {percent:.1} % of the primary role's time in the baseline's \
                 runs, and hides that share of every effect. Margins of Neutral and of non-inferiority are {:.3} times as \
                 wide there; differences that are shown stand.",
                1.0 - share
            );
            findings.note(Gate::GeneratorHeadroom, None, text);
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

#[cfg(test)]
mod tests {
    use super::super::testing::{codes, experiment, gated_with_all};

    /// The share in `fill`, and what is noted.
    fn found(generator: impl Fn(&str, u32) -> f64) -> (f64, Vec<String>) {
        let gated = gated_with_all(&experiment(), |s| {
            let generator = generator(&s.trial.config, s.trial.block);
            (s.primary.db_percent, s.primary.generator_percent, s.primary.idle_percent) =
                (100.0 - generator, generator, 0.0);
        });
        assert!(gated.trials.iter().all(|state| codes(state).is_empty()), "no run is to blame");
        assert!(gated.scenarios.is_empty() && gated.configs.is_empty() && gated.experiment.is_empty(), "{gated:?}");
        assert_eq!(gated.generator_shares.keys().collect::<Vec<_>>(), ["fill"]);
        (gated.generator_shares["fill"], gated.notes.into_iter().map(|note| note.text).collect())
    }

    #[test]
    fn a_share_above_a_hundredth_is_noted_and_costs_no_run() {
        assert_eq!(found(|_, _| 1.0), (0.01, vec![]));
        let noted = "In fill, generating operations takes 30.0 % of the primary role's time in the baseline's runs, and hides \
                     that share of every effect. Margins of Neutral and of non-inferiority are 0.700 times as wide there; \
                     differences that are shown stand.";
        assert_eq!(found(|_, _| 30.0), (0.3, vec![noted.to_owned()]));
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
    fn the_share_is_the_median_of_the_baseline() {
        assert_eq!(found(|config, _| if config == "candidate" { 60.0 } else { 1.0 }), (0.01, vec![]));
        assert_eq!(found(|config, _| if config == "base" { 60.0 } else { 5.0 }).0, 0.6);
        assert_eq!(found(|_, block| if block < 3 { 60.0 } else { 1.0 }), (0.01, vec![]));
    }
}
