//! What the columns of a table mean.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::verdict::Ending;

/// The names of the columns. `scenario`, `config`, `metric` and `value` are required; the others are optional.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Columns {
    /// Runs of different sessions are never compared with each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
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
pub(super) enum Meaning {
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
    /// Without these a row says nothing; that of a failed run needs no value.
    pub const NEEDED: [Self; 4] = [Self::Scenario, Self::Config, Self::Metric, Self::Value];

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
}

impl Columns {
    fn given(&self, meaning: Meaning) -> Option<&str> {
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
