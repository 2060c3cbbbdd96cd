//! The search for the first bad candidate, wherever its visits run. What is next follows from the visits that were made, so the same
//! command continues whatever was ended.

mod asked;

use std::collections::BTreeMap;

use anyhow::bail;
use assay_core::bisect::{Answer, Arm, Bisection, Came, Listed, Next, Observed, Probe, Purpose};
use assay_core::stats::{Direction, Scale, WORST, measured_losses};
use assay_core::verdict::MetricRule;

use crate::folder::Visits;
use crate::print;
use crate::text::plural;
pub use asked::Asked;

/// Visits in a row of which nothing can be said, after which machines are left alone.
const NOTHING: u32 = 3;

/// A search, after the visits that were added.
pub struct Search {
    /// From the good end to the bad end.
    pub candidates: Vec<Listed>,
    pub rule: MetricRule,
    pub scenario: String,
    bisection: Bisection,
    avoided: BTreeMap<usize, String>,
    made: Vec<(Probe, Came)>,
    number: usize,
    /// Visits in a row that measured nothing.
    nothing: u32,
}

/// A visit to be made: each has a number of its own, counted from 1.
#[derive(Clone, Copy, Debug)]
pub struct Visit {
    pub number: usize,
    pub probe: Probe,
}

impl Visit {
    /// Which candidates it measures.
    pub fn sides(&self) -> [usize; 2] {
        [self.probe.reference, self.probe.candidate]
    }
}

/// A search that has ended.
pub struct Found {
    /// From the good end to the bad end.
    pub candidates: Vec<Listed>,
    pub rule: MetricRule,
    pub scenario: String,
    pub bisection: Bisection,
    pub answer: Answer,
    /// Candidates that can't be measured, and why.
    pub avoided: BTreeMap<usize, String>,
    pub visits: Vec<(Probe, Came)>,
    /// Where the visits can be looked at.
    pub place: String,
    /// Where the answer is kept, if it is.
    pub folder: Option<Visits>,
}

impl Search {
    /// The visit that is next; none once there is an answer.
    pub fn visit(&mut self) -> Option<Visit> {
        let Next::Visit(probe) = self.bisection.next() else { return None };
        self.number += 1;
        Some(Visit { number: self.number, probe })
    }

    /// Says that a visit begins.
    pub fn begin(&self, visit: &Visit, blocks: usize) {
        let purpose = match visit.probe.purpose {
            Purpose::Ends => "both ends",
            Purpose::Search => "search",
            Purpose::Verify => "proof",
            Purpose::Grid => "overview",
        };
        let [reference, candidate] = visit.sides().map(|side| &self.candidates[side].name);
        let (number, blocks) = (visit.number, plural(blocks, "block"));
        print::note(format_args!("assay: visit {number}, {purpose}: {candidate} against {reference}, {blocks}"));
    }

    /// Adds what a visit says. `is_new` if it was made now; `place` is where all of them are.
    pub fn add(&mut self, visit: &Visit, seen: Observed, is_new: bool, place: &str) -> anyhow::Result<()> {
        let Visit { number, probe } = visit;
        let came = match seen {
            Observed::Losses(losses) => Came::Measured(losses),
            Observed::Unusable(arm, why) => {
                let which = if arm == Arm::Reference { probe.reference } else { probe.candidate };
                let name = &self.candidates[which].name;
                print::note(format_args!("assay: {name} can't be measured and is avoided: {why}"));
                self.avoided.insert(which, why);
                Came::Unusable(which)
            }
            Observed::Nothing(why) => {
                self.nothing += u32::from(is_new);
                if self.nothing >= NOTHING {
                    bail!(
                        "{NOTHING} visits in a row measured nothing ({why}): look at them ({place}), fix the cause, and run the same command \
                         again"
                    );
                }
                print::note(format_args!("assay: visit {number} measured nothing and is repeated: {why}"));
                return Ok(());
            }
        };
        self.nothing = 0;
        self.bisection.add(probe, came.clone());
        self.say(visit, &came);
        self.made.push((*probe, came));
        Ok(())
    }

    fn say(&self, Visit { number, probe }: &Visit, came: &Came) {
        let Came::Measured(losses) = came else { return };
        let measured = measured_losses(losses);
        let mean = measured.iter().sum::<f64>() / measured.len().max(1) as f64;
        let failed = losses.iter().filter(|loss| **loss >= WORST).count();
        let failed = if failed > 0 { format!("; {} failed", plural(failed, "run of it")) } else { String::new() };
        let names = [probe.reference, probe.candidate].map(|side| &self.candidates[side].name);
        let bisection = &self.bisection;
        let belief = if let Next::Visit(_) = bisection.next() { bisection.belief() } else { None };
        let suspect = belief.and_then(|belief| belief.likeliest(bisection.candidates()));
        let suspect = suspect.map_or(String::new(), |group| {
            let chance = 100.0 * group.probability;
            format!("; likeliest culprit {} ({chance:.0} %)", self.candidates[group.last].name)
        });
        let worse = worse(&self.rule, mean);
        print::note(format_args!("assay: visit {number}: {} is {worse} than {}{failed}{suspect}", names[1], names[0]));
        if probe.purpose == Purpose::Ends
            && let Some(expected) = bisection.expected_blocks()
        {
            let budget = bisection.budget();
            let expected = expected.max(1.0).min(budget as f64);
            print::note(format_args!("assay: the search takes about {expected:.0} blocks, {budget} at most"));
        }
    }

    /// The end of a search that has no further visit.
    pub fn found(self, place: String, folder: Option<Visits>) -> anyhow::Result<Found> {
        let Next::Answer(answer) = self.bisection.next() else { bail!("the search has not ended") };
        let Self { candidates, rule, scenario, bisection, avoided, made: visits, .. } = self;
        Ok(Found { candidates, rule, scenario, bisection, answer, avoided, visits, place, folder })
    }
}

/// A loss in words: in percent, or in points where the metric is a share.
pub fn worse(rule: &MetricRule, loss: f64) -> String {
    let size = worse_percent(rule, loss);
    let unit = if rule.scale == Scale::Log { " %" } else { " points" };
    // What is rounded to nothing has no sign.
    let word = if size <= -0.05 { "better" } else { "worse" };
    format!("{:.1}{unit} {word}", size.abs())
}

/// A loss in percent, or in percentage points where the metric is a share.
pub fn worse_percent(rule: &MetricRule, loss: f64) -> f64 {
    100.0
        * match (rule.scale, rule.direction) {
            (Scale::Linear, _) => loss,
            (Scale::Log, Direction::Higher) => -(-loss).exp_m1(),
            (Scale::Log, Direction::Lower) => loss.exp_m1(),
        }
}
