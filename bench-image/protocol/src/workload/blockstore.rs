use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Follows, Kind, RealSize, RolePlan, Volume, WorkloadProblem, counted};
use crate::{Bytes, EngineConfig, option_value::size};

/// Shreds of slots that arrive nearly in order, their metadata, replay of what arrived, and the removal of old slots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Blockstore {
    /// Measured slots, a multiple of `writers`.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub slots: u64,
    /// Slots before the measured window, a multiple of `writers`.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub warmup_slots: u64,
    /// Data shreds per slot, with the same number of coding shreds.
    #[serde(default = "default_data_shreds_per_slot")]
    #[schemars(range(min = 32, max = 32_768))]
    pub data_shreds_per_slot: u64,
    /// Shreds inserted together: one step.
    #[serde(default = "default_shreds_per_batch")]
    #[schemars(range(min = 1, max = 16_384))]
    pub shreds_per_batch: u64,
    /// Threads that insert, each into its own slot.
    #[serde(default = "default_writers")]
    #[schemars(range(min = 1, max = 64))]
    pub writers: u32,
    /// Percentage of shreds that arrive late, by repair: with the inserting thread's next slot or the one after it.
    #[serde(default = "default_repaired_percent")]
    #[schemars(range(min = 0, max = 50))]
    pub repaired_percent: u32,
    /// Slots to keep, at least eight per writer. The dataset starts with this many.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub retained_slots: u64,
    /// Remove old slots after this many new ones. Inserts wait while more than one removal is due.
    #[serde(default = "default_slots_per_purge")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub slots_per_purge: u64,
}

fn default_data_shreds_per_slot() -> u64 {
    512
}

fn default_shreds_per_batch() -> u64 {
    128
}

fn default_writers() -> u32 {
    8
}

fn default_repaired_percent() -> u32 {
    2
}

fn default_slots_per_purge() -> u64 {
    512
}

/// Retained slots that each writer needs: a removal must not reach the slots that still get late shreds, nor those that
/// replay may read.
const RETAINED_PER_WRITER: u64 = 8;

/// The families that FIFO compaction is made for, with the bytes of a shred.
const SHREDS: [(&str, u64); 2] =
    [("data_shred", Blockstore::DATA_SHRED_BYTES), ("code_shred", Blockstore::CODE_SHRED_BYTES)];

/// RocksDB's defaults.
const FIFO_BYTES: u64 = 1 << 30;
const WRITE_BUFFER_BYTES: u64 = 64 << 20;

/// Bytes of all metadata of a slot that one batch writes: index, slot meta, and those of the FEC sets that it begins.
const METADATA_BYTES: f64 = 12_500.0;

impl Blockstore {
    pub const FAMILIES: &'static [&'static str] =
        &["data_shred", "code_shred", "index", "meta", "erasure_meta", "merkle_root_meta"];

    /// Bytes of a data shred.
    pub const DATA_SHRED_BYTES: u64 = 1203;
    /// Bytes of a coding shred.
    pub const CODE_SHRED_BYTES: u64 = 1228;
    /// Bytes of the key of a shred.
    pub const SHRED_KEY_BYTES: u64 = 16;

    /// Who may insert at the same time.
    pub const INSERT_LOCK: &'static str = "insertLock";
    /// How old slots are removed.
    pub const RETENTION: &'static str = "retention";

    /// Data and coding shreds of a slot.
    pub fn shreds_per_slot(&self) -> u64 {
        2 * self.data_shreds_per_slot
    }

    /// Insert batches of one slot.
    pub fn batches_per_slot(&self) -> u64 {
        self.shreds_per_slot().div_ceil(self.shreds_per_batch.max(1))
    }

    pub fn shreds_per_step(&self) -> f64 {
        self.shreds_per_slot() as f64 / self.batches_per_slot() as f64
    }

    /// Removals over warm-up and window.
    pub fn purges(&self) -> u64 {
        (self.warmup_slots + self.slots) / self.slots_per_purge.max(1)
    }

    /// Whether a config can remove from a family of shreds what it must, and no more.
    fn check_retention(
        &self,
        config: &EngineConfig,
        family: &str,
        value_bytes: u64,
        problems: &mut Vec<WorkloadProblem>,
    ) {
        let policy = || format!("policy/{}", Self::RETENTION);
        let retention = config.policy.get(Self::RETENTION).map_or("", String::as_str);
        if !config.is_fifo(family) {
            if retention == "fifo" {
                let message = format!(
                    "needs FIFO compaction, which {family} does not use: set its compaction_style to kCompactionStyleFIFO"
                );
                problems.push(WorkloadProblem::error(policy(), message));
            }
            return;
        }
        if retention == "compactionFilter" {
            let message = format!(
                "removes nothing from {family}, because FIFO compaction ignores filters: use fifo or rangeDelete"
            );
            problems.push(WorkloadProblem::error(policy(), message));
        }
        let options = config.family_options(family);
        let slot = self.data_shreds_per_slot * (Self::SHRED_KEY_BYTES + value_bytes);
        let memtable = options.get("write_buffer_size").map_or(Some(WRITE_BUFFER_BYTES), |text| size(text));
        let fifo = options.get("compaction_options_fifo").map_or(Some(FIFO_BYTES), |text| fifo_bytes(text));
        // What can't be read is for RocksDB to refuse.
        let Some((memtable, fifo)) = memtable.zip(fifo) else { return };
        let least = slot.max(memtable);
        if fifo < least {
            let message = format!(
                "max_table_files_size of {family} is {}, too small for one slot ({}) or one memtable ({}), so FIFO compaction \
                 drops data that was just written: use at least {least}",
                Bytes(fifo),
                Bytes(slot),
                Bytes(memtable)
            );
            problems.push(WorkloadProblem::error("columnFamilies", message));
        } else if fifo < slot.saturating_mul(self.retained_slots) {
            let message = format!(
                "max_table_files_size of {family} holds only {} of {} retained slots: metadata will point to missing shreds",
                fifo / slot,
                self.retained_slots
            );
            problems.push(WorkloadProblem::warning("columnFamilies", message));
        }
    }
}

impl Kind for Blockstore {
    fn name(&self) -> &'static str {
        "blockstore"
    }

    fn roles(&self) -> Vec<RolePlan> {
        let batches = self.batches_per_slot();
        let purge = self.slots_per_purge.max(1);
        vec![
            RolePlan {
                name: "insert".to_owned(),
                threads: self.writers,
                steps: self.slots * batches,
                until_primary_ends: false,
                warmup_steps: self.warmup_slots * batches,
                interval_ns: None,
                operations_per_step: self.shreds_per_batch + 16,
                follows: None,
            },
            RolePlan {
                name: "replay".to_owned(),
                threads: 1,
                steps: self.slots,
                until_primary_ends: false,
                warmup_steps: self.warmup_slots,
                interval_ns: None,
                operations_per_step: 2,
                // No further behind than what is certainly still there.
                follows: Some(Follows { leader: 0, steps: batches, backlog: self.retained_slots / 2 }),
            },
            RolePlan {
                name: "cleanup".to_owned(),
                threads: 1,
                steps: self.purges() - self.warmup_slots / purge,
                until_primary_ends: false,
                warmup_steps: self.warmup_slots / purge,
                interval_ns: None,
                operations_per_step: Self::FAMILIES.len() as u64,
                // A config that removes too slowly has to feel it: else it would only keep more.
                follows: Some(Follows { leader: 0, steps: purge * batches, backlog: 1 }),
            },
        ]
    }

    fn steps_field(&self, _role: &str) -> String {
        "slots".to_owned()
    }

    fn families(&self) -> Vec<&str> {
        Self::FAMILIES.to_vec()
    }

    fn policies(&self) -> &'static [(&'static str, &'static [&'static str])] {
        &[(Self::INSERT_LOCK, &["global", "none"]), (Self::RETENTION, &["rangeDelete", "compactionFilter", "fifo"])]
    }

    fn unit(&self) -> Option<(&'static str, f64)> {
        Some(("shred_throughput", self.shreds_per_step()))
    }

    fn metrics(&self) -> &'static [&'static str] {
        &["dangling_rows", "overdue_percent"]
    }

    /// What a validator keeps under FIFO unless it is told otherwise: 250 GiB, `DEFAULT_ROCKS_FIFO_SHRED_STORAGE_SIZE_BYTES` of Agave.
    fn real_size(&self) -> Option<RealSize> {
        Some(RealSize {
            here: self.retained_slots * self.shreds_per_slot(),
            real: 218_000_000,
            what: "shreds",
            system: "a validator's ledger",
        })
    }

    fn volume(&self) -> Volume {
        let shreds = self.shreds_per_slot() as f64;
        let written = (self.slots + self.warmup_slots) as f64;
        let retained = self.retained_slots as f64;
        let shred = Self::SHRED_KEY_BYTES as f64 + (Self::DATA_SHRED_BYTES + Self::CODE_SHRED_BYTES) as f64 / 2.0;
        // Index and slot meta are written again with every batch, and twice more with late shreds.
        let batches = self.batches_per_slot() as f64 + if self.repaired_percent > 0 { 2.0 } else { 0.0 };
        Volume {
            loaded_entries: retained * shreds,
            loaded_bytes: retained * (shreds * shred + METADATA_BYTES),
            written_entries: written * (shreds + 2.0 * batches),
            written_bytes: written * (shreds * shred + batches * METADATA_BYTES),
            compressed: 1.0,
        }
    }

    fn problems(&self, _deadline_seconds: u64) -> Vec<WorkloadProblem> {
        let writers = u64::from(self.writers).max(1);
        let mut problems = Vec::new();
        for (field, slots) in [("slots", self.slots), ("warmupSlots", self.warmup_slots)] {
            if slots % writers != 0 {
                let message = format!(
                    "{writers} writers can't share {} evenly; use a multiple of {writers}",
                    counted(slots, "slot")
                );
                problems.push(WorkloadProblem::error(field, message));
            }
        }
        let least = RETAINED_PER_WRITER * writers;
        if self.retained_slots < least {
            let message = format!(
                "must be at least {least} with {}, or slots that are still in use are removed",
                counted(writers, "writer")
            );
            problems.push(WorkloadProblem::error("retainedSlots", message));
        }
        let shreds = self.shreds_per_slot();
        if self.shreds_per_batch > shreds {
            let message = format!("must be at most {shreds}: a batch is part of one slot");
            problems.push(WorkloadProblem::error("shredsPerBatch", message));
        }
        if problems.is_empty() && self.roles().iter().any(|role| role.steps == 0) {
            let message = format!(
                "is more than the window has ({}), so no removal is measured: use a smaller number",
                counted(self.slots, "slot")
            );
            problems.push(WorkloadProblem::warning("slotsPerPurge", message));
        }
        problems
    }

    fn config_problems(&self, config: &EngineConfig) -> Vec<WorkloadProblem> {
        let mut problems = Vec::new();
        for (family, value_bytes) in SHREDS {
            self.check_retention(config, family, value_bytes, &mut problems);
        }
        problems
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
