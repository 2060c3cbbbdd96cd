use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Follows, Kind, RealSize, RolePlan, SAVES, Volume, WorkloadProblem, counted, real_size::MAINNET_ENTRIES};
use crate::EngineConfig;

/// Blocks of an Ethereum execution client. One thread executes blocks, another saves the history indices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RethHistory {
    /// Measured blocks: a multiple of blocksPerSave.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub blocks: u64,
    /// Blocks before the measured window: a multiple of blocksPerSave.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub warmup_blocks: u64,
    /// Gas per block, in millions. A block's transactions and changed accounts and slots grow with it.
    #[serde(default = "default_mgas_per_block")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub mgas_per_block: u64,
    /// Accounts that have a history before the first block.
    #[schemars(range(min = 1000, max = 10_000_000_000_i64))]
    pub accounts: u64,
    /// Storage slots that have a history before the first block, with twice as many past transactions.
    #[schemars(range(min = 1000, max = 100_000_000_000_i64))]
    pub storage_slots: u64,
    /// Blocks per save.
    #[serde(default = "default_blocks_per_save")]
    #[schemars(range(min = 1, max = 10_000))]
    pub blocks_per_save: u64,
    /// Saves that may be due before execution waits.
    #[serde(default = "default_save_backlog")]
    #[schemars(range(min = 1, max = 1000))]
    pub save_backlog: u64,
    /// Computation that stands for executing a million gas, in thousands of 64-byte hashes: a fixed amount of
    /// work that takes about three microseconds per thousand.
    #[serde(default = "default_kilohashes_per_mgas")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub kilohashes_per_mgas: u64,
}

fn default_mgas_per_block() -> u64 {
    30
}

fn default_blocks_per_save() -> u64 {
    10
}

fn default_save_backlog() -> u64 {
    2
}

fn default_kilohashes_per_mgas() -> u64 {
    300
}

impl RethHistory {
    pub const FAMILIES: &'static [&'static str] = &["TransactionHashNumbers", "AccountsHistory", "StoragesHistory"];

    /// What a block of 30 Mgas changes. Of 100 blocks of mainnet in June 2025, of about 18 Mgas, the
    /// [mean](https://eips.ethereum.org/assets/eip-7928/bal_size_analysis) was 183 transactions, 407 accounts, of which some were read
    /// only, and 583 slots.
    pub const PER_30_MGAS: Touched = Touched { transactions: 300, accounts: 600, slots: 1000 };

    /// Gas of the largest save, in millions: a save is in memory as a whole, and takes about 20 kB for each.
    pub const MAX_MGAS_PER_SAVE: u64 = 30_000;

    /// What one block changes.
    pub fn touched(&self) -> Touched {
        let scaled = |count: u64| (count * self.mgas_per_block).div_ceil(30);
        let Touched { transactions, accounts, slots } = Self::PER_30_MGAS;
        Touched { transactions: scaled(transactions), accounts: scaled(accounts), slots: scaled(slots) }
    }

    /// Transactions whose hashes are there before the first block. In 2023 mainnet had 2 billion of them beside a billion slots.
    pub fn past_transactions(&self) -> u64 {
        2 * self.storage_slots
    }
}

impl Kind for RethHistory {
    fn name(&self) -> &'static str {
        "rethHistory"
    }

    fn roles(&self) -> Vec<RolePlan> {
        let per_save = self.blocks_per_save.max(1);
        let Touched { transactions, accounts, slots } = self.touched();
        vec![
            RolePlan {
                name: "execution".to_owned(),
                threads: 1,
                steps: self.blocks,
                until_primary_ends: false,
                warmup_steps: self.warmup_blocks,
                interval_ns: None,
                // Three thousand hashes take about as long as an operation.
                operations_per_step: (self.mgas_per_block * self.kilohashes_per_mgas / 3).max(1),
                follows: None,
            },
            RolePlan {
                name: SAVES.to_owned(),
                threads: 1,
                steps: self.blocks / per_save,
                until_primary_ends: false,
                warmup_steps: self.warmup_blocks / per_save,
                interval_ns: None,
                operations_per_step: per_save * (transactions + 2 * accounts + 2 * slots),
                follows: Some(Follows { leader: 0, steps: per_save, backlog: self.save_backlog }),
            },
        ]
    }

    fn steps_field(&self, role: &str) -> String {
        if role == SAVES { format!("blocks ({} per save)", self.blocks_per_save) } else { "blocks".to_owned() }
    }

    fn families(&self) -> Vec<&str> {
        Self::FAMILIES.to_vec()
    }

    fn policies(&self) -> &'static [(&'static str, &'static [&'static str])] {
        &[]
    }

    fn unit(&self) -> Option<(&'static str, f64)> {
        Some(("gas_throughput", self.mgas_per_block as f64))
    }

    fn metrics(&self) -> &'static [&'static str] {
        &[]
    }

    fn real_size(&self) -> Option<RealSize> {
        Some(RealSize {
            here: self.accounts + self.storage_slots,
            real: MAINNET_ENTRIES,
            what: "histories of accounts and storage slots",
            system: "Ethereum's main network",
        })
    }

    fn volume(&self) -> Volume {
        // Bytes of values: most histories are short, but those that change often are not.
        const TRANSACTION: f64 = 36.0;
        const LOADED: f64 = 90.0;
        const SAVED: f64 = 320.0;
        let blocks = (self.blocks + self.warmup_blocks) as f64;
        let Touched { transactions, accounts, slots } = self.touched();
        let history = |accounts: f64, slots: f64, value: f64| accounts * (28.0 + value) + slots * (60.0 + value);
        let (accounts, slots) = (blocks * accounts as f64, blocks * slots as f64);
        let (transactions, past) = (blocks * transactions as f64, self.past_transactions() as f64);
        let (past_accounts, past_slots) = (self.accounts as f64, self.storage_slots as f64);
        Volume {
            loaded_entries: past + past_accounts + past_slots,
            loaded_bytes: past * TRANSACTION + history(past_accounts, past_slots, LOADED),
            written_entries: transactions + accounts + slots,
            written_bytes: transactions * TRANSACTION + history(accounts, slots, SAVED),
            compressed: 0.8,
        }
    }

    fn problems(&self, _deadline_seconds: u64) -> Vec<WorkloadProblem> {
        let mut problems = Vec::new();
        let per_save = self.blocks_per_save.max(1);
        for (field, blocks) in [("blocks", self.blocks), ("warmupBlocks", self.warmup_blocks)] {
            if blocks % per_save > 0 {
                let (less, more) = (blocks / per_save * per_save, blocks.div_ceil(per_save) * per_save);
                let near = if less > 0 { format!("{less} or {more}") } else { more.to_string() };
                let message = format!("{blocks} is not a multiple of blocksPerSave ({per_save}); use {near}");
                problems.push(WorkloadProblem::error(field, message));
            }
        }
        let Touched { accounts, slots, .. } = self.touched();
        for (field, there, changed) in
            [("accounts", self.accounts, accounts), ("storageSlots", self.storage_slots, slots)]
        {
            if there < changed {
                let message = format!(
                    "a block of {} Mgas changes {changed}: use at least {changed}, or less gas",
                    self.mgas_per_block
                );
                problems.push(WorkloadProblem::error(field, message));
            }
        }
        if self.mgas_per_block.saturating_mul(per_save) > Self::MAX_MGAS_PER_SAVE {
            let message = format!(
                "a save of {} of {} Mgas is too large for memory; the limit is {} Mgas per save",
                counted(per_save, "block"),
                self.mgas_per_block,
                Self::MAX_MGAS_PER_SAVE
            );
            problems.push(WorkloadProblem::error("blocksPerSave", message));
        }
        problems
    }

    fn config_problems(&self, _config: &EngineConfig) -> Vec<WorkloadProblem> {
        Vec::new()
    }
}

/// What changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    pub transactions: u64,
    pub accounts: u64,
    pub slots: u64,
}
