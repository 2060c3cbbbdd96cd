//! What may be the first bad candidate, and which candidates can be visited.

use std::ops::RangeInclusive;

use assay_protocol::Digest;

/// One of the candidates, the good end included.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// What it is: the digest of its program or of its options.
    pub digest: Digest,
    /// How much more likely it is to be the culprit than one of weight 1.
    pub weight: f64,
}

/// All candidates, from the good end to the bad end.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidates {
    /// The chance of each to be the first bad one, if one of them is. That of the good end is 0.
    prior: Vec<f64>,
    usable: Vec<bool>,
}

/// Candidates that no visit can tell apart: those after one that can be visited, up to the next such one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// The last candidate before them.
    pub after: usize,
    /// The last of them, which can be visited.
    pub last: usize,
    /// The chance that the first bad one is among them.
    pub probability: f64,
}

impl Group {
    pub fn members(&self) -> RangeInclusive<usize> {
        self.after + 1..=self.last
    }
}

impl Candidates {
    /// Equal candidates behave alike, so none after the first of them, up to the last of them, can be the first bad one. `None` if that
    /// leaves no candidate, or if weights are no weights.
    pub fn new(all: &[Candidate]) -> Option<Self> {
        let is_weight = |candidate: &Candidate| candidate.weight.is_finite() && candidate.weight > 0.0;
        let mut prior: Vec<f64> = all.iter().map(|candidate| candidate.weight).collect();
        *prior.first_mut()? = 0.0;
        for (first, candidate) in all.iter().enumerate() {
            if let Some(last) = all.iter().rposition(|other| other.digest == candidate.digest) {
                prior[first + 1..=last].fill(0.0);
            }
        }
        let total: f64 = prior.iter().sum();
        if !all.iter().all(is_weight) || total <= 0.0 {
            return None;
        }
        Some(Self { prior: prior.iter().map(|weight| weight / total).collect(), usable: vec![true; all.len()] })
    }

    /// The number of the bad end.
    pub fn last(&self) -> usize {
        self.prior.len() - 1
    }

    /// How many of them can be the first bad one.
    pub fn suspects(&self) -> usize {
        self.prior.iter().filter(|prior| **prior > 0.0).count()
    }

    pub fn prior(&self) -> &[f64] {
        &self.prior
    }

    pub fn is_usable(&self, candidate: usize) -> bool {
        self.usable.get(candidate).copied().unwrap_or(false)
    }

    /// It can't run, so it is not visited again.
    pub fn avoid(&mut self, candidate: usize) {
        if let Some(usable) = self.usable.get_mut(candidate) {
            *usable = false;
        }
    }

    /// None of these is the first bad one any more. `false` if that leaves none.
    pub(super) fn clear(&mut self, group: &Group) -> bool {
        self.prior[group.members()].fill(0.0);
        let total: f64 = self.prior.iter().sum();
        if total <= 0.0 {
            return false;
        }
        for prior in &mut self.prior {
            *prior /= total;
        }
        true
    }

    /// Those after the good end that can be visited.
    pub fn usable(&self) -> impl Iterator<Item = usize> + '_ {
        (1..self.usable.len()).filter(|&candidate| self.usable[candidate])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(digests: &str) -> Option<Candidates> {
        let candidate = |name: char| Candidate { digest: Digest::of(name.to_string().as_bytes()), weight: 1.0 };
        Candidates::new(&digests.chars().map(candidate).collect::<Vec<_>>())
    }

    #[test]
    fn equal_candidates_can_not_differ() {
        let prior = |digests: &str| candidates(digests).unwrap().prior().to_vec();
        assert_eq!(prior("abc"), [0.0, 0.5, 0.5]);
        assert_eq!(prior("abbc"), [0.0, 0.5, 0.0, 0.5], "nothing changed from the first b to the second");
        assert_eq!(prior("abac"), [0.0, 0.0, 0.0, 1.0], "it was undone");
        assert_eq!(prior("abcb"), [0.0, 1.0, 0.0, 0.0], "the bad end was there before");
        assert_eq!(candidates("aba"), None, "both ends are the same");
        assert_eq!((candidates("a"), candidates("")), (None, None));
    }

    #[test]
    fn weights_are_shares_and_must_be_weights() {
        let of = |weights: [f64; 3]| {
            let candidate =
                |(number, weight): (usize, &f64)| Candidate { digest: Digest::of(&[number as u8]), weight: *weight };
            Candidates::new(&weights.iter().enumerate().map(candidate).collect::<Vec<_>>())
        };
        assert_eq!(of([1.0, 3.0, 1.0]).unwrap().prior(), [0.0, 0.75, 0.25]);
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(of([1.0, wrong, 1.0]), None, "{wrong}");
        }
    }
}
