//! Shares along a line of settings, most often along the number of blocks: what more blocks must not cost.

use assay_core::verdict::Verdict;

use super::{
    super::{
        Ended, Setting, Through,
        world::{World, gain},
    },
    Bound, alike,
};

/// A question of an experiment.
type Read = fn(&Ended) -> bool;

/// One question of several settings, with the same random numbers.
pub struct Curve {
    pub name: String,
    pub what: String,
    pub read: Read,
    pub cells: Vec<Cell>,
    pub shown: Shown,
    /// Points that a step from one cell to the next may lose.
    pub step: Option<f64>,
    /// Share, in percent, of what the same design reaches with a single look at its end.
    pub alone: Option<f64>,
}

pub struct Cell {
    pub at: String,
    pub setting: Setting,
    pub bound: Bound,
}

/// Quantity that a curve shows.
#[derive(Clone, Copy, Debug)]
pub enum Shown {
    /// The share in each cell.
    Shares,
    /// The blocks that each cell takes on average until it is decided.
    Blocks,
    /// The fewest blocks that decide four of five experiments so. There may be no more than these, and used on average.
    Power { blocks: usize, used: Option<f64> },
}

impl Curve {
    fn new(name: &str, what: &str, read: Read, cells: Vec<Cell>) -> Self {
        let (name, what) = (name.to_owned(), what.to_owned());
        Self { name, what, read, cells, shown: Shown::Shares, step: None, alone: None }
    }
}

fn is_rejected(ended: &Ended) -> bool {
    ended.verdict(0) == Verdict::Reject
}

fn is_win(ended: &Ended) -> bool {
    ended.verdict(0) == Verdict::Win
}

fn is_neutral(ended: &Ended) -> bool {
    ended.verdict(0) == Verdict::Neutral
}

fn is_any_rejected(ended: &Ended) -> bool {
    ended.any(Verdict::Reject)
}

/// Matches the displayed word, so that older rules without this reason compile, too.
fn is_any_likely_harm(ended: &Ended) -> bool {
    ended.standings.overall.iter().any(|found| found.outcome.reason.to_string().starts_with("LikelyHarm"))
}

/// Numbers of configs, and the fewest blocks that can prove harm of one of them with the default metrics.
const CONFIGS: [(usize, usize); 7] = [(1, 6), (2, 7), (3, 8), (6, 9), (8, 9), (17, 10), (64, 12)];

/// Loss of a fraction, of every config, with the default guardrail.
fn setting(configs: usize, scenarios: usize, blocks: usize, effect: f64, cv: f64, slow: f64) -> Setting {
    Setting {
        scenarios,
        blocks,
        configs: alike(configs, &gain(effect)),
        default_guardrails: true,
        world: World { cv, slow, drift: 0.0, ..World::default() },
        ..Setting::default()
    }
}

/// Every curve there is.
pub fn all() -> Vec<Curve> {
    [harm(), equal(), futility(), sawtooth(), uneven(), power(), spent()].into_iter().flatten().collect()
}

/// More blocks never hide harm.
fn harm() -> Vec<Curve> {
    let mut curves = Vec::new();
    for (configs, fewest) in CONFIGS {
        for (percent, effect) in [(50, -0.50), (10, -0.10)] {
            for (suffix, slow) in [("", 0.0), ("-slow", 0.02)] {
                let bound = |blocks: usize| match (percent, suffix) {
                    (50, _) => Bound::AtLeast(99.0),
                    (_, "") if blocks >= 12.max(fewest + 1) => Bound::AtLeast(95.0),
                    (_, "-slow") if blocks >= 24 => Bound::AtLeast(95.0),
                    (_, "-slow") if blocks >= 20 => Bound::AtLeast(90.0),
                    _ => Bound::None,
                };
                let cell = |blocks: usize| Cell {
                    at: blocks.to_string(),
                    setting: Setting {
                        through: Through::VerdictOfFirst,
                        ..setting(configs, 1, blocks, effect, 0.03, slow)
                    },
                    bound: bound(blocks),
                };
                let cells = (fewest.max(8)..=16).chain([20, 24, 28, 32]).map(cell).collect();
                let slow = if slow > 0.0 { "" } else { ", no slow runs" };
                let what = format!("Reject of one of {configs} that loses {percent} %, scatter 3 %{slow}");
                let mut curve = Curve::new(&format!("harm-{percent}-{configs}{suffix}"), &what, is_rejected, cells);
                curve.step = Some(3.0);
                curve.alone = (percent == 10).then_some(97.0);
                curves.push(curve);
            }
        }
    }
    curves
}

/// Configs that make no difference.
fn equal() -> Vec<Curve> {
    let kinds: [(&str, &str, Read); 2] =
        [("reject", "any Reject", is_any_rejected), ("likely-harm", "any LikelyHarm", is_any_likely_harm)];
    let mut curves = Vec::new();
    for (name, what, read) in kinds {
        for (configs, fewest) in CONFIGS {
            let cell = |blocks: usize| Cell {
                at: blocks.to_string(),
                setting: Setting { through: Through::Verdict, ..setting(configs, 1, blocks, 0.0, 0.03, 0.02) },
                bound: Bound::AtMost(5.0),
            };
            let mut blocks = vec![fewest.max(8), 12, 16, 20, 32];
            blocks.dedup();
            let what = format!("{what} of {configs} equal configs, scatter 3 %");
            curves.push(Curve::new(
                &format!("equal-{name}-{configs}"),
                &what,
                read,
                blocks.into_iter().map(cell).collect(),
            ));
        }
    }
    curves
}

/// Rejects and Neutrals that stopping for futility costs.
fn futility() -> Vec<Curve> {
    let mut curves = Vec::new();
    for (name, word, effect, read) in [
        ("reject", "Reject of a loss of 5 %", -0.05, is_rejected as Read),
        ("neutral", "Neutral of no difference", 0.0, is_neutral),
    ] {
        for (configs, scenarios) in [(1, 1), (2, 1), (2, 3), (6, 3)] {
            let mut cells = Vec::new();
            for (percent, cv) in [(3, 0.03), (4, 0.04), (6, 0.06)] {
                for blocks in [12, 20, 30] {
                    let setting = setting(configs, scenarios, blocks, effect, cv, 0.02);
                    cells.push(Cell {
                        at: format!("{percent} % {blocks}"),
                        setting: Setting { through: Through::Verdict, ..setting },
                        bound: Bound::None,
                    });
                }
            }
            let what = format!("{word}, configs: {configs}, scenarios: {scenarios}");
            curves.push(Curve::new(&format!("futility-{name}-{configs}-{scenarios}"), &what, read, cells));
        }
    }
    curves
}

/// Whether equal configs are found to be so more often with more blocks.
fn sawtooth() -> Vec<Curve> {
    let curve = |(percent, cv): (u32, f64)| {
        let cell = |blocks: usize| Cell {
            at: blocks.to_string(),
            setting: Setting { through: Through::Verdict, ..setting(1, 1, blocks, 0.0, cv, 0.0) },
            bound: Bound::None,
        };
        let cells = (8..=20).chain([24, 30]).map(cell).collect();
        let what = format!("Neutral of no difference, scatter {percent} %, no slow runs");
        let mut curve = Curve::new(&format!("sawtooth-{percent}"), &what, is_neutral, cells);
        curve.step = Some(3.0);
        curve
    };
    [(3, 0.03), (4, 0.04)].map(curve).into()
}

/// Scenarios that differ by more than the margin, and a mean over them that does not.
fn uneven() -> Vec<Curve> {
    let mut curves = Vec::new();
    for (name, effects) in
        [("4-4-8", vec![0.04, 0.04, -0.08]), ("5-5", vec![0.05, -0.05]), ("5-0-5", vec![0.05, 0.0, -0.05])]
    {
        let mut cells = Vec::new();
        for (percent, cv) in [(4, 0.04), (8, 0.08), (12, 0.12)] {
            for blocks in [12, 20, 30] {
                let mut setting = setting(1, effects.len(), blocks, 0.0, cv, 0.02);
                setting.configs[0].effects.clone_from(&effects);
                setting.through = Through::Verdict;
                cells.push(Cell { at: format!("{percent} % {blocks}"), setting, bound: Bound::AtMost(5.0) });
            }
        }
        let effects: Vec<String> = effects.iter().map(|effect| format!("{:+.0}", 100.0 * effect)).collect();
        let what = format!("Neutral of {} %", effects.join("/"));
        curves.push(Curve::new(&format!("uneven-{name}"), &what, is_neutral, cells));
    }
    curves
}

/// Blocks that decide four of five experiments. A Win may take one block more than before, and a twentieth more on average.
fn power() -> Vec<Curve> {
    let mut curves = Vec::new();
    let kinds: [(&str, &str, f64, Read, _); 3] = [
        (
            "win",
            "Win of +5 %",
            0.05,
            is_win,
            [(4, 0.04, 8..=16, 12, Some(11.6)), (6, 0.06, 18..=32, 25, Some(19.2)), (8, 0.08, 32..=48, 40, Some(30.6))],
        ),
        (
            "reject",
            "Reject of a loss of 5 %",
            -0.05,
            is_rejected,
            [(4, 0.04, 8..=24, 17, None), (6, 0.06, 18..=40, 31, None), (8, 0.08, 36..=64, 52, None)],
        ),
        (
            "neutral",
            "Neutral of no difference",
            0.0,
            is_neutral,
            [(4, 0.04, 8..=28, 20, None), (6, 0.06, 24..=50, 40, None), (8, 0.08, 48..=90, 68, None)],
        ),
    ];
    for (name, what, effect, read, cells) in kinds {
        for (percent, cv, blocks, most, most_used) in cells {
            let cell = |blocks: usize| Cell {
                at: blocks.to_string(),
                setting: Setting {
                    futility: (name != "win").then_some("Continue"),
                    through: Through::Verdict,
                    ..setting(1, 1, blocks, effect, cv, 0.0)
                },
                bound: Bound::None,
            };
            let what = format!("{what}, scatter {percent} %, no slow runs");
            let curve = Curve::new(&format!("power-{name}-{percent}"), &what, read, blocks.map(cell).collect());
            curves.push(Curve { shown: Shown::Power { blocks: most, used: most_used }, ..curve });
        }
    }
    curves
}

/// Blocks that are used up by what makes no difference, and by a loss.
fn spent() -> Vec<Curve> {
    let mut curves = Vec::new();
    for (name, what, effect) in [("neutral", "no difference", 0.0), ("loss", "a loss of 5 %", -0.05)] {
        for (percent, cv) in [(4, 0.04), (6, 0.06), (8, 0.08)] {
            let cell = |blocks: usize| Cell {
                at: blocks.to_string(),
                setting: Setting { through: Through::Verdict, ..setting(1, 1, blocks, effect, cv, 0.0) },
                bound: Bound::None,
            };
            let what = format!("blocks used by {what}, scatter {percent} %, no slow runs");
            let curve =
                Curve::new(&format!("spent-{name}-{percent}"), &what, is_early, [12, 20, 30, 60].map(cell).into());
            curves.push(Curve { shown: Shown::Blocks, ..curve });
        }
    }
    curves
}

fn is_early(ended: &Ended) -> bool {
    ended.blocks[0] < ended.values[0].0.len()
}
