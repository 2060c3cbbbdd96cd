//! A sweep of 18 configs of the history indices of an Ethereum node.

use std::fmt::Write as _;

use assay_core::experiment::Experiment;
use assay_core::gates::Code;
use assay_core::plan::{Plan, PlanError};
use assay_protocol::Digest;
use serde_json::{Value, json};

use crate::lab::Lab;
use crate::{runs, shapes};

/// The published runs.
const PUBLISHED: &str = include_str!("../../../../examples/judge/reth/runs.csv");

fn buffers() -> Lab {
    shapes::lab(&json!({"write_buffer_size": "1M"}), &json!({"write_buffer_size": "256K"}))
}

/// The verdict about one config of a published session, where the baseline and the others have these builds.
fn published(session: &str, baseline: &str, config: &str, builds: &[(&str, &str)]) -> String {
    let attributes: Vec<Value> =
        builds.iter().map(|(name, build)| json!({"name": name, "attributes": {"build": build}})).collect();
    let policy = json!({
        "baseline": baseline,
        "objectives": [{"metric": "ggas_per_sec", "direction": "higher", "margin": "5%"}],
        "configs": attributes,
        "columns": {"replicate": "run", "work": "blocks"},
    });
    let (columns, rows) = PUBLISHED.split_once('\n').unwrap();
    let rows: Vec<&str> = rows.lines().filter(|row| row.starts_with(&format!("{session},"))).collect();
    runs::verdicts(&runs::judged(&policy, columns, &rows.join("\n")).unwrap())[config].clone()
}

/// The baseline was built without the feature that puts history into RocksDB.
pub mod r1_another_build {
    use super::*;

    fn judged(baseline_build: &str) -> String {
        let builds = [
            ("baseline_no_edge", baseline_build),
            ("write_buffer_size_128mb", "edge"),
            ("l0_stop_trigger_100", "edge"),
        ];
        published("three-runs", "baseline_no_edge", "write_buffer_size_128mb", &builds)
    }

    #[test]
    pub fn is_caught() {
        assert_eq!(judged("none"), "Invalid FeatureMismatch");
        let mut lab = buffers();
        lab.one(|summary| summary.parity.build = Digest::of(b"without edge"));
        assert_eq!(shapes::found(&lab), [Code::FeatureMismatch]);
    }

    #[test]
    pub fn passes_without_it() {
        // What is left are three runs of each, which decide nothing.
        assert_eq!(judged("edge"), "Inconclusive TooFewBlocks");
        assert_eq!(shapes::found(&buffers()), []);
    }
}

/// 17.50 Ggas/s against 1.07: the node knew the blocks already.
pub mod r2_a_run_that_did_no_work {
    use super::*;

    #[test]
    pub fn is_caught() {
        assert_eq!(published("sweep", "baseline", "bytes_per_sync_4mb_v2", &[]), "Invalid Implausible");
    }

    #[test]
    pub fn passes_without_it() {
        assert_eq!(published("sweep", "baseline", "write_buffer_size_128mb", &[]), "Inconclusive TooFewBlocks");
    }
}

/// Every run unwound 200 blocks and replayed 100, so it had other blocks: 29.55 to 32.18 Mgas each.
pub mod r3_other_blocks_in_each_run {
    use super::*;

    fn judged(base: f64, changed: f64) -> String {
        let gas = |config: &str| if config == "base" { base } else { changed };
        let rows: Vec<String> = runs::blocks(12, &[("ggas_per_sec", 1.07, 1.2)])
            .lines()
            .map(|row| format!("{row}{}", gas(row.split(',').nth(1).unwrap()) * 100.0))
            .collect();
        runs::verdict(&runs::policy("ggas_per_sec", &[]), &rows.join("\n"))
    }

    #[test]
    pub fn is_caught() {
        assert_eq!(judged(29.55, 32.18), "Invalid WorkMismatch in s");
        let mut lab = buffers();
        lab.one(|summary| summary.parity.work = Digest::of(b"other blocks"));
        assert_eq!(shapes::found(&lab), [Code::WorkMismatch]);
    }

    #[test]
    pub fn passes_without_it() {
        assert_eq!(judged(29.55, 29.55), "Win Better:ggas_per_sec");
        assert_eq!(shapes::found(&buffers()), []);
    }
}

/// RocksDB was written to beside the thread that was timed: 0.032 s of 0.508 s, and a gain of 13.2 % was claimed for it.
pub mod r4_metric_off_the_causal_path {
    use super::*;

    fn judged(db_percent: f64) -> String {
        let mut lab = buffers();
        shapes::spending(&mut lab, db_percent, 0.0);
        shapes::faster(&mut lab, 1.132);
        shapes::verdict(&lab)
    }

    #[test]
    pub fn is_caught() {
        assert_eq!(judged(100.0 * 0.032 / 0.508), "Invalid CausalPathExceeded");
    }

    #[test]
    pub fn passes_without_it() {
        assert_eq!(judged(90.0), "Win Better:throughput");
    }
}

/// L0 stop at 100 instead of 36 files, in runs that made two at most.
pub mod r5_limit_never_reached {
    use super::*;

    fn judged(l0_files: u64) -> Vec<Code> {
        let mut lab =
            shapes::lab(&json!({"compression": "kNoCompression"}), &json!({"level0_stop_writes_trigger": 100}));
        lab.all(None, |summary| summary.engagement.l0_files_peak = Some(l0_files));
        shapes::found(&lab)
    }

    #[test]
    pub fn is_caught() {
        assert_eq!(judged(2), [Code::NotEngaged]);
    }

    #[test]
    pub fn passes_without_it() {
        assert_eq!(judged(36), []);
    }
}

/// One quantity as gauges of the last event: 30 ns, 33 us and 0.05 s.
pub mod r6_units_and_last_events {
    use super::*;

    fn judged(latency: f64) -> Vec<Code> {
        let mut lab = buffers();
        lab.one(|summary| shapes::scale(summary, 1.0, latency));
        shapes::found(&lab)
    }

    fn imported(unit: &str) -> Result<(), String> {
        let columns = "scenario,config,block,metric,value,unit";
        let rows = format!("s,base,1,commit,30,ns\ns,changed,1,commit,33,{unit}");
        runs::judged(&runs::policy("commit", &[]), columns, &rows).map(drop)
    }

    #[test]
    pub fn is_caught() {
        // The last step alone is no mean of all, and a mean in another unit is a thousand times off.
        assert_eq!(judged(30e-9 / 33e-6), [Code::TimeMismatch]);
        assert!(imported("us").unwrap_err().contains("unit"), "{:?}", imported("us"));
    }

    #[test]
    pub fn passes_without_it() {
        assert_eq!(judged(1.0), []);
        assert_eq!(imported("ns"), Ok(()));
    }
}

/// One rule for the first session and another for the later ones; the wildest run was left out of the summary.
pub mod r7_rules_changed_afterwards {
    use super::*;

    #[test]
    pub fn is_caught() {
        let mut plan = buffers().plan;
        plan.experiment.metrics[0].margin = 0.2;
        assert!(matches!(plan.check(), Err(PlanError::Changed { .. })));
        // Runs that are not there are seen. These take 1.8 times as long as the baseline's, so that chance loses more of them.
        let mut lab = Lab::of(Experiment { repetitions: 16, ..buffers().plan.experiment });
        lab.lose(Some("cramped"), 10);
        assert_eq!(shapes::found(&lab), [Code::Attrition]);
    }

    #[test]
    pub fn passes_without_it() {
        let lab = buffers();
        assert!(lab.plan.check().is_ok());
        assert_eq!(shapes::found(&lab), []);
    }
}

/// Win at one run, Reject at three, Win at three others, Neutral at five.
pub mod r8_conclusions_from_too_few_runs {
    use super::*;

    #[test]
    pub fn is_caught() {
        for (session, baseline, config) in [
            ("sweep", "baseline", "l0_stop_trigger_100"),
            ("rerun", "baseline_rerun", "l0_stop_trigger_100_rerun"),
            ("three-runs", "baseline_no_edge", "l0_stop_trigger_100"),
            ("three-runs-corrected", "baseline_edge", "l0_stop_trigger_100"),
        ] {
            assert_eq!(published(session, baseline, config, &[]), "Inconclusive TooFewBlocks", "{session}");
        }
        // An own experiment of so few is refused.
        let mut document =
            shapes::document(&shapes::ethrex(), &json!({}), &json!({"dbOptions": {"max_background_jobs": 8}}));
        document["spec"]["repetitions"] = json!(3);
        let found = shapes::messages(&document);
        assert!(found.iter().any(|message| message.contains("3 blocks can't prove anything")), "{found:?}");
    }

    #[test]
    pub fn passes_without_it() {
        let rows = runs::blocks(12, &[("ggas_per_sec", 0.952, 1.083)]);
        assert_eq!(runs::verdict(&runs::policy("ggas_per_sec", &[]), &rows), "Win Better:ggas_per_sec");
    }
}

/// All runs of one config, then all of the next, while the machine drifted: 1.051, 0.905, 0.795.
pub mod r9_one_config_after_the_other {
    use super::*;

    #[test]
    pub fn is_caught() {
        // However many runs there are: without blocks nobody can tell a config from its hour.
        let rows: Vec<String> = (0..40)
            .map(|run| {
                format!(
                    "s,base,,{run},ggas_per_sec,{},\ns,changed,,{run},ggas_per_sec,{},",
                    1.0 - 0.001 * f64::from(run),
                    0.7
                )
            })
            .collect();
        let verdict = runs::verdict(&runs::policy("ggas_per_sec", &[]), &rows.join("\n"));
        assert_eq!(verdict, "Inconclusive Unblocked");
    }

    #[test]
    pub fn passes_without_it() {
        let rows = runs::blocks(12, &[("ggas_per_sec", 1.0, 0.7)]);
        assert_eq!(runs::verdict(&runs::policy("ggas_per_sec", &[]), &rows), "Reject Harm:ggas_per_sec");
        // And our own runs are in blocks, in another order each.
        let plan = buffers().plan;
        let orders: Vec<Vec<&str>> =
            plan.blocks.iter().map(|block| block.slots.iter().map(|slot| slot.config.as_str()).collect()).collect();
        assert!(orders.iter().any(|order| order != &orders[0]));
        assert!(orders.iter().all(|order| order.contains(&"roomy") && order.contains(&"cramped")));
    }
}

/// The 99th percentile of 100 blocks is the slowest one or two of them.
pub mod r10_quantiles_without_a_tail {
    use super::*;

    fn said(blocks: u64) -> Vec<String> {
        let workload = json!({"rethHistory": {"blocks": blocks, "accounts": 100_000, "storageSlots": 200_000}});
        let mut document = shapes::document(&workload, &json!({}), &json!({"dbOptions": {"max_background_jobs": 8}}));
        document["spec"]["objectives"] = json!([{"metric": "step_latency_p99", "margin": "5%"}]);
        shapes::messages(&document)
    }

    #[test]
    pub fn is_caught() {
        let found = said(100);
        assert!(found.iter().any(|message| message.contains("step_latency_p99 needs at least ")), "{found:?}");
    }

    #[test]
    pub fn passes_without_it() {
        assert_eq!(said(20_000), Vec::<String>::new());
    }
}

/// 17 configs against one run of the baseline: one of them will look good.
pub mod r11_best_of_seventeen {
    use super::*;

    /// Whether a config that is better in nine of twelve blocks wins beside so many that are not.
    fn wins(others: u32) -> bool {
        let mut rows = String::new();
        for block in 1..=12_u32 {
            let base = 1.0 + f64::from(block * 37 % 11) / 100.0;
            let lucky = if block <= 3 { 0.999 - f64::from(block) / 1000.0 } else { 1.03 + f64::from(block) / 500.0 };
            let _ = writeln!(
                rows,
                "s,base,{block},,ggas_per_sec,{base},\ns,changed,{block},,ggas_per_sec,{},",
                base * lucky
            );
            for other in 0..others {
                let none = 1.0 + (f64::from((block * 31 + other * 17) % 13) - 6.0) / 200.0;
                let _ = writeln!(rows, "s,other{other},{block},,ggas_per_sec,{},", base * none);
            }
        }
        runs::verdict(&runs::policy("ggas_per_sec", &[]), rows.trim_end()).starts_with("Win")
    }

    /// Baseline runs in each block beside so many configs.
    fn baselines(configs: usize) -> u32 {
        let mut document =
            shapes::document(&shapes::ethrex(), &json!({}), &json!({"dbOptions": {"max_background_jobs": 8}}));
        for number in 1..configs {
            let more = json!({"name": format!("more{number}"), "dbOptions": {"max_background_jobs": 8 + number}});
            document["spec"]["configs"].as_array_mut().unwrap().push(more);
        }
        let experiment: Experiment = shapes::experiment(&document);
        Plan::new(experiment).unwrap().experiment.baseline_replicates
    }

    #[test]
    pub fn is_caught() {
        assert!(!wins(16));
        assert_eq!(baselines(17), 4);
    }

    #[test]
    pub fn passes_without_it() {
        assert!(wins(0));
        assert_eq!(baselines(1), 1);
    }
}

/// The runs came from a branch that nobody can see, with constants that the public code did not have.
pub mod r12_unknown_options {
    use super::*;

    fn judged(undeclared: u32, known: bool) -> Vec<Code> {
        let mut lab = buffers();
        lab.one(|summary| {
            summary.options.undeclared.count = undeclared;
            if !known {
                summary.options.effective = None;
            }
        });
        shapes::found(&lab)
    }

    #[test]
    pub fn is_caught() {
        assert_eq!(judged(1, true), [Code::UndeclaredOptions]);
        assert_eq!(judged(0, false), [Code::OptionsUnknown]);
    }

    #[test]
    pub fn passes_without_it() {
        assert_eq!(judged(0, true), []);
    }
}
