//! Live bytes as the workload knows them against what a reader finds in a database on which the same steps were executed.

use std::{collections::BTreeSet, time::Duration};

use assay_protocol::{
    Blockstore, EngineConfig, Ethrex, FamilyOptions, KeyOrder, KeyValue, Mix, Preload, RethHistory, Role, TrialSpec,
    Until, ValueBytes, Workload,
};
use tempfile::TempDir;

use super::live_bytes;
use crate::{
    driver::{self, Observer, Policy, Progress},
    engine::{Engine, Properties as _},
    load::Loader,
    workload::{self, Action, Step},
};

struct Nobody;

impl Observer for Nobody {
    fn open(&mut self, _: &Progress) {}
    fn tick(&mut self, _: &Progress, _: Option<Duration>) {}
    fn close(&mut self) {}
}

/// A trial whose database is still open.
struct Ran {
    engine: Engine,
    loaded: u64,
    claimed: u64,
    _dir: TempDir,
}

impl Ran {
    fn found(&self, is_counted: impl Fn(&str) -> bool) -> u64 {
        let families = self.engine.families().iter().filter(|family| is_counted(family));
        families.map(|family| self.engine.bytes(family).unwrap()).sum()
    }

    #[track_caller]
    fn assert_exact(&self) {
        assert_eq!(self.claimed, self.found(|_| true));
    }

    /// Claims what is there within so many percent, and would not if it claimed what was loaded.
    #[track_caller]
    fn assert_within(&self, percent: f64) {
        let found = self.found(|_| true) as f64;
        let off = |claim: u64| 100.0 * (claim as f64 / found - 1.0).abs();
        assert!(off(self.claimed) < percent, "{} instead of {found}", self.claimed);
        assert!(off(self.loaded) > 2.0 * percent, "{found} is about what was loaded");
    }
}

fn run(workload: Workload, config: &EngineConfig) -> Ran {
    let record: assay_protocol::TrialRecord =
        serde_json::from_str(include_str!("../../../protocol/tests/data/full-record.json")).unwrap();
    let spec = TrialSpec { workload, ..record.spec };
    let workload = workload::build(&spec.workload, 1, 7).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut loader = Loader::open(dir.path(), config, &workload.families(config)).unwrap();
    let (mut step, mut loaded) = (Step::default(), 0);
    for number in 0..workload.load_steps() {
        workload.load(number, &mut step);
        loader.write(&step).unwrap();
        loaded += step.written();
    }
    let engine = loader.finish().unwrap();
    let roles = spec.workload.kind().roles();
    let (policy, progress) = (Policy::new(workload.rules(config)), Progress::new(&roles));
    let results = driver::run(&engine, config, &policy, workload.as_ref(), &roles, &progress, &mut Nobody).unwrap();
    let claimed = live_bytes(&spec, workload.as_ref(), &results, loaded);
    Ran { engine, loaded, claimed, _dir: dir }
}

const KEYS: u64 = 20_000;

fn role(name: &str, steps: u64, put: u32, delete: u32) -> Role {
    Role {
        name: name.to_owned(),
        threads: 1,
        steps: Some(steps),
        until: None,
        warmup_steps: steps / 5,
        steps_per_second: None,
        mix: Mix { put, delete, get: 1, ..Mix::default() },
        batch: 1,
        scan_length: 1,
        key_order: KeyOrder::Uniform,
        zipfian_exponent: None,
    }
}

fn only(role: Role) -> Role {
    Role { mix: Mix { get: 0, ..role.mix }, ..role }
}

fn zipfian(exponent: &str, role: Role) -> Role {
    Role { key_order: KeyOrder::Zipfian, zipfian_exponent: Some(exponent.to_owned()), ..role }
}

fn sequential(role: Role) -> Role {
    Role { key_order: KeyOrder::Sequential, ..role }
}

/// So fast that it takes half a second.
fn paced(role: Role) -> Role {
    Role { steps_per_second: role.steps.map(|steps| 2 * steps), ..role }
}

const VARIED: ValueBytes = ValueBytes::Uniform { min: 0, max: 300 };

fn workload_of(preload: Preload, value_bytes: ValueBytes, roles: Vec<Role>) -> Workload {
    Workload::KeyValue(KeyValue {
        keys: KEYS,
        key_bytes: 16,
        value_bytes,
        compressed_percent: 50,
        families: vec!["default".to_owned(), "other".to_owned()],
        preload,
        roles,
    })
}

fn key_value(preload: Preload, value_bytes: ValueBytes, roles: Vec<Role>) -> Ran {
    run(workload_of(preload, value_bytes, roles), &EngineConfig::default())
}

#[test]
fn what_is_loaded_and_not_deleted_is_exact() {
    for preload in [Preload::Shuffled, Preload::Sequential] {
        for order in [role("writer", 9000, 1, 0), zipfian("1.2", role("writer", 9000, 1, 0))] {
            let ran = key_value(preload, VARIED, vec![order]);
            ran.assert_exact();
            assert_eq!(ran.claimed, ran.loaded);
        }
    }
}

#[test]
fn keys_in_order_are_exact() {
    for (steps, batch, written) in [(5000, 1, 6000), (500, 20, 12_000), (100_000, 1, KEYS)] {
        let writer = only(sequential(Role { batch, ..role("writer", steps, 1, 0) }));
        let ran = key_value(Preload::Empty, ValueBytes::Fixed(100), vec![writer]);
        assert_eq!(ran.claimed, written * 116);
        ran.assert_exact();
    }
    // Deleted in order, beginning behind the last key that the warm-up deleted.
    let ran = key_value(Preload::Shuffled, ValueBytes::Fixed(10), vec![only(sequential(role("cleaner", 5000, 0, 1)))]);
    assert_eq!(ran.claimed, (KEYS - 6000) * 26);
    ran.assert_exact();
    key_value(Preload::Empty, VARIED, vec![only(sequential(role("writer", 5000, 1, 0)))]).assert_within(2.0);
}

#[test]
fn drawn_keys_are_expected() {
    let writer = |steps| role("writer", steps, 2, 0);
    for roles in [
        vec![writer(20_000)],
        vec![Role { batch: 7, threads: 2, ..writer(9000) }],
        vec![writer(3000), Role { name: "other".to_owned(), ..writer(9000) }],
        vec![zipfian("0.99", writer(20_000))],
        vec![zipfian("0.5", writer(20_000))],
        vec![zipfian("1.5", writer(100_000))],
        vec![zipfian("0.99", writer(9000)), sequential(Role { name: "other".to_owned(), ..writer(9000) })],
        // It ends with the first one.
        vec![
            paced(role("reader", 5000, 0, 0)),
            Role {
                steps: None,
                until: Some(Until::PrimaryEnds),
                steps_per_second: Some(20_000),
                warmup_steps: 0,
                ..writer(0)
            },
        ],
    ] {
        let ran = key_value(Preload::Empty, VARIED, roles);
        assert!(ran.claimed > 0);
        ran.assert_within(3.0);
    }
}

#[test]
fn deleted_keys_are_expected() {
    for preload in [Preload::Shuffled, Preload::Empty] {
        for role in [
            role("mixed", 30_000, 2, 1),
            zipfian("0.99", role("mixed", 60_000, 1, 1)),
            sequential(role("mixed", 14_000, 1, 2)),
            Role { batch: 5, threads: 2, ..role("mixed", 6000, 1, 3) },
        ] {
            key_value(preload, VARIED, vec![role]).assert_within(4.0);
        }
    }
}

/// Threads do not keep time, so these steps are executed on a map, in the order in which they come if all roles go at their own even pace.
#[test]
fn roles_that_put_and_delete_interleave() {
    let (put, delete) = (|steps| only(role("putter", steps, 1, 0)), |steps| only(role("deleter", steps, 0, 1)));
    for (roles, percent) in [
        (vec![put(10_000), delete(5000)], 4.0),
        (vec![zipfian("0.99", put(20_000)), zipfian("0.99", delete(10_000))], 4.0),
        // A queue: what was put is deleted in the same order.
        (vec![sequential(put(12_000)), sequential(delete(8000))], 1.0),
        (vec![sequential(put(30_000)), sequential(delete(28_000))], 1.0),
        // What is deleted in order comes back at random.
        (vec![sequential(delete(15_000)), put(10_000)], 4.0),
        (vec![sequential(delete(50_000)), put(30_000)], 4.0),
        // Each key comes up more often than anybody counts.
        (vec![sequential(role("writer", 900_000, 1, 2)), sequential(only(role("putter", 800_000, 1, 0)))], 4.0),
    ] {
        for preload in [Preload::Shuffled, Preload::Empty] {
            let spec = workload_of(preload, ValueBytes::Fixed(84), roles.clone());
            let loaded = if preload == Preload::Empty { 0 } else { 100 * KEYS };
            let workload = workload::build(&spec, 1, 7).unwrap();
            let mut found = BTreeSet::new();
            let mut step = Step::default();
            for number in 0..workload.load_steps() {
                workload.load(number, &mut step);
                execute(&step, &mut found);
            }
            let mut sources: Vec<_> = (0..roles.len()).map(|role| workload.source(role)).collect();
            for is_window in [false, true] {
                let mut steps = Vec::new();
                for (number, role) in roles.iter().enumerate() {
                    let (first, count) =
                        if is_window { (role.warmup_steps, role.steps.unwrap()) } else { (0, role.warmup_steps) };
                    steps.extend((0..count).map(|step| ((step as f64 + 0.5) / count as f64, number, first + step)));
                }
                steps.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
                for (_, role, number) in steps {
                    sources[role].fill(number, &mut step);
                    execute(&step, &mut found);
                }
            }
            let done: Vec<u64> = roles.iter().map(|role| role.warmup_steps + role.steps.unwrap()).collect();
            let (claimed, found) = (workload.live_bytes(loaded, &done), 100 * found.len() as u64);
            let off = 100.0 * (claimed as f64 / found as f64 - 1.0).abs();
            assert!(off < percent, "{claimed} instead of {found} after {roles:?}");
        }
    }
}

fn execute(step: &Step, found: &mut BTreeSet<Vec<u8>>) {
    for operation in &step.operations {
        let key = step.resolve(operation.key);
        if matches!(operation.action, Action::Put { .. }) {
            found.insert(key.to_vec());
        } else if operation.action == Action::Delete {
            found.remove(key);
        }
    }
}

#[test]
fn blocks_of_ethrex_add_the_chain_and_keep_the_state() {
    for (commit_depth, blocks) in [(5, 60), (40, 60), (100, 60), (5, 400)] {
        let ran = run(
            Workload::Ethrex(Ethrex {
                blocks,
                warmup_blocks: 8,
                mgas_per_block: 3,
                accounts: 1000,
                storage_slots: 4000,
                commit_depth,
                block_interval_millis: None,
            }),
            &EngineConfig::default(),
        );
        let is_state = |family: &str| Ethrex::FAMILIES[..4].contains(&family);
        // So few blocks are all made.
        assert_eq!(ran.claimed - ran.loaded, ran.found(|family| !is_state(family)), "the chain is exact");
        let state = ran.found(is_state) as f64 / ran.loaded as f64;
        assert!((state - 1.0).abs() < 0.005, "{state} of the state after {blocks} blocks");
        ran.assert_within(0.3);
    }
}

fn blockstore(policy: &[(&str, &str)], options: &[(&str, &str)]) -> Ran {
    let pairs =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let config = EngineConfig {
        policy: pairs(policy),
        column_families: vec![FamilyOptions { r#match: vec!["*_shred".to_owned()], options: pairs(options) }],
        ..EngineConfig::default()
    };
    let workload = Blockstore {
        slots: 30,
        warmup_slots: 6,
        // Two whole FEC sets and one of two.
        data_shreds_per_slot: 66,
        shreds_per_batch: 50,
        writers: 2,
        repaired_percent: 10,
        retained_slots: 16,
        slots_per_purge: 4,
    };
    run(Workload::Blockstore(workload), &config)
}

#[test]
fn slots_to_retain_are_exact_whatever_removes_them() {
    let ranges = blockstore(&[], &[]);
    ranges.assert_exact();
    // 16 and 36 slots, and nine times four to remove.
    assert_eq!(ranges.claimed, ranges.loaded);
    // FIFO has room for more, and keeps it. That is not live.
    let fifo = [("compaction_style", "kCompactionStyleFIFO"), ("compaction_options_fifo", "{max_table_files_size=1G}")];
    let hoarder = blockstore(&[("retention", "fifo")], &fifo);
    assert_eq!(hoarder.claimed, ranges.claimed);
    assert!(hoarder.found(|_| true) > 3 * ranges.claimed);
}

#[test]
fn histories_are_exact_where_all_are_looked_at() {
    let run = |blocks, warmup_blocks, mgas_per_block, blocks_per_save| {
        let workload = RethHistory {
            blocks,
            warmup_blocks,
            mgas_per_block,
            // No class has more keys than are looked at.
            accounts: 2000,
            storage_slots: 2000,
            blocks_per_save,
            save_backlog: 2,
            kilohashes_per_mgas: 0,
        };
        run(Workload::RethHistory(workload), &EngineConfig::default())
    };
    // The last one goes beyond the blocks that share the upper half of their numbers with the first, and seals shards.
    for ran in [run(300, 100, 1, 10), run(50, 0, 3, 10), run(9500, 0, 1, 100)] {
        ran.assert_exact();
        assert!(ran.claimed > ran.loaded);
    }
}
