//! `assay validate` and `assay plan` on files with one mistake each: the words, the places, the exit codes.

use std::io::Write;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::common::{assay, command, golden, package, stderr, stdout};

#[test]
fn every_case_has_its_words() {
    let mut cases: Vec<String> = std::fs::read_dir(package().join("tests/cases"))
        .expect("there are cases")
        .map(|entry| entry.expect("a case").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .filter_map(|path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned))
        .collect();
    cases.sort();
    assert!(cases.len() > 20);
    for case in cases {
        let file = format!("tests/cases/{case}");
        // The disk of the machine that tests is none of the other cases' business.
        let dir: &[&str] = if case.starts_with("larger-than") { &["--dir", "tests"] } else { &[] };
        let output = assay(&[&["validate", file.as_str()], dir].concat());
        let text = stdout(&output);
        let text = if dir.is_empty() { text } else { without_free_space(&text) };
        assert_eq!(stderr(&output), "", "{case}");
        let valid = text.contains(": valid");
        assert_eq!(output.status.code(), Some(i32::from(!valid)), "{case}: {text}");
        assert!(!text.contains('\u{1b}'), "{case} has colours");
        golden(&case.replace(".yaml", ".out"), &text);
        // What validate refuses has no plan, and plan says the same.
        let plan: &[&str] = if case.starts_with("sweep") { &["sweep", "plan"] } else { &["plan"] };
        let planned = assay(&[plan, &[file.as_str()], dir].concat());
        assert_eq!(planned.status.success(), valid, "{case}");
        if !valid {
            assert_eq!(stdout(&planned), "", "{case}");
            let said = stderr(&planned);
            assert_eq!(if dir.is_empty() { said } else { without_free_space(&said) }, text, "{case}");
        }
    }
}

/// How much is free differs from machine to machine.
fn without_free_space(text: &str) -> String {
    let lines = text.lines().map(|line| match (line.rfind(" only "), line.find(" is free")) {
        (Some(from), Some(to)) if from < to => format!("{} only FREE{}\n", &line[..from], &line[to..]),
        _ => format!("{line}\n"),
    });
    lines.collect()
}

#[test]
fn files_that_are_none() {
    let refused = |path: &str| {
        let output = assay(&["validate", path]);
        assert_eq!(output.status.code(), Some(1));
        stdout(&output)
    };
    assert_eq!(refused("tests"), "tests: is a directory: give a file\ntests: 1 error\n");
    assert!(refused("nowhere.yaml").starts_with("nowhere.yaml: can't be read: No such file"));
    let folder = tempfile::tempdir().expect("a folder");
    let huge = folder.path().join("huge.yaml");
    std::fs::write(&huge, "a: ".to_owned() + &"x".repeat(2 << 20)).expect("a file");
    let path = huge.display().to_string();
    assert_eq!(refused(&path), format!("{path}: is larger than 1 MiB: too large for an experiment\n{path}: 1 error\n"));
}

#[test]
fn standard_input_is_a_file() {
    let mut child =
        command(&["validate", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("assay starts");
    let sound = std::fs::read(package().join("tests/cases/sound.yaml")).expect("a case");
    child.stdin.take().expect("its input").write_all(&sound).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(stdout(&output), "standard input: valid: 2 configs, 1 scenario, 8 blocks per scenario, 16 trials\n");
}

#[test]
fn options_are_never_left_unchecked() {
    let output = Command::new(env!("CARGO_BIN_EXE_assay"))
        .args(["validate", "tests/cases/sound.yaml", "--bench", "tests/bench/none"])
        .current_dir(package())
        .output()
        .expect("assay starts");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stdout(&output),
        "tests/cases/sound.yaml: options not checked: no bench at tests/bench/none: build one with `make build`, or \
         fix --bench\ntests/cases/sound.yaml: 1 error\n"
    );
    let extra = assay(&["validate", "tests/cases/sound.yaml", "--bench", "small=tests/bench/fake.sh"]);
    assert!(stdout(&extra).contains("--bench small=PATH: no config \"small\" declares an image"), "{}", stdout(&extra));
}

/// Those of a sweep have the next nights, which are others each day.
#[test]
fn plans_of_sweeps_are_readable() {
    let output = assay(&["sweep", "plan", "tests/cases/sweep-sound.yaml"]);
    let text = stdout(&output);
    let is_night = |line: &&str| line.ends_with(" 02:30 CET") || line.ends_with(" 02:30 CEST");
    assert!(text.lines().filter(is_night).count() >= 4, "{text}");
    let lines: Vec<&str> = text.lines().filter(|line| !is_night(line) && !line.ends_with(" 03:00 CEST")).collect();
    golden("sweep-sound.plan", &(lines.join("\n") + "\n"));
    let given = assay(&["sweep", "plan", "tests/cases/sweep-sound.yaml", "--noise", "1%"]);
    assert!(stdout(&given).contains("detects    with 1.0 % noise per run (given)"), "{}", stdout(&given));
}

/// How soon changes are suspected follows from how nights have scattered; larger scatter takes longer.
#[test]
fn a_plan_knows_the_scatter_of_earlier_nights() {
    let dir = TempDir::new().expect("a folder");
    let digest = "0".repeat(32);
    let planned = |scatter: f64| {
        let night = |day: usize| {
            let effect = scatter * [1.0, -1.0, 0.5, -0.5][day % 4];
            format!(
                r#"{{"version":1,"sweep":"case","night":"2026-11-{:02}T01:30:00Z","trigger":"Schedule","outcome":"Measured","fingerprint":{{"machine":"m","protocol":1,"workloads":{{"writes":"{digest}"}}}},"reference":{{"name":"large","config":"{digest}"}},"subjects":[{{"name":"small","config":"{digest}"}}],"points":[{{"subject":"small","scenario":"writes","metric":"throughput","logRatio":{effect},"standardError":0.001,"blocks":8}}]}}"#,
                day + 1
            )
        };
        let file = dir.path().join("nights.jsonl");
        std::fs::write(&file, (0..12).map(night).collect::<Vec<_>>().join("\n")).expect("a file");
        let output =
            assay(&["sweep", "plan", "tests/cases/sweep-sound.yaml", "--history", file.to_str().expect("a path")]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let (quiet, noisy) = (planned(0.02), planned(0.08));
    let line = |text: &str| text.lines().find(|line| line.starts_with("suspects   throughput: ")).map(str::to_owned);
    assert!(quiet.contains("\n             with the scatter of the noisiest series so far\n"), "{quiet}");
    // Of what the history does not know, blocks tell.
    let other = "suspects   drained_throughput: a step of 2.5 % in 10 nights (";
    assert!(quiet.contains(other) && quiet.contains(" noise per run (assumed), "), "{quiet}");
    assert!(quiet.contains("where the history has fewer than 5 nights that can be compared"), "{quiet}");
    assert!(line(&quiet).is_some_and(|line| line.contains(" 5 % in 2 nights (")), "{quiet}");
    assert!(line(&noisy).is_some_and(|line| !line.contains(" 5 % in 2 nights (")), "{noisy}");
    // The folder of all nights is none of a run.
    std::fs::create_dir(dir.path().join("sweep")).expect("a folder");
    let begun = r#"{"sweep":"case","schedule":"17 1 * * *","timeZone":"Etc/UTC","since":"2026-11-01T00:00:00Z"}"#;
    std::fs::write(dir.path().join("sweep/sweep.json"), begun).expect("a file");
    let folder = dir.path().join("sweep").display().to_string();
    let refused = assay(&["sweep", "plan", "tests/cases/sweep-sound.yaml", "--noise-from", &folder]);
    assert!(stderr(&refused).contains("is the folder of a sweep: pass that of one night"), "{}", stderr(&refused));
    let refused = assay(&["aa", "tests/cases/sweep-sound.yaml"]);
    assert!(stderr(&refused).contains("whose nights show the noise"), "{}", stderr(&refused));
    let refused = assay(&["sweep", "plan", "tests/cases/sweep-sound.yaml", "--history", "Cargo.toml"]);
    assert!(stderr(&refused).contains("Cargo.toml, line 1: "), "{}", stderr(&refused));
    let other = r#"{"sweep":"other","schedule":"","timeZone":"","since":"2026-11-01T00:00:00Z"}"#;
    std::fs::write(dir.path().join("sweep.json"), other).expect("a file");
    let folder = dir.path().to_str().expect("a path");
    let refused = assay(&["sweep", "plan", "tests/cases/sweep-sound.yaml", "--history", folder]);
    assert!(stderr(&refused).contains("has the history of sweep other, not of case"), "{}", stderr(&refused));
}

#[test]
fn plans_are_readable() {
    let output = assay(&["plan", "tests/cases/sound.yaml"]);
    assert_eq!(stderr(&output), "");
    golden("sound.plan", &stdout(&output));
    // A config of a matrix takes one line.
    let output = assay(&["plan", "tests/cases/matrix.yaml"]);
    assert_eq!(stderr(&output), "");
    golden("matrix.plan", &stdout(&output));
}

/// What a program reads of a plan has no matrix any more.
#[test]
fn a_plan_for_programs_has_the_configs_of_a_matrix() {
    let output = assay(&["plan", "tests/cases/matrix.yaml", "-o", "json"]);
    let plan: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("a plan");
    let configs = plan["experiment"]["configs"].as_array().expect("configs");
    let names: Vec<&str> = configs.iter().filter_map(|config| config["name"].as_str()).collect();
    assert_eq!(names, ["today", "by-hand", "memtable-1m-jobs-default", "memtable-1m-jobs-4", "memtable-2m-jobs-4"]);
    assert_eq!(
        configs[4]["changes"],
        serde_json::json!([
            "max_background_jobs: RocksDB's default -> 4",
            "write_buffer_size: RocksDB's default -> 2M"
        ])
    );
}
