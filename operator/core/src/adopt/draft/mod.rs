//! An experiment that is still to be completed by its user.

mod yaml;

use std::collections::BTreeMap;

use assay_protocol::{KeyOrder, KeyValue, Kind as _, Mix, OptionProblem, Preload, Role, ValueBytes, WriteOptions};

use super::baseline::{Baseline, Why};
use super::defaults::Scope;

/// Name of the config that stands for what the user has.
pub const BASELINE: &str = "current";
/// Name of the config to be changed.
pub const CANDIDATE: &str = "candidate";

/// Steps that a p99 needs: 100 beyond it.
const STEPS_OF_A_P99: u64 = 10_000;

/// Everything that is written to the file.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    pub name: String,
    /// What it was made from, and what to do with it: paragraphs of the comment at the top.
    pub head: Vec<String>,
    pub seed: Option<u64>,
    pub baseline: Baseline,
    /// Sentences about the baseline.
    pub baseline_notes: Vec<String>,
    pub cache: Option<Cache>,
    pub write: WriteOptions,
    /// What the other config changes. Without it the file has an example in a comment.
    pub change: Option<Change>,
    pub scenarios: Vec<DraftScenario>,
    /// What had no counterpart, beside options of the baseline.
    pub lost: Vec<String>,
    /// CPUs that this machine has for a trial.
    pub cpus: u32,
}

/// A block cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    pub bytes: u64,
    pub shared: bool,
}

/// One option that another config changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub scope: Scope,
    /// What is part of a struct has a name such as `block_based_table_factory.block_size`.
    pub option: String,
    pub value: String,
}

/// A scenario, with sentences about it.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftScenario {
    pub name: String,
    pub notes: Vec<String>,
    pub workload: KeyValue,
}

/// What is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Judged {
    objective: &'static str,
    guardrail: Option<&'static str>,
}

impl Draft {
    /// The file.
    pub fn yaml(&self) -> String {
        yaml::write(self)
    }

    /// What was not carried over, an item each.
    pub fn left_behind(&self) -> Vec<String> {
        let mut by_why: BTreeMap<&Why, BTreeMap<String, Vec<&str>>> = BTreeMap::new();
        for out in &self.baseline.left_out {
            by_why.entry(&out.why).or_default().entry(out.label()).or_default().push(&out.scope);
        }
        let families = self.baseline.families.len();
        let label = |(label, scopes): (String, Vec<&str>)| {
            let everywhere = scopes.len() >= families || scopes == ["db"];
            if everywhere { label } else { format!("{label} ({})", scopes.join(", ")) }
        };
        let options = by_why.into_iter().map(|(why, labels)| {
            let labels: Vec<String> = labels.into_iter().map(label).collect();
            format!("{why}: {}", labels.join(", "))
        });
        options.chain(self.lost.iter().cloned()).collect()
    }

    /// Takes out what RocksDB rejects in the baseline.
    pub fn refuse(&mut self, problems: &[OptionProblem]) {
        for problem in problems.iter().filter(|problem| problem.config == BASELINE && !problem.option.is_empty()) {
            self.baseline.refuse(&problem.scope, &problem.option, &problem.message);
        }
    }

    /// CPUs for a trial: one for each thread, if there are as many.
    fn cpus_of_a_trial(&self) -> u32 {
        let threads = |scenario: &DraftScenario| scenario.workload.roles.iter().map(|role| role.threads).sum::<u32>();
        let most = self.scenarios.iter().map(threads).max().unwrap_or_default();
        // Flushes and compactions take a CPU as well.
        most.saturating_add(1).min(self.cpus).max(1)
    }

    fn judged(&self) -> Judged {
        let primary: Vec<_> =
            self.scenarios.iter().filter_map(|scenario| scenario.workload.roles().into_iter().next()).collect();
        let paced = primary.iter().any(|role| role.interval_ns.is_some());
        let has_p99 = primary.iter().all(|role| role.steps >= STEPS_OF_A_P99);
        let latency = if has_p99 { "step_latency_p99" } else { "step_latency_mean" };
        if paced {
            // A pace fixes the throughput.
            Judged { objective: latency, guardrail: None }
        } else {
            Judged { objective: "throughput", guardrail: has_p99.then_some(latency) }
        }
    }
}

/// A workload about which only its size is known.
pub fn placeholder(keys: u64, key_bytes: u32, value_bytes: u32, families: Vec<String>, mix: Mix) -> KeyValue {
    const STEPS: u64 = 500_000;
    // With less, caches still fill while runs are measured, and their rate changes.
    let role = Role { warmup_steps: STEPS, ..role("client", STEPS, mix) };
    KeyValue {
        keys: keys.max(families.len() as u64).max(1),
        key_bytes,
        value_bytes: ValueBytes::Fixed(value_bytes),
        compressed_percent: 50,
        families,
        preload: Preload::default(),
        roles: vec![role],
    }
}

/// A role of one thread with every other field at its default.
pub fn role(name: &str, steps: u64, mix: Mix) -> Role {
    Role {
        name: name.to_owned(),
        threads: 1,
        steps: Some(steps),
        until: None,
        warmup_steps: 0,
        steps_per_second: None,
        mix,
        batch: 1,
        scan_length: 100,
        key_order: KeyOrder::default(),
        zipfian_exponent: None,
    }
}

#[cfg(test)]
mod tests;
