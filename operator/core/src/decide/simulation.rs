//! `decide` against machines that crash, disturb, reboot and dawdle.

use std::collections::{BTreeMap, BTreeSet};

use assay_protocol::{Digest, TrialId};
use proptest::prelude::*;

use super::*;
use crate::attempt::{Lost, LostReason, pass};
use crate::experiment::Experiment;
use crate::gates::testing::{experiment, fail, plan, scenario, summary};
use crate::verdict::{LookPlan, StopOn};

/// How likely each misfortune is per attempt, in percent.
#[derive(Clone, Copy, Debug, Default)]
struct Weather {
    crash: u64,
    refuse: u64,
    disturb: u64,
    implausible: u64,
    fail: u64,
    reboot: u64,
    pause: u64,
    other_work: u64,
    /// The clock is set, by up to ten hours, back or forward; also with each reboot.
    step: u64,
}

struct Machine {
    weather: Weather,
    state: u64,
    clock: u64,
    boot: u32,
}

impl Machine {
    fn new(weather: Weather, seed: u64) -> Self {
        Self { weather, state: seed, clock: 1_700_000_000_000, boot: 0 }
    }

    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn happens(&mut self, percent: u64) -> bool {
        self.random() % 100 < percent
    }

    fn boot(&self) -> Digest {
        Digest::of(&self.boot.to_le_bytes())
    }

    /// The world between two trials.
    fn between(&mut self) {
        self.clock += 1_000;
        let reboots = self.happens(self.weather.reboot);
        if reboots {
            self.boot += 1;
        }
        if self.weather.step > 0 && (reboots || self.happens(self.weather.step)) {
            let hours = 3600 * 1000 * (self.random() % 11);
            self.clock = if self.happens(50) { self.clock + hours } else { self.clock.saturating_sub(hours) };
        }
        if self.happens(self.weather.pause) {
            self.clock += 5 * 3600 * 1000;
        }
    }

    fn run(&mut self, trial: TrialId) -> Attempt {
        let started_unix_ms = self.clock;
        self.clock += 10_000;
        let (crash, refuse) = (self.happens(self.weather.crash), self.happens(self.weather.refuse));
        if crash || refuse {
            let reason = if crash { LostReason::Crashed } else { LostReason::EnvironmentRefused };
            return lost(trial, started_unix_ms, self.boot(), reason);
        }
        let mut summary = summary(&trial);
        summary.started_unix_ms = started_unix_ms;
        summary.parity.boot = Some(self.boot());
        if self.happens(self.weather.disturb) {
            summary.disturbance.throttled_periods = Some(1);
        }
        if self.happens(self.weather.implausible) {
            summary.metrics.insert("throughput".to_owned(), 1e9);
        }
        if self.happens(self.weather.other_work) {
            summary.parity.user_bytes += 1;
        }
        if self.happens(self.weather.fail) && summary.trial.config != "base" {
            fail(&mut summary, "Deadline");
        }
        Attempt::Finished(summary.into())
    }
}

fn lost(trial: TrialId, started_unix_ms: u64, boot: Digest, reason: LostReason) -> Attempt {
    let plan = Digest::of(b"plan");
    Attempt::from(Lost { plan, trial, started_unix_ms, boot: Some(boot), reason, message: String::new() })
}

fn larger() -> Experiment {
    let mut experiment = experiment();
    experiment.scenarios.push(scenario("read"));
    experiment.baseline_replicates = 2;
    let mut third = experiment.configs[1].clone();
    third.name = "third".to_owned();
    experiment.configs.push(third);
    experiment
}

/// Runs an experiment to its end and checks what must hold on the way.
fn simulate(experiment: &Experiment, weather: Weather, seed: u64) -> Vec<Attempt> {
    let plan = plan(experiment);
    let places: usize = plan.blocks.iter().map(|block| block.slots.len()).sum();
    let bound = places * (TRIES * (REDOS + 1)) as usize;
    let mut machine = Machine::new(weather, seed);
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut seen: BTreeSet<TrialId> = BTreeSet::new();
    loop {
        machine.between();
        let boot = machine.boot();
        let now = Moment { unix_ms: machine.clock, boot: Some(&boot) };
        let action = decide(&plan, &attempts, now).unwrap_or_else(|error| unreachable!("{error}"));
        let attempt = match action {
            Action::Run { block, slot, trial } => {
                let planned = &plan.blocks[block];
                assert_eq!((&trial.scenario, trial.block), (&planned.scenario, planned.number));
                assert_eq!(trial.config, planned.slots[slot].config);
                machine.run(trial)
            }
            Action::GiveUp { trial, .. } => lost(trial, machine.clock, boot.clone(), LostReason::GivenUp),
            Action::Wait(wait) => {
                assert!(wait.until_unix_ms > machine.clock, "{wait:?}");
                machine.clock = wait.until_unix_ms;
                continue;
            }
            Action::Finished => break,
        };
        assert!(seen.insert(attempt.trial().clone()), "{:?} was run twice", attempt.trial());
        attempts.push(attempt);
        assert!(attempts.len() <= bound, "more than {bound} attempts");
    }
    let places = Places::new(&plan, &attempts).unwrap_or_else(|error| unreachable!("{error}"));
    assert!(places.is_complete());
    check_used(&plan, &places);
    attempts
}

/// No place counts twice, and all runs of a block that count are of one boot and one stretch of time.
fn check_used(plan: &Plan, places: &Places<'_>) {
    let mut used: BTreeMap<(String, u32), Vec<usize>> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for (i, attempt) in places.attempts().iter().enumerate() {
        if places.fate(i) == Fate::Used {
            let id = attempt.trial();
            assert!(
                taken.insert((id.scenario.clone(), id.block, id.config.clone(), id.replicate)),
                "{id:?} counts twice"
            );
            used.entry((id.scenario.clone(), id.block)).or_default().push(i);
        }
    }
    let limit = plan.experiment.max_block_duration_seconds * 1000;
    for trials in used.values() {
        let moments: Vec<Moment<'_>> = trials.iter().map(|&i| places.attempts()[i].moment()).collect();
        assert!(moments.iter().all(|moment| moment.boot == moments[0].boot), "runs from both sides of a reboot");
        let times = || moments.iter().map(|moment| moment.unix_ms);
        assert!(times().max().unwrap_or(0) - times().min().unwrap_or(0) <= limit, "a block that took too long");
    }
}

fn used(experiment: &Experiment, attempts: &[Attempt]) -> usize {
    let plan = plan(experiment);
    let places = Places::new(&plan, attempts).unwrap_or_else(|error| unreachable!("{error}"));
    (0..attempts.len()).filter(|&i| places.fate(i) == Fate::Used).count()
}

#[test]
fn in_fair_weather_every_trial_runs_once_in_the_planned_order() {
    let experiment = larger();
    let attempts = simulate(&experiment, Weather::default(), 1);
    let planned: Vec<(String, u32, String, u32)> = plan(&experiment)
        .blocks
        .iter()
        .flat_map(|b| b.slots.iter().map(|s| (b.scenario.clone(), b.number, s.config.clone(), s.replicate)))
        .collect();
    let run: Vec<_> = attempts
        .iter()
        .map(Attempt::trial)
        .map(|id| (id.scenario.clone(), id.block, id.config.clone(), id.replicate))
        .collect();
    assert_eq!(run, planned);
    assert_eq!(used(&experiment, &attempts), planned.len());
}

#[test]
fn a_lost_run_is_repeated_at_the_end_of_its_block() {
    let plan = plan(&experiment());
    let mut machine = Machine::new(Weather::default(), 1);
    let id = |slot: usize, attempt| TrialId {
        scenario: "fill".to_owned(),
        block: 0,
        config: plan.blocks[0].slots[slot].config.clone(),
        replicate: 0,
        order: slot as u32,
        attempt,
    };
    let boot = machine.boot();
    let mut attempts = vec![lost(id(0, 0), machine.clock, boot.clone(), LostReason::Crashed)];
    let next = |attempts: &[Attempt], clock: u64, boot: &Digest| {
        decide(&plan, attempts, Moment { unix_ms: clock, boot: Some(boot) }).unwrap_or(Action::Finished)
    };
    let run = |slot: usize, attempt| Action::Run { block: 0, slot, trial: id(slot, attempt) };
    assert_eq!(next(&attempts, machine.clock, &boot), run(1, 0));
    attempts.push(machine.run(id(1, 0)));
    assert_eq!(next(&attempts, machine.clock, &boot), run(0, 1));
    // After a reboot, or a night, the block starts again.
    assert_eq!(next(&attempts, machine.clock, &Digest::of(b"next boot")), run(0, TRIES));
    assert_eq!(next(&attempts, machine.clock + 5 * 3600 * 1000, &boot), run(0, TRIES));
    attempts.push(lost(id(0, 1), machine.clock, boot.clone(), LostReason::Crashed));
    attempts.push(lost(id(0, 2), machine.clock, boot.clone(), LostReason::Crashed));
    // Three times lost: for a config that is the end of its place, for the baseline the end of the block.
    let config_lost = plan.blocks[0].slots[0].config != "base";
    let Action::Run { block, trial, .. } = next(&attempts, machine.clock, &boot) else {
        unreachable!("more is planned")
    };
    assert_eq!((block, pass(trial.attempt)), if config_lost { (1, 0) } else { (0, 1) });
}

#[test]
fn a_failing_config_is_not_tried_for_ever() {
    let experiment = experiment();
    let attempts = simulate(&experiment, Weather { fail: 100, ..Weather::default() }, 1);
    let failed = attempts.iter().filter(|a| matches!(a, Attempt::Finished(s) if s.failure.is_some())).count();
    assert_eq!(failed, crate::verdict::fewest_failures(&experiment.design()) as usize);
    assert_eq!(attempts.len(), failed + experiment.repetitions as usize);
}

/// Clocks are set at boots above all: after one that went back, the runs from before it seem to be the later ones.
#[test]
fn a_clock_that_is_set_back_hides_no_reboot() {
    let plan = plan(&larger());
    let boots = [Digest::of(b"before"), Digest::of(b"after")];
    let begun = |slot: usize, attempt: u32, unix_ms: u64, boot: &Digest| {
        let trial = plan.blocks[0].trial(slot, attempt).unwrap_or_else(|| unreachable!());
        let mut summary = summary(&trial);
        summary.started_unix_ms = unix_ms;
        summary.parity.boot = Some(boot.clone());
        Attempt::Finished(summary.into())
    };
    let last = REDOS * TRIES;
    // Without one of the baseline's runs nothing would be left to do.
    let is_candidate = |slot: &usize| plan.blocks[0].slots[*slot].config == "candidate";
    let given_up = (0..plan.blocks[0].slots.len()).find(is_candidate).unwrap_or_else(|| unreachable!());
    let before = begun((given_up + 1) % 4, last, 50_000_000, &boots[0]);
    let trial = plan.blocks[0].trial(given_up, last).unwrap_or_else(|| unreachable!());
    let attempts = [before, lost(trial, 2_000, boots[1].clone(), LostReason::GivenUp)];
    for known in [&attempts[..1], &attempts[..]] {
        let places = Places::new(&plan, known).unwrap_or_else(|error| unreachable!("{error}"));
        let action = places.next_in(0, Moment { unix_ms: 3_000, boot: Some(&boots[1]) });
        // What was given up after the boot is no reason to go on.
        assert!(matches!(action, Some(Action::GiveUp { .. })), "{action:?}");
    }
}

#[test]
fn a_block_ends_when_the_clock_is_set_by_more_than_it_may_last() {
    let plan = plan(&experiment());
    let boot = Digest::of(b"boot");
    let began = 50_000_000_000_u64;
    let trial = plan.blocks[0].trial(0, 0).unwrap_or_else(|| unreachable!());
    let mut first = summary(&trial);
    (first.started_unix_ms, first.parity.boot) = (began, Some(boot.clone()));
    let attempts = [Attempt::Finished(first.into())];
    let attempt = |unix_ms: u64| match decide(&plan, &attempts, Moment { unix_ms, boot: Some(&boot) }) {
        Ok(Action::Run { trial, .. }) => trial.attempt,
        other => unreachable!("{other:?}"),
    };
    let most = plan.experiment.max_block_duration_seconds * 1000;
    for (unix_ms, expected) in [
        (began, 0),
        (began + most, 0),
        (began + most + 1, TRIES),
        (began - most, 0),
        (began - most - 1, TRIES),
        (0, TRIES),
    ] {
        assert_eq!(attempt(unix_ms), expected, "{unix_ms} after {began}");
    }
}

/// Runs an experiment whose runs are all disturbed: when each attempt began, in seconds after the first, and what is said in the end.
fn in_vain(experiment: &Experiment, mut run: impl FnMut(&mut Machine, TrialId) -> Attempt) -> (Vec<u64>, String) {
    let plan = plan(experiment);
    let mut machine = Machine::new(Weather::default(), 1);
    let mut attempts: Vec<Attempt> = Vec::new();
    let boot = machine.boot();
    loop {
        machine.clock += 1_000;
        match decide(&plan, &attempts, Moment { unix_ms: machine.clock, boot: Some(&boot) }) {
            Ok(Action::Run { trial, .. }) => attempts.push(run(&mut machine, trial)),
            Ok(Action::Wait(wait)) => machine.clock = wait.until_unix_ms,
            Ok(Action::Finished) => break,
            other => unreachable!("{other:?}"),
        }
    }
    let began = |attempt: &Attempt| (attempt.moment().unix_ms - attempts[0].moment().unix_ms) / 1000;
    let places = Places::new(&plan, &attempts).unwrap_or_else(|error| unreachable!("{error}"));
    let said: Vec<&str> = places.gated().experiment.iter().map(|finding| finding.message.as_str()).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    (attempts.iter().map(began).collect(), said[0].to_owned())
}

fn disturbed(machine: &mut Machine, trial: TrialId) -> Attempt {
    machine.weather.disturb = 100;
    machine.run(trial)
}

#[test]
fn without_a_valid_run_waits_grow_until_the_time_to_wait_is_over() {
    // Blocks that no time ends.
    let experiment = Experiment { max_block_duration_seconds: 604_800, ..larger() };
    let (began, said) = in_vain(&experiment, disturbed);
    let waits: Vec<u64> = began.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits[..HOPELESS - 1], [11; HOPELESS - 1]);
    // A minute at least, then as long as it took until then, and a second for the simulated executor.
    assert_eq!(waits[HOPELESS - 1..HOPELESS + 6], [61, 117, 234, 468, 936, 1872, 3601]);
    assert!(waits[HOPELESS + 5..waits.len() - 1].iter().all(|wait| *wait == 3601), "{waits:?}");
    assert_eq!(*began.last().unwrap_or(&0), 24 * 3600 + 1, "the last one ends the time");
    let attempts = began.len();
    assert_eq!(
        said,
        format!(
            "none of {attempts} attempts was valid (Throttled {attempts} times), for as long as maxWaitSeconds allows, 86400 s"
        )
    );
    let impatient = Experiment { max_wait_seconds: 0, ..experiment.clone() };
    assert_eq!(in_vain(&impatient, disturbed).0.len(), HOPELESS);
    let (began, _) = in_vain(&Experiment { max_wait_seconds: 600, ..experiment }, disturbed);
    assert_eq!(began.last(), Some(&601));
}

#[test]
fn three_hopeless_blocks_are_enough() {
    let patient = Experiment { max_wait_seconds: 604_800, max_block_duration_seconds: 604_800, ..experiment() };
    let (began, said) =
        in_vain(&patient, |machine, trial| lost(trial, machine.clock, machine.boot(), LostReason::Crashed));
    // One try of the candidate and all of the baseline's are a pass, and the third pass is the last.
    let attempts = 2 * ((1 + TRIES) * (REDOS + 1)) as usize + HOPELESS;
    assert_eq!(began.len(), attempts);
    assert_eq!(
        said,
        format!("none of {attempts} attempts was valid (Crashed {attempts} times), 6 or more in each of 3 blocks")
    );
}

#[test]
fn a_single_valid_run_ends_all_waits() {
    let mut runs = 0;
    let experiment = experiment();
    let plan = plan(&experiment);
    let mut machine = Machine::new(Weather { disturb: 100, ..Weather::default() }, 1);
    let boot = machine.boot();
    let mut attempts = Vec::new();
    let mut waits = 0;
    loop {
        match decide(&plan, &attempts, Moment { unix_ms: machine.clock, boot: Some(&boot) }) {
            Ok(Action::Run { trial, .. }) => {
                runs += 1;
                machine.weather.disturb = if runs == HOPELESS + 2 { 0 } else { 100 };
                attempts.push(machine.run(trial));
            }
            Ok(Action::Wait(wait)) => {
                waits += 1;
                machine.clock = wait.until_unix_ms;
            }
            Ok(Action::Finished) => break,
            other => unreachable!("{other:?}"),
        }
    }
    assert_eq!(waits, 2, "before the seventh and the eighth attempt");
    let places = Places::new(&plan, &attempts).unwrap_or_else(|error| unreachable!("{error}"));
    assert!(places.gated().experiment.is_empty());
}

#[test]
fn what_the_cluster_did_to_attempts_makes_nothing_wait() {
    let plan = plan(&experiment());
    let boot = Digest::of(b"boot");
    let attempts: Vec<Attempt> = (0..8)
        .filter_map(|block: usize| plan.blocks[block].trial(0, 0))
        .map(|trial| lost(trial, 1_000_000, boot.clone(), LostReason::Evicted))
        .collect();
    assert!(attempts.len() > HOPELESS);
    let action = decide(&plan, &attempts, Moment { unix_ms: 1_000_001, boot: Some(&boot) });
    assert!(matches!(action, Ok(Action::Run { .. })), "{action:?}");
}

/// A clock that was set back by hours would make an experiment wait for them.
#[test]
fn nothing_waits_for_a_clock_that_was_set_back() {
    let plan = plan(&experiment());
    let mut machine = Machine::new(Weather { disturb: 100, ..Weather::default() }, 1);
    let boot = machine.boot();
    let attempts: Vec<Attempt> =
        (0..6).filter_map(|block| plan.blocks[block].trial(0, 0)).map(|id| machine.run(id)).collect();
    let next = |unix_ms: u64| decide(&plan, &attempts, Moment { unix_ms, boot: Some(&boot) });
    let last = attempts[5].moment().unix_ms;
    assert!(matches!(next(last), Ok(Action::Wait(_))));
    assert!(matches!(next(last - 1), Ok(Action::Run { .. })));
}

/// Whether each of many runs is disturbed, in stretches.
struct Stretches {
    machine: Machine,
    is_disturbed: bool,
    /// Percent chances that a stretch ends or begins, at each run.
    ends: f64,
    begins: f64,
}

impl Stretches {
    /// A machine disturbed for a share of all runs, in stretches with a mean length in runs.
    fn new(share: f64, mean: f64, seed: u64) -> Self {
        let mut machine = Machine::new(Weather::default(), seed);
        let is_disturbed = machine.random() as f64 / u64::MAX as f64 <= share;
        Self { machine, is_disturbed, ends: 1.0 / mean, begins: share / (1.0 - share) / mean }
    }

    fn next(&mut self) -> bool {
        let turns = if self.is_disturbed { self.ends } else { self.begins };
        self.is_disturbed ^= (self.machine.random() as f64 / u64::MAX as f64) < turns;
        self.is_disturbed
    }
}

/// The length of stretches is given in runs and does not depend on whether anything runs. If six attempts in a row ended an experiment, 3.7
/// to 10.5 % of these would be Invalid.
#[test]
fn honest_experiments_survive_stretches_of_disturbance() {
    const EXPERIMENTS: u64 = 1_000;
    let experiment = Experiment { repetitions: 8, ..experiment() };
    let plan = plan(&experiment);
    for (share, mean) in [(0.1, 5.0), (0.1, 10.0), (0.1, 20.0), (0.2, 10.0)] {
        let mut given_up = 0;
        for seed in 0..EXPERIMENTS {
            let mut stretches = Stretches::new(share, mean, seed);
            let mut machine = Machine::new(Weather::default(), seed);
            let boot = machine.boot();
            let mut attempts = Vec::new();
            loop {
                // Eleven seconds are the time of a run.
                let waited = match decide(&plan, &attempts, Moment { unix_ms: machine.clock, boot: Some(&boot) }) {
                    Ok(Action::Run { trial, .. }) => {
                        machine.weather.disturb = 100 * u64::from(stretches.next());
                        attempts.push(machine.run(trial));
                        machine.clock += 1_000;
                        0
                    }
                    Ok(Action::Wait(wait)) => wait.until_unix_ms - machine.clock,
                    _ => break,
                };
                machine.clock += waited;
                (0..waited / 11_000).for_each(|_| _ = stretches.next());
                // The first valid run ends the drought for good.
                if attempts.last().is_some_and(|_: &Attempt| machine.weather.disturb == 0) {
                    break;
                }
            }
            given_up += u64::from(machine.weather.disturb > 0);
        }
        assert!(100 * given_up <= 3 * EXPERIMENTS, "{given_up} of {EXPERIMENTS} at {share} in stretches of {mean}");
    }
}

#[test]
fn a_config_that_does_other_work_is_dropped() {
    let experiment = experiment();
    let plan = plan(&experiment);
    let mut attempts = Vec::new();
    let boot = Digest::of(b"boot");
    while let Ok(Action::Run { trial, .. }) =
        decide(&plan, &attempts, Moment { unix_ms: 1_700_000_000_000, boot: Some(&boot) })
    {
        let mut summary = summary(&trial);
        summary.parity.user_bytes += u64::from(summary.trial.config == "candidate");
        attempts.push(Attempt::Finished(summary.into()));
    }
    let runs = attempts.iter().filter(|a| a.trial().config == "candidate").count();
    assert_eq!(runs, 2, "the second run with other work settles it");
}

#[test]
fn a_trial_of_another_plan_is_refused() {
    let plan = plan(&experiment());
    let trial = TrialId {
        scenario: "fill".to_owned(),
        block: 99,
        config: "base".to_owned(),
        replicate: 0,
        order: 0,
        attempt: 0,
    };
    let refused = Places::new(&plan, &[Attempt::Finished(summary(&trial).into())]).map(|_| ()).unwrap_err();
    assert_eq!(refused.to_string(), "trial fill-b099-base-r0-a0 is not part of the plan");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_weather_ends(
        seed: u64,
        looked: bool,
        (crash, refuse, disturb, implausible) in (0..40_u64, 0..20_u64, 0..40_u64, 0..20_u64),
        (fail, reboot, pause, other_work) in (0..30_u64, 0..10_u64, 0..10_u64, 0..10_u64),
        step in prop_oneof![Just(0_u64), 1..20_u64],
    ) {
        let weather = Weather { crash, refuse, disturb, implausible, fail, reboot, pause, other_work, step };
        let mut experiment = larger();
        if looked {
            experiment.looks = Some(LookPlan { blocks: vec![4, 6, 8], stop_on: StopOn::Overall, futility: true });
        }
        simulate(&experiment, weather, seed);
    }

    #[test]
    fn the_order_in_which_attempts_are_listed_does_not_matter(seed: u64, disturb in 0..40_u64, crash in 0..40_u64) {
        let experiment = experiment();
        let attempts = simulate(&experiment, Weather { disturb, crash, reboot: 3, ..Weather::default() }, seed);
        let mut reversed = attempts.clone();
        reversed.reverse();
        prop_assert_eq!(used(&experiment, &attempts), used(&experiment, &reversed));
        let plan = plan(&experiment);
        let half = &attempts[..attempts.len() / 2];
        let mut shuffled = half.to_vec();
        shuffled.reverse();
        let boot = Digest::of(b"boot");
        let now = Moment { unix_ms: 1_000_000, boot: Some(&boot) };
        prop_assert_eq!(decide(&plan, half, now), decide(&plan, &shuffled, now));
    }
}
