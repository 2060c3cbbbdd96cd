//! From measurements to verdicts: which claims are made, at which error, and what follows from them.
//!
//! [`judge`] is a pure function of a [`Design`], fixed before the first run, and the [`Evidence`] that came in. The section names
//! in the comments are those of `docs/statistics.md`.

mod baseline_check;
mod by_node;
mod carry_over;
mod design;
mod evidence;
mod findings;
mod fragile;
mod guarantees;
mod judge;
mod ledger;
mod table;
#[cfg(test)]
mod testing;
mod values;

pub use baseline_check::{BaselineCheck, CheckState, baseline_check};
pub use by_node::{ByNode, NodeEstimate, by_node};
pub use carry_over::{Arm, CarryOver, carry_over};
pub use design::{Design, DesignError, Families, Family, LookPlan, MetricRule, Role, Scenario, StopOn};
pub use evidence::{Attempts, Evidence, Invalid, MetricSamples, ScenarioAttempts, Scope};
pub use findings::{
    CellFinding, ConfigFinding, Effect, Finding, Judgement, LookTaken, Outcome, PValues, Reason, Recommendation,
    Status, Verdict,
};
pub use fragile::{Fragility, HangsOn, fragile};
pub use guarantees::guarantees;
pub use judge::{Intervals, judge};
pub use values::JudgeError;
