use super::design::{Design, MetricRule};
use crate::stats::{ALPHA, Adjust, Scale};

/// Slow tails for which the promise about means was simulated to hold, in margins and at most: a tail that is long beside the margin makes
/// the typical run better than the margin allows for, and a skewed sum needs more blocks to be known.
const TAIL_MARGINS: f64 = 4.0;
const LONGEST_TAIL: f64 = 0.2;

/// What the verdicts of a design promise, about what, and what they do not, in sentences to print ("Guarantees").
pub fn guarantees(design: &Design) -> Vec<String> {
    let percent = ALPHA * 100.0;
    let families = design.families();
    let scenarios: Vec<&str> = design.scenarios.iter().map(|s| s.name.as_str()).collect();
    let sized = if design.metrics.iter().any(|rule| rule.at_least.is_some()) {
        " (or only by less than its atLeast)"
    } else {
        ""
    };
    let claims = |count: usize| if count == 1 { "1 claim".to_owned() } else { format!("{count} claims") };
    let cells = match design.cells_adjust {
        Adjust::Holm => format!(
            "The same holds separately for the verdicts per scenario ({} of a gain, {} of harm).",
            claims(families.cells.better),
            families.cells.worse
        ),
        Adjust::Bh => format!(
            "Verdicts per scenario are exploratory: at most {percent} % of the gains claimed there are expected to be \
             false, and likewise for harm. A false claim can also turn an overall verdict into Reject or Tradeoff."
        ),
    };
    let mut sentences = vec![
        format!(
            "Typical run: if no config really improves the typical run of an objective{sized}, the chance of any \
             overall Win is at most {percent} % ({}). If no config really harms a required metric or fails more \
             often than the baseline, the chance of any overall claim of harm is at most {percent} % ({}), not \
             counting vetoes of single scenarios.",
            claims(families.overall.better),
            claims(families.overall.worse)
        ),
        cells,
        format!(
            "Scenarios: a config gets a Win with at most {percent} % probability if its typical run really loses in \
             some scenario what a Win may lose there, or more. It gets a Neutral with at most {percent} % probability \
             if its effect on an objective is at or beyond the margin, or an objective really loses in some scenario what \
             a Neutral may lose there."
        ),
    ];
    let margins = design.metrics.iter().filter(|rule| rule.purpose.is_required() && rule.scale == Scale::Log);
    if let Some(margin) = margins.map(MetricRule::margin_per_scenario).reduce(f64::min) {
        sentences.push(format!(
            "Mean: a config gets a Win with at most about {percent} % probability if its runs together really lose \
             that much in some scenario. This is exact if differences scatter symmetrically. With slow tails \
             (exponential) of a standard deviation of up to {:.0} %, simulations gave at most about 7 %; with tails \
             twice as long, it can be 30 %. Slow runs too rare to be among these stay unseen: if a tenth of all runs \
             is slow, 12 runs have none of them with 28 % probability.",
            100.0 * (TAIL_MARGINS * margin).min(LONGEST_TAIL)
        ));
    }
    sentences.push(
        "Failures: a Win or Neutral also holds with as many failed or lost runs as the config could have beyond the \
         baseline's share, at 95 %. A config of which more runs damaged data gets neither."
            .to_owned(),
    );
    sentences.push(format!(
        "All this applies only to the nodes and the dataset measured here and to the {} {}. It is exact if the runs of a \
         block could have run in any order, or if differences from the baseline scatter symmetrically.",
        if scenarios.len() == 1 { "scenario" } else { "scenarios" },
        scenarios.join(", ")
    ));
    if let Some(looks) = &design.looks {
        let blocks: Vec<String> = looks.blocks.iter().map(ToString::to_string).collect();
        sentences.push(format!(
            "Looks after {} blocks are accounted for: they do not add to these errors.",
            blocks.join(", ")
        ));
    }
    sentences
}
