//! FIFO compaction for the shreds of a validator.

use assay_core::gates::{Code, Label};
use assay_protocol::{Digest, Summary, TrialRecord};
use serde_json::{Value, json};

use crate::lab::Lab;
use crate::shapes;

fn buffers() -> Lab {
    shapes::lab(&json!({"write_buffer_size": "1M"}), &json!({"write_buffer_size": "256K"}))
}

/// A model said 30 times the write amplification, the counters 719.87 GB against 188.24 GB: 3.8 times.
pub mod c1_modelled_write_amplification {
    use super::*;

    #[test]
    pub fn is_caught() {
        // What was not measured has no name to be judged by.
        let mut document =
            shapes::document(&shapes::blockstore(), &json!({}), &json!({"policy": {"retention": "fifo"}}));
        document["spec"]["objectives"] = json!([{"metric": "modelled_write_amplification", "margin": "5%"}]);
        let found = shapes::messages(&document);
        assert!(
            found.iter().any(|message| message.contains("unknown metric \"modelled_write_amplification\"")),
            "{found:?}"
        );
    }

    #[test]
    pub fn passes_without_it() {
        let record = TrialRecord::from_json(include_bytes!("../data/records/cramped.json")).unwrap();
        let ticker = |name: &str| record.tickers[name] as f64;
        let written = ticker("rocksdb.flush.write.bytes") + ticker("rocksdb.compact.write.bytes");
        let measured = written / record.work.user_bytes as f64;
        assert!(measured > 1.0);
        assert!((record.metrics["write_amplification"] - measured).abs() < 1e-9);
    }
}

/// The tuned families wrote 1.27 and 4.88 MB/s, the device 15 to 20 and 25 to 30: most of it came from elsewhere.
pub mod c2_device_bytes_of_others {
    use super::*;

    fn noted(foreign_percent: f64) -> bool {
        let mut lab = buffers();
        lab.all(None, |summary| summary.storage.foreign_write_percent = Some(foreign_percent));
        shapes::notes(&lab.report()).iter().any(|note| note.contains("of the bytes that went to the disk"))
    }

    #[test]
    pub fn is_caught() {
        assert!(noted(100.0 * (1.0 - 4.88 / 27.5)));
    }

    #[test]
    pub fn passes_without_it() {
        assert!(!noted(0.0));
    }
}

/// Cheaper making of shreds alone brought 52 to 93 thousand a second.
pub mod c3_generator_in_the_timed_loop {
    use super::*;

    /// How much of a difference shows, as noted.
    fn shown(generator_percent: f64) -> bool {
        let mut lab = buffers();
        shapes::spending(&mut lab, 100.0 - generator_percent, generator_percent);
        assert_eq!(shapes::found(&lab), []);
        shapes::notes(&lab.report()).iter().any(|note| note.contains("0.559 times as wide"))
    }

    #[test]
    pub fn is_caught() {
        assert!(shown(100.0 * (1.0 - 52.0 / 93.0)));
    }

    #[test]
    pub fn passes_without_it() {
        assert!(!shown(0.5));
    }
}

/// Both families of shreds were tuned, and the runs made data shreds only.
pub mod c4_half_of_the_tuned_families_idle {
    use super::*;

    /// What is found, and noted, where these families were not written to and nothing else but the others was.
    fn judged(idle: &[&str], filled: u64) -> (Vec<Code>, Vec<String>) {
        let mut lab = buffers();
        lab.all(None, |summary| {
            let seen = &mut summary.engagement;
            seen.idle_families = Some(idle.iter().map(|name| (*name).to_owned()).collect());
            seen.filled_memtables = Some(filled);
            seen.fullest_memtable_bytes = Some(if filled > 0 { 1 << 20 } else { 2048 });
        });
        let report = lab.report();
        let notes = shapes::notes(&report).into_iter().filter(|note| note.starts_with("It tunes families"));
        (shapes::found(&lab), notes.map(str::to_owned).collect())
    }

    #[test]
    pub fn is_caught() {
        let note = "It tunes families that writes never writes to: code_shred.".to_owned();
        assert_eq!(judged(&["code_shred"], 4), (vec![], vec![note.clone()]));
        // A config that is about the idle one alone has nothing to say.
        assert_eq!(judged(&["code_shred"], 0), (vec![Code::NotEngaged], vec![note]));
    }

    #[test]
    pub fn passes_without_it() {
        assert_eq!(judged(&[], 4), (vec![], vec![]));
    }
}

/// The example runs of FIFO had the cleanup service off, which level compaction needs.
pub mod c5_one_side_skips_deletions {
    use super::*;

    fn judged(change: impl Fn(&mut Summary)) -> Vec<Code> {
        let mut lab = buffers();
        lab.one(change);
        shapes::found(&lab)
    }

    fn changes(baseline: &str, changed: &str) -> Vec<String> {
        let policy = |retention: &str| json!({"policy": {"retention": retention}});
        let document = shapes::document(&shapes::blockstore(), &policy(baseline), &policy(changed));
        shapes::experiment(&document).configs[1].changes.clone()
    }

    #[test]
    pub fn is_caught() {
        // Steps that one side leaves out are missing in its counts, and what it leaves undone is found at the next start.
        assert_eq!(judged(|summary| summary.parity.counts = Digest::of(b"no cleanup")), [Code::CountsMismatch]);
        assert_eq!(judged(|summary| summary.steady.settled_before = Some(false)), [Code::NotSettled]);
        // A side that keeps what all had to remove is found by what is left.
        assert_eq!(judged(|summary| summary.steady.overdue_percent = Some(80.0)), [Code::RemovalOverdue]);
        // Another way to delete is part of what is compared, and named.
        assert_eq!(changes("rangeDelete", "compactionFilter"), ["policy retention: rangeDelete -> compactionFilter"]);
    }

    #[test]
    pub fn passes_without_it() {
        assert_eq!(judged(|_| ()), []);
        assert_eq!(changes("rangeDelete", "rangeDelete"), Vec::<String>::new());
    }
}

/// The rate was of the slots that were configured, also where a full disk ended the run early.
pub mod c6_rate_of_configured_work {
    use super::*;

    /// A run that is over after this part of its steps, with a rate as if it had done all of them.
    fn judged(done: f64) -> Vec<Code> {
        let mut lab = buffers();
        lab.one(|summary| {
            summary.window_seconds *= done;
            for name in ["throughput", "operation_throughput", "drained_throughput"] {
                summary.metrics.entry(name.to_owned()).and_modify(|rate| *rate /= done);
            }
            if done < 1.0 {
                summary.parity.counts = Digest::of(b"fewer");
            }
        });
        shapes::found(&lab)
    }

    #[test]
    pub fn is_caught() {
        // Fewer steps than planned are counted, and a rate of others does not fit the latencies of those that were done.
        assert_eq!(judged(0.6), [Code::CountsMismatch, Code::TimeMismatch]);
    }

    #[test]
    pub fn passes_without_it() {
        assert_eq!(judged(1.0), []);
    }
}

/// FIFO drops by the age of files, the rows that point at their shreds go by slot.
pub mod c7_rows_of_vanished_data {
    use super::*;

    fn judged(wrong: u64, answers: Option<&[u8]>) -> Vec<Code> {
        let mut lab = buffers();
        lab.one(|summary| {
            summary.parity.wrong_answers = wrong;
            summary.parity.answers = answers.map(Digest::of).or(summary.parity.answers.clone());
        });
        shapes::found(&lab)
    }

    #[test]
    pub fn is_caught() {
        assert_eq!(judged(1, None), [Code::WrongAnswers]);
        assert_eq!(judged(0, Some(b"vanished")), [Code::AnswersMismatch]);
    }

    #[test]
    pub fn passes_without_it() {
        assert_eq!(judged(0, None), []);
    }
}

/// The gain came from another way to delete as much as from the style of compaction: level with range deletes came level later.
pub mod c8_two_policies_at_once {
    use super::*;

    fn label(baseline: &Value, changed: &Value) -> bool {
        let experiment = shapes::experiment(&shapes::document(&shapes::blockstore(), baseline, changed));
        let mut recorded = buffers();
        recorded.plan.experiment.configs[1].changes.clone_from(&experiment.configs[1].changes);
        shapes::labels(&recorded.report()).contains(&Label::Bundled)
    }

    fn fifo(retention: &str) -> Value {
        let options = json!({"compaction_style": "kCompactionStyleFIFO"});
        json!({"policy": {"retention": retention}, "columnFamilies": [{"match": ["*_shred"], "options": options}]})
    }

    #[test]
    pub fn is_caught() {
        assert!(label(&json!({"policy": {"retention": "compactionFilter"}}), &fifo("fifo")));
    }

    #[test]
    pub fn passes_without_it() {
        assert!(!label(
            &json!({"policy": {"retention": "compactionFilter"}}),
            &json!({"policy": {"retention": "rangeDelete"}})
        ));
    }
}
