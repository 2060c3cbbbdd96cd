use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{Interval, Scale};
use crate::verdict::{Effect, MetricRule, PValues, Purpose, Status};

/// The effect of a config on one metric. Positive is better, whatever the metric's direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Estimate {
    pub metric: String,
    pub purpose: Purpose,
    pub scale: Scale,
    pub margin: f64,
    /// What is proven. Absent while the experiment is incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Blocks that count.
    pub blocks: usize,
    /// A log ratio, or a difference on a linear scale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval95: Option<Interval>,
    /// If the blocks are too few for that interval: the effects at which the one-sided tests at 5 % stop, as far as there
    /// are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Interval>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_percent: Option<f64>,
    /// The effect on the total over runs; overall, the weighted mean over scenarios. Absent if a total has no meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_percent: Option<f64>,
    /// Some values are zero: they rank with the others but have no ratio to them, so there is no estimate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_zeros: bool,
    /// The gain that a Win proves, if the objective declares one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The effect that one test of the centre, alone and at the last look, finds with 80 % probability: a measure of the noise. A verdict
    /// needs more than one test; `needed` counts them all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable_percent: Option<f64>,
    /// Blocks after which that effect would be the margin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_for_margin: Option<u32>,
    /// Absent while the experiment is incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<PValues>,
    /// Medians of the runs that count, in the metric's unit; per scenario only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_median: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_median: Option<f64>,
}

impl Estimate {
    /// What the report says of an effect. What is proven is part of it once the config is `decided`.
    pub(crate) fn of(effect: &Effect, rule: &MetricRule, decided: bool) -> Self {
        Self {
            metric: effect.metric.clone(),
            purpose: effect.purpose,
            scale: rule.scale,
            margin: rule.margin,
            status: decided.then_some(effect.status),
            blocks: effect.n,
            estimate: effect.estimate,
            interval95: effect.ci95,
            bounds: bounds(effect),
            estimate_percent: effect.estimate_percent,
            mean: effect.mean,
            mean_percent: effect.mean_percent,
            has_zeros: effect.has_zeros,
            at_least: rule.at_least,
            detectable_percent: effect.detectable_percent,
            blocks_for_margin: blocks_for_margin(effect, rule),
            p: decided.then_some(effect.p),
            baseline_median: None,
            config_median: None,
        }
    }
}

/// The ends of the 90 % interval are those of two one-sided tests at 5 %, which a proof on the fewest blocks uses.
fn bounds(effect: &Effect) -> Option<Interval> {
    let unbounded = effect.ci95.is_some_and(|interval| interval.low.is_none() && interval.high.is_none());
    effect.ci90.filter(|ends| unbounded && (ends.low.is_some() || ends.high.is_some()))
}

/// Blocks that would bring the detectable effect down to the margin: it shrinks with the root of their number ("Precision").
fn blocks_for_margin(effect: &Effect, rule: &MetricRule) -> Option<u32> {
    let shrink = effect.detectable? / rule.scale.margin(rule.margin);
    let blocks = (effect.n as f64 * shrink * shrink).ceil();
    // With fewer than two blocks nothing is known about noise.
    (blocks.is_finite() && blocks <= f64::from(u32::MAX)).then_some((blocks as u32).max(2))
}
