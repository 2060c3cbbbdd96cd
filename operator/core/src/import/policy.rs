//! The policy file: what the numbers mean and what was asked of them.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::columns::Columns;
use crate::stats::{Direction, Scale};
use crate::validate::{FieldPath, Problem, fraction, schema};
use crate::verdict::{MetricRule, Purpose};

/// What the rows of a benchmark mean and how they are judged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    /// The title of the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub title: Option<String>,
    /// The format of the data; by default detected from its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// The data files next to the policy; by default all files that look like data.
    #[serde(default)]
    #[schemars(length(max = 1000), inner(length(min = 1, max = 255)))]
    pub data: Vec<String>,
    /// The names of columns, if they differ from the defaults.
    #[serde(default)]
    pub columns: Columns,
    /// Columns to ignore.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub ignore_columns: Vec<String>,
    /// The config that all others are compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub baseline: Option<String>,
    /// Sessions with another baseline.
    #[serde(default)]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub sessions: Vec<SessionRule>,
    /// Known attributes of configs.
    #[serde(default)]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub configs: Vec<ConfigRule>,
    /// Weights of scenarios.
    #[serde(default)]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub scenarios: Vec<ScenarioRule>,
    /// Metrics that should improve.
    #[serde(default)]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["metric"]))]
    pub objectives: Vec<JudgedMetric>,
    /// Metrics that must be proven not to get worse.
    #[serde(default)]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["metric"]))]
    pub guardrails: Vec<JudgedMetric>,
    /// How far the work of two runs may differ; default 0.5%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = r"^[0-9]+(\.[0-9]+)?%$"))]
    pub work_tolerance: Option<String>,
    /// The run in each file of `db_bench` output, if its name does not say.
    #[serde(default)]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["file"]))]
    pub runs: Vec<RunFile>,
    /// Conclusions that were drawn from the data.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub claims: Vec<Claim>,
}

/// The format of a file of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    Csv,
    Jsonl,
    DbBench,
    Hyperfine,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionRule {
    /// The session as the data names it.
    pub name: String,
    /// The config that the session's other configs are compared with.
    pub baseline: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigRule {
    /// The config as the data names it.
    pub name: String,
    /// Attributes that must equal the baseline's, such as the build.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScenarioRule {
    /// The scenario as the data names it.
    pub name: String,
    /// Its weight in the overall verdict, relative to the others; default 1.
    #[schemars(range(min = 1, max = 1000))]
    pub weight: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JudgedMetric {
    /// The metric as the data names it.
    #[schemars(length(min = 1, max = 128))]
    pub metric: String,
    /// Which direction is better.
    pub direction: Direction,
    /// The smallest change that matters: a percentage such as 5%, or a difference such as 0.01 on a linear scale.
    #[schemars(length(max = 16))]
    pub margin: String,
    /// Compares by ratios (log) or differences (linear). On the log scale, a zero ranks best or worst.
    #[serde(default)]
    pub scale: Scale,
    /// Objectives only: the gain that a Win must prove, written like the margin. Without it, a Win proves a gain of any
    /// size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub at_least: Option<String>,
    /// The most that a Win may lose in a single scenario, written like the margin. Default: the margin for objectives,
    /// twice the margin for guardrails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub scenario_margin: Option<String>,
    /// Each value is a quantile within its run, such as a p99 latency. Quantiles can't be summed over runs, so their
    /// mean is not judged.
    #[serde(default)]
    pub quantile: bool,
    /// The same work always gives the same value, as of a count. Runs with equal values of it are not taken for copies.
    #[serde(default)]
    pub deterministic: bool,
}

/// The run that a file of `db_bench` output holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunFile {
    /// The file's name.
    pub file: String,
    /// The config that ran.
    pub config: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicate: Option<String>,
}

/// A conclusion to check against the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Claim {
    /// The claim in its author's words.
    #[schemars(length(min = 1, max = 400))]
    pub text: String,
    /// The config it is about.
    pub config: String,
    /// What was concluded.
    pub claimed: Claimed,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Default: the session's baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The metric whose numbers are shown; default: the first objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// No runs of it were published, so there is nothing to judge.
    #[serde(default)]
    pub unpublished: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Claimed {
    Win,
    Neutral,
    Reject,
    Tradeoff,
}

/// The margin of a metric for which nobody declares another.
pub const DEFAULT_MARGIN: &str = "5%";
/// As many objectives, and as many guardrails, as the schema allows.
pub(super) const MOST_METRICS: usize = 8;
/// As strict as the counts of real engines allow.
const WORK_TOLERANCE: f64 = 0.005;

impl Policy {
    /// The schema of a policy file, all in one piece.
    pub fn schema() -> Value {
        let settings = SchemaSettings::openapi3().with(|settings| settings.inline_subschemas = true);
        settings.into_generator().into_root_schema_for::<Self>().to_value()
    }

    /// Reads a document; every problem at once, with its path.
    pub fn read(document: &Value) -> Result<Self, Vec<Problem>> {
        let root = FieldPath::root();
        let problems = schema::check(&Self::schema(), document, &root);
        if !problems.is_empty() {
            return Err(problems);
        }
        let policy: Self = serde_json::from_value(document.clone())
            .map_err(|error| vec![Problem::error(root, format!("not a policy: {error}"))])?;
        let problems = policy.problems();
        if problems.is_empty() { Ok(policy) } else { Err(problems) }
    }

    /// What a schema can't see.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let root = FieldPath::root();
        let mut problems = Vec::new();
        let mut names = BTreeSet::new();
        for (list, index, judged, purpose) in self.judged() {
            let path = root.key(list).index(index);
            judged.check(purpose, &path, &mut problems);
            if !names.insert(judged.metric.as_str()) {
                let message = format!(
                    "{:?} is already an objective, and objectives are guarded too: remove it here",
                    judged.metric
                );
                problems.push(Problem::error(path.key("metric"), message));
            }
        }
        for (meaning, column) in self.columns.named() {
            if self.ignore_columns.iter().any(|ignored| ignored == column) {
                let message = format!("{column:?} is also in ignoreColumns: remove it there or here");
                problems.push(Problem::error(root.key("columns").key(meaning.name()), message));
            }
            if let Some((other, _)) = self.columns.named().find(|(other, name)| *name == column && *other < meaning) {
                let message =
                    format!("{column:?} is already used for columns.{}: a column has only one meaning", other.name());
                problems.push(Problem::error(root.key("columns").key(meaning.name()), message));
            }
        }
        for (index, claim) in self.claims.iter().enumerate() {
            let path = root.key("claims").index(index);
            if let Some(metric) = &claim.metric
                && !names.contains(metric.as_str())
            {
                let message = format!("{metric:?} is not an objective or guardrail: declare it, or use one that is");
                problems.push(Problem::error(path.key("metric"), message));
            }
            if claim.baseline.as_ref() == Some(&claim.config) {
                problems.push(Problem::error(path.key("baseline"), "is the config itself: use another"));
            }
        }
        problems
    }

    /// Whether runs may agree in a metric without being copies.
    pub(super) fn is_deterministic(&self, metric: &str) -> bool {
        self.judged().any(|(_, _, judged, _)| judged.metric == metric && judged.deterministic)
    }

    fn judged(&self) -> impl Iterator<Item = (&'static str, usize, &JudgedMetric, Purpose)> {
        let objectives = self.objectives.iter().enumerate().map(|(i, m)| ("objectives", i, m, Purpose::Objective));
        objectives.chain(self.guardrails.iter().enumerate().map(|(i, m)| ("guardrails", i, m, Purpose::Guardrail)))
    }

    /// Objectives first, then guardrails.
    pub fn rules(&self) -> Vec<MetricRule> {
        let rule = |(_, _, judged, purpose): (_, _, &JudgedMetric, Purpose)| {
            let JudgedMetric { metric, direction, margin, scale, at_least, scenario_margin, quantile, .. } = judged;
            let size = |text: &str| judged.size(text);
            Some(MetricRule {
                at_least: at_least.as_deref().and_then(size),
                scenario_margin: scenario_margin.as_deref().and_then(size),
                quantile: *quantile,
                ..MetricRule::new(metric, *direction, purpose, size(margin)?, *scale)
            })
        };
        self.judged().filter_map(rule).collect()
    }

    pub fn work_tolerance(&self) -> f64 {
        self.work_tolerance.as_deref().and_then(fraction).unwrap_or(WORK_TOLERANCE)
    }

    /// The baseline of a session.
    pub fn baseline_of(&self, session: Option<&str>) -> Option<&str> {
        let own = self.sessions.iter().find(|rule| Some(rule.name.as_str()) == session);
        own.map(|rule| rule.baseline.as_str()).or(self.baseline.as_deref())
    }

    pub fn attributes(&self, config: &str) -> Option<&BTreeMap<String, String>> {
        self.configs.iter().find(|rule| rule.name == config).map(|rule| &rule.attributes)
    }

    pub fn weight(&self, scenario: &str) -> f64 {
        self.scenarios.iter().find(|rule| rule.name == scenario).map_or(1.0, |rule| f64::from(rule.weight))
    }
}

impl JudgedMetric {
    /// A metric of which nothing else is declared.
    pub fn new(metric: &str, direction: Direction, margin: Option<&str>) -> Self {
        Self {
            metric: metric.to_owned(),
            direction,
            margin: margin.unwrap_or(DEFAULT_MARGIN).to_owned(),
            scale: Scale::Log,
            at_least: None,
            scenario_margin: None,
            quantile: false,
            deterministic: false,
        }
    }

    /// Its sizes of changes, and whether they have a meaning for what is asked of it.
    fn check(&self, purpose: Purpose, path: &FieldPath, problems: &mut Vec<Problem>) {
        let declared = [("atLeast", &self.at_least), ("scenarioMargin", &self.scenario_margin)];
        let declared = declared.into_iter().filter_map(|(field, text)| Some((field, text.as_ref()?)));
        for (field, text) in [("margin", &self.margin)].into_iter().chain(declared) {
            if self.size(text).is_none() {
                let wanted = match self.scale {
                    Scale::Log => "above 0 % and below 100 %, such as 5%",
                    Scale::Linear => "a difference above zero, such as \"0.01\", or a percentage such as 5%",
                };
                problems.push(Problem::error(path.key(field), format!("must be {wanted}, not {text:?}")));
            }
        }
        if self.at_least.is_some() && purpose == Purpose::Guardrail {
            let message = "a guardrail has nothing to gain: make it an objective, or remove atLeast";
            problems.push(Problem::error(path.key("atLeast"), message));
        }
    }

    /// A change as the file writes it: a ratio or, on a linear scale, a difference.
    fn size(&self, text: &str) -> Option<f64> {
        let (plain, most) = match self.scale {
            Scale::Log => (None, 1.0),
            Scale::Linear => (text.parse::<f64>().ok(), f64::INFINITY),
        };
        fraction(text).or(plain).filter(|size| *size > 0.0 && *size < most)
    }
}
