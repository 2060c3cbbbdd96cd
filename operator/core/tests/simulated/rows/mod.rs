//! What is measured of the judge, row by row: a kind of experiment, what is asked of it, and what a right judge answers.

pub mod curves;
mod lost;
mod neutral;
mod order;

use assay_core::verdict::{Reason, Verdict};

use super::{
    Ended, Setting,
    naive::{means_win, uncorrected_win},
    world::{Behaviour, Disturbance, World, gain},
};

/// What a share must not be, in percent.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    None,
    AtMost(f64),
    AtLeast(f64),
    /// At most the answer to the question before, and so many points.
    Above(f64),
    /// At least the answer of another row to this question minus a number of points.
    Near(&'static str, f64),
    /// At most the answer to the same question of another row.
    NoMore(&'static str),
}

/// Hits and tries.
pub type Share = (usize, usize);

pub struct Question {
    pub what: &'static str,
    pub read: fn(&Ended) -> Share,
    pub bound: Bound,
}

pub struct Row {
    pub name: String,
    pub what: String,
    pub setting: Setting,
    pub questions: Vec<Question>,
}

/// Shares in percent by the rules before, measured by the same rows: each line has a row, what is asked of it, and the figures.
const BEFORE: &str = include_str!("before.txt");

/// Answer of the previous rules, if known.
pub fn before(row: &str, what: &str) -> &'static str {
    let lines = BEFORE.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    lines.into_iter().find(|line| line[..2] == [row, what]).map_or("", |line| line[2])
}

fn ask(what: &'static str, read: fn(&Ended) -> Share, bound: Bound) -> Question {
    Question { what, read, bound }
}

fn one(hit: bool) -> Share {
    (usize::from(hit), 1)
}

fn any_win(ended: &Ended) -> Share {
    one(ended.any(Verdict::Win))
}

fn any_reject(ended: &Ended) -> Share {
    one(ended.any(Verdict::Reject))
}

fn any_invalid(ended: &Ended) -> Share {
    one(ended.any(Verdict::Invalid))
}

fn wins(ended: &Ended) -> Share {
    (ended.count(Verdict::Win), ended.standings.overall.len())
}

fn won_before(ended: &Ended) -> Share {
    let configs = ended.standings.overall.len();
    ((0..configs).filter(|&config| ended.won_before(config)).count(), configs)
}

fn rejects(ended: &Ended) -> Share {
    (ended.count(Verdict::Reject), ended.standings.overall.len())
}

fn neutrals(ended: &Ended) -> Share {
    (ended.count(Verdict::Neutral), ended.standings.overall.len())
}

fn unseen(ended: &Ended) -> Share {
    one(ended.stalls[0] == 0)
}

fn for_failures(ended: &Ended) -> Share {
    let found = ended.standings.overall.iter().filter(|found| found.outcome.reason == Reason::Failures);
    (found.count(), ended.standings.overall.len())
}

fn unstable(ended: &Ended) -> Share {
    let found = ended.standings.overall.iter().filter(|found| found.outcome.reason == Reason::Unstable);
    (found.count(), ended.standings.overall.len())
}

fn first_invalid(ended: &Ended) -> Share {
    one(ended.verdict(0) == Verdict::Invalid)
}

fn first_wins(ended: &Ended) -> Share {
    one(ended.verdict(0) == Verdict::Win)
}

fn row(name: &str, what: &str, setting: Setting, questions: Vec<Question>) -> Row {
    Row { name: name.to_owned(), what: what.to_owned(), setting, questions }
}

/// Several configs that behave alike.
fn alike(configs: usize, behaviour: &Behaviour) -> Vec<Behaviour> {
    vec![behaviour.clone(); configs]
}

/// Every row there is.
pub fn all() -> Vec<Row> {
    [
        null(),
        effects(),
        tails(),
        firsts(),
        failures(),
        zeros(),
        scenarios(),
        price(),
        voids(),
        shared(),
        neutral::all(),
        lost::all(),
        order::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// No config makes any difference.
fn null() -> Vec<Row> {
    let worlds = [
        ("", "scatter 8 %", World::default()),
        ("-correlated", "state of the machine AR(1), 0.9, 10 %", World { state: (0.9, 0.10), ..World::default() }),
        ("-drift", "30 % lost within a block, scatter 3 %", World { drift: 0.30, cv: 0.03, ..World::default() }),
        ("-outliers", "15 % of runs slow, scatter 3 %", World { slow: 0.15, cv: 0.03, ..World::default() }),
    ];
    let mut rows = Vec::new();
    for configs in [1, 3, 8, 18] {
        for (suffix, what, world) in &worlds {
            if !suffix.is_empty() && configs != 3 {
                continue;
            }
            let setting = Setting {
                scenarios: 3,
                configs: alike(configs, &Behaviour::default()),
                world: world.clone(),
                ..Setting::default()
            };
            let mut questions = vec![
                ask("any Win", any_win, Bound::AtMost(5.0)),
                ask("any Reject", any_reject, Bound::AtMost(5.0)),
                ask("Neutral", neutrals, Bound::None),
            ];
            if suffix.is_empty() {
                questions.push(ask("any Win by uncorrected p", |e| one(uncorrected_win(e)), Bound::None));
                questions.push(ask("any Win by means of +5 %", |e| one(means_win(e)), Bound::None));
            }
            let name = format!("null-{configs}{suffix}");
            rows.push(row(&name, &format!("{configs} equal configs, {what}"), setting, questions));
        }
    }
    rows
}

/// Real effects, at the margin and beyond it.
fn effects() -> Vec<Row> {
    let with = |configs, effect, cv| Setting {
        scenarios: 3,
        configs: alike(configs, &gain(effect)),
        world: World { cv, ..World::default() },
        ..Setting::default()
    };
    let one = |effect| Setting { configs: vec![gain(effect)], ..Setting::default() };
    vec![
        row("gain-10", "3 configs of +10 %", with(3, 0.10, 0.08), vec![ask("Win", wins, Bound::AtLeast(95.0))]),
        row("loss-10", "3 configs of -10 %", with(3, -0.10, 0.08), vec![ask("Reject", rejects, Bound::AtLeast(90.0))]),
        row("loss-5", "3 configs of -5 %", with(3, -0.05, 0.08), vec![ask("Reject", rejects, Bound::None)]),
        row("margin-up", "+5 %, the margin", one(0.05), vec![ask("Neutral", neutrals, Bound::AtMost(5.0))]),
        row(
            "margin-down",
            "-1/1.05, the margin",
            one(1.0 / 1.05 - 1.0),
            vec![ask("Neutral", neutrals, Bound::AtMost(5.0)), ask("Win", wins, Bound::AtMost(5.0))],
        ),
        row(
            "at-least",
            "+3 %, as much as atLeast asks for, scatter 2 %",
            Setting {
                at_least: Some("3%"),
                configs: vec![gain(0.03)],
                world: World { cv: 0.02, ..World::default() },
                ..Setting::default()
            },
            vec![ask("Win", wins, Bound::AtMost(5.0))],
        ),
        row(
            "at-least-more",
            "+6 % where atLeast asks for 3 %, scatter 2 %",
            Setting {
                at_least: Some("3%"),
                configs: vec![gain(0.06)],
                world: World { cv: 0.02, ..World::default() },
                ..Setting::default()
            },
            vec![ask("Win", wins, Bound::None)],
        ),
    ]
}

/// A typical run that is better, and some that are not.
fn tails() -> Vec<Row> {
    let stalls = [
        ("15", 0.15, -0.40, 0.05, 0.02),
        ("15-deep", 0.15, -0.50, 0.08, 0.03),
        ("10", 0.10, -0.60, 0.05, 0.02),
        ("20", 0.20, -0.50, 0.06, 0.02),
        ("10-deep", 0.10, -0.65, 0.06, 0.05),
    ];
    let mut rows = Vec::new();
    for (name, share, stall, rest, cv) in stalls {
        for (suffix, scenarios, only, place) in
            [("", 1, None, ""), ("-of-three", 3, Some(0), ", in one of three scenarios")]
        {
            let behaviour = Behaviour { stalls: Some((share, stall, only)), ..gain(rest) };
            let setting = Setting {
                scenarios,
                configs: vec![behaviour],
                world: World { cv, slow: 0.0, ..World::default() },
                ..Setting::default()
            };
            let what = format!(
                "{:.0} % of runs {:+.0} %, the rest {:+.0} %{place}, scatter {:.0} %",
                100.0 * share,
                100.0 * stall,
                100.0 * rest,
                100.0 * cv
            );
            let questions = vec![ask("no stall seen", unseen, Bound::None), ask("Win", wins, Bound::Above(3.0))];
            rows.push(row(&format!("stalls-{name}{suffix}"), &what, setting, questions));
        }
    }
    for (name, what, share) in [
        (
            "guarded-stalls",
            "write amplification -20 %, of the throughput that guards it 15 % of runs -60 %, the rest +5 %",
            0.15,
        ),
        ("guarded", "the same without the stalls", 0.0),
    ] {
        let behaviour = Behaviour { cost: 0.8, stalls: Some((share, -0.60, None)), ..gain(0.05) };
        let setting = Setting {
            metric: "write_amplification",
            guardrail: Some(("throughput", "5%")),
            configs: vec![behaviour],
            world: World { cv: 0.02, slow: 0.0, ..World::default() },
            ..Setting::default()
        };
        let (no_stall, win) = if share > 0.0 {
            (ask("no stall seen", unseen, Bound::None), ask("Win", wins, Bound::Above(3.0)))
        } else {
            (ask("no stall seen", unseen, Bound::None), ask("Win", wins, Bound::AtLeast(95.0)))
        };
        rows.push(row(name, &format!("{what}, scatter 2 %"), setting, vec![no_stall, win]));
    }
    for (share, times) in [(10, 1.93), (20, 1.44)] {
        let behaviour = Behaviour { stalls: Some((f64::from(share) / 100.0, 1.0 / times - 1.0, None)), ..gain(0.05) };
        let world = World { cv: 0.04, slow: 0.0, ..World::default() };
        rows.push(row(
            &format!("slow-{share}"),
            &format!("mean effect at minus the margin: {share} % of runs take {times} times as long, the rest +5 %, scatter 4 %"),
            Setting { configs: vec![behaviour], world, ..Setting::default() },
            vec![ask("no slow run seen", unseen, Bound::None), ask("Win", wins, Bound::None)],
        ));
    }
    for (name, effect, sd, bound) in [
        ("mean-20", 1.0 / 1.05 - 1.0, 0.20, Bound::AtMost(6.0)),
        ("mean-30", 1.0 / 1.05 - 1.0, 0.30, Bound::None),
        ("mean-40", 1.0 / 1.05 - 1.0, 0.40, Bound::None),
        ("mean-zero-10", 0.0, 0.10, Bound::None),
        ("mean-zero-20", 0.0, 0.20, Bound::None),
    ] {
        let configs = vec![Behaviour { tail: sd, ..gain(effect) }];
        let world = World { cv: 0.04, slow: 0.0, ..World::default() };
        let at = if effect == 0.0 { "zero" } else { "minus the margin" };
        let what = format!("mean effect {at}, exponential slow tail of sd {:.0} %, scatter 4 %", 100.0 * sd);
        rows.push(row(name, &what, Setting { configs, world, ..Setting::default() }, vec![ask("Win", wins, bound)]));
    }
    rows
}

/// Runs that are repeated, or left out, because of what they measured; and such of which that is not so.
fn firsts() -> Vec<Row> {
    let one = |behaviour: Behaviour, world: World| Setting { configs: vec![behaviour], world, ..Setting::default() };
    let still = World { cv: 0.02, slow: 0.0, ..World::default() };
    let mut rows = Vec::new();
    for (name, what, invalid) in
        [("repeated-stalls", ", and each of those is found disturbed", true), ("counted-stalls", "", false)]
    {
        let behaviour = Behaviour { stalls: Some((0.15, -0.60, None)), stalls_invalid: invalid, ..gain(0.05) };
        rows.push(row(
            name,
            &format!("15 % of runs -60 %, the rest +5 %{what}, scatter 2 %"),
            one(behaviour, still.clone()),
            vec![ask("no stall seen", unseen, Bound::None), ask("Win", wins, Bound::Above(3.0))],
        ));
    }
    let stalling = Behaviour { stalls: Some((0.15, -0.75, None)), ..gain(0.05) };
    rows.push(row(
        "overdue-stalls",
        "one of 3: 15 % of runs take 4 times as long, the rest +5 %; runs of 35 minutes, blocks of 4 hours at most; \
         scatter 2 %",
        Setting {
            configs: vec![stalling, Behaviour::default(), Behaviour::default()],
            world: World { minutes: 35.0, ..still.clone() },
            ..Setting::default()
        },
        vec![ask("no stall seen", unseen, Bound::None), ask("Win", first_wins, Bound::Above(3.0))],
    ));
    rows.push(row(
        "fast-baseline",
        "+5 % in 8 blocks, 25 % of the baseline's runs 4 times as fast, scatter 2 %",
        Setting { blocks: 8, ..one(gain(0.05), World { fast_baseline: 0.25, ..still }) },
        vec![ask("Win", wins, Bound::None)],
    ));
    for (percent, effect) in [(5, 0.05), (10, 0.10)] {
        for (share, disturbed) in [(0, 0.0), (3, 0.03), (10, 0.10), (20, 0.20)] {
            for slow in [false, true] {
                if slow && share == 0 {
                    continue;
                }
                let world = World {
                    cv: 0.03,
                    slow: 0.0,
                    disturbed: (disturbed, disturbed),
                    disturbance: if slow { Disturbance::Slow } else { Disturbance::Still },
                    ..World::default()
                };
                let bound = match (percent, share, slow) {
                    (5, 3, true) => Bound::AtLeast(95.0),
                    (5, 10, true) => Bound::AtLeast(92.0),
                    (5, 20, true) => Bound::AtLeast(85.0),
                    _ => Bound::None,
                };
                rows.push(row(
                    &format!("good-and-disturbed-{percent}-{share}{}", if slow { "-slow" } else { "" }),
                    &format!(
                        "+{percent} %, {share} % of all tries disturbed{}, scatter 3 %",
                        if slow { ", which take 20 to 100 % longer" } else { "" }
                    ),
                    one(gain(effect), world),
                    vec![ask("Win", wins, bound)],
                ));
            }
        }
    }
    rows
}

/// Runs that end in errors.
fn failures() -> Vec<Row> {
    let mut rows = Vec::new();
    for (blocks, fails) in [(8, 1), (10, 2), (15, 3), (20, 4), (30, 4), (30, 1)] {
        // Without looks: what fails in blocks that are never run is no failure.
        let setting = Setting {
            blocks,
            stop_on: "Never",
            configs: vec![Behaviour { fails, ..gain(0.20) }],
            world: World { cv: 0.03, ..World::default() },
            ..Setting::default()
        };
        rows.push(row(
            &format!("fails-{fails}-of-{blocks}"),
            &format!("+20 %, {fails} of {blocks} runs fail, of the baseline none"),
            setting,
            vec![
                // One of thirty is below what a bound on the failures has to deny.
                ask("Win", wins, if (blocks, fails) == (30, 1) { Bound::None } else { Bound::AtMost(0.0) }),
                ask("Reject Unstable", unstable, Bound::None),
                ask("Inconclusive Failures", for_failures, Bound::None),
            ],
        ));
    }
    for (configs, percent) in [(18, 2), (18, 5), (18, 10), (8, 5), (3, 5), (1, 5)] {
        let world = World { failing: f64::from(percent) / 100.0, ..World::default() };
        let configs_alike = alike(configs, &Behaviour::default());
        let setting = Setting { scenarios: 3, configs: configs_alike, world, ..Setting::default() };
        rows.push(row(
            &format!("fails-alike-{percent}-{configs}"),
            &format!("{configs} equal configs, {percent} % of all runs fail"),
            setting,
            vec![ask("any Reject", any_reject, Bound::AtMost(5.0)), ask("any Win", any_win, Bound::AtMost(5.0))],
        ));
    }
    for (scenarios, effect) in [(1, 0.0), (3, 0.0), (3, -0.02)] {
        let world = World { cv: 0.03, baseline_failing: 0.20, ..World::default() };
        rows.push(row(
            &format!("fails-beside-{scenarios}{}", if effect < 0.0 { "-worse" } else { "" }),
            &format!("{:+.0} %, 20 % of the baseline's runs fail, scenarios: {scenarios}", 100.0 * effect),
            Setting { scenarios, configs: vec![gain(effect)], world, ..Setting::default() },
            vec![ask("Win", wins, Bound::AtMost(5.0))],
        ));
    }
    for (configs, scenarios) in [(1, 1), (1, 3), (3, 3)] {
        let world = World { first_fails: true, ..World::default() };
        let setting =
            Setting { scenarios, configs: alike(configs, &Behaviour::default()), world, ..Setting::default() };
        rows.push(row(
            &format!("first-fails-{configs}-{scenarios}"),
            &format!("{configs} equal configs, the first run of each block fails, scenarios: {scenarios}"),
            setting,
            vec![ask("any Reject", any_reject, Bound::AtMost(5.0))],
        ));
    }
    for (percent, failing) in [(20, 0.2), (40, 0.4)] {
        let configs = vec![Behaviour { fails: (30.0 * failing) as usize, ..Behaviour::default() }];
        rows.push(row(
            &format!("unstable-{percent}"),
            &format!("an equal config of which {percent} % of runs fail, of the baseline none"),
            Setting { configs, ..Setting::default() },
            vec![ask("Reject Unstable", unstable, Bound::None)],
        ));
    }
    for configs in [1, 3] {
        let world = World { cv: 0.05, failing: 0.02, ..World::default() };
        let setting = Setting { scenarios: 3, configs: alike(configs, &gain(0.10)), world, ..Setting::default() };
        rows.push(row(
            &format!("good-and-failing-{configs}"),
            &format!("{configs} of +10 %, 2 % of all runs fail, scatter 5 %"),
            setting,
            vec![ask("Win", wins, Bound::None), ask("lost to Failures", for_failures, Bound::None)],
        ));
    }
    rows
}

/// A cost that is nothing at all in most blocks.
fn zeros() -> Vec<Row> {
    let setting = Setting {
        metric: "write_amplification",
        margin: "10%",
        configs: vec![Behaviour { zeros: 2.0 / 3.0, ..gain(-0.13) }],
        ..Setting::default()
    };
    let questions = vec![ask("Reject", rejects, Bound::AtMost(0.0)), ask("Win", wins, Bound::None)];
    vec![row(
        "zeros",
        "write amplification of zero in two thirds of the runs, 15 % more in the rest",
        setting,
        questions,
    )]
}

/// Harm in one scenario beside gains in others.
fn scenarios() -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, effects) in [("hidden-3", vec![0.12, 0.12, -0.08]), ("hidden-2", vec![0.10, -0.05])] {
        for (percent, cv) in [("5", 0.05), ("8", 0.08), ("12", 0.12)] {
            let what: Vec<String> = effects.iter().map(|effect| format!("{:+.0}", 100.0 * effect)).collect();
            let setting = Setting {
                scenarios: effects.len(),
                configs: vec![Behaviour { effects: effects.clone(), ..Behaviour::default() }],
                world: World { cv, ..World::default() },
                ..Setting::default()
            };
            rows.push(row(
                &format!("{name}-{percent}"),
                &format!("{} %, scatter {percent} %", what.join("/")),
                setting,
                vec![ask("Win", wins, Bound::AtMost(5.0))],
            ));
        }
    }
    rows
}

/// What the rules about sums and scenarios cost those who deserve to win.
fn price() -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, effects) in [("even", vec![0.05]), ("uneven", vec![0.10, 0.10, 0.0])] {
        for (percent, cv) in [("5", 0.05), ("8", 0.08)] {
            for configs in [1, 3, 18] {
                let what = if name == "even" { "+5/+5/+5" } else { "+10/+10/0" };
                let behaviour = Behaviour { effects: effects.clone(), ..Behaviour::default() };
                let setting = Setting {
                    scenarios: 3,
                    configs: alike(configs, &behaviour),
                    world: World { cv, ..World::default() },
                    ..Setting::default()
                };
                let bound = match (name, percent) {
                    ("even", "5") => Bound::Above(-17.0),
                    ("even", _) => Bound::Above(-26.0),
                    _ => Bound::None,
                };
                rows.push(row(
                    &format!("price-{name}-{percent}-{configs}"),
                    &format!("{configs} of {what} %, scatter {percent} %, 2 % of runs slow"),
                    setting,
                    vec![
                        ask("Win by the rules before, of these runs", won_before, Bound::None),
                        ask("Win", wins, bound),
                    ],
                ));
            }
        }
    }
    rows
}

/// What is lost alike, and what is not.
fn voids() -> Vec<Row> {
    let mut rows = Vec::new();
    let many = |blocks, world: World, configs| Setting { scenarios: 3, blocks, configs, world, ..Setting::default() };
    for blocks in [12, 30] {
        let worlds = [
            ("drift", "5 % lost within a block, scatter 3 %", World { cv: 0.03, ..World::default() }),
            ("disturbed-3", "3 % of tries disturbed", World { disturbed: (0.03, 0.03), ..World::default() }),
            ("disturbed-10", "10 % of tries disturbed", World { disturbed: (0.10, 0.10), ..World::default() }),
            ("disturbed-20", "20 % of tries disturbed", World { disturbed: (0.20, 0.20), ..World::default() }),
            (
                "disturbed-sticky",
                "10 % of tries disturbed, 70 % of the next after such a one",
                World { disturbed: (0.10, 0.70), ..World::default() },
            ),
        ];
        for (name, what, world) in worlds {
            rows.push(row(
                &format!("{name}-{blocks}"),
                &format!("18 equal configs, {blocks} blocks, {what}"),
                many(blocks, world, alike(18, &Behaviour::default())),
                vec![ask("any Invalid", any_invalid, Bound::AtMost(5.0))],
            ));
        }
    }
    for (scenarios, blocks, percent) in [(3, 20, 5), (3, 20, 10), (3, 20, 20), (1, 30, 20)] {
        let share = f64::from(percent) / 100.0;
        let world = World { cv: 0.05, disturbed: (share, share), in_time: true, ..World::default() };
        rows.push(row(
            &format!("long-disturbed-{percent}-{scenarios}"),
            &format!(
                "-80 % in {scenarios} scenarios and {blocks} blocks, {percent} % of the baseline's tries disturbed, of \
                 the config's as many more as they take longer"
            ),
            Setting { scenarios, blocks, configs: vec![gain(-0.80)], world, ..Setting::default() },
            vec![ask("Reject", rejects, Bound::AtLeast(95.0)), ask("Invalid", first_invalid, Bound::AtMost(5.0))],
        ));
    }
    for (blocks, scenarios) in [(12, 3), (30, 1)] {
        for configs in [1, 18] {
            let mut all = alike(configs, &Behaviour::default());
            all[0].lost = 0.30;
            // Without looks: what is lost in blocks that are never run is no loss.
            let setting = Setting { scenarios, blocks, configs: all, stop_on: "Never", ..Setting::default() };
            rows.push(row(
                &format!("own-loss-{blocks}-{configs}"),
                &format!("one of {configs} loses 30 % of its runs, {blocks} blocks, {scenarios} scenarios"),
                setting,
                vec![ask("Invalid", first_invalid, Bound::AtLeast(80.0))],
            ));
        }
    }
    // Quantiles of the scatter: a fifth and a third of the runs lie below.
    for (share, limit) in [(20, -0.712), (35, -0.316)] {
        for (blocks, scenarios) in [(12, 1), (30, 1), (12, 3)] {
            let behaviour = Behaviour { loses_slow: Some(limit), ..Behaviour::default() };
            let setting = Setting { scenarios, blocks, configs: vec![behaviour], ..Setting::default() };
            rows.push(row(
                &format!("slow-lost-{share}-{blocks}-{scenarios}"),
                &format!(
                    "a config without effect loses its {share} % slowest runs, {blocks} blocks, scenarios: {scenarios}"
                ),
                setting,
                vec![ask("Win", wins, Bound::None), ask("Invalid", first_invalid, Bound::None)],
            ));
        }
    }
    rows
}

/// Machines that others use as well.
fn shared() -> Vec<Row> {
    let with = |configs: Vec<Behaviour>, world: World| Setting {
        scenarios: 3,
        environment: "Shared",
        configs,
        world,
        ..Setting::default()
    };
    let mut rows = Vec::new();
    for (name, what, world) in [
        ("shared-bursts", "bursts a fifth of the time", World { bursts: 0.2, ..World::default() }),
        ("shared-busy", "bursts two thirds of the time", World { bursts: 0.67, ..World::default() }),
        (
            "shared-all",
            "bursts a third of the time, AR(1) 0.9 of 10 %, 20 % lost within a block",
            World { bursts: 0.33, state: (0.9, 0.10), drift: 0.20, ..World::default() },
        ),
    ] {
        rows.push(row(
            name,
            &format!("3 equal configs on a shared machine: {what}"),
            with(alike(3, &Behaviour::default()), world),
            vec![
                ask("any Win", any_win, Bound::AtMost(5.0)),
                ask("any Reject", any_reject, Bound::AtMost(5.0)),
                ask("any Invalid", any_invalid, Bound::AtMost(5.0)),
            ],
        ));
    }
    let world = World { cv: 0.05, bursts: 0.33, ..World::default() };
    let thrifty = Behaviour { cpu: 0.74, ..gain(0.10) };
    rows.push(row(
        "shared-thrifty",
        "+10 % with 26 % less CPU, bursts a third of the time, equal shares of what is wanted",
        with(vec![thrifty], world.clone()),
        vec![ask("Invalid", first_invalid, Bound::AtMost(5.0)), ask("Win", wins, Bound::None)],
    ));
    let lucky = Behaviour { spared: 0.9, ..Behaviour::default() };
    rows.push(row(
        "shared-spared",
        "an equal config that escapes nine tenths of what others take",
        with(vec![lucky], World { bursts: 0.67, ..world }),
        vec![ask("Win", wins, Bound::AtMost(5.0)), ask("Invalid", first_invalid, Bound::None)],
    ));
    rows
}
