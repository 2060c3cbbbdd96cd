//! Machines that become slower within a block, which the order of its runs turns into noise.

use super::{
    super::{
        Setting,
        world::{World, gain},
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
        for (configs, blocks) in [(1, 8), (2, 6), (6, 12)] {
            let setting = |effect: f64| Setting {
                blocks,
                configs: alike(configs, &gain(effect)),
                world: World { cv: 0.02, slow: 0.0, drift, bend, ..World::default() },
                ..Setting::default()
            };
            let what = format!("{blocks} blocks, {what}, scatter 2 %");
            if drift > 0.0 {
                rows.push(row(
                    &format!("order-{name}-{configs}-equal"),
                    &format!("{configs} equal configs, {what}"),
                    setting(0.0),
                    vec![
                        ask("any Win", any_win, Bound::AtMost(5.0)),
                        ask("any Reject", any_reject, Bound::AtMost(5.0)),
                    ],
                ));
            }
            let bound = if (name, configs) == ("linear", 6) { Bound::AtLeast(90.0) } else { Bound::None };
            rows.push(row(
                &format!("order-{name}-{configs}-gain"),
                &format!("{configs} of +5 %, {what}"),
                setting(0.05),
                vec![ask("Win", wins, bound)],
            ));
        }
    }
    rows
}
