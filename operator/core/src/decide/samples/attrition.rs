//! Attrition: what is left of a config's runs may not be typical when more of them were invalid than of the baseline's, or fewer, so that
//! the config itself seems to decide which runs count ("Attrition").
//!
//! Both arms are asked about the same blocks, a place counts once however often it was tried, and looks and configs share one error. So a
//! disturbance that hits all alike voids nothing, and what a look has announced no later block takes back.

use std::collections::BTreeMap;

use super::Samples;
use crate::attempt::{Attempt, TRIES};
use crate::decide::{Fate, Place, Places};
use crate::gates::{Code, Finding, Gate, Note, attrition};
use crate::stats::{ALPHA, Tails, holm, median, uneven_at_odds};
use crate::verdict::{Design, Look, LostFirst, Scenario, Scope};

/// What became of a run.
#[derive(Clone, Copy, Default, PartialEq)]
enum Try {
    /// Nothing is wrong with it, or what is wrong is no matter of attrition.
    #[default]
    Good,
    /// It was invalid, with numbers that mean something.
    Invalid,
    /// It left no such number, whatever the reason: nothing shows whether it was a slow one.
    Silent,
}

/// What became of a place.
#[derive(Clone, Copy, Default)]
struct Seen {
    tried: bool,
    /// Its first attempt, by number. Later ones depend on what others did: a block is run again for the baseline's sake and not for a
    /// config's.
    first: Try,
    first_number: Option<u32>,
    /// So bad were all of its runs before the block was run again for the first time.
    bad_tries: u32,
    /// In the end it has no measurement, and its config did not fail either.
    missing: bool,
}

/// The places of a plan: by scenario, block, and the arm with its replicate; the baseline's arm is `None`.
type Table = BTreeMap<(usize, usize, Option<usize>, u32), Seen>;

impl Samples {
    pub(super) fn attrition(&mut self, places: &Places<'_>, design: &Design, rounds: usize) {
        // Of an experiment that is invalid anyway, not all runs are there that would be compared.
        if places.is_over() {
            return;
        }
        let table = table(places, design, rounds);
        let silent = table.iter().filter(|(_, seen)| seen.first == Try::Silent);
        self.observed.lost_firsts =
            silent.map(|(&(scenario, block, config, _), _)| LostFirst { scenario, config, block }).collect();
        let looks = design.looks_reached(rounds, rounds, self.observed.ended);
        let exposure = Exposure::of(places, design, &table);
        let either = |tails: Tails| 2.0 * tails.up.min(tails.down);
        let invalid = uneven_configs(&table, &exposure, &looks, 1, |seen| seen.first != Try::Good, either);
        let missing =
            uneven_configs(&table, &exposure, &looks, TRIES, |seen| seen.bad_tries == TRIES, |tails| tails.up);
        // Both questions of all configs share one error.
        let both = holm(&[invalid, missing].concat());
        let (invalid, missing) = both.split_at(design.configs.len());
        for (config, name) in design.configs.iter().enumerate() {
            if places.gated().configs.contains_key(name) {
                continue;
            }
            let few = few(&table, design, Some(config));
            let found = if invalid[config] <= ALPHA {
                Some(counted(&table, design, config, "were invalid", |seen| seen.first != Try::Good, invalid[config]))
            } else if missing[config] <= ALPHA && !few.is_empty() {
                Some(counted(
                    &table,
                    design,
                    config,
                    "gave no measurement",
                    |seen| seen.bad_tries == TRIES,
                    missing[config],
                ))
            } else {
                None
            };
            if let Some(message) = found {
                self.mark(Scope::Config(config), Code::Attrition);
                self.findings.entry(name.clone()).or_default().push(Finding::new(Code::Attrition, message));
                continue;
            }
            for text in few {
                self.notes.insert(Note::of(Gate::Attrition, Some(name), text));
            }
        }
        for text in few(&table, design, None) {
            self.notes.insert(Note::of(Gate::Attrition, None, format!("Baseline: {text}")));
        }
    }
}

fn table(places: &Places<'_>, design: &Design, rounds: usize) -> Table {
    let mut table = Table::new();
    let scenario = |name: &str| design.scenarios.iter().position(|scenario| scenario.name == name);
    let arm = |name: &str| design.configs.iter().position(|config| config == name);
    for (planned, state) in places.plan().blocks.iter().zip(places.blocks()) {
        let (Some(scenario), block) = (scenario(&planned.scenario), planned.number as usize) else { continue };
        if block >= rounds {
            continue;
        }
        for (slot, place) in planned.slots.iter().zip(&state.places) {
            let arm = arm(&slot.config);
            // That a block's baseline is lost says nothing about the configs: they were not run to their end.
            let excused = state.is_lost() && arm.is_some();
            let missing = matches!(place, Place::Empty | Place::Held(_)) && !excused;
            table.insert((scenario, block, arm, slot.replicate), Seen { missing, ..Seen::default() });
        }
    }
    for (index, attempt) in places.attempts().iter().enumerate() {
        let id = attempt.trial();
        let Some(scenario) = scenario(&id.scenario) else { continue };
        let Some(seen) = table.get_mut(&(scenario, id.block as usize, arm(&id.config), id.replicate)) else { continue };
        let is_silent = |found: &[Finding]| !found.iter().all(|finding| finding.gate.is_about_circumstances());
        let own = match places.fate(index) {
            // Wrong data is a failure of its config, which is counted as one.
            Fate::Invalid(found) if found.iter().any(|finding| finding.code == Code::AnswersMismatch) => Try::Good,
            Fate::Invalid(found) if is_silent(found) => Try::Silent,
            Fate::Invalid(_) => Try::Invalid,
            // Chance hits the pods of all arms alike, so counting it favours none; an uneven loss may be the config's own doing.
            Fate::Lost(_) => Try::Silent,
            _ => Try::Good,
        };
        if seen.first_number.is_none_or(|first| id.attempt < first) {
            seen.first_number = Some(id.attempt);
            seen.first = own;
        }
        seen.bad_tries += u32::from(own != Try::Good && id.attempt < TRIES);
        seen.tried = true;
    }
    table
}

/// Largest probability that a run is disturbed, which keeps odds finite.
const MOST_SURE: f64 = 0.999;

/// How long runs take, which is how long something can disturb them: a config that takes five times as long is hit more often by chance.
struct Exposure {
    m0: usize,
    configs: usize,
    /// Per scenario: probability that a first attempt of the baseline is invalid, and each config's median window over the baseline's.
    scenarios: Vec<(f64, Vec<f64>)>,
}

impl Exposure {
    fn of(places: &Places<'_>, design: &Design, table: &Table) -> Self {
        let mut windows: BTreeMap<(&str, Option<&str>), Vec<f64>> = BTreeMap::new();
        for attempt in places.attempts() {
            if let Attempt::Finished(summary) = attempt {
                let config = design.configs.iter().find(|config| **config == summary.trial.config);
                let arm = (summary.trial.scenario.as_str(), config.map(String::as_str));
                windows.entry(arm).or_default().push(summary.window_seconds);
            }
        }
        let typical = |scenario: &Scenario, config: Option<&String>| {
            median(windows.get(&(scenario.name.as_str(), config.map(String::as_str)))?)
        };
        let of_scenario = |(number, scenario): (usize, &Scenario)| {
            let baseline = table.iter().filter(|((s, _, arm, _), seen)| *s == number && arm.is_none() && seen.tried);
            let hit = baseline.clone().filter(|(_, seen)| seen.first != Try::Good).count();
            let times = design.configs.iter().map(|config| {
                let times = typical(scenario, Some(config)).zip(typical(scenario, None)).map(|(own, base)| own / base);
                times.filter(|times| times.is_finite() && *times > 0.0).unwrap_or(1.0)
            });
            // Half a hit more: a chance that was not seen is not zero.
            ((hit as f64 + 0.5) / (baseline.count() as f64 + 1.0), times.collect())
        };
        let scenarios = design.scenarios.iter().enumerate().map(of_scenario).collect();
        Self { m0: design.m0, configs: design.configs.len(), scenarios }
    }

    /// Odds that all `tries` of a config's run are disturbed, over those of a baseline run, if disturbances begin at random times.
    fn odds(&self, scenario: usize, config: usize, tries: u32) -> f64 {
        let (base, times) = &self.scenarios[scenario];
        let odds = |times: f64| {
            let hit = (1.0 - (1.0 - base).powf(times)).min(MOST_SURE).powi(tries.cast_signed());
            hit / (1.0 - hit)
        };
        odds(times[config]) / odds(1.0)
    }
}

/// Per config the p value, over the looks so far, of its runs having gone another way than the baseline's beside them, in all of so many
/// `tries`.
fn uneven_configs(
    table: &Table,
    exposure: &Exposure,
    looks: &[Look],
    tries: u32,
    happened: impl Fn(&Seen) -> bool,
    p: impl Fn(Tails) -> f64,
) -> Vec<f64> {
    let smallest = |config: usize| {
        let at = |look: &Look| {
            let own = table
                .iter()
                .filter(|((_, block, arm, _), seen)| *arm == Some(config) && *block < look.blocks && seen.tried);
            let pairs = own.map(|(&(scenario, block, ..), seen)| {
                let beside = table.range((scenario, block, None, 0)..=(scenario, block, None, u32::MAX));
                let beside = beside.map(|(_, seen)| seen).filter(|seen| seen.tried);
                let odds = exposure.odds(scenario, config, tries);
                (happened(seen), beside.map(&happened).collect::<Vec<bool>>(), odds)
            });
            p(uneven_at_odds(pairs, exposure.m0)) / look.overall.worse
        };
        looks.iter().map(at).fold(1.0, f64::min)
    };
    (0..exposure.configs).map(smallest).collect()
}

/// Scenarios in which too many of an arm's runs gave no measurement, in words.
fn few(table: &Table, design: &Design, arm: Option<usize>) -> Vec<String> {
    let mut found = Vec::new();
    for (scenario, rule) in design.scenarios.iter().enumerate() {
        let own =
            || table.iter().filter(|((s, _, a, _), seen)| *s == scenario && *a == arm && (seen.tried || seen.missing));
        let (missing, planned) = (own().filter(|(_, seen)| seen.missing).count(), own().count());
        if attrition::too_many(missing, planned) {
            found.push(format!("{missing} of {planned} runs in {} gave no measurement.", rule.name));
        }
    }
    found
}

fn counted(
    table: &Table,
    design: &Design,
    config: usize,
    what: &str,
    happened: impl Fn(&Seen) -> bool,
    p: f64,
) -> String {
    // The same blocks as the test.
    let blocks: Vec<(usize, usize)> = table
        .iter()
        .filter(|((_, _, arm, _), seen)| *arm == Some(config) && seen.tried)
        .map(|(&(scenario, block, ..), _)| (scenario, block))
        .collect();
    let of = |arm: Option<usize>| {
        let own = || {
            table
                .iter()
                .filter(|((s, b, a, _), seen)| *a == arm && seen.tried && blocks.binary_search(&(*s, *b)).is_ok())
        };
        (own().filter(|(_, seen)| happened(seen)).count(), own().count())
    };
    let (own, base) = (of(Some(config)), of(None));
    format!(
        "{} of {} runs of {} {what}, against {} of {} baseline runs in the same blocks: p = {p:.3} by chance alone",
        own.0, own.1, design.configs[config], base.0, base.1
    )
}

#[cfg(test)]
mod tests {
    use assay_protocol::{Digest, Summary};

    use super::{Exposure, Look, Seen, Table, Try, counted, table, uneven_configs};
    use crate::attempt::{Attempt, Lost, LostReason, TRIES};
    use crate::decide::Places;
    use crate::experiment::Experiment;
    use crate::gates::Code;
    use crate::gates::testing::{experiment, plan, summaries};
    use crate::judge::judge;
    use crate::report::Report;
    use crate::stats::Shares;

    /// Judges runs of which some were invalid at first and then run again. The answer says how often each was.
    fn judged(tries: impl Fn(&Summary) -> u32) -> Report {
        judged_of(tries, |_| ())
    }

    /// Applies a change to each run before it is judged.
    fn judged_of(tries: impl Fn(&Summary) -> u32, change: impl Fn(&mut Summary)) -> Report {
        let experiment = experiment();
        let mut attempts = Vec::new();
        for mut good in summaries(&experiment) {
            change(&mut good);
            let tries = tries(&good);
            for attempt in 0..=tries {
                let mut run = good.clone();
                run.trial.attempt = attempt;
                if attempt < tries {
                    run.disturbance.clock_step_seconds = Some(9.0);
                }
                attempts.push(Attempt::Finished(run.into()));
            }
        }
        judge(&plan(&experiment), &attempts).unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn verdict(report: &Report) -> String {
        format!("{:?} {}", report.configs[0].ruling.verdict, report.configs[0].ruling.reason)
    }

    #[test]
    fn reruns_do_not_hide_that_a_config_is_invalid_more_often() {
        let often = |count: u32| judged(move |s| u32::from(s.trial.config == "candidate" && s.trial.block < count));
        // 6 of 8 blocks against none: 2 / 2^6, twice for both questions, is chance; 2 / 2^7 is not. Attempts with a number are counted with it.
        assert_eq!(verdict(&often(4)), "Neutral Equivalent");
        assert_eq!(verdict(&often(6)), "Neutral Equivalent");
        let uneven = often(7);
        assert_eq!(verdict(&uneven), "Invalid Attrition");
        assert_eq!(uneven.progress.trials_valid, 16, "every place has its run");
        let message = &uneven.configs[0].findings[0].message;
        assert_eq!(
            message,
            "7 of 8 runs of candidate were invalid, against 0 of 8 baseline runs in the same blocks: p = 0.031 by chance alone"
        );
    }

    #[test]
    fn a_place_counts_once_however_often_it_was_tried() {
        assert_eq!(
            verdict(&judged(|s| if s.trial.config == "candidate" && s.trial.block < 4 { 2 } else { 0 })),
            "Neutral Equivalent"
        );
    }

    #[test]
    fn what_disturbs_all_alike_says_nothing_about_a_config() {
        assert_eq!(verdict(&judged(|_| 1)), "Neutral Equivalent");
        // As telling in the other direction.
        assert_eq!(verdict(&judged(|s| u32::from(s.trial.config == "base"))), "Invalid Attrition");
    }

    #[test]
    fn a_config_that_takes_longer_is_hit_more_often() {
        let often = |times: f64| {
            judged_of(
                |s| u32::from(s.trial.config == "candidate" && s.trial.block < 7),
                |s| {
                    if s.trial.config == "candidate" {
                        s.window_seconds *= times;
                    }
                },
            )
        };
        assert_eq!(verdict(&often(1.0)), "Invalid Attrition");
        assert_eq!(verdict(&often(4.0)), "Neutral Equivalent");
        let exposure = Exposure { m0: 1, configs: 2, scenarios: vec![(0.1, vec![1.0, 2.0])] };
        assert_eq!(exposure.odds(0, 0, 1), 1.0);
        // 0.19 / 0.81 of 0.1 / 0.9, and the same of all three tries.
        assert!((exposure.odds(0, 1, 1) - 0.19 / 0.81 * 9.0).abs() < 1e-12);
        assert!((exposure.odds(0, 1, 3) - 0.006_859 / 0.993_141 * 999.0).abs() < 1e-9);
    }

    /// What there is instead of a run of which nothing is left.
    fn without_record(experiment: &Experiment, summary: &Summary, attempt: u32, reason: LostReason) -> Attempt {
        let mut trial = summary.trial.clone();
        trial.attempt = attempt;
        Attempt::from(Lost {
            plan: plan(experiment).digest,
            trial,
            started_unix_ms: summary.started_unix_ms,
            boot: summary.parity.boot.clone(),
            reason,
            message: "it is gone".to_owned(),
        })
    }

    fn crash(experiment: &Experiment, summary: &Summary, attempt: u32) -> Attempt {
        without_record(experiment, summary, attempt, LostReason::Crashed)
    }

    /// Loses the runs that are chosen, in all of their tries.
    fn lost(reason: LostReason, lost: impl Fn(&Summary) -> bool) -> Report {
        let experiment = experiment();
        let mut attempts = Vec::new();
        for summary in summaries(&experiment) {
            if !lost(&summary) {
                attempts.push(Attempt::Finished(summary.into()));
                continue;
            }
            let tries = if reason.is_failure() { 1 } else { TRIES };
            attempts.extend((0..tries).map(|attempt| without_record(&experiment, &summary, attempt, reason)));
        }
        judge(&plan(&experiment), &attempts).unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// Evicts the first attempts that are chosen.
    fn evicted_first(lost: impl Fn(&Summary) -> bool) -> Report {
        let experiment = experiment();
        let mut attempts = Vec::new();
        for mut summary in summaries(&experiment) {
            if lost(&summary) {
                attempts.push(without_record(&experiment, &summary, 0, LostReason::Evicted));
                summary.trial.attempt = 1;
            }
            attempts.push(Attempt::Finished(summary.into()));
        }
        judge(&plan(&experiment), &attempts).unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// A config that crashes leaves no record and is not tried for ever; the runs that got through are not typical.
    #[test]
    fn runs_that_end_without_a_record_are_attrition() {
        let crashing =
            |blocks| lost(LostReason::Crashed, move |s| s.trial.config == "candidate" && s.trial.block < blocks);
        assert_eq!(verdict(&crashing(0)), "Neutral Equivalent");
        assert_eq!(verdict(&crashing(1)), "Inconclusive Attrition");
        assert!(crashing(2).notes.iter().any(|note| note.text == "2 of 8 runs in fill gave no measurement."));
        assert_eq!(verdict(&crashing(7)), "Invalid Attrition");
        // The slow ones may be those that were evicted, deleted or never started. What hits all alike takes nothing away.
        for reason in [LostReason::Evicted, LostReason::Deleted, LostReason::NodeLost, LostReason::NotStarted] {
            let own = lost(reason, |s| s.trial.config == "candidate" && s.trial.block < 3);
            assert_eq!(verdict(&own), "Inconclusive Attrition", "{reason:?}");
        }
        let alike = evicted_first(|s| s.trial.block < 3);
        assert_eq!(verdict(&alike), "Neutral Equivalent");
    }

    /// The first attempts of both arms crash alike, and one arm never gets further.
    #[test]
    fn runs_that_are_lost_in_all_of_their_tries_are_attrition() {
        let crashed = |tries: fn(&Summary) -> u32| {
            let experiment = experiment();
            let mut attempts = Vec::new();
            for mut good in summaries(&experiment) {
                let tries = if good.trial.block < 7 { tries(&good) } else { 0 };
                attempts.extend((0..tries).map(|attempt| crash(&experiment, &good, attempt)));
                good.trial.attempt = tries;
                if tries < TRIES {
                    attempts.push(Attempt::Finished(good.into()));
                }
            }
            judge(&plan(&experiment), &attempts).unwrap_or_else(|error| unreachable!("{error}"))
        };
        assert_eq!(verdict(&crashed(|_| 1)), "Neutral Equivalent");
        let report = crashed(|s| if s.trial.config == "candidate" { TRIES } else { 1 });
        assert_eq!(verdict(&report), "Invalid Attrition");
        assert_eq!(
            report.configs[0].findings[0].message,
            "7 of 8 runs of candidate gave no measurement, against 0 of 8 baseline runs in the same blocks: p = 0.016 by chance alone"
        );
    }

    #[test]
    fn of_an_invalid_experiment_nothing_more_is_said() {
        let is_told = |undeclared: u32| {
            let experiment = experiment();
            let mut attempts = Vec::new();
            for mut summary in summaries(&experiment) {
                if summary.trial.config == "base" {
                    summary.options.undeclared.count = undeclared;
                } else if summary.trial.block < 7 {
                    attempts.extend((0..TRIES).map(|attempt| crash(&experiment, &summary, attempt)));
                    continue;
                }
                attempts.push(Attempt::Finished(summary.into()));
            }
            let report = judge(&plan(&experiment), &attempts).unwrap_or_else(|error| unreachable!("{error}"));
            report.configs[0].findings.iter().any(|finding| finding.code == Code::Attrition)
        };
        assert!(is_told(0));
        assert!(!is_told(1));
    }

    #[test]
    fn some_failures_have_no_record() {
        for reason in [LostReason::OutOfMemory, LostReason::DiskQuota, LostReason::Faulted] {
            let report = lost(reason, |s| s.trial.config == "candidate" && s.trial.block <= 5);
            assert_eq!(verdict(&report), "Reject Unstable");
            assert_eq!((report.progress.failed, report.progress.lost), (6, 0));
            assert_eq!((report.cells[0].runs, report.cells[0].failed), (8, 6));
        }
    }

    /// What is seen of the candidate in a block in which its runs came to this, beside a good one of the baseline in each pass.
    fn seen(runs: &[fn(&Experiment, &mut Summary) -> Option<LostReason>]) -> (bool, Try, u32, bool) {
        let experiment = experiment();
        let all = summaries(&experiment);
        let mut attempts = Vec::new();
        for (attempt, run) in (0..).zip(runs) {
            if attempt % TRIES == 0 {
                let mut baseline = all[0].clone();
                baseline.trial.attempt = attempt;
                attempts.push(Attempt::Finished(baseline.into()));
            }
            let mut own = all[1].clone();
            own.trial.attempt = attempt;
            attempts.push(match run(&experiment, &mut own) {
                Some(reason) => without_record(&experiment, &own, attempt, reason),
                None => Attempt::Finished(own.into()),
            });
        }
        let plan = plan(&experiment);
        let places = Places::new(&plan, &attempts).unwrap();
        let Seen { tried, first, bad_tries, missing, .. } =
            table(&places, &experiment.design(), 1).get(&(0, 0, Some(0), 0)).copied().unwrap();
        (tried, first, bad_tries, missing)
    }

    #[test]
    fn only_what_may_be_the_doing_of_a_config_is_a_bad_try() {
        let good = |_: &Experiment, _: &mut Summary| None;
        let crashed = |_: &Experiment, _: &mut Summary| Some(LostReason::Crashed);
        let evicted = |_: &Experiment, _: &mut Summary| Some(LostReason::Evicted);
        let disturbed = |_: &Experiment, summary: &mut Summary| {
            summary.disturbance.clock_step_seconds = Some(9.0);
            None
        };
        let other_work = |_: &Experiment, summary: &mut Summary| {
            summary.parity.work = Digest::of(b"other");
            None
        };
        let other_answers = |_: &Experiment, summary: &mut Summary| {
            summary.parity.answers = Some(Digest::of(b"other"));
            None
        };
        assert!(seen(&[good]) == (true, Try::Good, 0, false));
        assert!(seen(&[disturbed]) == (true, Try::Invalid, 1, false));
        assert!(seen(&[other_work]) == (true, Try::Silent, 1, false));
        // That is counted as a failure.
        assert!(seen(&[other_answers]) == (true, Try::Good, 0, false));
        assert!(seen(&[crashed, good]) == (true, Try::Silent, 1, false));
        assert!(seen(&[crashed, crashed, crashed]) == (true, Try::Silent, 3, true));
        assert!(seen(&[evicted, evicted, evicted]) == (true, Try::Silent, 3, true));
        assert!(seen(&[evicted, disturbed, good]) == (true, Try::Silent, 2, false));
        // What came of the block when it was run again says nothing.
        assert!(seen(&[crashed, good, good, crashed, good]) == (true, Try::Silent, 1, false));
        assert!(seen(&[good, good, good, crashed, crashed]) == (true, Try::Good, 0, false));
    }

    /// Four blocks with two runs of the baseline each: what was silent, and a last block in which the config was not tried.
    fn silent(own: &[usize], baseline: &[(usize, u32)]) -> Table {
        let seen = |tried: bool, is_silent: bool| {
            let first = if is_silent { Try::Silent } else { Try::Good };
            Seen { tried, first, ..Seen::default() }
        };
        let mut table = Table::new();
        for block in 0..5 {
            table.insert((0, block, Some(0), 0), seen(block < 4, own.contains(&block)));
            for replicate in 0..2 {
                table.insert((0, block, None, replicate), seen(true, baseline.contains(&(block, replicate))));
            }
        }
        table
    }

    fn design_of_two() -> crate::verdict::Design {
        Experiment { baseline_replicates: 2, ..experiment() }.design()
    }

    #[test]
    fn p_is_that_of_the_look_that_says_most_at_its_price() {
        let table = silent(&[0, 1, 2], &[]);
        let p = |looks: &[(usize, f64)]| {
            let looks: Vec<Look> = looks
                .iter()
                .map(|&(blocks, worse)| Look {
                    blocks,
                    overall: Shares { worse, ..Shares::WHOLE },
                    cells: Shares::WHOLE,
                })
                .collect();
            let exposure = Exposure { m0: 2, configs: 1, scenarios: vec![(0.1, vec![1.0])] };
            uneven_configs(&table, &exposure, &looks, 1, |seen| seen.first == Try::Silent, |tails| tails.up)[0]
        };
        // Each time one of three runs.
        assert!((p(&[(3, 0.5)]) - 2.0 / 27.0).abs() < 1e-12);
        assert!((p(&[(2, 0.25), (3, 0.5)]) - 2.0 / 27.0).abs() < 1e-12);
        assert!((p(&[(3, 0.25), (4, 1.0)]) - 1.0 / 27.0).abs() < 1e-12);
        assert_eq!(p(&[(1, 0.25)]), 1.0);
    }

    #[test]
    fn both_arms_are_counted_in_the_same_blocks() {
        let table = silent(&[0, 1], &[(1, 0), (4, 0), (4, 1)]);
        assert_eq!(
            counted(&table, &design_of_two(), 0, "were invalid", |seen| seen.first == Try::Silent, 0.125),
            "2 of 4 runs of candidate were invalid, against 1 of 8 baseline runs in the same blocks: p = 0.125 by chance alone"
        );
    }
}
