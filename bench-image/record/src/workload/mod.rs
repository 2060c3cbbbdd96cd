//! Workloads as a scenario declares them, and what planning and driving need to know of any.

mod blockstore;
mod ethrex;
mod key_value;
mod reth_history;

pub use blockstore::Blockstore;
pub use ethrex::{Contracts, Ethrex, LEAVES_PER_BRANCH};
pub use key_value::{KeyOrder, KeyValue, Mix, Preload, Role, ValueBytes};
pub use reth_history::RethHistory;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::EngineConfig;

/// The role whose steps have latencies of their own, `save_latency_*`.
pub const SAVES: &str = "saves";

/// What a scenario makes RocksDB do. Exactly one workload is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "[has(self.keyValue), has(self.ethrex), has(self.blockstore), has(self.rethHistory)].exists_one(set, set)",
        "message": "set exactly one workload: keyValue, ethrex, blockstore or rethHistory",
    },
]))]
pub enum Workload {
    /// The generic key-value workload.
    KeyValue(KeyValue),
    /// The state of an Ethereum node, as ethrex stores it.
    Ethrex(Ethrex),
    /// The shreds of a Solana validator, as Agave's blockstore keeps them.
    Blockstore(Blockstore),
    /// The history indices of an Ethereum node, as reth stores them.
    RethHistory(RethHistory),
}

impl Workload {
    /// Groups of threads that run at the same time. The first is the primary role: throughput and step latency are its own.
    pub fn roles(&self) -> Vec<RolePlan> {
        match self {
            Self::KeyValue(workload) => workload.plans(),
            Self::Ethrex(workload) => workload.plans(),
            Self::Blockstore(workload) => workload.plans(),
            Self::RethHistory(workload) => workload.plans(),
        }
    }

    /// The role whose steps are the trial's throughput and step latency.
    pub fn primary_role(&self) -> Option<RolePlan> {
        self.roles().into_iter().next()
    }

    /// The role that a metric is measured on. `None` if the workload has no such metric.
    pub fn measured_role(&self, metric: &str) -> Option<RolePlan> {
        let unit = self.unit().map(|(name, _)| name);
        match metric {
            "gas_throughput" | "shred_throughput" if unit != Some(metric) => None,
            "dangling_rows" | "overdue_percent" if !matches!(self, Self::Blockstore(_)) => None,
            _ if metric.starts_with("save_latency") => self.roles().into_iter().find(|role| role.name == SAVES),
            _ => self.primary_role(),
        }
    }

    /// The field that is set.
    pub fn name(&self) -> &'static str {
        match self {
            Self::KeyValue(_) => "keyValue",
            Self::Ethrex(_) => "ethrex",
            Self::Blockstore(_) => "blockstore",
            Self::RethHistory(_) => "rethHistory",
        }
    }

    /// The column families that it opens.
    pub fn families(&self) -> Vec<&str> {
        match self {
            Self::KeyValue(workload) => workload.families.iter().map(String::as_str).collect(),
            Self::Ethrex(_) => Ethrex::FAMILIES.to_vec(),
            Self::Blockstore(_) => Blockstore::FAMILIES.to_vec(),
            Self::RethHistory(_) => RethHistory::FAMILIES.to_vec(),
        }
    }

    /// Behaviour that a config may change, by key, with the values that it can have. The first is the default.
    pub fn policies(&self) -> &'static [(&'static str, &'static [&'static str])] {
        match self {
            Self::Blockstore(_) => Blockstore::POLICIES,
            Self::KeyValue(_) | Self::Ethrex(_) | Self::RethHistory(_) => &[],
        }
    }

    /// What a config's policy says about a key: its own value, or the default of a workload that knows the key.
    pub fn policy<'a>(&self, config: &'a EngineConfig, key: &str) -> Option<&'a str> {
        let (_, values) = self.policies().iter().find(|(known, _)| *known == key)?;
        config.policy.get(key).map(String::as_str).or(values.first().copied())
    }

    /// Work in the unit that people of this field count: the metric that is its rate, and how much of it one step of the primary role does.
    pub fn unit(&self) -> Option<(&'static str, f64)> {
        match self {
            Self::KeyValue(_) => None,
            Self::Ethrex(workload) => Some(("gas_throughput", workload.mgas_per_block as f64)),
            Self::Blockstore(workload) => Some(("shred_throughput", workload.shreds_per_step())),
            Self::RethHistory(workload) => Some(("gas_throughput", workload.mgas_per_block as f64)),
        }
    }

    /// How large it is beside the system that it stands for. `None` where it stands for none.
    pub fn real_size(&self) -> Option<RealSize> {
        match self {
            Self::KeyValue(_) => None,
            Self::Ethrex(workload) => Some(workload.real_size()),
            Self::Blockstore(workload) => Some(workload.real_size()),
            Self::RethHistory(workload) => Some(workload.real_size()),
        }
    }

    /// How much it loads and writes.
    pub fn volume(&self) -> Volume {
        match self {
            Self::KeyValue(workload) => workload.volume(),
            Self::Ethrex(workload) => workload.volume(),
            Self::Blockstore(workload) => workload.volume(),
            Self::RethHistory(workload) => workload.volume(),
        }
    }
}

/// A group of threads, whatever workload it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct RolePlan {
    pub name: String,
    /// Threads that share the steps: step i is executed by thread i modulo this.
    pub threads: u32,
    /// Measured steps, over all threads.
    pub steps: u64,
    /// Steps before the measured window, over all threads.
    pub warmup_steps: u64,
    /// Open loop: nanoseconds from one intended start to the next, over all threads.
    pub interval_ns: Option<f64>,
    /// About how many operations a step has.
    pub operations_per_step: u64,
    pub follows: Option<Follows>,
}

/// Steps that wait for those of another role, as a thread that saves what another one makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follows {
    /// Position of the role that leads.
    pub leader: usize,
    /// Steps of the leader that one step takes up. It begins when all of its leader's steps up to the last of them are done.
    pub steps: u64,
    /// Steps that may be due before the leader waits.
    pub backlog: u64,
}

/// Accounts and storage slots of Ethereum's main network when another client [counted](https://github.com/paradigmxyz/reth/pull/5355)
/// them. It has grown since.
const MAINNET_ENTRIES: u64 = 225_000_000 + 1_070_000_000;

/// The size of a workload's data beside that of the system that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealSize {
    pub here: u64,
    pub real: u64,
    /// What is counted, and where.
    pub what: &'static str,
    pub system: &'static str,
}

impl RealSize {
    /// Less than half of it. The real one grows, so its size is known about.
    pub fn is_scaled(&self) -> bool {
        self.here < self.real / 2
    }
}

impl std::fmt::Display for RealSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { here, real, what, system } = self;
        let ratio = (*real as f64 / (*here).max(1) as f64).round();
        write!(f, "1 to {ratio} of {system}, {} of about {} {what}", rounded(*here), rounded(*real))
    }
}

/// A large number in words.
fn rounded(number: u64) -> String {
    let float = number as f64;
    match number {
        1_000_000_000.. => format!("{:.1} billion", float / 1e9),
        1_000_000.. => format!("{:.1} million", float / 1e6),
        10_000.. => format!("{:.0} thousand", float / 1e3),
        _ => number.to_string(),
    }
}

/// Estimates of how much a workload loads and writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Volume {
    pub loaded_entries: f64,
    /// Bytes of keys and values before compression.
    pub loaded_bytes: f64,
    /// Over warm-up and window, tombstones included.
    pub written_entries: f64,
    pub written_bytes: f64,
    /// What is left of a byte under a general-purpose codec.
    pub compressed: f64,
}
