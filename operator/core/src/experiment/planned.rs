//! Metrics as plans have them. A plan's digest is over its JSON, and every record names the digest: under other words no record
//! that is kept would belong to its plan.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::stats::{Direction, Scale};
use crate::verdict::{MetricRule, Purpose};

/// A metric's purpose, once called its role.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Role {
    Primary,
    Guardrail,
    Info,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    name: String,
    direction: Direction,
    role: Role,
    margin: f64,
    #[serde(default)]
    scale: Scale,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scenario_margin: Option<f64>,
    /// Of metrics that are not the bench's: what those are follows from their names.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    quantile: bool,
}

pub fn serialize<S: Serializer>(metrics: &[MetricRule], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(metrics.iter().map(|rule| Rule {
        name: rule.name.clone(),
        direction: rule.direction,
        role: match rule.purpose {
            Purpose::Objective => Role::Primary,
            Purpose::Guardrail => Role::Guardrail,
            Purpose::Info => Role::Info,
        },
        margin: rule.margin,
        scale: rule.scale,
        at_least: rule.at_least,
        scenario_margin: rule.scenario_margin,
        quantile: rule.quantile && assay_protocol::metric(&rule.name).is_none(),
    }))
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<MetricRule>, D::Error> {
    let rules = Vec::<Rule>::deserialize(deserializer)?;
    let rule = |Rule { name, direction, role, margin, scale, at_least, scenario_margin, quantile }| {
        let purpose = match role {
            Role::Primary => Purpose::Objective,
            Role::Guardrail => Purpose::Guardrail,
            Role::Info => Purpose::Info,
        };
        let quantile = quantile || assay_protocol::metric(&name).is_some_and(|info| info.quantile.is_some());
        MetricRule { name, direction, purpose, margin, scale, at_least, scenario_margin, quantile }
    };
    Ok(rules.into_iter().map(rule).collect())
}
