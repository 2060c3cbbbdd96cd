//! Flushes and compactions, from the events that RocksDB writes to its LOG as JSON.
//!
//! Counters tell how much, only events tell how often, to which level, and how high L0 ever stood.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::Value;

use crate::engagement::LEVELS;

/// What happened within the window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    pub flushes: u64,
    pub compactions: u64,
    /// Flushes that were due since a memtable was full.
    pub filled_memtables: u64,
    /// Flushes that were due since the memtables of all families together were too large.
    pub buffer_manager_flushes: u64,
    /// Most memtables that one flush wrote.
    pub flushed_together_peak: u64,
    pub flushed_families: BTreeSet<String>,
    pub running_flushes_peak: u64,
    pub running_compactions_peak: u64,
    pub l0_files_peak: u64,
    pub largest_file_bytes: u64,
    pub levels_compressed: BTreeSet<u8>,
}

/// The LOG of a closed database: while it is open, RocksDB keeps the last seconds in memory. `None` where not all is there, as
/// with another log level or directory, or a log that was rolled.
pub fn read_log(db_dir: &Path) -> Option<String> {
    let rolled = fs::read_dir(db_dir).ok()?.filter_map(Result::ok);
    if rolled.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with("LOG.old")) {
        return None;
    }
    let text = fs::read(db_dir.join("LOG")).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    // Without a single event the log level hides them, and nothing can be said.
    text.contains("EVENT_LOG_v1").then_some(text)
}

/// Whether a table's compression property tells of compressed blocks: a name, or since format version 7 a list of
/// fields of which the second names the codecs in use.
fn is_compressed(property: &str) -> bool {
    match property.split(';').nth(1) {
        Some(codecs) => !codecs.is_empty(),
        None => !matches!(property, "" | "NoCompression"),
    }
}

/// The events of some column families, or of all.
pub fn count(log: &str, families: Option<&[String]>, from_unix_us: u64, to_unix_us: u64) -> Events {
    let parsed: Vec<Value> = log
        .lines()
        .filter_map(|line| line.split_once("EVENT_LOG_v1 "))
        .filter_map(|(_, json)| serde_json::from_str(json).ok())
        .collect();
    let number = |event: &Value, name: &str| event.get(name).and_then(Value::as_u64);
    // Only the files name the family of a job, and they come after its start.
    let family_of_job: BTreeMap<u64, &str> = parsed
        .iter()
        .filter_map(|event| number(event, "job").zip(event.get("cf_name").and_then(Value::as_str)))
        .collect();
    let asked_for = |job: u64| match (families, family_of_job.get(&job)) {
        (Some(families), Some(family)) => families.iter().any(|asked| asked == family),
        _ => true,
    };
    let mut events = Events::default();
    // Files are reported when they are created, their level when the job ends.
    let mut compressing_jobs = BTreeSet::new();
    let (mut running_flushes, mut running_compactions) = (0_u64, 0_u64);
    for event in &parsed {
        let (Some(kind), Some(at), Some(job)) =
            (event.get("event").and_then(Value::as_str), number(event, "time_micros"), number(event, "job"))
        else {
            continue;
        };
        if !asked_for(job) {
            continue;
        }
        // Jobs that began before the window run on in it.
        match kind {
            "flush_started" => running_flushes += 1,
            "flush_finished" => running_flushes = running_flushes.saturating_sub(1),
            "compaction_started" => running_compactions += 1,
            "compaction_finished" => running_compactions = running_compactions.saturating_sub(1),
            _ => {}
        }
        if at < from_unix_us || at > to_unix_us {
            continue;
        }
        events.running_flushes_peak = events.running_flushes_peak.max(running_flushes);
        events.running_compactions_peak = events.running_compactions_peak.max(running_compactions);
        match kind {
            "flush_started" => {
                let together = number(event, "num_memtables").unwrap_or_default();
                events.flushed_together_peak = events.flushed_together_peak.max(together);
                match event.get("flush_reason").and_then(Value::as_str) {
                    Some("Write Buffer Full") => events.filled_memtables += 1,
                    Some("Write Buffer Manager") => events.buffer_manager_flushes += 1,
                    _ => {}
                }
            }
            "table_file_creation" | "blob_file_creation" => {
                let bytes = number(event, "file_size").or(number(event, "total_blob_bytes")).unwrap_or_default();
                events.largest_file_bytes = events.largest_file_bytes.max(bytes);
                let compression = event.pointer("/table_properties/compression").and_then(Value::as_str);
                if compression.is_some_and(is_compressed) {
                    compressing_jobs.insert(job);
                }
            }
            "flush_finished" | "compaction_finished" => {
                let level = if kind == "flush_finished" {
                    events.flushes += 1;
                    events.flushed_families.extend(family_of_job.get(&job).map(|family| (*family).to_owned()));
                    0
                } else {
                    events.compactions += 1;
                    number(event, "output_level").unwrap_or_default() as usize
                };
                if compressing_jobs.remove(&job) {
                    events.levels_compressed.insert(level.min(LEVELS - 1) as u8);
                }
                let l0 = event.pointer("/lsm_state/0").and_then(Value::as_u64).unwrap_or_default();
                events.l0_files_peak = events.l0_files_peak.max(l0);
            }
            _ => {}
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"2026/01/01-00:00:00 1 EVENT_LOG_v1 {"time_micros": 9, "job": 1, "event": "flush_started", "num_memtables": 5, "flush_reason": "Write Buffer Full"}
2026/01/01-00:00:00 1 EVENT_LOG_v1 {"time_micros": 10, "event": "flush_finished", "job": 1, "lsm_state": [9]}
2026/01/01-00:00:00 1 EVENT_LOG_v1 {"time_micros": 18, "job": 3, "event": "compaction_started", "compaction_reason": "LevelL0FilesNum"}
2026/01/01-00:00:00 1 EVENT_LOG_v1 {"time_micros": 19, "job": 2, "event": "flush_started", "num_memtables": 2, "flush_reason": "Write Buffer Full"}
2026/01/01-00:00:00 1 EVENT_LOG_v1 {"time_micros": 19, "job": 4, "event": "flush_started", "num_memtables": 1, "flush_reason": "Write Buffer Manager"}
2026/01/01-00:00:00 1 EVENT_LOG_v1 {"time_micros": 20, "cf_name": "default", "job": 2, "event": "table_file_creation", "file_number": 9, "file_size": 100, "table_properties": {"compression": "LZ4"}}
2026/01/01-00:00:00 1 [default] [JOB 2] something else
2026/01/01-00:00:00 1 EVENT_LOG_v1 {"time_micros": 21, "job": 2, "event": "flush_finished", "lsm_state": [3, 0, 1]}
2026/01/01-00:00:00 1 EVENT_LOG_v1 {"time_micros": 21, "cf_name": "other", "job": 4, "event": "table_file_creation", "file_size": 70, "table_properties": {"compression": "BuiltinV2;;"}}
2026/01/01-00:00:00 1 EVENT_LOG_v1 {"time_micros": 22, "job": 4, "event": "flush_finished", "lsm_state": [1, 0, 0]}
2026/01/01-00:00:00 1 EVENT_LOG_v1 {"time_micros": 23, "job": 3, "event": "table_file_creation", "file_size": 130, "table_properties": {"compression": "BuiltinV2;07;"}}
2026/01/01-00:00:00 1 EVENT_LOG_v1 {"time_micros": 24, "job": 3, "event": "compaction_finished", "output_level": 6, "lsm_state": [0, 0, 1]}
2026/01/01-00:00:00 1 EVENT_LOG_v1 {"time_mi
"#;

    #[test]
    fn counts_only_the_window() {
        let default = ["default".to_owned()];
        let events = count(LOG, Some(&default), 15, 100);
        assert_eq!((events.flushes, events.compactions, events.l0_files_peak), (1, 1, 3));
        assert_eq!((events.filled_memtables, events.flushed_together_peak, events.buffer_manager_flushes), (1, 2, 0));
        assert_eq!(events.flushed_families, default.into());
        assert_eq!(events.levels_compressed, [0, 6].into());
        assert_eq!(count(LOG, None, 0, 100).l0_files_peak, 9);
        assert_eq!(count(LOG, None, 1000, 2000).flushes, 0);
        // Of job 3 no family is known, so it counts for all.
        let unseen = count(LOG, Some(&["unseen".to_owned()]), 15, 100);
        assert_eq!((unseen.flushes, unseen.compactions, unseen.filled_memtables), (0, 1, 0));
    }

    #[test]
    fn levels_beyond_the_last_count_with_it() {
        let log = r#"EVENT_LOG_v1 {"time_micros": 20, "job": 1, "event": "table_file_creation", "table_properties": {"compression": "ZSTD"}}
EVENT_LOG_v1 {"time_micros": 21, "job": 1, "event": "compaction_finished", "output_level": 8, "lsm_state": []}"#;
        assert_eq!(count(log, None, 0, 100).levels_compressed, [6].into());
    }

    #[test]
    fn jobs_at_the_same_time_are_counted() {
        let events = count(LOG, None, 15, 100);
        assert_eq!((events.running_flushes_peak, events.running_compactions_peak), (2, 1));
        assert_eq!((events.buffer_manager_flushes, events.largest_file_bytes), (1, 130));
        // The compaction goes on after its start.
        assert_eq!(count(LOG, None, 23, 100).running_compactions_peak, 1);
        // One after the other.
        let one = |job: u64, event: &str, at: u64| {
            format!(
                r#"EVENT_LOG_v1 {{"time_micros": {at}, "job": {job}, "event": "compaction_{event}", "lsm_state": []}}"#
            )
        };
        let log = [one(1, "started", 1), one(1, "finished", 2), one(2, "started", 3), one(2, "finished", 4)].join("\n");
        assert_eq!(count(&log, None, 0, 100).running_compactions_peak, 1);
    }

    #[test]
    fn a_window_has_its_ends() {
        let compactions = |from, to| count(LOG, None, from, to).compactions;
        assert_eq!((compactions(24, 24), compactions(25, 30), compactions(20, 23)), (1, 0, 0));
    }

    #[test]
    fn compression_is_told_by_a_name_or_a_list() {
        for (property, expected) in
            [("", false), ("NoCompression", false), ("Snappy", true), ("BuiltinV2;;", false), ("BuiltinV2;07;", true)]
        {
            assert_eq!(is_compressed(property), expected, "{property}");
        }
    }
}
