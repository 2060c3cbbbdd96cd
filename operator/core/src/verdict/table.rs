use std::collections::BTreeSet;

use super::{
    design::Purpose,
    judgement::{Outcome, Reason, Recommendation, Status, Verdict},
    observed::Attempts,
};
use crate::stats::{ALPHA, FUTILITY, fisher_greater};

/// One failure can be anybody's bad luck.
const FEWEST_FAILURES: u32 = 2;

/// The p values that decide a metric's status. `None` where the metric makes no such claim.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proofs {
    pub equivalent: f64,
    pub better: Option<f64>,
    pub worse: Option<f64>,
    pub non_inferior: f64,
}

impl Proofs {
    /// The first that holds ("Status"). Equivalence comes first: a gain or harm proven to be within the margin is no reason to act.
    pub fn status(self) -> Status {
        let holds = |p: f64| p <= ALPHA;
        if holds(self.equivalent) {
            Status::Equivalent
        } else if self.better.is_some_and(holds) {
            Status::Better
        } else if self.worse.is_some_and(holds) {
            Status::Worse
        } else if holds(self.non_inferior) {
            Status::NonInferior
        } else {
            Status::Unresolved
        }
    }
}

/// What the table needs to know of a metric.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged<'a> {
    pub name: &'a str,
    pub purpose: Purpose,
    pub status: Status,
    pub no_gain: f64,
    /// Blocks that count.
    pub n: usize,
}

/// Whether a config fails so much more often than the baseline that its numbers do not matter ("Failures").
pub(crate) fn unstable(config: Attempts, baseline: Attempts) -> bool {
    config.failed >= FEWEST_FAILURES
        && fisher_greater((config.failed, config.ok), (baseline.failed, baseline.ok)) <= ALPHA
}

/// The verdict that follows from the metrics: rows 3 to 10 of the table ("Verdict"), the first that matches. The rows before
/// are about what was measured at all, so they are the caller's.
pub(super) fn outcome(metrics: &[Judged<'_>], n_min: usize) -> Outcome {
    let objectives = || metrics.iter().filter(|m| m.purpose == Purpose::Objective);
    let required = || metrics.iter().filter(|m| m.purpose.is_required());
    let better = names(objectives().filter(|m| m.status == Status::Better));
    let worse = names(required().filter(|m| m.status == Status::Worse));
    let open = names(required().filter(|m| m.status == Status::Unresolved));
    let equivalent = objectives().all(|m| m.status == Status::Equivalent);

    let (verdict, reason) = match (better.is_empty(), worse.is_empty()) {
        (false, false) => (Verdict::Tradeoff, Reason::Mixed { better, worse }),
        (true, false) => (Verdict::Reject, Reason::Harm(worse)),
        (false, true) if open.is_empty() => (Verdict::Win, Reason::Better(better)),
        (true, true) if open.is_empty() && equivalent => (Verdict::Neutral, Reason::Equivalent),
        (gainless, true) if !gainless || equivalent => (Verdict::Inconclusive, Reason::GuardrailUnresolved(open)),
        _ if objectives().any(|m| m.n < n_min) => (Verdict::Inconclusive, Reason::TooFewBlocks),
        _ if objectives().all(|m| m.no_gain <= FUTILITY) => (Verdict::Inconclusive, Reason::NoGain),
        _ => (Verdict::Inconclusive, Reason::Underpowered),
    };
    Outcome { verdict, reason }
}

/// What the scenarios have to say against an overall verdict ("Veto"): a mean must not hide that one of them got worse, nor that
/// one of them was not measured.
pub(super) fn veto(overall: Outcome, cells: &[(&str, &Outcome)]) -> Outcome {
    if overall.verdict == Verdict::Invalid {
        return overall;
    }
    let mut codes = BTreeSet::new();
    let mut unmeasured = Vec::new();
    let mut against = Vec::new();
    for (scenario, cell) in cells {
        match (cell.verdict, &cell.reason) {
            (Verdict::Invalid, Reason::Invalid { codes: found, .. }) => {
                codes.extend(found.iter().cloned());
                unmeasured.push((*scenario).to_owned());
            }
            (Verdict::Reject | Verdict::Tradeoff, _) => against.push((*scenario).to_owned()),
            _ => {}
        }
    }
    if !unmeasured.is_empty() {
        let reason = Reason::Invalid { codes: codes.into_iter().collect(), scenarios: unmeasured };
        return Outcome { verdict: Verdict::Invalid, reason };
    }
    let vetoed = match overall.verdict {
        _ if against.is_empty() => return overall,
        Verdict::Win => Verdict::Tradeoff,
        Verdict::Neutral | Verdict::Inconclusive => Verdict::Reject,
        Verdict::Reject | Verdict::Tradeoff | Verdict::Invalid => return overall,
    };
    Outcome { verdict: vetoed, reason: Reason::WorseIn(against) }
}

pub(super) fn recommendation(outcome: &Outcome) -> Recommendation {
    match (outcome.verdict, &outcome.reason) {
        (Verdict::Invalid, _) => Recommendation::FixSetup,
        (Verdict::Tradeoff, _) => Recommendation::OwnerDecides,
        (Verdict::Win, _) => Recommendation::Adopt,
        (Verdict::Reject | Verdict::Neutral, _) | (_, Reason::NoGain) => Recommendation::KeepBaseline,
        (Verdict::Inconclusive, Reason::GuardrailUnresolved(_)) => Recommendation::MoreBlocksOrLongerRuns,
        (Verdict::Inconclusive, _) => Recommendation::MoreBlocks,
    }
}

fn names<'a>(metrics: impl Iterator<Item = &'a Judged<'a>>) -> Vec<String> {
    metrics.map(|m| m.name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const N_MIN: usize = 8;

    fn metric(name: &'static str, purpose: Purpose, status: Status) -> Judged<'static> {
        Judged { name, purpose, status, no_gain: 0.5, n: 20 }
    }

    fn shown(metrics: &[Judged<'_>]) -> String {
        let Outcome { verdict, reason } = outcome(metrics, N_MIN);
        format!("{verdict:?} {reason}")
    }

    /// One objective and one guardrail.
    fn pair(objective: Status, guardrail: Status) -> String {
        shown(&[metric("ops", Purpose::Objective, objective), metric("p99", Purpose::Guardrail, guardrail)])
    }

    #[test]
    fn status_takes_the_first_proof() {
        let none = Proofs { equivalent: 1.0, better: Some(1.0), worse: Some(1.0), non_inferior: 1.0 };
        assert_eq!(none.status(), Status::Unresolved);
        assert_eq!(Proofs { non_inferior: 0.05, ..none }.status(), Status::NonInferior);
        assert_eq!(Proofs { non_inferior: 0.051, ..none }.status(), Status::Unresolved);
        assert_eq!(Proofs { non_inferior: 0.01, worse: Some(0.05), ..none }.status(), Status::Worse);
        assert_eq!(Proofs { worse: Some(0.01), better: Some(0.05), ..none }.status(), Status::Better);
        assert_eq!(Proofs { better: Some(0.01), equivalent: 0.05, ..none }.status(), Status::Equivalent);
        assert_eq!(Proofs { better: None, worse: None, ..none }.status(), Status::Unresolved);
    }

    #[test]
    fn row_2_needs_failures_that_the_baseline_does_not_have() {
        let attempts = |failed, ok| Attempts { failed, ok };
        assert!(unstable(attempts(3, 9), attempts(0, 24)));
        assert!(!unstable(attempts(3, 9), attempts(6, 18)));
        // Significant, but a single failure.
        assert!(!unstable(attempts(1, 0), attempts(0, 24)));
        assert!(!unstable(attempts(2, 10), attempts(0, 4)));
    }

    #[test]
    fn row_3_gain_and_harm() {
        assert_eq!(pair(Status::Better, Status::Worse), "Tradeoff ops better; p99 worse");
        assert_eq!(pair(Status::Better, Status::NonInferior), "Win Better:ops");
    }

    #[test]
    fn row_4_harm() {
        assert_eq!(pair(Status::Equivalent, Status::Worse), "Reject Harm:p99");
        assert_eq!(pair(Status::Worse, Status::Worse), "Reject Harm:ops,p99");
        // Harm to a metric that is only reported decides nothing.
        let info = metric("rss", Purpose::Info, Status::Worse);
        assert_eq!(shown(&[metric("ops", Purpose::Objective, Status::Better), info]), "Win Better:ops");
    }

    #[test]
    fn row_5_gain_and_everything_else_proven() {
        for proven in [Status::NonInferior, Status::Equivalent, Status::Better] {
            assert_eq!(pair(Status::Better, proven), "Win Better:ops");
        }
        // A gain of a guardrail is no objective.
        assert_eq!(pair(Status::NonInferior, Status::Better), "Inconclusive Underpowered");
        let two =
            [metric("ops", Purpose::Objective, Status::Better), metric("cpu", Purpose::Objective, Status::Better)];
        assert_eq!(shown(&two), "Win Better:ops,cpu");
    }

    #[test]
    fn row_6_gain_without_proof_of_the_rest() {
        assert_eq!(pair(Status::Better, Status::Unresolved), "Inconclusive GuardrailUnresolved:p99");
        let two =
            [metric("ops", Purpose::Objective, Status::Better), metric("cpu", Purpose::Objective, Status::Unresolved)];
        assert_eq!(shown(&two), "Inconclusive GuardrailUnresolved:cpu");
        // A metric that is only reported needs no proof.
        let info = metric("rss", Purpose::Info, Status::Unresolved);
        assert_eq!(shown(&[metric("ops", Purpose::Objective, Status::Better), info]), "Win Better:ops");
    }

    #[test]
    fn row_7_no_difference_that_matters() {
        assert_eq!(pair(Status::Equivalent, Status::NonInferior), "Neutral Equivalent");
        assert_eq!(pair(Status::Equivalent, Status::Unresolved), "Inconclusive GuardrailUnresolved:p99");
        let two = [
            metric("ops", Purpose::Objective, Status::Equivalent),
            metric("cpu", Purpose::Objective, Status::NonInferior),
        ];
        assert_eq!(shown(&two), "Inconclusive Underpowered");
    }

    #[test]
    fn row_8_too_few_blocks_comes_before_futility() {
        let with = |n| Judged { n, no_gain: 0.01, ..metric("ops", Purpose::Objective, Status::Unresolved) };
        assert_eq!(shown(&[with(N_MIN - 1)]), "Inconclusive TooFewBlocks");
        assert_eq!(shown(&[with(N_MIN)]), "Inconclusive NoGain");
        // What is proven is proven, at any number of blocks.
        assert_eq!(shown(&[Judged { status: Status::Worse, ..with(5) }]), "Reject Harm:ops");
    }

    #[test]
    fn row_9_a_gain_is_excluded_for_every_objective() {
        let with = |name, no_gain| Judged { no_gain, ..metric(name, Purpose::Objective, Status::NonInferior) };
        assert_eq!(shown(&[with("ops", 0.025)]), "Inconclusive NoGain");
        assert_eq!(shown(&[with("ops", 0.0251)]), "Inconclusive Underpowered");
        assert_eq!(shown(&[with("ops", 0.01), with("cpu", 0.01)]), "Inconclusive NoGain");
        assert_eq!(shown(&[with("ops", 0.01), with("cpu", 0.03)]), "Inconclusive Underpowered");
    }

    #[test]
    fn scenarios_veto_what_the_mean_hides() {
        let win = Outcome { verdict: Verdict::Win, reason: Reason::Better(vec!["ops".into()]) };
        let harm = Outcome { verdict: Verdict::Reject, reason: Reason::Harm(vec!["ops".into()]) };
        let mixed = Outcome { verdict: Verdict::Tradeoff, reason: Reason::Mixed { better: vec![], worse: vec![] } };
        let neutral = Outcome { verdict: Verdict::Neutral, reason: Reason::Equivalent };
        let open = Outcome { verdict: Verdict::Inconclusive, reason: Reason::Underpowered };
        let invalid = |codes: &[&str], scenarios: &[&str]| Outcome {
            verdict: Verdict::Invalid,
            reason: Reason::Invalid {
                codes: codes.iter().map(ToString::to_string).collect(),
                scenarios: scenarios.iter().map(ToString::to_string).collect(),
            },
        };
        let vetoed = |overall: &Outcome, read: &Outcome, write: &Outcome| {
            let Outcome { verdict, reason } = veto(overall.clone(), &[("read", read), ("write", write)]);
            format!("{verdict:?} {reason}")
        };
        assert_eq!(vetoed(&win, &win, &open), "Win Better:ops");
        assert_eq!(vetoed(&win, &win, &harm), "Tradeoff worse in write");
        assert_eq!(vetoed(&neutral, &mixed, &harm), "Reject worse in read,write");
        assert_eq!(vetoed(&open, &harm, &neutral), "Reject worse in read");
        assert_eq!(vetoed(&harm, &harm, &neutral), "Reject Harm:ops");
        assert_eq!(vetoed(&win, &harm, &invalid(&["WorkMismatch"], &[])), "Invalid WorkMismatch in write");
        assert_eq!(vetoed(&invalid(&["FeatureMismatch"], &[]), &harm, &open), "Invalid FeatureMismatch");
    }

    #[test]
    fn every_row_recommends_something() {
        let recommended = |verdict, reason| recommendation(&Outcome { verdict, reason }).to_string();
        let none = Vec::new;
        assert_eq!(recommended(Verdict::Invalid, Reason::Invalid { codes: none(), scenarios: none() }), "fix setup");
        assert_eq!(recommended(Verdict::Reject, Reason::Unstable), "keep baseline");
        assert_eq!(recommended(Verdict::Tradeoff, Reason::WorseIn(none())), "owner decides");
        assert_eq!(recommended(Verdict::Reject, Reason::Harm(none())), "keep baseline");
        assert_eq!(recommended(Verdict::Win, Reason::Better(none())), "adopt");
        assert_eq!(
            recommended(Verdict::Inconclusive, Reason::GuardrailUnresolved(none())),
            "more blocks or longer runs"
        );
        assert_eq!(recommended(Verdict::Neutral, Reason::Equivalent), "keep baseline");
        assert_eq!(recommended(Verdict::Inconclusive, Reason::TooFewBlocks), "more blocks");
        assert_eq!(recommended(Verdict::Inconclusive, Reason::NoGain), "keep baseline");
        assert_eq!(recommended(Verdict::Inconclusive, Reason::Underpowered), "more blocks");
    }
}
