//! Disturbance on shared machines: claims that a config owes to having been left in peace more than the baseline are taken away.
//!
//! On a shared machine no single disturbance costs a run. Blocks in random order give every arm its share, and what a share of bad luck
//! is worth the interval says. What is left to check is whether one arm had less of it in the end, by so much that its claim
//! hangs on it ("Shared machines").

use std::collections::BTreeMap;

use assay_protocol::{Summary, metric};

use super::void;
use crate::decide::{Fate, Places};
use crate::experiment::Environment;
use crate::gates::{Code, Finding, Gate, Note, Unknown, share_taken};
use crate::stats::{ALPHA, Adjust, Direction, Scale};
use crate::verdict::{
    self, Conclusion, Design, Effect, Intervals, JudgeError, Judgement, Look, MetricRule, MetricSamples, Observed,
    Purpose, Reason, Verdict,
};

/// Voids claims that the difference in disturbance can explain, and says why, by config.
pub(super) fn void_claims(
    judgement: &mut Judgement,
    places: &Places<'_>,
    design: &Design,
    observed: &Observed,
    look: Look,
) -> Result<BTreeMap<String, Vec<Finding>>, JudgeError> {
    let mut causes: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
    if places.plan().experiment.environment == Environment::Dedicated {
        return Ok(causes);
    }
    let alpha = ALPHA * look.overall.scenario;
    let peace = design_of_peace(design);
    let seen = peace_of(places, design, observed);
    // Most often no claim was favoured, and then nobody asks by how much.
    let mut peaceful = verdict::judge(&peace, &seen, Intervals::None)?;
    let is_uneven =
        |Effect { p, .. }: &Effect| [p.better_adjusted, p.worse_adjusted].into_iter().flatten().any(|p| p <= alpha);
    let all = peaceful.overall.iter().map(|o| &o.conclusion).chain(peaceful.cells.iter().map(|c| &c.conclusion));
    if !all.flat_map(|conclusion| &conclusion.metrics).any(is_uneven) {
        return Ok(causes);
    }
    peaceful = verdict::judge(&peace, &seen, Intervals::BothLevels)?;
    for config in 0..design.configs.len() {
        let own = &mut judgement.overall[config];
        for (finding, handicap) in advantages(&own.conclusion, &peaceful.overall[config].conclusion, &own.config, alpha)
        {
            if undone(design, observed, config, handicap, |again| &again.overall[config].conclusion, &own.conclusion)? {
                void(&mut own.conclusion, std::slice::from_ref(&finding), Vec::new());
                causes.entry(own.config.clone()).or_default().push(finding);
                break;
            }
        }
        for unit in (config..judgement.cells.len()).step_by(design.configs.len()) {
            let own = &mut judgement.cells[unit];
            for (finding, handicap) in advantages(&own.conclusion, &peaceful.cells[unit].conclusion, &own.config, alpha)
            {
                if undone(design, observed, config, handicap, |again| &again.cells[unit].conclusion, &own.conclusion)? {
                    void(&mut own.conclusion, std::slice::from_ref(&finding), Vec::new());
                    // What this scenario said against the config is taken back with it.
                    let overall = &mut judgement.overall[config];
                    if matches!(&overall.conclusion.outcome.reason, Reason::WorseIn(said) if said.contains(&own.scenario))
                    {
                        void(&mut overall.conclusion, std::slice::from_ref(&finding), vec![own.scenario.clone()]);
                        causes.entry(overall.config.clone()).or_default().push(finding);
                    }
                    break;
                }
            }
        }
    }
    Ok(causes)
}

/// What [`share_taken`] lacks. Without a share that is one of these; a run that wanted no CPU time has not recorded it.
fn missing(summary: &Summary) -> Vec<&'static str> {
    let seen = &summary.disturbance;
    let lacks = [(seen.steal_percent, "steal"), (seen.foreign_cpu_percent, "foreign CPU time")];
    let lacks: Vec<&str> = lacks.into_iter().filter_map(|(value, name)| value.is_none().then_some(name)).collect();
    if lacks.is_empty() { vec!["the trial's own CPU time"] } else { lacks }
}

/// A note where what others took is no share of what a run wanted, so that nobody asked whether a claim hangs on it.
pub(super) fn unseen(places: &Places<'_>) -> Option<Note> {
    let shared = places.plan().experiment.environment == Environment::Shared;
    let used = (0..places.attempts().len()).filter(|&attempt| places.fate(attempt) == Fate::Used);
    let runs: Vec<&Summary> = used.filter_map(|attempt| places.summary(attempt)).collect();
    let mut unknown = Unknown::default();
    for summary in runs.iter().filter(|summary| share_taken(summary).is_none()) {
        unknown.add(missing(summary));
    }
    (shared && unknown.runs() > 0).then(|| {
        let text = format!(
            "Not checked for uneven disturbance: {} of {} runs. Unknown in them: {}.",
            unknown.runs(),
            runs.len(),
            unknown.names().join(", ")
        );
        Note::unchecked(Gate::Isolated, None, text)
    })
}

const PEACE: &str = "peace";

/// The same comparison about what each run was left of the time that it wanted.
fn design_of_peace(design: &Design) -> Design {
    // The margin plays no part: nothing is shown to be equal here.
    let rule = MetricRule::new(PEACE, Direction::Higher, Purpose::Objective, 0.01, Scale::Log);
    Design { metrics: vec![rule], looks: None, cells_adjust: Adjust::Holm, ..design.clone() }
}

fn peace_of(places: &Places<'_>, design: &Design, observed: &Observed) -> Observed {
    let blank = |samples: &MetricSamples| MetricSamples {
        baseline: vec![vec![None; design.m0]; samples.baseline.len()],
        configs: samples.configs.iter().map(|runs| vec![None; runs.len()]).collect(),
    };
    let mut samples: Vec<Vec<MetricSamples>> =
        observed.samples.iter().map(|metrics| metrics.first().map(blank).into_iter().collect()).collect();
    for (attempt, seen) in places.attempts().iter().enumerate() {
        let (id, Some(summary)) = (seen.trial(), places.summary(attempt)) else { continue };
        let scenario = design.scenarios.iter().position(|scenario| scenario.name == id.scenario);
        let (Some(scenario), Fate::Used) = (scenario, places.fate(attempt)) else { continue };
        let (Some(samples), block) = (samples[scenario].first_mut(), id.block as usize) else { continue };
        let config = design.configs.iter().position(|config| *config == id.config);
        if let Some(place) = samples.run_mut(config, block, id.replicate) {
            *place = share_taken(summary).map(|taken| 1.0 - taken);
        }
    }
    let (invalid, hidden) = (observed.invalid.clone(), observed.hidden.clone());
    Observed { samples, invalid, hidden, ended: true, ..Observed::default() }
}

/// Whether a config with a claim was disturbed less than the baseline, for a gain, or more, for harm; each with how much of an effect
/// that can be worth at most. A Tradeoff claims both.
fn advantages(claim: &Conclusion, peace: &Conclusion, config: &str, alpha: f64) -> Vec<(Finding, f64)> {
    let Some(Effect { p, ci90, ci95, estimate, .. }) = peace.metrics.first() else { return Vec::new() };
    let Some(interval) = ci90.or(*ci95) else { return Vec::new() };
    let (gain, harm) = match claim.outcome.verdict {
        Verdict::Win => (true, false),
        Verdict::Reject => (false, true),
        Verdict::Tradeoff => (true, true),
        _ => (false, false),
    };
    let finding = |favoured: &str, most: f64| {
        let share = |effect: f64| 100.0 * -(-effect).exp_m1();
        let message = format!(
            "other programs took {favoured} CPU time from {config} than from the baseline: about {:.1} % of its time, \
             at most {:.1} %",
            share(estimate.unwrap_or_default().abs()),
            share(most),
        );
        Finding::new(Code::DisturbedUnequally, message)
    };
    let is_uneven = |p: Option<f64>| p.is_some_and(|p| p <= alpha);
    let mut found = Vec::new();
    // Without an end the blocks say nothing of how much it may have been.
    if gain && is_uneven(p.better_adjusted) {
        let most = interval.high.unwrap_or(f64::INFINITY);
        found.push((finding("less", most), most));
    }
    if harm && is_uneven(p.worse_adjusted) {
        let most = interval.low.map_or(f64::INFINITY, |low| -low);
        found.push((finding("more", most), -most));
    }
    found
}

/// Whether a claim falls when the config's times are corrected by as much.
fn undone(
    design: &Design,
    observed: &Observed,
    config: usize,
    handicap: f64,
    found: impl Fn(&Judgement) -> &Conclusion,
    claim: &Conclusion,
) -> Result<bool, JudgeError> {
    if !handicap.is_finite() {
        return Ok(true);
    }
    let mut corrected = observed.clone();
    for metrics in corrected.samples.iter_mut().chain(&mut corrected.firsts) {
        for (samples, rule) in metrics.iter_mut().zip(&design.metrics) {
            // What is not time does not pass more slowly.
            if !metric(&rule.name).is_some_and(|info| info.is_time) {
                continue;
            }
            let factor = match rule.direction {
                Direction::Higher => (-handicap).exp(),
                Direction::Lower => handicap.exp(),
            };
            samples.configs[config].iter_mut().flatten().for_each(|value| *value *= factor);
        }
    }
    let again = verdict::judge(design, &corrected, Intervals::None)?;
    Ok(found(&again).outcome.verdict != claim.outcome.verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::Attempt;
    use crate::gates::testing::{experiment, plan, summaries};
    use crate::report::Report;

    /// CPU seconds that the baseline's step takes; with 1000 steps/s for 10 s on two CPUs that is 8 of 20.
    const PER_STEP: f64 = 0.0008;

    /// A config so many times as fast, that needs this much of the baseline's CPU; of what each of them wants others take a share.
    fn judged(factor: f64, cpu: f64, taken: [f64; 2]) -> Report {
        let mut experiment = experiment();
        experiment.environment = Environment::Shared;
        let run = |mut summary: Summary| {
            let is_candidate = summary.trial.config == "candidate";
            let share = taken[usize::from(is_candidate)] * (1.0 + 0.02 * f64::from(summary.trial.block % 3));
            let (factor, cpu) = if is_candidate { (factor, cpu) } else { (1.0, 1.0) };
            let rate = summary.metrics["throughput"] * factor * (1.0 - share);
            let used = PER_STEP * cpu * rate * summary.window_seconds;
            let stolen = share / (1.0 - share) * used;
            summary.disturbance.steal_percent = Some(100.0 * stolen / (2.0 * summary.window_seconds));
            summary.disturbance.foreign_cpu_percent = Some(0.0);
            summary.metrics.insert("throughput".to_owned(), rate);
            summary.metrics.insert("step_latency_mean".to_owned(), 1e6 / rate);
            summary.metrics.insert("cpu_seconds_per_step".to_owned(), PER_STEP * cpu);
            Attempt::Finished(summary.into())
        };
        let attempts: Vec<Attempt> = summaries(&experiment).into_iter().map(run).collect();
        crate::judge::judge(&plan(&experiment), &attempts).unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn verdict(report: &Report) -> String {
        format!("{:?} {}", report.configs[0].ruling.verdict, report.configs[0].ruling.reason)
    }

    #[test]
    fn who_wants_less_has_less_taken_and_is_not_punished_for_it() {
        assert_eq!(verdict(&judged(1.1, 0.74, [0.3, 0.3])), "Win Better:throughput");
        assert_eq!(verdict(&judged(0.9, 1.26, [0.3, 0.3])), "Reject Harm:throughput");
    }

    #[test]
    fn a_claim_that_an_unequal_share_explains_falls() {
        let lucky = judged(1.0, 1.0, [0.3, 0.05]);
        assert_eq!(verdict(&lucky), "Invalid DisturbedUnequally");
        let message = &lucky.configs[0].findings[0].message;
        assert!(message.starts_with("other programs took less CPU time from candidate"), "{message}");
        assert_eq!(lucky.cells[0].ruling.verdict, Verdict::Invalid);
        assert_eq!(verdict(&judged(1.0, 1.0, [0.05, 0.3])), "Invalid DisturbedUnequally");
    }

    #[test]
    fn a_claim_that_is_larger_stays() {
        assert_eq!(verdict(&judged(2.0, 1.0, [0.3, 0.05])), "Win Better:throughput");
        assert_eq!(verdict(&judged(0.4, 1.0, [0.05, 0.3])), "Reject Harm:throughput");
        // Nor does bad luck take anything away from who wins in spite of it.
        assert_eq!(verdict(&judged(2.0, 1.0, [0.05, 0.3])), "Win Better:throughput");
    }

    #[test]
    fn shares_are_of_what_was_wanted() {
        let mut summary = summaries(&experiment())[0].clone();
        summary.metrics.insert("throughput".to_owned(), 1000.0);
        summary.metrics.insert("cpu_seconds_per_step".to_owned(), PER_STEP);
        (summary.disturbance.steal_percent, summary.disturbance.foreign_cpu_percent) = (Some(15.0), Some(5.0));
        // A fifth of 20 CPU seconds was taken, beside 8 that were used.
        assert!(share_taken(&summary).is_some_and(|share| (share - 4.0 / 12.0).abs() < 1e-12));
        // Who wanted nothing had no share taken, and less than nothing can't be taken.
        (summary.disturbance.steal_percent, summary.disturbance.foreign_cpu_percent) = (Some(-30.0), Some(0.0));
        assert_eq!(share_taken(&summary), None);
        summary.disturbance.steal_percent = Some(0.0);
        assert_eq!(share_taken(&summary), Some(0.0));
        summary.metrics.insert("cpu_seconds_per_step".to_owned(), 0.0);
        assert_eq!(share_taken(&summary), None);
        summary.disturbance.steal_percent = None;
        assert_eq!(share_taken(&summary), None);
    }

    #[test]
    fn who_claims_must_not_owe_it_to_peace() {
        // What anybody is told of an experiment, changed at will.
        let design = design_of_peace(&experiment().design());
        let blank = MetricSamples { baseline: vec![vec![Some(1.0)]; 8], configs: vec![vec![Some(1.0); 8]] };
        let seen = Observed { samples: vec![vec![blank]], ended: true, ..Observed::default() };
        let any = verdict::judge(&design, &seen, Intervals::BothLevels).unwrap().overall.remove(0).conclusion;
        let found = |verdict: Verdict, less: f64, more: f64| {
            let (mut claim, mut peace) = (any.clone(), any.clone());
            claim.outcome.verdict = verdict;
            let effect = &mut peace.metrics[0];
            (effect.p.better_adjusted, effect.p.worse_adjusted) = (Some(less), Some(more));
            effect.estimate = Some(-(2.0_f64.ln()));
            let (low, high) = (Some(-(5.0_f64.ln())), Some(4.0_f64.ln()));
            effect.ci90 = Some(crate::stats::Interval { low, high });
            let found = advantages(&claim, &peace, "candidate", 0.04);
            found.into_iter().map(|(finding, most)| (finding.message, most)).collect::<Vec<_>>()
        };
        let told = |favoured: &str, most: &str| {
            format!(
                "other programs took {favoured} CPU time from candidate than from the baseline: about 50.0 % of its \
                 time, at most {most} %"
            )
        };
        // 1 - 1/2, at most 1 - 1/4 and 1 - 1/5.
        let (less, more) = ((told("less", "75.0"), 4.0_f64.ln()), (told("more", "80.0"), -(5.0_f64.ln())));
        let none: [(String, f64); 0] = [];
        for (verdict, of_less, of_more) in [
            (Verdict::Win, vec![less.clone()], vec![]),
            (Verdict::Reject, vec![], vec![more.clone()]),
            (Verdict::Tradeoff, vec![less.clone()], vec![more.clone()]),
            (Verdict::Neutral, vec![], vec![]),
        ] {
            assert_eq!(found(verdict, 0.04, 0.041), of_less, "{verdict:?}");
            assert_eq!(found(verdict, 0.041, 0.04), of_more, "{verdict:?}");
            assert_eq!(found(verdict, 0.041, 0.041), none, "{verdict:?}");
            assert_eq!(found(verdict, 0.04, 0.04), [of_less, of_more].concat(), "{verdict:?}");
        }
    }

    /// What is unknown is named: with the CPU time of others at hand it is not that.
    #[test]
    fn runs_that_were_not_checked_say_what_they_lack() {
        let mut shared = experiment();
        shared.environment = Environment::Shared;
        let note = |change: fn(&mut Summary)| {
            let run = |mut summary: Summary| {
                summary.metrics.insert("cpu_seconds_per_step".to_owned(), PER_STEP);
                summary.disturbance.foreign_cpu_percent = Some(20.0);
                change(&mut summary);
                Attempt::Finished(summary.into())
            };
            let attempts: Vec<Attempt> = summaries(&shared).into_iter().map(run).collect();
            let report = crate::judge::judge(&plan(&shared), &attempts).unwrap_or_else(|e| unreachable!("{e}"));
            report.notes.into_iter().find(|note| note.unchecked && note.gate == Some(Gate::Isolated)).map(|n| n.text)
        };
        let said = |what: &str| Some(format!("Not checked for uneven disturbance: {what}."));
        assert_eq!(note(|_| ()), None);
        assert_eq!(note(|s| s.disturbance.steal_percent = None), said("16 of 16 runs. Unknown in them: steal"));
        let own = |s: &mut Summary| _ = s.metrics.remove("cpu_seconds_per_step");
        assert_eq!(note(own), said("16 of 16 runs. Unknown in them: the trial's own CPU time"));
        let some = |s: &mut Summary| match s.trial.block {
            0 => (s.disturbance.steal_percent, s.disturbance.foreign_cpu_percent) = (None, None),
            1 => s.disturbance.steal_percent = None,
            _ => {}
        };
        assert_eq!(note(some), said("4 of 16 runs. Unknown in them: foreign CPU time (2 runs), steal"));
    }
}
