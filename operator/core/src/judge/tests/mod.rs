mod cluster;

use std::collections::BTreeSet;
use std::sync::Arc;

use assay_protocol::Summary;

use super::*;
use crate::attempt::{Attempt, Lost, LostReason};
use crate::experiment::Experiment;
use crate::gates::testing::{BLOCKS, experiment, fail, plan, rule, scenario, summaries};
use crate::report::{WIDTH, markdown, terminal};
use crate::stats::Direction;
use crate::verdict::{Purpose, Verdict};

fn attempts(experiment: &Experiment, change: impl Fn(&mut Summary)) -> Vec<Attempt> {
    let mut all = summaries(experiment);
    all.iter_mut().for_each(change);
    all.into_iter().map(|summary| Attempt::Finished(summary.into())).collect()
}

/// The candidate's throughput times this, in every run.
fn faster(factor: f64) -> impl Fn(&mut Summary) {
    move |s| {
        if s.trial.config == "candidate" {
            s.metrics.entry("throughput".to_owned()).and_modify(|value| *value *= factor);
        }
    }
}

pub(crate) fn judged(experiment: &Experiment, attempts: &[Attempt]) -> Report {
    judge(&plan(experiment), attempts).unwrap_or_else(|error| unreachable!("{error}"))
}

fn verdict(experiment: &Experiment, attempts: &[Attempt]) -> String {
    let ruling = &judged(experiment, attempts).configs[0].ruling;
    format!("{:?} {}", ruling.verdict, ruling.reason)
}

/// Two scenarios, a guardrail and a config that is like the baseline.
pub(crate) fn larger() -> Experiment {
    let mut experiment = experiment();
    experiment.scenarios.push(scenario("read"));
    experiment.metrics.push(rule("step_latency_mean", Direction::Lower, Purpose::Guardrail));
    let mut same = experiment.configs[1].clone();
    same.name = "same".to_owned();
    same.changes.clear();
    experiment.configs.push(same);
    experiment
}

#[test]
fn effects_become_verdicts() {
    let experiment = experiment();
    let seen = |factor| verdict(&experiment, &attempts(&experiment, faster(factor)));
    assert_eq!(seen(1.2), "Win Better:throughput");
    assert_eq!(seen(0.8), "Reject Harm:throughput");
    assert_eq!(seen(1.0), "Neutral Equivalent");
    let report = judged(&experiment, &attempts(&experiment, faster(1.2)));
    let estimate = &report.configs[0].ruling.estimates[0];
    assert!(estimate.estimate_percent.is_some_and(|percent| (percent - 20.0).abs() < 0.5), "{estimate:?}");
    assert!(estimate.interval95.is_some_and(|interval| interval.low.is_some()));
    assert_eq!((report.progress.trials_valid, report.progress.trials_planned), (16, 16));
}

#[test]
fn exit_codes_take_the_worst() {
    let mut experiment = larger();
    let code = |experiment: &Experiment, change: &dyn Fn(&mut Summary)| {
        judged(experiment, &attempts(experiment, change)).exit_code()
    };
    assert_eq!(code(&experiment, &|_| ()), 0);
    assert_eq!(code(&experiment, &faster(0.5)), 10);
    let unstable = |s: &mut Summary| {
        faster(0.5)(s);
        if s.trial.config == "same" {
            s.metrics.insert("throughput".to_owned(), if s.trial.block.is_multiple_of(2) { 1400.0 } else { 700.0 });
        }
    };
    assert_eq!(code(&experiment, &unstable), 10, "a rejection outranks what is open");
    experiment.configs.truncate(2);
    let noisy = |s: &mut Summary| {
        s.metrics.insert("throughput".to_owned(), if s.trial.block.is_multiple_of(2) { 1400.0 } else { 700.0 });
    };
    assert_eq!(
        code(&experiment, &|s| if s.trial.config == "candidate" {
            noisy(s);
        }),
        11
    );
}

#[test]
fn the_same_records_give_the_same_bytes() {
    let experiment = larger();
    let all = attempts(&experiment, faster(1.1));
    let mut reversed = all.clone();
    reversed.reverse();
    let bytes = |attempts: &[Attempt]| {
        let report = judged(&experiment, attempts);
        (report.json().unwrap_or_default(), markdown(&report), terminal(&report, WIDTH))
    };
    assert_eq!(bytes(&all), bytes(&reversed));
}

#[test]
fn reports_survive_json() {
    let report = judged(&larger(), &attempts(&larger(), faster(1.1)));
    let json = report.json().unwrap_or_default();
    let again: Report = serde_json::from_str(&json).unwrap_or_else(|error| unreachable!("{error}"));
    assert_eq!(again, report);
}

#[test]
fn looking_early_gives_estimates_and_no_verdict() {
    let experiment = experiment();
    let all = attempts(&experiment, faster(1.5));
    for some in 0..all.len() {
        let report = judged(&experiment, &all[..some]);
        let ruling = &report.configs[0].ruling;
        assert_eq!((ruling.verdict, ruling.reason.as_str()), (Verdict::Inconclusive, INCOMPLETE), "{some} attempts");
        assert!(ruling.estimates.iter().all(|e| e.p.is_none() && e.status.is_none()));
        assert!(report.cells.iter().all(|cell| cell.ruling.verdict == Verdict::Inconclusive));
        assert_eq!(report.exit_code(), 11);
        assert_eq!(ruling.estimates[0].estimate.is_some(), some >= 2);
    }
    assert_eq!(verdict(&experiment, &all), "Win Better:throughput");
}

#[test]
fn the_fewest_blocks_say_how_large_an_effect_is_at_least() {
    let said = |blocks: u32, factor: f64| {
        let mut few = experiment();
        few.repetitions = blocks;
        let uneven = |s: &mut Summary| faster(factor + f64::from(s.trial.block) / 100.0)(s);
        let report = judged(&few, &attempts(&few, uneven));
        let ruling = &report.configs[0].ruling;
        let interval = crate::report::number::interval(&ruling.estimates[0]);
        (ruling.verdict, interval, ruling.sentence.clone())
    };
    let (verdict, interval, sentence) = said(5, 1.2);
    assert_eq!((verdict, interval.as_str()), (Verdict::Win, "at least +20.0 %"));
    assert!(sentence.contains("throughput is at least 20.0 % better"), "{sentence}");
    let (verdict, interval, sentence) = said(5, 0.8);
    // Harm shares its error with the claim that it fails more often, so five blocks do not prove it.
    assert_eq!((verdict, interval.as_str()), (Verdict::Inconclusive, "at most -16.0 %"));
    assert!(sentence.contains("throughput is at least 16.0 % worse"), "{sentence}");
    let (verdict, interval, sentence) = said(4, 1.2);
    assert_eq!((verdict, interval.as_str()), (Verdict::Inconclusive, "too few blocks"));
    assert!(sentence.contains("(too few blocks for a bound)"), "{sentence}");
    assert_eq!(said(8, 1.2).1, "+21.0 to +26.0 %");
}

#[test]
fn failures_are_facts_about_the_config() {
    let experiment = experiment();
    let failing = attempts(&experiment, |s| {
        if s.trial.config == "candidate" && s.trial.block < 6 {
            fail(s, "OutOfMemory");
        }
    });
    assert_eq!(verdict(&experiment, &failing), "Reject Unstable");
    // A quarter of the runs proves nothing yet. They rank last, so that what the others say is open.
    let some = attempts(&experiment, |s| {
        if s.trial.config == "candidate" && s.trial.block < 2 {
            fail(s, "OutOfMemory");
        }
    });
    assert_eq!(verdict(&experiment, &some), "Inconclusive Failures");
    let report = judged(&experiment, &some);
    assert_eq!((report.configs[0].runs, report.configs[0].failed), (8, 2));
    assert!(report.configs[0].ruling.sentence.contains("2 of 8 runs of candidate failed"));
}

#[test]
fn an_invalid_config_leaves_the_others_alone() {
    let experiment = larger();
    let report = judged(
        &experiment,
        &attempts(&experiment, |s| {
            if s.trial.config == "candidate" {
                s.options.undeclared.count = 1;
            }
        }),
    );
    let ruling = &report.configs[0].ruling;
    assert_eq!((ruling.verdict, ruling.reason.as_str()), (Verdict::Invalid, "UndeclaredOptions"));
    assert!(ruling.sentence.contains("Declare every option that differs"), "{}", ruling.sentence);
    assert_eq!(report.configs[1].ruling.verdict, Verdict::Neutral);
}

#[test]
fn an_invalid_baseline_invalidates_everything() {
    let experiment = larger();
    let report = judged(
        &experiment,
        &attempts(&experiment, |s| {
            if s.trial.config == "base" && s.trial.block < 2 {
                s.options.undeclared.count = 1;
            }
        }),
    );
    assert!(report.configs.iter().all(|config| config.ruling.verdict == Verdict::Invalid));
    assert!(report.progress.complete);
}

#[test]
fn a_missing_metric_leaves_the_guardrail_open() {
    let mut experiment = experiment();
    experiment.metrics.push(rule("step_latency_mean", Direction::Lower, Purpose::Guardrail));
    let without = attempts(&experiment, |s| {
        faster(1.5)(s);
        s.metrics.remove("step_latency_mean");
    });
    assert_eq!(verdict(&experiment, &without), "Inconclusive GuardrailUnresolved:step_latency_mean");
    let negative = attempts(&experiment, |s| {
        s.metrics.insert("step_latency_mean".to_owned(), -1.0);
    });
    assert!(judged(&experiment, &negative).notes.iter().any(|note| note.text.contains("is -1")));
}

#[test]
fn lost_attempts_are_listed_and_do_not_count() {
    let experiment = experiment();
    let said = |config: &str| {
        let mut all = attempts(&experiment, faster(1.2));
        let lost = all.iter().position(|attempt| attempt.trial().config == config).unwrap();
        let mut trial = all[lost].trial().clone();
        if let Attempt::Finished(summary) = &mut all[lost] {
            Arc::make_mut(summary).trial.attempt = 1;
        }
        trial.attempt = 0;
        all.push(Attempt::from(Lost {
            plan: plan(&experiment).digest,
            trial,
            started_unix_ms: 1,
            boot: Some(assay_protocol::Digest::of(b"boot")),
            reason: LostReason::Crashed,
            message: "killed by signal 9".to_owned(),
        }));
        let report = judged(&experiment, &all);
        assert_eq!(report.progress.lost, 1);
        assert_eq!(report.trials.len(), 2 * BLOCKS as usize + 1);
        format!("{:?} {}", report.configs[0].ruling.verdict, report.configs[0].ruling.reason)
    };
    assert_eq!(said("base"), "Win Better:throughput");
    // What the config's own lost run would have shown, nobody knows.
    assert_eq!(said("candidate"), "Inconclusive Attrition");
}

#[test]
fn migrations_are_labelled() {
    let mut experiment = experiment();
    experiment.scenarios[0].dataset_from = Some("base".to_owned());
    let report = judged(&experiment, &attempts(&experiment, |_| ()));
    let labels: Vec<Label> = report.labels.iter().map(|labelled| labelled.label).collect();
    assert_eq!(labels, [Label::NotIsolated, Label::Migration]);
}

#[test]
fn scaled_verdicts_say_their_scale() {
    let scaled = |accounts: u64, slots: u64| {
        let mut experiment = experiment();
        let workload = serde_json::json!({"ethrex": {"blocks": 1000, "accounts": accounts, "storageSlots": slots}});
        experiment.scenarios[0].workload = serde_json::from_value(workload).unwrap();
        scale(&experiment)
    };
    let text = "fill: 1/512 of Ethereum's main network (2.5 million of about 1.3 billion accounts and storage slots). \
                Effects may differ at full size.";
    assert_eq!(scaled(440_000, 2_090_000).as_deref(), Some(text));
    assert_eq!(scaled(200_000_000, 1_000_000_000), None);
    assert_eq!(scale(&experiment()), None, "a workload that stands for nothing has no scale");
}

#[test]
fn scenarios_of_one_scale_say_it_together() {
    let mut experiment = experiment();
    experiment.scenarios.extend([scenario("read"), scenario("small")]);
    for (scenario, accounts, slots) in [(0, 440_000, 2_090_000), (1, 440_000, 2_090_000), (2, 220_000, 1_045_000)] {
        let workload = serde_json::json!({"ethrex": {"blocks": 1000, "accounts": accounts, "storageSlots": slots}});
        experiment.scenarios[scenario].workload = serde_json::from_value(workload).unwrap();
    }
    let said = scale(&experiment).unwrap();
    assert!(said.starts_with("fill, read: 1/512 of ") && said.contains("; small: 1/1024 of "), "{said}");
}

#[test]
fn quantiles_of_a_closed_loop_are_labelled() {
    let labelled = |rate: Option<u64>, is_quantile: bool| {
        let mut experiment = experiment();
        experiment.metrics[0] = rule("step_latency_p99", Direction::Lower, Purpose::Objective);
        experiment.metrics[0].quantile = is_quantile;
        let mut workload = serde_json::json!({"keyValue": {"keys": 1000, "valueBytes": {"fixed": 100},
            "roles": [{"name": "writer", "steps": 1000, "mix": {"put": 1}}]}});
        if let Some(rate) = rate {
            workload["keyValue"]["roles"][0]["stepsPerSecond"] = rate.into();
        }
        experiment.scenarios[0].workload = serde_json::from_value(workload).unwrap();
        closed_loop(&experiment)
    };
    let text = "step_latency_p99 in fill: each step starts when the previous one ends, so a stall counts as one slow step. \
                Set stepsPerSecond to count every step that it delays.";
    assert_eq!(labelled(None, true).as_deref(), Some(text));
    assert_eq!((labelled(Some(10), true), labelled(None, false)), (None, None));
}

#[test]
fn a_win_says_what_it_may_not_have_seen() {
    let mut experiment = experiment();
    let said = |experiment: &Experiment| {
        let report = judged(experiment, &attempts(experiment, faster(1.2)));
        assert_eq!(report.configs[0].ruling.verdict, Verdict::Win);
        let note = report.notes.into_iter().find(|note| note.text.contains("may not have occurred"));
        note.map(|note| note.text)
    };
    // 1 - 0.05^(1/8)
    let text = "With 8 runs in each scenario, a fault that hits fewer than 31 % of runs may not have occurred.";
    assert_eq!(said(&experiment).as_deref(), Some(text));
    // What is only shown decides no Win, whether or not it was measured.
    experiment.metrics.push(rule("space_amplification", Direction::Lower, Purpose::Info));
    assert_eq!(said(&experiment).as_deref(), Some(text));
}

#[test]
fn runs_of_a_block_that_was_repeated_say_so() {
    let experiment = experiment();
    let mut all = attempts(&experiment, |_| ());
    let again = attempts(&experiment, |s| s.trial.attempt = crate::attempt::TRIES);
    all.extend(again.into_iter().filter(|attempt| attempt.trial().block == 5));
    let report = judged(&experiment, &all);
    let told = report.trials.iter().filter(|trial| trial.message.is_some());
    let told: Vec<_> = told.map(|trial| (trial.trial.block, trial.trial.attempt, trial.message.as_deref())).collect();
    assert_eq!(told, [(5, 0, Some("the block was interrupted and ran again as a whole")); 2]);
}

#[test]
fn a_scenario_that_is_open_alone_is_explained() {
    let mut experiment = experiment();
    experiment.scenarios.push(scenario("read"));
    let notes = |scatter: f64| {
        let report = judged(
            &experiment,
            &attempts(&experiment, |s| {
                // A gain that is not ruled out there, and no loss.
                if s.trial.scenario == "read" && s.trial.block.is_multiple_of(2) {
                    faster(1.0 + scatter)(s);
                }
            }),
        );
        assert_eq!(report.configs[0].ruling.verdict, Verdict::Neutral);
        let alone = report.notes.iter().filter(|note| note.text.contains("Alone, read can't")).count();
        (report.cells[1].ruling.verdict, alone)
    };
    assert_eq!(notes(0.001), (Verdict::Neutral, 0));
    assert_eq!(notes(0.08), (Verdict::Inconclusive, 1));
}

/// A report with something of everything, for the texts.
pub(crate) fn full_report(complete: bool) -> Report {
    let experiment = larger();
    let mut all = attempts(&experiment, |s| {
        faster(1.2)(s);
        if s.trial.config == "candidate" && s.trial.block == 3 && s.trial.scenario == "fill" {
            s.disturbance.throttled_periods = Some(7);
        }
        if s.trial.config == "candidate" {
            s.options.sanitised.count = 1;
            s.options.sanitised.names = vec!["max_background_jobs".to_owned()];
        }
    });
    let mut again = Vec::new();
    for attempt in &all {
        if let Attempt::Finished(summary) = attempt
            && summary.disturbance.throttled_periods == Some(7)
        {
            let mut summary = Summary::clone(summary);
            summary.disturbance.throttled_periods = Some(0);
            summary.trial.attempt = 1;
            again.push(Attempt::Finished(summary.into()));
        }
    }
    all.extend(again);
    if !complete {
        all.truncate(20);
    }
    judged(&experiment, &all)
}

/// Compares with a file that `ASSAY_UPDATE_GOLDEN=1` writes anew.
pub(crate) fn golden(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("ASSAY_UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap_or(&path)).unwrap_or_else(|error| unreachable!("{error}"));
        std::fs::write(&path, text).unwrap_or_else(|error| unreachable!("{error}"));
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{} is stale: run the tests with ASSAY_UPDATE_GOLDEN=1", path.display());
}

#[test]
fn texts_are_as_committed() {
    for (name, complete) in [("report", true), ("partial", false)] {
        let mut report = full_report(complete);
        if complete {
            report.time_spent = crate::report::time_spent::tests::sample(&report);
            report.records = crate::report::measured::tests::sample(&report);
            report.setup = Some(crate::report::setup::tests::sample());
        }
        golden(&format!("{name}.txt"), &terminal(&report, WIDTH));
        golden(&format!("{name}-80.txt"), &terminal(&report, 80));
        golden(&format!("{name}.md"), &markdown(&report));
    }
}

#[test]
fn no_terminal_is_too_narrow_for_a_word() {
    let report = full_report(true);
    let words = |text: &str| {
        text.split([' ', '\n', ',']).filter(|word| !word.is_empty()).map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let wide = words(&terminal(&report, 1000));
    for width in [80, 100, 132] {
        let text = terminal(&report, width);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        assert_eq!(words(&text), wide, "{text}");
    }
}

#[test]
fn names_can_not_become_markup() {
    let mut report = full_report(true);
    report.experiment = "<script>|x".to_owned();
    report.configs[0].ruling.sentence = "<b>bold</b>".to_owned();
    let text = markdown(&report);
    assert!(!text.contains("<script>") && !text.contains("<b>"));
}
