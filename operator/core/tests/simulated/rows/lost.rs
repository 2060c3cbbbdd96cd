//! Attempts that do not count: lost ones, disturbed ones, and values that are no numbers.

use assay_core::attempt::LostReason;

use super::{
    super::{
        Setting, Through,
        world::{Behaviour, Disturbance, World, gain},
    },
    Bound, Row, alike, any_invalid, any_win, ask, first_invalid, rejects, row, unseen as no_stall_seen, wins,
};

pub fn all() -> Vec<Row> {
    [evicted(), alike_in_all(), given_back(), waits(), stretches(), quantiles()].into_iter().flatten().collect()
}

/// A config without effect whose slow attempts are evicted.
fn evicted() -> Vec<Row> {
    // Quantiles of the scatter.
    let shares = [(20, -0.712), (35, -0.316), (50, 0.0)];
    let one = |(percent, limit): (u32, f64)| {
        let setting = Setting {
            configs: vec![Behaviour { evicts_slow: Some(limit), ..Behaviour::default() }],
            world: World { cv: 0.05, slow: 0.0, drift: 0.0, ..World::default() },
            ..Setting::default()
        };
        row(
            &format!("evicted-{percent}"),
            &format!("a config without effect, its {percent} % slowest attempts are evicted, scatter 5 %"),
            setting,
            vec![ask("Win", wins, Bound::AtMost(5.0)), ask("Invalid", first_invalid, Bound::None)],
        )
    };
    shares.map(one).into()
}

/// Losses alike in all arms.
fn alike_in_all() -> Vec<Row> {
    let mut rows = Vec::new();
    let world = |lost, failing| World { cv: 0.03, lost, failing, ..World::default() };
    for (percent, chance) in [(0, 0.0), (3, 0.03), (10, 0.10)] {
        let setting = Setting {
            configs: vec![gain(0.05)],
            world: World { slow: 0.0, ..world(Some((chance, LostReason::Evicted)), 0.0) },
            ..Setting::default()
        };
        let bound = if percent == 0 { Bound::None } else { Bound::Near("evicted-alike-0", 5.0) };
        rows.push(row(
            &format!("evicted-alike-{percent}"),
            &format!("+5 %, {percent} % of all attempts are evicted, scatter 3 %"),
            setting,
            vec![ask("Win", wins, bound), ask("any Invalid", any_invalid, Bound::AtMost(5.0))],
        ));
    }
    for (configs, scenarios, none) in
        [(1, 1, "ends-alike-0-1-1"), (1, 3, "ends-alike-0-1-3"), (3, 3, "ends-alike-0-3-3")]
    {
        let mut add = |name: String, what: String, world: World, bound: Bound| {
            let setting = Setting {
                scenarios,
                blocks: 20,
                configs: alike(configs, &gain(0.05)),
                world: World { slow: 0.0, ..world },
                ..Setting::default()
            };
            let what = format!("{configs} of +5 %, scenarios: {scenarios}, 20 blocks, {what}, scatter 3 %");
            rows.push(row(&name, &what, setting, vec![ask("Win", wins, bound)]));
        };
        let none_ends = "no attempt ends in an error".to_owned();
        add(format!("ends-alike-0-{configs}-{scenarios}"), none_ends, world(None, 0.0), Bound::None);
        for (name, percent, chance) in [("05", "0.5", 0.005), ("1", "1", 0.01)] {
            add(
                format!("crashes-alike-{name}-{configs}-{scenarios}"),
                format!("{percent} % of all attempts crash"),
                world(Some((chance, LostReason::Crashed)), 0.0),
                Bound::Near(none, 5.0),
            );
        }
        for (name, percent, chance) in [("05", "0.5", 0.005), ("1", "1", 0.01), ("2", "2", 0.02)] {
            add(
                format!("failures-alike-{name}-{configs}-{scenarios}"),
                format!("{percent} % of all runs fail"),
                world(None, chance),
                Bound::None,
            );
        }
    }
    rows
}

/// The correction of disturbed first attempts must not favour an arm that the disturbance did not slow.
fn given_back() -> Vec<Row> {
    let world = World { cv: 0.03, slow: 0.0, disturbed: (0.20, 0.20), ..World::default() };
    let waiting = Behaviour { io_bound: true, cpu: 0.3, ..Behaviour::default() };
    let stalling = Behaviour { stalls: Some((0.10, -0.60, None)), ..waiting.clone() };
    let better = Behaviour { effects: vec![0.05], ..stalling.clone() };
    let stalls = "the same, 10 % of its runs stall by 60 %";
    let stalls_better = "the same, 10 % of its runs stall by 60 %, the rest +5 %";
    let (slow, unseen) = (Disturbance::Slow, Disturbance::SlowUnseen);
    [
        (
            "io-bound",
            "an equal config that waits for the device beside a baseline that computes",
            &waiting,
            slow,
            Bound::AtMost(5.0),
        ),
        ("io-bound-stalls-unseen", stalls, &stalling, unseen, Bound::None),
        ("io-bound-stalls", stalls, &stalling, slow, Bound::NoMore("io-bound-stalls-unseen")),
        ("io-bound-better-unseen", stalls_better, &better, unseen, Bound::None),
        // With less noise a gain is proven in fewer blocks, which have fewer stalls: Wins without any are no fault of the correction.
        ("io-bound-better", stalls_better, &better, slow, Bound::None),
    ]
    .map(|(name, what, own, disturbance, bound)| {
        let world = World { disturbance, ..world.clone() };
        let setting = Setting { configs: vec![own.clone()], world, ..Setting::default() };
        let unknown = if disturbance == unseen { " by an unknown share" } else { "" };
        let what = format!("{what}, 20 % of attempts disturbed{unknown}, scatter 3 %");
        let mut questions = vec![ask("any Win", any_win, bound)];
        if name == "io-bound-better" {
            questions = vec![ask("no stall seen", no_stall_seen, Bound::None), ask("Win", wins, Bound::Above(3.0))];
        }
        row(name, &what, setting, questions)
    })
    .into()
}

/// Memory that a config itself uses up.
fn waits() -> Vec<Row> {
    let mut rows = Vec::new();
    for (percent, share) in [(50, 0.5), (100, 1.0)] {
        let setting = |configs: Vec<Behaviour>, baseline_waits: f64| Setting {
            through: Through::Decide,
            configs,
            world: World { cv: 0.03, slow: 0.0, drift: 0.0, baseline_waits, ..World::default() },
            ..Setting::default()
        };
        rows.push(row(
            &format!("waits-{percent}"),
            &format!("-20 %, {percent} % of its attempts wait for memory of their own, scatter 3 %"),
            setting(vec![Behaviour { waits: share, ..gain(-0.20) }], 0.0),
            vec![ask("Reject", rejects, Bound::AtLeast(95.0)), ask("Invalid", first_invalid, Bound::AtMost(0.0))],
        ));
        rows.push(row(
            &format!("baseline-waits-{percent}"),
            &format!("+20 %, {percent} % of the baseline's attempts wait for memory of their own, scatter 3 %"),
            setting(vec![gain(0.20)], share),
            vec![ask("Win", wins, Bound::AtLeast(95.0)), ask("Invalid", first_invalid, Bound::AtMost(0.0))],
        ));
    }
    rows
}

/// Disturbances that last.
fn stretches() -> Vec<Row> {
    [(10, 0.10, 5), (10, 0.10, 10), (10, 0.10, 20), (20, 0.20, 10)]
        .map(|(percent, share, runs)| {
            let setting = Setting {
                scenarios: 3,
                blocks: 12,
                through: Through::Decide,
                configs: alike(2, &gain(0.10)),
                world: World {
                    cv: 0.03,
                    slow: 0.0,
                    minutes: 1.0,
                    stretches: (share, f64::from(runs)),
                    ..World::default()
                },
                ..Setting::default()
            };
            row(
                &format!("stretches-{percent}-{runs}"),
                &format!(
                    "2 of +10 %, 3 scenarios, 12 blocks, disturbed {percent} % of the time, {runs} runs on end, scatter 3 %"
                ),
                setting,
                vec![ask("any Invalid", any_invalid, Bound::AtMost(3.0)), ask("Win", wins, Bound::None)],
            )
        })
        .into()
}

/// Quantiles within runs, some of which are beyond what can be measured, and guardrails that are zero.
fn quantiles() -> Vec<Row> {
    let mut rows = Vec::new();
    for (percent, share) in [(10, 0.10), (15, 0.15)] {
        let setting = Setting {
            metric: "step_latency_p99",
            margin: "10%",
            reads: true,
            configs: vec![Behaviour { stalls: Some((share, -0.75, None)), ..gain(0.10) }],
            world: World { cv: 0.04, drift: 0.0, ..World::default() },
            ..Setting::default()
        };
        rows.push(row(
            &format!("quantile-stalls-{percent}"),
            &format!("p99 is the objective: {percent} % of runs 4 times as long, the rest 10 % better, scatter 4 %"),
            setting,
            vec![ask("no stall seen", super::unseen, Bound::None), ask("Win", wins, Bound::Above(3.0))],
        ));
    }
    for saturates in [0, 1, 2] {
        let setting = Setting {
            guardrail: Some(("step_latency_p99", "10%")),
            stop_on: "Never",
            configs: vec![Behaviour { saturates, ..gain(0.05) }],
            world: World { cv: 0.03, slow: 0.0, ..World::default() },
            ..Setting::default()
        };
        // No bound: a saturated run of a config leaves its mean open, which denies the Win.
        rows.push(row(
            &format!("saturated-{saturates}"),
            &format!("+5 %, p99 is a guardrail and beyond the histogram in {saturates} of 30 runs, scatter 3 %"),
            setting,
            vec![ask("Win", wins, Bound::None)],
        ));
    }
    let setting = Setting {
        guardrail: Some(("write_amplification", "5%")),
        configs: vec![gain(0.10)],
        world: World { cv: 0.03, zero_guardrail: true, ..World::default() },
        ..Setting::default()
    };
    rows.push(row(
        "zero-guardrail",
        "+10 %, the guardrail is zero in all runs, scatter 3 %",
        setting,
        vec![ask("Win", wins, Bound::AtLeast(95.0))],
    ));
    rows
}
