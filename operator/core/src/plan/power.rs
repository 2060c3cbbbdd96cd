//! Which effects a design finds, before anything runs ("Precision").

use crate::experiment::Experiment;
use crate::stats::detectable as detectable_with;

/// Effects that are found with 80 % probability, as fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detectable {
    /// Over all scenarios.
    pub overall: f64,
    /// In the noisiest one.
    pub cell: f64,
}

/// What all blocks of an experiment find, if the runs of a block scatter by `noises`, one for each scenario: standard
/// deviations over means. `None` where there are too few blocks to tell.
pub fn detectable(experiment: &Experiment, noises: &[f64]) -> Option<Detectable> {
    let design = experiment.design();
    let families = design.families();
    // A difference has the noise of the config's run and that of the mean of the baseline's.
    let difference = (1.0 + 1.0 / design.m0 as f64).sqrt();
    let total: f64 = design.scenarios.iter().map(|scenario| scenario.weight).sum();
    let parts = design.scenarios.iter().zip(noises).map(|(scenario, noise)| (scenario.weight / total * noise).powi(2));
    let composite = parts.sum::<f64>().sqrt();
    let worst = noises.iter().copied().fold(0.0, f64::max);
    let of = |spread: f64, claims| detectable_with(spread * difference, design.max_blocks, claims).map(f64::exp_m1);
    Some(Detectable { overall: of(composite, families.overall.better)?, cell: of(worst, families.cells.better)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::testing::{experiment, scenario};

    #[test]
    fn scenarios_help_the_overall_verdict_and_claims_cost() {
        let one = experiment();
        let alone = detectable(&one, &[0.05]).unwrap_or_else(|| unreachable!());
        assert!((alone.overall - alone.cell).abs() < 1e-12, "{alone:?}");
        let mut four = one.clone();
        four.scenarios.extend(["b", "c", "d"].map(scenario));
        let four = detectable(&four, &[0.05; 4]).unwrap_or_else(|| unreachable!());
        assert!(four.overall < 0.6 * alone.overall && four.cell > alone.cell, "{four:?} {alone:?}");
        // 8 blocks, one claim: (t(0.95, 7) + t(0.8, 7)) s / sqrt(0.955 * 8), s = 0.05 sqrt 2
        let expected = ((1.894_58 + 0.896_03) * 0.05 * 2.0_f64.sqrt() / (0.955_f64 * 8.0).sqrt()).exp_m1();
        assert!((alone.overall - expected).abs() < 1e-5, "{} {expected}", alone.overall);
    }

    #[test]
    fn one_block_tells_nothing() {
        let mut experiment = experiment();
        experiment.repetitions = 1;
        assert_eq!(detectable(&experiment, &[0.05]), None);
    }
}
