use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::design::{Families, Purpose};
use crate::stats::Interval;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Verdict {
    Win,
    Reject,
    /// Proven equivalent.
    Neutral,
    Tradeoff,
    Inconclusive,
    Invalid,
}

/// Why a verdict is what it is. Displayed as in `Better:throughput`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Reason {
    /// A gate's words, and the scenarios they come from where the rest is sound.
    Invalid {
        codes: Vec<String>,
        scenarios: Vec<String>,
    },
    Unstable,
    Mixed {
        better: Vec<String>,
        worse: Vec<String>,
    },
    Harm(Vec<String>),
    Better(Vec<String>),
    GuardrailUnresolved(Vec<String>),
    /// More of its runs failed than of the baseline's, which is too few to prove anything and too many to overlook.
    Failures,
    /// The same of runs that did not count.
    Attrition,
    /// The centre of these metrics is better, and what their runs add up to is worse or may be, in these scenarios where there are several.
    SlowTail {
        metrics: Vec<String>,
        scenarios: Vec<String>,
    },
    /// Overall only: that these scenarios do not pay for the others is not proven.
    ScenarioUnresolved(Vec<String>),
    Equivalent,
    TooFewBlocks,
    /// Not proven, but these metrics lie beyond their margin on the bad side with all of a simultaneous 95 % interval; in these scenarios
    /// where it is not so overall.
    LikelyHarm {
        metrics: Vec<String>,
        scenarios: Vec<String>,
    },
    NoGain,
    Underpowered,
    /// Overall only: what some scenarios say against it.
    WorseIn(Vec<String>),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { codes, scenarios } if scenarios.is_empty() => f.write_str(&codes.join(",")),
            Self::Invalid { codes, scenarios } => write!(f, "{} in {}", codes.join(","), scenarios.join(",")),
            Self::Unstable => f.write_str("Unstable"),
            Self::Mixed { better, worse } => write!(f, "{} better; {} worse", better.join(","), worse.join(",")),
            Self::Harm(metrics) => write!(f, "Harm:{}", metrics.join(",")),
            Self::Better(metrics) => write!(f, "Better:{}", metrics.join(",")),
            Self::GuardrailUnresolved(metrics) => write!(f, "GuardrailUnresolved:{}", metrics.join(",")),
            Self::Failures => f.write_str("Failures"),
            Self::Attrition => f.write_str("Attrition"),
            Self::SlowTail { metrics, scenarios } => write_named(f, "SlowTail", metrics, scenarios),
            Self::ScenarioUnresolved(scenarios) => write!(f, "ScenarioUnresolved:{}", scenarios.join(",")),
            Self::Equivalent => f.write_str("Equivalent"),
            Self::TooFewBlocks => f.write_str("TooFewBlocks"),
            Self::LikelyHarm { metrics, scenarios } => write_named(f, "LikelyHarm", metrics, scenarios),
            Self::NoGain => f.write_str("NoGain"),
            Self::Underpowered => f.write_str("Underpowered"),
            Self::WorseIn(scenarios) => write!(f, "worse in {}", scenarios.join(",")),
        }
    }
}

/// A reason with its metrics, and the scenarios in which it holds where these are not all.
fn write_named(f: &mut fmt::Formatter<'_>, word: &str, metrics: &[String], scenarios: &[String]) -> fmt::Result {
    write!(f, "{word}:{}", metrics.join(","))?;
    if scenarios.is_empty() { Ok(()) } else { write!(f, " in {}", scenarios.join(",")) }
}

/// A verdict and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    pub verdict: Verdict,
    pub reason: Reason,
}

/// What to do about a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Recommendation {
    FixSetup,
    KeepBaseline,
    OwnerDecides,
    Adopt,
    MoreBlocksOrLongerRuns,
    MoreBlocks,
    FindFailures,
}

impl fmt::Display for Recommendation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FixSetup => "fix setup",
            Self::KeepBaseline => "keep baseline",
            Self::OwnerDecides => "owner decides",
            Self::Adopt => "adopt",
            Self::MoreBlocksOrLongerRuns => "more blocks or longer runs",
            Self::MoreBlocks => "more blocks",
            Self::FindFailures => "find out why runs fail",
        })
    }
}

/// What is proven about one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Status {
    Equivalent,
    Better,
    Worse,
    NonInferior,
    Unresolved,
}

/// P values of one metric, named by what a small value claims. `seq` holds over all looks so far, `adjusted` also over
/// the family.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PValues {
    pub better: f64,
    pub worse: f64,
    pub non_inferior: f64,
    pub no_gain: f64,
    pub equivalent: f64,
    pub better_seq: f64,
    pub worse_seq: f64,
    pub non_inferior_seq: f64,
    pub equivalent_seq: f64,
    /// Objectives only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub better_adjusted: Option<f64>,
    /// Required metrics only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worse_adjusted: Option<f64>,
    /// The loss in this scenario is smaller than a Win may have there. Scenarios only, like the following values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_scenario_seq: Option<f64>,
    /// The same for the mean, the total over runs. Absent if a total has no meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_non_inferior_seq: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_worse_seq: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_worse_adjusted: Option<f64>,
}

/// One metric of one config: the effect, how well it is known, and what is proven. Positive is better.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    pub metric: String,
    pub purpose: Purpose,
    pub status: Status,
    /// Blocks that count.
    pub n: usize,
    pub m0: usize,
    /// On the metric's scale: a log ratio, or a difference. `None` without blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<f64>,
    /// Log scale only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_percent: Option<f64>,
    /// Effect on what the runs add up to, on the metric's scale ("Totals"); overall the weighted mean over scenarios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_percent: Option<f64>,
    /// Some runs have a zero, of which no ratio exists: there is no estimate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_zeros: bool,
    /// `None` where intervals were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<Interval>,
    /// Where `ci95` has no lower end, or both levels were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci90: Option<Interval>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sd_block: Option<f64>,
    /// The effect that one test of the centre, alone and at the last look, finds with 80 % probability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable_percent: Option<f64>,
    pub p: PValues,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Conclusion {
    #[serde(flatten)]
    pub outcome: Outcome,
    pub recommendation: Recommendation,
    /// In the design's order.
    pub metrics: Vec<Effect>,
    /// P value over the looks of the claim that it fails more often than the baseline.
    pub failures_seq: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigConclusion {
    pub config: String,
    /// The look after which the config needed no more runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<usize>,
    #[serde(flatten)]
    pub conclusion: Conclusion,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CellConclusion {
    pub scenario: String,
    pub config: String,
    #[serde(flatten)]
    pub conclusion: Conclusion,
}

/// The overall verdicts as they stood after a look, in the design's order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LookTaken {
    pub blocks: usize,
    pub overall: Vec<Outcome>,
    /// Configs that need no more runs.
    pub stopped: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Judgement {
    /// One per config, in the design's order.
    pub overall: Vec<ConfigConclusion>,
    /// Scenario by scenario, one per config.
    pub cells: Vec<CellConclusion>,
    pub looks: Vec<LookTaken>,
    pub families: Families,
}
