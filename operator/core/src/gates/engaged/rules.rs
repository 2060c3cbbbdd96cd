//! Options that act from some value on: memtables, triggers, background jobs, syncs, FIFO.
//!
//! Where the arms have different values the lower one decides: before it is reached both behave alike.

use std::collections::BTreeSet;

use assay_protocol::option_value::nested;

use super::case::{Answer, Case, Place, Read};
use crate::quantity::display;

const MIB: u64 = 1 << 20;

/// Memtables are flushed when they are full.
pub fn write_buffer_size(case: &Case<'_>) -> Answer {
    let Some(smaller) = case.lowest(64 * MIB) else { return Answer::Unknown };
    let fullest: Read = |seen| seen.fullest_memtable_bytes;
    case.judge(&[(|seen| seen.filled_memtables, 1), (fullest, smaller)], || {
        let most = display(case.most(fullest));
        format!("no memtable filled up: the largest held {most}; it takes effect at {} in one family", display(smaller))
    })
}

/// Writes are delayed one memtable before they are stopped, if there may be more than three.
pub fn max_write_buffer_number(case: &Case<'_>) -> Answer {
    let limits = case.values(2).map(|values| values.into_iter().map(|limit| if limit > 3 { limit - 1 } else { limit }));
    let Some(limit) = limits.and_then(Iterator::min) else { return Answer::Unknown };
    let waiting: Read = |seen| seen.immutable_memtables_peak;
    case.judge(&[(waiting, limit)], || {
        format!("at most {} memtables of a family waited for a flush; it delays writes at {limit}", case.most(waiting))
    })
}

/// A full memtable waits for others until there are so many.
pub fn min_write_buffer_number_to_merge(case: &Case<'_>) -> Answer {
    let Some(fewer) = case.lowest(1) else { return Answer::Unknown };
    case.judge(&[(|seen| seen.filled_memtables, 1), (|seen| seen.immutable_memtables_peak, fewer.max(1))], || {
        "no memtable filled up, so none waited for others; it takes effect once memtables fill up".to_owned()
    })
}

/// All memtables together: RocksDB begins to flush at seven eighths of the limit.
pub fn db_write_buffer_size(case: &Case<'_>) -> Answer {
    let Some(limit) = case.lowest_in_use() else { return Answer::Unknown };
    let (all, needed): (Read, u64) = (|seen| seen.memtable_bytes_peak, limit - limit / 8);
    case.judge(&[(|seen| seen.buffer_manager_flushes, 1), (all, needed)], || {
        let most = display(case.most(all));
        format!("all memtables together held at most {most}; it takes effect at {} (7/8 of the limit)", display(needed))
    })
}

/// The filter of a memtable: both options together make it, one of the size and one of what it is about.
pub fn memtable_filter(case: &Case<'_>) -> Answer {
    let is_set =
        |value: Option<&String>| value.is_some_and(|value| !matches!(value.trim(), "" | "0" | "false" | "nullptr"));
    let makes_filter = |options: &std::collections::BTreeMap<String, String>| {
        let about = ["prefix_extractor", "memtable_whole_key_filtering"];
        is_set(options.get("memtable_prefix_bloom_size_ratio")) && about.iter().any(|name| is_set(options.get(*name)))
    };
    if !case.places.iter().any(|place| makes_filter(&place.before) || makes_filter(&place.after)) {
        let needs = "memtable_prefix_bloom_size_ratio and either prefix_extractor or memtable_whole_key_filtering";
        return Answer::Idle(format!("memtables have no filter: a filter needs {needs}"));
    }
    case.judge(&[(|seen| seen.user_bytes_written, 1)], || "no write".to_owned())
}

/// Numbers of files in L0. The defaults are RocksDB's.
pub fn l0_trigger(case: &Case<'_>) -> Answer {
    let default = match case.option {
        "level0_slowdown_writes_trigger" => 20,
        "level0_stop_writes_trigger" => 36,
        _ => 4,
    };
    let Some(needed) = case.lowest(default) else { return Answer::Unknown };
    let files: Read = |seen| seen.l0_files_peak;
    case.judge(&[(files, needed)], || format!("at most {} files in L0; it takes effect at {needed}", case.most(files)))
}

/// What a file has grown by is synced in steps of this size; its last mebibyte never is.
pub fn bytes_per_sync(case: &Case<'_>) -> Answer {
    let Some(step) = case.lowest_in_use() else { return Answer::Unknown };
    let (largest, needed): (Read, u64) = (|seen| seen.largest_file_bytes, step.saturating_add(MIB));
    case.judge(&[(largest, needed)], || {
        let most = display(case.most(largest));
        format!("the largest file from flush or compaction had {most}; it takes effect at {}", display(needed))
    })
}

/// A quarter of the jobs are flushes, at least one, and the rest compactions, at least one.
pub fn max_background_jobs(case: &Case<'_>) -> Answer {
    let Some(values) = case.values(2) else { return Answer::Unknown };
    let flushes = |jobs: &u64| (jobs / 4).max(1);
    let compactions = |jobs: &u64| jobs.saturating_sub(flushes(jobs)).max(1);
    // A limit acts when one more is due. The same limit in both arms is none that was changed.
    let limit = |of: &dyn Fn(&u64) -> u64| {
        let limits: BTreeSet<u64> = values.iter().map(of).collect();
        limits.first().filter(|_| limits.len() > 1).map(|lowest| lowest + 1)
    };
    let due: [(Read, Option<u64>, &str); 2] = [
        (|seen| seen.flushes_due_peak, limit(&flushes), "flushes"),
        (|seen| seen.compactions_due_peak, limit(&compactions), "compactions"),
    ];
    let signs: Vec<(Read, u64)> = due.iter().filter_map(|(read, needed, _)| Some((*read, (*needed)?))).collect();
    case.judge(&signs, || {
        let said = due.iter().filter_map(|(read, needed, what)| {
            Some(format!("{what}: at most {} due at once, takes effect at {}", case.most(*read), (*needed)?))
        });
        let said: Vec<String> = said.collect();
        if said.is_empty() { "both values give the same limits".to_owned() } else { said.join("; ") }
    })
}

/// FIFO compaction drops the oldest files.
pub fn compaction_options_fifo(case: &Case<'_>) -> Answer {
    let style = |options: &std::collections::BTreeMap<String, String>| {
        options.get("compaction_style").is_some_and(|style| style.contains("FIFO"))
    };
    if !case.places.iter().any(|place| style(&place.before) || style(&place.after)) {
        return Answer::Idle("compaction_style is not kCompactionStyleFIFO, the only style it applies to".to_owned());
    }
    let signs: &[(Read, u64)] = if case.places.iter().all(only_limits) {
        &[(|seen| seen.fifo_drops, 1)]
    } else {
        &[(|seen| seen.fifo_drops, 1), (|seen| seen.compactions, 1)]
    };
    case.judge(signs, || "no file was dropped: it takes effect once a family's files exceed its size or age".to_owned())
}

/// Whether all that differs is how much is kept.
fn only_limits(place: &Place) -> bool {
    let keys = |options: &std::collections::BTreeMap<String, String>| {
        let mut keys =
            options.get("compaction_options_fifo").and_then(|value| nested(value.trim())).unwrap_or_default();
        keys.retain(|key, _| !matches!(key.as_str(), "max_table_files_size" | "max_data_files_size"));
        keys
    };
    keys(&place.before) == keys(&place.after)
}
