//! Slots of a validator: whether they fit together, and whether configs can remove what they must.

use serde_json::{Value, json};

use super::validate_document;

/// Level compaction against FIFO, of slots with 616 KiB of data shreds.
fn document(fifo_options: &Value, workload: &Value) -> Value {
    let mut blockstore = json!({"slots": 64, "retainedSlots": 64, "slotsPerPurge": 8});
    if let (Some(fields), Some(changes)) = (blockstore.as_object_mut(), workload.as_object()) {
        fields.extend(changes.clone());
    }
    json!({
        "apiVersion": super::API_VERSION,
        "kind": super::KIND,
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
    one(
        &with(json!({"slots": 63})),
        "workload.blockstore.slots: 8 writers can't share 63 slots evenly; use a multiple of 8",
    );
    one(&with(json!({"retainedSlots": 63})), "workload.blockstore.retainedSlots: must be at least 64 with 8 writers");
    one(&with(json!({"shredsPerBatch": 1025})), "shredsPerBatch: must be at most 1024: a batch is part of one slot");
    one(&with(json!({"slotsPerPurge": 65})), "warning: spec.scenarios[0].workload.blockstore.slotsPerPurge: is more");
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
