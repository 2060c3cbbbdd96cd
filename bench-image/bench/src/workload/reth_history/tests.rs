#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use super::*;

fn spec() -> RethHistory {
    RethHistory {
        blocks: 4000,
        warmup_blocks: 0,
        mgas_per_block: 1,
        accounts: 2000,
        storage_slots: 3000,
        blocks_per_save: 10,
        save_backlog: 2,
        kilohashes_per_mgas: 1,
    }
}

fn workload(spec: RethHistory, seed: u64) -> RethHistoryWorkload {
    RethHistoryWorkload::new(spec, seed, 7).unwrap()
}

/// What a database holds, by family and key.
type Model = BTreeMap<(u16, Vec<u8>), Vec<u8>>;

fn loaded(workload: &RethHistoryWorkload) -> Model {
    let (mut model, mut step) = (Model::new(), Step::default());
    for number in 0..workload.load_steps() {
        workload.load(number, &mut step);
        for operation in &step.operations {
            let Action::Put { value } = operation.action else { panic!("{operation:?}") };
            let key = (operation.family, step.resolve(operation.key).to_vec());
            assert_eq!(model.insert(key, step.resolve(value).to_vec()), None);
        }
    }
    model
}

/// The blocks of a serialised shard.
fn blocks(shard: &[u8]) -> Vec<u32> {
    let word = |at: usize| u32::from_le_bytes(shard[at..at + 4].try_into().unwrap());
    let half = |at: usize| u32::from(u16::from_le_bytes(shard[at..at + 2].try_into().unwrap()));
    let containers = word(16) as usize;
    let mut blocks = Vec::new();
    for container in 0..containers {
        let (upper, cardinality) = (half(20 + 4 * container), half(22 + 4 * container) as usize + 1);
        let data = 12 + word(20 + 4 * containers + 4 * container) as usize;
        blocks.extend((0..cardinality).map(|entry| upper << 16 | half(data + 2 * entry)));
    }
    assert_eq!(shard.len(), 20 + 8 * containers + 2 * blocks.len());
    blocks
}

#[test]
fn a_save_reads_what_is_there_and_adds_to_it() {
    let workload = workload(spec(), 1);
    let mut model = loaded(&workload);
    let keys_of = |model: &Model, family| model.keys().filter(|(of, _)| *of == family).count() as u64;
    assert_eq!(keys_of(&model, TRANSACTIONS), 6000);
    let growing = |model: &Model, family: u16| {
        model.keys().filter(|(of, key)| *of == family && key.ends_with(&[0xff; 8])).count()
    };
    assert_eq!((growing(&model, ACCOUNTS), growing(&model, SLOTS)), (2000, 3000));

    let (mut source, mut step) = (workload.source(1), Step::default());
    let (mut found, mut missed, mut sealed) = (0, 0, 0);
    for number in 0..400 {
        source.fill(number, &mut step);
        let mut batch = Vec::new();
        let mut commits = 0;
        let mut last = Vec::new();
        for operation in &step.operations {
            let key = (operation.family, step.resolve(operation.key).to_vec());
            assert_eq!(operation.family, commits, "one batch has one family");
            match operation.action {
                Action::Get { length, begins } => {
                    assert!(last < key.1, "keys are sorted");
                    last.clone_from(&key.1);
                    if let Some(value) = model.get(&key) {
                        found += 1;
                        assert_eq!(length as usize, value.len());
                        assert!(value.starts_with(step.resolve(begins)) && begins.len() >= 30);
                    } else {
                        missed += 1;
                        assert_eq!(length, 0, "nothing is expected");
                    }
                }
                Action::Put { value } => batch.push((key, step.resolve(value).to_vec())),
                Action::Commit => {
                    commits += 1;
                    model.extend(batch.drain(..));
                    last.clear();
                }
                action => panic!("{action:?}"),
            }
        }
        assert_eq!((commits, batch.len()), (3, 0));
    }
    assert!(f64::from(missed) / f64::from(found + missed) < 0.1, "{missed} of {found}");

    let mut previous: Option<(&[u8], u32)> = None;
    for ((family, key), value) in &model {
        if *family == TRANSACTIONS {
            assert_eq!((key.len(), value.len()), (32, 4));
            continue;
        }
        let (owner, highest) = key.split_at(key.len() - 8);
        assert_eq!(owner.len(), if *family == ACCOUNTS { 20 } else { 52 });
        let blocks = blocks(value);
        assert!(blocks.is_sorted_by(|a, b| a < b));
        if let Some((same, end)) = previous.filter(|(previous, _)| *previous == owner) {
            assert!(end < blocks[0], "{same:?}: shards follow each other");
        }
        let highest = u64::from_be_bytes(highest.try_into().unwrap());
        if highest < u64::MAX {
            sealed += 1;
            assert_eq!(blocks.len() as u64, shard::ENTRIES);
            assert_eq!(u64::from(*blocks.last().unwrap()), highest);
            previous = Some((owner, *blocks.last().unwrap()));
        } else {
            assert!((1..=shard::ENTRIES).contains(&(blocks.len() as u64)));
        }
    }
    let sealed_before = loaded(&workload).len() as u64 - 6000 - 2000 - 3000;
    assert!(sealed > sealed_before && sealed_before > 0, "{sealed_before} and then {sealed} shards are sealed");
}

#[test]
fn some_keys_tell_how_much_all_grow() {
    let workload = workload(RethHistory { accounts: 20_000, storage_slots: 30_000, mgas_per_block: 3, ..spec() }, 1);
    for blocks in [100, 300, 12_000] {
        for family in [ACCOUNTS, SLOTS] {
            let (some, all) = (workload.growth(family, blocks, 100), workload.growth(family, blocks, u64::MAX));
            assert!((some as f64 / all as f64 - 1.0).abs() < 0.05, "{some} instead of {all} in {blocks} blocks");
            let least = 2 * blocks * if family == ACCOUNTS { 60 } else { 100 };
            assert!(some != all && all > least, "{all} and {some} in {blocks} blocks");
        }
    }
}

#[test]
fn numbers_of_transactions_get_longer() {
    let workload = workload(RethHistory { mgas_per_block: 300, accounts: 10_000, storage_slots: 10_000, ..spec() }, 1);
    // 3000 in each block; the first that has five bytes is 2^32 - 3,300,000,000 = 994,967,296 further on.
    let bytes = |count: u64| workload.transaction_bytes(count / 3000);
    assert_eq!(bytes(6000), 6000 * 36);
    assert_eq!(bytes(994_968_000), 994_968_000 * 36 + 704);
}

#[test]
fn seeds_decide_dataset_and_steps() {
    let hashes = |workload: &RethHistoryWorkload| {
        let (mut steps, mut step) = (Vec::new(), Step::default());
        let mut source = workload.source(1);
        for number in 0..3 {
            source.fill(number, &mut step);
            steps.push(step.parity.digest());
        }
        steps
    };
    let (first, again, other) = (workload(spec(), 1), workload(spec(), 1), workload(spec(), 2));
    assert_eq!(hashes(&first), hashes(&again));
    assert_ne!(hashes(&first), hashes(&other));
    assert_eq!(first.content(), other.content());
    assert_eq!(loaded(&first), loaded(&other));
    let larger = workload(RethHistory { mgas_per_block: 2, ..spec() }, 1);
    assert_ne!(first.content(), larger.content());
    let longer = workload(RethHistory { blocks: 10, kilohashes_per_mgas: 9, ..spec() }, 1);
    assert_eq!(first.content(), longer.content());
}

#[test]
fn execution_computes_and_touches_no_key() {
    let workload = workload(spec(), 1);
    let mut step = Step::default();
    workload.source(EXECUTION).fill(0, &mut step);
    let actions: Vec<Action> = step.operations.iter().map(|operation| operation.action).collect();
    assert_eq!(actions, [Action::Compute { hashes: 1000 }]);
}

#[test]
fn what_cannot_be_saved_is_refused() {
    for (spec, says) in [
        (RethHistory { blocks: 4005, ..spec() }, "rethHistory.blocks: 4005 is not a multiple of blocksPerSave (10)"),
        (RethHistory { blocks_per_save: 0, ..spec() }, "blocksPerSave must be at least 1"),
        (RethHistory { mgas_per_block: 300, ..spec() }, "changes 6000: use at least"),
        (RethHistory { mgas_per_block: 3001, accounts: 1 << 30, storage_slots: 1 << 30, ..spec() }, "too large"),
    ] {
        let error = RethHistoryWorkload::new(spec, 1, 7).err().unwrap();
        assert!(error.contains(says), "{error} does not say {says}");
    }
}
