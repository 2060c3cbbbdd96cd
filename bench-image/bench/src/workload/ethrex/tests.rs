//! The workload against a model of the database: what every read expects must be what was written last.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const SPEC: Ethrex = Ethrex {
    blocks: 60,
    warmup_blocks: 0,
    mgas_per_block: 3,
    accounts: 1_000,
    storage_slots: 4_000,
    commit_depth: 5,
    block_interval_millis: None,
};

type Model = BTreeMap<(u16, Vec<u8>), Vec<u8>>;

fn workload(seed: u64) -> EthrexWorkload {
    EthrexWorkload::new(SPEC, seed, 7).unwrap()
}

fn loaded(workload: &EthrexWorkload) -> Model {
    let (mut model, mut step) = (Model::new(), Step::default());
    for number in 0..workload.load_steps() {
        workload.load(number, &mut step);
        for operation in &step.operations {
            let Action::Put { value } = operation.action else { unreachable!("a load only puts") };
            let key = (operation.family, step.resolve(operation.key).to_vec());
            let before = model.insert(key, step.resolve(value).to_vec());
            assert_eq!(before, None, "{operation:?} was loaded before");
        }
    }
    model
}

/// What happened to the state.
#[derive(Debug, Default)]
struct Seen {
    gets: u64,
    misses: u64,
    overwrites: u64,
    inserts: u64,
    deletes: u64,
}

/// Executes all blocks on the model, which loses the puts of one family if told so. Ends at the first read that expects something else.
fn run(workload: &EthrexWorkload, model: &mut Model, lost: Option<u16>) -> Result<Seen, String> {
    let mut seen = Seen::default();
    let (mut source, mut step) = (workload.source(0), Step::default());
    for number in 0..SPEC.blocks {
        source.fill(number, &mut step);
        let mut written = BTreeSet::new();
        for operation in &step.operations {
            let key = (operation.family, step.resolve(operation.key).to_vec());
            let is_state = operation.family <= STORAGE_FLAT;
            match operation.action {
                Action::Get { length, begins } => {
                    seen.gets += 1;
                    seen.misses += u64::from(length == 0);
                    let found = model.get(&key).map_or(&[][..], Vec::as_slice);
                    if found.len() != length as usize || !found.starts_with(step.resolve(begins)) {
                        return Err(format!("block {number}: {operation:?} finds {found:?}"));
                    }
                }
                Action::Put { .. } if lost == Some(operation.family) => {}
                Action::Put { value } => {
                    let is_new = written.insert(key.clone());
                    // Where nodes meet in a slot one may be written twice, never an entry.
                    assert!(is_new || operation.family < ACCOUNT_FLAT, "block {number} writes twice: {operation:?}");
                    let before = model.insert(key, step.resolve(value).to_vec());
                    if is_state {
                        *if before.is_some() { &mut seen.overwrites } else { &mut seen.inserts } += 1;
                    }
                }
                Action::Delete => {
                    seen.deletes += 1;
                    let before = model.remove(&key);
                    assert!(
                        before.is_some() || lost.is_some(),
                        "block {number} deletes what isn't there: {operation:?}"
                    );
                }
                Action::Merge { .. } | Action::Commit => {}
                _ => unreachable!("no such action here: {operation:?}"),
            }
        }
    }
    Ok(seen)
}

#[test]
fn reads_expect_what_was_written_last() {
    for seed in [1, 2] {
        let workload = workload(seed);
        let mut model = loaded(&workload);
        let state = model.len();
        let seen = run(&workload, &mut model, None).unwrap();
        let written = (seen.overwrites + seen.inserts + seen.deletes) as f64;
        let share = |count: u64| count as f64 / written;
        // Each is an entry and its leaf. The state stays as large as it was.
        assert!((0.02..0.08).contains(&share(seen.deletes)), "{seen:?}");
        assert!((0.02..0.08).contains(&share(seen.inserts)), "{seen:?}");
        let now = model.keys().filter(|(family, _)| *family <= STORAGE_FLAT).count();
        assert!((now as f64 / state as f64 - 1.0).abs() < 0.02, "{now} instead of {state}");
        assert!((0.03..0.15).contains(&(seen.misses as f64 / seen.gets as f64)), "{seen:?}");
    }
}

#[test]
fn a_lost_update_is_seen() {
    for family in [ACCOUNT_FLAT, STORAGE_FLAT] {
        let workload = workload(1);
        let error = run(&workload, &mut loaded(&workload), Some(family)).unwrap_err();
        assert!(error.contains(&format!("family: {family}")), "{error}");
    }
}

#[test]
fn sources_agree_and_seeds_differ() {
    let parity = |seed| {
        let workload = workload(seed);
        let (mut source, mut step, mut parity) =
            (workload.source(0), Step::default(), assay_protocol::ParityHash::default());
        for number in 0..20 {
            source.fill(number, &mut step);
            parity.merge(step.parity);
        }
        parity.digest()
    };
    assert_eq!(parity(1), parity(1));
    assert_ne!(parity(1), parity(2));
    assert_eq!(workload(1).content(), workload(2).content());
}

#[test]
fn a_state_too_small_for_its_blocks_is_refused() {
    let spec = Ethrex { mgas_per_block: 100, ..SPEC };
    let error = EthrexWorkload::new(spec, 1, 7).err().unwrap();
    assert!(error.contains("ethrex.accounts") && error.contains("100 Mgas"), "{error}");
}
