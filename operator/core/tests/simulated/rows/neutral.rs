//! Neutral: losses that it must not hide, and the price for equal configs.

use assay_core::verdict::Status;

use super::{
    super::{
        Ended, Setting, Through,
        world::{Behaviour, World, gain},
    },
    Bound, Row, Share, ask, neutrals, one, row, unseen,
};

fn at_most_one_seen(ended: &Ended) -> Share {
    one(ended.stalls[0] <= 1)
}

/// Whether the centres over all scenarios alone show that there is no difference.
fn is_equivalent_together(ended: &Ended) -> Share {
    let metrics = &ended.standings.overall[0].metrics;
    let objective = metrics[0].status == Status::Equivalent;
    one(objective && metrics.iter().skip(1).all(|found| !matches!(found.status, Status::Worse | Status::Unresolved)))
}

pub fn all() -> Vec<Row> {
    [stalls(), price(), generator()].into_iter().flatten().collect()
}

/// Runs that stall, of a config that is equal otherwise.
fn stalls() -> Vec<Row> {
    let mut rows = Vec::new();
    for (percent, share) in [(10, 0.10), (15, 0.15)] {
        for (suffix, stop_on, looks) in [("", "Overall", ""), ("-never", "Never", ", one look")] {
            for blocks in [12, 20, 30, 40] {
                let setting = Setting {
                    blocks,
                    stop_on,
                    default_guardrails: true,
                    through: Through::Verdict,
                    configs: vec![Behaviour { stalls: Some((share, -0.60, None)), ..Behaviour::default() }],
                    world: World { cv: 0.02, slow: 0.0, drift: 0.0, ..World::default() },
                    ..Setting::default()
                };
                let shown = if blocks < 30 {
                    ask("no stall seen", unseen, Bound::None)
                } else {
                    ask("at most one stall seen", at_most_one_seen, Bound::None)
                };
                rows.push(row(
                    &format!("equal-stalls-{percent}-{blocks}{suffix}"),
                    &format!(
                        "{percent} % of runs -60 %, the rest equal, {blocks} blocks{looks}, scatter 2 %, verdict engine"
                    ),
                    setting,
                    vec![shown, ask("Neutral", neutrals, Bound::Above(3.0))],
                ));
            }
        }
    }
    rows
}

/// Equal configs in each scenario.
fn price() -> Vec<Row> {
    let mut rows = Vec::new();
    for scenarios in [1, 3] {
        for blocks in [8, 12, 20, 30] {
            let setting = Setting {
                scenarios,
                blocks,
                default_guardrails: true,
                through: Through::Verdict,
                configs: vec![gain(0.0)],
                world: World { cv: 0.04, drift: 0.0, ..World::default() },
                ..Setting::default()
            };
            let bound = if scenarios == 1 || blocks >= 20 { Bound::Above(-10.0) } else { Bound::None };
            rows.push(row(
                &format!("equal-price-{scenarios}-{blocks}"),
                &format!("an equal config, {blocks} blocks, scenarios: {scenarios}, scatter 4 %, verdict engine"),
                setting,
                vec![
                    ask("Neutral by the centres together", is_equivalent_together, Bound::None),
                    ask("Neutral", neutrals, bound),
                ],
            ));
        }
    }
    rows
}

/// A generator that hides a part of the effect.
fn generator() -> Vec<Row> {
    // At a share of 30 % a loss of 6 % shows as one of 4.2 %.
    let setting = Setting {
        configs: vec![gain(-0.042)],
        world: World { cv: 0.02, slow: 0.0, generator: 30.0, ..World::default() },
        ..Setting::default()
    };
    vec![row(
        "generator",
        "-6 %, of which a generator that takes 30 % of the time leaves -4.2 %, scatter 2 %",
        setting,
        vec![ask("Neutral", neutrals, Bound::AtMost(5.0)), ask("Invalid", super::first_invalid, Bound::None)],
    )]
}
