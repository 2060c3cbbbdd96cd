//! Imported data from rows to verdicts: what is judged, what is refused, and what is only shown.

use std::fmt::Write as _;

use assay_core::import::{Collector, ImportReport, Layout, Place, Policy, judge, markdown, terminal};
use assay_core::verdict::Verdict;
use serde_json::{Value, json};

/// Judges rows of `session,scenario,config,block,replicate,value,work,build`, all of them of the metric `ops`.
fn judged(policy: &Value, rows: &str) -> Result<ImportReport, String> {
    const COLUMNS: [&str; 8] = ["session", "scenario", "config", "block", "replicate", "value", "work", "build"];
    let policy = Policy::read(policy).map_err(|problems| format!("{problems:?}"))?;
    let mut collector = Collector::new(&policy);
    let file = collector.file("rows.csv");
    for (line, row) in rows.lines().enumerate() {
        let fields = COLUMNS.into_iter().zip(row.split(','));
        collector.row(Place { file, line: line as u64 + 1 }, fields.chain([("metric", "ops")]));
    }
    let report = collector.finish().and_then(|data| judge(&data, &policy));
    report.map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

fn policy() -> Value {
    json!({"baseline": "a", "objectives": [{"metric": "ops", "direction": "higher", "margin": "5%"}]})
}

fn with(mut policy: Value, field: &str, value: Value) -> Value {
    policy[field] = value;
    policy
}

/// Blocks of the baseline and one config whose values are those of the baseline times `factor`.
fn blocks(count: usize, factor: f64) -> String {
    (1..=count).fold(String::new(), |mut rows, block| {
        let base = 1000.0 + (block * 37 % 11) as f64 * 10.0;
        let noise = 1.0 + (block * 29 % 7) as f64 / 1000.0;
        let _ = writeln!(rows, ",fill,a,{block},,{base},,\n,fill,b,{block},,{},,", base * factor * noise);
        rows
    })
}

/// Runs without blocks.
fn runs(baseline: &[f64], config: &[f64]) -> String {
    let mut rows = String::new();
    for (name, values) in [("a", baseline), ("b", config)] {
        for (run, value) in values.iter().enumerate() {
            let _ = writeln!(rows, ",fill,{name},,{run},{value},,");
        }
    }
    rows
}

fn verdict(report: &ImportReport) -> String {
    let ruling = &report.comparisons[0].configs[0].ruling;
    format!("{:?} {}", ruling.verdict, ruling.reason)
}

fn verdict_of(policy: &Value, rows: &str) -> String {
    verdict(&judged(policy, rows).expect("rows can be judged"))
}

#[test]
fn blocks_get_real_verdicts() {
    assert_eq!(verdict_of(&policy(), &blocks(12, 1.2)), "Win Better:ops");
    assert_eq!(verdict_of(&policy(), &blocks(12, 0.8)), "Reject Harm:ops");
    assert_eq!(verdict_of(&policy(), &blocks(12, 1.0)), "Neutral Equivalent");
    assert_eq!(verdict_of(&policy(), &blocks(4, 1.2)), "Inconclusive TooFewBlocks");
    let report = judged(&policy(), &blocks(12, 1.2)).expect("rows can be judged");
    assert_eq!((report.comparisons[0].design, report.comparisons[0].blocks), (Layout::Blocked, 12));
    assert!(report.comparisons[0].guarantees[0].contains("taken on trust"));
    assert_eq!(report.exit_code(), 0);
    assert_eq!(judged(&policy(), &blocks(12, 0.8)).expect("rows").exit_code(), 10);
    assert_eq!(judged(&policy(), &blocks(4, 1.2)).expect("rows").exit_code(), 11);
}

#[test]
fn lower_is_better_where_it_is_declared() {
    let policy = json!({"baseline": "a", "objectives": [{"metric": "ops", "direction": "lower", "margin": "5%"}]});
    assert_eq!(verdict_of(&policy, &blocks(12, 0.8)), "Win Better:ops");
}

#[test]
fn the_order_of_rows_does_not_matter() {
    let rows = blocks(12, 1.1);
    let mut reversed: Vec<&str> = rows.lines().collect();
    reversed.reverse();
    let (one, other) = (judged(&policy(), &rows), judged(&policy(), &reversed.join("\n")));
    assert_eq!(one.expect("rows").comparisons, other.expect("rows").comparisons);
}

#[test]
fn a_block_without_its_baseline_counts_for_nobody() {
    // Twelve blocks with two runs of the baseline, one of which is missing in a single block.
    let mut rows = String::new();
    for block in 1..=12 {
        for replicate in [1, 2] {
            if (block, replicate) != (7, 2) {
                let _ = writeln!(rows, ",fill,a,{block},{replicate},{},,", 1000 + block * replicate);
            }
        }
        let _ = writeln!(rows, ",fill,b,{block},1,{},,", 1200 + block);
    }
    let report = judged(&policy(), &rows).expect("rows can be judged");
    assert_eq!(report.comparisons[0].baseline_replicates, 2);
    assert_eq!(report.comparisons[0].cells[0].ruling.estimates[0].blocks, 11);
    assert_eq!(verdict(&report), "Win Better:ops");
}

#[test]
fn unblocked_runs_never_have_a_verdict() {
    let many: Vec<f64> = (0..40).map(|i| 1000.0 + f64::from(i)).collect();
    let more: Vec<f64> = many.iter().map(|value| value * 2.0).collect();
    let report = judged(&policy(), &runs(&many, &more)).expect("rows can be judged");
    assert_eq!(verdict(&report), "Inconclusive Unblocked");
    assert!(report.comparisons[0].cells[0].numbers[0].p < 1e-9);
    assert_eq!(report.comparisons[0].design, Layout::Unblocked);
    assert!(terminal(&report).contains("design: unblocked"));
    assert!(markdown(&report).contains("unblocked (advisory)"));
    assert_eq!(verdict_of(&policy(), &runs(&many[..3], &more[..3])), "Inconclusive TooFewBlocks");
}

#[test]
fn other_builds_are_no_comparison() {
    let rows = blocks(12, 1.2);
    let differing = json!([{"name": "a", "attributes": {"build": "x"}}, {"name": "b", "attributes": {"build": "y"}}]);
    assert_eq!(verdict_of(&with(policy(), "configs", differing), &rows), "Invalid FeatureMismatch");
    let equal = json!([{"name": "a", "attributes": {"build": "x"}}, {"name": "b", "attributes": {"build": "x"}}]);
    assert_eq!(verdict_of(&with(policy(), "configs", equal), &rows), "Win Better:ops");
    let half = json!([{"name": "b", "attributes": {"build": "x"}}]);
    let report = judged(&with(policy(), "configs", half), &rows).expect("rows can be judged");
    assert_eq!(verdict(&report), "Win Better:ops");
    assert_eq!(report.comparisons[0].notes, ["build of a is not known: whether it is equal is not checked."]);

    let column = |a: &str, b: &str| -> String {
        let built =
            |line: &str| line.trim_end_matches(',').to_owned() + ",," + if line.contains(",b,") { b } else { a };
        rows.lines().map(built).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(verdict_of(&policy(), &column("v1", "v1")), "Win Better:ops");
    assert_eq!(verdict_of(&policy(), &column("v1", "v2")), "Invalid FeatureMismatch");
}

/// Blocks in which each run says what it did.
fn worked(work: impl Fn(&str, usize) -> String) -> String {
    let with_work = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let block = fields[3].parse().expect("a block");
        format!("{},{},", line.trim_end_matches(','), work(fields[2], block))
    };
    blocks(12, 1.2).lines().map(with_work).collect::<Vec<_>>().join("\n")
}

#[test]
fn other_work_is_no_comparison() {
    assert_eq!(verdict_of(&policy(), &worked(|_, _| "1000".to_owned())), "Win Better:ops");
    let less = |config: &str, _: usize| if config == "b" { "900" } else { "1000" }.to_owned();
    assert_eq!(verdict_of(&policy(), &worked(less)), "Invalid WorkMismatch in fill");
    let tolerant = with(policy(), "workTolerance", json!("11%"));
    assert_eq!(verdict_of(&tolerant, &worked(less)), "Win Better:ops");
    // Within the tolerance of real counters.
    let jitter = |_: &str, block: usize| (10_000 + block % 3).to_string();
    assert_eq!(verdict_of(&policy(), &worked(jitter)), "Win Better:ops");
    // Once is left out and said; twice is no accident.
    let times = |bad: usize| {
        move |config: &str, block: usize| if config == "b" && block <= bad { "1" } else { "1000" }.to_owned()
    };
    let once = judged(&policy(), &worked(times(1))).expect("rows can be judged");
    assert_eq!(verdict(&once), "Win Better:ops");
    assert_eq!(once.comparisons[0].cells[0].ruling.estimates[0].blocks, 11);
    assert!(
        once.comparisons[0].notes[0].starts_with("WorkMismatch: 1 of 12 runs of b"),
        "{:?}",
        once.comparisons[0].notes
    );
    assert_eq!(verdict_of(&policy(), &worked(times(2))), "Invalid WorkMismatch in fill");
    // Lists are compared name by name.
    let list = |config: &str, _: usize| format!("keys=1000 found={}", if config == "b" { 10 } else { 640 });
    assert_eq!(verdict_of(&policy(), &worked(list)), "Invalid WorkMismatch in fill");
    // An unfit baseline is nobody's baseline.
    let base = |config: &str, block: usize| if config == "a" && block < 4 { "7" } else { "1000" }.to_owned();
    assert_eq!(verdict_of(&policy(), &worked(base)), "Invalid WorkMismatch in fill");
}

#[test]
fn runs_too_good_to_be_true_need_proof() {
    let sweep =
        |wild: &str| runs(&[1.07, 0.95, 0.92, 0.9], &[1.0]).replace(",fill,b,,0,1,", &format!(",fill,b,,0,{wild},"));
    assert_eq!(verdict_of(&policy(), &sweep("2.5")), "Inconclusive TooFewBlocks");
    assert_eq!(verdict_of(&policy(), &sweep("17.5")), "Invalid Implausible");
    // Repeated with equal work it is what the config does.
    let fast = |work: &'static str| {
        let rows: Vec<String> =
            blocks(12, 4.0).lines().map(|line| format!("{},{work},", line.trim_end_matches(",,"))).collect();
        // Others set the standard.
        let calm = |b: usize| format!("\n,fill,c,{b},,1050,{work},\n,fill,d,{b},,1055,{work},");
        rows.join("\n") + &(1..=12).map(calm).collect::<Vec<_>>().concat()
    };
    let report = judged(&policy(), &fast("1000")).expect("rows can be judged");
    assert_eq!(verdict(&report), "Win Better:ops");
    assert!(report.comparisons[0].notes.iter().any(|note| note.contains("repeated, so kept")));
    assert_eq!(verdict_of(&policy(), &fast("")), "Invalid Implausible in fill");
}

#[test]
fn missing_runs_are_no_better_than_slow_ones() {
    let without = |missing: usize| -> String {
        blocks(12, 1.2)
            .lines()
            .filter(|line| !(1..=missing).any(|b| line.contains(&format!(",b,{b},"))))
            .fold(String::new(), |t, l| t + l + "\n")
    };
    assert_eq!(verdict_of(&policy(), &without(2)), "Win Better:ops");
    assert_eq!(verdict_of(&policy(), &without(3)), "Invalid Attrition in fill");
    // Blocks that hold one config each compare nothing.
    let apart = blocks(12, 1.2).replace(",b,", ",b,other");
    assert_eq!(verdict_of(&policy(), &apart), "Invalid Attrition in fill");
}

#[test]
fn sessions_are_never_mixed() {
    let rows = "x,fill,a,,1,100,,\nx,fill,b,,1,110,,\ny,fill,a2,,1,500,,\ny,fill,b,,1,510,,";
    let sessions = with(policy(), "sessions", json!([{"name": "y", "baseline": "a2"}]));
    let report = judged(&sessions, rows).expect("rows can be judged");
    let shifts: Vec<f64> =
        report.comparisons.iter().filter_map(|c| c.cells[0].numbers[0].means_percent).map(f64::round).collect();
    assert_eq!(shifts, [10.0, 2.0]);
    let error = judged(&policy(), rows).expect_err("y has no baseline a");
    assert_eq!(error, "no run of the baseline a in session y; configs are b, a2");
}

#[test]
fn claims_are_put_beside_the_verdicts() {
    let claims = json!([
        {"text": "great", "config": "b", "claimed": "Win"},
        {"text": "bad", "config": "b", "claimed": "Reject"},
        {"text": "other way round", "config": "a", "baseline": "b", "claimed": "Reject"},
        {"text": "trust me", "config": "z", "claimed": "Win", "unpublished": true}
    ]);
    let report = judged(&with(policy(), "claims", claims), &blocks(12, 1.2)).expect("rows can be judged");
    let found: Vec<(bool, Option<Verdict>)> =
        report.claims.iter().map(|claim| (claim.holds(), claim.supported)).collect();
    let win = Some(Verdict::Win);
    assert_eq!(found, [(true, win), (false, win), (true, Some(Verdict::Reject)), (false, None)]);
    assert!(terminal(&report).contains("(2 of 4 hold)"), "{}", terminal(&report));
    let refused =
        |claim: Value| judged(&with(policy(), "claims", json!([claim])), &blocks(6, 1.2)).expect_err("refused");
    assert_eq!(
        refused(json!({"text": "t", "config": "bb", "claimed": "Win"})),
        "claims[0] of the policy: no run of bb; did you mean b?"
    );
    assert_eq!(
        refused(json!({"text": "t", "config": "b", "claimed": "Win", "session": "s"})),
        "claims[0] of the policy: no run is of session s"
    );
    assert_eq!(
        refused(json!({"text": "t", "config": "b", "claimed": "Win", "unpublished": true})),
        "claims[0] of the policy: there are runs of b: remove unpublished"
    );
}

#[test]
fn the_committed_schema_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/judge-policy.json");
    let schema = serde_json::to_string_pretty(&Policy::schema()).expect("a schema is JSON") + "\n";
    if std::env::var_os("ASSAY_UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &schema).expect("the schema is written");
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == schema, "{path} is stale: run the tests with ASSAY_UPDATE_GOLDEN=1");
}
