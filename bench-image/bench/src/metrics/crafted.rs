//! A trial that never ran: readings made up so that each metric has another value, and another one from each wrong source.

use std::{collections::BTreeMap, time::Duration};

use assay_protocol::{
    Blockstore, Disturbance, LsmState, ParityHash, Placement, RethHistory, RoleCounts, RoleTime, Storage, Workload,
};
use hdrhistogram::Histogram;

use super::Measured;
use crate::{
    driver::{Results, RoleResult},
    engine::{CallParts, Counters},
    events::Events,
    evidence::{ProcessDelta, ProcessUsage},
    watch::{Closed, Drained},
    workload::Leftovers,
};

pub struct Crafted {
    pub workload: Workload,
    pub results: Results,
    pub closed: Closed,
    pub drained: Drained,
    pub live_bytes: Option<u64>,
    pub leftovers: Option<Leftovers>,
    pub events: Option<Events>,
    /// In the window.
    pub tickers: BTreeMap<&'static str, u64>,
    /// In the drain.
    pub drain_tickers: BTreeMap<&'static str, u64>,
    /// Sums of RocksDB's histograms.
    pub timers: BTreeMap<&'static str, u64>,
}

impl Crafted {
    pub fn metrics(&mut self) -> BTreeMap<String, f64> {
        let all = |counts: &BTreeMap<&'static str, u64>| {
            counts.iter().map(|(name, count)| (*name, *count)).collect::<Vec<_>>()
        };
        self.closed.counters = Counters::told(&all(&self.tickers), &all(&self.timers));
        let until_drained = |(name, count): (&&'static str, &u64)| {
            (*name, count + self.drain_tickers.get(name).copied().unwrap_or_default())
        };
        self.drained.counters = Counters::told(&self.tickers.iter().map(until_drained).collect::<Vec<_>>(), &[]);
        super::metrics(&Measured {
            workload: &self.workload,
            results: &self.results,
            closed: &self.closed,
            drained: &self.drained,
            live_bytes: self.live_bytes,
            leftovers: self.leftovers,
            events: self.events.as_ref(),
        })
    }

    pub fn role(&mut self, name: &str) -> &mut RoleResult {
        self.results.roles.get_mut(name).unwrap()
    }
}

/// Latencies below 2048 ns, which a histogram of three digits keeps as they are.
pub fn histogram(steps: &[(u64, u64)]) -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
    for (nanos, count) in steps {
        histogram.record_n(*nanos, *count).unwrap();
    }
    histogram
}

pub fn role(counts: RoleCounts, latency: Histogram<u64>, elapsed: Duration) -> RoleResult {
    // All steps took another time than those in the histogram.
    let (steps_ns, longest_ns) = (counts.steps * 200 + 7000, latency.max() + 100);
    let (time, calls) = (RoleTime::default(), CallParts::default());
    RoleResult { counts, latency, saturated: 0, steps_ns, longest_ns, time, calls, elapsed }
}

fn primary() -> RoleResult {
    let counts = RoleCounts {
        steps: 1000,
        puts: 1300,
        gets: 500,
        gets_found: 450,
        deletes: 140,
        scans: 60,
        scanned_entries: 7000,
        bytes_written: 3_000_000,
        bytes_read: 1_200_000,
    };
    let latency = histogram(&[(110, 5000), (210, 4000), (410, 500), (810, 400), (1010, 90), (2010, 10)]);
    role(counts, latency, Duration::from_secs(8))
}

/// A role that takes up what the primary one makes.
fn follower() -> RoleResult {
    let counts = RoleCounts {
        steps: 100,
        puts: 70,
        gets: 20,
        gets_found: 9,
        deletes: 7,
        scans: 3,
        scanned_entries: 11,
        bytes_written: 2_000_000,
        bytes_read: 800_000,
    };
    let latency = histogram(&[(120, 500), (220, 400), (420, 50), (820, 40), (1020, 9), (2020, 1)]);
    role(counts, latency, Duration::from_millis(12_500))
}

fn crafted(workload: Workload, roles: Vec<(&str, RoleResult)>) -> Crafted {
    let results = Results {
        roles: roles.into_iter().map(|(name, role)| (name.to_owned(), role)).collect(),
        work: ParityHash::default(),
        answers: ParityHash::default(),
        wrong_answers: 0,
        user_bytes: 5_000_000,
        planned_user_bytes: 4_999_000,
        policy_operations: 0,
        window: Duration::from_secs(16),
    };
    Crafted {
        workload,
        results,
        closed: closed(),
        drained: Drained {
            wait: Duration::from_millis(7500),
            counters: Counters::default(),
            usage: ProcessDelta {
                user_seconds: Some(9.75),
                system_seconds: Some(2.25),
                involuntary_switches: Some(444),
                major_faults: Some(55),
                read_bytes: Some(41_000_000),
                write_bytes: Some(47_000_000),
            },
        },
        live_bytes: Some(16_000_000),
        leftovers: None,
        events: Some(Events {
            flushes: 21,
            compactions: 6,
            filled_memtables: 18,
            flushed_together_peak: 2,
            running_compactions_peak: 5,
            ..Events::default()
        }),
        tickers: BTreeMap::from([
            ("rocksdb.flush.write.bytes", 6_000_000),
            ("rocksdb.compact.write.bytes", 14_000_000),
            ("rocksdb.compact.read.bytes", 9_000_000),
            ("rocksdb.last.level.read.bytes", 8_000_000),
            ("rocksdb.non.last.level.read.bytes", 7_000_000),
            ("rocksdb.bytes.written", 5_100_000),
            ("rocksdb.bytes.read", 2_100_000),
            ("rocksdb.wal.bytes", 5_500_000),
            ("rocksdb.stall.micros", 3_200_000),
            ("rocksdb.compaction.total.time.cpu_micros", 4_700_000),
        ]),
        drain_tickers: BTreeMap::from([
            ("rocksdb.flush.write.bytes", 1_000_000),
            ("rocksdb.compact.write.bytes", 4_000_000),
            ("rocksdb.compact.read.bytes", 3_000_000),
            ("rocksdb.last.level.read.bytes", 2_500_000),
            ("rocksdb.compaction.total.time.cpu_micros", 1_300_000),
        ]),
        timers: BTreeMap::from([
            ("rocksdb.compaction.times.micros", 5_600_000),
            ("rocksdb.compaction.times.cpu_micros", 4_800_000),
        ]),
    }
}

/// An execution client: it has blocks with gas, and saves.
pub fn reth_history() -> Crafted {
    let workload = Workload::RethHistory(RethHistory {
        blocks: 1000,
        warmup_blocks: 0,
        mgas_per_block: 30,
        accounts: 1000,
        storage_slots: 1000,
        blocks_per_save: 10,
        save_backlog: 2,
        kilohashes_per_mgas: 300,
    });
    crafted(workload, vec![("execution", primary()), ("saves", follower())])
}

/// A validator: it has shreds, and removes old slots.
pub fn blockstore() -> Crafted {
    let workload = Workload::Blockstore(Blockstore {
        slots: 400,
        warmup_slots: 0,
        // Of 1024 data and coding shreds, eight batches.
        data_shreds_per_slot: 512,
        shreds_per_batch: 128,
        writers: 8,
        repaired_percent: 2,
        retained_slots: 400,
        slots_per_purge: 100,
    });
    let cleanup = role(RoleCounts::default(), histogram(&[(3, 1)]), Duration::from_secs(3));
    let mut crafted = crafted(workload, vec![("insert", primary()), ("replay", follower()), ("cleanup", cleanup)]);
    crafted.leftovers = Some(Leftovers { dangling_rows: 19, oldest_slot: Some(372), removed_below: 400 });
    crafted
}

fn closed() -> Closed {
    Closed {
        placement: Placement {
            requested_cpus: 1,
            affinity_before: None,
            affinity_after: None,
            affinity_cpus: None,
            cpuset: None,
            quota_cpus: None,
            whole_cores: None,
        },
        storage: Storage {
            filesystem: None,
            mount_options: None,
            device: None,
            model: None,
            rotational: None,
            transport: None,
            total_bytes: None,
            free_bytes_before: None,
            free_bytes_after: None,
            foreign_write_bytes: None,
            replaced_sysfs: None,
        },
        disturbance: Disturbance::default(),
        usage: ProcessDelta {
            user_seconds: Some(9.25),
            system_seconds: Some(1.75),
            involuntary_switches: Some(333),
            major_faults: Some(44),
            read_bytes: Some(31_000_000),
            write_bytes: Some(37_000_000),
        },
        background: None,
        peak_rss: Some(260_000_000),
        counters: Counters::default(),
        timed_blocks: 0,
        stalls: Some(17),
        lsm_before: LsmState {
            pending_compaction_bytes: Some(1_500_000),
            live_sst_bytes: Some(30_000_000),
            live_blob_bytes: Some(6_000_000),
            ..LsmState::default()
        },
        lsm_after: LsmState {
            pending_compaction_bytes: Some(2_500_000),
            live_sst_bytes: Some(44_000_000),
            live_blob_bytes: Some(8_000_000),
            ..LsmState::default()
        },
        opening_unix_us: 1_700_000_000_000_000,
        closing_unix_us: 1_700_000_016_000_000,
        db_bytes: 47_000_000,
        before: (Counters::default(), ProcessUsage::default()),
    }
}
