//! Real output of other people's benchmarks, as they wrote it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::common::{data, golden, judge_in, said};

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("there is data") {
        let file = entry.expect("a file").path();
        fs::copy(&file, to.join(file.file_name().expect("a name"))).expect("a copy");
    }
}

/// Six alternating runs of two configs by RocksDB's own benchmark.
#[test]
fn a_folder_of_db_bench_is_an_experiment() {
    let output = judge_in(&data("db_bench"), &[".", "--baseline", "plain"]);
    golden("ok-db-bench.txt", &said(&output));
    assert!(said(&output).contains("design: blocked, 6 blocks"), "{}", said(&output));
}

#[test]
fn one_file_with_marks_is_the_same_experiment() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut text = String::new();
    for block in 1..=6 {
        for config in ["lz4", "plain"] {
            let run = fs::read_to_string(data("db_bench").join(format!("{config}.{block}.txt"))).expect("a run");
            let _ = write!(text, "# assay: config={config} block={block}\n{run}");
        }
    }
    fs::write(folder.path().join("all.log"), text).expect("a file");
    let together = judge_in(folder.path(), &["all.log", "--baseline", "plain"]);
    let apart = judge_in(&data("db_bench"), &[".", "--baseline", "plain"]);
    assert_eq!(said(&together), said(&apart));
}

#[test]
fn a_manifest_says_what_names_do_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut policy = "baseline: plain\nruns:\n".to_owned();
    for block in 1..=6 {
        for config in ["lz4", "plain"] {
            let name = format!("{config}-{block}.txt");
            fs::copy(data("db_bench").join(format!("{config}.{block}.txt")), folder.path().join(&name))
                .expect("a copy");
            let _ = writeln!(policy, "- {{file: {name}, config: {config}, block: \"{block}\"}}");
        }
    }
    fs::write(folder.path().join("policy.yaml"), policy).expect("a policy");
    let apart = judge_in(&data("db_bench"), &[".", "--baseline", "plain"]);
    assert_eq!(said(&judge_in(folder.path(), &["."])), said(&apart));
}

#[test]
fn db_bench_that_did_other_work_is_no_comparison() {
    let changed_with = |from: &str, to: &str, flags: &[&str]| {
        let folder = tempfile::tempdir().expect("a folder");
        copy(&data("db_bench"), folder.path());
        for block in [1, 2] {
            let path = folder.path().join(format!("lz4.{block}.txt"));
            let text = fs::read_to_string(&path).expect("a run");
            assert!(text.contains(from), "{text}");
            fs::write(&path, text.replace(from, to)).expect("a run");
        }
        said(&judge_in(folder.path(), &[&[".", "--baseline", "plain"], flags].concat()))
    };
    let changed = |from: &str, to: &str| changed_with(from, to, &[]);
    let text = changed("Entries:    50000", "Entries:    40000");
    assert!(text.contains("WorkMismatch in fillrandom,readrandom"), "{text}");
    let text = changed("version 11.8.1", "version 11.8.0");
    assert!(text.contains("FeatureMismatch"), "{text}");
    let text = changed_with("version 11.8.1", "version 11.8.0", &["--ignore-column", "build"]);
    assert!(!text.contains("Mismatch") && text.contains("6 blocks"), "{text}");
    let text = changed_with("version", "version", &["--ignore-column", "bild"]);
    assert!(
        text.starts_with("there is no column bild to ignore; did you mean build?; columns found: block, build, mb_")
    );
    assert!(text.ends_with(".: 1 error\nexit code 1\n"), "{text}");
    let text = changed(" of 50000 found)", "0 of 50000 found)");
    assert!(text.contains("WorkMismatch in readrandom"), "{text}");
    // The same names and sizes in another order of lines are the same runs.
    assert!(!changed("Perf Level: 1", "Perf Level: 2").contains("Mismatch"));
    // What a program prints has no column of that name.
    let text = changed_with("version", "version", &["--column", "block=round"]);
    assert!(text.contains("there is no column round for block; columns found: "), "{text}");
}

#[test]
fn output_without_results_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a.1.txt"), "DB path: [/x]\nopen error: IO error: No such file\n").expect("a file");
    let text = said(&judge_in(folder.path(), &[".", "--baseline", "a"]));
    assert_eq!(text, "./a.1.txt: no db_bench result found: did the run finish?\n.: 1 error\nexit code 1\n");
}

/// Two sleeps, of 10 and of 20 ms.
#[test]
fn one_export_of_hyperfine_is_only_advice() {
    let text = said(&judge_in(&data("hyperfine-one"), &["export.json", "--baseline", "short"]));
    golden("ok-hyperfine-one.txt", &text);
    assert!(text.contains("design: unblocked (advisory)") && text.contains("8/8"), "{text}");
    assert!(text.contains("Inconclusive Unblocked") && text.ends_with("exit code 11\n"), "{text}");
    // One improvement, one sign, whichever number says it.
    let text = said(&judge_in(&data("hyperfine-one"), &["export.json", "--baseline", "long"]));
    let row: Vec<&str> = text.lines().find(|line| line.starts_with("short")).unwrap_or_default().split("  ").collect();
    let numbers: Vec<&str> = row.into_iter().map(str::trim).filter(|cell| cell.ends_with('%')).collect();
    assert!(numbers.len() == 2 && numbers.iter().all(|cell| cell.starts_with('+')), "{text}");
}

#[test]
fn several_exports_of_hyperfine_are_blocks() {
    let text = said(&judge_in(&data("hyperfine-blocks"), &[".", "--baseline", "short"]));
    golden("ok-hyperfine-blocks.txt", &text);
    assert!(text.contains("design: blocked, 6 blocks") && text.contains("Harm:time"), "{text}");
    let text = said(&judge_in(&data("hyperfine-blocks"), &[".", "--baseline", "long"]));
    assert!(text.contains("Better:time") && text.ends_with("exit code 0\n"), "{text}");
}

#[test]
fn failed_runs_of_hyperfine_have_no_time() {
    let text = said(&judge_in(&data("hyperfine-failed"), &["export.json", "--baseline", "good"]));
    assert!(text.starts_with("export.json: run 1 of \"bad\" exited with 1: the time of a failed run"), "{text}");
    assert!(text.ends_with("exit code 1\n"), "{text}");
}

/// Google Benchmark writes such a document, and so do others.
#[test]
fn a_document_of_another_program_is_one_mistake() {
    let folder = tempfile::tempdir().expect("a folder");
    for text in [
        "{\n  \"context\": {},\n  \"benchmarks\": [\n    {\"name\": \"a\"}\n  ]\n}\n",
        "{\"context\": {}, \"benchmarks\":\n[{\"name\": \"a\"}]}\n",
        "[{\"config\": \"a\", \"value\": 1}]\n",
        "[\n  {\"config\": \"a\"},\n  {\"config\": \"b\"}\n]\n",
    ] {
        fs::write(folder.path().join("gb.json"), text).expect("a file");
        let said = said(&judge_in(folder.path(), &["gb.json", "--baseline", "a"]));
        assert!(
            said.starts_with("gb.json: is a JSON document of a kind that Assay does not know; it reads csv, "),
            "{said}"
        );
        assert!(said.ends_with("exports of hyperfine\ngb.json: 1 error\nexit code 1\n"), "{said}");
    }
}

#[test]
fn names_that_number_runs_in_another_way_are_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    for block in 1..=2 {
        for config in ["lz4", "plain"] {
            let name = format!("{config}_run{block}.log");
            let from = data("db_bench").join(format!("{config}.{block}.txt"));
            fs::copy(from, folder.path().join(name)).expect("a copy");
        }
    }
    let naming = "A file of db_bench output is named CONFIG.BLOCK.txt, such as plain.1.txt; any other name is a config";
    for flags in [&["."][..], &[".", "--baseline", "plain"]] {
        let text = said(&judge_in(folder.path(), flags));
        assert!(text.contains(&format!("plain_run2. {naming}")) && text.contains("# assay: config=NAME"), "{text}");
    }
    let text = said(&judge_in(folder.path(), &[".", "--baseline", "plain_run1"]));
    assert!(text.replace('\n', " ").contains(naming), "{text}");
    assert!(!said(&judge_in(&data("db_bench"), &[".", "--baseline", "plain"])).contains("is named"));
}

#[test]
fn a_stray_file_can_be_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    copy(&data("db_bench"), folder.path());
    fs::write(folder.path().join("notes.txt"), "hello\n").expect("a file");
    let text = said(&judge_in(folder.path(), &[".", "--baseline", "plain"]));
    assert!(text.starts_with("./notes.txt:1: column config is missing"), "{text}");
    let advice = "To leave a file of the folder out, list all others under data in its policy.yaml\n.: 1 error\n";
    assert!(text.contains(advice), "{text}");
    let text = said(&judge_in(folder.path(), &["notes.txt", "--baseline", "plain"]));
    assert!(!text.contains("To leave"), "{text}");
}
