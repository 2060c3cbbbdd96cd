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
    }))
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<MetricRule>, D::Error> {
    let rules = Vec::<Rule>::deserialize(deserializer)?;
    let rule = |Rule { name, direction, role, margin, scale }| {
        let purpose = match role {
            Role::Primary => Purpose::Objective,
            Role::Guardrail => Purpose::Guardrail,
            Role::Info => Purpose::Info,
        };
        MetricRule { name, direction, purpose, margin, scale }
    };
    Ok(rules.into_iter().map(rule).collect())
}
