use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    design::{Design, Purpose, Scenario},
    observed::Observed,
    values::{JudgeError, Values},
};
use crate::stats::{Paired, WARNING};

/// The baseline against itself, in one scenario on one objective ("Baseline check").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BaselineCheck {
    pub scenario: String,
    pub metric: String,
    /// Two-sided; `None` without replicates or blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    pub state: CheckState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CheckState {
    Passed,
    /// Worth a look; one check in a hundred ends here by chance.
    Warning,
    /// Runs of the same config differ by their place in the block: no comparison can be trusted, in other scenarios neither.
    Failed,
    /// There is one baseline run a block, or there are too few blocks to notice anything.
    Unknown,
}

/// Below this p a check fails.
const FAILED: f64 = 0.001;

/// Compares the first baseline run of each block with the others, by the test that judges configs ("Baseline check"). Scenario by
/// scenario, one per objective.
pub fn baseline_check(design: &Design, observed: &Observed) -> Result<Vec<BaselineCheck>, JudgeError> {
    design.check()?;
    let values = Values::new(design, observed)?;
    let mut checks = Vec::new();
    for (scenario, Scenario { name, .. }) in design.scenarios.iter().enumerate() {
        let objectives = design.metrics.iter().enumerate().filter(|(_, rule)| rule.purpose == Purpose::Objective);
        for (metric, rule) in objectives {
            let (p, state) = check(values.baseline(scenario, metric), design.m0)?;
            checks.push(BaselineCheck { scenario: name.clone(), metric: rule.name.clone(), p, state });
        }
    }
    Ok(checks)
}

fn check(blocks: &[Option<Vec<f64>>], m0: usize) -> Result<(Option<f64>, CheckState), JudgeError> {
    let (first, others): (Vec<f64>, Vec<&[f64]>) =
        blocks.iter().flatten().filter_map(|runs| runs.split_first()).map(|(first, others)| (*first, others)).unzip();
    if m0 < 2 || first.is_empty() {
        return Ok((None, CheckState::Unknown));
    }
    // What so many blocks can't show at all, they have not shown to be absent.
    let smallest = 2.0 * 0.5_f64.powf(first.len() as f64);
    let tails = Paired::new(first, others.concat(), m0 - 1)?.tails(0.0);
    let p = (2.0 * tails.up.min(tails.down)).min(1.0);
    let state = match p {
        p if p < FAILED => CheckState::Failed,
        p if p < WARNING => CheckState::Warning,
        _ if smallest >= WARNING => CheckState::Unknown,
        _ => CheckState::Passed,
    };
    Ok((Some(p), state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::testing::{design, noise, observed};

    /// The first baseline run of each block differs from the others by `first`.
    fn checked(m0: usize, blocks: usize, first: f64) -> (Option<f64>, CheckState) {
        let design = design(1, &["read"], m0, blocks);
        let observed = observed(&design, |_, block, config, run| {
            let off = if config.is_none() && run == 0 { first } else { 0.0 };
            (noise(block * 100 + run) + off).exp()
        });
        let checks = baseline_check(&design, &observed).unwrap();
        assert_eq!((checks.len(), checks[0].scenario.as_str(), checks[0].metric.as_str()), (1, "read", "throughput"));
        (checks[0].p, checks[0].state)
    }

    #[test]
    fn a_baseline_that_differs_from_itself_fails() {
        assert_eq!(checked(4, 20, 0.0).1, CheckState::Passed);
        assert_eq!(checked(4, 20, -0.2).1, CheckState::Failed);
        assert_eq!(checked(4, 20, 0.2).1, CheckState::Failed);
        // Ten of ten on one side: 2 / 2^10.
        let (p, state) = checked(2, 10, 0.2);
        assert_eq!((p, state), (Some(2.0 / 1024.0), CheckState::Warning));
    }

    #[test]
    fn what_can_not_be_seen_is_unknown() {
        assert_eq!(checked(1, 20, 0.2), (None, CheckState::Unknown));
        assert_eq!(checked(2, 7, 0.2), (Some(2.0 / 128.0), CheckState::Unknown));
        assert_eq!(checked(4, 7, 0.0).1, CheckState::Unknown);
    }

    #[test]
    fn blocks_without_all_replicates_do_not_count() {
        let design = design(1, &["read"], 2, 8);
        let mut observed = observed(&design, |_, block, _, run| (noise(block) + 0.2 * run as f64).exp());
        let state = |observed: &Observed| baseline_check(&design, observed).unwrap()[0].state;
        assert_eq!(state(&observed), CheckState::Warning);
        observed.samples[0][0].baseline[3][1] = None;
        assert_eq!(state(&observed), CheckState::Unknown);
    }
}
