//! The generic workload: operations in any mix over a preloaded set of keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kind, RealSize, RolePlan, Volume, WorkloadProblem, counted};
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
    /// Size of a block of these values after a general-purpose codec, in percent of the raw size: 100 is incompressible,
    /// 50 compresses to half.
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
    /// Groups of threads that run at the same time. The first is the primary role: its throughput and step latency are
    /// the trial's.
    #[schemars(
        length(min = 1, max = 8),
        extend(
            "x-kubernetes-list-type" = "map",
            "x-kubernetes-list-map-keys" = ["name"],
            "x-kubernetes-validations" = [
                {"rule": "has(self[0].steps)", "message": "the first role is the one that is measured: set its steps"},
            ]
        )
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
        let primary = self.roles.first().map_or(0.0, Role::most_seconds);
        let written: f64 = self.roles.iter().map(|role| role.writes(primary)).sum();
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
            let message =
                format!("{} can't fill {families} column families; use at least {families}", counted(self.keys, "key"));
            problems.push(WorkloadProblem::error("keys", message));
        }
        for (index, role) in self.roles.iter().enumerate() {
            let found = role.problems(deadline_seconds).into_iter();
            problems.extend(
                found.map(|(field, message)| WorkloadProblem::error(format!("roles/{index}/{field}"), message)),
            );
        }
        let Some((primary, others)) = self.roles.split_first() else { return problems };
        if primary.until.is_some() {
            let message = "the first role is the one that is measured: give it steps".to_owned();
            problems.push(WorkloadProblem::error("roles/0/until", message));
        }
        for (index, role) in others.iter().enumerate().filter(|(_, role)| role.ends_before(primary)) {
            let message = format!(
                "{} will probably finish before {}, which then runs alone; replace steps with until: PrimaryEnds and a stepsPerSecond",
                role.name, primary.name
            );
            problems.push(WorkloadProblem::warning(format!("roles/{}/steps", index + 1), message));
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
    /// Every key once, in random order, so that the tree looks like that of a database in use.
    #[default]
    Shuffled,
    /// Every key once, in key order.
    Sequential,
    /// No keys: the trial starts on an empty database.
    Empty,
}

/// When a role without a number of steps ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Until {
    /// When the first role is done. Steps that were due by then are still made.
    PrimaryEnds,
}

/// A group of threads with one mix of operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.zipfianExponent) || self.keyOrder == 'Zipfian'", "message": "zipfianExponent needs keyOrder: Zipfian"},
    {"rule": "has(self.steps) != has(self.until)", "message": "set exactly one of steps and until"},
    {"rule": "!has(self.until) || has(self.stepsPerSecond)", "message": "until needs stepsPerSecond"},
]))]
pub struct Role {
    /// Name in records and metrics, such as writer or reader.
    #[schemars(length(min = 1, max = 16), regex(pattern = "^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Number of threads that share the steps.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 256))]
    pub threads: u32,
    /// Measured steps, over all threads. A step is one operation or one batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000_000_i64))]
    pub steps: Option<u64>,
    /// Instead of steps: the role continues until the first role is done. Needs stepsPerSecond, so that every config gets the same load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
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
    /// Writes per `WriteBatch`, or reads per step.
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
    /// Exponent of the Zipf distribution as a decimal, for keyOrder: Zipfian; 0.99 if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), regex(pattern = r"^[0-9]+(\.[0-9]+)?$"))]
    pub zipfian_exponent: Option<String>,
}

impl Role {
    fn plan(&self) -> RolePlan {
        RolePlan {
            name: self.name.clone(),
            threads: self.threads,
            steps: self.steps.unwrap_or_default(),
            until_primary_ends: self.until.is_some(),
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

    /// Seconds that its measured steps take on a slow disk, or at its pace.
    fn most_seconds(&self) -> f64 {
        const SLOW_OPERATION: f64 = 1e-4;
        let slowest = self.operations() * SLOW_OPERATION / f64::from(self.threads.max(1));
        slowest.max(self.paced_seconds().unwrap_or_default())
    }

    /// Seconds that its measured steps take at its pace, if it has one.
    fn paced_seconds(&self) -> Option<f64> {
        self.steps_per_second.map(|rate| self.steps.unwrap_or_default() as f64 / rate as f64)
    }

    /// Operations of its measured steps.
    fn operations(&self) -> f64 {
        self.steps.unwrap_or_default() as f64 * f64::from(self.batch) * self.entries() as f64
    }

    /// Whether it is likely to be done well before the primary role: both at their pace, or both as fast as they can, where an operation
    /// takes each of them about the same.
    fn ends_before(&self, primary: &Self) -> bool {
        const WELL: f64 = 0.8;
        let (own, longest) = match (self.paced_seconds(), primary.paced_seconds()) {
            (Some(own), Some(longest)) => (own, longest),
            (None, None) => {
                let each = |role: &Self| role.operations() / f64::from(role.threads.max(1));
                (each(self), each(primary))
            }
            _ => return false,
        };
        self.steps.is_some() && own < WELL * longest
    }

    /// Entries that a trial writes, tombstones included, if the primary role takes so many seconds.
    fn writes(&self, primary_seconds: f64) -> f64 {
        let (writes, all) = (f64::from(self.mix.put) + f64::from(self.mix.delete), f64::from(self.mix.total()));
        let open_end = self.until.and(self.steps_per_second).map_or(0.0, |rate| rate as f64 * primary_seconds);
        let steps = self.steps.unwrap_or_default() as f64 + open_end + self.warmup_steps as f64;
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
        match (self.steps, self.until) {
            (None, None) => {
                problems.push((
                    "steps",
                    "is required; a role next to the first may have until: PrimaryEnds instead".to_owned(),
                ));
            }
            (Some(_), Some(_)) => problems.push(("until", "set either steps or until".to_owned())),
            (Some(steps), None) if steps < u64::from(self.threads) => {
                problems.push((
                    "steps",
                    format!(
                        "{} can't keep {} threads busy; use at least as many steps",
                        counted(steps, "step"),
                        self.threads
                    ),
                ));
            }
            (None, Some(_)) if self.steps_per_second.is_none() => {
                let message =
                    "needs stepsPerSecond: at its own speed a config that slows this role down would win by it";
                problems.push(("until", message.to_owned()));
            }
            _ => {}
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
            let steps = self.steps.unwrap_or_default();
            let seconds = steps.saturating_add(self.warmup_steps).div_ceil(rate);
            if seconds >= deadline_seconds {
                let message = format!(
                    "{} and {} take {seconds} s at {} per second, beyond deadlineSeconds {deadline_seconds}",
                    counted(steps, "step"),
                    counted(self.warmup_steps, "warm-up step"),
                    counted(rate, "step"),
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
    /// Write a key of the key space, whether or not it exists.
    #[schemars(range(min = 0, max = 1000))]
    pub put: u32,
    /// Read a key of the key space.
    #[schemars(range(min = 0, max = 1000))]
    pub get: u32,
    /// Read a key that was never written.
    #[schemars(range(min = 0, max = 1000))]
    pub get_missing: u32,
    /// Delete a key of the key space.
    #[schemars(range(min = 0, max = 1000))]
    pub delete: u32,
    /// Seek to a key and read the entries that follow.
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
    /// Keys in order, from the start again at the end.
    Sequential,
    /// A few keys are hot. Hot keys are spread over the key space.
    Zipfian,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(mix: Mix) -> Role {
        Role {
            name: "role".to_owned(),
            threads: 1,
            steps: Some(1000),
            until: None,
            warmup_steps: 0,
            steps_per_second: None,
            mix,
            batch: 1,
            scan_length: 30,
            key_order: KeyOrder::Uniform,
            zipfian_exponent: None,
        }
    }

    fn gets() -> Role {
        role(Mix { get: 1, ..Mix::default() })
    }

    fn with(value_bytes: ValueBytes, roles: Vec<Role>) -> KeyValue {
        KeyValue {
            keys: 1000,
            key_bytes: 20,
            value_bytes,
            compressed_percent: 50,
            families: default_families(),
            preload: Preload::Shuffled,
            roles,
        }
    }

    fn complaints(workload: &KeyValue) -> Vec<String> {
        workload.problems(1000).into_iter().map(|problem| problem.field).collect()
    }

    #[test]
    fn values_may_all_have_one_length() {
        let between = |min, max| complaints(&with(ValueBytes::Uniform { min, max }, vec![gets()]));
        assert_eq!(between(100, 100), Vec::<String>::new());
        assert_eq!(between(101, 100), ["valueBytes/uniform"]);
    }

    #[test]
    fn the_longest_value_is_the_upper_bound() {
        assert_eq!(ValueBytes::Fixed(300).max(), 300);
        assert_eq!(ValueBytes::Uniform { min: 100, max: 500 }.max(), 500);
    }

    #[test]
    fn a_mix_writes_and_reads_with_any_operation_that_does() {
        let mix = |[put, delete, get, get_missing, scan]: [u32; 5]| Mix { put, get, get_missing, delete, scan };
        for operations in 0..32_u32 {
            let [put, delete, get, get_missing, scan] = [0, 1, 2, 3, 4].map(|bit| operations >> bit & 1);
            let mix = mix([put, delete, get, get_missing, scan]);
            assert_eq!(mix.writes(), [put, delete].contains(&1), "{mix:?}");
            assert_eq!(mix.reads(), [get, get_missing, scan].contains(&1), "{mix:?}");
        }
    }

    #[test]
    fn a_further_entry_of_a_scan_costs_a_tenth_of_an_operation() {
        // Three of four operations scan 30 entries, 22 each on average.
        let scans = role(Mix { scan: 3, get: 1, ..Mix::default() });
        assert_eq!(scans.entries(), 3);
        assert_eq!(Role { scan_length: 1, ..scans.clone() }.entries(), 1);
        assert_eq!(Role { batch: 5, ..scans.clone() }.plan().operations_per_step, 15);
        assert_eq!(Role { batch: 5, ..scans }.operations(), 15_000.0);
        assert_eq!(role(Mix::default()).entries(), 1);
    }

    #[test]
    fn a_role_takes_as_long_as_a_slow_disk_or_its_pace() {
        let fast = Role { steps: Some(40_000), threads: 4, ..gets() };
        assert!((fast.most_seconds() - 1.0).abs() < 1e-9, "{}", fast.most_seconds());
        let paced = Role { steps_per_second: Some(300), ..fast.clone() };
        assert!((paced.most_seconds() - 400.0 / 3.0).abs() < 1e-9, "{}", paced.most_seconds());
        let slower = Role { steps_per_second: Some(1_000_000), ..fast };
        assert!((slower.most_seconds() - 1.0).abs() < 1e-9, "{}", slower.most_seconds());
    }

    #[test]
    fn of_two_paced_roles_the_pace_says_which_ends_first() {
        let paced = |steps, rate| Role { steps: Some(steps), steps_per_second: Some(rate), ..gets() };
        // The first takes 100 s.
        let ends_before = |steps, rate| paced(steps, rate).ends_before(&paced(1000, 10));
        assert!(ends_before(790, 10) && !ends_before(800, 10) && !ends_before(1100, 10));
        assert!(ends_before(1000, 20) && !ends_before(500, 5));
        // A pace and none are not compared.
        assert!(!paced(1, 10).ends_before(&gets()) && !Role { steps: Some(1), ..gets() }.ends_before(&paced(1000, 10)));
    }

    #[test]
    fn a_role_without_operations_or_with_no_pace_is_no_crash() {
        let idle = with(ValueBytes::Fixed(100), vec![role(Mix::default())]);
        assert_eq!((idle.volume().written_entries, idle.volume().written_bytes), (0.0, 0.0));
        assert_eq!(complaints(&idle), ["roles/0/mix"]);
        let stopped = Role { steps_per_second: Some(0), ..gets() };
        assert_eq!(complaints(&with(ValueBytes::Fixed(100), vec![stopped])), Vec::<String>::new());
    }

    #[test]
    fn decimals_are_digits_and_a_point() {
        assert_eq!(decimal("0.99"), Some(0.99));
        for text in ["inf", "", ".", "1.", ".5", "1e2", "-1"] {
            assert_eq!(decimal(text), None, "{text}");
        }
    }
}
