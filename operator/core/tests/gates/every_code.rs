use std::collections::BTreeSet;

use assay_core::attempt::Attempt;
use assay_core::decide::{Fate, Places};
use assay_core::experiment::{Environment, Experiment};
use assay_core::gates::{Code, Finding};
use assay_core::stats::Direction;
use assay_core::verdict::Verdict;
use assay_protocol::{Digest, PodEvidence, Summary};

use super::docs::costs;
use super::lab::{Lab, codes};

fn other() -> Digest {
    Digest::of(b"other")
}

/// A run of the same steps at so many times the rate, all of its numbers in agreement.
fn faster(summary: &mut Summary, factor: f64) {
    summary.window_seconds /= factor;
    for (name, value) in &mut summary.metrics {
        if name.ends_with("throughput") {
            *value *= factor;
        } else if name.starts_with("step_latency") {
            *value /= factor;
        }
    }
}

/// A run that spends these percentages of its time in RocksDB and in its generator.
fn spending(summary: &mut Summary, db: f64, generator: f64) {
    let rate = summary.metrics["throughput"];
    summary.metrics.insert("step_latency_mean".to_owned(), db * 1e4 / rate);
    let time = &mut summary.primary;
    (time.db_percent, time.generator_percent, time.run_queue_percent) = (db, generator, Some(0.0));
}

/// The config's runs are the baseline's, so many times as fast.
fn same_runs(lab: &mut Lab, factor: f64) {
    let Some(base) = lab.plan.trials().find(|trial| trial.config == "roomy") else { panic!("no baseline") };
    let metrics = lab.attempts.iter().find_map(|attempt| match attempt {
        Attempt::Finished(s) if s.trial == base => Some((s.metrics.clone(), s.primary.clone(), s.window_seconds)),
        _ => None,
    });
    let (metrics, primary, window) = metrics.unwrap();
    lab.all(Some("cramped"), |s| {
        (s.metrics, s.primary, s.window_seconds) = (metrics.clone(), primary.clone(), window);
        faster(s, factor);
    });
}

/// An experiment that requires exclusive CPUs, on a machine that has them and can prove it.
fn exclusive(lab: &mut Lab) {
    lab.plan.experiment.require_exclusive_cpus = true;
    lab.all(None, |s| {
        s.placement.whole_cores = Some(true);
        s.disturbance.steal_percent = Some(0.0);
        s.disturbance.foreign_cpu_percent = Some(0.0);
        s.disturbance.kernel_cpu_percent = Some(0.0);
        s.disturbance.foreign_cpu_resolution_percent = Some(0.1);
        s.disturbance.memory_pressure_full_percent = Some(0.0);
    });
}

/// Codes that records can have: only imported runs are asked whether they are copies.
fn codes_of_records() -> Vec<Code> {
    codes().into_iter().filter(|code| *code != Code::CopiedRuns).collect()
}

/// Breaks the one thing that a code is about. A new code does not compile before it has its case here.
fn break_for(code: Code, lab: &mut Lab) {
    match code {
        Code::WorkMismatch => lab.one(|s| s.parity.work = other()),
        Code::CountsMismatch => lab.one(|s| s.parity.counts = other()),
        Code::UserBytesMismatch => lab.one(|s| s.parity.user_bytes -= 1),
        Code::AnswersMismatch => lab.one(|s| s.parity.answers = Some(other())),
        Code::WrongAnswers => lab.one(|s| s.parity.wrong_answers = 1),
        Code::DatasetMismatch => lab.one(|s| s.parity.dataset = other()),
        Code::RemovalOverdue => lab.all(Some("cramped"), |s| s.steady.overdue_percent = Some(100.0)),
        Code::FeatureMismatch => lab.one(|s| s.parity.build = other()),
        Code::MachineMismatch => lab.one(|s| s.parity.machine = other()),
        Code::Rebooted => lab.one(|s| s.parity.boot = Some(other())),
        Code::BaselineOptionsMismatch => lab.one(|s| s.options.baseline = Some(other())),
        Code::OptionsMismatch => lab.one(|s| s.options.effective = Some(other())),
        Code::OptionsUnstable => lab.one(|s| {
            s.options.config = Some(other());
            s.options.effective = Some(other());
        }),
        Code::UndeclaredOptions => lab.one(|s| s.options.undeclared.count = 1),
        Code::OptionsUnknown => lab.one(|s| s.options.effective = None),
        Code::NoEffectPossible => lab.all(Some("cramped"), |s| {
            s.options.inert.count = s.options.declared;
            s.options.config = s.options.baseline.clone();
            s.options.effective = s.options.baseline.clone();
        }),
        Code::AffinityMismatch => lab.one(|s| s.placement.affinity_cpus = Some(2)),
        Code::AffinityUnstable => lab.one(|s| s.placement.stable = Some(false)),
        Code::SharedCores => {
            exclusive(lab);
            lab.one(|s| s.placement.whole_cores = Some(false));
        }
        Code::EvidenceUnknown => {
            exclusive(lab);
            lab.one(|s| s.disturbance.steal_percent = None);
        }
        Code::Throttled => lab.one(|s| s.disturbance.throttled_periods = Some(1)),
        Code::Overheated => {
            lab.one(|s| s.pod = Some(PodEvidence { throttle_events: Some(2), ..PodEvidence::default() }));
        }
        Code::Steal => lab.one(|s| s.disturbance.steal_percent = Some(1.5)),
        Code::ForeignCpu => lab.one(|s| s.disturbance.foreign_cpu_percent = Some(50.0)),
        Code::MemoryPressure => lab.one(|s| s.disturbance.foreign_memory_pressure_percent = Some(1.5)),
        Code::ClockStep => lab.one(|s| s.disturbance.clock_step_seconds = Some(60.0)),
        Code::DiskNearlyFull => lab.all(None, |s| {
            if s.trial.block == 2 {
                s.storage.free_percent = Some(19.9);
            }
        }),
        Code::DiskFillChanged => lab.one(|s| s.storage.free_percent = s.storage.free_percent.map(|free| free + 6.0)),
        Code::NotNvme => {
            lab.plan.experiment.require_nvme = true;
            lab.all(None, |s| s.storage.nvme = Some(s.trial.block != 2));
        }
        Code::ReplacedSysfs => lab.one(|s| s.storage.replaced_sysfs = true),
        Code::NotGuaranteed => lab.one(|s| {
            s.pod = Some(PodEvidence { qos_class: Some("Burstable".to_owned()), ..PodEvidence::default() });
        }),
        Code::ForeignContainer => lab.one(|s| {
            let foreign_containers = vec!["istio-proxy".to_owned()];
            s.pod = Some(PodEvidence { foreign_containers, ..PodEvidence::default() });
        }),
        Code::NotEngaged => lab.all(None, |s| {
            s.engagement.filled_memtables = Some(0);
            s.engagement.fullest_memtable_bytes = Some(4096);
        }),
        Code::CausalPathExceeded => {
            // The baseline spends a tenth of its time in RocksDB, and the config is twice as fast.
            lab.all(Some("roomy"), |s| spending(s, 10.0, 0.0));
            same_runs(lab, 2.0);
        }
        Code::DatasetFilesMismatch => lab.one(|s| s.parity.dataset_files = other()),
        Code::NotSettled => lab.one(|s| s.steady.settled_before = Some(false)),
        Code::Postponed => {
            let metric = "write_amplification";
            lab.plan.experiment.metrics.truncate(1);
            for rule in &mut lab.plan.experiment.metrics {
                (rule.name, rule.direction) = (metric.to_owned(), Direction::Lower);
            }
            lab.all(None, |s| {
                let is_config = s.trial.config == "cramped";
                s.steady.postponed_percent = Some(if is_config { 90.0 } else { 10.0 });
                let value = if is_config { 1.0 } else { 4.0 };
                s.metrics.insert(metric.to_owned(), value + f64::from(s.trial.block) / 1e3);
            });
        }
        Code::HdrSaturated => lab.one(|s| s.steady.saturated_steps = 1),
        Code::RateMismatch => lab.one(|s| {
            s.metrics.entry("throughput".to_owned()).and_modify(|rate| *rate /= 1.1);
        }),
        Code::TimeMismatch => lab.one(|s| {
            s.metrics.entry("step_latency_mean".to_owned()).and_modify(|mean| *mean *= 1.1);
        }),
        Code::Implausible => lab.one(|s| faster(s, 4.0)),
        Code::CopiedRuns => panic!("no gate over records finds it"),
        Code::Attrition => {
            *lab = Lab::of(Experiment { repetitions: 16, ..lab.plan.experiment.clone() });
            // Its runs take 1.8 times as long as the baseline's, so that chance loses more of them.
            lab.lose(Some("cramped"), 10);
        }
        Code::NothingValid => lab.lose(None, u32::MAX),
        Code::DisturbedUnequally => {
            // As fast as the baseline, of which others took a third of the time that it wanted.
            same_runs(lab, 1.0);
            lab.plan.experiment.environment = Environment::Shared;
            lab.all(Some("roomy"), |s| {
                faster(s, 2.0 / 3.0);
                s.disturbance.steal_percent = Some(33.0);
            });
            lab.all(Some("cramped"), |s| s.disturbance.steal_percent = Some(0.0));
        }
    }
}

#[test]
fn real_records_pass() {
    let lab = Lab::new();
    assert_eq!(lab.found().into_iter().collect::<Vec<_>>(), []);
    let places = Places::new(&lab.plan, &lab.attempts).unwrap();
    assert!((0..lab.attempts.len()).all(|attempt| places.fate(attempt) == Fate::Used));
    let report = lab.report();
    assert!(report.progress.complete);
    assert!(
        !matches!(report.configs[0].ruling.verdict, Verdict::Invalid | Verdict::Inconclusive),
        "{}",
        report.configs[0].ruling.sentence
    );
}

#[test]
fn one_broken_thing_is_found_and_nothing_else() {
    assert!(codes_of_records().len() > 30);
    for code in codes_of_records() {
        let mut lab = Lab::new();
        break_for(code, &mut lab);
        assert_eq!(lab.found().into_iter().collect::<Vec<_>>(), [code]);
    }
}

/// What a finding of this code did to an experiment, in the words of the docs.
fn paid(code: Code, lab: &Lab) -> BTreeSet<&'static str> {
    let (report, places) = (lab.report(), Places::new(&lab.plan, &lab.attempts).unwrap());
    let (gated, own) = (places.gated(), &report.configs[0]);
    let has = |findings: &BTreeSet<Finding>| findings.iter().any(|finding| finding.code == code);
    // Everything else follows.
    if has(&gated.experiment) {
        return BTreeSet::from(["experiment"]);
    }
    let fates: Vec<Fate<'_>> = (0..lab.attempts.len()).map(|attempt| places.fate(attempt)).collect();
    let invalid = fates.iter().any(|fate| matches!(fate, Fate::Invalid(found) if found.iter().any(|f| f.code == code)));
    let of_config = gated.configs.values().any(has);
    // Some are found when verdicts are made.
    let late = !of_config && own.findings.iter().any(|finding| finding.code == code);
    let is_last = report
        .notes
        .iter()
        .any(|note| note.text.contains(&code.to_string()) && note.text.contains("rank as the worst"));
    [
        ("run", invalid),
        ("failure", report.cells[0].failed > 0),
        ("the run is held", fates.iter().any(|fate| matches!(fate, Fate::Held(finding) if finding.code == code))),
        ("the rank of the metric", is_last && fates.iter().all(|fate| *fate == Fate::Used)),
        ("config", of_config || late && code == Code::Attrition),
        ("claim", late && code != Code::Attrition),
        ("scenario", gated.scenarios.values().any(has)),
    ]
    .into_iter()
    .filter_map(|(what, is_paid)| is_paid.then_some(what))
    .collect()
}

/// The costs of one broken thing in the column of that name: what comes after a semicolon is about more of them, or the baseline's.
fn costs_once(costs: &'static str) -> BTreeSet<&'static str> {
    let first = costs.split(';').next().unwrap_or_default();
    first.split(',').next().unwrap_or_default().split(" and ").collect()
}

#[test]
fn what_is_found_costs_what_the_docs_say() {
    for code in codes_of_records() {
        let costs = costs(code);
        let mut lab = Lab::new();
        break_for(code, &mut lab);
        let once = costs_once(costs);
        assert_eq!(paid(code, &lab), once, "{code}");
        let report = lab.report();
        let ruling = &report.configs[0].ruling;
        let is_lost = ["config", "claim", "scenario", "experiment"].iter().any(|cost| once.contains(cost));
        assert_eq!(ruling.verdict == Verdict::Invalid, is_lost, "{code}: {}", ruling.sentence);
        assert!(!is_lost || ruling.reason.starts_with(&code.to_string()), "{code}: {}", ruling.reason);
        assert_eq!(
            report.progress.trials_valid < report.progress.trials_planned,
            ["run", "failure", "the run is held"].iter().any(|cost| once.contains(cost))
                || matches!(code, Code::Attrition | Code::NothingValid | Code::NotNvme | Code::ReplacedSysfs),
            "{code}: {:?}",
            report.progress
        );
        if once.contains("run") {
            lab.plan.experiment.environment = Environment::Shared;
            let shared = if costs.contains("if Dedicated") { BTreeSet::new() } else { once.clone() };
            assert_eq!(paid(code, &lab), shared, "{code} on a shared machine");
            let mut lab = Lab { broken: &[2, 3], ..Lab::new() };
            break_for(code, &mut lab);
            let twice = costs.contains("twice: config").then_some("config");
            assert_eq!(paid(code, &lab), once.iter().copied().chain(twice).collect(), "{code} twice");
        }
    }
}

#[test]
fn what_the_baseline_leaves_undone_costs_the_scenario() {
    assert!(costs(Code::RemovalOverdue).ends_with("baseline: scenario"));
    let mut lab = Lab::new();
    lab.all(Some("roomy"), |s| s.steady.overdue_percent = Some(100.0));
    assert_eq!(paid(Code::RemovalOverdue, &lab), BTreeSet::from(["scenario"]));
}
