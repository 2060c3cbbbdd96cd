use super::*;
use crate::judge::tests::full_report;

/// Eight blocks of a scenario, in which configs took this long, in microseconds per step by component.
fn table(scenario: &str, took: impl Fn(&str, u32) -> Vec<(&'static str, f64)>, report: &Report) -> Vec<TimeTable> {
    let configs = std::iter::once(&report.baseline).chain(report.configs.iter().map(|config| &config.config));
    let configs: Vec<&String> = configs.collect();
    let trial = |config: &str, block| {
        let times = took(config, block).into_iter().map(|(name, time)| (name.to_owned(), time)).collect();
        Trial { config: config.to_owned(), block, times }
    };
    let trials = (0..8).flat_map(|block| configs.iter().map(move |config| (block, config)));
    let trials = trials.map(|(block, config)| trial(config, block)).collect();
    let part = |(component, clock, depth): (&str, Clock, u32)| Part { component: component.to_owned(), clock, depth };
    let parts = [
        ("process", Clock::Cpu, 0),
        ("compaction_threads", Clock::Cpu, 1),
        ("writer: wall", Clock::Wall, 0),
        ("get", Clock::Wall, 0),
        ("write", Clock::Wall, 0),
        ("write_memtable", Clock::SampledWall, 1),
        ("compression", Clock::Wall, 0),
    ];
    let own = Scenario { role: "writer".to_owned(), parts: parts.map(part).to_vec(), trials };
    TimeTables { scenarios: BTreeMap::from([(scenario.to_owned(), own)]) }.finish(report)
}

/// Noise that has no favourite.
fn noise(config: &str, block: u32) -> f64 {
    f64::from((config.len() as u32 * 7 + block * 5) % 11) / 100.0
}

/// A table in which one component of the candidate is clearly larger, and one has no difference.
pub(crate) fn sample(report: &Report) -> Vec<TimeTable> {
    let took = |config: &str, block: u32| {
        let noise = noise(config, block);
        let more = if config == "candidate" { 2.5 } else { 0.0 };
        vec![
            ("process", 20.0 + more + noise),
            ("compaction_threads", 8.0 + more + noise),
            ("writer: wall", 12.0 + noise),
            ("get", 0.0),
            ("write", 5.0),
            ("write_memtable", 3.0 - noise),
        ]
    };
    table("fill", took, report)
}

#[test]
fn differences_are_told_from_noise() {
    let report = full_report(true);
    let [table] = &sample(&report)[..] else { unreachable!("one scenario has records") };
    assert_eq!((table.scenario.as_str(), table.role.as_str()), ("fill", "writer"));
    let names: Vec<&str> = table.rows.iter().map(|row| row.component.as_str()).collect();
    // What took no time, or what nobody measured, has no row.
    assert_eq!(names, ["process", "compaction_threads", "writer: wall", "write", "write_memtable"]);
    let told: Vec<[bool; 2]> =
        table.rows.iter().map(|row| [row.configs[0].differs(), row.configs[1].differs()]).collect();
    assert_eq!(told, [[true, false], [true, false], [false, false], [false, false], [false, false]]);
    let cell = &table.rows[1].configs[0];
    assert!(cell.difference.is_some_and(|more| (more - 2.5).abs() < 0.1), "{cell:?}");
    assert!(cell.mean.is_some_and(|mean| (mean - table.rows[1].baseline - 2.5).abs() < 0.1), "{cell:?}");
}

#[test]
fn only_whole_blocks_are_compared() {
    let report = full_report(true);
    let rows = |missing: &'static str, blocks: u32| {
        let took = move |config: &str, block: u32| {
            if config == missing && block < blocks { Vec::new() } else { vec![("process", 1.0 + f64::from(block))] }
        };
        table("fill", took, &report).pop().map(|table| table.rows)
    };
    let cell = |missing, blocks| rows(missing, blocks).map(|rows| rows[0].configs[0].clone()).unwrap();
    assert_eq!(cell("candidate", 0).difference, Some(0.0));
    assert!(cell("candidate", 0).interval95.is_some_and(|interval| interval.low.is_some()));
    // Means are of all there are, differences of pairs.
    let some = cell("candidate", 7);
    assert_eq!((some.mean, some.difference), (Some(8.0), Some(0.0)));
    assert_eq!(some.difference_texts().1, "too few blocks");
    let none = cell("candidate", 8);
    assert_eq!((none.mean, none.difference, none.interval95), (None, None, None));
    assert_eq!((none.difference_texts().0.as_str(), none.differs()), ("unknown", false));
    assert_eq!(rows(Box::leak(report.baseline.clone().into_boxed_str()), 8), None, "nothing to compare with");
}

#[test]
fn differences_carry_their_sign() {
    let shown: Vec<String> = [1.5, -0.25, 0.0, 1e-9, -12_345.0].into_iter().map(signed).collect();
    assert_eq!(shown, ["+1.50", "-0.2500", "0.0000", "0.0000", "-12.35 k"]);
}

#[test]
fn the_manual_names_every_component_with_its_source() {
    let manual = include_str!("../../../../../docs/report.md");
    for component in COMPONENTS {
        let clock = clock_text(component.clock);
        let whole = component.within.map_or(String::new(), |within| format!("`{within}`"));
        let row = format!("| `{}` | {clock} | {whole} | {} | {} |", component.name, component.source, component.help);
        assert!(manual.contains(&row), "docs/report.md lacks this row:\n{row}");
    }
}
