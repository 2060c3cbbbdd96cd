//! `assay init` and `assay import`: what they write from what users have, and that it is valid.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tempfile::TempDir;

use crate::common::{assay, command, golden_at, package, stderr, stdout};

/// Folders of databases as several versions of RocksDB leave them.
fn databases() -> PathBuf {
    package().join("../core/tests/data/databases")
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

/// The text without what depends on the machine.
fn anywhere(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once("cpus: ") {
        Some((before, after)) => format!("{before}cpus: N{}\n", after.trim_start_matches(|c: char| c.is_ascii_digit())),
        None => format!("{line}\n"),
    });
    lines.collect()
}

/// Runs `assay init` with a flag, and holds what it writes and says against goldens. The file passes `assay validate`.
fn init(case: &str, flag: &str, value: &str) {
    let folder = TempDir::new().unwrap();
    let file = path(&folder.path().join("mine.yaml"));
    let output = assay(&["init", flag, value, &file]);
    assert!(output.status.success(), "{case}: {}{}", stdout(&output), stderr(&output));
    assert_eq!(stderr(&output), "", "{case}");
    let golden = package().join("tests/adopt");
    golden_at(&golden.join(format!("{case}.yaml")), &anywhere(&fs::read_to_string(&file).unwrap()));
    golden_at(&golden.join(format!("{case}.out")), &stdout(&output).replace(&file, "mine.yaml"));
    let validated = assay(&["validate", &file]);
    assert!(validated.status.success(), "{case}: {}", stdout(&validated));
    let planned = assay(&["plan", &file]);
    assert!(planned.status.success(), "{case}: {}", stderr(&planned));
}

#[test]
fn options_files_of_several_versions() {
    for (case, file) in
        [("v5.14", "v5.14/OPTIONS-000005"), ("v8.10", "v8.10/OPTIONS-000123"), ("v12.0", "v12.0/OPTIONS-000009")]
    {
        init(case, "--from-options", &path(&databases().join(file)));
    }
}

#[test]
fn command_lines_of_db_bench() {
    let common = "./db_bench --benchmarks=fillrandom,readrandom --num=1000000 --value_size=400 --key_size=20 --threads=4 \
                  --compression_type=lz4 --cache_size=1073741824 --write_buffer_size=134217728";
    init("db-bench", "--from-db-bench", common);
    let all = "numactl -N 0 /opt/db_bench \\\n --benchmarks='fillseq,waitforcompaction,overwrite,readseq,readmissing,\
               seekrandom,readwhilewriting,updaterandom,deleterandom,readrandomwriterandom,mixgraph,readreverse' \\\n \
               --num 200000 --seek_nexts 20 --readwritepercent=75 --benchmark_write_rate_limit=10485760 --sync \
               --compaction_style=1 --bloom_bits 10 --compression_type=zlib --num_column_families=2 --statistics \
               --merge_operator=\"a b\" --db=/tmp/x | tee out";
    init("db-bench-all", "--from-db-bench", all);
}

/// What is refused leaves no file.
fn refused(arguments: &[&str], message: &str) -> Output {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("mine.yaml");
    let output = assay(&[arguments, &[&path(&file)]].concat());
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stdout(&output));
    assert!(stderr(&output).starts_with(&format!("assay: {message}")), "{arguments:?}: {}", stderr(&output));
    assert!(!file.exists(), "{arguments:?}");
    output
}

#[test]
fn what_is_no_options_file() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let file = folder.path().join(name);
        fs::write(&file, bytes).unwrap();
        path(&file)
    };
    let head = "[Version]\n  rocksdb_version=8.10.0\n[DBOptions]\n";
    let broken = write("broken", format!("{head}[CFOptions \"default\"]\n  ttl=0\n[CFOptions \"x").as_bytes());
    refused(&["init", "--from-options", &broken], &format!("{broken}: line 6: the section has no closing ]"));
    let binary = write("binary", b"\xff\xfe\0");
    refused(&["init", "--from-options", &binary], &format!("{binary} is not text"));
    let yaml = write("yaml", b"spec:\n  a: 1\n");
    refused(&["init", "--from-options", &yaml], &format!("{yaml}: line 1: neither a [section] nor an option=value"));
    let empty = write("empty", b"");
    refused(&["init", "--from-options", &empty], &format!("{empty}: is empty"));
    refused(&["init", "--from-options", "/nowhere"], "can't read /nowhere: No such file");
    refused(&["init", "--from-options", "src"], "src is a folder: give its OPTIONS file, or use `assay import src`");
}

#[test]
fn what_is_no_command_line() {
    for (command, message) in [
        ("db_bench --benchmarks='fillseq", "a quote in the command is not closed"),
        ("db_bench --num=5", "--benchmarks is missing"),
        ("db_bench --benchmarks=mixgraph", "--benchmarks=mixgraph: no benchmark becomes a scenario"),
        ("--benchmarks=readrandom --num=1M", "--num=1M: not a whole number"),
        ("ldb scan", "\"ldb\" is not db_bench"),
    ] {
        refused(&["init", "--from-db-bench", command], &format!("--from-db-bench: {message}"));
    }
    refused(
        &["init", "--from-db-bench", "db_bench --benchmark=fillseq --num=1M"],
        "--from-db-bench has 2 errors:\n  --benchmark=fillseq: did you mean --benchmarks=fillseq?\n  --num=1M: not a",
    );
}

#[test]
fn a_file_that_is_there_stays_as_it_is() {
    let folder = TempDir::new().unwrap();
    let (mine, dangling) = (folder.path().join("mine.yaml"), folder.path().join("link.yaml"));
    fs::write(&mine, "precious").unwrap();
    symlink("/nowhere/else.yaml", &dangling).unwrap();
    let options = path(&databases().join("v5.14/OPTIONS-000005"));
    let database = path(&databases().join("v8.10"));
    for file in [&mine, &dangling] {
        for arguments in [["init", "--from-options", &options].as_slice(), &["import", &database], &["init"]] {
            let output = assay(&[arguments, &[&path(file)]].concat());
            assert_eq!(output.status.code(), Some(1));
            assert_eq!(stderr(&output), format!("assay: {} exists: give the path of a new file\n", file.display()));
        }
    }
    assert_eq!(fs::read_to_string(&mine).unwrap(), "precious");
    // By default the file is experiment.yaml.
    let run = || {
        command(&["init", "--from-options", &options]).current_dir(folder.path()).env("ASSAY_BENCH", "/none").output()
    };
    let output = run().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(fs::read_to_string(folder.path().join("experiment.yaml")).unwrap().contains("name: experiment"));
    assert_eq!(run().unwrap().status.code(), Some(1));
}

#[test]
fn without_a_terminal_it_says_which_flags_to_use() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("mine.yaml");
    let output = command(&["init", &path(&file)]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("use --from-options FILE or --from-db-bench \"COMMAND\""), "{}", stderr(&output));
    assert!(!file.exists());
}

/// A bench that answers a question that has a word in it.
fn bench(folder: &Path, word: &str, answer: &str) -> String {
    let bench = folder.join("bench.sh");
    let none = r#"{"problems": [], "inert": [], "sanitised": [], "allInert": []}"#;
    let script = format!("#!/bin/sh\ncase $(cat) in\n*{word}*) echo '{answer}' ;;\n*) echo '{none}' ;;\nesac\n");
    fs::write(&bench, script).unwrap();
    fs::set_permissions(&bench, fs::Permissions::from_mode(0o755)).unwrap();
    path(&bench)
}

#[test]
fn what_rocksdb_rejects_is_left_out() {
    let folder = TempDir::new().unwrap();
    let answer = r#"{"problems": [{"config": "current", "scope": "blocks", "option": "prefix_extractor", "message": "no such thing"},
        {"config": "candidate", "scope": "blocks", "option": "prefix_extractor", "message": "no such thing"}],
        "inert": [], "sanitised": [], "allInert": []}"#;
    let bench = bench(folder.path(), "rocksdb.FixedPrefix.8", answer);
    let file = folder.path().join("mine.yaml");
    let options = path(&databases().join("v8.10/OPTIONS-000123"));
    let output =
        command(&["init", "--from-options", &options, &path(&file)]).env("ASSAY_BENCH", bench).output().unwrap();
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let line = "rejected by RocksDB: no such thing: prefix_extractor=rocksdb.FixedPrefix.8 (blocks)";
    assert!(stdout(&output).contains(line), "{}", stdout(&output));
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("        prefix_extractor:"), "{text}");
    assert!(text.contains("# - rejected by RocksDB"), "{text}");
}

#[test]
fn what_rocksdb_can_not_open_is_not_written() {
    let folder = TempDir::new().unwrap();
    let answer = r#"{"problems": [{"config": "current", "scope": "", "option": "", "message": "can not be opened"}],
        "inert": [], "sanitised": [], "allInert": []}"#;
    let bench = bench(folder.path(), "write_buffer_size", answer);
    let file = folder.path().join("mine.yaml");
    let options = path(&databases().join("v5.14/OPTIONS-000005"));
    let output =
        command(&["init", "--from-options", &options, &path(&file)]).env("ASSAY_BENCH", bench).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("can not be opened"), "{}", stdout(&output));
    assert!(
        stderr(&output).contains("mine.yaml was not written: what it would say has 1 error"),
        "{}",
        stderr(&output)
    );
    assert!(!file.exists());
}

#[test]
fn without_a_bench_options_are_checked_later() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("mine.yaml");
    let options = path(&databases().join("v5.14/OPTIONS-000005"));
    let output =
        command(&["init", "--from-options", &options, &path(&file)]).env("ASSAY_BENCH", "/none").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("note: options not checked; `assay validate` will check them (no bench at /none"),
        "{}",
        stdout(&output)
    );
    assert!(file.exists());
}

/// A copy of a database's folder, with two SST files of 8 KB each.
fn live_database() -> TempDir {
    let folder = TempDir::new().unwrap();
    for name in ["OPTIONS-000123", "LOG"] {
        fs::copy(databases().join("v8.10").join(name), folder.path().join(name)).unwrap();
    }
    for (name, text) in [
        ("CURRENT", "MANIFEST-000120\n"),
        ("LOCK", ""),
        ("OPTIONS-000119", "older"),
        ("OPTIONS-000124.dbtmp", "[Version"),
        ("OPTIONS-x", "no number"),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    for name in ["000011.sst", "000012.sst"] {
        fs::write(folder.path().join(name), vec![1; 8000]).unwrap();
    }
    folder
}

/// Names, lengths and times of all files.
fn state(folder: &Path) -> Vec<(String, u64, std::time::SystemTime)> {
    let files = fs::read_dir(folder).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        (entry.file_name().to_string_lossy().into_owned(), metadata.len(), metadata.modified().unwrap())
    });
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
}

#[test]
fn a_database_is_imported_and_left_alone() {
    let (database, folder) = (live_database(), TempDir::new().unwrap());
    let before = state(database.path());
    let file = folder.path().join("mine.yaml");
    let output = assay(&["import", &path(database.path()), &path(&file)]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert_eq!(state(database.path()), before);
    let said = stdout(&output).replace(&path(database.path()), "DIR").replace(&path(&file), "mine.yaml");
    // Which memory is enough for a page cache is the machine's affair.
    let lines: Vec<&str> = said.lines().filter(|line| !line.contains("Page cache: ")).collect();
    golden_at(&package().join("tests/adopt/import.out"), &(lines.join("\n") + "\n"));
    let text = fs::read_to_string(&file).unwrap();
    for line in [
        "keys: 124\n",
        "keyBytes: 24\n",
        "valueBytes: {fixed: 215}\n",
        "blockCache: {size: 8Gi}\n",
        "families: [default, blocks]\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    let validated = assay(&["validate", &path(&file)]);
    assert!(validated.status.success(), "{}", stdout(&validated));
}

#[test]
fn a_folder_without_a_log_has_placeholders() {
    let (database, folder) = (live_database(), TempDir::new().unwrap());
    fs::remove_file(database.path().join("LOG")).unwrap();
    let file = path(&folder.path().join("mine.yaml"));
    let output = assay(&["import", &path(database.path()), &file]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("RocksDB 8.10.0 (OPTIONS-000123, no LOG)"), "{}", stdout(&output));
    assert!(
        stdout(&output).contains("there is no LOG, so sizes of keys and values are placeholders"),
        "{}",
        stdout(&output)
    );
    assert!(fs::read_to_string(&file).unwrap().contains("keys: 1000000\n"));
}

#[test]
fn what_is_no_database() {
    let folder = TempDir::new().unwrap();
    let shown = path(folder.path());
    refused(&["import", &shown], &format!("{shown} has no OPTIONS file: is it the folder of a RocksDB database?"));
    refused(&["import", "/nowhere"], "can't read /nowhere: No such file");
    let file = path(&databases().join("v5.14/OPTIONS-000005"));
    refused(&["import", &file], &format!("{file} is not a folder; for a single OPTIONS file use `assay init"));
    fs::write(folder.path().join("OPTIONS-000007"), "[Version]\n").unwrap();
    let options = path(&folder.path().join("OPTIONS-000007"));
    refused(&["import", &shown], &format!("{options}: has no rocksdb_version in a section [Version]"));
}
