use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kind, RealSize, RolePlan, Volume, WorkloadProblem, counted, real_size::MAINNET_ENTRIES};
use crate::EngineConfig;

/// Blocks of an Ethereum execution client. Each block reads state and writes one batch of chain data, plus the state
/// that leaves the in-memory layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ethrex {
    /// Blocks in the measured window.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub blocks: u64,
    /// Blocks before the measured window. State reaches RocksDB only `commitDepth` blocks later, so with fewer warm-up
    /// blocks the first blocks of the window write no state.
    #[serde(default = "default_warmup_blocks")]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub warmup_blocks: u64,
    /// Gas per block, in millions. A block's reads and writes grow with it.
    #[serde(default = "default_mgas_per_block")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub mgas_per_block: u64,
    /// Accounts in the state before the first block.
    #[schemars(range(min = 1000, max = 10_000_000_000_i64))]
    pub accounts: u64,
    /// Storage slots of all contracts in the state before the first block.
    #[schemars(range(min = 1000, max = 100_000_000_000_i64))]
    pub storage_slots: u64,
    /// Blocks whose state stays in memory.
    #[serde(default = "default_commit_depth")]
    #[schemars(range(min = 1, max = 4096))]
    pub commit_depth: u64,
    /// Open loop: milliseconds from one block's intended start to the next. Latency counts from the intended start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3_600_000))]
    pub block_interval_millis: Option<u64>,
}

fn default_warmup_blocks() -> u64 {
    160
}

fn default_mgas_per_block() -> u64 {
    30
}

fn default_commit_depth() -> u64 {
    128
}

impl Ethrex {
    pub const FAMILIES: &'static [&'static str] = &[
        "account_trie_nodes",
        "storage_trie_nodes",
        "account_flatkeyvalue",
        "storage_flatkeyvalue",
        "headers",
        "bodies",
        "receipts_v2",
        "transaction_locations",
        "canonical_block_hashes",
        "block_numbers",
    ];

    /// What a block of 30 Mgas touches on Ethereum's main network, about.
    pub const PER_30_MGAS: BlockContent =
        BlockContent { transactions: 200, accounts: 320, slots: 720, accounts_read: 1_500, slots_read: 6_500 };

    /// What one block touches.
    pub fn content_of_block(&self) -> BlockContent {
        let scaled = |count: u64| (count * self.mgas_per_block).div_ceil(30);
        let BlockContent { transactions, accounts, slots, accounts_read, slots_read } = Self::PER_30_MGAS;
        BlockContent {
            transactions: scaled(transactions),
            accounts: scaled(accounts),
            slots: scaled(slots),
            accounts_read: scaled(accounts_read),
            slots_read: scaled(slots_read),
        }
    }

    /// The contracts that share the slots, the largest first. A few hold most of them: every size takes up the same number
    /// of slots, except for the smallest contracts, which have a twelfth.
    pub fn contracts(&self) -> Vec<Contracts> {
        let leaves = |depth: u32| LEAVES_PER_BRANCH << (4 * depth);
        let deepest = (1..=DEEPEST)
            .take_while(|depth| leaves(*depth).saturating_mul(8) <= self.storage_slots)
            .last()
            .unwrap_or(0);
        let share = (self.storage_slots - self.storage_slots / 12) / u64::from(deepest.max(1));
        let mut left = self.storage_slots;
        let mut contracts = Vec::new();
        for depth in (1..=deepest).rev() {
            let count = share / leaves(depth);
            left -= count * leaves(depth);
            contracts.push(Contracts { count, slots: leaves(depth), depth });
        }
        contracts.push(Contracts { count: left / leaves(0), slots: leaves(0), depth: 0 });
        contracts
    }

    /// Blocks of the window that write state: those that come when `commitDepth` others lie over the first one.
    pub fn blocks_that_write_state(&self) -> u64 {
        (self.warmup_blocks + self.blocks).saturating_sub(self.commit_depth.max(self.warmup_blocks))
    }

    /// The state of a block is written when `commitDepth` blocks lie over it. A window that opens earlier measures something else, at
    /// first or all along.
    fn state_is_unwritten(&self) -> Option<WorkloadProblem> {
        let Self { blocks, warmup_blocks, commit_depth, .. } = self;
        if warmup_blocks >= commit_depth {
            return None;
        }
        let message = match self.blocks_that_write_state() {
            0 => format!(
                "{warmup_blocks} warm-up and {blocks} measured blocks never exceed commitDepth {commit_depth}, so no state is \
                 written and the options of its column families go untested: use at least {commit_depth}"
            ),
            writing => format!(
                "is below commitDepth {commit_depth}, so only {writing} of the {blocks} measured blocks write state: \
                 use at least {commit_depth}"
            ),
        };
        Some(WorkloadProblem::warning("warmupBlocks", message))
    }

    /// The state that one block changes.
    fn written_by_block(&self) -> Written {
        let content = self.content_of_block();
        // Each changed branch is written once, however many of its leaves changed.
        let distinct = |nodes: f64, touched: f64| nodes * (1.0 - (-touched / nodes).exp());
        let mut written = Written { entries: 0.0, bytes: 0.0 };
        let mut add = |entries: f64, bytes: f64| {
            written.entries += entries;
            written.bytes += entries * bytes;
        };
        let mut trie = |tries: f64, branches: f64, touched: f64, prefix: f64| {
            let mut level = 1.0;
            while level * 16.0 <= branches * 1.5 {
                add(distinct(tries * level, touched), prefix + 536.0);
                level *= 16.0;
            }
            add(distinct(tries * branches, touched), prefix + 122.0);
        };
        let (accounts, slots) = (content.accounts as f64 * NOT_TWICE, content.slots as f64 * NOT_TWICE);
        trie(1.0, self.accounts as f64 / 3.0, accounts, 0.0);
        for contracts in self.contracts() {
            let (count, size) = (contracts.count as f64, contracts.slots as f64);
            let touched = slots * count * size / self.storage_slots as f64;
            if touched > 0.0 {
                trie(count, size / 3.0, touched, 66.0);
            }
        }
        add(accounts, 140.0 + 118.0);
        add(slots, 144.0 + 118.0);
        // Each of them is a flat entry and a leaf.
        written.entries += accounts + slots;
        written
    }
}

impl Kind for Ethrex {
    fn name(&self) -> &'static str {
        "ethrex"
    }

    fn roles(&self) -> Vec<RolePlan> {
        let content = self.content_of_block();
        let written = self.written_by_block();
        // Each written key is read before, as are most nodes on its path.
        let operations = content.accounts_read + content.slots_read + 3 * content.transactions;
        vec![RolePlan {
            name: "blocks".to_owned(),
            threads: 1,
            steps: self.blocks,
            until_primary_ends: false,
            warmup_steps: self.warmup_blocks,
            interval_ns: self.block_interval_millis.map(|millis| millis as f64 * 1e6),
            operations_per_step: operations + (1.6 * written.entries) as u64,
            follows: None,
        }]
    }

    fn steps_field(&self, _role: &str) -> String {
        "blocks".to_owned()
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
            what: "accounts and storage slots",
            system: "Ethereum's main network",
        })
    }

    fn volume(&self) -> Volume {
        let (accounts, slots) = (self.accounts as f64, self.storage_slots as f64);
        let state_blocks = (self.blocks + self.warmup_blocks).saturating_sub(self.commit_depth) as f64;
        let blocks = (self.blocks + self.warmup_blocks) as f64;
        let transactions = self.content_of_block().transactions as f64;
        let state = self.written_by_block();
        Volume {
            // The flat entry, the leaf, and the branches over it; a tenth of the entries is not there at first.
            loaded_entries: 2.18 * (accounts + slots),
            loaded_bytes: accounts * 320.0 + slots * 346.0,
            written_entries: state_blocks * state.entries + blocks * (4.0 + 2.0 * transactions),
            written_bytes: state_blocks * state.bytes + blocks * (800.0 + transactions * 1_260.0),
            // Keys are long and share most of their bytes with their neighbours', which RocksDB doesn't write again.
            compressed: 0.62,
        }
    }

    fn problems(&self, deadline_seconds: u64) -> Vec<WorkloadProblem> {
        let content = self.content_of_block();
        let mut problems = Vec::new();
        for (field, has, changes) in
            [("accounts", self.accounts, content.accounts), ("storageSlots", self.storage_slots, content.slots)]
        {
            // Within a block nothing changes twice.
            if changes.saturating_mul(2) > has {
                let message = format!(
                    "a block of {} Mgas changes {changes} of {has}: use at least {}, or less gas",
                    self.mgas_per_block,
                    changes.saturating_mul(2)
                );
                problems.push(WorkloadProblem::error(field, message));
            }
        }
        problems.extend(self.state_is_unwritten());
        if let Some(millis) = self.block_interval_millis {
            let blocks = self.blocks.saturating_add(self.warmup_blocks);
            let seconds = blocks.saturating_mul(millis).div_ceil(1000);
            if seconds >= deadline_seconds {
                let message = format!(
                    "{} and {} take {seconds} s at one every {millis} ms, beyond deadlineSeconds {deadline_seconds}",
                    counted(self.blocks, "block"),
                    counted(self.warmup_blocks, "warm-up block"),
                );
                problems.push(WorkloadProblem::error("blockIntervalMillis", message));
            }
        }
        problems
    }

    fn config_problems(&self, _config: &EngineConfig) -> Vec<WorkloadProblem> {
        Vec::new()
    }
}

/// Children of the branches that are nearest to the leaves. In a trie of random keys 0.36 branches come to a leaf, whatever its size.
pub const LEAVES_PER_BRANCH: u64 = 3;

/// Deeper contracts than the main network has.
const DEEPEST: u32 = 12;

/// Hot keys are drawn more than once by a block, which writes them once.
const NOT_TWICE: f64 = 0.9;

/// What a block touches: counts of distinct things, but for hot ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockContent {
    pub transactions: u64,
    /// Accounts that change.
    pub accounts: u64,
    /// Storage slots that change.
    pub slots: u64,
    /// Accounts that are only read.
    pub accounts_read: u64,
    /// Slots that are only read.
    pub slots_read: u64,
}

/// Contracts of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contracts {
    pub count: u64,
    /// Slots that each of them has.
    pub slots: u64,
    /// Branches above those that are nearest to the leaves, along any path.
    pub depth: u32,
}

/// An estimate of what is written.
struct Written {
    entries: f64,
    bytes: f64,
}
