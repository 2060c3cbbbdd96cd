//! Share of a run's wanted CPU time that other programs took.

use assay_protocol::Summary;

/// Share of the CPU time that a run wanted and others took: what it got is the rest. Relative to what it wanted, since a config that
/// needs less CPU also has less of it stolen. `None` where any of it is not known.
pub fn share_taken(summary: &Summary) -> Option<f64> {
    let seen = &summary.disturbance;
    let percent = seen.steal_percent? + seen.foreign_cpu_percent?;
    let taken = percent / 100.0 * f64::from(summary.placement.requested_cpus) * summary.window_seconds;
    let own = |name: &str| summary.metrics.get(name).copied();
    let used = own("cpu_seconds_per_step")? * own("throughput")? * summary.window_seconds;
    let wanted = taken + used;
    (wanted > 0.0 && taken >= 0.0).then(|| (taken / wanted).min(MOST))
}

/// A run that got nothing at all would have no logarithm.
const MOST: f64 = 0.99;
