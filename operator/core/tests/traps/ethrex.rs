//! Compression per level, and smaller memtables with a higher L0 trigger, in an Ethereum node.

use assay_core::gates::{Code, Label};
use assay_core::validate::validate_document;
use assay_protocol::{OptionNote, OptionsAnswer};
use serde_json::{Value, json};

use crate::{runs, shapes};

const MIB: u64 = 1 << 20;

/// 512 MiB x 6 memtables with an L0 trigger of 4 against 128 MiB x 4 with 8.
fn memtables() -> crate::lab::Lab {
    shapes::lab(
        &json!({"write_buffer_size": "512M", "max_write_buffer_number": 6, "level0_file_num_compaction_trigger": 4}),
        &json!({"write_buffer_size": "128M", "max_write_buffer_number": 4, "level0_file_num_compaction_trigger": 8}),
    )
}

/// Throughput up 2.6 %, the mean latency up 5.7 % and the 95th percentile up 16.5 %: published as an improvement.
pub mod e1_throughput_up_and_latency_worse {
    use super::*;

    fn judged(mean_ms: f64, p95_ms: f64) -> String {
        let policy = runs::policy("mgas_per_second", &["mean_ms", "p95_ms"]);
        let metrics = [("mgas_per_second", 420.48, 431.43), ("mean_ms", 67.81, mean_ms), ("p95_ms", 148.88, p95_ms)];
        runs::verdict(&policy, &runs::blocks(12, &metrics))
    }

    #[test]
    pub fn is_caught() {
        assert_eq!(judged(71.65, 173.43), "Tradeoff mgas_per_second better; mean_ms,p95_ms worse");
    }

    #[test]
    pub fn passes_without_it() {
        assert_eq!(judged(67.81 / 1.026, 148.88 / 1.026), "Win Better:mgas_per_second");
    }
}

/// 72 blocks of about 1 MB left the layers in memory, over four families: no memtable of 128 MiB was ever full.
pub mod e2_tuned_families_barely_written {
    use super::*;

    fn judged(fullest: u64, filled: u64, waiting: u64, l0_files: u64) -> Vec<Code> {
        let mut lab = memtables();
        lab.all(None, |summary| {
            let seen = &mut summary.engagement;
            (seen.fullest_memtable_bytes, seen.filled_memtables) = (Some(fullest), Some(filled));
            (seen.immutable_memtables_peak, seen.l0_files_peak) = (Some(waiting), Some(l0_files));
        });
        shapes::found(&lab)
    }

    #[test]
    pub fn is_caught() {
        assert_eq!(judged(18 * MIB, 0, 0, 0), [Code::NotEngaged]);
    }

    #[test]
    pub fn passes_without_it() {
        assert_eq!(judged(128 * MIB, 3, 1, 2), []);
    }
}

/// 93 % of CPU time went to compaction of what the snapshot had left behind.
pub mod e3_inherited_debt {
    use super::*;

    fn judged(settled: bool, debt: u64) -> (Vec<Code>, bool) {
        let mut lab = memtables();
        lab.all(Some("cramped"), |summary| {
            if summary.trial.block == 2 {
                summary.steady.settled_before = Some(settled);
            }
            (summary.steady.debt_in_bytes, summary.steady.debt_out_bytes) = (Some(debt), Some(0));
        });
        let report = lab.report();
        (
            shapes::found(&lab),
            shapes::notes(&report).iter().any(|note| note.contains("compaction that the warm-up left")),
        )
    }

    #[test]
    pub fn is_caught() {
        assert_eq!(judged(false, 20 << 30), (vec![Code::NotSettled], true));
    }

    #[test]
    pub fn passes_without_it() {
        assert_eq!(judged(true, 0), (vec![], false));
    }
}

/// The files of the snapshot had been written without compression, so most reads never met the codecs under test.
pub mod e4_files_of_the_old_format {
    use super::*;

    fn lab(from: Option<&str>) -> crate::lab::Lab {
        let mut document: Value = serde_json::from_str(include_str!("../data/records/experiment.json")).unwrap();
        for (config, codec) in ["kNoCompression", "kLZ4Compression"].into_iter().enumerate() {
            let options = json!({"compression": codec});
            document["spec"]["configs"][config]["columnFamilies"] = json!([{"match": ["*"], "options": options}]);
        }
        if let Some(from) = from {
            document["spec"]["scenarios"][0]["dataset"] = json!({"from": from});
        }
        crate::lab::Lab::of(shapes::experiment(&document))
    }

    /// The codec that the files of each config's dataset are written with.
    fn codecs(lab: &crate::lab::Lab) -> Vec<String> {
        let block = &lab.plan.blocks[0];
        let mut codecs: Vec<(String, String)> = (0..block.slots.len())
            .map(|slot| lab.plan.trial_spec(block, slot, 0).unwrap())
            .map(|spec| (spec.trial.config, spec.dataset.format.family_options("default")["compression"].clone()))
            .collect();
        codecs.sort();
        codecs.dedup();
        codecs.into_iter().map(|(config, codec)| format!("{config} {codec}")).collect()
    }

    #[test]
    pub fn is_caught() {
        // Files of another format than the config's own have to be asked for, and the verdict says so.
        let mut lab = lab(Some("roomy"));
        assert_eq!(codecs(&lab), ["cramped kNoCompression", "roomy kNoCompression"]);
        assert!(shapes::labels(&lab.report()).contains(&Label::Migration));
        // Whoever finds other files than the rest of its block does not count.
        lab.one(|summary| summary.parity.dataset_files = assay_protocol::Digest::of(b"uncompressed"));
        assert_eq!(shapes::found(&lab), [Code::DatasetFilesMismatch]);
    }

    #[test]
    pub fn passes_without_it() {
        let lab = lab(None);
        assert_eq!(codecs(&lab), ["cramped kLZ4Compression", "roomy kNoCompression"]);
        assert!(!shapes::labels(&lab.report()).contains(&Label::Migration));
        assert_eq!(shapes::found(&lab), []);
    }
}

/// A block every 365 ms, with 29 ms of work: its wall time could not move, while CPU time rose by a quarter.
pub mod e5_paced_runs_have_no_rate {
    use super::*;

    fn said(objective: &str) -> Vec<String> {
        let mut workload = shapes::ethrex();
        workload["ethrex"]["blockIntervalMillis"] = json!(365);
        let options = json!({"columnFamilies": [{"match": ["*"], "options": {"compression": "kLZ4Compression"}}]});
        let mut document = shapes::document(&workload, &json!({}), &options);
        document["spec"]["objectives"] = json!([{"metric": objective, "margin": "5%"}]);
        shapes::messages(&document)
    }

    #[test]
    pub fn is_caught() {
        let found = said("throughput");
        assert!(
            found.iter().any(|message| message.contains("throughput can't improve in scenario \"s\": steps")),
            "{found:?}"
        );
    }

    #[test]
    pub fn passes_without_it() {
        assert_eq!(said("cpu_seconds_per_step"), Vec::<String>::new());
    }
}

/// One run of each config, one after the other; two baselines of the same day were 4.1 % apart.
pub mod e6_one_run_each {
    use super::*;

    #[test]
    pub fn is_caught() {
        let policy = runs::policy("mgas_per_second", &[]);
        let rows = "s,base,,1,mgas_per_second,420.48,\ns,changed,,1,mgas_per_second,544.21,";
        assert_eq!(runs::verdict(&policy, rows), "Inconclusive TooFewBlocks");
        // The two baselines against each other would have been a finding, too, for whoever takes one run for one.
        let rows = "s,base,,1,mgas_per_second,66.32,\ns,changed,,1,mgas_per_second,63.70,";
        assert_eq!(runs::verdict(&policy, rows), "Inconclusive TooFewBlocks");
    }

    #[test]
    pub fn passes_without_it() {
        let rows = runs::blocks(12, &[("mgas_per_second", 420.48, 544.21)]);
        assert_eq!(runs::verdict(&runs::policy("mgas_per_second", &[]), &rows), "Win Better:mgas_per_second");
    }
}

/// "Global" L0 triggers and a memtable filter without a prefix were part of the change, and reached no family.
pub mod e7_settings_without_effect {
    use super::*;

    const INERT: [&str; 3] =
        ["level0_file_num_compaction_trigger", "level0_slowdown_writes_trigger", "level0_stop_writes_trigger"];

    /// What a user is told of these settings when RocksDB says which of them reach nothing.
    fn told(inert: &[&str]) -> Vec<String> {
        let settings = json!({"dbOptions": {
            "level0_file_num_compaction_trigger": 8, "level0_slowdown_writes_trigger": 20, "level0_stop_writes_trigger": 36,
        }});
        let document = shapes::document(&shapes::ethrex(), &json!({}), &settings);
        let note = |option: &&str| OptionNote {
            config: "changed".to_owned(),
            scope: "db".to_owned(),
            option: (*option).to_owned(),
            message: "reaches no column family".to_owned(),
        };
        let all_inert = if inert.len() == INERT.len() { vec!["changed".to_owned()] } else { Vec::new() };
        let answer = OptionsAnswer { inert: inert.iter().map(note).collect(), all_inert, ..OptionsAnswer::default() };
        let validation = validate_document(&document);
        validation.answer_problems(&answer).iter().map(ToString::to_string).collect()
    }

    fn judged(inert: bool) -> Vec<Code> {
        let mut lab = memtables();
        lab.all(Some("cramped"), |summary| {
            if inert {
                summary.options.inert.count = summary.options.declared;
                summary.options.config = summary.options.baseline.clone();
                summary.options.effective = summary.options.baseline.clone();
            }
        });
        shapes::found(&lab)
    }

    #[test]
    pub fn is_caught() {
        let told = told(&INERT);
        assert!(told.iter().any(|message| message.contains("NoEffectPossible")), "{told:?}");
        assert_eq!(told.iter().filter(|message| message.starts_with("warning")).count(), 3, "{told:?}");
        assert_eq!(judged(true), [Code::NoEffectPossible]);
        // Memtables and triggers together say nothing about either.
        assert!(shapes::labels(&memtables().report()).contains(&Label::Bundled));
    }

    #[test]
    pub fn passes_without_it() {
        assert_eq!(told(&[]), Vec::<String>::new());
        assert_eq!(judged(false), []);
        let alone = shapes::lab(&json!({"write_buffer_size": "1M"}), &json!({"write_buffer_size": "256K"}));
        assert!(!shapes::labels(&alone.report()).contains(&Label::Bundled));
    }
}

/// Throughput up 29.4 %, while the mean latency allows 23.6 %.
pub mod e8_rate_and_latency_disagree {
    use super::*;

    fn judged(latency: f64) -> Vec<Code> {
        let mut lab = shapes::lab(&json!({"write_buffer_size": "1M"}), &json!({"write_buffer_size": "256K"}));
        let rate = 544.21 / 420.48;
        shapes::faster(&mut lab, 1.0);
        lab.all(Some("cramped"), |summary| {
            summary.window_seconds /= rate;
            shapes::scale(summary, rate, latency);
        });
        shapes::found(&lab)
    }

    #[test]
    pub fn is_caught() {
        assert_eq!(judged(54.86 / 67.81), [Code::TimeMismatch]);
    }

    #[test]
    pub fn passes_without_it() {
        assert_eq!(judged(420.48 / 544.21), []);
    }
}
