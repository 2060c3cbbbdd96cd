//! What the columns of a table mean.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::verdict::Ending;

/// The names of the columns. `config` is required. A table with `metric` and `value` has a row per metric; in one without them, every
/// other column of numbers is a metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Columns {
    /// Runs of different sessions are never compared with each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Without this column there is one scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Runs of one block ran close together, in random order. Without this column the data is unblocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    /// Tells runs of one config apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicate: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// How much work the run did; must be equal within a scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<String>,
    /// The build that ran; must be equal for all configs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// Whether the run failed: true, yes or 1; corruption or wrong-answers if it damaged data. A failed run needs no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// What a column means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meaning {
    Session,
    Scenario,
    Config,
    Block,
    Replicate,
    Metric,
    Value,
    Unit,
    Work,
    Build,
    Failed,
}

impl Meaning {
    pub const ALL: [Self; 11] = [
        Self::Session,
        Self::Scenario,
        Self::Config,
        Self::Block,
        Self::Replicate,
        Self::Metric,
        Self::Value,
        Self::Unit,
        Self::Work,
        Self::Build,
        Self::Failed,
    ];
    /// Without these a row of one metric says nothing; that of a failed run needs no value.
    pub(super) const NEEDED: [Self; 3] = [Self::Config, Self::Metric, Self::Value];

    /// Its field in `columns`, and the column's name unless another is given.
    pub fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Scenario => "scenario",
            Self::Config => "config",
            Self::Block => "block",
            Self::Replicate => "replicate",
            Self::Metric => "metric",
            Self::Value => "value",
            Self::Unit => "unit",
            Self::Work => "work",
            Self::Build => "build",
            Self::Failed => "failed",
        }
    }

    /// What a column of another name is likely to mean. It is asked about, never assumed.
    pub(super) fn likely(column: &str) -> Option<Self> {
        Some(match column.to_ascii_lowercase().as_str() {
            "config" | "configuration" | "variant" | "setup" | "candidate" => Self::Config,
            "scenario" | "workload" | "benchmark" | "bench" | "test" | "case" | "threads" | "clients"
            | "concurrency" => Self::Scenario,
            "block" | "round" | "iteration" | "iter" | "pass" => Self::Block,
            "replicate" | "rep" | "repeat" | "repetition" | "run" | "trial" | "attempt" => Self::Replicate,
            "session" | "machine" | "host" | "hostname" | "node" => Self::Session,
            "build" | "version" | "commit" | "revision" => Self::Build,
            "failed" | "status" | "exit_code" | "error" => Self::Failed,
            _ => return None,
        })
    }
}

impl Columns {
    pub(super) fn set(&mut self, meaning: Meaning, column: &str) {
        let field = match meaning {
            Meaning::Session => &mut self.session,
            Meaning::Scenario => &mut self.scenario,
            Meaning::Config => &mut self.config,
            Meaning::Block => &mut self.block,
            Meaning::Replicate => &mut self.replicate,
            Meaning::Metric => &mut self.metric,
            Meaning::Value => &mut self.value,
            Meaning::Unit => &mut self.unit,
            Meaning::Work => &mut self.work,
            Meaning::Build => &mut self.build,
            Meaning::Failed => &mut self.failed,
        };
        *field = Some(column.to_owned());
    }

    pub(super) fn given(&self, meaning: Meaning) -> Option<&str> {
        match meaning {
            Meaning::Session => &self.session,
            Meaning::Scenario => &self.scenario,
            Meaning::Config => &self.config,
            Meaning::Block => &self.block,
            Meaning::Replicate => &self.replicate,
            Meaning::Metric => &self.metric,
            Meaning::Value => &self.value,
            Meaning::Unit => &self.unit,
            Meaning::Work => &self.work,
            Meaning::Build => &self.build,
            Meaning::Failed => &self.failed,
        }
        .as_deref()
    }

    pub(super) fn named(&self) -> impl Iterator<Item = (Meaning, &str)> {
        Meaning::ALL.into_iter().filter_map(|meaning| Some((meaning, self.given(meaning)?)))
    }

    /// The column that has a meaning.
    pub(super) fn column(&self, meaning: Meaning) -> &str {
        self.given(meaning).unwrap_or_else(|| meaning.name())
    }

    pub(super) fn meaning(&self, column: &str) -> Option<Meaning> {
        Meaning::ALL.into_iter().find(|&meaning| self.column(meaning) == column)
    }
}

/// How a run ended, by the word in the column `failed`; without one it ended as it should.
pub(super) fn ending(word: &str) -> Option<Ending> {
    match word.to_ascii_lowercase().as_str() {
        "" | "false" | "no" | "0" => Some(Ending::Sound),
        "true" | "yes" | "1" => Some(Ending::Failed),
        "corruption" | "wrong-answers" => Some(Ending::Damaged),
        _ => None,
    }
}

/// What to write there.
pub(super) const ENDINGS: &str = "use true, yes or 1 if the run failed; corruption or wrong-answers if it damaged \
                                  data; false, no, 0 or nothing if it did not fail";
