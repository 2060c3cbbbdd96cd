use std::collections::{BTreeMap, BTreeSet};

use assay_protocol::FamilyOptions;

use super::{encoding::slot_of, *};

/// Slots of 66 data shreds: two whole FEC sets and one of two.
fn spec() -> Blockstore {
    Blockstore {
        slots: 16,
        warmup_slots: 4,
        data_shreds_per_slot: 66,
        shreds_per_batch: 32,
        writers: 4,
        repaired_percent: 10,
        retained_slots: 32,
        slots_per_purge: 4,
    }
}

fn workload(spec: &Blockstore) -> BlockstoreWorkload {
    BlockstoreWorkload::new(spec.clone(), 1, 2).unwrap_or_else(|problem| unreachable!("{problem}"))
}

/// All steps of a role, each made by the source of its thread.
fn steps(workload: &BlockstoreWorkload, role: usize) -> Vec<Step> {
    let plan = &workload.spec.roles()[role];
    let threads = u64::from(plan.threads);
    let mut sources: Vec<_> = (0..threads).map(|_| workload.source(role)).collect();
    (0..plan.warmup_steps + plan.steps)
        .map(|number| {
            let mut step = Step::default();
            sources[(number % threads) as usize].fill(number, &mut step);
            step
        })
        .collect()
}

/// Written keys with the steps that write them.
type Writes = BTreeMap<(u16, Vec<u8>), Vec<usize>>;

fn writes(steps: &[Step]) -> Writes {
    let mut writes = Writes::new();
    for (number, step) in steps.iter().enumerate() {
        for operation in &step.operations {
            if let Action::Put { .. } = operation.action {
                let key = (operation.family, step.resolve(operation.key).to_vec());
                writes.entry(key).or_default().push(number);
            }
        }
    }
    writes
}

fn of(writes: &Writes, family: u16) -> impl Iterator<Item = (&Vec<u8>, &Vec<usize>)> {
    writes.iter().filter(move |((found, _), _)| *found == family).map(|((_, key), steps)| (key, steps))
}

#[test]
fn every_shred_of_every_slot_is_written_once() {
    let spec = spec();
    let writes = writes(&steps(&workload(&spec), 0));
    for family in [family::DATA_SHRED, family::CODE_SHRED] {
        let expected: BTreeSet<Vec<u8>> =
            (32..52).flat_map(|slot| (0..66).map(move |index| shred_key(slot, index).to_vec())).collect();
        assert_eq!(of(&writes, family).map(|(key, _)| key.clone()).collect::<BTreeSet<_>>(), expected);
        assert!(of(&writes, family).all(|(_, steps)| steps.len() == 1));
    }
    // Two sets of 32 and one of 2.
    for family in [family::ERASURE_META, family::MERKLE_ROOT_META] {
        assert_eq!(of(&writes, family).count(), 3 * 20);
        assert!(of(&writes, family).all(|(_, steps)| steps.len() == 1));
    }
}

#[test]
fn some_shreds_are_late_by_one_or_two_slots_of_their_thread() {
    let spec = spec();
    let writes = writes(&steps(&workload(&spec), 0));
    let mut late = [0_u32; 3];
    for (key, steps) in of(&writes, family::DATA_SHRED).chain(of(&writes, family::CODE_SHRED)) {
        let slot = slot_of(key).unwrap_or_default() - 32;
        let round = slot / 4;
        let rounds = (steps[0] as u64 / (4 * spec.batches_per_slot()) - round) as usize;
        assert_eq!(steps[0] as u64 % 4, slot % 4, "a slot is one thread's alone");
        late[rounds] += 1;
        // The last slots have none after them.
        assert!(round < 4 || rounds == 0);
    }
    let share = f64::from(late[1] + late[2]) / f64::from(late.iter().sum::<u32>());
    // Of the last of five rounds, none are late.
    assert!((share - 0.08).abs() < 0.02, "{late:?}");
    assert!(late[1] > late[2] / 2 && late[2] > late[1] / 2, "{late:?}");

    let on_time = Blockstore { repaired_percent: 0, ..spec };
    let steps = steps(&workload(&on_time), 0);
    // Each batch touches one slot: one index, one meta.
    let metas = |step: &Step| step.operations.iter().filter(|found| found.family == family::META).count();
    assert!(steps.iter().all(|step| metas(step) == 2));
}

#[test]
fn shreds_arrive_out_of_order_within_a_slot() {
    let large = Blockstore { data_shreds_per_slot: 512, repaired_percent: 0, ..spec() };
    let order = Order::new(&large, 1);
    let arrived: Vec<Shred> = (0..1024).map(|place| order.arrives(7, place)).collect();
    let sorted = arrived.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((300..700).contains(&sorted), "{sorted}");
    // Never further from its place than a window of four sets.
    let sent: Vec<Shred> = (0..1024).map(|place| Shred::sent(&large, place)).collect();
    for (place, shred) in arrived.iter().enumerate() {
        let at = sent.iter().position(|other| other == shred).unwrap_or(usize::MAX);
        assert_eq!(at / 256, place / 256);
    }
    assert_ne!(arrived[..256], (0..256).map(|place| order.arrives(8, place)).collect::<Vec<_>>());
}

#[test]
fn what_is_read_is_what_was_written() {
    let workload = workload(&spec());
    let mut database: BTreeMap<(u16, Vec<u8>), Vec<u8>> = BTreeMap::new();
    let mut step = Step::default();
    let (mut found, mut missed) = (0, 0);
    let mut apply = |step: &Step| {
        for operation in &step.operations {
            let key = (operation.family, step.resolve(operation.key).to_vec());
            match operation.action {
                Action::Put { value } => drop(database.insert(key, step.resolve(value).to_vec())),
                Action::Get { length, begins } => match database.get(&key) {
                    Some(value) => {
                        found += 1;
                        assert_eq!(value.len(), length as usize);
                        assert!(value.starts_with(step.resolve(begins)), "{key:?}");
                    }
                    None => missed += 1,
                },
                Action::Scan { entries } => {
                    let from = database.range(key.clone()..).take(entries as usize);
                    assert!(from.clone().all(|((_, other), _)| slot_of(other) == slot_of(&key.1)), "a slot is whole");
                    assert_eq!(from.count(), 66);
                }
                _ => {}
            }
        }
    };
    for slot in 0..workload.load_steps() {
        workload.load(slot, &mut step);
        apply(&step);
    }
    let inserts = steps(&workload, 0);
    let batches = workload.spec.batches_per_slot() as usize;
    for (number, replay) in steps(&workload, 1).iter().enumerate() {
        // As early as a replay step may come.
        inserts[number * batches..(number + 1) * batches].iter().for_each(&mut apply);
        apply(replay);
    }
    assert!(missed > 0 && found > 2 * missed, "{found} found, {missed} missed");
}

#[test]
fn late_shreds_and_replay_keep_away_from_what_is_removed() {
    let spec = Blockstore { slots_per_purge: 1, ..spec() };
    let workload = workload(&spec);
    let batches = spec.batches_per_slot();
    let lowest = |step: &Step| step.operations.iter().filter_map(|found| slot_of(step.resolve(found.key))).min();
    for (number, step) in steps(&workload, 0).iter().enumerate() {
        let removed = number as u64 / batches;
        assert!(lowest(step).is_some_and(|slot| slot >= removed), "step {number}");
    }
    let backlog = spec.roles()[1].follows.map_or(0, |follows| follows.backlog);
    for (number, step) in steps(&workload, 1).iter().enumerate() {
        // Inserts may be this far ahead, and a removal with them.
        let removed = number as u64 + 1 + backlog;
        assert!(lowest(step).is_some_and(|slot| slot >= removed), "step {number}");
    }
    let purges = steps(&workload, 2);
    assert_eq!(purges.len() as u64, spec.purges());
    assert!(purges.iter().all(|step| step.parity.digest() == Step::default().parity.digest()), "policy is no work");
}

#[test]
fn datasets_depend_on_their_own_seed_alone() {
    let content = |spec: &Blockstore, seed, dataset_seed| {
        let workload = BlockstoreWorkload::new(spec.clone(), seed, dataset_seed).map(|workload| workload.content());
        workload.unwrap_or_else(|problem| unreachable!("{problem}"))
    };
    let base = content(&spec(), 1, 2);
    assert_eq!(content(&Blockstore { slots: 64, repaired_percent: 0, ..spec() }, 9, 2), base);
    assert_ne!(content(&spec(), 1, 3), base);
    assert_ne!(content(&Blockstore { retained_slots: 64, ..spec() }, 1, 2), base);
}

#[test]
fn specs_that_do_not_fit_are_refused() {
    for (change, says) in [
        (Blockstore { slots: 17, ..spec() }, "slots: 4 writers can't share 17 slots"),
        (Blockstore { warmup_slots: 1, ..spec() }, "warmupSlots: 4 writers can't share 1 slot evenly"),
        (Blockstore { retained_slots: 31, ..spec() }, "retainedSlots: must be at least 32 with 4 writers"),
        (
            Blockstore { shreds_per_batch: 133, ..spec() },
            "shredsPerBatch: must be at most 132: a batch is part of one slot",
        ),
    ] {
        let refused = BlockstoreWorkload::new(change, 1, 2).err().unwrap_or_default();
        assert!(refused.contains(says), "{refused}");
    }
}

fn config(pairs: &[(&str, &str)], family_options: &[(&str, &str)]) -> EngineConfig {
    let map =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    EngineConfig {
        policy: map(pairs),
        column_families: vec![FamilyOptions { r#match: vec!["*_shred".to_owned()], options: map(family_options) }],
        ..EngineConfig::default()
    }
}

#[test]
fn inserts_take_turns_unless_the_policy_says_otherwise() {
    let turns = |pairs: &[(&str, &str)]| workload(&spec()).rules(&config(pairs, &[])).one_at_a_time;
    assert!(turns(&[]), "the lock is the default");
    assert!(turns(&[("insertLock", "global")]));
    assert!(!turns(&[("insertLock", "none")]));
}

#[test]
fn slots_are_removed_as_the_policy_says() {
    let workload = workload(&spec());
    let fifo = [("compaction_style", "kCompactionStyleFIFO")];
    let left_out = |config: &EngineConfig| match workload.rules(config).removal {
        Removal::RangeDelete { left_out } => Some(left_out),
        Removal::CompactionFilter { .. } => None,
    };
    let floors =
        |config: &EngineConfig| workload.families(config).iter().filter(|family| family.floor.is_some()).count();
    for (retention, expected) in [(&[][..], Some(vec![])), (&[("retention", "rangeDelete")], Some(vec![]))] {
        assert_eq!(left_out(&config(retention, &fifo)), expected);
        assert_eq!(floors(&config(retention, &fifo)), 0);
    }
    let by_files = config(&[("retention", "fifo")], &fifo);
    assert_eq!(left_out(&by_files), Some(vec![family::DATA_SHRED, family::CODE_SHRED]));
    assert_eq!(left_out(&config(&[("retention", "fifo")], &[])), Some(vec![]), "no family is of that style");
    let filter = config(&[("retention", "compactionFilter")], &[]);
    assert_eq!(left_out(&filter), None);
    assert_eq!(floors(&filter), Blockstore::FAMILIES.len());
}
