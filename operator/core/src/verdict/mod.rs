//! From measurements to verdicts: which claims are made, at which error, and what follows from them.
//!
//! [`judge`] is a pure function of a [`Design`], fixed before the first run, and of what came in since, [`Observed`]. The section
//! names in the comments are those of `docs/statistics.md`.

mod by_node;
mod design;
mod drift;
mod fragile;
mod guarantees;
mod judgement;
mod ledger;
mod observed;
mod order_effects;
mod replay;
mod table;
#[cfg(test)]
mod testing;
mod values;

pub use by_node::{ByNode, NodeEstimate, by_node};
pub use design::{Design, DesignError, Families, Family, Look, LookPlan, MetricRule, Purpose, Scenario, StopOn};
pub use fragile::{Fragility, HangsOn, fragile};
pub use guarantees::guarantees;
pub use judgement::{
    CellConclusion, Conclusion, ConfigConclusion, Effect, Judgement, LookTaken, Outcome, PValues, Reason,
    Recommendation, Status, Verdict,
};
pub use ledger::Intervals;
pub use observed::{Ending, Endings, Invalid, Lack, LostFirst, MetricSamples, Observed, Runs, Saturated, Scope};
pub use order_effects::{Arm, OrderCheck, OrderEffect, order_effects};
pub use replay::judge;
pub use table::fewest_failures;
pub use values::JudgeError;
