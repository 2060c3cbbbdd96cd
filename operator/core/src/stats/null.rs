/// The probabilities, under a null distribution, of a statistic at least as high and at least as low as the one observed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tails {
    pub up: f64,
    pub down: f64,
}

impl Tails {
    /// Each tail is the weaker of the two.
    pub(super) fn max(self, other: Self) -> Self {
        Self { up: self.up.max(other.up), down: self.down.max(other.down) }
    }
}

/// Exact tails of a sum with one term per block, each term uniform over that block's `per_block` choices ("Null distributions").
///
/// Both tests are of this form: a sign flip chooses between two scores, an exchange of labels between the ranks of a block's runs.
/// `observed` is the sum of the choices that happened.
pub(super) fn uniform_sum_tails(choices: &[usize], per_block: usize, observed: usize) -> Tails {
    let blocks: Vec<(usize, usize)> = choices.chunks_exact(per_block).map(extent).collect();
    let lowest: usize = blocks.iter().map(|&(min, _)| min).sum();
    let highest: usize = blocks.iter().map(|&(_, max)| max).sum();

    // The nearer end costs least. Seen from the upper end, the sum is the distance to the highest one.
    let mirrored = observed - lowest > highest - observed;
    let mut steps: Vec<usize> = choices
        .chunks_exact(per_block)
        .zip(&blocks)
        .flat_map(|(block, &(min, max))| block.iter().map(move |&c| if mirrored { max - c } else { c - min }))
        .collect();
    let mut target = if mirrored { highest - observed } else { observed - lowest };

    // Without ties all doubled ranks are even: half of the table would stay empty.
    let unit = steps.iter().fold(target, |unit, &step| gcd(unit, step)).max(1);
    for step in &mut steps {
        *step /= unit;
    }
    target /= unit;

    let (at_most, below) = lower_tail(&steps, per_block, target);
    let beyond = (1.0 - below).clamp(0.0, 1.0);
    let at_most = at_most.min(1.0);
    if mirrored { Tails { up: at_most, down: beyond } } else { Tails { up: beyond, down: at_most } }
}

fn extent(block: &[usize]) -> (usize, usize) {
    block.iter().fold((usize::MAX, 0), |(min, max), &c| (min.min(c), max.max(c)))
}

/// P(sum <= target) and P(sum < target) of steps that start at zero in every block: convolution cut off at the target.
fn lower_tail(steps: &[usize], per_block: usize, target: usize) -> (f64, f64) {
    let weight = 1.0 / per_block as f64;
    let mut now = vec![0.0; target + 1];
    let mut next = vec![0.0; target + 1];
    now[0] = 1.0;
    let mut reach = 0;
    for block in steps.chunks_exact(per_block) {
        let longest = block.iter().copied().max().unwrap_or(0);
        let reached = (reach + longest).min(target);
        next[..=reached].fill(0.0);
        for &step in block.iter().filter(|&&step| step <= target) {
            let end = (step + reach).min(target);
            for (to, from) in next[step..=end].iter_mut().zip(&now) {
                *to += from;
            }
        }
        for p in &mut next[..=reached] {
            *p *= weight;
        }
        std::mem::swap(&mut now, &mut next);
        reach = reached;
    }
    let below: f64 = now[..target].iter().sum();
    (below + now[target], below)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every way to choose one number per block, counted one by one.
    fn enumerate(choices: &[usize], per_block: usize, observed: usize) -> Tails {
        let mut sums = vec![0];
        for block in choices.chunks_exact(per_block) {
            sums = sums.iter().flat_map(|sum| block.iter().map(move |c| sum + c)).collect();
        }
        let share = |hit: &dyn Fn(usize) -> bool| sums.iter().filter(|&&s| hit(s)).count() as f64 / sums.len() as f64;
        Tails { up: share(&|s| s >= observed), down: share(&|s| s <= observed) }
    }

    proptest! {
        #[test]
        fn agrees_with_enumeration(
            per_block in 1_usize..5,
            numbers in prop::collection::vec(0_usize..12, 1..24),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 6),
        ) {
            let blocks = (numbers.len() / per_block).min(6);
            let choices = &numbers[..blocks * per_block];
            let observed = choices.chunks_exact(per_block).zip(&picks).map(|(block, pick)| block[pick.index(per_block)]).sum();
            let fast = uniform_sum_tails(choices, per_block, observed);
            let slow = enumerate(choices, per_block, observed);
            prop_assert!((fast.up - slow.up).abs() < 1e-12, "{fast:?} {slow:?}");
            prop_assert!((fast.down - slow.down).abs() < 1e-12, "{fast:?} {slow:?}");
        }
    }

    #[test]
    fn nothing_observed_proves_nothing() {
        assert_eq!(uniform_sum_tails(&[], 2, 0), Tails { up: 1.0, down: 1.0 });
    }
}
