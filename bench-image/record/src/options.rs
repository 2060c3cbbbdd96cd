use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{EngineConfig, PageCache};

/// What `assay-bench options` is asked: which of these options does its RocksDB know, and which reach nothing?
/// Only a program that links RocksDB can tell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OptionsQuestion {
    /// The column families of the workload.
    pub families: Vec<String>,
    pub baseline: EngineConfig,
    /// By name. Each holds the baseline's options as well.
    pub configs: BTreeMap<String, EngineConfig>,
    pub page_cache: PageCache,
}

/// What `assay-bench options` answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OptionsAnswer {
    /// Options that RocksDB refuses.
    pub problems: Vec<OptionProblem>,
    /// Options that RocksDB takes and that reach nothing.
    pub inert: Vec<OptionNote>,
    /// Declared options that RocksDB corrects to another value.
    pub sanitised: Vec<OptionNote>,
    /// Configs whose declared options are all inert: they can't differ from the baseline.
    pub all_inert: Vec<String>,
}

/// An option that RocksDB refuses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OptionProblem {
    pub config: String,
    /// `db`, or the name of a column family; empty where no single option is at fault.
    pub scope: String,
    pub option: String,
    pub message: String,
    /// The option that was probably meant.
    #[serde(default)]
    pub suggestion: Option<String>,
}

/// An option that reaches nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OptionNote {
    pub config: String,
    /// `db`, or the name of a column family.
    pub scope: String,
    pub option: String,
    pub message: String,
}
