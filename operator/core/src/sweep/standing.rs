//! Where the series of a sweep stand against the reference, for a status and for metrics.

use super::history::History;
use super::point::Series;
use crate::stats::Scale;

/// A series that the last measured night has.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    pub series: Series,
    /// In percent of the reference, or in percentage points where the metric is a share. Positive is better.
    pub percent: f64,
    pub scale: Scale,
    /// It has too few nights to rely on it.
    pub is_learning: bool,
}

/// All of them, in order.
pub fn standings(history: &History) -> Vec<Standing> {
    let Some(last) = history.last_measured() else { return Vec::new() };
    let of = |series: &Series, scale: Scale| {
        let view = history.view(series)?;
        let level = view.level()?;
        let percent = match scale {
            Scale::Log => 100.0 * level.mean.exp_m1(),
            Scale::Linear => 100.0 * level.mean,
        };
        Some(Standing { series: series.clone(), percent, scale, is_learning: level.is_learning() })
    };
    last.points.iter().filter_map(|point| of(&point.series, point.scale)).collect()
}

/// The worst of those that are known well enough, or of all while none is, in a few words.
pub fn worst(standings: &[Standing]) -> Option<String> {
    let known: Vec<&Standing> = standings.iter().filter(|standing| !standing.is_learning).collect();
    let all = if known.is_empty() { standings.iter().collect() } else { known };
    let worst = all.into_iter().min_by(|a, b| a.percent.total_cmp(&b.percent))?;
    let unit = match worst.scale {
        Scale::Log => "%",
        Scale::Linear => "points",
    };
    let Series { subject, scenario, metric } = &worst.series;
    Some(format!("{:+.1} {unit} {metric} ({subject}, {scenario})", worst.percent))
}
