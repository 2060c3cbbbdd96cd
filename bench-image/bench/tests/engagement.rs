//! What a trial records of the work that its options had, on the real RocksDB: each sign is seen, and not seen without its cause.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use assay_protocol::{Engagement, Mix, Role, TrialSpec};
use support::{Bench, gets, options, puts, role, spec, workload};

fn seen(spec: &TrialSpec) -> Engagement {
    Bench::new().record(spec).evidence.engagement
}

/// 20000 puts of 400 bytes into an empty memtable.
fn writes(pairs: &[(&str, &str)]) -> TrialSpec {
    let mut spec = spec(workload(vec![role("writer", 20_000, puts())]));
    spec.config = options(pairs);
    spec
}

#[test]
fn full_memtables_are_told_from_others() {
    let small = seen(&writes(&[("write_buffer_size", "1M")]));
    assert!(small.filled_memtables.unwrap() > 3, "{small:?}");
    assert!(small.immutable_memtables_peak.unwrap() >= 1, "{small:?}");
    let fullest = small.fullest_memtable_bytes.unwrap();
    // A memtable may outgrow its size by most of its last block, which is an eighth of that size.
    assert!((200_000..=(1 << 20) * 9 / 8).contains(&fullest), "{small:?}");
    let large = seen(&writes(&[("write_buffer_size", "64M")]));
    assert_eq!((large.filled_memtables, large.flushes, large.immutable_memtables_peak), (Some(0), Some(0), Some(0)));
    assert!(large.fullest_memtable_bytes.unwrap() > 8_000_000, "{large:?}");
    assert_eq!(large.largest_file_bytes, Some(0));
}

#[test]
fn the_limit_on_all_memtables_is_told_from_that_on_one() {
    let mut capped = writes(&[("write_buffer_size", "64M")]);
    capped.config.db_options.insert("db_write_buffer_size".to_owned(), "2M".to_owned());
    let seen = seen(&capped);
    assert!(seen.buffer_manager_flushes.unwrap() > 1, "{seen:?}");
    assert_eq!(seen.filled_memtables, Some(0));
    assert!(seen.largest_file_bytes.unwrap() > 500_000, "{seen:?}");
}

#[test]
fn writers_that_meet_are_told_from_one_alone() {
    let threads = |threads| {
        let mut spec = writes(&[]);
        spec.workload =
            assay_protocol::Workload::KeyValue(workload(vec![Role { threads, ..role("w", 40_000, puts()) }]));
        seen(&spec).grouped_writes.unwrap()
    };
    assert_eq!(threads(1), 0);
    assert!(threads(8) > 0);
}

#[test]
fn levels_are_those_that_were_written_compressed_or_read() {
    let compressed = |codec| seen(&writes(&[("compression", codec), ("write_buffer_size", "1M")]));
    assert_eq!(compressed("kNoCompression").levels_compressed.unwrap(), Vec::<u8>::new());
    let lz4 = compressed("kLZ4Compression");
    assert!(lz4.levels_compressed.as_ref().unwrap().contains(&0), "{lz4:?}");
    assert_eq!((lz4.base_levels, lz4.last_level), (Some([6, 6]), Some(6)));

    let mut reads = spec(workload(vec![role("reader", 2_000, gets())]));
    // So that a read has to go to the files.
    reads.config.block_cache = Some(assay_protocol::BlockCache { bytes: 64 << 10, shared: true });
    let record = Bench::new().record(&reads);
    let holds_files = record.families["default"].files_by_level.iter().rposition(|files| *files > 0).unwrap();
    let read = record.evidence.engagement;
    assert_eq!(read.levels_read.unwrap(), [holds_files as u8]);
    assert_eq!(read.levels_compressed.unwrap(), Vec::<u8>::new());
    assert_eq!(seen(&writes(&[("write_buffer_size", "64M")])).levels_read.unwrap(), Vec::<u8>::new());
}

#[test]
fn fifo_that_drops_is_told_from_fifo_that_has_room() {
    let fifo = |size: &str| {
        let limit = format!("{{max_table_files_size={size};}}");
        let pairs = [("compaction_style", "kCompactionStyleFIFO"), ("compaction_options_fifo", limit.as_str())];
        let mut spec = writes(&[&pairs[..], &[("write_buffer_size", "1M"), ("num_levels", "1")]].concat());
        spec.dataset.format = spec.config.clone();
        seen(&spec).fifo_drops.unwrap()
    };
    // The dataset fits, and what is written to it does not.
    assert!(fifo("6M") > 0);
    assert_eq!(fifo("1G"), 0);
}

#[test]
fn only_tuned_families_are_watched_and_idle_ones_are_named() {
    let mut two = workload(vec![role("writer", 20_000, puts())]);
    two.families = ["a", "b"].map(str::to_owned).to_vec();
    let mut written = spec(two.clone());
    written.config = options(&[("write_buffer_size", "1M")]);
    written.config.column_families[0].r#match = vec!["a".to_owned()];
    written.tuned_families = vec!["a".to_owned()];
    let a = seen(&written);
    assert!(a.filled_memtables.unwrap() > 0);
    assert_eq!(a.idle_families.unwrap(), Vec::<String>::new());
    written.tuned_families = vec!["b".to_owned()];
    assert_eq!(seen(&written).filled_memtables, Some(0));

    two.roles = vec![role("reader", 1_000, Mix { get: 1, ..Mix::default() })];
    assert_eq!(seen(&spec(two)).idle_families.unwrap(), ["a", "b"]);
}

#[test]
fn compactions_that_are_due_are_counted() {
    let busy = seen(&writes(&[("write_buffer_size", "256K"), ("level0_file_num_compaction_trigger", "2")]));
    assert!(busy.compactions_due_peak.unwrap() >= 1 && busy.flushes_due_peak.unwrap() >= 1, "{busy:?}");
    let idle = seen(&writes(&[("write_buffer_size", "64M")]));
    assert_eq!((idle.compactions_due_peak, idle.flushes_due_peak), (Some(0), Some(0)));
}
