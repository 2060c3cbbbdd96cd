use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is bounded over a family of claims ("Families").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Adjust {
    /// The chance of any false claim.
    #[default]
    Holm,
    /// The expected share of false claims among those made. Exploratory: one false claim can still decide a verdict.
    Bh,
}

impl Adjust {
    pub fn apply(self, p: &[f64]) -> Vec<f64> {
        match self {
            Self::Holm => holm(p),
            Self::Bh => benjamini_hochberg(p),
        }
    }
}

/// Step-down adjusted p values (Holm, "A Simple Sequentially Rejective Multiple Test Procedure").
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![0.0; p.len()];
    let mut largest: f64 = 0.0;
    for (rank, i) in ascending(p).into_iter().enumerate() {
        largest = largest.max((p.len() - rank) as f64 * p[i]).min(1.0);
        adjusted[i] = largest;
    }
    adjusted
}

/// Step-up adjusted p values (Benjamini and Hochberg, "Controlling the False Discovery Rate").
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![0.0; p.len()];
    let mut smallest: f64 = 1.0;
    for (rank, i) in ascending(p).into_iter().enumerate().rev() {
        smallest = smallest.min(p.len() as f64 * p[i] / (rank + 1) as f64);
        adjusted[i] = smallest;
    }
    adjusted
}

fn ascending(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_claim_needs_no_correction() {
        assert_eq!(holm(&[0.04]), [0.04]);
        assert_eq!(benjamini_hochberg(&[0.04]), [0.04]);
        assert_eq!(holm(&[]), [0.0; 0]);
    }

    #[test]
    fn adjusted_values_keep_the_order_and_stay_probabilities() {
        let p = [0.5, 0.02, 0.9, 0.021];
        assert_eq!(holm(&p), [1.0, 0.08, 1.0, 0.08]);
        assert_eq!(benjamini_hochberg(&p), [4.0 * 0.5 / 3.0, 0.042, 0.9, 0.042]);
    }
}
