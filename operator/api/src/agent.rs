//! What the operator and the agent of a node say to each other, as JSON in annotations of Leases: no network path leads from one to
//! the other, and the agent needs no rights where experiments are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How long an agent counts as there that is not heard of: what its Lease lasts.
pub const LEASE_SECONDS: u16 = 180;

/// One try at one attempt, called as no other ever is: pods of an experiment that was deleted may come again under their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptKey {
    pub namespace: String,
    pub experiment: String,
    pub pod: String,
    /// The uid of its `TuningTrial`.
    pub trial: String,
    /// Times that a node refused the attempt before.
    pub refusals: u32,
}

/// What the operator asks, in [`ASK_ANNOTATION`](crate::names::ASK_ANNOTATION) of the node's Lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentRequest {
    pub attempt: AttemptKey,
    pub phase: AgentPhase,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AgentPhase {
    /// The attempt is about to begin.
    Begin {
        /// The block that it belongs to, called as no other ever is.
        block: String,
        /// When it begins at the latest, in milliseconds since 1970: what is not done by then must be left.
        until_unix_ms: u64,
    },
    /// It has ended.
    End {
        /// The CPUs that its bench says it ran on, such as `2-5,9`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cpus: Option<String>,
    },
}

/// What the agent answers, in [`ANSWER_ANNOTATION`](crate::names::ANSWER_ANNOTATION) of its own Lease. It counts for exactly this attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentAnswer {
    pub attempt: AttemptKey,
    /// Dropping the node's page cache.
    pub page_cache: Done,
    /// Trimming file systems; absent where none was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trim: Option<Done>,
    /// The block before which file systems were trimmed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trimmed: Option<String>,
    /// When the node was prepared and counters were read, in milliseconds since 1970.
    pub prepared_unix_ms: u64,
    /// Counters before the attempt.
    pub before: CpuCounters,
    /// What the attempt met, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<AgentSeen>,
}

/// Whether something was done, or why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Done {
    Yes,
    No(String),
}

/// Counters of each CPU since the node was started. A CPU that the kernel does not count for is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuCounters {
    /// Times that the CPU or its package clocked down for heat.
    pub throttled: BTreeMap<u32, u64>,
    /// Interrupts of devices.
    pub interrupts: BTreeMap<u32, u64>,
}

/// What an attempt met on its CPUs. What could not be seen is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSeen {
    /// When counters were read again, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// CPUs that the kubelet gave to its pod alone, such as `2-5,9`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ids: Option<String>,
    /// Times that one of its CPUs clocked down for heat: of the one that did most often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle_events: Option<u64>,
    /// Interrupts of devices that its CPUs served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_interrupts: Option<u64>,
}
