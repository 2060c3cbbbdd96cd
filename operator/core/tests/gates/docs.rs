//! `docs/gates.md` lists every code, guard and trap.

use assay_core::gates::Code;

use super::lab::codes;

const DOCS: &str = include_str!("../../../../docs/gates.md");

/// What a finding of a code costs, as the docs have it.
pub fn costs(code: Code) -> &'static str {
    let code = format!("`{code}`");
    rows(|first| first == code)[0][3]
}

/// The cells of every table row whose first cell this is about.
fn rows(first: impl Fn(&str) -> bool) -> Vec<Vec<&'static str>> {
    let cells =
        |line: &'static str| -> Vec<&'static str> { line.trim_matches('|').split('|').map(str::trim).collect() };
    DOCS.lines().filter(|line| line.starts_with("| ")).map(cells).filter(|row| first(row[0])).collect()
}

#[test]
fn every_code_is_listed_under_its_gate() {
    let expected: Vec<Vec<String>> =
        codes().into_iter().map(|code| vec![format!("`{code}`"), format!("{:?}", code.gate())]).collect();
    let mut listed: Vec<Vec<String>> = rows(|first| first.starts_with('`'))
        .into_iter()
        .map(|row| row[..2].iter().map(|cell| (*cell).to_owned()).collect())
        .collect();
    for row in &expected {
        assert!(listed.contains(row), "docs/gates.md does not list {row:?}");
    }
    listed.retain(|row| !expected.contains(row));
    assert!(listed.is_empty(), "docs/gates.md lists what does not exist: {listed:?}");
}

#[test]
fn every_guard_has_its_row() {
    for number in 1..=12 {
        let guard = format!("G{number}");
        let in_codes = rows(|first| first.starts_with('`')).iter().any(|row| row[2] == guard);
        assert!(in_codes || !rows(|first| first == guard).is_empty(), "{guard} is missing in docs/gates.md");
    }
}

#[test]
fn every_trap_is_closed_by_something() {
    for (seed, count) in [('E', 8), ('C', 8), ('R', 12)] {
        for number in 1..=count {
            let trap = format!("{seed}{number}");
            let rows = rows(|first| first == trap);
            assert_eq!(rows.len(), 1, "{trap}");
            assert!(rows[0].len() == 3 && !rows[0][2].is_empty(), "{trap} is closed by nothing");
        }
    }
    // Whatever is named as a code or label there exists.
    for row in rows(|first| first.len() <= 3 && first.starts_with(['E', 'C', 'R'])) {
        for name in row[2].split('`').skip(1).step_by(2) {
            let known = codes().iter().any(|code| code.to_string() == name) || matches!(name, "Bundled" | "Isolated");
            assert!(known, "{}: {name} does not exist", row[0]);
        }
    }
}
