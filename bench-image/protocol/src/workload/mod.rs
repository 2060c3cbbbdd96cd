//! Workloads as a scenario declares them, and what planning and driving need to know of any.

mod blockstore;
mod ethrex;
mod key_value;
mod kind;
mod real_size;
mod reth_history;

pub use blockstore::Blockstore;
pub use ethrex::{Contracts, Ethrex, LEAVES_PER_BRANCH};
pub use key_value::{KeyOrder, KeyValue, Mix, Preload, Role, Until, ValueBytes};
use kind::counted;
pub use kind::{Follows, Kind, RolePlan, Volume, WorkloadProblem};
pub use real_size::RealSize;
pub use reth_history::RethHistory;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::metric;

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
    /// The workload that is set, for all that is asked of any.
    pub fn kind(&self) -> &dyn Kind {
        match self {
            Self::KeyValue(workload) => workload,
            Self::Ethrex(workload) => workload,
            Self::Blockstore(workload) => workload,
            Self::RethHistory(workload) => workload,
        }
    }

    /// The role whose steps are the trial's throughput and step latency.
    pub fn primary_role(&self) -> Option<RolePlan> {
        self.kind().roles().into_iter().next()
    }

    /// The role that a metric is measured on. `None` if the workload has no such metric.
    pub fn measured_role(&self, name: &str) -> Option<RolePlan> {
        let kind = self.kind();
        if name.starts_with("save_latency") {
            return kind.roles().into_iter().find(|role| role.name == SAVES);
        }
        let is_everywhere = metric(name).is_none_or(|info| info.is_everywhere);
        let is_own = || kind.unit().is_some_and(|(unit, _)| unit == name) || kind.metrics().contains(&name);
        if is_everywhere || is_own() { self.primary_role() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::Workload;

    #[test]
    fn the_rule_of_the_api_server_names_every_workload() {
        let schema = schemars::schema_for!(Workload).to_value();
        let rule = &schema["x-kubernetes-validations"][0];
        let workloads: Vec<&String> = schema["oneOf"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|variant| variant["properties"].as_object()?.keys().next())
            .collect();
        assert!(workloads.len() > 1, "{schema}");
        for workload in workloads {
            assert!(
                rule["rule"].as_str().is_some_and(|rule| rule.contains(&format!("has(self.{workload})"))),
                "{rule}"
            );
            assert!(rule["message"].as_str().is_some_and(|message| message.contains(workload)), "{rule}");
        }
    }
}
