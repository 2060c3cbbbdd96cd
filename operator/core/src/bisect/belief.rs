//! How likely each candidate is to be the first bad one, given all visits, and where to look next.

use super::candidates::{Candidates, Group};
use super::search::Culprit;
use super::visit::Visit;

/// The chance, before the first visit, that no candidate is worse: the alert was wrong.
const NONE: f64 = 0.05;
/// The smallest loss that is searched for: what is smaller takes too many blocks. On the scale of effects.
const SMALLEST: f64 = 0.005;
/// Sizes of the loss that are considered.
const SIZES: usize = 11;
/// How far they reach, in standard errors.
const REACH: f64 = 2.5;

/// What is known of the loss before the search: normal, and never below half a percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    pub loss: f64,
    pub standard_error: f64,
}

/// How much measurements scatter: standard deviations on the scale of effects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Of blocks within a visit.
    pub block: f64,
    /// Of visits: all blocks of a visit share what is special about it.
    pub visit: f64,
}

/// What is believed after some visits.
#[derive(Clone, Debug, PartialEq)]
pub struct Belief {
    /// The chance of each candidate to be the first bad one; of the good end 0.
    pub first_bad: Vec<f64>,
    /// The chance that there is none.
    pub none: f64,
}

impl Prior {
    /// Sizes of the loss with their weights.
    fn sizes(&self) -> Vec<(f64, f64)> {
        let low = (self.loss - REACH * self.standard_error).max(SMALLEST);
        let high = (self.loss + REACH * self.standard_error).max(low);
        let step = (high - low) / (SIZES - 1) as f64;
        let weight = |size: f64| {
            let distance = (size - self.loss) / self.standard_error.max(f64::MIN_POSITIVE);
            (-0.5 * distance * distance).exp()
        };
        // Where all are far off, or there is no error, none is preferred.
        let sizes: Vec<f64> = (0..SIZES).map(|number| low + step * number as f64).collect();
        let total: f64 = sizes.iter().map(|size| weight(*size)).sum();
        let share = |size: f64| if total > 0.0 { weight(size) / total } else { 1.0 / SIZES as f64 };
        sizes.into_iter().map(|size| (size, share(size))).collect()
    }
}

impl Spread {
    /// The variance of the sum of a visit's blocks, by the number of its blocks.
    fn per_block(&self, blocks: usize) -> f64 {
        (self.block * self.block + self.visit * self.visit * blocks as f64).max(f64::MIN_POSITIVE)
    }

    /// The weight of the mean of a visit: the inverse of its variance.
    pub(super) fn weight(&self, blocks: usize) -> f64 {
        blocks as f64 / self.per_block(blocks)
    }
}

impl Belief {
    /// What follows from visits. Between its reference and its candidate a visit sees the loss if the first bad one is among the
    /// candidates after the reference, up to the candidate; what known culprits cost there is taken off.
    pub fn of(candidates: &Candidates, prior: &Prior, spread: &Spread, known: &[Culprit], visits: &[Visit]) -> Self {
        let sizes = prior.sizes();
        let count = candidates.prior().len();
        // By hypothesis: the factors of size and of half its square in the logarithm of the likelihood. A visit counts for all between its
        // ends, so differences of neighbours are kept first.
        let (mut linear, mut square) = (vec![0.0; count + 1], vec![0.0; count + 1]);
        for visit in visits {
            let taken: f64 =
                known.iter().filter(|culprit| visit.sees(culprit.group.last)).map(|culprit| culprit.step.mean).sum();
            let blocks = visit.losses.len();
            let weight = spread.weight(blocks);
            let mean = visit.losses.iter().sum::<f64>() / blocks.max(1) as f64 - taken;
            linear[visit.reference + 1] += weight * mean;
            linear[visit.candidate + 1] -= weight * mean;
            square[visit.reference + 1] += weight;
            square[visit.candidate + 1] -= weight;
        }
        let (mut a, mut b) = (0.0, 0.0);
        let mut logs: Vec<Vec<f64>> = Vec::with_capacity(count);
        for candidate in 0..count {
            a += linear[candidate];
            b += square[candidate];
            logs.push(sizes.iter().map(|(size, _)| size * a - 0.5 * size * size * b).collect());
        }
        let possible = candidates.prior().iter().zip(&logs).filter(|(prior, _)| **prior > 0.0);
        let largest = possible.flat_map(|(_, logs)| logs).fold(0.0_f64, |largest, log| largest.max(*log));
        let likelihood = |logs: &[f64]| -> f64 {
            logs.iter().zip(&sizes).map(|(log, (_, weight))| weight * (log - largest).exp()).sum()
        };
        let weigh = |(prior, logs): (&f64, &Vec<f64>)| {
            if *prior > 0.0 { (1.0 - NONE) * prior * likelihood(logs) } else { 0.0 }
        };
        let mut first_bad: Vec<f64> = candidates.prior().iter().zip(&logs).map(weigh).collect();
        let none = NONE * (-largest).exp();
        let total = none + first_bad.iter().sum::<f64>();
        for chance in &mut first_bad {
            *chance /= total;
        }
        Self { first_bad, none: none / total }
    }

    /// The candidate to visit: the one whose answer is least certain, so that "the first bad one is it or an earlier one" is as
    /// likely as not.
    pub fn next(&self, candidates: &Candidates) -> Option<usize> {
        let chances: Vec<f64> = self
            .first_bad
            .iter()
            .scan(0.0, |sum, chance| {
                *sum += chance;
                Some(*sum)
            })
            .collect();
        let distance = |candidate: &usize| (chances[*candidate] - 0.5).abs();
        candidates.usable().min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }

    /// The candidates in groups that visits can tell apart, in order.
    pub fn groups(&self, candidates: &Candidates) -> Vec<Group> {
        let mut after = 0;
        let mut groups = Vec::new();
        for last in candidates.usable() {
            let probability = self.first_bad[after + 1..=last].iter().sum();
            groups.push(Group { after, last, probability });
            after = last;
        }
        groups
    }

    /// The likeliest of these groups.
    pub fn likeliest(&self, candidates: &Candidates) -> Option<Group> {
        // The first of equals, as everywhere.
        self.groups(candidates).into_iter().rev().max_by(|a, b| a.probability.total_cmp(&b.probability))
    }

    /// The fewest groups that together hold the first bad one with this chance if there is one, in order, and their chance.
    pub fn likely(&self, candidates: &Candidates, wanted: f64) -> (Vec<Group>, f64) {
        let mut groups = self.groups(candidates);
        groups.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        let (mut held, mut likely) = (0.0, Vec::new());
        for group in groups.into_iter().take_while(|group| group.probability > 0.0) {
            if held >= wanted * (1.0 - self.none) {
                break;
            }
            held += group.probability;
            likely.push(group);
        }
        likely.sort_by_key(|group| group.last);
        (likely, held)
    }
}

#[cfg(test)]
mod tests {
    use assay_protocol::Digest;

    use super::super::candidates::Candidate;
    use super::*;

    const PRIOR: Prior = Prior { loss: 0.03, standard_error: 0.005 };
    const SPREAD: Spread = Spread { block: 0.02, visit: 0.005 };

    fn candidates(weights: &[f64]) -> Candidates {
        let candidate =
            |(number, weight): (usize, &f64)| Candidate { digest: Digest::of(&[number as u8]), weight: *weight };
        Candidates::new(&weights.iter().enumerate().map(candidate).collect::<Vec<_>>()).unwrap()
    }

    fn visit(reference: usize, candidate: usize, losses: &[f64]) -> Visit {
        Visit { reference, candidate, losses: losses.to_vec() }
    }

    /// Of the same visits by a program of its own in Python, which sums ln l(j, D) = sum over visits with reference < j <= candidate of
    /// (D S - n D^2 / 2) / (0.02^2 + 0.005^2 n) over eleven sizes of the loss.
    #[test]
    fn beliefs_are_those_of_another_program() {
        let visits = [
            visit(0, 3, &[0.012, -0.008]),
            visit(0, 5, &[0.041, 0.022]),
            visit(0, 4, &[0.035]),
            visit(3, 4, &[0.02, 0.05, 0.01]),
        ];
        let candidates = candidates(&[1.0, 1.0, 1.0, 3.0, 1.0, 1.0, 1.0]);
        let belief = Belief::of(&candidates, &PRIOR, &SPREAD, &[], &visits);
        let expected = [
            0.0,
            0.019_193_927_131,
            0.019_193_927_131,
            0.057_581_781_392,
            0.874_311_134_429,
            0.025_498_123_794,
            0.002_970_408_013,
        ];
        for (chance, expected) in belief.first_bad.iter().zip(expected).chain([(&belief.none, 0.001_250_698_111)]) {
            assert!((chance - expected).abs() < 1e-11, "{belief:?}");
        }
        // Before the first visit: what was given.
        let before = Belief::of(&candidates, &PRIOR, &SPREAD, &[], &[]);
        assert!((before.none - 0.05).abs() < 1e-12 && (before.first_bad[3] - 0.95 * 3.0 / 8.0).abs() < 1e-12);
    }

    #[test]
    fn the_next_visit_halves_what_is_open() {
        let mut candidates = candidates(&[1.0; 9]);
        let next = |candidates: &Candidates, visits: &[Visit]| {
            Belief::of(candidates, &PRIOR, &SPREAD, &[], visits).next(candidates).unwrap()
        };
        assert_eq!(next(&candidates, &[]), 4);
        assert_eq!(next(&candidates, &[visit(0, 4, &[0.03; 20])]), 2);
        assert_eq!(next(&candidates, &[visit(0, 4, &[0.0; 20])]), 6);
        // If nothing seems to be worse, the bad end is asked again.
        assert_eq!(next(&candidates, &[visit(0, 8, &[0.0; 4])]), 8);
        candidates.avoid(4);
        assert_eq!(next(&candidates, &[]), 5, "the nearest that can run");
    }

    #[test]
    fn what_visits_can_not_tell_apart_is_one_group() {
        let mut candidates = candidates(&[1.0; 7]);
        candidates.avoid(3);
        candidates.avoid(4);
        let belief =
            Belief::of(&candidates, &PRIOR, &SPREAD, &[], &[visit(0, 2, &[0.0; 20]), visit(0, 5, &[0.03; 20])]);
        let group = belief.likeliest(&candidates).unwrap();
        assert_eq!((group.after, group.last, group.members()), (2, 5, 3..=5));
        assert!(group.probability > 0.95);
        assert!((belief.first_bad[3] - belief.first_bad[5]).abs() < 1e-12);
        // Nothing is known yet: all are needed, and they come in order.
        let before = Belief::of(&candidates, &PRIOR, &SPREAD, &[], &[]);
        let (likely, chance) = before.likely(&candidates, 0.9);
        assert_eq!(likely.iter().map(|group| group.last).collect::<Vec<_>>(), [1, 2, 5, 6]);
        assert!((chance - 0.95).abs() < 1e-12);
        // That nobody is may be likelier than a tenth.
        let half = Belief::of(&candidates, &PRIOR, &SPREAD, &[], &[visit(0, 5, &[0.0; 20])]);
        let (likely, chance) = half.likely(&candidates, 0.9);
        assert!(half.none > 0.2 && (0.75..0.77).contains(&chance), "{half:?}");
        assert_eq!(likely.iter().map(|group| group.last).collect::<Vec<_>>(), [6]);
        assert_eq!(belief.likely(&candidates, 0.9).0.len(), 1);
    }

    #[test]
    fn a_known_culprit_is_taken_off() {
        let candidates = candidates(&[1.0; 9]);
        let step = crate::stats::Shift { mean: 0.03, standard_error: 0.005, blocks: 16 };
        let culprit = Culprit { group: Group { after: 2, last: 3, probability: 1.0 }, step };
        let visits = [visit(0, 8, &[0.06; 16]), visit(0, 6, &[0.03; 16])];
        let without = Belief::of(&candidates, &PRIOR, &SPREAD, &[culprit], &visits);
        assert!(without.first_bad[7] + without.first_bad[8] > 0.99, "{without:?}");
        let with = Belief::of(&candidates, &PRIOR, &SPREAD, &[], &visits);
        assert!(with.first_bad[7] + with.first_bad[8] < 0.01, "{with:?}");
    }

    #[test]
    fn numbers_without_sense_are_no_trouble() {
        let candidates = candidates(&[1.0; 4]);
        for (loss, standard_error, block, losses) in [
            (0.0, 0.0, 0.0, vec![0.0]),
            (-0.1, 0.001, 0.02, vec![0.1; 40]),
            (1e100, 1e90, 1e-100, vec![1e100, -1e100]),
            (0.03, 1e300, 1e200, vec![1e100]),
        ] {
            let (prior, spread) = (Prior { loss, standard_error }, Spread { block, visit: 0.0 });
            let belief = Belief::of(&candidates, &prior, &spread, &[], &[visit(0, 2, &losses)]);
            assert!(belief.next(&candidates).is_some());
            let _ = belief.likely(&candidates, 0.9);
        }
    }
}
