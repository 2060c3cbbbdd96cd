//! Steady: runs start from the same tree with no work left over, and what changes while they are measured is said.
//!
//! Data of one format are made once and cloned, so their files must be equal, and nothing may still be compacting when
//! the warm-up begins. What a config's own warm-up does to the tree is its doing and no fault. Drift, debt and odd
//! durations make nobody's run invalid either: a stall is what is measured. They are notes.

use std::collections::{BTreeMap, BTreeSet};

use assay_protocol::{EngineConfig, Summary, metric};

use super::view::{View, majority};
use super::{Code, Finding, Findings, Gate, Label, named};
use crate::experiment::Experiment;
use crate::plan::format_of;
use crate::stats::{median, robust_limit, robust_z};

/// From here on the two halves of a window measure different things.
const DRIFT_PERCENT: f64 = 20.0;
/// Debt at the start that differs by this share of what the window writes can change what it measures.
const DEBT_SHARE: f64 = 0.1;
/// Of normal noise, this share of experiments has an odd duration; nobody minds one that is nearer to the others than the factor. It takes
/// some runs to know what is usual.
pub(super) const ODD: f64 = 0.01;
const ODD_FACTOR: f64 = 1.1;
const FEWEST_DURATIONS: usize = 8;

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    files(view, findings);
    for &trial in view.completed() {
        let summary = view.summary(trial);
        let unknown = [
            (summary.steady.settled_before.is_none(), "background work before the run"),
            (summary.steady.debt_in_bytes.is_none(), "compaction due at the start"),
        ];
        findings.unknown(Gate::Steady, named(unknown));
        let unsettled = summary.steady.settled_before == Some(false);
        // Without automatic compaction what is due stays due, and nothing runs.
        if unsettled
            && !view.config(trial).is_some_and(|config| sets(&config.engine, "disable_auto_compactions", "true"))
        {
            findings.trial(trial, Code::NotSettled, "flushes or compactions were still pending when the warm-up began");
        }
    }
    suspects(view, findings);
}

/// Runs of a block whose data have the same format must start from the same files.
fn files(view: &View<'_>, findings: &mut Findings) {
    let formats = formats(view.experiment);
    for block in view.blocks() {
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &trial in block {
            let id = &view.summary(trial).trial;
            if let Some(&format) = formats.get(&(id.scenario.as_str(), id.config.as_str())) {
                groups.entry(format).or_default().push(trial);
            }
        }
        for trials in groups.into_values() {
            let files = |&trial: &usize| &view.summary(trial).parity.dataset_files;
            let standard = majority(trials.iter().filter(|&&trial| view.is_baseline(trial)).map(files));
            let Some((expected, _)) = standard.or_else(|| majority(trials.iter().map(files))) else { continue };
            for &trial in trials.iter().filter(|&trial| files(trial) != expected) {
                let message = format!("started from files {}, but others of its format from {expected}", files(&trial));
                findings.trial(trial, Code::DatasetFilesMismatch, message);
            }
        }
    }
}

/// Which format the data of each scenario and config have, as a number within the scenario. Another program prepares its own: what
/// differs may be how it writes them.
fn formats(experiment: &Experiment) -> BTreeMap<(&str, &str), usize> {
    let mut formats = BTreeMap::new();
    for scenario in &experiment.scenarios {
        let mut known = Vec::new();
        for config in &experiment.configs {
            let format = (format_of(experiment, scenario, config), &config.image);
            let number = known.iter().position(|other| *other == format).unwrap_or_else(|| {
                known.push(format);
                known.len() - 1
            });
            formats.insert((scenario.name.as_str(), config.name.as_str()), number);
        }
    }
    formats
}

fn sets(engine: &EngineConfig, name: &str, value: &str) -> bool {
    let families = engine.column_families.iter().map(|entry| &entry.options);
    families.chain([&engine.db_options]).any(|options| options.get(name).is_some_and(|found| found == value))
}

/// What makes the runs of an arm look odd.
fn suspects(view: &View<'_>, findings: &mut Findings) {
    let mut arms: BTreeMap<(&str, &str), Vec<&Summary>> = BTreeMap::new();
    for &trial in view.completed().iter().filter(|&&trial| findings.trials[trial].is_empty()) {
        let summary = view.summary(trial);
        arms.entry((&summary.trial.scenario, &summary.trial.config)).or_default().push(summary);
    }
    let baseline = view.experiment.baseline_config().map_or("", |config| config.name.as_str());
    for (&(scenario, config), runs) in &arms {
        let drifts: Vec<f64> = runs.iter().filter_map(|run| run.steady.drift_percent).collect();
        if let Some(drift) = median(&drifts).filter(|drift| drift.abs() > DRIFT_PERCENT) {
            let text = format!(
                "Suspect: in {scenario}, the rate changes by {drift:+.0} % from the first to the second half of the \
                 window. Use a longer warm-up or more steps to measure a steady state."
            );
            findings.note(Gate::Steady, Some(config), text);
        }
        if let Some(base) = arms.get(&(scenario, baseline)).filter(|_| config != baseline) {
            debt(scenario, config, runs, base, findings);
        }
        let odd = odd_durations(runs, view.completed().len());
        if odd > 0 {
            let text = format!(
                "Suspect: in {scenario}, {odd} of {} runs took far longer or shorter than the others.",
                runs.len()
            );
            findings.note(Gate::Steady, Some(config), text);
        }
    }
    if let Some(text) = own_drain(&arms) {
        findings.labels.insert(Label::OwnDebt, text);
    }
}

/// Who is drained by other rules than the baseline.
fn own_drain(arms: &BTreeMap<(&str, &str), Vec<&Summary>>) -> Option<String> {
    let own = arms.iter().filter(|(_, runs)| runs.iter().any(|run| run.steady.own_drain));
    let configs: BTreeSet<&str> = own.map(|(&(_, config), _)| config).collect();
    (!configs.is_empty()).then(|| {
        format!(
            "{}: when compaction is due depends on options that differ from the baseline's and that RocksDB does not change in an \
             open database (ownTriggers in records), so the drain follows the config's own rules there. Compaction that these \
             postpone further is not counted.",
            configs.into_iter().collect::<Vec<_>>().join(", ")
        )
    })
}

/// What a window pays for compaction that the warm-up left, and does not leave to others in turn.
fn debt(scenario: &str, config: &str, own: &[&Summary], base: &[&Summary], findings: &mut Findings) {
    let middle = |runs: &[&Summary]| {
        let paid = |run: &&Summary| Some(run.steady.debt_in_bytes? as f64 - run.steady.debt_out_bytes? as f64);
        median(&runs.iter().filter_map(paid).collect::<Vec<f64>>())
    };
    let written =
        median(&own.iter().filter_map(|run| Some(run.engagement.user_bytes_written? as f64)).collect::<Vec<_>>());
    let (Some(own), Some(base), Some(written)) = (middle(own), middle(base), written) else { return };
    if (own.max(0.0) - base.max(0.0)).abs() > DEBT_SHARE * written {
        const MIB: f64 = (1 << 20) as f64;
        let text = format!(
            "Suspect: in {scenario}, the window does {:.0} MiB of compaction that the warm-up left, the baseline's {:.0} MiB; a \
             longer warm-up would measure a steady state.",
            own.max(0.0) / MIB,
            base.max(0.0) / MIB
        );
        findings.note(Gate::Steady, Some(config), text);
    }
}

/// Runs of an arm, of so many in the experiment, that took far longer or shorter than the others.
fn odd_durations(runs: &[&Summary], all: usize) -> usize {
    if runs.len() < FEWEST_DURATIONS {
        return 0;
    }
    let durations: Vec<f64> = runs.iter().map(|run| run.window_seconds).collect();
    let limit = robust_limit(durations.len(), ODD / all as f64);
    let usual = median(&durations).unwrap_or_default();
    let is_odd = |(z, seconds): &(f64, &f64)| z.abs() > limit && (*seconds / usual).ln().abs() > ODD_FACTOR.ln();
    robust_z(&durations).into_iter().zip(&durations).filter(is_odd).count()
}

/// Whether a run's value of a latency is only the end of its histogram's range. The run itself is sound: the metric is missing
/// in it, which leaves a guardrail open instead of passing it.
pub fn saturated(summary: &Summary, name: &str) -> Option<Finding> {
    let steps = summary.steady.saturated_steps;
    let info = metric(name).filter(|info| info.name.starts_with("step_latency"))?;
    let all = summary.metrics.get("throughput").map_or(0.0, |rate| rate * summary.window_seconds);
    // A quantile below the saturated tail is as good as ever; a mean is not.
    let tail = info.quantile.map_or(0.0, |quantile| (1.0 - quantile) * all);
    (steps > 0 && steps as f64 >= tail)
        .then(|| Finding::new(Code::HdrSaturated, format!("{name}: {steps} steps exceeded the histogram's range")))
}

#[cfg(test)]
mod tests {
    use assay_protocol::{Digest, FamilyOptions};

    use super::super::Gated;
    use super::super::testing::{codes, experiment, gated_with, gated_with_all, summaries};
    use super::*;

    fn notes(gated: &Gated) -> Vec<String> {
        assert!(gated.trials.iter().all(|state| codes(state).is_empty()), "a suspect is no convict");
        gated.notes.iter().map(|note| note.text.clone()).collect()
    }

    #[test]
    fn files_are_equal_within_a_format() {
        let mut experiment = experiment();
        let other = |s: &mut Summary| s.parity.dataset_files = Digest::of(b"other");
        // Memtables are no format: base and candidate have the same.
        assert_eq!(codes(&gated_with(&experiment, 1, other).trials[1]), [Code::DatasetFilesMismatch]);
        let gated = gated_with(&experiment, 0, other);
        assert_eq!(codes(&gated.trials[1]), [Code::DatasetFilesMismatch], "the baseline is the standard");
        let by_block =
            gated_with_all(&experiment, |s| s.parity.dataset_files = Digest::of(&s.trial.block.to_le_bytes()));
        assert!(by_block.trials.iter().all(|state| codes(state).is_empty()));
        // Another compression is another format, with files of its own.
        experiment.configs[1].engine.column_families = vec![FamilyOptions {
            r#match: vec!["*".to_owned()],
            options: [("compression".to_owned(), "kZSTD".to_owned())].into(),
        }];
        assert_eq!(codes(&gated_with(&experiment, 1, other).trials[1]), []);
        // And so has another program.
        experiment.configs[1].engine.column_families.clear();
        assert_eq!(codes(&gated_with(&experiment, 1, other).trials[1]), [Code::DatasetFilesMismatch]);
        experiment.configs[1].image = Some("bench:patched".to_owned());
        assert_eq!(codes(&gated_with(&experiment, 1, other).trials[1]), []);
    }

    #[test]
    fn a_tree_that_is_still_working_is_no_start() {
        let mut experiment = experiment();
        let due = |s: &mut Summary| s.steady.settled_before = Some(false);
        assert_eq!(codes(&gated_with(&experiment, 1, due).trials[1]), [Code::NotSettled]);
        assert_eq!(codes(&gated_with(&experiment, 1, |s| s.steady.settled_before = None).trials[1]), []);
        let never = FamilyOptions {
            r#match: vec!["*".to_owned()],
            options: [("disable_auto_compactions".to_owned(), "true".to_owned())].into(),
        };
        experiment.configs[1].engine.column_families = vec![never];
        assert_eq!(codes(&gated_with(&experiment, 1, due).trials[1]), []);
        assert_eq!(codes(&gated_with(&experiment, 0, due).trials[0]), [Code::NotSettled]);
    }

    #[test]
    fn drift_is_said() {
        let drifting = |percent: f64| {
            notes(&gated_with_all(&experiment(), |s| {
                if s.trial.config == "candidate" {
                    s.steady.drift_percent = Some(percent);
                }
            }))
        };
        assert!(drifting(20.0).is_empty() && drifting(-20.0).is_empty());
        let found = drifting(-48.4);
        assert!(matches!(&found[..], [one] if one.contains("changes by -48 % from")), "{found:?}");
        let unknown = gated_with_all(&experiment(), |s| s.steady.drift_percent = None);
        assert!(notes(&unknown).is_empty());
    }

    #[test]
    fn debt_that_differs_is_said() {
        // The window writes 120 kB.
        let indebted = |config: &'static str, bytes: u64| {
            notes(&gated_with_all(&experiment(), |s| {
                if s.trial.config == config {
                    (s.steady.debt_in_bytes, s.steady.debt_out_bytes) = (Some(bytes), Some(0));
                }
            }))
        };
        assert!(indebted("candidate", 12_000).is_empty());
        assert!(matches!(&indebted("candidate", 12_001)[..], [one] if one.contains("that the warm-up left")));
        assert_eq!(indebted("base", 50 << 20).len(), 1);
        // Who leaves as much as it found is in a steady state.
        let steady = gated_with_all(&experiment(), |s| {
            if s.trial.config == "candidate" {
                (s.steady.debt_in_bytes, s.steady.debt_out_bytes) = (Some(50 << 20), Some(51 << 20));
            }
        });
        assert!(notes(&steady).is_empty());
        // What all pay is no difference.
        let alike = gated_with_all(&experiment(), |s| {
            (s.steady.debt_in_bytes, s.steady.debt_out_bytes) = (Some(50 << 20), Some(0));
        });
        assert!(notes(&alike).is_empty());
    }

    #[test]
    fn who_is_drained_by_its_own_rules_is_named_once() {
        let labelled = |is_own: bool| {
            let gated = gated_with_all(&experiment(), |s| s.steady.own_drain = is_own && s.trial.config == "candidate");
            gated.labels.get(&Label::OwnDebt).cloned()
        };
        assert_eq!(labelled(false), None);
        let text = labelled(true).unwrap();
        assert!(text.starts_with("candidate: "), "{text}");
    }

    #[test]
    fn odd_durations_are_said() {
        let lasting = |last: f64| {
            notes(&gated_with_all(&experiment(), |s| {
                if s.trial.config == "base" {
                    s.window_seconds = if s.trial.block == 7 { last } else { 10.0 + f64::from(s.trial.block) / 100.0 };
                }
            }))
        };
        assert!(lasting(10.1).is_empty());
        assert_eq!(lasting(20.0), ["Suspect: in fill, 1 of 8 runs took far longer or shorter than the others."]);
        // Far for such quiet runs, and still nothing that anybody minds.
        assert!(lasting(10.9).is_empty());
    }

    #[test]
    fn saturated_values_are_no_values() {
        let mut summary = summaries(&experiment()).remove(0);
        // 10000 steps in its window.
        summary.metrics.insert("throughput".to_owned(), 1000.0);
        let lost = |summary: &Summary| -> Vec<&str> {
            let names = ["step_latency_p50", "step_latency_p99", "step_latency_mean", "step_latency_max", "throughput"];
            names.into_iter().filter(|name| saturated(summary, name).is_some()).collect()
        };
        assert!(lost(&summary).is_empty());
        summary.steady.saturated_steps = 1;
        assert_eq!(lost(&summary), ["step_latency_mean", "step_latency_max"]);
        // Half of the 100 steps beyond the 99th percentile.
        summary.steady.saturated_steps = 50;
        assert_eq!(lost(&summary), ["step_latency_mean", "step_latency_max"]);
        summary.steady.saturated_steps = 101;
        assert_eq!(lost(&summary), ["step_latency_p99", "step_latency_mean", "step_latency_max"]);
        assert_eq!(saturated(&summary, "step_latency_p99").map(|found| found.code), Some(Code::HdrSaturated));
    }

    #[test]
    fn an_odd_duration_is_far_by_chance_and_by_the_clock() {
        const LOUD: [f64; 7] = [9.7, 9.8, 9.9, 10.0, 10.0, 10.1, 10.2];
        const QUIET: [f64; 7] = [9.97, 9.98, 9.99, 10.0, 10.0, 10.01, 10.02];
        let odd = |usual: &[f64], last: f64, all: usize| {
            let lasting = |(mut summary, seconds): (Summary, f64)| {
                summary.window_seconds = seconds;
                summary
            };
            let seconds = usual.iter().copied().chain([last]);
            let runs: Vec<Summary> = summaries(&experiment()).into_iter().zip(seconds).map(lasting).collect();
            odd_durations(&runs.iter().collect::<Vec<_>>(), all)
        };
        // Twelve is 0.67 x ln(1.2) / 0.015 = 8.2 away. Of Student's t with three degrees of freedom 1 % is beyond 5.8, and 1 % / 16 beyond 15.
        assert_eq!((odd(&LOUD, 12.0, 1), odd(&LOUD, 12.0, 16)), (1, 0));
        // A tenth more is nothing that anybody minds, however quiet the others are.
        assert_eq!((odd(&QUIET, 11.0, 1), odd(&QUIET, 11.01, 1)), (0, 1));
        // Seven runs are too few to tell; eight are enough, and so are nine.
        let nine = [&QUIET[..], &[10.0]].concat();
        assert_eq!((odd(&QUIET[1..], 20.0, 1), odd(&QUIET, 20.0, 1), odd(&nine, 20.0, 1)), (0, 1, 1));
        // Beside equal ones it is infinitely far, but of endlessly many runs that is no more than the limit.
        assert_eq!((odd(&[10.0; 7], 20.0, 1), odd(&[10.0; 7], 20.0, usize::MAX)), (1, 0));
    }
}
