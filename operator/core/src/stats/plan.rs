use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::ALPHA;

/// The chance with which a planned effect is found.
pub const POWER: f64 = 0.8;

/// Asymptotic efficiency of the signed-rank test against the t test under normal noise, 3/pi.
pub const EFFICIENCY: f64 = 0.955;

/// Below this many blocks there is nothing to divide into looks.
const FEWEST_FOR_LOOKS: usize = 12;

/// Fewest blocks that can prove one of `m` claims: the smallest p of n blocks is 2^-n, and the first claim pays m times ("Fewest blocks").
pub fn n_min(m: usize, alpha: f64) -> usize {
    let mut n = 0;
    let mut attainable = m as f64;
    // Halving ends below any positive level, and without one (or with no claim) there is nothing to wait for.
    while attainable > alpha && attainable > 0.0 {
        attainable /= 2.0;
        n += 1;
    }
    n
}

/// Baseline runs per block for `configs` configs: the square root (Dunnett, "A Multiple Comparison Procedure for Comparing
/// Several Treatments with a Control"), between 2 and 4; a single config needs none beyond its partner.
pub fn default_m0(configs: usize) -> usize {
    if configs <= 1 { 1 } else { ((configs as f64).sqrt().round() as usize).clamp(2, 4) }
}

/// Shares of the error that each look may spend: differences of (look / last look)^`exponent` ("Looks").
pub fn look_weights(looks: &[usize], exponent: i32) -> Vec<f64> {
    let last = looks.last().copied().unwrap_or(1) as f64;
    let mut spent = 0.0;
    looks
        .iter()
        .map(|&n| {
            let now = (n as f64 / last).powi(exponent);
            let weight = now - spent;
            spent = now;
            weight
        })
        .collect()
}

/// Shares of the error that one look may spend, by kind of claim ("Looks"). A kind that can't be proven yet has none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// Claims of a gain: little at first, where an early stop would need luck.
    pub better: f64,
    /// Claims of harm.
    pub worse: f64,
    /// Equivalence and non-inferiority.
    pub equivalent: f64,
    /// Centre and mean in each scenario, which a Win must prove beside its gain.
    pub scenario: f64,
}

impl Shares {
    /// The whole error, for a judgement that is the only one.
    pub const WHOLE: Self = Self { better: 1.0, worse: 1.0, equivalent: 1.0, scenario: 1.0 };

    /// Shares of looks after these numbers of blocks, the last of which is the end of the plan. `better` and `worse` count the claims of a
    /// family.
    pub fn schedule(looks: &[usize], better: usize, worse: usize) -> Vec<Self> {
        let shares = [(2, better), (3, worse), (3, 1), (2, 1)].map(|(exponent, claims)| spend(looks, exponent, claims));
        let [better, worse, equivalent, scenario] = shares;
        (0..looks.len())
            .map(|look| Self {
                better: better[look],
                worse: worse[look],
                equivalent: equivalent[look],
                scenario: scenario[look],
            })
            .collect()
    }

    /// Error that remains after these looks.
    pub fn rest(taken: &[Self]) -> Self {
        let rest = |share: fn(&Self) -> f64| 1.0 - taken.iter().map(share).sum::<f64>();
        Self {
            better: rest(|s| s.better),
            worse: rest(|s| s.worse),
            equivalent: rest(|s| s.equivalent),
            scenario: rest(|s| s.scenario),
        }
    }
}

/// Shares of `claims` claims that share the error. A look at which even the smallest p value would not be enough leaves its share to the next.
fn spend(looks: &[usize], exponent: i32, claims: usize) -> Vec<f64> {
    let mut kept = 0.0;
    let weights = look_weights(looks, exponent);
    let shares = looks.iter().zip(weights).enumerate().map(|(look, (&blocks, weight))| {
        let share = kept + weight;
        let is_attainable = claims as f64 * 0.5_f64.powf(blocks as f64) <= ALPHA * share;
        if is_attainable || look + 1 == looks.len() {
            kept = 0.0;
            share
        } else {
            kept = share;
            0.0
        }
    });
    shares.collect()
}

/// Block counts at which `max_blocks` are looked at when `m` overall claims of a gain are made ("Looks"). One entry means a fixed design.
pub fn plan_looks(max_blocks: usize, m: usize) -> Vec<usize> {
    let first = n_min(m, ALPHA).max((2 * max_blocks).div_ceil(5));
    let second = (2 * max_blocks).div_ceil(3);
    if max_blocks < FEWEST_FOR_LOOKS || first >= second || second >= max_blocks {
        return vec![max_blocks];
    }
    let mut looks = vec![first, second, max_blocks];
    // An early look that can't find anything would spend error for nothing. Without it its share falls to the next.
    while looks.len() > 1 {
        let smallest = m as f64 * 0.5_f64.powf(looks[0] as f64) / look_weights(&looks, 2)[0];
        if smallest <= ALPHA {
            break;
        }
        looks.remove(0);
    }
    looks
}

/// Effect found with 80 % probability as one of `m` claims, given the spread over `n` blocks ("Precision"). `None` below two blocks.
/// A look that has a share of the error only counts as so many times more claims.
pub fn detectable(sd_block: f64, n: usize, m: f64) -> Option<f64> {
    if n < 2 || !(m.is_finite() && m > 0.0) {
        return None;
    }
    let t = StudentsT::new(0.0, 1.0, (n - 1) as f64).ok()?;
    let quantiles = t.inverse_cdf(1.0 - ALPHA / m) + t.inverse_cdf(POWER);
    Some(quantiles * sd_block / (EFFICIENCY * n as f64).sqrt())
}

/// Blocks that find a relative effect `delta` with 80 % probability as one of `m` claims, for runs with log standard deviation
/// `sigma` and `m0` baseline runs per block ("Precision"). `None` where no number of blocks would.
pub fn blocks_to_plan(sigma: f64, m0: usize, delta: f64, m: usize) -> Option<usize> {
    let effect = delta.ln_1p();
    if m == 0 || m0 == 0 || effect.is_nan() || effect <= 0.0 || !sigma.is_finite() || sigma < 0.0 {
        return None;
    }
    let normal = Normal::new(0.0, 1.0).ok()?;
    let quantiles = normal.inverse_cdf(1.0 - ALPHA / m as f64) + normal.inverse_cdf(POWER);
    let spread = sigma * (1.0 + 1.0 / m0 as f64).sqrt();
    // Two blocks more, because the spread itself is only estimated.
    Some(((quantiles * spread / effect).powi(2) / EFFICIENCY + 2.0).ceil() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewest_blocks_by_their_definition() {
        for m in 1..300 {
            let n = n_min(m, ALPHA) as f64;
            assert!(m as f64 * 0.5_f64.powf(n) <= ALPHA && m as f64 * 0.5_f64.powf(n - 1.0) > ALPHA, "{m}");
        }
        assert_eq!(n_min(0, ALPHA), 0);
        assert!(n_min(1, 0.0) > 1000);
        // One block reaches 1/2, two reach 1/4 exactly.
        assert_eq!((n_min(1, 0.5), n_min(1, 0.25), n_min(3, 0.25)), (1, 2, 4));
        // The search ends even where no p value is low enough.
        assert_eq!(n_min(0, -1.0), 0);
    }

    #[test]
    fn looks_are_planned() {
        assert_eq!(plan_looks(30, 18), [12, 20, 30]);
        assert_eq!(plan_looks(11, 1), [11]);
        // Five blocks could prove one claim, but not with the share of the error that belongs to them.
        assert_eq!(plan_looks(12, 1), [8, 12]);
        assert_eq!(plan_looks(15, 18), [10, 15]);
        // n_min leaves no room before the second look.
        assert_eq!(plan_looks(12, 54), [12]);
    }

    #[test]
    fn weights_spend_everything_once() {
        for looks in [vec![12, 20, 30], vec![30], vec![5, 6, 7, 40]] {
            for exponent in [1, 2] {
                assert!((look_weights(&looks, exponent).iter().sum::<f64>() - 1.0).abs() < 1e-12);
            }
        }
        assert!(look_weights(&[], 1).is_empty());
    }

    #[test]
    fn blocks_to_plan_by_hand() {
        // ((1.6449 + 0.8416) * 0.05 * sqrt(1 + 1/m0) / ln 1.05)^2 / 0.955 + 2: 15.6 with one baseline run a block, 12.2 with two.
        assert_eq!(blocks_to_plan(0.05, 1, 0.05, 1), Some(16));
        assert_eq!(blocks_to_plan(0.05, 2, 0.05, 1), Some(13));
        // Without noise two blocks are left, for the spread.
        assert_eq!(blocks_to_plan(0.0, 1, 0.05, 1), Some(2));
        for (sigma, m0, delta, m) in [
            (0.05, 1, 0.05, 0),
            (0.05, 0, 0.05, 1),
            (-0.05, 1, 0.05, 1),
            (f64::INFINITY, 1, 0.05, 1),
            (0.05, 1, -0.05, 1),
        ] {
            assert_eq!(blocks_to_plan(sigma, m0, delta, m), None, "{sigma} {m0} {delta} {m}");
        }
    }

    #[test]
    fn precision_without_data_is_unknown() {
        assert_eq!((detectable(0.1, 0, 1.0), detectable(0.1, 1, 1.0)), (None, None));
        assert!(detectable(0.1, 2, 1.0).is_some());
        assert_eq!(detectable(0.1, 5, 0.0), None);
        assert_eq!(blocks_to_plan(0.1, 1, 0.0, 1), None);
        assert_eq!(blocks_to_plan(f64::NAN, 1, 0.05, 1), None);
    }
}
