//! Same units: the numbers of a run agree with each other, and a bundle of changes is called one.
//!
//! Three figures of a run come by different ways: the rate from steps and a clock, the latencies from a histogram, the shares of
//! time from sums in each thread. If the rate counted steps that were configured and not done, or a latency had
//! another unit or another set of steps, they could not fit together.

use super::view::View;
use super::{Code, Findings, Label};

/// What a rate may be off from steps over time.
pub(super) const RATE: f64 = 0.01;
/// A window closes when somebody looks, a moment after its last step.
const CLOSING_SECONDS: f64 = 0.25;
/// What sums of time may be off: histograms keep three digits, and steps are timed one by one.
pub(super) const TIME: f64 = 0.02;

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    for &trial in view.completed() {
        let found = rate(view, trial).map(|message| (Code::RateMismatch, message));
        if let Some((code, message)) = found.or_else(|| times(view, trial).map(|message| (Code::TimeMismatch, message)))
        {
            findings.trial(trial, code, message);
        }
    }
    bundles(view, findings);
}

/// The rate times the window must be the steps that the scenario declares.
fn rate(view: &View<'_>, trial: usize) -> Option<String> {
    let summary = view.summary(trial);
    let scenario = view.experiment.scenario(&summary.trial.scenario)?;
    let role = scenario.workload.primary_role()?;
    // A rate of nothing is for the gate that holds back what is not plausible.
    let rate = *summary.metrics.get("throughput").filter(|&&rate| rate > 0.0)?;
    let seconds = role.steps as f64 / rate;
    let window = summary.window_seconds;
    let too_long = seconds > window * (1.0 + RATE);
    // Beside other roles the primary one may be done long before the window ends.
    let alone = scenario.workload.kind().roles().len() == 1;
    let too_short = alone && seconds < window * (1.0 - RATE) - CLOSING_SECONDS;
    (too_long || too_short).then(|| {
        format!("at {rate:.1} steps/s the {} steps take {seconds:.3} s, but the window took {window:.3} s", role.steps)
    })
}

/// In a closed loop a thread is in a step, makes the next ones, or waits: rate times mean latency is the number of threads
/// that are in a step (Little, "A Proof for the Queuing Formula: L = λW").
fn times(view: &View<'_>, trial: usize) -> Option<String> {
    let summary = view.summary(trial);
    let role = view.experiment.scenario(&summary.trial.scenario)?.workload.primary_role()?;
    let time = &summary.primary;
    let sum = time.db_percent + time.compute_percent + time.generator_percent + time.idle_percent;
    if sum > 100.0 * (1.0 + TIME) {
        return Some(format!("steps, generator and waiting add up to {sum:.1} % of the primary role's time"));
    }
    // With a pace latency counts from the intended start, so it holds time that no thread spent.
    if role.interval_ns.is_some() {
        return None;
    }
    let (rate, latency_us) = (summary.metrics.get("throughput")?, summary.metrics.get("step_latency_mean")?);
    if !(*rate > 0.0 && *latency_us > 0.0) {
        return None;
    }
    let in_steps = rate * latency_us / 1e6;
    let expected = f64::from(role.threads) * (time.db_percent + time.compute_percent) / 100.0;
    let too_much = in_steps > expected * (1.0 + TIME);
    // Of several threads the last one ends the window, and until then the others are gone.
    let too_little = role.threads == 1 && in_steps < expected * (1.0 - TIME);
    (too_much || too_little).then(|| {
        format!(
            "rate and mean latency imply {in_steps:.3} threads in a step, but the threads' own clocks {expected:.3}"
        )
    })
}

/// A verdict over several changes at once is about all of them together.
fn bundles(view: &View<'_>, findings: &mut Findings) {
    let bundles: Vec<String> = view
        .experiment
        .configs
        .iter()
        .filter(|config| config.changes.len() > 1)
        .map(|config| format!("{} makes {} changes", config.name, config.changes.len()))
        .collect();
    if !bundles.is_empty() {
        let text = format!("{}: their individual effects can't be told apart.", bundles.join(", "));
        findings.labels.insert(Label::Bundled, text);
    }
}

#[cfg(test)]
mod tests {
    use assay_protocol::{Role, Summary, Workload};

    use super::super::testing::{codes, experiment, gated_with, gated_with_all};
    use super::*;
    use crate::experiment::Experiment;

    fn roles(experiment: &mut Experiment) -> &mut Vec<Role> {
        let Workload::KeyValue(workload) = &mut experiment.scenarios[0].workload else { unreachable!() };
        &mut workload.roles
    }

    /// One writer in a closed loop that does 10000 steps.
    fn closed() -> Experiment {
        let mut experiment = experiment();
        let roles = roles(&mut experiment);
        roles.truncate(1);
        (roles[0].steps, roles[0].steps_per_second) = (Some(10_000), None);
        experiment
    }

    /// A run of it whose numbers fit: 10 s at 1000 steps/s, 0.95 ms of each in the step.
    fn sound(s: &mut Summary) {
        s.window_seconds = 10.0;
        s.metrics.insert("throughput".to_owned(), 1000.0);
        s.metrics.insert("step_latency_mean".to_owned(), 950.0);
        (s.primary.db_percent, s.primary.generator_percent, s.primary.idle_percent) = (95.0, 5.0, 0.0);
    }

    /// What is found in a run whose numbers fitted before the change.
    fn broken(experiment: &Experiment, change: impl Fn(&mut Summary)) -> Vec<Code> {
        let gated = gated_with_all(experiment, |s| {
            sound(s);
            if s.trial.block == 0 && s.trial.config == "candidate" {
                change(s);
            }
        });
        codes(&gated.trials[1])
    }

    fn put(name: &'static str, value: f64) -> impl Fn(&mut Summary) {
        move |s| {
            s.metrics.insert(name.to_owned(), value);
        }
    }

    #[test]
    fn a_rate_is_of_steps_that_were_done() {
        let one = closed();
        assert_eq!(broken(&one, |_| ()), []);
        assert_eq!(broken(&one, put("throughput", 980.0)), [Code::RateMismatch]);
        assert_eq!(broken(&one, put("throughput", 1050.0)), [Code::RateMismatch]);
        assert_eq!(broken(&one, |s| s.window_seconds = 10.09), [], "it closes a moment later");
        assert_eq!(broken(&one, |s| s.window_seconds = 10.5), [Code::RateMismatch]);
        // Half of the steps, and the rate of all: the histogram knows better.
        let aborted = |s: &mut Summary| {
            s.window_seconds = 5.0;
            s.metrics.insert("throughput".to_owned(), 2000.0);
        };
        assert_eq!(broken(&one, aborted), [Code::TimeMismatch]);
        // Another role goes on after the primary one is done.
        let mut two = closed();
        let mut other = roles(&mut two)[0].clone();
        other.name = "other".to_owned();
        roles(&mut two).push(other);
        assert_eq!(broken(&two, |s| s.window_seconds = 15.0), []);
        assert_eq!(broken(&two, |s| s.window_seconds = 9.8), [Code::RateMismatch]);
    }

    #[test]
    fn latencies_fill_the_time_of_the_threads() {
        let one = closed();
        assert_eq!(broken(&one, put("step_latency_mean", 965.0)), []);
        assert_eq!(broken(&one, put("step_latency_mean", 980.0)), [Code::TimeMismatch]);
        assert_eq!(broken(&one, put("step_latency_mean", 920.0)), [Code::TimeMismatch]);
        assert_eq!(broken(&one, put("step_latency_mean", 0.95)), [Code::TimeMismatch], "in milliseconds");
        assert_eq!(broken(&one, |s| s.primary.idle_percent = 3.0), [Code::TimeMismatch]);
        let mut four = closed();
        roles(&mut four)[0].threads = 4;
        assert_eq!(broken(&four, put("step_latency_mean", 3500.0)), [], "some threads are done earlier");
        assert_eq!(broken(&four, put("step_latency_mean", 3900.0)), [Code::TimeMismatch]);
        let mut paced = closed();
        roles(&mut paced)[0].steps_per_second = Some(1000);
        assert_eq!(broken(&paced, put("step_latency_mean", 1e5)), [], "steps wait for their turn");
    }

    #[test]
    fn what_was_not_measured_is_not_compared() {
        let without = |s: &mut Summary| s.metrics.clear();
        assert_eq!(broken(&closed(), without), []);
        for name in ["throughput", "step_latency_mean"] {
            assert_eq!(broken(&closed(), put(name, 0.0)), [], "{name}");
        }
    }

    #[test]
    fn several_changes_are_a_bundle() {
        let mut experiment = experiment();
        assert!(!gated_with(&experiment, 0, |_| ()).labels.contains_key(&Label::Bundled));
        experiment.configs[1].changes.push("compression: kSnappyCompression -> kZSTD".to_owned());
        assert_eq!(
            gated_with(&experiment, 0, |_| ()).labels[&Label::Bundled],
            "candidate makes 2 changes: their individual effects can't be told apart."
        );
    }

    /// Each limit is the last value that is fine.
    #[test]
    fn limits_are_where_they_are_said_to_be() {
        let mismatch = |code: Code| (vec![], vec![code]);
        // So many steps, 100 a second, in a window of 100 s: 1 % longer, or 1 % and a quarter of a second shorter.
        let lasting = |steps: u64| {
            let mut one = closed();
            roles(&mut one)[0].steps = Some(steps);
            broken(&one, |s| {
                s.window_seconds = 100.0;
                put("throughput", 100.0)(s);
                put("step_latency_mean", 9500.0)(s);
            })
        };
        assert_eq!((lasting(10_100), lasting(10_101)), mismatch(Code::RateMismatch));
        assert_eq!((lasting(9875), lasting(9874)), mismatch(Code::RateMismatch));
        // The thread is in a step all the time, so 1000 steps/s take 1000 us each, give or take 2 %.
        let taking = |latency: f64| {
            broken(&closed(), |s| {
                (s.primary.db_percent, s.primary.generator_percent) = (100.0, 0.0);
                put("step_latency_mean", latency)(s);
            })
        };
        assert_eq!((taking(1020.0), taking(1021.0)), mismatch(Code::TimeMismatch));
        assert_eq!((taking(980.0), taking(979.0)), mismatch(Code::TimeMismatch));
        // The parts of the time: 57 + 40 + 3 + 2 = 102. With a pace nothing else is compared.
        let mut paced = closed();
        roles(&mut paced)[0].steps_per_second = Some(1000);
        let parts = |db: f64| {
            broken(&paced, |s| {
                (s.primary.db_percent, s.primary.compute_percent) = (db, 40.0);
                (s.primary.generator_percent, s.primary.idle_percent) = (3.0, 2.0);
            })
        };
        assert_eq!((parts(57.0), parts(57.5)), mismatch(Code::TimeMismatch));
    }
}
