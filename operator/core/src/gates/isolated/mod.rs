//! Isolated: the trial had the machine that it was promised, and nobody else used it meanwhile.
//!
//! On a machine of its own a disturbance costs the run. On a shared one it is noted, since others are part of it: the random order gives
//! every arm its share, and a claim that an unequal share explains falls later (`DisturbedUnequally`). Effects of a config on itself are part
//! of the measurement and cost no run: the kernel's work for its I/O, waits for its own memory, throttling under a quota that all configs
//! have. If the experiment requires exclusive CPUs, unknown evidence costs the run too; if it only prefers them, the verdict is labelled
//! `NotIsolated`.

mod label;
mod pod;
mod taken;

use std::collections::BTreeMap;

use assay_protocol::Summary;

use super::view::View;
use super::{Code, Findings, Gate, named};
use crate::experiment::Environment;
use crate::stats::median;
pub use taken::share_taken;

/// CPU time that others may take from a run, in percent. A busy run loses as much as they take: a fifth of the usual margin at most.
pub const CPU_PERCENT: f64 = 1.0;
/// Nothing of a trial runs while it waits for memory, so that a run loses as much as above.
pub(super) const MEMORY_PRESSURE_PERCENT: f64 = 1.0;
/// Clock corrections by slewing stay below 0.05 % of the window; the floor is for short windows.
pub(super) const CLOCK_STEP_SECONDS: f64 = 0.1;
pub(super) const CLOCK_STEP_SHARE: f64 = 0.001;
/// A rule of thumb for flash, which needs free blocks to write quickly.
pub(super) const FREE_DISK_PERCENT: f64 = 20.0;
/// Points that the fill level may move within a block.
pub(super) const DISK_FILL_POINTS: f64 = 5.0;
pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    // Also of failed trials: what is wrong with the machine is wrong for all.
    for &trial in view.all() {
        machine(view, trial, findings);
    }
    let shared = view.experiment.environment == Environment::Shared;
    let mut noted: BTreeMap<Code, Vec<String>> = BTreeMap::new();
    for &trial in view.completed() {
        let summary = view.summary(trial);
        findings.unknown(Gate::Isolated, unknown(summary).into_iter().chain(unknown_of_machine(summary)));
        for (code, message) in disturbances(view, summary) {
            if shared && is_of_others(code) {
                noted.entry(code).or_default().push(message);
            } else {
                findings.trial(trial, code, message);
            }
        }
    }
    for messages in noted.into_values() {
        if let Some(first) = messages.first() {
            let (runs, all) = (messages.len(), view.completed().len());
            let text = format!("Disturbed runs, which count on a shared machine: {runs} of {all}. Example: {first}.");
            findings.note(Gate::Isolated, None, text);
        }
    }
    throttled(view, findings);
    memory_waits(view, findings);
    fill_levels(view, findings);
    pod::mixed_page_caches(view, findings);
    label::check(view, findings);
}

/// What no rerun on this machine can change.
fn machine(view: &View<'_>, trial: usize, findings: &mut Findings) {
    let storage = &view.summary(trial).storage;
    if storage.replaced_sysfs {
        let message = "the storage evidence comes from a replaced /sys";
        findings.experiment(Code::ReplacedSysfs, message);
        findings.trial(trial, Code::ReplacedSysfs, message);
    }
    if view.experiment.require_nvme && storage.nvme != Some(true) {
        let message = match storage.nvme {
            Some(_) => "the experiment requires NVMe, but the data directory is not on a local NVMe device",
            None => "the experiment requires NVMe, but the device of the data directory is unknown",
        };
        findings.experiment(Code::NotNvme, message);
        findings.trial(trial, Code::NotNvme, message);
    }
}

/// What other programs do on a machine that is shared with them.
fn is_of_others(code: Code) -> bool {
    matches!(code, Code::Steal | Code::ForeignCpu | Code::Overheated)
}

/// Throttling under a quota that covers the CPUs and is the same for all runs is what a config did to itself.
fn throttled(view: &View<'_>, findings: &mut Findings) {
    let quotas: Vec<Option<f64>> =
        view.completed().iter().map(|&trial| view.summary(trial).placement.quota_cpus).collect();
    let equal = quotas.windows(2).all(|pair| pair[0] == pair[1]);
    let covers =
        quotas.first().is_some_and(|quota| quota.is_some_and(|quota| quota >= f64::from(view.experiment.cpus)));
    let mut runs = 0;
    for &trial in view.completed() {
        let Some(periods) = throttled_periods(view.summary(trial)).filter(|&periods| periods > 0) else { continue };
        runs += 1;
        if !(equal && covers) {
            findings.trial(trial, Code::Throttled, format!("throttled in {periods} scheduler periods"));
        }
    }
    if runs > 0 && equal && covers {
        let text = format!(
            "Runs that used up their quota and were throttled: {runs} of {}. All runs have this quota.",
            quotas.len()
        );
        findings.note(Gate::Isolated, None, text);
    }
}

/// Waits for memory count as a result of the config unless other cgroups wait as well.
fn memory_waits(view: &View<'_>, findings: &mut Findings) {
    let waited: Vec<f64> = view
        .completed()
        .iter()
        .filter_map(|&trial| view.summary(trial).disturbance.memory_pressure_full_percent)
        .filter(|&percent| percent > MEMORY_PRESSURE_PERCENT)
        .collect();
    if let Some(most) = waited.iter().copied().reduce(f64::max) {
        let text = format!(
            "Runs that waited for memory for more than {MEMORY_PRESSURE_PERCENT} % of their window: {} of {}, at most for \
             {most:.1} %. Waits that a config brings on itself are part of its result.",
            waited.len(),
            view.completed().len(),
        );
        findings.note(Gate::Isolated, None, text);
    }
}

fn disturbances(view: &View<'_>, summary: &Summary) -> Vec<(Code, String)> {
    let mut found = Vec::new();
    let strict = view.experiment.require_exclusive_cpus;
    let (placement, seen) = (&summary.placement, &summary.disturbance);

    match placement.affinity_cpus {
        Some(cpus) if cpus != view.experiment.cpus => {
            let message = format!("ran on {cpus} CPUs, {} requested", view.experiment.cpus);
            found.push((Code::AffinityMismatch, message));
        }
        _ => {}
    }
    if placement.stable == Some(false) {
        found.push((Code::AffinityUnstable, "the CPU affinity changed during the window".to_owned()));
    }
    if strict && placement.whole_cores == Some(false) {
        let message = "the trial shares cores with others: it does not own all hyper-threads";
        found.push((Code::SharedCores, message.to_owned()));
    }
    let margin = "a fifth of the usual margin";
    over(&mut found, Code::Steal, "of CPU time stolen by the hypervisor", seen.steal_percent, (CPU_PERCENT, margin));
    // The kernel's threads work for whoever does I/O, which is the trial.
    let (foreign, limit) = (seen.foreign_cpu_percent, foreign_limit(summary));
    let limit = (limit, if limit > CPU_PERCENT { "what the kernel's counters resolve here" } else { margin });
    over(&mut found, Code::ForeignCpu, "of the trial's CPU time used by others", foreign, limit);
    let (pressure, limit) = (seen.foreign_memory_pressure_percent, (MEMORY_PRESSURE_PERCENT, margin));
    over(&mut found, Code::MemoryPressure, "of the window stalled on memory, as others were", pressure, limit);
    let step = CLOCK_STEP_SECONDS.max(CLOCK_STEP_SHARE * summary.window_seconds);
    if let Some(seconds) = seen.clock_step_seconds.filter(|seconds| seconds.abs() > step) {
        found.push((Code::ClockStep, format!("the wall clock moved by {seconds:.3} s against the monotonic clock")));
    }
    if let Some(free) = summary.storage.free_percent.filter(|&free| free < FREE_DISK_PERCENT) {
        let message = format!("{free:.1} % of the file system free, {FREE_DISK_PERCENT} % needed: full flash is slow");
        found.push((Code::DiskNearlyFull, message));
    }
    found.extend(summary.pod.as_ref().map(pod::disturbances).unwrap_or_default());
    let unknown = if strict { unknown(summary) } else { Vec::new() };
    if !unknown.is_empty() {
        found.push((
            Code::EvidenceUnknown,
            format!("exclusive CPUs are required, but could not be checked: {}", unknown.join(", ")),
        ));
    }
    found
}

/// A limit comes with what makes it that number.
fn over(
    found: &mut Vec<(Code, String)>,
    code: Code,
    what: &str,
    percent: Option<f64>,
    (limit, why): (f64, &'static str),
) {
    if let Some(percent) = percent.filter(|&percent| percent > limit) {
        found.push((code, format!("{} % {what} (limit {limit:.1} %: {why})", above(percent, limit))));
    }
}

/// With as many digits as it takes to see that it is more.
fn above(percent: f64, limit: f64) -> String {
    let shown = |digits: usize| format!("{percent:.digits$}");
    let same = |digits: usize| shown(digits) == format!("{limit:.digits$}");
    shown((1..6).find(|&digits| !same(digits)).unwrap_or(6))
}

/// Without a quota nothing can be throttled, whether or not the kernel counts it.
fn throttled_periods(summary: &Summary) -> Option<u64> {
    summary.disturbance.throttled_periods.or((summary.placement.quota_cpus == Some(0.0)).then_some(0))
}

/// A disturbance below the clock's resolution is an artefact of the clock.
fn foreign_limit(summary: &Summary) -> f64 {
    summary.disturbance.foreign_cpu_resolution_percent.unwrap_or_default().max(CPU_PERCENT)
}

const STEAL: &str = "steal";
const FOREIGN: &str = "foreign CPU time";

/// What can't be called clean, since nobody could look.
fn unknown(summary: &Summary) -> Vec<&'static str> {
    let (placement, seen) = (&summary.placement, &summary.disturbance);
    // Foreign time below a coarse resolution may be there or not; what exceeds it is seen.
    let is_coarse = seen.foreign_cpu_resolution_percent.is_none_or(|resolution| resolution > CPU_PERCENT);
    let may_hide = |foreign: f64| is_coarse && foreign <= foreign_limit(summary);
    named([
        (placement.affinity_cpus.is_none() || placement.stable.is_none(), "CPU affinity"),
        (placement.whole_cores.is_none(), "hyper-threads of the used cores"),
        (throttled_periods(summary).is_none(), "throttling"),
        (seen.steal_percent.is_none(), STEAL),
        (seen.foreign_cpu_percent.is_none(), FOREIGN),
        (seen.foreign_cpu_percent.is_some_and(may_hide), "use by others too small for the kernel's counters"),
        (summary.pod.as_ref().is_some_and(pod::is_unknown), "quality of service class"),
    ])
    .collect()
}

/// The same of what every run may leave open, wherever its CPUs are.
fn unknown_of_machine(summary: &Summary) -> impl Iterator<Item = &'static str> {
    let seen = &summary.disturbance;
    // Others can't have cost a run more than it waited.
    let may_be_of_others = seen.memory_pressure_full_percent.is_none_or(|waited| waited > MEMORY_PRESSURE_PERCENT);
    named([
        (seen.foreign_memory_pressure_percent.is_none() && may_be_of_others, "memory pressure of others"),
        (summary.disturbance.clock_step_seconds.is_none(), "clock changes"),
        (summary.storage.free_percent.is_none(), "free disk space"),
    ])
}

fn fill_levels(view: &View<'_>, findings: &mut Findings) {
    for block in view.blocks() {
        let free = |trial: usize| view.summary(trial).storage.free_percent;
        let baseline: Vec<f64> =
            block.iter().filter(|&&trial| view.is_baseline(trial)).filter_map(|&trial| free(trial)).collect();
        let Some(usual) = median(&baseline) else { continue };
        for &trial in block {
            if let Some(own) = free(trial).filter(|own| (own - usual).abs() > DISK_FILL_POINTS) {
                let message = format!("{own:.1} % of the file system free, but {usual:.1} % in the baseline's runs");
                findings.trial(trial, Code::DiskFillChanged, message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use assay_protocol::Summary;

    use super::super::TrialState;
    use super::super::testing::{codes, experiment, gated_with, gated_with_all};
    use super::*;

    #[test]
    fn a_known_share_is_not_called_unknown() {
        let what = |share, resolution| {
            let mut summary = crate::gates::testing::summaries(&experiment()).remove(0);
            summary.disturbance.foreign_cpu_percent = share;
            summary.disturbance.foreign_cpu_resolution_percent = Some(resolution);
            unknown(&summary)
        };
        assert_eq!(what(Some(1.8), 2.0), ["use by others too small for the kernel's counters"]);
        assert_eq!(what(None, 2.0), ["foreign CPU time"]);
        assert!(what(Some(8.7), 2.0).is_empty(), "it is far above what could hide");
        assert!(what(Some(8.7), 0.1).is_empty());
        assert!(what(Some(0.5), 1.0).is_empty(), "what that hides is within the limit");
    }

    fn broken(strict: bool, change: impl Fn(&mut Summary)) -> Vec<Code> {
        let mut experiment = experiment();
        experiment.require_exclusive_cpus = strict;
        codes(&gated_with(&experiment, 1, change).trials[1])
    }

    #[test]
    fn what_is_over_a_limit_is_seen_to_be() {
        assert_eq!([above(1.5, 1.0), above(1.04, 1.0), above(1.0004, 1.0)], ["1.5", "1.04", "1.0004"]);
    }

    #[test]
    fn disturbances_invalidate_in_either_mode() {
        for strict in [false, true] {
            assert_eq!(broken(strict, |_| ()), []);
            assert_eq!(broken(strict, |s| s.placement.affinity_cpus = Some(1)), [Code::AffinityMismatch]);
            assert_eq!(broken(strict, |s| s.placement.stable = Some(false)), [Code::AffinityUnstable]);
            assert_eq!(broken(strict, |s| s.disturbance.throttled_periods = Some(1)), [Code::Throttled]);
            assert_eq!(broken(strict, |s| s.disturbance.steal_percent = Some(1.1)), [Code::Steal]);
            assert_eq!(broken(strict, |s| s.disturbance.foreign_cpu_percent = Some(1.1)), [Code::ForeignCpu]);
            assert_eq!(
                broken(strict, |s| s.disturbance.foreign_memory_pressure_percent = Some(1.1)),
                [Code::MemoryPressure]
            );
            assert_eq!(broken(strict, |s| s.disturbance.clock_step_seconds = Some(-0.2)), [Code::ClockStep]);
            assert_eq!(broken(strict, |s| s.storage.free_percent = Some(61.0)), [Code::DiskFillChanged]);
            // The limits themselves are fine, and CPU pressure is what compaction does.
            assert_eq!(broken(strict, |s| s.disturbance.clock_step_seconds = Some(0.1)), []);
            assert_eq!(broken(strict, |s| s.disturbance.steal_percent = Some(1.0)), []);
            assert_eq!(broken(strict, |s| s.disturbance.cpu_pressure_some_percent = Some(90.0)), []);
            assert_eq!(broken(strict, |s| s.storage.foreign_write_percent = Some(90.0)), []);
        }
    }

    #[test]
    fn waits_for_memory_of_its_own_cost_a_run_nothing_and_are_noted() {
        let gated = |own: Option<f64>, foreign: Option<f64>| {
            let mut experiment = experiment();
            experiment.require_exclusive_cpus = true;
            let gated = gated_with_all(&experiment, |s| {
                if s.trial.config == "candidate" {
                    let block = f64::from(s.trial.block);
                    s.disturbance.memory_pressure_full_percent = own.map(|own| own + block);
                    s.disturbance.foreign_memory_pressure_percent = foreign;
                }
            });
            assert!(gated.trials.iter().all(|state| *state == TrialState::Valid), "{gated:?}");
            let notes: Vec<String> = gated.notes.into_iter().map(|note| note.text).collect();
            let unknown = gated.unknown.get(&Gate::Isolated).map(crate::gates::Unknown::names);
            (notes, unknown.unwrap_or_default())
        };
        let waited = "Runs that waited for memory for more than 1 % of their window: 8 of 16, at most for 67.0 %. Waits that \
                      a config brings on itself are part of its result.";
        let of_others = "memory pressure of others";
        assert_eq!(gated(Some(60.0), Some(0.0)), (vec![waited.to_owned()], vec![]));
        // Records of older benches, and those from containers, don't say what others waited for.
        assert_eq!(gated(Some(60.0), None), (vec![waited.to_owned()], vec![of_others.to_owned()]));
        assert_eq!(gated(None, None), (vec![], vec![of_others.to_owned()]));
        assert_eq!(gated(Some(-6.0), None), (vec![], vec![]), "others can't have cost more");
    }

    /// Each limit is the last value that is fine.
    #[test]
    fn limits_are_where_they_are_said_to_be() {
        type Set = fn(&mut Summary, f64);
        let usual = crate::gates::testing::summaries(&experiment()).remove(0).storage.free_percent.unwrap_or_default();
        let cases: [(f64, Set, f64, Code); 8] = [
            (30.0, |s, value| s.disturbance.steal_percent = Some(value), 1.0, Code::Steal),
            (30.0, |s, value| s.disturbance.foreign_cpu_percent = Some(value), 1.0, Code::ForeignCpu),
            (30.0, |s, value| s.disturbance.foreign_memory_pressure_percent = Some(value), 1.0, Code::MemoryPressure),
            (30.0, |s, value| s.disturbance.clock_step_seconds = Some(value), 0.1, Code::ClockStep),
            (100.0, |s, value| s.disturbance.clock_step_seconds = Some(-value), 0.1, Code::ClockStep),
            // A share of longer windows.
            (3600.0, |s, value| s.disturbance.clock_step_seconds = Some(value), 3.6, Code::ClockStep),
            (3600.0, |s, value| s.disturbance.clock_step_seconds = Some(-value), 3.6, Code::ClockStep),
            (30.0, |s, value| s.storage.free_percent = Some(value), usual + 5.0, Code::DiskFillChanged),
        ];
        for (window, set, limit, code) in cases {
            let found = |value: f64| {
                let gated = gated_with_all(&experiment(), |s| {
                    s.window_seconds = window;
                    if (s.trial.block, s.trial.config.as_str()) == (0, "candidate") {
                        set(s, value);
                    }
                });
                gated.trials.iter().flat_map(codes).collect::<Vec<Code>>()
            };
            assert_eq!(found(limit), [], "{code} at {limit}");
            assert_eq!(found(limit * 1.0001), [code], "{code} above {limit}");
        }
        // Of the disk, so much has to be free.
        let free = |percent: f64| gated_with_all(&experiment(), |s| s.storage.free_percent = Some(percent));
        assert!(free(20.0).trials.iter().all(|state| codes(state).is_empty()));
        assert!(free(19.999).trials.iter().all(|state| codes(state) == [Code::DiskNearlyFull]));
    }

    #[test]
    fn exclusive_cpus_must_be_proven() {
        for (change, code) in [
            ((|s| s.placement.whole_cores = Some(false)) as fn(&mut Summary), Code::SharedCores),
            (|s| s.placement.whole_cores = None, Code::EvidenceUnknown),
            (|s| s.placement.affinity_cpus = None, Code::EvidenceUnknown),
            (|s| s.disturbance.steal_percent = None, Code::EvidenceUnknown),
            (|s| s.disturbance.foreign_cpu_percent = None, Code::EvidenceUnknown),
            (|s| s.disturbance.foreign_cpu_resolution_percent = None, Code::EvidenceUnknown),
            (|s| s.disturbance.foreign_cpu_resolution_percent = Some(2.0), Code::EvidenceUnknown),
        ] {
            assert_eq!(broken(true, change), [code]);
            assert_eq!(broken(false, change), []);
        }
    }

    #[test]
    fn the_kernel_works_for_the_trial() {
        let busy = |s: &mut Summary| {
            s.disturbance.foreign_cpu_percent = Some(0.6);
            s.disturbance.kernel_cpu_percent = Some(30.0);
        };
        assert_eq!((broken(false, busy), broken(true, busy)), (vec![], vec![]));
    }

    #[test]
    fn on_a_shared_machine_others_are_noted() {
        let mut shared = experiment();
        shared.environment = Environment::Shared;
        let disturbed = |s: &mut Summary| {
            s.disturbance.steal_percent = Some(3.0);
            s.disturbance.foreign_cpu_percent = Some(20.0);
        };
        let gated = gated_with(&shared, 1, disturbed);
        assert_eq!(codes(&gated.trials[1]), []);
        let notes: Vec<&str> = gated.notes.iter().map(|note| note.text.as_str()).collect();
        let expected = [
            "Disturbed runs, which count on a shared machine: 1 of 16. Example: 20.0 % of the trial's CPU time \
             used by others (limit 1.0 %: a fifth of the usual margin).",
            "Disturbed runs, which count on a shared machine: 1 of 16. Example: 3.0 % of CPU time stolen by the \
             hypervisor (limit 1.0 %: a fifth of the usual margin).",
        ];
        assert_eq!(notes, expected);
        // What moves the trial itself, or fills its disk, is no neighbour.
        let moved = gated_with(&shared, 1, |s| s.placement.stable = Some(false));
        assert_eq!(codes(&moved.trials[1]), [Code::AffinityUnstable]);
    }

    #[test]
    fn a_quota_that_all_have_is_used_up_by_the_config() {
        let cpus = f64::from(experiment().cpus);
        let gated = gated_with_all(&experiment(), |s| {
            s.placement.quota_cpus = Some(cpus);
            s.disturbance.throttled_periods = Some(u64::from(s.trial.config == "candidate"));
        });
        assert!(gated.trials.iter().all(|state| codes(state).is_empty()));
        assert_eq!(
            gated.notes.first().map(|n| n.text.as_str()),
            Some("Runs that used up their quota and were throttled: 8 of 16. All runs have this quota.")
        );
        // Nobody used it up.
        let unused = gated_with_all(&experiment(), |s| {
            (s.placement.quota_cpus, s.disturbance.throttled_periods) = (Some(cpus), Some(0));
        });
        assert!(unused.notes.is_empty(), "{:?}", unused.notes);
        // A smaller one is a machine that is not what was asked for, and another one is no comparison.
        let small = gated_with_all(&experiment(), |s| {
            (s.placement.quota_cpus, s.disturbance.throttled_periods) = (Some(cpus / 2.0), Some(1));
        });
        assert!(small.trials.iter().all(|state| codes(state) == [Code::Throttled]));
        assert!(small.notes.is_empty(), "{:?}", small.notes);
    }

    #[test]
    fn a_coarse_clock_is_no_disturbance() {
        let coarse = |s: &mut Summary| {
            s.disturbance.foreign_cpu_percent = Some(7.0);
            s.disturbance.foreign_cpu_resolution_percent = Some(8.0);
        };
        assert_eq!(broken(false, coarse), []);
        assert_eq!(broken(true, coarse), [Code::EvidenceUnknown]);
        // Above it nothing is left open.
        let seen = |s: &mut Summary| {
            s.disturbance.foreign_cpu_percent = Some(9.0);
            s.disturbance.foreign_cpu_resolution_percent = Some(8.0);
        };
        assert_eq!((broken(false, seen), broken(true, seen)), (vec![Code::ForeignCpu], vec![Code::ForeignCpu]));
        let TrialState::Invalid(findings) = &gated_with(&experiment(), 1, seen).trials[1] else { panic!("it counts") };
        let why = "9.0 % of the trial's CPU time used by others (limit 8.0 %: what the kernel's counters resolve here)";
        assert_eq!(findings[0].message, why);
    }

    #[test]
    fn throttling_needs_a_quota() {
        let unknown = |s: &mut Summary| s.disturbance.throttled_periods = None;
        assert_eq!(broken(true, unknown), []);
        let with_quota = |s: &mut Summary| {
            s.disturbance.throttled_periods = None;
            s.placement.quota_cpus = Some(2.0);
        };
        assert_eq!(broken(true, with_quota), [Code::EvidenceUnknown]);
    }

    #[test]
    fn a_full_disk_is_slow() {
        let gated = gated_with_all(&experiment(), |s| s.storage.free_percent = Some(19.9));
        assert!(gated.trials.iter().all(|state| codes(state) == [Code::DiskNearlyFull]));
        let gated = gated_with_all(&experiment(), |s| s.storage.free_percent = None);
        assert!(gated.trials.iter().all(|state| codes(state).is_empty()));
    }

    #[test]
    fn the_machine_is_wrong_for_the_whole_experiment() {
        let mut nvme = experiment();
        nvme.require_nvme = true;
        for unfit in [None, Some(false)] {
            let gated = gated_with(&nvme, 1, |s| s.storage.nvme = unfit);
            assert_eq!(codes(&gated.trials[1]), [Code::NotNvme]);
            assert_eq!(gated.experiment.first().map(|finding| finding.code), Some(Code::NotNvme));
        }
        assert!(gated_with(&nvme, 1, |s| s.storage.nvme = Some(true)).experiment.is_empty());
        assert!(gated_with(&experiment(), 1, |s| s.storage.nvme = None).experiment.is_empty());
        let gated = gated_with(&experiment(), 1, |s| s.storage.replaced_sysfs = true);
        assert_eq!(gated.experiment.first().map(|finding| finding.code), Some(Code::ReplacedSysfs));
    }
}
