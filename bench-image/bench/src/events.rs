//! Flushes and compactions, from the events that RocksDB writes to its LOG as JSON.
//!
//! Counters tell how much, only events tell how often, to which level, and how high L0 ever stood.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;

/// Levels that a summary tells apart; deeper ones count with the last.
const LEVELS: usize = 7;

/// What happened within the window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    pub flushes: u64,
    pub compactions: u64,
    pub l0_files_peak: u64,
    pub compressed_by_level: Vec<u64>,
}

/// Reads the events of some column families from the LOG of a closed database: while it is open, RocksDB keeps the last
/// seconds in memory. `None` where not all is there, as with another log level or directory, or a log that was rolled.
pub fn read(db_dir: &Path, families: &[String], from_unix_us: u64, to_unix_us: u64) -> Option<Events> {
    let rolled = fs::read_dir(db_dir).ok()?.filter_map(Result::ok);
    if rolled.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with("LOG.old")) {
        return None;
    }
    let text = fs::read(db_dir.join("LOG")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // Without a single event the log level hides them, and nothing can be said.
    text.contains("EVENT_LOG_v1").then(|| count(&text, families, from_unix_us, to_unix_us))
}

/// Whether a table's compression property tells of compressed blocks: a name, or since format version 7 a list of
/// fields of which the second names the codecs in use.
fn is_compressed(property: &str) -> bool {
    match property.split(';').nth(1) {
        Some(codecs) => !codecs.is_empty(),
        None => !matches!(property, "" | "NoCompression"),
    }
}

fn count(text: &str, families: &[String], from_unix_us: u64, to_unix_us: u64) -> Events {
    let mut events = Events { compressed_by_level: vec![0; LEVELS], ..Events::default() };
    // Files are reported when they are created, their level when the job ends.
    let mut compressed_by_job = BTreeMap::<u64, u64>::new();
    // Only the files name the family of a job.
    let mut family_of_job = BTreeMap::<u64, String>::new();
    let parsed = text
        .lines()
        .filter_map(|line| line.split_once("EVENT_LOG_v1 "))
        .filter_map(|(_, json)| serde_json::from_str::<Value>(json).ok());
    for event in parsed {
        let number = |name: &str| event.get(name).and_then(Value::as_u64);
        let (Some(kind), Some(at)) = (event.get("event").and_then(Value::as_str), number("time_micros")) else {
            continue;
        };
        if at < from_unix_us || at > to_unix_us {
            continue;
        }
        let job = number("job").unwrap_or_default();
        if let Some(family) = event.get("cf_name").and_then(Value::as_str) {
            family_of_job.insert(job, family.to_owned());
        }
        if family_of_job.get(&job).is_some_and(|family| !families.contains(family)) {
            continue;
        }
        match kind {
            "table_file_creation" => {
                let compression = event.pointer("/table_properties/compression").and_then(Value::as_str);
                if compression.is_some_and(is_compressed) {
                    *compressed_by_job.entry(job).or_default() += number("file_size").unwrap_or_default();
                }
            }
            "flush_finished" | "compaction_finished" => {
                let level = if kind == "flush_finished" {
                    events.flushes += 1;
                    0
                } else {
                    events.compactions += 1;
                    number("output_level").unwrap_or_default() as usize
                };
                let bytes = compressed_by_job.remove(&job).unwrap_or_default();
                events.compressed_by_level[level.min(LEVELS - 1)] += bytes;
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

    const LOG: &str = r#"2026/01/01-00:00:00 1 EVENT_LOG_v1 {"time_micros": 10, "event": "flush_finished", "job": 1, "lsm_state": [9]}
2026/01/01-00:00:00 1 EVENT_LOG_v1 {"time_micros": 20, "cf_name": "default", "job": 2, "event": "table_file_creation", "file_number": 9, "file_size": 100, "table_properties": {"compression": "LZ4"}}
2026/01/01-00:00:00 1 [default] [JOB 2] something else
2026/01/01-00:00:00 1 EVENT_LOG_v1 {"time_micros": 21, "job": 2, "event": "flush_finished", "lsm_state": [3, 0, 1]}
2026/01/01-00:00:00 1 EVENT_LOG_v1 {"time_micros": 22, "job": 3, "event": "table_file_creation", "file_size": 70, "table_properties": {"compression": "BuiltinV2;;"}}
2026/01/01-00:00:00 1 EVENT_LOG_v1 {"time_micros": 23, "job": 3, "event": "table_file_creation", "file_size": 30, "table_properties": {"compression": "BuiltinV2;07;"}}
2026/01/01-00:00:00 1 EVENT_LOG_v1 {"time_micros": 24, "job": 3, "event": "compaction_finished", "output_level": 6, "lsm_state": [0, 0, 1]}
2026/01/01-00:00:00 1 EVENT_LOG_v1 {"time_mi
"#;

    #[test]
    fn counts_only_the_window() {
        let families = ["default".to_owned()];
        let events = count(LOG, &families, 15, 100);
        assert_eq!((events.flushes, events.compactions, events.l0_files_peak), (1, 1, 3));
        assert_eq!(events.compressed_by_level, [100, 0, 0, 0, 0, 0, 30]);
        assert_eq!(count(LOG, &families, 0, 100).l0_files_peak, 9);
        assert_eq!(count(LOG, &families, 1000, 2000).flushes, 0);
        // Of job 3 no family is known, so it counts for all.
        let others = count(LOG, &["other".to_owned()], 15, 100);
        assert_eq!((others.flushes, others.compactions), (0, 1));
    }
}
