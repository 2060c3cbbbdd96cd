//! What is asked of a workload, whichever it is.
//!
//! A new one is a file here with an arm in `Workload::kind`, and a folder in the bench with an arm in its `workload::build`.

use super::RealSize;
use crate::EngineConfig;

/// A workload, for those who plan, validate and drive it. What differs has no default, so that a new one can leave nothing out.
pub trait Kind {
    /// Its field in a scenario.
    fn name(&self) -> &'static str;

    /// Groups of threads that run at the same time. The first is the primary role: throughput and step latency are its own.
    fn roles(&self) -> Vec<RolePlan>;

    /// Where a scenario says how many steps a role has: a path below the workload, for messages.
    fn steps_field(&self, role: &str) -> String;

    /// The column families that it opens.
    fn families(&self) -> Vec<&str>;

    /// Behaviour that a config may change, by key, with the values that it can have. The first is the default.
    fn policies(&self) -> &'static [(&'static str, &'static [&'static str])];

    /// Work in the unit that people of this field count: the metric that is its rate, and how much of it one step of the primary role does.
    fn unit(&self) -> Option<(&'static str, f64)>;

    /// Other metrics that not every workload has.
    fn metrics(&self) -> &'static [&'static str];

    /// How large it is beside the system that it stands for. `None` where it stands for none.
    fn real_size(&self) -> Option<RealSize>;

    /// How much it loads and writes.
    fn volume(&self) -> Volume;

    /// What is wrong with it, as far as that can be told without running it.
    fn problems(&self, deadline_seconds: u64) -> Vec<WorkloadProblem>;

    /// What is wrong with a config under this workload.
    fn config_problems(&self, config: &EngineConfig) -> Vec<WorkloadProblem>;

    /// What a config's policy says about a key: its own value, or the default of a workload that knows the key. Follows from the rest.
    fn policy<'a>(&self, config: &'a EngineConfig, key: &str) -> Option<&'a str> {
        let (_, values) = self.policies().iter().find(|(known, _)| *known == key)?;
        config.policy.get(key).map(String::as_str).or(values.first().copied())
    }
}

/// Something that whoever declared a workload, or a config for it, should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadProblem {
    /// The field that is at fault: the keys and numbers on the way to it, such as `roles/0/mix`. It begins below the workload or
    /// below the config.
    pub field: String,
    /// It can't be run. Otherwise it runs, and disappoints.
    pub is_error: bool,
    pub message: String,
}

impl WorkloadProblem {
    pub(super) fn error(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), is_error: true, message: message.into() }
    }

    pub(super) fn warning(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { is_error: false, ..Self::error(field, message) }
    }
}

/// `1 step`, `2 steps`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A group of threads, whatever workload it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct RolePlan {
    pub name: String,
    /// Threads that share the steps: step i is executed by thread i modulo this.
    pub threads: u32,
    /// Measured steps, over all threads; none are planned for a role that ends with the primary one.
    pub steps: u64,
    /// Paced steps that continue until the primary role is done, so that it is never without company. How many these are depends on the
    /// config, so they are no part of the work that configs have in common.
    pub until_primary_ends: bool,
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::Kind;
    use crate::{Blockstore, EngineConfig};

    #[test]
    fn a_policy_is_the_configs_or_the_first_that_a_workload_knows() {
        let workload: Blockstore =
            serde_json::from_value(serde_json::json!({"slots": 16, "retainedSlots": 64})).unwrap();
        let mut config = EngineConfig::default();
        for (key, values) in workload.policies() {
            assert_eq!(workload.policy(&config, key), values.first().copied(), "{key}");
        }
        config.policy.insert(Blockstore::RETENTION.to_owned(), "fifo".to_owned());
        assert_eq!(workload.policy(&config, Blockstore::RETENTION), Some("fifo"));
        assert_eq!(workload.policy(&config, Blockstore::INSERT_LOCK), Some("global"));
        config.policy.insert("other".to_owned(), "1".to_owned());
        assert_eq!(workload.policy(&config, "other"), None, "of what a workload does not know");
    }
}
