use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::decide::{Place, Places};
use crate::stats::{Scale, median};

/// How much the runs of one config scatter on one metric of one scenario. Spreads are standard deviations of logarithms, so
/// about fractions of the mean; on a linear scale they have the metric's unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Noise {
    pub scenario: String,
    pub metric: String,
    pub scale: Scale,
    pub runs: usize,
    pub blocks: usize,
    pub median: f64,
    /// Within a block: what is left when runs are compared in blocks.
    pub within: Option<f64>,
    /// From block to block: what comparing in blocks removes.
    pub between: Option<f64>,
    /// From the first to the last block; positive is better.
    pub drift: Option<f64>,
    /// From the first to the last run of a block; positive is better.
    pub order_drift: Option<f64>,
}

impl Noise {
    /// The spread of single runs that nobody compares in blocks: the coefficient of variation.
    pub fn total(&self) -> Option<f64> {
        self.within.zip(self.between).map(|(within, between)| within.hypot(between))
    }
}

/// One run that counts.
struct Run {
    block: u32,
    slot: usize,
    raw: f64,
    value: f64,
}

/// The noise of every metric in every scenario, from runs that are all of the same config.
pub fn noise(places: &Places<'_>) -> Vec<Noise> {
    let design = places.plan().experiment.design();
    let mut noises = Vec::new();
    for scenario in &design.scenarios {
        for rule in &design.metrics {
            let mut runs = Vec::new();
            for (planned, state) in places.plan().blocks.iter().zip(places.blocks()) {
                for (slot, place) in state.places.iter().enumerate() {
                    let Place::Valid(attempt) = place else { continue };
                    let raw = places.summary(*attempt).and_then(|summary| summary.metrics.get(&rule.name).copied());
                    let Some(raw) = raw.filter(|_| planned.scenario == scenario.name) else { continue };
                    let Ok(value) = rule.scale.transform(rule.direction, raw) else { continue };
                    runs.push(Run { block: planned.number, slot, raw, value });
                }
            }
            noises.push(of(&scenario.name, &rule.name, rule.scale, &runs));
        }
    }
    noises
}

fn of(scenario: &str, metric: &str, scale: Scale, runs: &[Run]) -> Noise {
    let mut numbers: Vec<u32> = runs.iter().map(|run| run.block).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mean = |of: &mut dyn Iterator<Item = f64>| {
        let (sum, count) = of.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
        sum / count
    };
    let means: Vec<f64> = numbers
        .iter()
        .map(|number| mean(&mut runs.iter().filter(|run| run.block == *number).map(|run| run.value)))
        .collect();
    let centre = |run: &Run| numbers.binary_search(&run.block).map_or(f64::NAN, |block| means[block]);
    let (n, blocks) = (runs.len() as f64, numbers.len() as f64);
    // One-way analysis of variance with random blocks (Searle, "Linear Models"), of unequal sizes where runs are missing.
    let inside = runs.iter().map(|run| (run.value - centre(run)).powi(2)).sum::<f64>() / (n - blocks);
    let sizes = numbers.iter().map(|number| runs.iter().filter(|run| run.block == *number).count() as f64);
    let size = (n - sizes.map(|size| size * size).sum::<f64>() / n) / (blocks - 1.0);
    let grand = mean(&mut runs.iter().map(|run| run.value));
    let across = runs.iter().map(|run| (centre(run) - grand).powi(2)).sum::<f64>() / (blocks - 1.0);
    let known = |value: f64| value.is_finite().then_some(value);
    let time: Vec<(f64, f64)> = numbers.iter().map(|number| f64::from(*number)).zip(means.iter().copied()).collect();
    let order: Vec<(f64, f64)> = runs.iter().map(|run| (run.slot as f64, run.value - centre(run))).collect();
    Noise {
        scenario: scenario.to_owned(),
        metric: metric.to_owned(),
        scale,
        runs: runs.len(),
        blocks: numbers.len(),
        median: median(&runs.iter().map(|run| run.raw).collect::<Vec<_>>()).unwrap_or(f64::NAN),
        within: known(inside.sqrt()),
        between: known((across - inside) / size).map(|variance| variance.max(0.0).sqrt()),
        drift: trend(&time),
        order_drift: trend(&order),
    }
}

/// How far a value moves from the first to the last point: Theil-Sen, the median slope of all pairs.
fn trend(points: &[(f64, f64)]) -> Option<f64> {
    let mut slopes = Vec::new();
    for (i, a) in points.iter().enumerate() {
        slopes.extend(points[i + 1..].iter().filter(|b| b.0 != a.0).map(|b| (b.1 - a.1) / (b.0 - a.0)));
    }
    let first = points.iter().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let last = points.iter().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
    median(&slopes).map(|slope| slope * (last - first))
}
