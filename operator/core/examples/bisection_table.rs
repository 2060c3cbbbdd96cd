//! Measures how often a bisection names the culprit, and in how many blocks, on simulated candidates of known truth.
//!
//! `cargo run --release -p assay-core --example bisection_table -- [--searches N] [--seed S] [--write]`: every search goes through the real
//! code. With `--write` the table goes into docs/statistics.md.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../tests/bisection/mod.rs"]
mod bisection;

use std::{env, fs, process::ExitCode};

use assay_core::bisect::Spread;
use bisection::{Seen, World, bisect, plain, search};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/statistics.md");
const BEGIN: &str = "<!-- bisection: begin -->";
const END: &str = "<!-- bisection: end -->";

const KNOWN: Spread = Spread { block: 0.02, visit: 0.0 };

struct Asked {
    searches: u64,
    seed: u64,
    write: bool,
}

fn main() -> ExitCode {
    let Some(asked) = asked(env::args().skip(1)) else {
        eprintln!("usage: bisection_table [--searches N] [--seed S] [--write]");
        return ExitCode::from(2);
    };
    let table = [sizes(&asked), variants(&asked), whole(&asked)].join("\n\n");
    println!("{table}");
    if asked.write {
        let docs = fs::read_to_string(DOCS).unwrap();
        let (head, rest) = docs.split_once(BEGIN).unwrap();
        let (_, tail) = rest.split_once(END).unwrap();
        fs::write(DOCS, format!("{head}{BEGIN}\n\n{table}\n\n{END}{tail}")).unwrap();
    }
    ExitCode::SUCCESS
}

fn asked(mut args: impl Iterator<Item = String>) -> Option<Asked> {
    let mut asked = Asked { searches: 2000, seed: 1, write: false };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--searches" => asked.searches = args.next()?.parse().ok().filter(|&count| count > 0)?,
            "--seed" => asked.seed = args.next()?.parse().ok()?,
            "--write" => asked.write = true,
            _ => return None,
        }
    }
    Some(asked)
}

impl Asked {
    fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.seed << 32;
        first..first + self.searches
    }

    fn search(&self, world: &World, blocks: usize, spread: Spread) -> Seen {
        Seen::of(self.seeds().map(|seed| search(world, seed, blocks, spread)))
    }

    fn bisect(&self, world: &World) -> Seen {
        let searches = self.seeds().map(|seed| bisect(world, seed));
        Seen::of(searches.map(|(ended, blocks, _)| (ended, blocks)))
    }
}

fn percent(part: usize, seen: &Seen) -> f64 {
    100.0 * part as f64 / seen.count() as f64
}

/// The search alone, with its noise known.
fn sizes(asked: &Asked) -> String {
    let mut lines = vec![
        "| candidates | 1 block a visit | 2 blocks | 4 blocks | plain bisection, 3 blocks a step | 10 blocks a step |"
            .to_owned(),
        "|--:|--:|--:|--:|--:|--:|".to_owned(),
    ];
    for count in [8, 16, 32, 64, 256] {
        let cell = |blocks: usize| {
            let seen = asked.search(&World { count, ..World::default() }, blocks, KNOWN);
            format!("{:.1} %, {:.1} ({})", percent(seen.right, &seen), seen.mean(), seen.most())
        };
        let halved = |blocks: usize| {
            let world = World { count, ..World::default() };
            let seen = Seen::of(asked.seeds().map(|seed| plain(&world, seed, blocks)));
            format!("{:.1} %, {:.0}", percent(seen.right, &seen), seen.mean())
        };
        lines.push(format!("| {count} | {} | {} | {} | {} | {} |", cell(1), cell(2), cell(4), halved(3), halved(10)));
        eprintln!("{}", lines.last().unwrap());
    }
    lines.join("\n")
}

/// The search alone, of 32 candidates, where something is different.
fn variants(asked: &Asked) -> String {
    let world = World::default();
    let step = |size: f64| World { steps: vec![size], ..world.clone() };
    let visits = World { visit: 0.01, ..world.clone() };
    let rows: Vec<(&str, World, usize, Spread)> = vec![
        ("a loss of 1.5 %", step(0.015), 2, KNOWN),
        ("a loss of 5 %", step(0.05), 2, KNOWN),
        ("noise of 4 %, known", World { block: 0.04, ..world.clone() }, 2, Spread { block: 0.04, visit: 0.0 }),
        ("noise of 3 %, taken for 2 %", World { block: 0.03, ..world.clone() }, 2, KNOWN),
        ("visits differ by 1 %, not known", visits.clone(), 2, KNOWN),
        ("visits differ by 1 %, known", visits.clone(), 2, Spread { visit: 0.01, ..KNOWN }),
        ("the same with 1 block a visit", visits, 1, Spread { visit: 0.01, ..KNOWN }),
        ("heavy tails (Student's t, 5 degrees)", World { heavy: true, ..world.clone() }, 2, KNOWN),
        ("nothing is worse", World { steps: Vec::new(), ..world.clone() }, 2, KNOWN),
        ("two culprits of 1.5 % (either is right)", World { steps: vec![0.015; 2], ..world.clone() }, 2, KNOWN),
    ];
    let mut lines = vec!["| 32 candidates, 2 blocks a visit | right | blocks |".to_owned(), "|---|--:|--:|".to_owned()];
    for (what, world, blocks, spread) in rows {
        let seen = asked.search(&world, blocks, spread);
        lines.push(format!("| {what} | {:.1} % | {:.1} ({}) |", percent(seen.right, &seen), seen.mean(), seen.most()));
        eprintln!("{}", lines.last().unwrap());
    }
    lines.join("\n")
}

/// All of it, as it is shipped.
fn whole(asked: &Asked) -> String {
    let world = World { visit: 0.003, ..World::default() };
    let of = |count: usize| World { count, ..world.clone() };
    let rows: Vec<(&str, World)> = vec![
        ("8 candidates", of(8)),
        ("32 candidates", of(32)),
        ("256 candidates", of(256)),
        ("a loss of 5 %", World { steps: vec![0.05], ..world.clone() }),
        ("a loss of 1.5 %", World { steps: vec![0.015], ..world.clone() }),
        ("noise of 3 %", World { block: 0.03, ..world.clone() }),
        ("visits differ by 1 %", World { visit: 0.01, ..world.clone() }),
        ("heavy tails", World { heavy: true, ..world.clone() }),
        ("a fifth can't run", World { broken: 0.2, ..world.clone() }),
        ("nothing is worse", World { steps: Vec::new(), ..world.clone() }),
        ("two culprits of 3 %", World { steps: vec![0.03; 2], ..world.clone() }),
        ("two culprits of 1.5 %", World { steps: vec![0.015; 2], ..world.clone() }),
        ("5 % worse, fixed, 5 % worse", World { steps: vec![0.05, -0.05, 0.05], ..world.clone() }),
    ];
    let mut lines = vec![
        "| as shipped; 32 candidates unless stated otherwise | right | wrong | open | blocks |".to_owned(),
        "|---|--:|--:|--:|--:|".to_owned(),
    ];
    for (what, world) in rows {
        let seen = asked.bisect(&world);
        let open = seen.count() - seen.right - seen.wrong;
        lines.push(format!(
            "| {what} | {:.1} % | {:.1} % | {:.1} % | {:.1} ({}) |",
            percent(seen.right, &seen),
            percent(seen.wrong, &seen),
            percent(open, &seen),
            seen.mean(),
            seen.most()
        ));
        eprintln!("{}", lines.last().unwrap());
    }
    lines.join("\n")
}
