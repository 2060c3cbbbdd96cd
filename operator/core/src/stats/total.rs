use super::{
    null::{Null, Tails},
    scale::Scale,
};

/// What runs of one config and of the baseline cost in the same blocks: the time or the bytes of equal work, which add up ("Totals").
/// The centre of effects is about the typical run; this is about the sum that is paid for all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    /// Per block the config's cost and the mean of the baseline's.
    blocks: Vec<(f64, f64)>,
    scale: Scale,
}

/// Steps into which the sum of all sizes is divided, at least: so fine that rounding a size to them is far below any noise.
const STEPS: f64 = 4096.0;
/// Steps for a block, where there are many of them.
const STEPS_PER_BLOCK: f64 = 64.0;

impl Totals {
    /// From values that were transformed so that more is better, `m0` of the baseline in each block.
    pub fn of(config: &[f64], baseline: &[f64], m0: usize, scale: Scale) -> Self {
        // Work over time is a rate, so time is its inverse: on a log scale a cost is the inverse of what is better.
        let cost = |value: f64| match scale {
            Scale::Log => (-value).exp(),
            Scale::Linear => -value,
        };
        let mean = |runs: &[f64]| runs.iter().map(|&run| cost(run)).sum::<f64>() / runs.len() as f64;
        let blocks = config.iter().zip(baseline.chunks_exact(m0.max(1)));
        Self { blocks: blocks.map(|(&own, runs)| (cost(own), mean(runs))).collect(), scale }
    }

    /// How much better the config's total is than the baseline's: the logarithm of the ratio of both, or the difference of means on a
    /// linear scale. `None` without blocks, or where a total is zero.
    pub fn effect(&self) -> Option<f64> {
        // In ascending order, so that the sum does not depend on the order of blocks.
        let sum = |cost: fn(&(f64, f64)) -> f64| {
            let mut costs: Vec<f64> = self.blocks.iter().map(cost).collect();
            costs.sort_unstable_by(f64::total_cmp);
            costs.iter().sum::<f64>()
        };
        let (own, baseline) = (sum(|block| block.0), sum(|block| block.1));
        let effect = match self.scale {
            _ if self.blocks.is_empty() => None,
            Scale::Log => Some((baseline / own).ln()),
            Scale::Linear => Some((baseline - own) / self.blocks.len() as f64),
        };
        // That of a zero is none.
        effect.filter(|effect| effect.is_finite())
    }

    /// P value of the claim that the total is worse by less than a margin, an effect.
    pub fn non_inferior(&self, margin: f64) -> f64 {
        self.gain(|own, baseline| match self.scale {
            Scale::Log => baseline * margin.exp() - own,
            Scale::Linear => baseline + margin - own,
        })
    }

    /// P value of the claim that the total is worse.
    pub fn worse(&self) -> f64 {
        self.gain(|own, baseline| own - baseline)
    }

    fn gain(&self, difference: impl Fn(f64, f64) -> f64) -> f64 {
        let differences: Vec<f64> = self.blocks.iter().map(|&(own, baseline)| difference(own, baseline)).collect();
        sign_flips(&differences)
    }
}

/// P value of the claim that differences have a mean above zero: the share of all choices of signs whose sum is at least the one that
/// was seen (Fisher, "The Design of Experiments", section 21). With one sample the studentised sum orders the choices in the same way, as
/// their squares add up to the same. Sizes are rounded to steps, so that the share can be counted and not only sampled.
fn sign_flips(differences: &[f64]) -> f64 {
    // In one order whatever that of the blocks: rounded to steps, the last digit of a sum could decide. Infinite costs on both sides are as
    // good as equal.
    let mut differences: Vec<f64> = differences.iter().copied().filter(|x| !x.is_nan()).collect();
    differences.sort_unstable_by(f64::total_cmp);
    let endless: Vec<isize> = differences.iter().filter(|x| x.is_infinite()).map(|x| x.signum() as isize).collect();
    differences.retain(|x| x.is_finite());
    let p = finite_sign_flips(&differences);
    if endless.is_empty() {
        return p;
    }
    // What never ends weighs more than all that does; the rest decides between sums of as many of them.
    let Tails { up, down } = Null::of_signs(&endless).tails();
    let same = up + down - 1.0;
    (up - same + same * p).clamp(0.0, 1.0)
}

/// The same of differences in ascending order that all end.
fn finite_sign_flips(differences: &[f64]) -> f64 {
    let all: f64 = differences.iter().map(|x| x.abs()).sum();
    if !(all.is_finite() && all > 0.0) {
        return 1.0;
    }
    let steps = STEPS.max(STEPS_PER_BLOCK * differences.len() as f64);
    let scores: Vec<isize> = differences.iter().map(|x| (x / all * steps).round() as isize).collect();
    Null::of_signs(&scores).tails().up
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every choice of signs, counted one by one.
    fn enumerated(differences: &[f64]) -> f64 {
        let seen: f64 = differences.iter().sum();
        let n = differences.len();
        let sum = |signs: usize| -> f64 {
            differences.iter().enumerate().map(|(i, x)| if signs >> i & 1 == 1 { x.abs() } else { -x.abs() }).sum()
        };
        let hits = (0..1_usize << n).filter(|&signs| sum(signs) >= seen - 1e-9).count();
        hits as f64 / (1_usize << n) as f64
    }

    #[test]
    fn agrees_with_enumeration() {
        for differences in [
            vec![0.3, -0.1, 0.25, 0.7, 0.11],
            vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
            vec![0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, -1.4],
            vec![-1.0, -2.0],
        ] {
            let (own, expected) = (sign_flips(&differences), enumerated(&differences));
            assert!((own - expected).abs() < 0.002, "{differences:?}: {own} {expected}");
        }
        assert_eq!((sign_flips(&[]), sign_flips(&[0.0, 0.0])), (1.0, 1.0));
    }

    #[test]
    fn many_blocks_have_finer_steps() {
        // Two large differences are equal and opposite, so in half of all draws 128 small ones decide, which all have the sign that was
        // seen only once in 2^128. In a quarter of all draws both large ones are above zero.
        let differences: Vec<f64> = [1.0, -1.0].into_iter().chain([0.0002; 128]).collect();
        assert!((sign_flips(&differences) - 0.25).abs() < 1e-12, "{}", sign_flips(&differences));
    }

    #[test]
    fn what_can_not_be_divided_into_steps_proves_nothing() {
        assert_eq!((sign_flips(&[0.0; 3]), sign_flips(&[f64::MAX, f64::MAX])), (1.0, 1.0));
    }

    /// A run that does nothing in any time costs more than all others, whichever arm it is of.
    #[test]
    fn what_never_ends_counts_for_the_other_arm() {
        let (none, eleven) = (f64::NEG_INFINITY, [1.05_f64.ln(); 11]);
        let with = |own: f64, baseline: f64| {
            let (mut config, mut others) = (eleven.to_vec(), vec![0.0; 11]);
            config.push(own);
            others.push(baseline);
            Totals::of(&config, &others, 1, Scale::Log)
        };
        let of_baseline = with(0.0, none);
        assert_eq!((of_baseline.non_inferior(0.05), of_baseline.worse()), (0.5_f64.powi(12), 1.0));
        assert!(with(none, 0.0).non_inferior(0.05) > 0.5);
        assert_eq!(with(none, none).non_inferior(0.05), 0.5_f64.powi(11));
        // One of each: the sum is that of a draw, and half of all draws are.
        let both = Totals::of(&[none, 0.0], &[0.0, none], 1, Scale::Log);
        assert_eq!(both.non_inferior(0.05), 0.75);
    }

    /// 11 of 12 runs are 5 % faster, one takes two and a half times as long.
    #[test]
    fn a_stall_is_paid_for() {
        let config: Vec<f64> = (0..12).map(|i| if i == 7 { 0.4_f64.ln() } else { 1.05_f64.ln() }).collect();
        let totals = Totals::of(&config, &[0.0; 12], 1, Scale::Log);
        // 11 / 1.05 + 2.5 instead of 12.
        let expected = (12.0_f64 / (11.0 / 1.05 + 2.5)).ln();
        assert!((totals.effect().unwrap() - expected).abs() < 1e-12);
        assert!(totals.non_inferior(0.05_f64.ln_1p()) > 0.2, "{}", totals.non_inferior(0.05_f64.ln_1p()));
        let without = Totals::of(&[1.05_f64.ln(); 12], &[0.0; 12], 1, Scale::Log);
        assert_eq!(without.non_inferior(0.05_f64.ln_1p()), 0.5_f64.powi(12));
        let slower = Totals::of(&[0.9_f64.ln(); 6], &[0.0; 12], 2, Scale::Log);
        assert_eq!((slower.worse(), slower.non_inferior(0.05_f64.ln_1p())), (0.5_f64.powi(6), 1.0));
    }

    #[test]
    fn differences_have_totals_too() {
        // A share of time, less is better: 1 point more on average.
        let totals = Totals::of(&[-0.03, -0.01], &[-0.01, -0.01], 1, Scale::Linear);
        assert!((totals.effect().unwrap() + 0.01).abs() < 1e-12);
        assert_eq!(totals.non_inferior(0.03), 0.25);
        // 1 + 3 - 2, 1 + 3 - 3 and 1 + 3 - 8 points: 2 + 1 - 4 = -1, and five of the eight sums of 2, 1 and 4 with any signs are at least that.
        let totals = Totals::of(&[-0.02, -0.03, -0.08], &[-0.01; 3], 1, Scale::Linear);
        assert!((totals.non_inferior(0.03) - 0.625).abs() < 1e-12);
        assert_eq!(Totals::of(&[-0.1; 3], &[-0.01; 3], 1, Scale::Linear).non_inferior(0.03), 1.0);
        assert_eq!(Totals::of(&[], &[], 1, Scale::Log).effect(), None);
        // Nothing at all is no ratio.
        assert_eq!(Totals::of(&[f64::INFINITY], &[0.0], 1, Scale::Log).effect(), None);
    }
}
