//! Drift within a block: the slope of runs over their position, which is removed before the tests ("Order").
//!
//! The order of runs is random, so drift never favours a config. It adds noise, which hides effects in blocks of many runs.

use std::collections::BTreeSet;

use crate::stats::median;

/// Squared correlation of position and arm above which each arm has a place of its own. An order that is only uneven gets wider residuals:
/// without its slope removed, it is in just these orders that drift looks like an effect.
const SAME_PLACE: f64 = 0.7;
/// Degrees of freedom of the residuals below which a slope fits the noise.
const FEWEST: usize = 6;
/// Residuals count at most this many robust standard deviations: a stall is no slope.
const CUT: f64 = 3.0;
/// The most fits, each with residuals that are cut off by the one before. They end when a slope moves less than this share of the cut.
const FITS: usize = 30;
const SETTLED: f64 = 0.01;
/// Standard deviation of normal numbers by their median absolute deviation.
const PER_MAD: f64 = 1.4826;
/// Passes of centring by block and by arm. One is exact if no run is missing.
const PASSES: usize = 3;

/// A run with a value: its block, its arm, its position in the block and what it measured, as an effect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub block: usize,
    pub arm: usize,
    pub position: f64,
    pub value: f64,
}

/// Returns each run's drift, to be subtracted from its value. `None` if the runs can't show a drift.
///
/// Least squares beside blocks and arms, repeated on residuals that are cut off, so that one slow run does not tilt all others (Huber,
/// "Robust Statistics", the method of modified residuals). Tests know nothing of a slope's own error. So residuals are widened by what a
/// slope takes from pure noise on average, and by what its error adds to that of an effect if positions and arms are correlated.
pub(super) fn drifts(runs: &[Placed]) -> Option<Vec<f64>> {
    let distances = less_means(runs.iter().map(|run| run.position).collect(), runs, |run| run.block);
    let positions = less_blocks_and_arms(distances.clone(), runs);
    let own = squares(&positions);
    let freedom = degrees_of_freedom(runs);
    let in_blocks = squares(&distances);
    if own <= (1.0 - SAME_PLACE) * in_blocks || freedom < FEWEST {
        return None;
    }
    let mut slope = 0.0;
    let mut residuals: Vec<f64> = runs.iter().map(|run| run.value).collect();
    let mut most = f64::INFINITY;
    for _ in 0..FITS {
        let cut: Vec<f64> = residuals.iter().map(|residual| residual.clamp(-most, most)).collect();
        let rest = less_blocks_and_arms(cut.clone(), runs);
        let more = positions.iter().zip(&rest).map(|(position, rest)| position * rest).sum::<f64>() / own;
        for (((residual, cut), rest), position) in residuals.iter_mut().zip(cut).zip(rest).zip(&positions) {
            *residual -= cut - (rest - more * position);
        }
        slope += more;
        let sizes: Vec<f64> = residuals.iter().map(|residual| residual.abs()).collect();
        most = CUT * PER_MAD * median(&sizes).unwrap_or(0.0);
        if more.abs() <= SETTLED * most {
            break;
        }
    }
    let wider = ((freedom + 1) as f64 / freedom as f64 * in_blocks / own).sqrt() - 1.0;
    let drifts = distances.iter().zip(&residuals);
    Some(drifts.map(|(distance, residual)| slope * distance - wider * residual.clamp(-most, most)).collect())
}

/// Runs that are left after a mean for each block and arm and the slope.
fn degrees_of_freedom(runs: &[Placed]) -> usize {
    let blocks: BTreeSet<usize> = runs.iter().map(|run| run.block).collect();
    let arms: BTreeSet<usize> = runs.iter().map(|run| run.arm).collect();
    runs.len().saturating_sub(blocks.len() + arms.len())
}

fn squares(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum()
}

/// Values without the means of their blocks and arms.
fn less_blocks_and_arms(mut values: Vec<f64>, runs: &[Placed]) -> Vec<f64> {
    for _ in 0..PASSES {
        values = less_means(values, runs, |run| run.block);
        values = less_means(values, runs, |run| run.arm);
    }
    values
}

/// Values without the means of their groups.
fn less_means(mut values: Vec<f64>, runs: &[Placed], group: impl Fn(&Placed) -> usize) -> Vec<f64> {
    let groups = runs.iter().map(&group).max().map_or(0, |last| last + 1);
    let mut sums = vec![(0.0, 0.0); groups];
    for (run, value) in runs.iter().zip(&values) {
        let (sum, count) = &mut sums[group(run)];
        *sum += value;
        *count += 1.0;
    }
    for (run, value) in runs.iter().zip(&mut values) {
        let (sum, count) = sums[group(run)];
        *value -= sum / count;
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three arms in eight blocks, in rotating order.
    fn runs(value: impl Fn(usize, usize, usize) -> f64) -> Vec<Placed> {
        let placed = |block: usize, arm: usize| {
            let position = (arm + block * (1 + block / 3)) % 3;
            Placed { block, arm, position: position as f64, value: value(block, arm, position) }
        };
        (0..8).flat_map(|block| (0..3).map(move |arm| placed(block, arm))).collect()
    }

    /// The drift from one position to the next, of runs that have no noise.
    fn slope(runs: &[Placed]) -> f64 {
        let Some(drifts) = drifts(runs) else { return 0.0 };
        let in_block = |run: &&(&Placed, f64)| run.0.block == runs[0].block;
        let drifts: Vec<(&Placed, f64)> = runs.iter().zip(drifts).collect();
        let own: Vec<&(&Placed, f64)> = drifts.iter().filter(in_block).collect();
        (own[1].1 - own[0].1) / (own[1].0.position - own[0].0.position)
    }

    #[test]
    fn slope_is_independent_of_blocks_and_arms() {
        let drifting = runs(|block, arm, position| block as f64 + 0.3 * arm as f64 - 0.02 * position as f64);
        assert!((slope(&drifting) + 0.02).abs() < 1e-9, "{}", slope(&drifting));
        let some: Vec<Placed> =
            drifting.iter().enumerate().filter(|(run, _)| run % 7 != 0).map(|(_, run)| *run).collect();
        assert!((slope(&some) + 0.02).abs() < 1e-3, "{}", slope(&some));
        assert_eq!(drifts(&[]), None);
    }

    #[test]
    fn few_runs_have_no_drift() {
        let two_arms = |blocks: usize| -> Vec<Placed> {
            let drifting = runs(|_, _, position| position as f64);
            drifting.into_iter().filter(|run| run.arm < 2 && run.block < blocks).collect()
        };
        assert_eq!((degrees_of_freedom(&two_arms(7)), drifts(&two_arms(7))), (5, None));
        assert_eq!(degrees_of_freedom(&two_arms(8)), 6);
        assert!((slope(&two_arms(8)) - 1.0).abs() < 1e-9);
    }

    fn noise(block: usize, arm: usize) -> f64 {
        0.01 * ((block * 7 + arm * 5) % 11) as f64
    }

    #[test]
    fn a_stall_is_no_drift() {
        let calm = drifts(&runs(|block, arm, _| noise(block, arm))).expect("a drift");
        let stall = |block: usize, arm: usize| if (block, arm) == (2, 1) { 5.0 } else { 0.0 };
        let stalled = drifts(&runs(|block, arm, _| noise(block, arm) - stall(block, arm))).expect("a drift");
        assert!(calm.iter().zip(&stalled).all(|(calm, stalled)| (calm - stalled).abs() < 0.03), "{calm:?} {stalled:?}");
    }

    /// Without it, a slope makes all runs quieter than they are.
    #[test]
    fn what_is_left_scatters_as_it_would_without_a_slope() {
        let noisy = runs(|block, arm, _| noise(block, arm));
        let scatter = |less: &[f64]| {
            let values = noisy.iter().zip(less).map(|(run, less)| run.value - less).collect();
            squares(&less_blocks_and_arms(values, &noisy))
        };
        let (whole, drifts) = (scatter(&[0.0; 24]), drifts(&noisy).expect("a drift"));
        let slope = slope(&noisy);
        let middle = 1.0;
        let drift: Vec<f64> = noisy.iter().map(|run| slope * (run.position - middle)).collect();
        let freedom = degrees_of_freedom(&noisy) as f64;
        // Positions differ a little between arms, which costs as much again.
        let wider = scatter(&drifts) / scatter(&drift) / ((freedom + 1.0) / freedom);
        assert!((1.0..1.1).contains(&wider), "{wider}");
        assert!(scatter(&drift) < whole);
    }

    #[test]
    fn nothing_is_removed_if_each_config_has_its_own_place() {
        let mut fixed = runs(|_, _, position| position as f64);
        for run in &mut fixed {
            run.position = run.arm as f64;
        }
        assert_eq!(drifts(&fixed), None);
    }
}
