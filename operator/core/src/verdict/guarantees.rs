use super::design::Design;
use crate::stats::{ALPHA, Adjust};

/// What the verdicts of a design promise, about what, and what they do not, in sentences to print ("Guarantees").
pub fn guarantees(design: &Design) -> Vec<String> {
    let percent = ALPHA * 100.0;
    let families = design.families();
    let scenarios: Vec<&str> = design.scenarios.iter().map(|s| s.name.as_str()).collect();
    let sized =
        if design.metrics.iter().any(|rule| rule.at_least.is_some()) { ", or by less than it was to," } else { "" };
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
            "Centre: if no config really improves the typical run of an objective{sized} the chance that this experiment reports any \
             overall Win is at most {percent} % ({} claims). If none really harms a required metric, nor fails more often than the \
             baseline, so is the chance of any overall claim of harm ({} claims), not counting the veto of a single scenario.",
            families.overall.better, families.overall.worse
        ),
        cells,
        format!(
            "Scenarios: a config whose typical run really loses in some scenario what a Win may lose there, or more, is called Win with \
             at most {percent} % probability. One whose effect on an objective is at or beyond the margin is called Neutral with at most \
             {percent} %."
        ),
    ];
    if design.metrics.iter().any(super::MetricRule::has_total) {
        sentences.push(format!(
            "Mean: a config of which all runs together really lose as much in some scenario is called Win with at most about {percent} % \
             probability. That is exact where differences scatter symmetrically, and was simulated for slow tails (exponential, a standard \
             deviation of 20 %). With a few runs that take twice as long it can be 30 %. What spoils runs so rarely that none of these was hit can't be seen."
        ));
    }
    sentences.push(
        "Failures: a config of which a larger share of runs failed than of the baseline's in the same blocks is called neither Win nor \
         Neutral, nor is one that damaged data where the baseline did not."
            .to_owned(),
    );
    sentences.push(format!(
        "This is about the nodes and the dataset measured here and the scenarios {}, nothing else. It is exact if the runs of \
         a block could have been in any order, or if differences to the baseline scatter symmetrically.",
        scenarios.join(", ")
    ));
    if let Some(looks) = &design.looks {
        let blocks: Vec<String> = looks.blocks.iter().map(ToString::to_string).collect();
        sentences
            .push(format!("Judging after {} blocks is paid for: no look adds to these errors.", blocks.join(", ")));
    }
    sentences
}
