//! The statistics of paired blocks: exact rank tests, the estimate and interval that belong to them, and the arithmetic of planning;
//! besides, what can be said of runs without blocks.
//!
//! Everything here is a pure function of numbers: no clock, no randomness, sums in a fixed order. The section names in the
//! comments are those of `docs/statistics.md`.

mod adjust;
mod interval;
mod kruskal;
mod loss;
mod null;
mod paired;
mod plan;
mod rank;
mod scale;
mod screen;
mod share;
mod total;
mod unblocked;

pub use adjust::{Adjust, benjamini_hochberg, holm};
pub use interval::Interval;
pub use kruskal::kruskal_wallis;
pub use loss::{Shift, WORST, at_least, exceeds, is_below, measured_losses, spread};
pub use null::Tails;
pub use paired::{Claims, Paired, ShapeError};
pub use plan::{EFFICIENCY, POWER, Shares, blocks_to_plan, default_m0, detectable, look_weights, n_min, plan_looks};
pub use rank::{hodges_lehmann, median};
pub use scale::{Direction, Scale, Unmeasurable};
pub use screen::{
    Plausibility, fisher_greater, implausible, operations_for_quantile, robust_limit, robust_z, supports_quantile,
    uneven, uneven_at_odds,
};
pub use share::{upper_share, wilson};
pub use total::Totals;
pub use unblocked::{TwoSample, mann_whitney, shift, welch};

/// One-sided error of every claim, after the correction for its family where it has one.
pub const ALPHA: f64 = 0.05;

/// Below this p a check warns of what no verdict depends on.
pub const WARNING: f64 = 0.01;

/// A gain of a margin or more counts as excluded at this level. It never decides a Win, Reject or Neutral, so it needs no correction.
pub const FUTILITY: f64 = 0.025;
