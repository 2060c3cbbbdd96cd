//! The blockstore workload: whether its slots fit together, and whether configs can remove what they must.

use assay_api::TuningExperimentSpec;
use assay_record::{Blockstore, EngineConfig};

use super::configs::{config_path, effective};
use super::problem::{FieldPath, Problem};
use super::quantity::display;

/// The families that FIFO compaction is made for, with the bytes of a shred.
const SHREDS: [(&str, u64); 2] =
    [("data_shred", Blockstore::DATA_SHRED_BYTES), ("code_shred", Blockstore::CODE_SHRED_BYTES)];

/// RocksDB's defaults.
const FIFO_BYTES: u64 = 1 << 30;
const WRITE_BUFFER_BYTES: u64 = 64 << 20;

pub fn check(workload: &Blockstore, spec: &TuningExperimentSpec, path: &FieldPath) -> Vec<Problem> {
    let problems = workload.problems();
    let mut problems: Vec<Problem> =
        problems.into_iter().map(|(field, message)| Problem::error(path.key(field), message)).collect();
    if !problems.is_empty() {
        return problems;
    }
    if workload.plans().iter().any(|role| role.steps == 0) {
        let message = format!(
            "is more than the {} slots of the window, so that none are removed while it is measured: use a smaller number",
            workload.slots
        );
        problems.push(Problem::warning(path.key("slotsPerPurge"), message));
    }
    for (index, engine) in effective(spec).iter().enumerate() {
        retention(workload, engine, &config_path(index), &mut problems);
    }
    problems
}

fn retention(workload: &Blockstore, engine: &EngineConfig, path: &FieldPath, problems: &mut Vec<Problem>) {
    let retention = engine.policy.get(Blockstore::RETENTION).map_or("", String::as_str);
    for (family, value_bytes) in SHREDS {
        let policy = path.key("policy").key(Blockstore::RETENTION);
        if !engine.is_fifo(family) {
            if retention == "fifo" {
                let message = format!(
                    "leaves {family} to FIFO compaction, which it does not have: set its compaction_style to kCompactionStyleFIFO"
                );
                problems.push(Problem::error(policy, message));
            }
            continue;
        }
        if retention == "compactionFilter" {
            let message = format!(
                "removes nothing from {family}, as FIFO compaction looks at no entries: use fifo or rangeDelete"
            );
            problems.push(Problem::error(policy, message));
        }
        let options = engine.family_options(family);
        let slot = workload.data_shreds_per_slot * (Blockstore::SHRED_KEY_BYTES + value_bytes);
        let memtable = options.get("write_buffer_size").map_or(Some(WRITE_BUFFER_BYTES), |text| size(text));
        let fifo = options.get("compaction_options_fifo").map_or(Some(FIFO_BYTES), |text| fifo_bytes(text));
        // What can't be read is for RocksDB to refuse.
        let Some((memtable, fifo)) = memtable.zip(fifo) else { continue };
        let least = slot.max(memtable);
        let families = path.key("columnFamilies");
        if fifo < least {
            let message = format!(
                "max_table_files_size of {family} is {}, too small for one slot ({}) or one memtable ({}), so that FIFO compaction \
                 drops what was just written: use at least {least}",
                display(fifo),
                display(slot),
                display(memtable)
            );
            problems.push(Problem::error(families, message));
        } else if fifo < slot.saturating_mul(workload.retained_slots) {
            let message = format!(
                "max_table_files_size of {family} holds {} slots of {} that are retained: metadata will point at shreds that are gone",
                fifo / slot,
                workload.retained_slots
            );
            problems.push(Problem::warning(families, message));
        }
    }
}

/// The size in FIFO options, which may also be written as that number alone.
fn fifo_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let Some(keys) = text.strip_prefix('{') else { return size(text) };
    let keys = keys.trim_end_matches('}').split(';').filter_map(|pair| pair.split_once('='));
    let mut values = keys.filter(|(key, _)| key.trim() == "max_table_files_size").map(|(_, value)| size(value));
    values.next_back().unwrap_or(Some(FIFO_BYTES))
}

/// A size as RocksDB reads it: a number, perhaps with a binary suffix of one letter.
fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::validate_document;
    use super::*;

    /// Level compaction against FIFO, of slots with 616 KiB of data shreds.
    fn document(fifo_options: &Value, workload: &Value) -> Value {
        let mut blockstore = json!({"slots": 64, "retainedSlots": 64, "slotsPerPurge": 8});
        if let (Some(fields), Some(changes)) = (blockstore.as_object_mut(), workload.as_object()) {
            fields.extend(changes.clone());
        }
        json!({
            "apiVersion": super::super::API_VERSION,
            "kind": super::super::KIND,
            "metadata": {"name": "fifo"},
            "spec": {
                "seed": 7,
                "baseline": "level",
                "configs": [
                    {"name": "level", "columnFamilies": [{"match": ["*"], "options": {"write_buffer_size": "1M"}}]},
                    {
                        "name": "fifo",
                        "policy": {"retention": "fifo"},
                        "columnFamilies": [{"match": ["*_shred"], "options": fifo_options}],
                    },
                ],
                "scenarios": [{"name": "insert", "workload": {"blockstore": blockstore}}],
                "repetitions": 8,
                "objectives": [{"metric": "shred_throughput"}],
            },
        })
    }

    fn fifo(options: &str) -> Value {
        json!({"compaction_style": "kCompactionStyleFIFO", "compaction_options_fifo": options})
    }

    fn messages(document: &Value) -> Vec<String> {
        validate_document(document).problems.iter().map(ToString::to_string).collect()
    }

    fn one(document: &Value, says: &str) {
        let found = messages(document);
        assert!(!found.is_empty() && found.iter().all(|message| message.contains(says)), "{says} in {found:#?}");
    }

    #[test]
    fn fifo_has_room_for_what_was_just_written() {
        let with = |options: &str| document(&fifo(options), &json!({}));
        assert_eq!(messages(&with("{max_table_files_size=64M;}")), Vec::<String>::new());
        // One memtable is more than one slot here.
        one(&with("{max_table_files_size=1048575;}"), "use at least 1048576");
        one(&with("{max_table_files_size=600K;allow_compaction=false}"), "is 600 KiB, too small for one slot");
        one(&document(&fifo("2M"), &json!({"dataShredsPerSlot": 2048})), "one slot (2.4 MiB)");
        // RocksDB's own default is large enough.
        assert_eq!(messages(&with("{allow_compaction=false;}")), Vec::<String>::new());
        one(&with("{max_table_files_size=8M;}"), "warning: spec.configs[1].columnFamilies: max_table_files_size of ");
        assert!(validate_document(&with("{max_table_files_size=8M;}")).experiment.is_some());
    }

    #[test]
    fn a_retention_needs_what_it_builds_on() {
        one(&document(&json!({"compression": "kNoCompression"}), &json!({})), "set its compaction_style to");
        let mut filter = document(&fifo("64M"), &json!({}));
        filter["spec"]["configs"][1]["policy"]["retention"] = json!("compactionFilter");
        one(&filter, "use fifo or rangeDelete");
        filter["spec"]["configs"][1]["policy"]["retention"] = json!("fifi");
        one(&filter, "did you mean fifo?");
        filter["spec"]["configs"][1]["policy"] = json!({"insertLok": "none"});
        one(&filter, "did you mean insertLock?");
    }

    #[test]
    fn families_that_the_blockstore_has_not_are_named() {
        let mut unknown = document(&fifo("64M"), &json!({}));
        unknown["spec"]["configs"][1]["columnFamilies"][0]["match"] = json!(["*_shreds"]);
        unknown["spec"]["configs"][1]["policy"] = json!({});
        one(&unknown, "the scenarios have code_shred, data_shred, erasure_meta, index, merkle_root_meta and meta");
    }

    #[test]
    fn slots_fit_together() {
        let with = |changes: Value| document(&fifo("256M"), &changes);
        one(&with(json!({"slots": 63})), "workload.blockstore.slots: 63 slots can't be shared evenly by 8 writers");
        one(&with(json!({"retainedSlots": 63})), "workload.blockstore.retainedSlots: 8 writers need at least 64");
        one(&with(json!({"shredsPerBatch": 1025})), "shredsPerBatch: a batch is of one slot, which has 1024 shreds");
        one(
            &with(json!({"slotsPerPurge": 65})),
            "warning: spec.scenarios[0].workload.blockstore.slotsPerPurge: is more",
        );
    }

    #[test]
    fn a_migration_is_allowed() {
        let mut migration = document(&fifo("256M"), &json!({}));
        migration["spec"]["scenarios"][0]["dataset"] = json!({"from": "level"});
        let validation = validate_document(&migration);
        assert!(validation.problems.is_empty(), "{:?}", validation.problems);
        let from = validation.experiment.and_then(|experiment| experiment.scenarios[0].dataset_from.clone());
        assert_eq!(from.as_deref(), Some("level"));
    }

    #[test]
    fn sizes_are_read_as_rocksdb_does() {
        for (text, bytes) in [("7", Some(7)), (" 4k ", Some(4096)), ("1G", Some(1 << 30)), ("1Gi", None), ("x", None)] {
            assert_eq!(size(text), bytes, "{text}");
        }
    }
}
