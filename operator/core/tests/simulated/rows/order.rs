//! Machines that become slower within a block, which the order of its runs turns into noise.

use super::{
    super::{
        Setting,
        world::{Behaviour, World, gain},
    },
    Bound, Row, alike, any_reject, any_win, ask, row, wins,
};

pub fn all() -> Vec<Row> {
    let mut rows = Vec::new();
    let drifts = [
        ("none", "no drift", 0.0, 0.0),
        ("linear", "30 % lost within a block", 0.30, 0.0),
        ("bent", "30 % lost within a block, most of it at first", 0.30, 4.0),
    ];
    for (name, what, drift, bend) in drifts {
        for (configs, blocks) in [(1, 8), (1, 9), (1, 12), (2, 6), (6, 12)] {
            let setting = |effect: f64, cv: f64| Setting {
                blocks,
                configs: alike(configs, &gain(effect)),
                world: World { cv, slow: 0.0, drift, bend, ..World::default() },
                ..Setting::default()
            };
            if drift > 0.0 || configs == 1 {
                rows.push(row(
                    &format!("order-{name}-{configs}-{blocks}-equal"),
                    &format!("{configs} equal configs, {blocks} blocks, {what}, scatter 5 %"),
                    setting(0.0, 0.05),
                    vec![
                        ask("any Win", any_win, Bound::AtMost(5.0)),
                        ask("any Reject", any_reject, Bound::AtMost(5.0)),
                    ],
                ));
            }
            let bound = if (name, configs) == ("linear", 6) { Bound::AtLeast(90.0) } else { Bound::None };
            rows.push(row(
                &format!("order-{name}-{configs}-{blocks}-gain"),
                &format!("{configs} of +5 %, {blocks} blocks, {what}, scatter 2 %"),
                setting(0.05, 0.02),
                vec![ask("Win", wins, bound)],
            ));
        }
    }
    // A run that is repeated is not the first any more, so the arm that is disturbed more often is the first less often.
    for blocks in [9, 12] {
        let config = Behaviour { lost: 0.30, ..Behaviour::default() };
        let world = World { cv: 0.05, slow: 0.0, drift: 0.0, cold: 0.40, ..World::default() };
        rows.push(row(
            &format!("order-cold-{blocks}"),
            &format!("an equal config of which 30 % of tries are disturbed, {blocks} blocks, the first try of each 33 % slower"),
            Setting { blocks, configs: vec![config], world, ..Setting::default() },
            vec![ask("any Win", any_win, Bound::AtMost(5.0)), ask("any Reject", any_reject, Bound::AtMost(5.0))],
        ));
    }
    rows
}
