use std::collections::BTreeSet;

use super::{
    design::{Design, Purpose},
    judgement::{Outcome, Reason, Recommendation, Status, Verdict},
};
use crate::stats::{ALPHA, FUTILITY, uneven};

/// One failure can be anybody's bad luck.
const FEWEST_FAILURES: usize = 2;

/// The p values that decide a metric's status. `None` where the metric makes no such claim.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proofs {
    pub equivalent: f64,
    pub better: Option<f64>,
    pub worse: Option<f64>,
    pub non_inferior: f64,
    /// The same at what a scenario may lose.
    pub per_scenario: Option<f64>,
    pub equal_per_scenario: Option<f64>,
    pub total_non_inferior: Option<f64>,
    pub total_worse: Option<f64>,
}

/// What is proven about the total of a metric's runs ("Totals").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Total {
    /// It has none, or no claim about it is made.
    NotAsked,
    /// It is not worse by what a scenario may lose.
    Holds,
    Open,
    Worse,
}

fn holds(p: f64) -> bool {
    p <= ALPHA
}

impl Proofs {
    pub fn centre(self) -> Centre {
        Centre {
            holds_for_win: self.per_scenario.is_none_or(holds),
            holds_for_neutral: self.equal_per_scenario.is_none_or(holds),
        }
    }

    pub fn total(self) -> Total {
        match (self.total_non_inferior, self.total_worse) {
            (None, _) => Total::NotAsked,
            (Some(p), _) if holds(p) => Total::Holds,
            (_, Some(p)) if holds(p) => Total::Worse,
            _ => Total::Open,
        }
    }

    /// The first that holds ("Status"). Equivalence comes first: a gain or harm proven to be within the margin is no reason to act.
    pub fn status(self) -> Status {
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

/// Whether the loss in a scenario is proven to be smaller than it may be, at what a Win and at what a Neutral spends on it; true where
/// nothing is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Centre {
    pub holds_for_win: bool,
    pub holds_for_neutral: bool,
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
    pub centre: Centre,
    /// In a scenario: what is proven about the total.
    pub total: Total,
    /// All of its simultaneous interval lies beyond the margin on the bad side.
    pub is_likely_harmed: bool,
    /// The estimate of its mean is a loss beyond the margin.
    pub has_lost_mean: bool,
}

/// P value of the claim that a config fails more often than the baseline ("Failures"). Of each block, whether its run failed and which of the
/// `m0` baseline runs did. Block by block: what makes one run of each fail, such as being the first, is not the config's doing.
pub(super) fn fails_more(blocks: impl Iterator<Item = (bool, Vec<bool>)>, m0: usize) -> f64 {
    // A block without a failure says nothing, and most have none.
    let failing: Vec<(bool, Vec<bool>)> = blocks.filter(|(own, runs)| *own || runs.contains(&true)).collect();
    if failing.iter().filter(|(own, _)| *own).count() < FEWEST_FAILURES {
        return 1.0;
    }
    uneven(failing.into_iter(), m0).up
}

/// Failures of a config in a scenario, without a success, that prove by the end of the plan that it fails more often than a baseline that
/// never does. More runs would add nothing.
pub fn fewest_failures(design: &Design) -> u32 {
    let claims = design.families().cells.worse as f64 / design.last_look().cells.worse;
    let alone = (true, vec![false; design.m0]);
    let proves = |&failed: &usize| fails_more(std::iter::repeat_n(alone.clone(), failed), design.m0) * claims <= ALPHA;
    (FEWEST_FAILURES..design.max_blocks).find(proves).unwrap_or(design.max_blocks) as u32
}

/// The verdict that follows from the metrics: rows 3 to 11 of the table ("Verdict"), the first that matches. The rows before
/// are about what was measured at all, so they are the caller's.
pub(super) fn outcome(metrics: &[Judged<'_>], n_min: usize) -> Outcome {
    let objectives = || metrics.iter().filter(|m| m.purpose == Purpose::Objective);
    let required = || metrics.iter().filter(|m| m.purpose.is_required());
    let better = names(objectives().filter(|m| m.status == Status::Better));
    let worse = names(required().filter(|m| m.status == Status::Worse));
    let open = names(required().filter(|m| m.status == Status::Unresolved));
    let equivalent = objectives().all(|m| m.status == Status::Equivalent);
    let harmed = names(required().filter(|m| m.is_likely_harmed));

    let (verdict, reason) = match (better.is_empty(), worse.is_empty()) {
        (false, false) => (Verdict::Tradeoff, Reason::Mixed { better, worse }),
        (true, false) => (Verdict::Reject, Reason::Harm(worse)),
        (false, true) if open.is_empty() => (Verdict::Win, Reason::Better(better)),
        (true, true) if open.is_empty() && equivalent => (Verdict::Neutral, Reason::Equivalent),
        _ if !harmed.is_empty() => {
            (Verdict::Inconclusive, Reason::LikelyHarm { metrics: harmed, scenarios: Vec::new() })
        }
        (gainless, true) if !gainless || equivalent => (Verdict::Inconclusive, Reason::GuardrailUnresolved(open)),
        _ if objectives().any(|m| m.n < n_min) => (Verdict::Inconclusive, Reason::TooFewBlocks),
        _ if objectives().all(|m| m.no_gain <= FUTILITY) => (Verdict::Inconclusive, Reason::NoGain),
        _ => (Verdict::Inconclusive, Reason::Underpowered),
    };
    Outcome { verdict, reason }
}

/// A config in one scenario, as its overall verdict sees it.
pub(super) struct Part<'a> {
    pub scenario: &'a str,
    pub outcome: &'a Outcome,
    pub metrics: &'a [Judged<'a>],
    /// What speaks against a Win or Neutral, though it proves no harm.
    pub doubt: Option<Reason>,
    /// Nothing that the config changes could act here, so there is nothing to prove.
    pub is_idle: bool,
}

/// Takes back what a doubt speaks against: a Win or Neutral of a config of which more runs failed ("Failures") or were lost ("Attrition").
/// An open verdict that failures would undo anyway is named after the failures: more blocks would not help.
fn unless_doubted(outcome: Outcome, doubt: Option<Reason>) -> Outcome {
    let is_plain = matches!(outcome.reason, Reason::NoGain | Reason::Underpowered | Reason::TooFewBlocks);
    match (outcome.verdict, doubt) {
        (Verdict::Win | Verdict::Neutral, Some(reason)) => Outcome { verdict: Verdict::Inconclusive, reason },
        (Verdict::Inconclusive, Some(Reason::Failures)) if is_plain => {
            Outcome { verdict: Verdict::Inconclusive, reason: Reason::Failures }
        }
        _ => outcome,
    }
}

/// Metrics of some scenarios, each named once, in which something holds; the scenarios only where there are several.
fn find(parts: &[(&str, &[Judged<'_>])], holds: impl Fn(&Judged<'_>) -> bool) -> Option<(Vec<String>, Vec<String>)> {
    let (mut metrics, mut scenarios) = (Vec::new(), Vec::new());
    for (scenario, judged) in parts {
        let found = names(judged.iter().filter(|metric| holds(metric)));
        if !found.is_empty() {
            scenarios.push((*scenario).to_owned());
        }
        metrics.extend(found.into_iter().filter(|name| !metrics.contains(name)).collect::<Vec<_>>());
    }
    if parts.len() == 1 {
        scenarios.clear();
    }
    (!metrics.is_empty()).then_some((metrics, scenarios))
}

/// Takes back a verdict whose runs add up to something worse, or may, on whatever it is required of: a stall that spoils the sum of a
/// guardrail is paid for like any other ("Totals"). A Win must prove its means; a Neutral's must not look like a loss beyond the margin.
fn unless_slow(outcome: Outcome, parts: &[(&str, &[Judged<'_>])]) -> Outcome {
    let with = |verdict: Verdict, holds: &dyn Fn(&Judged<'_>) -> bool| {
        let (metrics, scenarios) = find(parts, holds)?;
        Some(Outcome { verdict, reason: Reason::SlowTail { metrics, scenarios } })
    };
    let found = match outcome.verdict {
        Verdict::Win => with(Verdict::Tradeoff, &|m| m.total == Total::Worse)
            .or_else(|| with(Verdict::Inconclusive, &|m| m.total == Total::Open)),
        Verdict::Neutral => with(Verdict::Inconclusive, &|m| m.has_lost_mean),
        _ => None,
    };
    found.unwrap_or(outcome)
}

/// The verdict of a config in one scenario.
pub(super) fn cell(metrics: &[Judged<'_>], n_min: usize, doubt: Option<Reason>) -> Outcome {
    unless_slow(unless_doubted(outcome(metrics, n_min), doubt), &[("", metrics)])
}

/// The verdict of a config over all scenarios, of which `outcome` is what they say together, and `lost_means` the metrics whose mean over
/// them is a loss: no scenario pays for another.
pub(super) fn overall(outcome: Outcome, lost_means: &[String], parts: &[Part<'_>]) -> Outcome {
    let cells: Vec<(&str, &Outcome)> = parts.iter().map(|part| (part.scenario, part.outcome)).collect();
    let outcome = unless_doubted(veto(outcome, &cells), parts.iter().find_map(|part| part.doubt.clone()));
    let asked: Vec<&Part<'_>> = parts.iter().filter(|part| !part.is_idle).collect();
    let found = unless_open(outcome, lost_means, &asked);
    if found.verdict == Verdict::Inconclusive { harmed_in_scenarios(found, &asked) } else { found }
}

/// Takes back a Win or Neutral that is not proven of each scenario.
fn unless_open(outcome: Outcome, lost_means: &[String], asked: &[&Part<'_>]) -> Outcome {
    let is_open = match outcome.verdict {
        Verdict::Win => |metric: &Judged<'_>| !metric.centre.holds_for_win,
        Verdict::Neutral => {
            |metric: &Judged<'_>| metric.purpose == Purpose::Objective && !metric.centre.holds_for_neutral
        }
        _ => return outcome,
    };
    let is_neutral = outcome.verdict == Verdict::Neutral;
    let metrics: Vec<(&str, &[Judged<'_>])> = asked.iter().map(|part| (part.scenario, part.metrics)).collect();
    let slow = unless_slow(outcome, &metrics);
    let open = asked.iter().filter(|part| part.metrics.iter().any(is_open));
    let open: Vec<String> = open.map(|part| part.scenario.to_owned()).collect();
    if slow.verdict == Verdict::Tradeoff {
        return slow;
    }
    if !open.is_empty() {
        return Outcome { verdict: Verdict::Inconclusive, reason: Reason::ScenarioUnresolved(open) };
    }
    if is_neutral && slow.verdict == Verdict::Neutral && !lost_means.is_empty() {
        let reason = Reason::SlowTail { metrics: lost_means.to_vec(), scenarios: Vec::new() };
        return Outcome { verdict: Verdict::Inconclusive, reason };
    }
    slow
}

/// Says where harm is likely, if it is not so overall: what other scenarios gain does not make it less so.
fn harmed_in_scenarios(outcome: Outcome, parts: &[&Part<'_>]) -> Outcome {
    if matches!(outcome.reason, Reason::LikelyHarm { .. }) {
        return outcome;
    }
    let mut harmed = (Vec::new(), Vec::new());
    for part in parts {
        if let (Verdict::Inconclusive, Reason::LikelyHarm { metrics, .. }) =
            (part.outcome.verdict, &part.outcome.reason)
        {
            harmed.0.extend(metrics.iter().filter(|&metric| !harmed.0.contains(metric)).cloned().collect::<Vec<_>>());
            harmed.1.push(part.scenario.to_owned());
        }
    }
    let (metrics, scenarios) = harmed;
    if scenarios.is_empty() {
        return outcome;
    }
    Outcome { verdict: Verdict::Inconclusive, reason: Reason::LikelyHarm { metrics, scenarios } }
}

/// What the scenarios have to say against an overall verdict ("Veto"): a mean must not hide that one of them got worse, nor that
/// one of them was not measured.
fn veto(overall: Outcome, cells: &[(&str, &Outcome)]) -> Outcome {
    if overall.verdict == Verdict::Invalid {
        return overall;
    }
    let mut codes = BTreeSet::new();
    let mut unmeasured = Vec::new();
    let mut against = Vec::new();
    let mut unstable = false;
    for (scenario, cell) in cells {
        match (cell.verdict, &cell.reason) {
            (Verdict::Invalid, Reason::Invalid { codes: found, .. }) => {
                codes.extend(found.iter().cloned());
                unmeasured.push((*scenario).to_owned());
            }
            (Verdict::Reject, Reason::Unstable) => unstable = true,
            // What its runs add up to in a scenario is asked of the Win itself.
            (Verdict::Tradeoff, Reason::SlowTail { .. }) if overall.verdict == Verdict::Win => {}
            (Verdict::Reject | Verdict::Tradeoff, _) => against.push((*scenario).to_owned()),
            _ => {}
        }
    }
    if !unmeasured.is_empty() {
        let reason = Reason::Invalid { codes: codes.into_iter().collect(), scenarios: unmeasured };
        return Outcome { verdict: Verdict::Invalid, reason };
    }
    // A gain elsewhere is no price for a config that fails.
    if unstable {
        return Outcome { verdict: Verdict::Reject, reason: Reason::Unstable };
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
        (Verdict::Reject | Verdict::Neutral, _) | (_, Reason::NoGain | Reason::LikelyHarm { .. }) => {
            Recommendation::KeepBaseline
        }
        (Verdict::Inconclusive, Reason::Failures | Reason::Attrition) => Recommendation::FindFailures,
        (Verdict::Inconclusive, Reason::GuardrailUnresolved(_) | Reason::ScenarioUnresolved(_)) => {
            Recommendation::MoreBlocksOrLongerRuns
        }
        (Verdict::Inconclusive, _) => Recommendation::MoreBlocks,
    }
}

fn names<'a>(metrics: impl Iterator<Item = &'a Judged<'a>>) -> Vec<String> {
    metrics.map(|m| m.name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::design::{LookPlan, StopOn};
    use super::*;

    const N_MIN: usize = 8;

    fn metric(name: &'static str, purpose: Purpose, status: Status) -> Judged<'static> {
        let total = if purpose.is_required() { Total::Holds } else { Total::NotAsked };
        Judged {
            name,
            purpose,
            status,
            no_gain: 0.5,
            n: 20,
            centre: Centre { holds_for_win: true, holds_for_neutral: true },
            total,
            is_likely_harmed: false,
            has_lost_mean: false,
        }
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
        let none = Proofs {
            equivalent: 1.0,
            better: Some(1.0),
            worse: Some(1.0),
            non_inferior: 1.0,
            per_scenario: None,
            equal_per_scenario: None,
            total_non_inferior: None,
            total_worse: None,
        };
        assert_eq!(none.status(), Status::Unresolved);
        assert_eq!(Proofs { non_inferior: 0.05, ..none }.status(), Status::NonInferior);
        assert_eq!(Proofs { non_inferior: 0.051, ..none }.status(), Status::Unresolved);
        assert_eq!(Proofs { non_inferior: 0.01, worse: Some(0.05), ..none }.status(), Status::Worse);
        assert_eq!(Proofs { worse: Some(0.01), better: Some(0.05), ..none }.status(), Status::Better);
        assert_eq!(Proofs { better: Some(0.01), equivalent: 0.05, ..none }.status(), Status::Equivalent);
        assert_eq!(Proofs { better: None, worse: None, ..none }.status(), Status::Unresolved);
    }

    #[test]
    fn a_total_holds_or_is_worse_or_open() {
        let none = Proofs {
            equivalent: 1.0,
            better: Some(0.01),
            worse: Some(1.0),
            non_inferior: 0.01,
            per_scenario: Some(0.06),
            equal_per_scenario: Some(0.05),
            total_non_inferior: Some(0.06),
            total_worse: Some(0.06),
        };
        assert_eq!((none.total(), none.centre().holds_for_win), (Total::Open, false));
        assert!(none.centre().holds_for_neutral);
        assert_eq!(Proofs { total_worse: Some(0.05), ..none }.total(), Total::Worse);
        assert_eq!(Proofs { total_worse: Some(0.05), total_non_inferior: Some(0.05), ..none }.total(), Total::Holds);
        assert_eq!(Proofs { total_non_inferior: None, ..none }.total(), Total::NotAsked);
        assert!(Proofs { per_scenario: Some(0.05), ..none }.centre().holds_for_win);
        assert!(Proofs { per_scenario: None, ..none }.centre().holds_for_win);
    }

    #[test]
    fn row_2_needs_failures_that_the_baseline_does_not_have() {
        // Of 12 blocks, those in which the config's run failed, and those in which the first of two baseline runs did.
        let p = |own: &[usize], baseline: &[usize]| {
            fails_more((0..12).map(|block| (own.contains(&block), vec![baseline.contains(&block), false])), 2)
        };
        assert!((p(&[0, 3, 7], &[]) - 1.0 / 27.0).abs() < 1e-15);
        assert!(p(&[0, 3, 7], &[1, 2, 4, 5, 6, 8]) > 0.5);
        // Significant, but a single failure.
        assert_eq!(p(&[3], &[]), 1.0);
        // Two are enough to count, not to prove.
        assert!((p(&[3, 5], &[]) - 1.0 / 9.0).abs() < 1e-15);
    }

    /// In each block one run of two fails, the first, and chance puts the config there eight times of ten. Taken for independent, as by
    /// Fisher's exact test, these failures would be a proof: p = 0.01.
    #[test]
    fn failures_that_the_order_decides_prove_little() {
        let first = |own: usize| fails_more((0..10).map(|block| (block < own, vec![block >= own])), 1);
        assert!(crate::stats::fisher_greater((8, 2), (2, 8)) < 0.012);
        assert!((first(8) - 56.0 / 1024.0).abs() < 1e-12, "{}", first(8));
        assert!(first(10) < 0.001);
    }

    #[test]
    fn as_many_failures_are_enough_as_prove_it() {
        let design = |configs, m0| crate::verdict::testing::design(configs, &["read"], m0, 30);
        // Two claims of harm for each config: 2^-6, 3^-6 and 5^-6 are small enough.
        assert_eq!(fewest_failures(&design(1, 1)), 6);
        assert_eq!(fewest_failures(&design(3, 2)), 5);
        assert_eq!(fewest_failures(&design(18, 4)), 5);
        // 1 - (25/30)^3 = 42 % of the error is left to the last look: 2 x 2^-6 is more than 5 % of that.
        let mut looked = design(1, 1);
        let blocks = vec![25, 30];
        looked.looks = Some(LookPlan { blocks, stop_on: StopOn::Overall, futility: false });
        assert_eq!(fewest_failures(&looked), 7);
    }

    #[test]
    fn a_doubt_takes_back_what_is_good_and_nothing_else() {
        let win = [metric("ops", Purpose::Objective, Status::Better)];
        let said = |metrics: &[Judged<'_>], fails_more| {
            let Outcome { verdict, reason } = cell(metrics, N_MIN, bool::then_some(fails_more, Reason::Failures));
            format!("{verdict:?} {reason}")
        };
        assert_eq!((said(&win, false), said(&win, true)), ("Win Better:ops".into(), "Inconclusive Failures".into()));
        let neutral = [metric("ops", Purpose::Objective, Status::Equivalent)];
        assert_eq!(said(&neutral, true), "Inconclusive Failures");
        // What is worse anyway stays worse.
        assert_eq!(said(&[metric("ops", Purpose::Objective, Status::Worse)], true), "Reject Harm:ops");
    }

    #[test]
    fn a_win_is_paid_in_sum() {
        let with = |total| Judged { total, ..metric("ops", Purpose::Objective, Status::Better) };
        let said = |total| {
            let Outcome { verdict, reason } = cell(&[with(total)], N_MIN, None);
            format!("{verdict:?} {reason}")
        };
        assert_eq!(said(Total::Holds), "Win Better:ops");
        assert_eq!(said(Total::NotAsked), "Win Better:ops");
        assert_eq!(said(Total::Open), "Inconclusive SlowTail:ops");
        assert_eq!(said(Total::Worse), "Tradeoff SlowTail:ops");
        // Nor does it matter whether the metric that stalls is the one that is won.
        for purpose in [Purpose::Objective, Purpose::Guardrail] {
            let other = |total| {
                let other = Judged { total, ..metric("cpu", purpose, Status::NonInferior) };
                let Outcome { verdict, reason } = cell(&[with(Total::Holds), other], N_MIN, None);
                format!("{verdict:?} {reason}")
            };
            assert_eq!(other(Total::Holds), "Win Better:ops");
            assert_eq!(other(Total::Open), "Inconclusive SlowTail:cpu");
            assert_eq!(other(Total::Worse), "Tradeoff SlowTail:cpu");
        }
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
        let failing = Outcome { verdict: Verdict::Reject, reason: Reason::Unstable };
        assert_eq!(vetoed(&win, &win, &failing), "Reject Unstable");
        assert_eq!(vetoed(&win, &win, &open), "Win Better:ops");
        assert_eq!(vetoed(&win, &win, &harm), "Tradeoff worse in write");
        assert_eq!(vetoed(&neutral, &mixed, &harm), "Reject worse in read,write");
        assert_eq!(vetoed(&open, &harm, &neutral), "Reject worse in read");
        assert_eq!(vetoed(&harm, &harm, &neutral), "Reject Harm:ops");
        assert_eq!(vetoed(&win, &harm, &invalid(&["WorkMismatch"], &[])), "Invalid WorkMismatch in write");
        assert_eq!(vetoed(&invalid(&["FeatureMismatch"], &[]), &harm, &open), "Invalid FeatureMismatch");
    }

    #[test]
    fn no_scenario_pays_for_another() {
        let win = Outcome { verdict: Verdict::Win, reason: Reason::Better(vec!["ops".into()]) };
        let open = Outcome { verdict: Verdict::Inconclusive, reason: Reason::Underpowered };
        let good = [metric("ops", Purpose::Objective, Status::Better)];
        let said = |write: Judged<'_>, fails_more| {
            let write = [write];
            let part = |scenario, outcome, metrics, fails_more: bool| Part {
                scenario,
                outcome,
                metrics,
                doubt: fails_more.then_some(Reason::Failures),
                is_idle: false,
            };
            let parts = [part("read", &win, &good[..], false), part("write", &open, &write[..], fails_more)];
            let Outcome { verdict, reason } = overall(win.clone(), &[], &parts);
            format!("{verdict:?} {reason}")
        };
        let unresolved = metric("ops", Purpose::Objective, Status::Unresolved);
        assert_eq!(said(unresolved, false), "Win Better:ops");
        assert_eq!(
            said(Judged { centre: Centre { holds_for_win: false, holds_for_neutral: false }, ..unresolved }, false),
            "Inconclusive ScenarioUnresolved:write"
        );
        assert_eq!(said(Judged { total: Total::Open, ..unresolved }, false), "Inconclusive SlowTail:ops in write");
        let slow = Judged {
            total: Total::Worse,
            centre: Centre { holds_for_win: false, holds_for_neutral: false },
            ..unresolved
        };
        assert_eq!(said(slow, false), "Tradeoff SlowTail:ops in write");
        // Its own verdict says the same, and is not taken for harm of another kind.
        let tail = cell(&[Judged { status: Status::Better, ..slow }], N_MIN, None);
        assert_eq!(tail.verdict, Verdict::Tradeoff);
        let cells = |overall: Outcome| veto(overall, &[("write", &tail)]);
        assert_eq!(cells(win.clone()), win);
        assert_eq!(cells(open.clone()).verdict, Verdict::Reject);
        let alone = [Part {
            scenario: "write",
            outcome: &tail,
            metrics: &[Judged { status: Status::Better, ..slow }],
            doubt: None,
            is_idle: false,
        }];
        assert_eq!(overall(win.clone(), &[], &alone).reason.to_string(), "SlowTail:ops");
        assert_eq!(said(unresolved, true), "Inconclusive Failures");
    }

    #[test]
    fn failures_that_hold_a_verdict_back_are_its_reason() {
        let reason = |status: Status, doubt: Option<Reason>| {
            cell(&[metric("ops", Purpose::Objective, status)], N_MIN, doubt).reason.to_string()
        };
        assert_eq!(reason(Status::Equivalent, Some(Reason::Failures)), "Failures");
        assert_eq!(reason(Status::Unresolved, Some(Reason::Failures)), "Failures");
        assert_eq!(reason(Status::Unresolved, Some(Reason::Attrition)), "Underpowered");
        assert_eq!(reason(Status::Worse, Some(Reason::Failures)), "Harm:ops");
    }

    /// A scenario in which a loss is likely says so whatever the others gain, and whatever else is open in it.
    #[test]
    fn harm_that_is_likely_in_a_scenario_is_named_instead_of_what_is_open() {
        let gain = [metric("ops", Purpose::Objective, Status::Better)];
        let loss = [Judged {
            centre: Centre { holds_for_win: false, holds_for_neutral: false },
            is_likely_harmed: true,
            ..metric("ops", Purpose::Objective, Status::Unresolved)
        }];
        let [read, write] = [cell(&gain, N_MIN, None), cell(&loss, N_MIN, None)];
        let part = |scenario, outcome, metrics| Part { scenario, outcome, metrics, doubt: None, is_idle: false };
        let parts = [part("read", &read, &gain[..]), part("write", &write, &loss[..])];
        for overall in [
            Outcome { verdict: Verdict::Win, reason: Reason::Better(vec!["ops".into()]) },
            Outcome { verdict: Verdict::Neutral, reason: Reason::Equivalent },
        ] {
            assert_eq!(super::overall(overall, &[], &parts).reason.to_string(), "LikelyHarm:ops in write");
        }
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
        assert_eq!(recommended(Verdict::Inconclusive, Reason::Failures), "find out why runs fail");
        assert_eq!(
            recommended(Verdict::Inconclusive, Reason::ScenarioUnresolved(none())),
            "more blocks or longer runs"
        );
        let tail = || Reason::SlowTail { metrics: none(), scenarios: none() };
        assert_eq!(recommended(Verdict::Tradeoff, tail()), "owner decides");
        assert_eq!(recommended(Verdict::Inconclusive, tail()), "more blocks");
        assert_eq!(recommended(Verdict::Neutral, Reason::Equivalent), "keep baseline");
        assert_eq!(recommended(Verdict::Inconclusive, Reason::TooFewBlocks), "more blocks");
        assert_eq!(recommended(Verdict::Inconclusive, Reason::NoGain), "keep baseline");
        assert_eq!(recommended(Verdict::Inconclusive, Reason::Underpowered), "more blocks");
    }
}
