//! The engagement gate at work: what nothing could have brought about is no claim, and no question either.

use std::collections::BTreeMap;

use super::void;
use crate::decide::Places;
use crate::gates::Finding;
use crate::verdict::{Design, Judgement, Outcome, Reason, Verdict};

/// Voids claims about configs none of whose options had a way to act, and says why, by config. A config that was idle in one
/// scenario only is judged by the others, unless it is the idle one that speaks against it.
pub(super) fn void_claims(
    judgement: &mut Judgement,
    places: &Places<'_>,
    design: &Design,
) -> BTreeMap<String, Vec<Finding>> {
    let idle = &places.gated().cells;
    let mut causes: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
    let mut fallen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for cell in &mut judgement.cells {
        let (claims, asks) = (is_claim(&cell.conclusion.outcome), is_question(&cell.conclusion.outcome));
        let Some(found) = idle.get(&(cell.scenario.clone(), cell.config.clone())).filter(|_| claims || asks) else {
            continue;
        };
        let found: Vec<Finding> = found.iter().cloned().collect();
        void(&mut cell.conclusion, &found, Vec::new());
        // What only asked for more runs has said nothing that the others' verdict could rest on.
        if !claims {
            continue;
        }
        fallen.entry(cell.config.clone()).or_default().push(cell.scenario.clone());
        causes.entry(cell.config.clone()).or_default().extend(found);
    }
    for config in &mut judgement.overall {
        let (claims, asks) = (is_claim(&config.conclusion.outcome), is_question(&config.conclusion.outcome));
        if !claims && !asks {
            continue;
        }
        let own = |scenario: &str| idle.get(&(scenario.to_owned(), config.config.clone()));
        let everywhere = design.scenarios.iter().all(|scenario| own(&scenario.name).is_some());
        if everywhere {
            let found: Vec<Finding> = design.scenarios.iter().filter_map(|s| own(&s.name)).flatten().cloned().collect();
            void(&mut config.conclusion, &found, Vec::new());
            causes.insert(config.config.clone(), found);
        } else if claims
            && let Some(scenarios) = fallen.remove(&config.config)
            && let Some(found) = causes.get(&config.config)
        {
            void(&mut config.conclusion, found, scenarios);
        }
    }
    causes
}

/// Whether an outcome says that the config made a difference. That it fails is seen in its runs, whatever it changes.
fn is_claim(outcome: &Outcome) -> bool {
    matches!(outcome.verdict, Verdict::Win | Verdict::Reject | Verdict::Tradeoff) && outcome.reason != Reason::Unstable
}

/// Whether it asks for more runs. Where nothing could act there is nothing that they could find, but why runs fail is no such question.
fn is_question(outcome: &Outcome) -> bool {
    outcome.verdict == Verdict::Inconclusive && outcome.reason != Reason::Failures
}

#[cfg(test)]
mod tests {
    use assay_protocol::Summary;

    use crate::attempt::Attempt;
    use crate::experiment::Experiment;
    use crate::gates::testing::{experiment, plan, scenario, summaries};
    use crate::report::Report;

    /// Two scenarios; a candidate that changes a memtable's size and is so many times as fast in the first.
    fn judged(factor: f64, idle: &[&str]) -> Report {
        judged_with(|summary| if summary.trial.scenario == "fill" { factor } else { 1.0 }, idle)
    }

    /// The same with a factor for each run of the candidate.
    fn judged_with(factor: impl Fn(&Summary) -> f64, idle: &[&str]) -> Report {
        let mut experiment: Experiment = experiment();
        experiment.scenarios.push(scenario("read"));
        let mut all = summaries(&experiment);
        for summary in &mut all {
            change(summary, factor(summary), idle);
        }
        let attempts: Vec<_> = all.into_iter().map(|summary| Attempt::Finished(summary.into())).collect();
        crate::judge::judge(&plan(&experiment), &attempts).unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn change(summary: &mut Summary, factor: f64, idle: &[&str]) {
        if idle.contains(&summary.trial.scenario.as_str()) {
            summary.engagement.filled_memtables = Some(0);
            summary.engagement.fullest_memtable_bytes = Some(4096);
        }
        if summary.trial.config == "candidate" {
            summary.metrics.entry("throughput".to_owned()).and_modify(|value| *value *= factor);
        }
    }

    fn verdicts(report: &Report) -> String {
        let overall = &report.configs[0].ruling;
        let cells: Vec<String> = report.cells.iter().map(|cell| format!("{:?}", cell.ruling.verdict)).collect();
        format!("{:?} {}: {}", overall.verdict, overall.reason, cells.join(" "))
    }

    #[test]
    fn a_claim_needs_an_option_that_could_act() {
        assert_eq!(verdicts(&judged(1.3, &[])), "Win Better:throughput: Win Neutral");
        assert_eq!(verdicts(&judged(1.3, &["fill", "read"])), "Invalid NotEngaged: Invalid Neutral");
        assert_eq!(verdicts(&judged(0.7, &["fill", "read"])), "Invalid NotEngaged: Invalid Neutral");
        assert_eq!(verdicts(&judged(1.0, &["fill", "read"])), "Neutral Equivalent: Neutral Neutral");
    }

    /// More runs are no help where there is nothing to find.
    #[test]
    fn noise_is_no_question_about_an_idle_option() {
        let noisy = |idle: &[&str]| {
            let factor = |summary: &Summary| match (summary.trial.scenario.as_str(), summary.trial.block % 2) {
                ("fill", 0) => 1.3,
                ("fill", _) => 0.8,
                _ => 1.0,
            };
            verdicts(&judged_with(factor, idle))
        };
        assert_eq!(noisy(&[]), "Inconclusive Underpowered: Inconclusive Neutral");
        assert_eq!(noisy(&["fill", "read"]), "Invalid NotEngaged: Invalid Neutral");
        // The question of a scenario that is not idle stays.
        assert_eq!(noisy(&["fill"]), "Inconclusive Underpowered: Invalid Neutral");
    }

    #[test]
    fn an_idle_scenario_is_no_stain_on_the_others() {
        let noisy_read = |summary: &Summary| match (summary.trial.scenario.as_str(), summary.trial.block % 2) {
            ("fill", _) => 1.3,
            (_, 0) => 1.1,
            _ => 0.9,
        };
        assert_eq!(verdicts(&judged_with(noisy_read, &["read"])), "Win Better:throughput: Win Invalid");
        assert_eq!(verdicts(&judged(1.3, &["read"])), "Win Better:throughput: Win Neutral");
        assert_eq!(verdicts(&judged(0.7, &["fill"])), "Invalid NotEngaged in fill: Invalid Neutral");
    }
}
