//! Drift within a block: the slope of runs over their position, which is removed before the tests ("Order").
//!
//! The order of runs is random, so drift never favours a config. It adds noise, which hides effects in blocks of many runs.

use std::collections::BTreeSet;

use super::observed::MetricSamples;
use crate::stats::median;

/// Squared correlation of position and config above which a slope can't be told from an effect.
const CONFOUNDED: f64 = 0.25;
/// Degrees of freedom of the residuals below which a slope fits the noise: with 4 of them (one config, 6 blocks), equal configs win in 5.7 %.
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

/// The distance of each run from the middle of its block, in runs, from positions.
pub(super) fn from_the_middle(positions: &MetricSamples) -> MetricSamples {
    let mut distances = positions.clone();
    for block in 0..distances.baseline.len() {
        let own = positions.configs.iter().filter_map(|runs| *runs.get(block)?);
        let present: Vec<f64> = positions.baseline[block].iter().copied().flatten().chain(own).collect();
        let middle = present.iter().sum::<f64>() / present.len().max(1) as f64;
        let runs = distances.configs.iter_mut().filter_map(|runs| runs.get_mut(block));
        distances.baseline[block].iter_mut().chain(runs).flatten().for_each(|position| *position -= middle);
    }
    distances
}

/// The change of a run's value per position, beside blocks and arms. Zero if the runs can't tell.
///
/// Least squares, repeated on residuals that are cut off, so that one slow run does not tilt all others (Huber, "Robust Statistics", the
/// method of modified residuals).
pub(super) fn slope(runs: &[Placed]) -> f64 {
    let positions: Vec<f64> = runs.iter().map(|run| run.position).collect();
    let in_blocks = squares(&less_means(positions.clone(), runs, |run| run.block));
    let positions = less_blocks_and_arms(positions, runs);
    let own = squares(&positions);
    // Zero also if there are no runs, or each block has one.
    if own <= (1.0 - CONFOUNDED) * in_blocks || own == 0.0 || degrees_of_freedom(runs) < FEWEST {
        return 0.0;
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
    slope
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

    #[test]
    fn slope_is_independent_of_blocks_and_arms() {
        let drifting = runs(|block, arm, position| block as f64 + 0.3 * arm as f64 - 0.02 * position as f64);
        assert!((slope(&drifting) + 0.02).abs() < 1e-9, "{}", slope(&drifting));
        let some: Vec<Placed> =
            drifting.iter().enumerate().filter(|(run, _)| run % 7 != 0).map(|(_, run)| *run).collect();
        assert!((slope(&some) + 0.02).abs() < 1e-3, "{}", slope(&some));
        assert!(slope(&runs(|block, arm, _| (block * arm) as f64)).abs() < 1.0);
        assert_eq!(slope(&[]), 0.0);
    }

    #[test]
    fn few_runs_have_no_slope() {
        let two_arms = |blocks: usize| -> Vec<Placed> {
            let drifting = runs(|_, _, position| position as f64);
            drifting.into_iter().filter(|run| run.arm < 2 && run.block < blocks).collect()
        };
        assert_eq!((degrees_of_freedom(&two_arms(7)), slope(&two_arms(7))), (5, 0.0));
        assert_eq!(degrees_of_freedom(&two_arms(8)), 6);
        assert!((slope(&two_arms(8)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_stall_is_no_slope() {
        let noise = |block: usize, arm: usize| 0.01 * ((block * 7 + arm * 5) % 11) as f64;
        let calm = slope(&runs(|block, arm, _| noise(block, arm)));
        let stalled = slope(&runs(|block, arm, _| noise(block, arm) - if (block, arm) == (2, 1) { 5.0 } else { 0.0 }));
        assert!((calm - stalled).abs() < 0.03, "{calm} {stalled}");
    }

    #[test]
    fn nothing_is_removed_if_each_config_has_its_own_place() {
        let mut fixed = runs(|_, _, position| position as f64);
        for run in &mut fixed {
            run.position = run.arm as f64;
        }
        assert_eq!(slope(&fixed), 0.0);
    }

    #[test]
    fn distances_are_from_the_middle_of_the_runs_that_count() {
        let positions =
            MetricSamples { baseline: vec![vec![Some(0.0)], vec![Some(3.0)]], configs: vec![vec![Some(1.0), None]] };
        let distances = from_the_middle(&positions);
        assert_eq!(
            (&distances.baseline, &distances.configs),
            (&vec![vec![Some(-0.5)], vec![Some(0.0)]], &vec![vec![Some(0.5), None]])
        );
    }
}
