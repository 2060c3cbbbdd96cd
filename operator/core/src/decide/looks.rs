//! Looks: planned judgements during an experiment that free the trials of configs that are decided.
//!
//! A look sees the rounds before it and nothing else, gates included. So it says the same whenever it is taken again, from
//! whatever was recorded since, and a config that it has decided stays decided.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::places::{Places, Unplanned};
use super::said::Said;
use super::samples::Samples;
use crate::attempt::Attempt;
use crate::gates::Gated;
use crate::plan::Plan;
use crate::verdict::{self, Design, Intervals, LookPlan};

impl<'a> Places<'a> {
    /// Sorts attempts into the plan. Of two attempts with the same identity only the first counts.
    pub fn new(plan: &'a Plan, attempts: &'a [Attempt]) -> Result<Self, Unplanned> {
        Self::again(plan, attempts, &mut Said::default())
    }

    /// The same for who asks again and again, with what was said of attempts of this plan before.
    pub fn again(plan: &'a Plan, attempts: &'a [Attempt], said: &mut Said) -> Result<Self, Unplanned> {
        let mut places = Self::unlooked(plan, attempts, said.of(usize::MAX, &plan.experiment, attempts))?;
        if let Some(planned) = &plan.experiment.looks {
            let Looked { decided, skipped } = looked(&places, planned, said)?;
            for (config, rounds) in decided {
                places.free(&config, rounds);
            }
            places.skipped = skipped;
        }
        Ok(places)
    }
}

/// What came of the looks so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Looked {
    /// Configs that they have decided, and the rounds after which they did.
    pub decided: BTreeMap<String, u32>,
    /// Looks that were not taken.
    pub skipped: Vec<usize>,
}

/// What a look shows.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shown {
    /// It is too early for it, or nothing can be judged.
    Nothing,
    Skipped,
    /// Configs that need no more runs, those that were decided before among them.
    Decided(Vec<String>),
}

fn looked(places: &Places<'_>, planned: &LookPlan, said: &mut Said) -> Result<Looked, Unplanned> {
    let mut looked = Looked::default();
    let plan = places.plan();
    let design = plan.experiment.design();
    // The last look is the end.
    let Some((_, early)) = planned.blocks.split_last() else { return Ok(looked) };
    for &rounds in early {
        let before = places.before(rounds);
        let gated = said.of(rounds, &plan.experiment, &before);
        let look = || look(plan, &design, rounds, &before, &gated, &looked);
        match said.look(rounds, &gated, &looked, look)? {
            Shown::Nothing => break,
            Shown::Skipped => looked.skipped.push(rounds),
            Shown::Decided(configs) => {
                for config in configs {
                    looked.decided.entry(config).or_insert(rounds as u32);
                }
            }
        }
        if looked.decided.len() == design.configs.len() {
            break;
        }
    }
    Ok(looked)
}

/// Looks at all attempts of the first so many rounds.
fn look(
    plan: &Plan,
    design: &Design,
    rounds: usize,
    attempts: &[Attempt],
    gated: &Arc<Gated>,
    earlier: &Looked,
) -> Result<Shown, Unplanned> {
    let mut seen = Places::unlooked(plan, attempts, Arc::clone(gated))?;
    for (config, since) in &earlier.decided {
        seen.free(config, *since);
    }
    if seen.rounds_closed() < rounds {
        return Ok(Shown::Nothing);
    }
    // What is wrong with a scenario so far may mend itself: no reason to stop, and none to decide.
    if !seen.gated().scenarios.is_empty() {
        return Ok(Shown::Skipped);
    }
    let design = design.without_looks(&earlier.skipped);
    let samples = Samples::of(&seen, &design, rounds, false);
    // What can't be judged at all ends without a look.
    let Ok(judgement) = verdict::judge(&design, &samples.observed, Intervals::None) else { return Ok(Shown::Nothing) };
    let decided = judgement.overall.iter().filter(|found| found.stopped_at.is_some());
    Ok(Shown::Decided(decided.map(|found| found.config.clone()).collect()))
}

#[cfg(test)]
mod tests {
    use assay_protocol::{Digest, Summary, TrialId};

    use super::*;
    use crate::attempt::{Lost, LostReason, Moment};
    use crate::decide::{Action, decide};
    use crate::experiment::Experiment;
    use crate::gates::testing::{experiment, plan, scenario, summary};
    use crate::judge::judge;
    use crate::report::{INCOMPLETE, Report};
    use crate::verdict::{StopOn, Verdict};

    /// Three configs and two scenarios, with looks after 12, 20 and 30 rounds.
    fn adaptive() -> Experiment {
        let mut experiment = experiment();
        experiment.scenarios.push(scenario("read"));
        let mut open = experiment.configs[1].clone();
        open.name = "open".to_owned();
        experiment.configs.push(open);
        experiment.baseline_replicates = 2;
        experiment.repetitions = 30;
        experiment.looks = Some(LookPlan { blocks: vec![12, 20, 30], stop_on: StopOn::Overall, futility: true });
        experiment
    }

    /// A clear gain of `candidate`, and `open` all over the place.
    fn value(trial: &TrialId) -> f64 {
        let turn = if trial.block.is_multiple_of(2) { 1.0 } else { -1.0 };
        let noise = 1000.0 + f64::from(trial.block % 3) + turn * f64::from(trial.replicate);
        match trial.config.as_str() {
            "candidate" => 1.2 * noise,
            "open" if trial.block.is_multiple_of(2) => 1.4 * noise,
            "open" => 0.7 * noise,
            _ => noise,
        }
    }

    fn run(experiment: &Experiment, value: impl Fn(&TrialId) -> f64) -> Vec<Attempt> {
        run_as(experiment, value, |_| ())
    }

    /// The same with something done to each run.
    fn run_as(experiment: &Experiment, value: impl Fn(&TrialId) -> f64, change: impl Fn(&mut Summary)) -> Vec<Attempt> {
        let plan = plan(experiment);
        let boot = Digest::of(b"boot");
        let now = Moment { unix_ms: 1_700_000_000_000, boot: Some(&boot) };
        let mut attempts = Vec::new();
        while let Ok(Action::Run { trial, .. }) = decide(&plan, &attempts, now) {
            let mut summary = summary(&trial);
            summary.metrics.insert("throughput".to_owned(), value(&trial));
            change(&mut summary);
            attempts.push(Attempt::Finished(summary.into()));
        }
        attempts
    }

    /// Rounds in which a config was run in every scenario.
    fn rounds(experiment: &Experiment, attempts: &[Attempt], config: &str) -> usize {
        let replicates = if config == "base" { experiment.baseline_replicates as usize } else { 1 };
        let runs = attempts.iter().filter(|attempt| attempt.trial().config == config).count();
        runs / replicates / experiment.scenarios.len()
    }

    fn judged(experiment: &Experiment, attempts: &[Attempt]) -> Report {
        judge(&plan(experiment), attempts).unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn verdict(report: &Report, config: usize) -> String {
        let ruling = &report.configs[config].ruling;
        format!("{:?} {}", ruling.verdict, ruling.reason)
    }

    #[test]
    fn a_decided_config_is_not_run_any_more() {
        let experiment = adaptive();
        let attempts = run(&experiment, value);
        let all = |config| rounds(&experiment, &attempts, config);
        assert_eq!((all("candidate"), all("open"), all("base")), (12, 30, 30));
        let report = judged(&experiment, &attempts);
        assert!(report.progress.complete);
        assert_eq!(report.progress.freed, 2 * 18);
        assert_eq!(report.looks.iter().map(|look| look.blocks).collect::<Vec<_>>(), [12, 20, 30]);
        assert_eq!((report.configs[0].stopped_after, report.configs[1].stopped_after), (Some(12), None));
        assert_eq!(verdict(&report, 0), "Win Better:throughput");
        assert_eq!(report.configs[0].ruling.estimates[0].blocks, 12);
        assert_eq!(verdict(&report, 1), "Inconclusive Underpowered");
    }

    #[test]
    fn without_looks_everything_is_run() {
        let mut experiment = adaptive();
        experiment.looks = None;
        let attempts = run(&experiment, value);
        assert_eq!(attempts.len() as u64, experiment.trials());
    }

    #[test]
    fn when_all_are_decided_nobody_needs_the_baseline() {
        let experiment = adaptive();
        let slower = |trial: &TrialId| if trial.config == "open" { 700.0 } else { value(trial) };
        let attempts = run(&experiment, slower);
        assert_eq!(rounds(&experiment, &attempts, "base"), 12);
        let report = judged(&experiment, &attempts);
        assert_eq!((report.progress.blocks_planned, report.progress.blocks_done), (60, 24));
        assert!(report.progress.complete);
        assert_eq!(
            (verdict(&report, 0), verdict(&report, 1)),
            ("Win Better:throughput".into(), "Reject Harm:throughput".into())
        );
    }

    #[test]
    fn places_are_the_same_for_who_remembers_what_was_said() {
        let experiment = adaptive();
        let attempts = run_as(&experiment, value, |summary| {
            // Some are repeated, and what is said of others depends on all.
            summary.steady.settled_before =
                Some(!(summary.trial.block.is_multiple_of(5) && summary.trial.attempt == 0));
        });
        let plan = plan(&experiment);
        let mut said = Said::default();
        let counts = (0..attempts.len()).step_by(7).flat_map(|count| [count, count]);
        for some in counts.chain([attempts.len()]).map(|count| &attempts[..count]) {
            let known = Places::again(&plan, some, &mut said).unwrap_or_else(|error| unreachable!("{error}"));
            let anew = Places::new(&plan, some).unwrap_or_else(|error| unreachable!("{error}"));
            assert_eq!(known.gated(), anew.gated());
            assert_eq!(known.blocks(), anew.blocks());
            assert_eq!((known.decided_at(), known.skipped()), (anew.decided_at(), anew.skipped()));
        }
        assert!(attempts.iter().any(|attempt| attempt.trial().attempt > 0));
    }

    #[test]
    fn a_decision_never_changes() {
        let experiment = adaptive();
        let attempts = run(&experiment, value);
        let plan = plan(&experiment);
        let planned = experiment.looks.clone().unwrap_or_else(|| unreachable!());
        let decided_by = |count: usize| {
            let mut some = attempts[..count].to_vec();
            some.reverse();
            let said = Said::default().of(usize::MAX, &plan.experiment, &some);
            let places = Places::unlooked(&plan, &some, said).unwrap_or_else(|error| unreachable!("{error}"));
            looked(&places, &planned, &mut Said::default()).unwrap_or_else(|error| unreachable!("{error}")).decided
        };
        let first_look = 12 * 2 * 4;
        assert!(decided_by(first_look - 1).is_empty());
        for count in [first_look, first_look + 1, attempts.len() / 2, attempts.len()] {
            assert_eq!(decided_by(count), BTreeMap::from([("candidate".to_owned(), 12)]), "{count} attempts");
        }
    }

    /// Judged at the first look and at the end.
    fn at_look_and_end(change: impl Fn(&mut Summary)) -> [String; 2] {
        let experiment = adaptive();
        let attempts = run_as(&experiment, value, change);
        let first: Vec<Attempt> = attempts.iter().filter(|attempt| attempt.trial().block < 12).cloned().collect();
        assert!(first.len() < attempts.len(), "rounds came after the look");
        [judged(&experiment, &first), judged(&experiment, &attempts)].map(|report| verdict(&report, 0))
    }

    /// A noisy first day, the same for all: a config that needed no second one is not the noisier for it.
    #[test]
    fn what_is_announced_is_not_taken_back_by_better_days() {
        let noisy = |summary: &mut Summary| {
            if summary.trial.block < 12 && summary.trial.attempt == 0 {
                summary.disturbance.clock_step_seconds = Some(9.0);
            }
        };
        assert_eq!(at_look_and_end(noisy), ["Win Better:throughput"; 2]);
    }

    /// Inserts `count` evicted attempts before each attempt.
    fn evicted(experiment: &Experiment, attempts: Vec<Attempt>, count: impl Fn(&TrialId) -> u32) -> Vec<Attempt> {
        let plan = plan(experiment).digest;
        let before = |attempt: Attempt| {
            let (id, count) = (attempt.trial().clone(), count(attempt.trial()));
            let lost = |number| Lost {
                plan: plan.clone(),
                trial: TrialId { attempt: number, ..id.clone() },
                started_unix_ms: 1_700_000_000_000,
                boot: Some(Digest::of(b"boot")),
                reason: LostReason::Evicted,
                message: String::new(),
            };
            let mut all: Vec<Attempt> = (0..count).map(|number| Attempt::from(lost(number))).collect();
            if let (Attempt::Finished(summary), true) = (attempt, count < 3) {
                let mut summary = (*summary).clone();
                summary.trial.attempt = count;
                all.push(Attempt::Finished(summary.into()));
            }
            all
        };
        attempts.into_iter().flat_map(before).collect()
    }

    /// A look that left a config open because it had lost too many attempts did so for good: the next one sees all rounds.
    #[test]
    fn a_doubt_at_a_look_is_not_forgotten_at_the_next() {
        let experiment = adaptive();
        let all = run(&Experiment { looks: None, ..experiment.clone() }, value);
        let all: Vec<Attempt> = all
            .into_iter()
            .map(|attempt| {
                let Attempt::Finished(summary) = attempt else { unreachable!() };
                let mut summary = (*summary).clone();
                summary.plan = plan(&experiment).digest;
                Attempt::Finished(summary.into())
            })
            .collect();
        let attempts = evicted(&experiment, all, |id| {
            let early = id.config == "candidate" && id.block < 3;
            let late = id.config == "base" && (12..20).contains(&id.block);
            u32::from((early || late) && id.scenario == "fill")
        });
        let planned = plan(&experiment);
        let places = Places::new(&planned, &attempts).unwrap_or_else(|error| unreachable!("{error}"));
        assert!(!places.decided_at().contains_key(&12));
        assert!(places.decided_at()[&20].contains(&"candidate"));
        let report = judged(&experiment, &attempts);
        assert_eq!(
            (verdict(&report, 0).as_str(), report.configs[0].ruling.estimates[0].blocks),
            ("Win Better:throughput", 20)
        );
    }

    /// Nor by a baseline that spends its time elsewhere from then on.
    #[test]
    fn what_is_announced_is_not_taken_back_by_later_evidence() {
        let elsewhere = |since: u32| {
            move |summary: &mut Summary| {
                if summary.trial.block >= since {
                    (summary.primary.db_percent, summary.primary.run_queue_percent) = (1.0, Some(0.0));
                    summary.metrics.remove("step_latency_mean");
                }
            }
        };
        assert_eq!(at_look_and_end(elsewhere(12)), ["Win Better:throughput"; 2]);
        assert_eq!(at_look_and_end(elsewhere(0)), ["Invalid CausalPathExceeded"; 2]);
    }

    /// Three lost runs of 12 need a note and three of 30 do not, so only the config that a look decided after 12 blocks has one. The baseline
    /// loses the same number of first attempts, so attrition is not involved.
    #[test]
    fn what_a_look_had_to_say_of_a_config_it_decided_is_said_in_the_end() {
        let experiment = adaptive();
        let attempts = evicted(&experiment, run(&experiment, value), |id| {
            let is_early = id.block < 3 && id.scenario == "fill";
            if is_early { if id.config == "base" { 1 } else { 3 } } else { 0 }
        });
        let report = judged(&experiment, &attempts);
        assert_eq!(verdict(&report, 0), "Win Better:throughput");
        let told = report.notes.iter().filter(|note| note.text.ends_with("gave no measurement."));
        let told: Vec<_> = told.map(|note| (note.config.as_deref(), note.text.as_str())).collect();
        assert_eq!(told, [(Some("candidate"), "3 of 12 runs in fill gave no measurement.")]);
    }

    /// While a scenario can't be judged nobody looks, and nobody acts later as if somebody had.
    #[test]
    fn a_look_that_was_not_taken_decides_nothing_at_the_end() {
        let experiment = adaptive();
        // The baseline leaves removals undone at first; over all rounds it does not.
        let overdue = |summary: &mut Summary| {
            summary.steady.overdue_percent = Some(if summary.trial.block < 12 { 80.0 } else { 0.0 });
        };
        let judged_at_end = |value: &dyn Fn(&TrialId) -> f64| {
            let attempts = run_as(&experiment, value, overdue);
            assert_eq!(rounds(&experiment, &attempts, "candidate"), 30, "looks after 12 and 20 rounds are skipped");
            let report = judged(&experiment, &attempts);
            let looks: Vec<u32> = report.looks.iter().map(|look| look.blocks).collect();
            assert_eq!(looks, [30]);
            assert!(report.notes.iter().any(|note| note.text.starts_with("No look was taken after 12 and 20 blocks")));
            (verdict(&report, 0), report.configs[0].ruling.estimates[0].blocks)
        };
        assert_eq!(judged_at_end(&value), ("Win Better:throughput".into(), 30));
        // A gain of the rounds before the look alone is none.
        let early = |trial: &TrialId| {
            let own = trial.config == "candidate" && trial.block >= 12;
            if own { value(trial) / 1.44 } else { value(trial) }
        };
        let (found, blocks) = judged_at_end(&early);
        assert_eq!((found.contains("Win"), blocks), (false, 30), "{found}");
    }

    #[test]
    fn a_verdict_is_announced_at_its_look_and_no_other_before() {
        let experiment = adaptive();
        let attempts = run(&experiment, value);
        let first_look = 12 * 2 * 4;
        let before = judged(&experiment, &attempts[..first_look - 1]);
        assert!(before.configs.iter().all(|config| config.ruling.reason == INCOMPLETE));
        let after = judged(&experiment, &attempts[..first_look]);
        assert_eq!(verdict(&after, 0), "Win Better:throughput");
        assert!(after.configs[0].ruling.estimates[0].p.is_some());
        assert_eq!(after.configs[1].ruling.reason, INCOMPLETE);
        assert!(after.configs[1].ruling.estimates[0].p.is_none());
        assert!(after.cells.iter().all(|cell| (cell.ruling.verdict == Verdict::Win) == (cell.config == "candidate")));
    }

    #[test]
    fn cells_keep_a_config_running() {
        let mut experiment = adaptive();
        experiment.looks = Some(LookPlan { blocks: vec![12, 20, 30], stop_on: StopOn::Cells, futility: false });
        // Clear over both scenarios, open in one of them.
        let mixed = |trial: &TrialId| {
            let own = trial.config == "candidate" && trial.scenario == "read";
            if own { if trial.block.is_multiple_of(2) { 1.2e3 } else { 0.99e3 } } else { value(trial) }
        };
        let attempts = run(&experiment, mixed);
        assert!(rounds(&experiment, &attempts, "candidate") > 12);
        experiment.looks = Some(LookPlan { blocks: vec![12, 20, 30], stop_on: StopOn::Overall, futility: false });
        assert_eq!(rounds(&experiment, &run(&experiment, mixed), "candidate"), 12);
    }
}
