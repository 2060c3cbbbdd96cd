use super::design::Design;
use crate::stats::{ALPHA, Adjust};

/// What the verdicts of a design promise, in sentences to print ("Guarantees").
pub fn guarantees(design: &Design) -> Vec<String> {
    let percent = ALPHA * 100.0;
    let families = design.families();
    let scenarios: Vec<&str> = design.scenarios.iter().map(|s| s.name.as_str()).collect();
    let cells = match design.cells_adjust {
        Adjust::Holm => format!(
            "The same holds, separately, for the verdicts per scenario ({} claims of a gain, {} of harm).",
            families.cells.better, families.cells.worse
        ),
        Adjust::Bh => format!(
            "Verdicts per scenario are exploratory: of the gains claimed there, at most {percent} % are expected to be false, \
             and likewise of the harm. A false one can also turn an overall verdict into Reject or Tradeoff."
        ),
    };
    let mut sentences = vec![
        format!(
            "If no config really improves an objective, the chance that this experiment reports any overall Win is at most \
             {percent} % ({} claims); if none really harms a required metric, so is the chance of any overall claim of harm ({} claims).",
            families.overall.better, families.overall.worse
        ),
        cells,
        format!(
            "A config whose true effect on an objective is at or beyond the margin is called Neutral with at most {percent} % \
             probability. One that harms a required metric by its margin or more is called Win with at most {percent} %."
        ),
        format!(
            "This is about the nodes and the dataset measured here and the scenarios {}, nothing else. It is exact if the runs of \
             a block could have been in any order, or if differences to the baseline scatter symmetrically.",
            scenarios.join(", ")
        ),
    ];
    if let Some(looks) = &design.looks {
        let blocks: Vec<String> = looks.blocks.iter().map(ToString::to_string).collect();
        sentences
            .push(format!("Judging after {} blocks is paid for: no look adds to these errors.", blocks.join(", ")));
    }
    sentences
}
