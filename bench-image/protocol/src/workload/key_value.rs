//! The generic workload: operations in any mix over a preloaded set of keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kind, RealSize, RolePlan, Volume, WorkloadProblem};
use crate::EngineConfig;

/// Generic key-value operations over a preloaded set of keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyValue {
    /// Number of distinct keys that operations choose from.
    #[schemars(range(min = 1, max = 100_000_000_000_i64))]
    pub keys: u64,
    /// Length of every key in bytes.
    #[serde(default = "default_key_bytes")]
    #[schemars(range(min = 8, max = 1024))]
    pub key_bytes: u32,
    /// Length of the values: one fixed size, or a distribution over the keys.
    pub value_bytes: ValueBytes,
    /// Size that a general-purpose codec reaches on a block of these values, in percent of the raw size:
    /// 100 is incompressible, 50 compresses to half.
    #[serde(default = "default_compressed_percent")]
    #[schemars(range(min = 1, max = 100))]
    pub compressed_percent: u32,
    /// Column families that the keys are spread over.
    #[serde(default = "default_families")]
    #[schemars(
        length(min = 1, max = 32),
        inner(length(min = 1, max = 63)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub families: Vec<String>,
    /// What the dataset holds before a trial starts.
    #[serde(default)]
    pub preload: Preload,
    /// Groups of threads that run at the same time. The first is the primary role: throughput and step
    /// latency are its own.
    #[schemars(
        length(min = 1, max = 8),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub roles: Vec<Role>,
}

impl Kind for KeyValue {
    fn name(&self) -> &'static str {
        "keyValue"
    }

    fn roles(&self) -> Vec<RolePlan> {
        self.roles.iter().map(Role::plan).collect()
    }

    fn steps_field(&self, role: &str) -> String {
        let index = self.roles.iter().position(|declared| declared.name == role).unwrap_or_default();
        format!("roles[{index}].steps")
    }

    fn families(&self) -> Vec<&str> {
        self.families.iter().map(String::as_str).collect()
    }

    fn policies(&self) -> &'static [(&'static str, &'static [&'static str])] {
        &[]
    }

    fn unit(&self) -> Option<(&'static str, f64)> {
        None
    }

    fn metrics(&self) -> &'static [&'static str] {
        &[]
    }

    fn real_size(&self) -> Option<RealSize> {
        None
    }

    fn volume(&self) -> Volume {
        let entry = |share: f64| f64::from(self.key_bytes) + self.value_bytes.mean() * share;
        let compressed = f64::from(self.compressed_percent) / 100.0;
        let loaded = if self.preload == Preload::Empty { 0.0 } else { self.keys as f64 };
        let written: f64 = self.roles.iter().map(Role::writes).sum();
        Volume {
            loaded_entries: loaded,
            loaded_bytes: loaded * entry(1.0),
            written_entries: written,
            written_bytes: written * entry(1.0),
            compressed: entry(compressed) / entry(1.0),
        }
    }

    fn problems(&self, deadline_seconds: u64) -> Vec<WorkloadProblem> {
        let mut problems = Vec::new();
        if let ValueBytes::Uniform { min, max } = self.value_bytes
            && min > max
        {
            problems.push(WorkloadProblem::error("valueBytes/uniform", format!("min {min} is above max {max}")));
        }
        let families = self.families.len();
        if self.keys < families as u64 {
            let message = format!("{} keys leave some of the {families} column families empty", self.keys);
            problems.push(WorkloadProblem::error("keys", message));
        }
        for (index, role) in self.roles.iter().enumerate() {
            let found = role.problems(deadline_seconds).into_iter();
            problems.extend(
                found.map(|(field, message)| WorkloadProblem::error(format!("roles/{index}/{field}"), message)),
            );
        }
        problems
    }

    fn config_problems(&self, _config: &EngineConfig) -> Vec<WorkloadProblem> {
        Vec::new()
    }
}

fn default_key_bytes() -> u32 {
    20
}

fn default_compressed_percent() -> u32 {
    50
}

fn default_families() -> Vec<String> {
    vec!["default".to_owned()]
}

/// The length of values. A key keeps its length for the whole experiment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "[has(self.fixed), has(self.uniform)].exists_one(set, set)", "message": "set exactly one of fixed and uniform"},
    {"rule": "!has(self.uniform) || self.uniform.min <= self.uniform.max", "message": "min is at most max", "fieldPath": ".uniform"},
]))]
pub enum ValueBytes {
    /// Every value has this length.
    Fixed(#[schemars(range(min = 0, max = 16_777_216))] u32),
    /// Lengths spread evenly between two bounds, both included.
    Uniform {
        /// Length of the shortest values.
        #[schemars(range(min = 0, max = 16_777_216))]
        min: u32,
        /// Length of the longest values.
        #[schemars(range(min = 0, max = 16_777_216))]
        max: u32,
    },
}

impl ValueBytes {
    pub fn mean(self) -> f64 {
        match self {
            Self::Fixed(bytes) => f64::from(bytes),
            Self::Uniform { min, max } => f64::midpoint(f64::from(min), f64::from(max)),
        }
    }

    pub fn max(self) -> u32 {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Uniform { max, .. } => max,
        }
    }
}

/// How the dataset is filled before a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Preload {
    /// Every key once, in shuffled order, so that the tree has the shape of a lived-in database.
    #[default]
    Shuffled,
    /// Every key once, in key order.
    Sequential,
    /// Nothing: the trial starts on an empty database.
    Empty,
}

/// A group of threads with one mix of operations and a fixed number of steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.zipfianExponent) || self.keyOrder == 'Zipfian'", "message": "zipfianExponent needs keyOrder: Zipfian"},
]))]
pub struct Role {
    /// Name in records and metrics, such as writer or reader.
    #[schemars(length(min = 1, max = 16), regex(pattern = "^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Number of threads that share the steps.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 256))]
    pub threads: u32,
    /// Measured steps, over all threads. A step is one operation, or one batch of writes.
    #[schemars(range(min = 1, max = 1_000_000_000_000_i64))]
    pub steps: u64,
    /// Steps before the measured window, over all threads.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000_000_000_i64))]
    pub warmup_steps: u64,
    /// Open loop: steps start at this rate, over all threads, and latency counts from the intended start.
    /// Without it the loop is closed: the next step starts when the last one is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub steps_per_second: Option<u64>,
    /// Share of each kind of operation.
    pub mix: Mix,
    /// Writes that go into one `WriteBatch`. A step of reads has this many reads.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100_000))]
    pub batch: u32,
    /// Entries that one scan returns.
    #[serde(default = "default_scan_length")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub scan_length: u32,
    /// Which keys the steps touch.
    #[serde(default)]
    pub key_order: KeyOrder,
    /// Exponent of the Zipf distribution as a decimal, with the key order Zipfian; 0.99 where it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), regex(pattern = r"^[0-9]+(\.[0-9]+)?$"))]
    pub zipfian_exponent: Option<String>,
}

impl Role {
    fn plan(&self) -> RolePlan {
        RolePlan {
            name: self.name.clone(),
            threads: self.threads,
            steps: self.steps,
            warmup_steps: self.warmup_steps,
            interval_ns: self.steps_per_second.map(|rate| 1e9 / rate as f64),
            operations_per_step: u64::from(self.batch) * self.entries(),
            follows: None,
        }
    }

    /// What the mean operation costs in point operations: a further entry of a scan about a tenth of one.
    fn entries(&self) -> u64 {
        let (scans, all) = (u64::from(self.mix.scan), u64::from(self.mix.total()).max(1));
        1 + scans * u64::from(self.scan_length) / 10 / all
    }

    /// Entries that a trial writes, tombstones included.
    fn writes(&self) -> f64 {
        let (writes, all) = (f64::from(self.mix.put) + f64::from(self.mix.delete), f64::from(self.mix.total()));
        let steps = self.steps as f64 + self.warmup_steps as f64;
        if all > 0.0 { steps * f64::from(self.batch) * writes / all } else { 0.0 }
    }

    /// Fields with what is wrong about them.
    fn problems(&self, deadline_seconds: u64) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        let mix = self.mix;
        let total = [mix.put, mix.get, mix.get_missing, mix.delete, mix.scan].into_iter().map(u64::from).sum::<u64>();
        if total == 0 {
            problems.push(("mix", "has no operation: give at least one a weight above 0".to_owned()));
        }
        if mix.scan > 0 && self.batch > 1 {
            let message = format!(
                "a scan can't be batched; set batch to 1 (is {}) or give scans a role of their own",
                self.batch
            );
            problems.push(("batch", message));
        }
        if self.steps < u64::from(self.threads) {
            problems.push(("steps", format!("{} steps leave some of the {} threads idle", self.steps, self.threads)));
        }
        if let Some(text) = &self.zipfian_exponent {
            if self.key_order != KeyOrder::Zipfian {
                problems
                    .push(("zipfianExponent", "needs keyOrder: Zipfian; set it, or remove the exponent".to_owned()));
            } else if !decimal(text).is_some_and(|exponent| exponent > 0.0) {
                let message = format!("must be a decimal number above 0, such as 0.99, not {text:?}");
                problems.push(("zipfianExponent", message));
            }
        }
        if let Some(rate) = self.steps_per_second.filter(|&rate| rate > 0) {
            let seconds = self.steps.saturating_add(self.warmup_steps).div_ceil(rate);
            if seconds >= deadline_seconds {
                let message = format!(
                    "{} steps with {} to warm up take {seconds} s at {rate} steps per second, beyond deadlineSeconds {deadline_seconds}",
                    self.steps, self.warmup_steps
                );
                problems.push(("stepsPerSecond", message));
            }
        }
        problems
    }
}

/// Reads a plain decimal number such as `0.99`.
fn decimal(text: &str) -> Option<f64> {
    let (whole, places) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    (digits(whole) && digits(places)).then(|| text.parse().ok()).flatten()
}

fn one() -> u32 {
    1
}

fn default_scan_length() -> u32 {
    100
}

/// Integer weights of the operations of a role; at least one is above 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.put + self.get + self.getMissing + self.delete + self.scan > 0",
        "message": "at least one operation needs a weight above 0",
    },
]))]
pub struct Mix {
    /// Writes a key of the key space, whether it exists or not.
    #[schemars(range(min = 0, max = 1000))]
    pub put: u32,
    /// Reads a key of the key space.
    #[schemars(range(min = 0, max = 1000))]
    pub get: u32,
    /// Reads a key that was never written.
    #[schemars(range(min = 0, max = 1000))]
    pub get_missing: u32,
    /// Deletes a key of the key space.
    #[schemars(range(min = 0, max = 1000))]
    pub delete: u32,
    /// Seeks to a key and reads the entries that follow.
    #[schemars(range(min = 0, max = 1000))]
    pub scan: u32,
}

impl Mix {
    pub fn total(self) -> u32 {
        self.put + self.get + self.get_missing + self.delete + self.scan
    }

    pub fn writes(self) -> bool {
        self.put + self.delete > 0
    }

    pub fn reads(self) -> bool {
        self.get + self.get_missing + self.scan > 0
    }
}

/// The order in which steps touch keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KeyOrder {
    /// Every key equally likely.
    #[default]
    Uniform,
    /// Keys in order, starting again at the end.
    Sequential,
    /// Few keys are hot. Hot keys are spread over the key space.
    Zipfian,
}

#[cfg(test)]
mod tests {
    use super::decimal;

    #[test]
    fn decimals_are_digits_and_a_point() {
        assert_eq!(decimal("0.99"), Some(0.99));
        for text in ["inf", "", ".", "1.", ".5", "1e2", "-1"] {
            assert_eq!(decimal(text), None, "{text}");
        }
    }
}
