//! A validated experiment: what planning, executing and judging read instead of the user's spec.

mod planned;

use assay_protocol::{Digest, EngineConfig, PageCache, Workload};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{Adjust, Direction};
use crate::verdict::{self, Design, LookPlan, MetricRule};

/// An experiment whose spec has passed every check. Only `validate` makes one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Experiment {
    pub name: String,
    /// Digest of the spec's canonical JSON: every default filled in, keys sorted, no white space. The order of
    /// trials follows from it.
    pub spec: Digest,
    pub seed: u64,
    /// Index of the baseline in `configs`.
    pub baseline: usize,
    pub configs: Vec<ConfigUnderTest>,
    pub scenarios: Vec<Scenario>,
    /// Blocks of every scenario.
    pub repetitions: u32,
    /// Runs of the baseline in every block.
    pub baseline_replicates: u32,
    /// Judgements before the end. `None` judges once, when all blocks are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looks: Option<LookPlan>,
    /// How the claims about single scenarios share their error.
    pub cells_adjust: Adjust,
    /// Objectives first, then guardrails.
    #[serde(with = "planned")]
    #[schemars(with = "Vec<planned::Rule>")]
    pub metrics: Vec<MetricRule>,
    /// Those of them that a Prometheus server is asked for, since the bench does not have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queries: Vec<Query>,
    pub cpus: u32,
    pub require_nvme: bool,
    pub require_exclusive_cpus: bool,
    /// Plans of old don't say it: machines were theirs alone, or a run did not count.
    #[serde(default, skip_serializing_if = "Environment::is_dedicated")]
    pub environment: Environment,
    pub max_block_duration_seconds: u64,
    /// For how long attempts are made while none is valid. Left out of plans that leave it to the default, so that their digests stay.
    #[serde(default = "default_wait", skip_serializing_if = "is_default_wait")]
    pub max_wait_seconds: u64,
}

pub(crate) fn default_wait() -> u64 {
    24 * 3600
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_default_wait(seconds: &u64) -> bool {
    *seconds == default_wait()
}

/// Whether the machines of trials are for them alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Environment {
    /// A run that others disturbed does not count.
    #[default]
    Dedicated,
    /// Others are part of it. What they take is noted, and what it is worth is asked of all runs together.
    Shared,
}

impl Environment {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_dedicated(&self) -> bool {
        *self == Self::Dedicated
    }
}

/// One config with the baseline's options filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigUnderTest {
    pub name: String,
    pub engine: EngineConfig,
    /// What this config changes against the baseline, a line each, for people; empty for an A/A config.
    pub changes: Vec<String>,
    pub image: Option<String>,
}

/// What a Prometheus server is asked for about every trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Query {
    /// Name of the metric.
    pub name: String,
    /// `PromQL` with the variables $window, $node, $pod and $namespace.
    pub query: String,
    pub better: Direction,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    pub name: String,
    /// Share in the overall verdict, relative to the other scenarios.
    pub weight: u32,
    pub workload: Workload,
    pub page_cache: PageCache,
    /// Config whose format all trials find.
    pub dataset_from: Option<String>,
    pub deadline_seconds: u64,
    /// The most bytes that one trial's directory may hold.
    pub max_disk_bytes: u64,
}

impl Experiment {
    pub fn baseline_config(&self) -> Option<&ConfigUnderTest> {
        self.configs.get(self.baseline)
    }

    /// Every config but the baseline, in the order of the file.
    pub fn candidates(&self) -> impl Iterator<Item = &ConfigUnderTest> {
        let others = self.configs.iter().enumerate().filter(|(index, _)| *index != self.baseline);
        others.map(|(_, config)| config)
    }

    /// Number of series that nights of it have: configs against the baseline x scenarios x metrics.
    pub fn series(&self) -> usize {
        self.candidates().count() * self.scenarios.len() * self.metrics.len()
    }

    /// The same with so many blocks, and the looks that these get.
    #[must_use]
    pub fn repeated(&self, repetitions: u32) -> Self {
        Self { repetitions, looks: self.design().repeated(repetitions as usize).looks, ..self.clone() }
    }

    /// The design whose verdicts the experiment promises.
    pub fn design(&self) -> Design {
        Design {
            metrics: self.metrics.clone(),
            scenarios: self
                .scenarios
                .iter()
                .map(|scenario| verdict::Scenario { name: scenario.name.clone(), weight: f64::from(scenario.weight) })
                .collect(),
            configs: self.candidates().map(|config| config.name.clone()).collect(),
            m0: self.baseline_replicates as usize,
            max_blocks: self.repetitions as usize,
            looks: self.looks.clone(),
            cells_adjust: self.cells_adjust,
        }
    }

    /// Number of trials, reruns not counted.
    pub fn trials(&self) -> u64 {
        let per_block = (self.configs.len() as u64).saturating_sub(1) + u64::from(self.baseline_replicates);
        u64::from(self.repetitions) * self.scenarios.len() as u64 * per_block
    }

    pub fn config(&self, name: &str) -> Option<&ConfigUnderTest> {
        self.configs.iter().find(|config| config.name == name)
    }

    /// The metrics that the bench itself measures.
    pub fn measured(&self) -> impl Iterator<Item = &MetricRule> {
        self.metrics.iter().filter(|rule| self.queries.iter().all(|query| query.name != rule.name))
    }

    pub fn scenario(&self, name: &str) -> Option<&Scenario> {
        self.scenarios.iter().find(|scenario| scenario.name == name)
    }
}
