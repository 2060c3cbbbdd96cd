use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{
    null::{Null, Tails},
    rank::{double_midranks, hodges_lehmann, tie_round},
};

/// One config against the baseline on one metric: per block one run of the config and `m0` of the baseline, transformed so that
/// more is better. The input of every test, estimate and interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Paired {
    config: Vec<f64>,
    /// Block after block, `m0` values each.
    baseline: Vec<f64>,
    m0: usize,
    /// Blocks in which the config's value is an end of the scale: no shift moves it, so it ties with the baseline's at that end.
    ends: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    #[error("a block needs at least one baseline run")]
    NoBaseline,
    #[error("{configs} config runs need {} baseline runs, but there are {baselines}", configs * m0)]
    Lengths { configs: usize, baselines: usize, m0: usize },
    #[error("values must be finite")]
    NotFinite,
}

/// Below every effect that is measured, and finite.
const FAR_BELOW: f64 = -1e6;

/// The one-sided p values of one comparison, named by what a small value claims ("Claims").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claims {
    pub better: f64,
    pub worse: f64,
    /// The loss is smaller than the margin.
    pub non_inferior: f64,
    /// The gain is smaller than the margin.
    pub no_gain: f64,
}

impl Claims {
    /// Both at once: two one-sided tests (Schuirmann, "A Comparison of the Two One-Sided Tests Procedure and the Power Approach").
    pub fn equivalent(&self) -> f64 {
        self.non_inferior.max(self.no_gain)
    }
}

impl Paired {
    pub fn new(config: Vec<f64>, baseline: Vec<f64>, m0: usize) -> Result<Self, ShapeError> {
        if m0 == 0 {
            return Err(ShapeError::NoBaseline);
        }
        if config.len() * m0 != baseline.len() {
            return Err(ShapeError::Lengths { configs: config.len(), baselines: baseline.len(), m0 });
        }
        if config.iter().chain(&baseline).any(|x| !x.is_finite()) {
            return Err(ShapeError::NotFinite);
        }
        Ok(Self { config, baseline, m0, ends: Vec::new() })
    }

    /// The same where the config's values in some blocks, in ascending order, stand for the end of the scale and not for a number.
    #[must_use]
    pub fn with_ends(self, ends: Vec<usize>) -> Self {
        Self { ends, ..self }
    }

    /// Number of blocks.
    pub fn n(&self) -> usize {
        self.config.len()
    }

    /// Baseline runs per block.
    pub fn m0(&self) -> usize {
        self.m0
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = (f64, &[f64])> {
        self.config.iter().copied().zip(self.baseline.chunks_exact(self.m0))
    }

    /// The same after taking `shift` off the config's numbers.
    fn shifted(&self, shift: f64) -> impl Iterator<Item = (f64, &[f64])> {
        let own = move |block: usize| if self.ends.binary_search(&block).is_ok() { 0.0 } else { shift };
        self.blocks().enumerate().map(move |(block, (c, baseline))| (c - own(block), baseline))
    }

    /// Config minus baseline, every replicate of every block.
    pub(super) fn differences(&self) -> Vec<f64> {
        self.blocks().flat_map(|(c, baseline)| baseline.iter().map(move |b| c - b)).collect()
    }

    /// Hodges-Lehmann estimate of the effect ("Estimate"); `None` without blocks.
    pub fn estimate(&self) -> Option<f64> {
        hodges_lehmann(&self.differences())
    }

    /// The estimate if `worst` of the config's runs were the worst of all: those of `known` blocks, and others spread evenly over the ranks
    /// of its differences. `None` without blocks; far below all numbers if no typical run is left.
    pub fn estimate_with_worst(&self, known: &[usize], worst: usize) -> Option<f64> {
        let n = self.n();
        let gaps: Vec<f64> = self.gaps().collect();
        let mut others: Vec<usize> = (0..n).filter(|block| !known.contains(block)).collect();
        others.sort_by(|&a, &b| gaps[a].total_cmp(&gaps[b]));
        let more = worst.saturating_sub(n - others.len()).min(others.len());
        let step = others.len() as f64 / more.max(1) as f64;
        let spread = (0..more).map(|i| others[((i as f64 + 0.5) * step) as usize]);
        let worst: Vec<usize> = known.iter().copied().chain(spread).collect();
        let differences = self.blocks().enumerate().flat_map(|(block, (c, baseline))| {
            let c = if worst.contains(&block) { FAR_BELOW } else { c };
            baseline.iter().map(move |b| c - b)
        });
        hodges_lehmann(&differences.collect::<Vec<f64>>())
    }

    /// Per block, config minus mean baseline.
    fn gaps(&self) -> impl Iterator<Item = f64> {
        self.blocks().map(|(c, baseline)| c - baseline.iter().sum::<f64>() / self.m0 as f64)
    }

    /// Standard deviation over blocks of config minus mean baseline ("Precision"); `None` below two blocks.
    pub fn sd_block(&self) -> Option<f64> {
        if self.n() < 2 {
            return None;
        }
        let n = self.n() as f64;
        let mean = self.gaps().sum::<f64>() / n;
        Some((self.gaps().map(|gap| (gap - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt())
    }

    /// Upper end of the two-sided Student's t interval of the mean over blocks, at an error `alpha` of both sides; `None` below two blocks.
    /// It has an end with as few blocks as that, where the interval of ranks is still open ("Likely harm").
    pub fn mean_upper(&self, alpha: f64) -> Option<f64> {
        let n = self.n() as f64;
        let spread = self.sd_block()?;
        let t = StudentsT::new(0.0, 1.0, n - 1.0).ok()?.inverse_cdf(1.0 - alpha / 2.0);
        Some(self.gaps().sum::<f64>() / n + t * spread / n.sqrt())
    }

    /// Per block the signed ranks of its differences, summed, in half ranks, after taking `shift` off the config ("Clustered signed rank").
    pub fn signed_rank_scores(&self, shift: f64) -> Vec<isize> {
        let differences: Vec<f64> =
            self.shifted(shift).flat_map(|(c, baseline)| baseline.iter().map(move |b| tie_round(c - b))).collect();
        let sizes: Vec<f64> = differences.iter().map(|d| d.abs()).collect();
        let signed = double_midranks(&sizes).into_iter().zip(&differences).map(|(rank, &difference)| {
            // A zero takes a rank, so that it weakens the others, but no side.
            if difference > 0.0 {
                rank.cast_signed()
            } else if difference < 0.0 {
                -rank.cast_signed()
            } else {
                0
            }
        });
        signed.collect::<Vec<isize>>().chunks_exact(self.m0).map(|block| block.iter().sum()).collect()
    }

    /// Clustered signed-rank test: under the null each block's score is as likely to have the other sign. Exact for symmetric
    /// differences of any variances (Rosner, Glynn and Lee, "The Wilcoxon Signed Rank Test for Paired Comparisons of Clustered Data").
    pub fn signed_rank(&self, shift: f64) -> Tails {
        Null::of_signs(&self.signed_rank_scores(shift)).tails()
    }

    /// Aligned rank test: under the null the label "config" is as likely on any run of a block. Exact for any noise if arms can be
    /// exchanged (Hodges and Lehmann, "Rank Methods for Combination of Independent Experiments in Analysis of Variance").
    /// `None` with one baseline run a block: aligning two values leaves them mirrored and says no more than their sign.
    pub fn aligned_rank(&self, shift: f64) -> Option<Tails> {
        self.aligned_null(shift).map(|null| null.tails())
    }

    pub(super) fn aligned_null(&self, shift: f64) -> Option<Null> {
        let runs = self.m0 + 1;
        let residuals: Vec<f64> = self.aligned(shift)?.into_iter().map(tie_round).collect();
        let ranks = double_midranks(&residuals);
        let observed = ranks.iter().step_by(runs).sum();
        Some(Null { choices: ranks, per_block: runs, observed })
    }

    /// Per block the config's run, after taking `shift` off it, and the baseline's, as distances from their center.
    pub(super) fn aligned(&self, shift: f64) -> Option<Vec<f64>> {
        if self.m0 < 2 {
            return None;
        }
        let runs = self.m0 + 1;
        let mut residuals = Vec::with_capacity(self.n() * runs);
        let mut block = Vec::with_capacity(runs);
        for (c, baseline) in self.shifted(shift) {
            block.clear();
            block.push(c);
            block.extend_from_slice(baseline);
            let center = hodges_lehmann(&block)?;
            residuals.extend(block.iter().map(|x| x - center));
        }
        Some(residuals)
    }

    /// The test that decides: the weaker of the two, so it holds if the assumptions of either do ("Doubly robust").
    pub fn tails(&self, shift: f64) -> Tails {
        let signed = self.signed_rank(shift);
        self.aligned_rank(shift).map_or(signed, |aligned| signed.max(aligned))
    }

    /// All claims about an effect, with its margin on the same scale ("Claims").
    pub fn claims(&self, margin: f64) -> Claims {
        let zero = self.tails(0.0);
        Claims {
            better: zero.up,
            worse: zero.down,
            non_inferior: self.tails(-margin).up,
            no_gain: self.tails(margin).down,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn paired(config: &[f64], baseline: &[f64]) -> Paired {
        Paired::new(config.to_vec(), baseline.to_vec(), baseline.len() / config.len()).unwrap()
    }

    #[test]
    fn shapes_are_checked() {
        assert_eq!(Paired::new(vec![1.0], vec![], 0), Err(ShapeError::NoBaseline));
        assert_eq!(Paired::new(vec![1.0], vec![1.0], 2), Err(ShapeError::Lengths { configs: 1, baselines: 1, m0: 2 }));
        assert_eq!(Paired::new(vec![f64::NAN], vec![1.0], 1), Err(ShapeError::NotFinite));
    }

    #[test]
    fn blocks_scatter_around_the_mean_of_their_baselines() {
        // 3 - 1 and 9 - 5.
        let found = paired(&[3.0, 9.0], &[0.5, 1.5, 4.0, 6.0]).sd_block().unwrap();
        assert!((found - 2.0_f64.sqrt()).abs() < 1e-15, "{found}");
    }

    #[test]
    fn no_blocks_prove_nothing() {
        let empty = Paired::new(vec![], vec![], 4).unwrap();
        assert_eq!(empty.claims(0.05), Claims { better: 1.0, worse: 1.0, non_inferior: 1.0, no_gain: 1.0 });
        assert_eq!(empty.estimate(), None);
        assert_eq!(empty.sd_block(), None);
    }

    #[test]
    fn unanimous_blocks_reach_the_smallest_p() {
        let p = paired(&[5.0, 6.1, 7.3], &[1.0, 1.5, 2.0]);
        assert_eq!(p.tails(0.0), Tails { up: 0.125, down: 1.0 });
    }

    #[test]
    fn three_blocks_of_three_runs_by_hand() {
        // Config on top twice, in the middle once: of 3 x 3 x 3 label assignments, count those at least as high.
        let p = paired(&[3.0, 13.0, 21.0], &[1.0, 2.5, 11.0, 12.4, 20.2, 22.1]);
        let runs = [[3.0, 1.0, 2.5], [13.0, 11.0, 12.4], [21.0, 20.2, 22.1]];
        let residuals: Vec<f64> = runs
            .iter()
            .flat_map(|block| {
                let center = hodges_lehmann(block).unwrap();
                block.map(|x| tie_round(x - center))
            })
            .collect();
        let ranks = double_midranks(&residuals);
        let mut sums = Vec::new();
        for a in 0..3 {
            for b in 3..6 {
                for c in 6..9 {
                    sums.push(ranks[a] + ranks[b] + ranks[c]);
                }
            }
        }
        let seen = ranks[0] + ranks[3] + ranks[6];
        let share = |hits: usize| hits as f64 / 27.0;
        let tails = p.aligned_rank(0.0).unwrap();
        assert!((tails.up - share(sums.iter().filter(|&&s| s >= seen).count())).abs() < 1e-15);
        assert!((tails.down - share(sums.iter().filter(|&&s| s <= seen).count())).abs() < 1e-15);
    }

    #[test]
    fn sd_needs_two_blocks() {
        assert_eq!(paired(&[1.0], &[0.0]).sd_block(), None);
        assert_eq!(paired(&[1.0, 3.0], &[0.0, 0.0]).sd_block(), Some(2.0_f64.sqrt()));
    }
}
