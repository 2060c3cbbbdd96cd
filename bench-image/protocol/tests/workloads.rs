//! What each workload says of itself, by hand, and the values at which its complaints begin. Plans, estimates and the bench's steps follow from this.

#![allow(clippy::unwrap_used)]

use assay_protocol::{EngineConfig, Ethrex, Follows, RolePlan, Volume, Workload};
use serde_json::{Value, json};

fn workload(spec: &Value) -> Workload {
    serde_json::from_value(spec.clone()).unwrap()
}

fn role(name: &str, threads: u32, steps: u64, warmup_steps: u64, operations_per_step: u64) -> RolePlan {
    RolePlan {
        name: name.to_owned(),
        threads,
        steps,
        until_primary_ends: false,
        warmup_steps,
        interval_ns: None,
        operations_per_step,
        follows: None,
    }
}

fn following(role: RolePlan, steps: u64, backlog: u64) -> RolePlan {
    RolePlan { follows: Some(Follows { leader: 0, steps, backlog }), ..role }
}

fn blockstore() -> Value {
    json!({"blockstore": {"slots": 160, "warmupSlots": 32, "dataShredsPerSlot": 512, "shredsPerBatch": 100, "writers": 8,
        "repairedPercent": 2, "retainedSlots": 160, "slotsPerPurge": 16}})
}

fn ethrex() -> Value {
    json!({"ethrex": {"blocks": 32, "warmupBlocks": 16, "mgasPerBlock": 60, "accounts": 100_000, "storageSlots": 400_000,
        "commitDepth": 16, "blockIntervalMillis": 250}})
}

fn reth_history() -> Value {
    json!({"rethHistory": {"blocks": 300, "warmupBlocks": 40, "mgasPerBlock": 30, "accounts": 100_000, "storageSlots": 400_000,
        "blocksPerSave": 10, "saveBacklog": 3, "kilohashesPerMgas": 30}})
}

fn key_value() -> Value {
    json!({"keyValue": {"keys": 1000, "keyBytes": 20, "valueBytes": {"uniform": {"min": 100, "max": 300}}, "compressedPercent": 50,
        "families": ["a", "b"], "roles": [
            {"name": "writer", "threads": 2, "steps": 400, "warmupSteps": 100, "mix": {"put": 1, "get": 2, "delete": 1}, "batch": 4},
            {"name": "reader", "until": "PrimaryEnds", "stepsPerSecond": 2000, "mix": {"scan": 1}, "scanLength": 30}]}})
}

#[test]
fn roles_are_these() {
    // 1024 shreds of a slot in batches of 100 are 11 batches. 192 slots have 12 removals of 16, two of them in the warm-up.
    let expected = vec![
        role("insert", 8, 160 * 11, 32 * 11, 100 + 16),
        following(role("replay", 1, 160, 32, 2), 11, 80),
        following(role("cleanup", 1, 10, 2, 6), 16 * 11, 1),
    ];
    assert_eq!(workload(&blockstore()).kind().roles(), expected);
    let roles = workload(&reth_history()).kind().roles();
    // 900 thousand hashes of a block stand for 300 operations.
    assert_eq!(roles[0], role("execution", 1, 300, 40, 300));
    assert_eq!(roles[1], following(role("saves", 1, 30, 4, roles[1].operations_per_step), 10, 3));
    let roles = workload(&ethrex()).kind().roles();
    // Twice 1500 accounts and 6500 slots are read, 400 transactions have three operations, and of 7202 written entries most are read before.
    let blocks = RolePlan { interval_ns: Some(250e6), ..role("blocks", 1, 32, 16, 16_000 + 1200 + 11_524) };
    assert_eq!(roles, [blocks]);
    let roles = workload(&key_value()).kind().roles();
    assert_eq!((roles[0].threads, roles[0].steps, roles[0].warmup_steps, roles[0].interval_ns), (2, 400, 100, None));
    assert_eq!((roles[1].steps, roles[1].until_primary_ends, roles[1].interval_ns), (0, true, Some(500_000.0)));
}

#[test]
fn units_sizes_metrics_and_fields_are_these() {
    let of = |spec: &Value| {
        let workload = workload(spec);
        let kind = workload.kind();
        let size = kind.real_size().map(|size| (size.here, size.real));
        let fields: Vec<String> = kind.roles().iter().map(|role| kind.steps_field(&role.name)).collect();
        (kind.name(), kind.unit(), size, kind.metrics().to_vec(), fields)
    };
    let mainnet = Some((500_000, 1_295_000_000));
    assert_eq!(
        of(&blockstore()),
        (
            "blockstore",
            Some(("shred_throughput", 1024.0 / 11.0)),
            Some((160 * 1024, 218_000_000)),
            vec!["dangling_rows", "overdue_percent"],
            vec!["slots".to_owned(); 3],
        )
    );
    let blocks = || "blocks".to_owned();
    assert_eq!(of(&ethrex()), ("ethrex", Some(("gas_throughput", 60.0)), mainnet, vec![], vec![blocks()]));
    let saves = vec![blocks(), "blocks (10 per save)".to_owned()];
    assert_eq!(of(&reth_history()), ("rethHistory", Some(("gas_throughput", 30.0)), mainnet, vec![], saves));
    let steps = vec!["roles[0].steps".to_owned(), "roles[1].steps".to_owned()];
    assert_eq!(of(&key_value()), ("keyValue", None, None, vec![], steps));
}

#[test]
fn volumes_are_these() {
    // A shred has a key of 16 bytes and 1215.5 on average; metadata are written with each of 11 batches, and twice more with late shreds.
    let (shreds, batches) = (1024.0 * 1231.5, 13.0);
    let expected = Volume {
        loaded_entries: 160.0 * 1024.0,
        loaded_bytes: 160.0 * (shreds + 12_500.0),
        written_entries: 192.0 * (1024.0 + 2.0 * batches),
        written_bytes: 192.0 * (shreds + batches * 12_500.0),
        compressed: 1.0,
    };
    assert_eq!(workload(&blockstore()).kind().volume(), expected);
    let in_time =
        json!({"blockstore": {"slots": 16, "retainedSlots": 64, "repairedPercent": 0, "shredsPerBatch": 1024}});
    assert_eq!(workload(&in_time).kind().volume().written_entries, 16.0 * (1024.0 + 2.0));

    // 500 steps of four, half of which write; a reader writes nothing.
    let volume = workload(&key_value()).kind().volume();
    assert_eq!((volume.loaded_entries, volume.loaded_bytes), (1000.0, 220_000.0));
    assert_eq!((volume.written_entries, volume.written_bytes), (1000.0, 220_000.0));
    assert!((volume.compressed - 120.0 / 220.0).abs() < 1e-12);

    let ethrex = workload(&ethrex());
    let Workload::Ethrex(spec) = &ethrex else { unreachable!() };
    // Three sizes share eleven twelfths of 400,000 slots, 122,222 each; the smallest contracts take what is left.
    let contracts = spec.contracts().into_iter().map(|contracts| (contracts.depth, contracts.slots, contracts.count));
    assert_eq!(contracts.collect::<Vec<_>>(), [(3, 12_288, 9), (2, 768, 159), (1, 48, 2546), (0, 3, 15_029)]);
    let volume = ethrex.kind().volume();
    let is =
        |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found} instead of {expected}");
    is(volume.loaded_entries, 2.18 * 500_000.0);
    is(volume.loaded_bytes, 100_000.0 * 320.0 + 400_000.0 * 346.0);
    // By another program, level by level: a block changes 7202.58 entries of the state, 1,745,941 bytes. 32 blocks write theirs, all 48
    // four entries and two for each transaction.
    is(volume.written_entries, 32.0 * 7_202.582_449_544_219 + 48.0 * 804.0);
    is(volume.written_bytes, 32.0 * 1_745_941.057_501_338 + 48.0 * (800.0 + 400.0 * 1260.0));
    // Where a level has more than two thirds of its nodes it is one, as the fifth one of these accounts' trie.
    let volume = Workload::Ethrex(Ethrex { accounts: 150_000, ..spec.clone() }).kind().volume();
    is(volume.written_entries, 32.0 * 7_741.559_020_644_205 + 48.0 * 804.0);
    is(volume.written_bytes, 32.0 * 2_034_152.280_408_158 + 48.0 * (800.0 + 400.0 * 1260.0));
    // Too few slots for a contract are no reason for an estimate that is no number.
    let volume = Workload::Ethrex(Ethrex { storage_slots: 1, ..spec.clone() }).kind().volume();
    assert!(volume.written_entries.is_finite() && volume.written_bytes.is_finite(), "{volume:?}");

    let reth = workload(&reth_history());
    let Workload::RethHistory(spec) = &reth else { unreachable!() };
    let touched = spec.touched();
    let [transactions, accounts, slots] =
        [touched.transactions, touched.accounts, touched.slots].map(|count| 340.0 * count as f64);
    let volume = reth.kind().volume();
    assert_eq!(volume.loaded_entries, 800_000.0 + 100_000.0 + 400_000.0);
    assert_eq!(volume.loaded_bytes, 800_000.0 * 36.0 + 100_000.0 * (28.0 + 90.0) + 400_000.0 * (60.0 + 90.0));
    assert_eq!(volume.written_entries, transactions + accounts + slots);
    assert_eq!(volume.written_bytes, transactions * 36.0 + accounts * (28.0 + 320.0) + slots * (60.0 + 320.0));
}

/// Fields that a workload complains about, where it has other values.
fn complaints(mut spec: Value, changes: &[(&str, Value)]) -> Vec<(String, bool)> {
    let fields = spec.as_object_mut().unwrap().values_mut().next().unwrap();
    for (field, value) in changes {
        *fields.pointer_mut(&format!("/{field}")).unwrap() = value.clone();
    }
    let problems = workload(&spec).kind().problems(1000);
    problems.into_iter().map(|problem| (problem.field, problem.is_error)).collect()
}

#[test]
fn complaints_begin_at_these_values() {
    let error = |field: &str| vec![(field.to_owned(), true)];
    let warning = |field: &str| vec![(field.to_owned(), false)];
    let blocks = |changes: &[(&str, Value)]| complaints(blockstore(), changes);
    assert_eq!(blocks(&[]), []);
    assert_eq!(blocks(&[("slots", json!(161))]), error("slots"));
    assert_eq!(blocks(&[("warmupSlots", json!(33))]), error("warmupSlots"));
    assert_eq!(blocks(&[("retainedSlots", json!(64))]), []);
    assert_eq!(blocks(&[("retainedSlots", json!(63))]), error("retainedSlots"));
    assert_eq!(blocks(&[("shredsPerBatch", json!(1024))]), []);
    assert_eq!(blocks(&[("shredsPerBatch", json!(1025))]), error("shredsPerBatch"));
    assert_eq!(blocks(&[("slotsPerPurge", json!(192))]), []);
    assert_eq!(blocks(&[("slotsPerPurge", json!(193))]), warning("slotsPerPurge"));

    let saves = |changes: &[(&str, Value)]| complaints(reth_history(), changes);
    assert_eq!(saves(&[("blocks", json!(305))]), error("blocks"));
    assert_eq!(saves(&[("warmupBlocks", json!(41))]), error("warmupBlocks"));
    assert_eq!(saves(&[("accounts", json!(600)), ("storageSlots", json!(1000))]), []);
    assert_eq!(saves(&[("accounts", json!(599))]), error("accounts"));
    assert_eq!(saves(&[("storageSlots", json!(999))]), error("storageSlots"));

    let state = |changes: &[(&str, Value)]| complaints(ethrex(), changes);
    assert_eq!(state(&[("accounts", json!(1280)), ("storageSlots", json!(2880))]), []);
    assert_eq!(state(&[("accounts", json!(1279))]), error("accounts"));
    assert_eq!(state(&[("storageSlots", json!(2879))]), error("storageSlots"));
    assert_eq!(state(&[("warmupBlocks", json!(15))]), warning("warmupBlocks"));
    // 48 blocks, and a deadline of 1000 s.
    assert_eq!(state(&[("blockIntervalMillis", json!(20_812))]), []);
    assert_eq!(state(&[("blockIntervalMillis", json!(20_813))]), error("blockIntervalMillis"));

    // The reader has 0.8 times the writer's operations of each thread, or less.
    let second = |steps: u64| {
        complaints(
            key_value(),
            &[("roles/1", json!({"name": "reader", "threads": 1, "steps": steps, "mix": {"get": 1}, "batch": 1}))],
        )
    };
    assert_eq!(second(640), []);
    assert_eq!(second(639), warning("roles/1/steps"));
    assert_eq!(complaints(key_value(), &[("keys", json!(1))]), error("keys"));
    assert_eq!(complaints(key_value(), &[("keys", json!(2))]), []);
}

/// With FIFO compaction a family has to hold at least a slot and a memtable, and should hold all retained slots.
#[test]
fn fifo_holds_what_it_must() {
    let spec = workload(&json!({"blockstore": {"slots": 16, "retainedSlots": 64, "dataShredsPerSlot": 512}}));
    let complaints = |memtable: u64, bytes: u64| {
        let config: EngineConfig =
            serde_json::from_value(json!({"columnFamilies": [{"match": ["data_shred"], "options": {
            "compaction_style": "kCompactionStyleFIFO", "write_buffer_size": memtable.to_string(),
            "compaction_options_fifo": format!("{{max_table_files_size={bytes};}}")}}]}))
            .unwrap();
        let problems = spec.kind().config_problems(&config);
        problems.into_iter().map(|problem| (problem.field, problem.is_error)).collect::<Vec<_>>()
    };
    let slot = 512 * (16 + 1203);
    let family = || "columnFamilies".to_owned();
    assert_eq!(complaints(1000, 64 * slot), []);
    assert_eq!(complaints(1000, 64 * slot - 1), [(family(), false)]);
    assert_eq!(complaints(1000, slot), [(family(), false)]);
    assert_eq!(complaints(1000, slot - 1), [(family(), true)]);
    assert_eq!(complaints(2 * slot, 2 * slot), [(family(), false)]);
    assert_eq!(complaints(2 * slot, 2 * slot - 1), [(family(), true)]);
}
