//! Generator headroom: the workload's own generator is a small part of what is timed.
//!
//! What the generator takes of the primary role's time is the same under every config, so it hides that part of an effect: at
//! a share of g an effect shows as 1 - g of itself. That makes harm look smaller than its margin, and configs look
//! alike. Only the baseline is asked: a faster config has a larger share, and must not be punished for it.

use std::collections::BTreeMap;

use assay_record::Workload;

use super::view::View;
use super::{Code, Findings};
use crate::stats::median;

/// At most a tenth of an effect may be hidden. Margins are of a few percent, so that changes none by more than a
/// fraction of a percent.
const PERCENT: f64 = 10.0;
/// Half of that where a workload stands for a real system, whose steps are long enough to hide their making.
const SYSTEM_PERCENT: f64 = 5.0;

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    let mut shares: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for &trial in view.completed().iter().filter(|&&trial| view.is_baseline(trial)) {
        if findings.trials[trial].is_empty() {
            let summary = view.summary(trial);
            shares.entry(&summary.trial.scenario).or_default().push(summary.primary.generator_percent);
        }
    }
    for (scenario, shares) in shares {
        let limit = view.experiment.scenario(scenario).map_or(PERCENT, |scenario| limit(&scenario.workload));
        if let Some(share) = median(&shares).filter(|&share| share > limit) {
            let message = format!(
                "in {scenario} making operations takes {share:.1} % of the primary role's time, the limit is {limit:.0} %"
            );
            findings.scenario(scenario, Code::GeneratorBound, message);
        }
    }
}

fn limit(workload: &Workload) -> f64 {
    if workload.real_size().is_some() { SYSTEM_PERCENT } else { PERCENT }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{codes, experiment, gated_with_all};
    use super::*;

    fn found(generator: impl Fn(&str, u32) -> f64) -> Vec<Code> {
        let gated = gated_with_all(&experiment(), |s| {
            s.primary.generator_percent = generator(&s.trial.config, s.trial.block);
            s.primary.db_percent = 100.0 - s.primary.generator_percent;
        });
        assert!(gated.trials.iter().all(|state| codes(state).is_empty()), "no run is to blame");
        gated.scenarios.get("fill").into_iter().flatten().map(|finding| finding.code).collect()
    }

    #[test]
    fn the_baseline_must_not_wait_for_its_generator() {
        assert_eq!(found(|_, _| 10.0), []);
        assert_eq!(found(|_, _| 10.1), [Code::GeneratorBound]);
    }

    #[test]
    fn a_workload_of_a_real_system_hides_less() {
        assert_eq!(limit(&experiment().scenarios[0].workload), 10.0);
        let ethrex = serde_json::json!({"ethrex": {"blocks": 1000, "accounts": 440_000, "storageSlots": 2_090_000}});
        let ethrex: Workload = serde_json::from_value(ethrex).unwrap_or_else(|error| unreachable!("{error}"));
        assert_eq!(limit(&ethrex), 5.0);
    }

    #[test]
    fn a_fast_config_is_not_punished_and_one_run_decides_nothing() {
        assert_eq!(found(|config, _| if config == "candidate" { 60.0 } else { 5.0 }), []);
        assert_eq!(found(|config, _| if config == "base" { 60.0 } else { 5.0 }), [Code::GeneratorBound]);
        assert_eq!(found(|_, block| if block < 3 { 60.0 } else { 5.0 }), []);
    }
}
