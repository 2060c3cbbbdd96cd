//! From measurements to verdicts: which claims are made, at which error, and what follows from them.
//!
//! [`judge`] is a pure function of a [`Design`], fixed before the first run, and of what came in since, [`Observed`]. The section
//! names in the comments are those of `docs/statistics.md`.

mod baseline_check;
mod by_node;
mod carry_over;
mod design;
mod fragile;
mod guarantees;
mod judgement;
mod ledger;
mod observed;
mod replay;
mod table;
#[cfg(test)]
mod testing;
mod values;

pub use baseline_check::{BaselineCheck, CheckState, baseline_check};
pub use by_node::{ByNode, NodeEstimate, by_node};
pub use carry_over::{Arm, CarryOver, carry_over};
pub use design::{Design, DesignError, Families, Family, LookPlan, MetricRule, Purpose, Scenario, StopOn};
pub use fragile::{Fragility, HangsOn, fragile};
pub use guarantees::guarantees;
pub use judgement::{
    CellConclusion, Conclusion, ConfigConclusion, Effect, Judgement, LookTaken, Outcome, PValues, Reason,
    Recommendation, Status, Verdict,
};
pub use ledger::Intervals;
pub use observed::{Attempts, Invalid, MetricSamples, Observed, ScenarioAttempts, Scope};
pub use replay::judge;
pub(crate) use table::unstable;
pub use values::JudgeError;
