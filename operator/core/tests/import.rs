//! Imported data from rows to verdicts: what is judged, what is refused, and what is only shown.

use std::fmt::Write as _;

use assay_core::gates::Label;
use assay_core::import::{Collector, ImportReport, Layout, Place, Policy, judge, markdown, terminal};
use assay_core::report::WIDTH;
use assay_core::verdict::Verdict;
use serde_json::{Value, json};

/// Judges rows of comma-separated values under these columns.
fn table(policy: &Value, columns: &str, rows: &str) -> Result<ImportReport, String> {
    let policy = Policy::read(policy).map_err(|problems| format!("{problems:?}"))?;
    let mut collector = Collector::new(&policy);
    let file = collector.file("rows.csv");
    for (line, row) in rows.lines().enumerate() {
        collector.row(Place { file, line: line as u64 + 1 }, columns.split(',').zip(row.split(',')));
    }
    let report = collector.finish().and_then(|data| judge(&data, &policy));
    report.map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// Judges rows of the metric `ops`, of which the last columns may be left out.
fn judged(policy: &Value, rows: &str) -> Result<ImportReport, String> {
    let columns = "metric,session,scenario,config,block,replicate,value,work,build,failed";
    table(policy, columns, &rows.lines().map(|row| format!("ops,{row}")).collect::<Vec<_>>().join("\n"))
}

fn policy() -> Value {
    json!({"baseline": "a", "objectives": [{"metric": "ops", "direction": "higher", "margin": "5%"}]})
}

fn with(mut policy: Value, field: &str, value: Value) -> Value {
    policy[field] = value;
    policy
}

/// Blocks of the baseline and one config whose values are those of the baseline times a factor.
fn paired(scenario: &str, count: usize, factor: impl Fn(usize) -> f64) -> String {
    (1..=count).fold(String::new(), |mut rows, block| {
        let base = 1000.0 + (block * 37 % 11) as f64 * 10.0;
        let own = base * factor(block);
        let _ = writeln!(rows, ",{scenario},a,{block},,{base},,\n,{scenario},b,{block},,{own},,");
        rows
    })
}

/// The same with little noise.
fn blocks(count: usize, factor: f64) -> String {
    paired("fill", count, |block| factor * (1.0 + (block * 29 % 7) as f64 / 1000.0))
}

/// Twelve blocks with a gain of 20 %, in which some runs failed and say how.
fn failing(word: impl Fn(&str, usize) -> Option<&'static str>) -> String {
    let with_word = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let (config, block) = (fields[2], fields[3]);
        match word(config, block.parse().expect("a block")) {
            Some(word) => format!(",fill,{config},{block},,,,,{word}\n"),
            None => format!("{line},\n"),
        }
    };
    blocks(12, 1.2).lines().map(with_word).collect()
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

/// A source of noise: SplitMix64, and Box and Muller's way to normal numbers.
struct Noise(u64);

impl Noise {
    fn new(seed: u64) -> Self {
        Self(seed << 32)
    }

    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64 + f64::EPSILON
    }

    /// A value around a level, with the given standard deviation of its logarithm.
    fn around(&mut self, level: f64, by: f64) -> f64 {
        level * (by * (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()).exp()
    }
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
    assert!(report.comparisons[0].guarantees[0].contains("takes on trust"));
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
    // One of twelve: 4 of them could be the config's worst.
    assert_eq!(verdict(&report), "Inconclusive Attrition");
}

#[test]
fn unblocked_runs_never_have_a_verdict() {
    let many: Vec<f64> = (0..40).map(|i| 1000.0 + f64::from(i)).collect();
    let more: Vec<f64> = many.iter().map(|value| value * 2.0).collect();
    let report = judged(&policy(), &runs(&many, &more)).expect("rows can be judged");
    assert_eq!(verdict(&report), "Inconclusive Unblocked");
    assert!(report.comparisons[0].cells[0].numbers[0].p < 1e-9);
    assert_eq!(report.comparisons[0].design, Layout::Unblocked);
    assert!(terminal(&report, WIDTH).contains("design: unblocked"));
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
    assert_eq!(report.comparisons[0].notes, ["build of a is unknown and was not compared."]);

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
    // Its runs are there, whatever they did.
    let refused = judged(&policy(), &worked(less)).expect("rows can be judged");
    assert_eq!(refused.comparisons[0].notes, Vec::<String>::new());
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
    assert_eq!(once.comparisons[0].cells[0].ruling.estimates[0].blocks, 11);
    let notes = &once.comparisons[0].notes;
    assert!(notes[0].starts_with("WorkMismatch: 1 of 12 runs of b"), "{notes:?}");
    // A run that did less may be one that took too long.
    assert_eq!(notes[1], "1 of 12 blocks of fill lacks the run of b.");
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
        // Others set the standard, with values that are never equal.
        let calm = |b: usize| format!("\n,fill,c,{b},,{}.5,{work},\n,fill,d,{b},,{}.25,{work},", 1040 + b, 1060 + b);
        rows.join("\n") + &(1..=12).map(calm).collect::<Vec<_>>().concat()
    };
    let report = judged(&policy(), &fast("1000")).expect("rows can be judged");
    assert_eq!(verdict(&report), "Win Better:ops");
    assert!(report.comparisons[0].notes.iter().any(|note| note.contains("repeated, so kept")));
    assert_eq!(verdict_of(&policy(), &fast("")), "Invalid Implausible in fill");
}

/// Of what is too good one run is left out, and named with its number.
#[test]
fn only_what_is_too_good_is_held() {
    let once = |far: f64, usual: f64| paired("fill", 12, move |block| if block == 5 { far } else { usual });
    let lower = json!({"baseline": "a", "objectives": [{"metric": "ops", "direction": "lower", "margin": "5%"}]});
    for (policy, rows) in [(policy(), once(5.0, 1.2)), (lower.clone(), once(0.2, 0.8))] {
        let report = judged(&policy, &rows).expect("rows can be judged");
        assert_eq!(verdict(&report), "Win Better:ops");
        let comparison = &report.comparisons[0];
        assert_eq!(comparison.cells[0].ruling.estimates[0].blocks, 11);
        assert!(comparison.notes[0].starts_with("Implausible: ops of b in fill is "), "{:?}", comparison.notes);
        assert!(comparison.notes[0].ends_with("times the median of all runs at rows.csv:10; left out."));
    }
    for (policy, rows) in [(policy(), once(0.2, 1.0)), (lower, once(5.0, 1.0))] {
        let report = judged(&policy, &rows).expect("rows can be judged");
        let comparison = &report.comparisons[0];
        assert_eq!(comparison.cells[0].ruling.estimates[0].blocks, 12);
        assert!(comparison.notes[0].starts_with("ops of b in fill is more than 3 times worse in 1 run ("));
        assert!(comparison.notes[0].ends_with(" times the median of all runs); slow runs count."));
    }
    let report = judged(&policy(), &once(0.0, 1.0)).expect("rows can be judged");
    let notes = &report.comparisons[0].notes;
    assert!(notes.iter().any(|note| note.contains("in 1 run (0 times the median")), "{notes:?}");
    // Configs that are all slow do not make the baseline too good.
    let slow = paired("fill", 12, |_| 0.25);
    let others = ["c", "d"].map(|name| {
        let own = slow.lines().filter(|line| line.contains(",b,"));
        own.map(|line| line.replace(",b,", &format!(",{name},")) + "\n").collect::<String>()
    });
    assert_eq!(verdict_of(&policy(), &(slow + &others.concat())), "Reject Harm:ops");
}

/// The baseline's best runs count against a config even where they are too good to count otherwise.
#[test]
fn the_baseline_keeps_its_best_runs() {
    let with_fast = |fast: &[usize]| {
        let faster = |line: &str| {
            let fields: Vec<&str> = line.split(',').collect();
            let is_fast = fields[2] == "a" && fast.iter().any(|block| fields[3] == block.to_string());
            let value = fields[5].parse::<f64>().expect("a value") * if is_fast { 20.0 } else { 1.0 };
            format!(",fill,{},{},,{value},,\n", fields[2], fields[3])
        };
        verdict_of(&policy(), &paired("fill", 8, |_| 1.2).lines().map(faster).collect::<String>())
    };
    assert_eq!(with_fast(&[]), "Win Better:ops");
    assert_eq!(with_fast(&[7]), "Inconclusive Underpowered");
}

/// A run that is too good holds its position where other runs of its block could replace it.
#[test]
fn held_runs_keep_their_position() {
    let with_fast = |fast: f64, spare: bool| {
        let mut noise = Noise::new(1);
        let rows = (1..=12).fold(String::new(), |mut rows, block| {
            let baseline = noise.around(1000.0, 0.003);
            let first = if block <= 2 { noise.around(fast, 0.003) } else { baseline };
            let own = noise.around(1.08 * baseline, 0.003);
            let _ = writeln!(rows, ",fill,a,{block},1,{first},,\n,fill,b,{block},,{own},,");
            if spare && block <= 2 {
                let _ = writeln!(rows, ",fill,a,{block},2,{},,", noise.around(1000.0, 0.003));
            }
            rows
        });
        verdict_of(&policy(), &rows)
    };
    assert_eq!(with_fast(1000.0, false), "Win Better:ops");
    for fast in [2900.0, 4000.0] {
        assert_eq!(with_fast(fast, false), "Inconclusive Underpowered", "{fast}");
        assert_eq!(with_fast(fast, true), "Inconclusive Underpowered", "{fast}");
    }
}

#[test]
fn baseline_runs_of_a_block_count_in_their_order() {
    // The second run of each block stands first in the file, and is much better.
    let second = |block: usize| format!(",fill,a,{block},32,{},,\n", 1300.0 + 1.37 * block as f64);
    let first = blocks(12, 1.2).lines().fold(String::new(), |rows, line| {
        let fields: Vec<&str> = line.split(',').collect();
        rows + &format!(",fill,{},{},31,{},,\n", fields[2], fields[3], fields[5])
    });
    let twice = (1..=4).map(second).collect::<String>() + &first;
    let report = judged(&policy(), &twice).expect("rows can be judged");
    assert_eq!(report.comparisons[0].baseline_replicates, 1);
    assert_eq!(verdict(&report), "Win Better:ops");
}

#[test]
fn blocks_of_scenarios_that_share_no_names_are_paired_in_order() {
    let paired = |scenario: &str, count: usize, prefix: &str| {
        let mut noise = Noise::new(u64::from(scenario.as_bytes()[0]));
        (1..=count).fold(String::new(), |mut rows, block| {
            let (base, own) = (noise.around(1000.0, 0.01), noise.around(1200.0, 0.01));
            let _ = writeln!(rows, ",{scenario},a,{prefix}{block},,{base},,\n,{scenario},b,{prefix}{block},,{own},,");
            rows
        })
    };
    let rows = paired("fill", 15, "") + &paired("read", 15, "r");
    let report = judged(&policy(), &rows).expect("rows can be judged");
    let comparison = &report.comparisons[0];
    assert_eq!((verdict(&report).as_str(), comparison.blocks), ("Win Better:ops", 15));
    let in_order = "No block name is in two scenarios, so blocks are paired in order: the first ones of all scenarios, the \
                    second ones, and so on.";
    assert_eq!(comparison.notes, [in_order]);
    // One scenario has a block more.
    let more = rows.clone() + ",fill,a,16,,1000,,\n,fill,b,16,,1200,,\n";
    let report = judged(&policy(), &more).expect("rows can be judged");
    let alone =
        format!("{in_order} These blocks count only in their own scenario, because others lack them: 16 of fill.");
    assert_eq!((report.comparisons[0].blocks, &report.comparisons[0].notes), (16, &vec![alone]));
    // Names that some scenarios share pair their blocks.
    let shared = paired("fill", 15, "") + &paired("read", 13, "");
    let report = judged(&policy(), &shared).expect("rows can be judged");
    assert_eq!(
        report.comparisons[0].notes,
        ["These blocks count only in their own scenario, because others lack them: 14, 15 of fill."]
    );
    assert_eq!(verdict(&report), "Win Better:ops");
}

#[test]
fn sizes_that_do_not_vary_are_judged() {
    let sizes = |metric: &str, columns: &str, more: &str| {
        let policy = json!({"baseline": "a", "objectives": [{"metric": metric, "direction": "lower", "margin": "5%"}]});
        let rows = (1..=10)
            .fold(String::new(), |rows, block| rows + &format!("a,{block},10485760{more}\nb,{block},8912896{more}\n"));
        table(&policy, &columns.replace("METRIC", metric), &rows).expect("rows can be judged")
    };
    let report = sizes("db_bytes", "config,block,METRIC", "");
    assert_eq!(verdict(&report), "Win Better:db_bytes");
    assert_eq!(
        report.comparisons[0].notes,
        ["db_bytes does not vary between the runs of a, b in workload; its equal values are no evidence of copies."]
    );
    // A clock does not repeat itself.
    for metric in ["ops_per_sec", "usec", "x"] {
        assert_eq!(verdict(&sizes(metric, "config,block,METRIC", "")), "Invalid CopiedRuns in workload");
    }
    let with_unit = |unit: &str| {
        let long = (1..=10).fold(String::new(), |rows, block| {
            rows + &format!("a,{block},x,10485760,{unit}\nb,{block},x,8912896,{unit}\n")
        });
        let policy = json!({"baseline": "a", "objectives": [{"metric": "x", "direction": "lower", "margin": "5%"}]});
        verdict(&table(&policy, "config,block,metric,value,unit", &long).expect("rows can be judged"))
    };
    assert_eq!(with_unit("bytes"), "Win Better:x");
    assert_eq!(with_unit("bytes/s"), "Invalid CopiedRuns in workload");
}

#[test]
fn one_baseline_run_more_costs_no_block() {
    let run = |block: usize| format!(",fill,a,{block},2,{},,\n", 990.0 + 1.37 * block as f64);
    let more = |count: usize| (1..=count).fold(blocks(12, 1.2), |rows, block| rows + &run(block));
    let report = judged(&policy(), &more(1)).expect("rows can be judged");
    let comparison = &report.comparisons[0];
    assert_eq!((verdict(&report).as_str(), comparison.baseline_replicates), ("Win Better:ops", 1));
    assert_eq!(comparison.cells[0].ruling.estimates[0].blocks, 12);
    assert_eq!(comparison.notes, ["1 of 12 blocks of fill has more than 1 run of a: the first counts."]);
    // Where most have two runs, those with one are lost.
    let report = judged(&policy(), &more(10)).expect("rows can be judged");
    let comparison = &report.comparisons[0];
    assert_eq!((comparison.baseline_replicates, comparison.cells[0].ruling.estimates[0].blocks), (2, 10));
}

/// Twelve blocks with a gain of 20 %, of which the first ones lack the run of a config.
fn lacking(config: &str, missing: usize) -> String {
    let lacks = |line: &str| (1..=missing).any(|block| line.contains(&format!(",{config},{block},")));
    blocks(12, 1.2).lines().filter(|line| !lacks(line)).fold(String::new(), |rows, line| rows + line + "\n")
}

const LOST: &str = "Such blocks are lost: a Win or Neutral must also hold with them as the config's worst.";

#[test]
fn missing_runs_are_no_better_than_slow_ones() {
    assert_eq!(verdict_of(&policy(), &lacking("b", 0)), "Win Better:ops");
    let few = judged(&policy(), &lacking("b", 3)).expect("rows can be judged");
    assert_eq!(few.comparisons[0].notes, ["3 of 12 blocks of fill lack the run of b.", LOST]);
    assert!(!verdict_of(&policy(), &lacking("b", 5)).starts_with("Invalid"), "p = 2 / 2^5");
    let many = judged(&policy(), &lacking("b", 6)).expect("rows can be judged");
    assert_eq!(verdict(&many), "Invalid Attrition");
    assert_eq!(
        many.comparisons[0].configs[0].findings[0].message,
        "6 of 12 runs of b are missing, against 0 of 12 of a in the same blocks: p = 0.031 by chance alone"
    );
    // Both arms lack as much.
    let alike = lacking("b", 6).lines().filter(|line| !line.contains(",a,1")).fold(String::new(), |t, l| t + l + "\n");
    assert!(!verdict_of(&policy(), &alike).starts_with("Invalid"), "six against four");
    // So they do where blocks that hold one config each compare nothing.
    let apart = blocks(12, 1.2).replace(",b,", ",b,other");
    assert_eq!(verdict_of(&policy(), &apart), "Inconclusive TooFewBlocks");
}

#[test]
fn a_missing_run_of_the_baseline_loses_its_block() {
    let few = judged(&policy(), &lacking("a", 1)).expect("rows can be judged");
    assert_eq!(few.comparisons[0].notes, ["1 of 12 blocks of fill lacks the run of a.", LOST]);
    let many = judged(&policy(), &lacking("a", 6)).expect("rows can be judged");
    assert_eq!(verdict(&many), "Invalid Attrition");
    assert_eq!(
        many.comparisons[0].configs[0].findings[0].message,
        "0 of 12 runs of b are missing, against 6 of 12 of a in the same blocks: p = 0.031 by chance alone"
    );
    // One of two runs: of three runs in a block it was never the config's, 2 * (2/3)^12.
    let second = |from: usize| {
        let runs = (from..=12).map(|block| format!(",fill,a,{block},2,{},,\n", 1003.7 + 1.37 * block as f64));
        blocks(12, 1.2) + &runs.collect::<String>()
    };
    let report = judged(&policy(), &second(5)).expect("rows can be judged");
    assert_eq!(report.comparisons[0].notes, ["4 of 12 blocks of fill lack one of the 2 runs of a.", LOST]);
    assert!(!verdict(&report).starts_with("Invalid"), "{}", verdict(&report));
}

/// A config that loses more than it gains, and one without effect, whose bad runs are lost with the baseline's row of their block.
#[test]
fn leaving_out_rows_of_the_baseline_wins_nothing() {
    const EXPERIMENTS: u64 = 100;
    let wins = |rows: &dyn Fn(&mut Noise) -> String| {
        let is_win = |seed: &u64| verdict_of(&policy(), &rows(&mut Noise::new(*seed))).starts_with("Win");
        (0..EXPERIMENTS).filter(is_win).count()
    };
    let row = |arm: &str, block: usize, value: f64| format!(",fill,{arm},{block},,{value:.3},,\n");
    let stalling = |noise: &mut Noise| {
        (1..=30).fold(String::new(), |rows, block| {
            let stalls = noise.uniform() < 0.2;
            let baseline = noise.around(1000.0, 0.02);
            let own = noise.around(if stalls { 400.0 } else { 1050.0 }, 0.02);
            rows + &if stalls { String::new() } else { row("a", block, baseline) } + &row("b", block, own)
        })
    };
    let equal = |lost: usize| {
        move |noise: &mut Noise| {
            let mut pairs: Vec<(f64, f64)> =
                (0..30).map(|_| (noise.around(1000.0, 0.05), noise.around(1000.0, 0.05))).collect();
            pairs.sort_by(|x, y| (x.1 / x.0).total_cmp(&(y.1 / y.0)));
            pairs.iter().enumerate().fold(String::new(), |rows, (block, (baseline, own))| {
                let baseline = if block < lost { String::new() } else { row("a", block, *baseline) };
                rows + &baseline + &row("b", block, *own)
            })
        }
    };
    let found = [wins(&stalling), wins(&equal(0)), wins(&equal(3)), wins(&equal(6)), wins(&equal(9))];
    // 5 %, and two standard errors.
    assert!(found.iter().all(|wins| *wins <= 9), "{found:?}");
}

#[test]
fn a_failed_run_is_the_worst_and_not_missing() {
    let some = |failed: usize| failing(move |config, block| (config == "b" && block <= failed).then_some("true"));
    let report = judged(&policy(), &some(1)).expect("rows can be judged");
    assert_eq!(verdict(&report), "Inconclusive Failures");
    let (config, cell) = (&report.comparisons[0].configs[0], &report.comparisons[0].cells[0]);
    assert_eq!((config.runs, config.failed, cell.runs, cell.failed), (12, 1, 12, 1));
    assert_eq!((cell.baseline_runs, cell.baseline_failed, cell.numbers[0].config_failed), (12, 0, 1));
    assert!(config.ruling.sentence.contains("1 of 12 runs of b failed"), "{}", config.ruling.sentence);
    assert!(markdown(&report).contains("Failures, 1 of 12 runs failed"), "{}", markdown(&report));
    assert!(report.comparisons[0].notes.is_empty(), "{:?}", report.comparisons[0].notes);
    // Five missing runs are Invalid. Failed ones are a claim among two, so it takes six.
    assert!(verdict_of(&policy(), &some(5)).starts_with("Inconclusive"), "{}", verdict_of(&policy(), &some(5)));
    assert_eq!(verdict_of(&policy(), &some(6)), "Reject Unstable");
}

#[test]
fn failures_of_both_arms_alike_take_nothing_away() {
    let both = |word: &'static str| {
        failing(move |config, block| match (config, block) {
            ("a", 7) => Some("YES"),
            ("b", 5) => Some(word),
            _ => None,
        })
    };
    let report = judged(&policy(), &both("1")).expect("rows can be judged");
    assert_eq!(verdict(&report), "Win Better:ops");
    let sentence = &report.comparisons[0].configs[0].ruling.sentence;
    assert!(sentence.contains("1 of 12 runs of b failed, against 1 of 12 of a"), "{sentence}");
    // Damaged data is another matter.
    for word in ["corruption", "wrong-answers"] {
        assert_eq!(verdict_of(&policy(), &both(word)), "Inconclusive Failures");
    }
    let baseline = failing(|config, block| (config == "a" && block == 7).then_some("true"));
    assert_eq!(verdict_of(&policy(), &baseline), "Win Better:ops");
}

#[test]
fn what_a_failed_run_did_and_measured_does_not_matter() {
    let columns = "scenario,config,block,metric,value,work,failed";
    let fifth_as = |fifth: &str| {
        let row = |line: &str| {
            let fields: Vec<&str> = line.split(',').collect();
            match (fields[2], fields[3]) {
                ("b", "5") => fifth.to_owned(),
                (config, block) => format!("fill,{config},{block},ops,{},1000,", fields[5]),
            }
        };
        blocks(12, 1.2).lines().map(row).collect::<Vec<_>>().join("\n")
    };
    for fifth in ["fill,b,5,ops,,1000,true", "fill,b,5,ops,99999,7,true", "fill,b,5,rss,n/a,,yes"] {
        let report = table(&policy(), columns, &fifth_as(fifth)).expect("rows can be judged");
        assert_eq!(verdict(&report), "Inconclusive Failures", "{fifth}");
        assert!(report.comparisons[0].notes.is_empty(), "{:?}", report.comparisons[0].notes);
    }
    // A column that means something else can be left alone.
    let ignoring = with(policy(), "ignoreColumns", json!(["failed"]));
    let other = fifth_as("fill,b,5,ops,1200,1000,2 requests");
    let report = table(&ignoring, columns, &other).expect("rows can be judged");
    assert_eq!(verdict(&report), "Win Better:ops");
}

#[test]
fn words_that_say_nothing_of_failure_are_refused() {
    let refused = |rows: &str| judged(&policy(), rows).expect_err("refused");
    assert_eq!(
        refused(&failing(|config, block| (config == "b" && block == 5).then_some("maybe"))),
        "rows.csv:10: column failed: \"maybe\" is not valid: use true, yes or 1 if the run failed; corruption or \
         wrong-answers if it damaged data; false, no, 0 or nothing if it did not fail"
    );
    let base = ",fill,a,1,,100,,,\n,fill,b,1,,100,,,\n";
    assert_eq!(
        refused(&format!("{base},fill,b,1,,,,,true")),
        "rows.csv:3: column failed: differs from rows.csv:2 within one run: mark all rows of a run as failed, or none"
    );
    assert_eq!(
        refused(&format!("{base},fill,b,2,,,,,true\n,fill,b,2,,,,,true")),
        "rows.csv:4: ops of this run of b in fill duplicates rows.csv:3: remove one of them, or add a replicate column \
         to tell runs of one config apart"
    );
    assert_eq!(
        refused(&format!("{base},fill,b,2,,,,,no")),
        "rows.csv:3: column value: empty: keep the row and write true in its failed column; a failed run needs no value"
    );
}

#[test]
fn failures_without_blocks_are_told() {
    let sound = runs(&[100.0, 101.0, 102.0, 103.0], &[120.0, 121.0, 122.0]);
    let without = judged(&policy(), &sound).expect("rows can be judged");
    let report = judged(&policy(), &(sound.clone() + ",fill,b,,9,,,,true\n")).expect("rows can be judged");
    assert_eq!(verdict(&report), "Inconclusive TooFewBlocks");
    let cell = &report.comparisons[0].cells[0];
    assert_eq!((cell.runs, cell.failed, cell.baseline_runs, cell.baseline_failed), (4, 1, 4, 0));
    let (before, after) = (&without.comparisons[0].cells[0].numbers[0], &cell.numbers[0]);
    assert_eq!((after.config_runs, after.config_failed), (3, 1));
    assert!(after.p > before.p, "{} {}", after.p, before.p);
    assert_eq!((after.shift, after.means_percent), (before.shift, before.means_percent));
    let notes = &report.comparisons[0].notes;
    assert!(notes[0].starts_with("1 of 4 runs of b in fill failed. For p they rank below all others"), "{notes:?}");
    assert!(markdown(&report).contains("TooFewBlocks, 1 of 4 runs failed"), "{}", markdown(&report));
    // Without names they are counted.
    let unnamed = sound + ",fill,b,,,,,,true\n,fill,b,,,,,,corruption\n";
    let unnamed = judged(&policy(), &unnamed).expect("rows can be judged");
    assert_eq!(unnamed.comparisons[0].cells[0].failed, 2);
    assert!(unnamed.comparisons[0].notes[0].starts_with("2 of 5 runs of b in fill failed (1 with damaged data)."));
}

#[test]
fn zero_is_a_value() {
    let lower = json!({"baseline": "a", "objectives": [{"metric": "ops", "direction": "lower", "margin": "5%"}]});
    let report = judged(&lower, &paired("fill", 12, |_| 0.0)).expect("rows can be judged");
    assert_eq!(verdict(&report), "Win Better:ops");
    let estimate = &report.comparisons[0].configs[0].ruling.estimates[0];
    assert_eq!((estimate.blocks, estimate.has_zeros, estimate.estimate), (12, true, None));
    assert!(markdown(&report).contains("none (zeros)"), "{}", markdown(&report));
    assert!(terminal(&report, WIDTH).contains("zero in some runs"), "{}", terminal(&report, WIDTH));
    // Only zeros decide nothing, and more of them would not either.
    let report = judged(&policy(), &paired("fill", 12, |_| 0.0).replace(",100", ",0")).expect("rows can be judged");
    let said = &report.comparisons[0].configs[0].ruling.sentence;
    assert!(!said.contains("run more repetitions"), "{said}");
    let notes = &report.comparisons[0].notes;
    assert!(notes.iter().any(|note| note.contains("declare it in a policy with scale: linear")), "{notes:?}");
    // Of a rate it is the worst, and no reason to leave the run out.
    let stopped = paired("fill", 12, |block| if block <= 6 { 0.0 } else { 1.2 });
    let report = judged(&policy(), &stopped).expect("rows can be judged");
    assert_eq!(report.comparisons[0].cells[0].ruling.estimates[0].blocks, 12);
    assert!(!verdict(&report).starts_with("Win"), "{}", verdict(&report));
    let refused = judged(&policy(), ",fill,a,1,,100,,\n,fill,b,1,,-3,,").expect_err("refused");
    assert_eq!(
        refused,
        "rows.csv:2: column value: \"-3\" is negative, but the metric is on a log scale: correct it, or declare ops with scale: linear"
    );
}

#[test]
fn zeros_without_blocks_are_told() {
    let report = judged(&policy(), &runs(&[100.0, 101.0, 102.0], &[0.0, 120.0, 121.0])).expect("rows can be judged");
    let numbers = &report.comparisons[0].cells[0].numbers[0];
    assert_eq!((numbers.config_runs, numbers.has_zeros, numbers.shift), (3, true, None));
    // Two of three above all, one below: 0 is neither dropped nor the best.
    assert!((numbers.p - 0.7).abs() < 1e-12, "{}", numbers.p);
    assert!(numbers.means_percent.is_some_and(|percent| percent < 0.0));
    let notes = &report.comparisons[0].notes;
    assert!(notes.iter().any(|note| note.starts_with("Some values of ops are zero")), "{notes:?}");
    assert!(terminal(&report, WIDTH).contains("none (zeros)"), "{}", terminal(&report, WIDTH));
}

/// An objective with more declared.
fn objective(field: &str, value: Value) -> Value {
    let mut policy = policy();
    policy["objectives"][0][field] = value;
    policy
}

#[test]
fn stalls_are_paid_for() {
    let stall = |far: f64| paired("fill", 12, move |block| if block == 7 { far } else { 1.1 });
    assert_eq!(verdict_of(&policy(), &stall(1.1)), "Win Better:ops");
    let report = judged(&policy(), &stall(0.2)).expect("rows can be judged");
    assert_eq!(verdict(&report), "Inconclusive SlowTail:ops");
    let estimate = &report.comparisons[0].configs[0].ruling.estimates[0];
    assert!(estimate.mean.is_some_and(|mean| mean < 0.0), "{estimate:?}");
    assert!(estimate.estimate.is_some_and(|estimate| estimate > 0.0), "{estimate:?}");
    assert!(
        markdown(&report).contains("| mean |") && terminal(&report, WIDTH).contains("proven  mean"),
        "{}",
        terminal(&report, WIDTH)
    );
    // A quantile has a mean over runs as well.
    assert_eq!(verdict_of(&objective("quantile", json!(true)), &stall(0.2)), "Inconclusive SlowTail:ops");
}

#[test]
fn no_scenario_pays_for_another() {
    let with_read = |odd: f64, even: f64| {
        paired("fill", 12, |_| 1.3) + &paired("read", 12, move |block| if block % 2 == 1 { odd } else { even })
    };
    assert_eq!(verdict_of(&policy(), &with_read(1.0, 1.0)), "Win Better:ops");
    // In sum still a gain, but that reading does not lose 5 % is open.
    assert_eq!(verdict_of(&policy(), &with_read(0.9, 1.1)), "Inconclusive ScenarioUnresolved:read");
    assert_eq!(verdict_of(&objective("scenarioMargin", json!("15%")), &with_read(0.9, 1.1)), "Win Better:ops");
    assert_eq!(verdict_of(&policy(), &with_read(0.9, 0.9)), "Tradeoff worse in read");
}

#[test]
fn a_win_says_its_size() {
    let least =
        |least: &str| judged(&objective("atLeast", json!(least)), &blocks(12, 1.2)).expect("rows can be judged");
    assert_eq!(verdict(&least("10%")), "Win Better:ops");
    let sentence = &least("10%").comparisons[0].configs[0].ruling.sentence;
    assert!(sentence.contains("(at least 10 % is proven)"), "{sentence}");
    assert!(verdict(&least("30%")).starts_with("Inconclusive"), "{}", verdict(&least("30%")));
    // Better by 3 to 15 %: perhaps by less than the margin.
    let open = paired("fill", 12, |block| if block % 2 == 0 { 1.15 } else { 1.03 });
    let report = judged(&policy(), &open).expect("rows can be judged");
    assert_eq!(report.comparisons[0].configs[0].ruling.labels, [Label::SizeOpen]);
    assert!(terminal(&report, WIDTH).contains("SizeOpen"), "{}", terminal(&report, WIDTH));
}

#[test]
fn sizes_that_mean_nothing_are_refused() {
    let refused = |policy: &Value| -> Vec<String> {
        let problems = Policy::read(policy).expect_err("refused");
        problems.iter().map(ToString::to_string).collect()
    };
    for field in ["margin", "atLeast", "scenarioMargin"] {
        for text in ["0%", "100%", "0.05", "-1%"] {
            let expected =
                format!("objectives[0].{field}: must be above 0 % and below 100 %, such as 5%, not {text:?}");
            assert_eq!(refused(&objective(field, json!(text))), [expected]);
        }
    }
    let guardrail = |rule: Value| with(policy(), "guardrails", json!([rule]));
    assert_eq!(
        refused(&guardrail(json!({"metric": "p99", "direction": "lower", "margin": "5%", "atLeast": "1%"}))),
        ["guardrails[0].atLeast: a guardrail has nothing to gain: make it an objective, or remove atLeast"]
    );
    let linear = json!({"metric": "share", "direction": "lower", "scale": "linear", "margin": "0"});
    assert_eq!(
        refused(&guardrail(linear)),
        [
            "guardrails[0].margin: must be a difference above zero, such as \"0.01\", or a percentage such as 5%, not \"0\""
        ]
    );
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
    assert_eq!(error, "the baseline a has no runs in session y; configs with runs: b, a2");
}

#[test]
fn sessions_say_what_they_prove_together() {
    let session = |name: &str| blocks(12, 1.0).lines().fold(String::new(), |rows, line| rows + name + line + "\n");
    let last = |rows: &str| {
        let report = judged(&policy(), rows).expect("rows can be judged");
        let guarantees: Vec<Option<String>> =
            report.comparisons.iter().map(|comparison| comparison.guarantees.last().cloned()).collect();
        guarantees
    };
    let together = last(&["x", "y", "z"].map(session).concat());
    let said = "Sessions: all this applies to this comparison alone. The report has 3, each with an error of its own: the \
                chance that any of them has a false Win is at most 14 % if they are independent, and likewise for harm.";
    assert_eq!(together, vec![Some(said.to_owned()); 3]);
    assert!(!last(&session("x"))[0].as_ref().is_some_and(|said| said.starts_with("Sessions")));
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
    assert!(terminal(&report, WIDTH).contains("(2 of 4 hold)"), "{}", terminal(&report, WIDTH));
    let refused =
        |claim: Value| judged(&with(policy(), "claims", json!([claim])), &blocks(6, 1.2)).expect_err("refused");
    assert_eq!(
        refused(json!({"text": "t", "config": "bb", "claimed": "Win"})),
        "claims[0] of the policy: bb has no runs; did you mean b?"
    );
    assert_eq!(
        refused(json!({"text": "t", "config": "b", "claimed": "Win", "session": "s"})),
        "claims[0] of the policy: session s has no runs"
    );
    assert_eq!(
        refused(json!({"text": "t", "config": "b", "claimed": "Win", "unpublished": true})),
        "claims[0] of the policy: b has runs: remove unpublished"
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
