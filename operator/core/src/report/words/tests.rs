use super::*;
use crate::gates::Code;
use crate::verdict::Reason;

const RUNS: Runs = Runs { failed: 0, damaged: 0, sound: 12 };
const ABOUT: About<'_> = About {
    config: "per-level",
    baseline: "default",
    family: Family { better: 1, worse: 2, n_min: 8 },
    failures: Failures { own: RUNS, baseline: RUNS },
    needed: None,
};

fn estimate(metric: &str, purpose: Purpose, status: Status, percent: [f64; 2]) -> Estimate {
    let [low, high] = percent.map(|percent| (percent / 100.0).ln_1p());
    Estimate {
        metric: metric.to_owned(),
        purpose,
        scale: Scale::Log,
        margin: 0.02,
        status: Some(status),
        blocks: 12,
        estimate: Some(f64::midpoint(low, high)),
        interval95: Some(Interval { low: Some(low), high: Some(high) }),
        bounds: None,
        estimate_percent: None,
        mean: None,
        mean_percent: None,
        has_zeros: false,
        at_least: None,
        detectable_percent: Some(3.0),
        blocks_for_margin: Some(27),
        p: None,
        baseline_median: None,
        config_median: None,
    }
}

fn said(verdict: Verdict, reason: &Reason, estimates: &[Estimate]) -> String {
    let findings = [Finding::new(Code::Throttled, "throttled in 7 scheduler periods")];
    let findings = if verdict == Verdict::Invalid { &findings[..] } else { &[] };
    sentence(ABOUT, verdict, &reason.to_string(), estimates, findings)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn every_verdict_has_its_words() {
    let throughput = |status, percent| estimate("throughput", Purpose::Objective, status, percent);
    let p99 = |status, percent| estimate("p99", Purpose::Guardrail, status, percent);
    let both = |primary, percent, guard, guarded| vec![throughput(primary, percent), p99(guard, guarded)];
    let invalid = Reason::Invalid { codes: names(&["Throttled"]), scenarios: vec![] };
    let cases = [
        (
            Verdict::Win,
            Reason::Better(names(&["throughput"])),
            both(Status::Better, [18.0, 21.0], Status::NonInferior, [-1.0, 1.0]),
            "per-level is better than default: throughput is 18.0 to 21.0 % better. Proven: p99 does not get 2 % \
             worse.",
        ),
        (
            Verdict::Neutral,
            Reason::Equivalent,
            vec![throughput(Status::Equivalent, [-1.2, 0.8])],
            "per-level makes no meaningful difference, so keep default: throughput is between 1.2 % worse and 0.8 % \
             better, inside the margin of 2 %.",
        ),
        (
            Verdict::Neutral,
            Reason::Equivalent,
            vec![throughput(Status::Equivalent, [-1.2, 2.1])],
            "per-level makes no meaningful difference, so keep default: throughput is between 1.2 % worse and 2.1 % \
             better, but proven to be within the margin of 2 %.",
        ),
        (
            Verdict::Reject,
            Reason::Unstable,
            vec![],
            "per-level fails more often than default: 0 of 12 runs of per-level failed, against 0 of 12 of default. \
             Failed runs hit an error, ran out of memory, missed their deadline or had wrong data.",
        ),
        (
            Verdict::Reject,
            Reason::Harm(names(&["p99"])),
            both(Status::Equivalent, [-1.0, 1.0], Status::Worse, [-9.0, -6.5]),
            "per-level is worse than default: p99 is 6.5 to 9.0 % worse.",
        ),
        (
            Verdict::Reject,
            Reason::WorseIn(names(&["read"])),
            vec![throughput(Status::Unresolved, [-3.0, 1.0])],
            "per-level is worse in read and does not win overall, so keep default: throughput is between 3.0 % worse \
             and 1.0 % better.",
        ),
        (
            Verdict::Tradeoff,
            Reason::WorseIn(names(&["read"])),
            vec![throughput(Status::Better, [3.0, 4.0])],
            "per-level is better overall, but worse in read. Decide which matters more.",
        ),
        (
            Verdict::Tradeoff,
            Reason::Mixed { better: names(&["throughput"]), worse: names(&["p99"]) },
            both(Status::Better, [3.0, 4.0], Status::Worse, [-9.0, -6.5]),
            "per-level is better in one way and worse in another: throughput is 3.0 to 4.0 % better, but p99 is 6.5 to \
             9.0 % worse. Decide which matters more.",
        ),
        (
            Verdict::Inconclusive,
            Reason::TooFewBlocks,
            vec![Estimate { blocks: 5, interval95: None, ..throughput(Status::Unresolved, [4.0, 4.0]) }],
            "Too few blocks to prove anything about per-level: 5 count, at least 8 are needed. So far: throughput is \
             about 4.0 % better (no interval). To decide, plan at least 8 repetitions.",
        ),
        (
            Verdict::Inconclusive,
            Reason::NoGain,
            vec![throughput(Status::Unresolved, [-3.0, 1.0])],
            "per-level is not worth it, and whether it does harm is open: an improvement of 2 % or more is ruled out, and \
             throughput is between 3.0 % worse and 1.0 % better. Keep default; to find out whether per-level does \
             harm, run more repetitions, or longer runs on a quieter machine.",
        ),
        (
            Verdict::Inconclusive,
            Reason::GuardrailUnresolved(names(&["p99"])),
            both(Status::Better, [3.0, 4.0], Status::Unresolved, [-3.0, 1.0]),
            "per-level may be worth it (throughput is 3.0 to 4.0 % better), but harm is not ruled out: p99 is between \
             3.0 % worse and 1.0 % better (2 % worse is possible). To decide, run more repetitions, or longer runs on a \
             quieter machine.",
        ),
        (
            Verdict::Inconclusive,
            Reason::GuardrailUnresolved(names(&["p99"])),
            both(Status::Equivalent, [-1.0, 1.0], Status::Unresolved, [-2.5, 1.0]),
            "per-level makes no difference to its objectives (throughput is between 1.0 % worse and 1.0 % better), but \
             harm is not ruled out: p99 is between 2.5 % worse and 1.0 % better (2 % worse is possible). To decide, \
             run more repetitions, or longer runs on a quieter machine.",
        ),
        (
            Verdict::Inconclusive,
            Reason::Underpowered,
            vec![throughput(Status::Unresolved, [-9.0, 9.0])],
            "The runs do not show whether per-level helps: throughput is between 9.0 % worse and 9.0 % better. To \
             decide, run more repetitions, or longer runs on a quieter machine.",
        ),
        (
            Verdict::Invalid,
            invalid,
            vec![],
            "per-level can't be judged (Throttled): throttled in 7 scheduler periods. Remove the CPU quota, or raise \
             it to at least placement.cpus.",
        ),
    ];
    for (verdict, reason, estimates, expected) in cases {
        assert_eq!(said(verdict, &reason, &estimates), expected, "{verdict:?} {reason}");
    }
}

#[test]
fn what_was_not_measured_is_no_matter_of_more_runs() {
    let missing = Estimate {
        estimate: None,
        interval95: None,
        blocks_for_margin: None,
        ..estimate("p99", Purpose::Guardrail, Status::Unresolved, [0.0, 0.0])
    };
    let throughput = estimate("throughput", Purpose::Objective, Status::Better, [3.0, 4.0]);
    let reason = Reason::GuardrailUnresolved(names(&["p99"]));
    let said = said(Verdict::Inconclusive, &reason, &[throughput, missing]);
    assert!(said.contains("p99 is unknown") && said.contains("find out why nothing was measured"), "{said}");
    assert!(!said.contains("repetitions"), "{said}");
}

#[test]
fn ends_that_are_open_stay_open() {
    let half = |low: Option<f64>, high: Option<f64>| {
        let interval95 = Some(Interval { low, high });
        ranged(&Estimate { interval95, ..estimate("x", Purpose::Objective, Status::Unresolved, [1.0, 1.0]) })
    };
    assert_eq!(half(Some(-0.02_f64.ln_1p()), None), "x is at worst 2.0 % worse");
    assert_eq!(half(None, Some(0.02_f64.ln_1p())), "x is at best 2.0 % better");
    assert_eq!(half(Some(0.0), Some(0.0)), "x is the same");
    // With too few blocks for an interval there are bounds.
    let bound = |estimate: f64, low: f64, high: f64| {
        let interval95 = Some(Interval { low: None, high: None });
        let bounds = Some(Interval { low: Some(low.ln_1p()), high: Some(high.ln_1p()) });
        ranged(&Estimate {
            interval95,
            bounds,
            ..self::estimate("x", Purpose::Objective, Status::Unresolved, [estimate; 2])
        })
    };
    assert_eq!(bound(-39.0, -0.5, -0.0002), "x is at best the same");
    assert_eq!(bound(60.0, 0.0002, 0.7), "x is at worst the same");
    assert_eq!(bound(-39.0, -0.5, -0.1), "x is at least 10.0 % worse");
    assert_eq!(bound(60.0, 0.1, 0.7), "x is at least 10.0 % better");
    let linear = Estimate {
        scale: Scale::Linear,
        interval95: Some(Interval { low: Some(-0.01), high: Some(0.02) }),
        ..estimate("stall_fraction", Purpose::Guardrail, Status::Unresolved, [0.0, 0.0])
    };
    assert_eq!(ranged(&linear), "stall_fraction is between 0.0100 worse and 0.0200 better");
}

fn decided_about(about: About<'_>, verdict: Verdict, reason: &Reason, estimates: &[Estimate]) -> String {
    sentence(about, verdict, &reason.to_string(), estimates, &[])
}

#[test]
fn every_failure_is_told() {
    let throughput = [estimate("throughput", Purpose::Objective, Status::Better, [18.0, 21.0])];
    let failing = |failed, damaged| About {
        failures: Failures { own: Runs { failed, damaged, sound: 12 - failed }, baseline: RUNS },
        ..ABOUT
    };
    let better = Reason::Better(names(&["throughput"]));
    let win = decided_about(failing(1, 0), Verdict::Win, &better, &throughput);
    assert!(
        win.ends_with(" Of the runs that ended, 1 of 12 runs of per-level failed, against 0 of 12 of default."),
        "{win}"
    );
    let unstable = decided_about(failing(7, 0), Verdict::Reject, &Reason::Unstable, &throughput);
    assert!(
        unstable.starts_with("per-level fails more often than default: 7 of 12 runs of per-level failed"),
        "{unstable}"
    );
    let open = decided_about(failing(2, 1), Verdict::Inconclusive, &Reason::Failures, &throughput);
    assert!(
        open.contains("2 of 12 runs of per-level failed (1 with damaged data), against 0 of 12 of default."),
        "{open}"
    );
    assert_eq!(open.matches("failed").count(), 1, "{open}");
}

/// A baseline that fails often loses, however fast it is when it does not.
#[test]
fn a_win_by_failures_says_so() {
    let runs = |failed, sound| Runs { failed, damaged: 0, sound };
    let failures = Failures { own: runs(0, 30), baseline: runs(20, 10) };
    let slower = [estimate("throughput", Purpose::Objective, Status::Better, [-12.0, -8.0])];
    let win = Reason::Better(names(&["throughput"]));
    let said = decided_about(About { failures, ..ABOUT }, Verdict::Win, &win, &slower);
    assert!(said.contains("throughput counts failed runs as the worst, else throughput is "), "{said}");
    let faster = [estimate("throughput", Purpose::Objective, Status::Better, [8.0, 12.0])];
    let said = decided_about(About { failures, ..ABOUT }, Verdict::Win, &win, &faster);
    assert!(!said.contains("as the worst"), "{said}");
}

#[test]
fn sums_scenarios_and_sizes_have_words() {
    let throughput = |mean: f64| Estimate {
        mean: Some((mean / 100.0_f64).ln_1p()),
        ..estimate("throughput", Purpose::Objective, Status::Better, [5.0, 6.0])
    };
    let tail = |scenarios: &[&str]| Reason::SlowTail { metrics: names(&["throughput"]), scenarios: names(scenarios) };
    let worse = decided_about(ABOUT, Verdict::Tradeoff, &tail(&[]), &[throughput(-7.0)]);
    assert!(worse.contains("throughput over all runs is 7.0 % worse"), "{worse}");
    let open = decided_about(ABOUT, Verdict::Inconclusive, &tail(&["fill"]), &[throughput(1.0)]);
    assert!(open.contains("slow runs leave its total open: seen in fill."), "{open}");
    let unresolved = Reason::ScenarioUnresolved(names(&["fill", "read"]));
    let scenarios = decided_about(ABOUT, Verdict::Inconclusive, &unresolved, &[throughput(5.0)]);
    assert!(scenarios.contains("but a loss is not ruled out in fill and read"), "{scenarios}");

    let win = Reason::Better(names(&["throughput"]));
    let small = estimate("throughput", Purpose::Objective, Status::Better, [1.0, 6.0]);
    let open = decided_about(ABOUT, Verdict::Win, &win, std::slice::from_ref(&small));
    assert!(open.starts_with("per-level is better than default, perhaps by less than the margin of 2 %: "), "{open}");
    let sized = decided_about(ABOUT, Verdict::Win, &win, &[Estimate { at_least: Some(0.03), ..small }]);
    assert!(sized.ends_with("throughput is 1.0 to 6.0 % better (at least 3 % is proven)."), "{sized}");
    assert!(sized.starts_with("per-level is better than default: "), "what was asked for is proven: {sized}");
}

#[test]
fn what_would_decide_is_a_new_experiment() {
    let open = [estimate("throughput", Purpose::Objective, Status::Unresolved, [-3.0, 5.0])];
    let with = |neutral, win| {
        let about = About { needed: Some(NeededBlocks { neutral, win, reject: win }), ..ABOUT };
        decided_about(about, Verdict::Inconclusive, &Reason::Underpowered, &open)
    };
    let both = with(Some(30), Some(41));
    assert!(
        both.ends_with(
            "To decide, plan a new experiment (`assay plan FILE --noise-from DIR`): with 80 % probability, 41 \
             repetitions show a gain of 2 % as a Win, and 30 show that there is no difference."
        ),
        "{both}"
    );
    let many = with(Some(300), Some(410));
    assert!(many.contains("make runs longer or use a quieter machine: at this noise, 410 repetitions"), "{many}");
    // Twelve were run.
    let near = with(Some(12), Some(11));
    assert!(near.contains("the 12 blocks here would most likely show a gain of 2 % or no difference"), "{near}");
    assert!(with(Some(12), Some(13)).contains("13 repetitions show a gain"));
    assert!(with(None, None).contains("no practical number of repetitions would decide"), "{}", with(None, None));
}

#[test]
fn harm_needs_blocks_of_its_own() {
    let worse = |blocks| {
        [Estimate { blocks, ..estimate("throughput", Purpose::Objective, Status::Unresolved, [-47.0, -44.0]) }]
    };
    let with = |blocks, needed| {
        let about = About { family: Family { better: 1, worse: 4, n_min: 5 }, needed, ..ABOUT };
        decided_about(about, Verdict::Inconclusive, &Reason::NoGain, &worse(blocks))
    };
    let needed = Some(NeededBlocks { neutral: Some(40), win: Some(43), reject: Some(21) });
    // Six blocks that agree have p = 4 / 2^6 = 6 %.
    let six = with(6, needed);
    assert!(six.ends_with("plan 7 repetitions: fewer prove no harm, however large, and 6 count here."), "{six}");
    assert_eq!(with(6, None), six);
    let twelve = with(12, needed);
    assert!(
        twelve.ends_with("21 repetitions show a loss of 2 % as a Reject, and 40 show that there is no difference."),
        "{twelve}"
    );
}

#[test]
fn failed_runs_that_hold_a_gain_back_are_named() {
    let gain = [estimate("throughput", Purpose::Objective, Status::Unresolved, [10.0, 14.0])];
    let with = |failed, estimates: &[Estimate]| {
        let own = Runs { failed, ..RUNS };
        let about = About { failures: Failures { own, baseline: RUNS }, ..ABOUT };
        decided_about(about, Verdict::Inconclusive, &Reason::Underpowered, estimates)
    };
    assert!(with(2, &gain).contains("find out why runs of per-level fail"), "{}", with(2, &gain));
    assert!(with(2, &gain).contains("of those that ended, throughput is 10.0 to 14.0 % better"), "{}", with(2, &gain));
    assert!(!with(0, &gain).contains("find out why"), "{}", with(0, &gain));
    // Noise alone leaves this open.
    let wide = [estimate("throughput", Purpose::Objective, Status::Unresolved, [-3.0, 14.0])];
    assert!(!with(2, &wide).contains("find out why"), "{}", with(2, &wide));
}
