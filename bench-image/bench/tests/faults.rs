//! Faults of the machine and of the engine, on the real RocksDB: who is blamed, and what is said. What is refused or lost is tried
//! again, a failure is not: `Exit` has the rule, and executors follow it.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::{
    fs::{self, File},
    os::unix::{fs::FileExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use assay_protocol::{
    Exit, FailureKind, KeyOrder, KeyValue, Outcome, Preload, Role, TrialRecord, TrialSpec, ValueBytes, Workload,
    WriteOptions, invocation,
};
use support::{
    Bench, Ran, entries, gets,
    hostile::{after, mounted},
    options, puts, role, spec, workload,
};

/// What befalls the folder of a database.
type Damage = fn(&Path);

/// Reads every key of a small dataset.
fn reads() -> TrialSpec {
    let reader = Role { key_order: KeyOrder::Sequential, warmup_steps: 0, ..role("reader", 2_000, gets()) };
    spec(KeyValue { keys: 2_000, ..workload(vec![reader]) })
}

/// Writes at this pace, or as fast as it can, into an empty database that packs nothing. It ends by a fault.
fn writes(steps_per_second: Option<u64>, declared: &[(&str, &str)]) -> TrialSpec {
    let writer = Role { steps_per_second, warmup_steps: 0, ..role("writer", 1_000_000_000, puts()) };
    let mut spec = spec(KeyValue { preload: Preload::Empty, ..workload(vec![writer]) });
    spec.config = options(&[&[("compression", "kNoCompression"), ("write_buffer_size", "1M")], declared].concat());
    spec
}

fn without_wal(mut spec: TrialSpec) -> TrialSpec {
    spec.config.write_options = WriteOptions { sync: false, disable_wal: true };
    spec
}

fn of_db(mut spec: TrialSpec, name: &str, value: &str) -> TrialSpec {
    spec.config.db_options.insert(name.to_owned(), value.to_owned());
    spec
}

/// The command for a trial.
fn trial(bench: &Bench, spec: &TrialSpec) -> Command {
    bench.command(&serde_json::to_vec(spec).unwrap())
}

fn run(bench: &Bench, mut command: Command) -> Ran {
    let _ = fs::remove_file(bench.record_path());
    let output = command.output().unwrap();
    Ran { output, record_json: fs::read(bench.record_path()).ok() }
}

/// The machine was at fault: no record, another try, and a last line that says why.
fn refused(ran: &Ran, says: &[&str]) {
    assert_eq!(ran.code(), Some(Exit::EnvironmentRefused as i32), "{}", ran.stderr());
    assert!(ran.record_json.is_none());
    says_why(ran, "environment not usable: ", says);
}

/// The machine was at fault while the workload ran: an attempt without a record, which executors count as lost.
fn lost(ran: &Ran, says: &[&str]) {
    assert_eq!((ran.code(), Exit::from_code(1)), (Some(1), None), "{}", ran.stderr());
    assert!(!Exit::is_fault(1) && ran.record_json.is_none());
    says_why(ran, "the machine failed while the workload ran: ", says);
}

fn says_why(ran: &Ran, begins: &str, says: &[&str]) {
    let stderr = ran.stderr();
    let last = stderr.lines().last().unwrap_or_default();
    assert!(last.strip_prefix("assay-bench: ").is_some_and(|said| said.starts_with(begins)), "{stderr}");
    for words in says {
        assert!(last.contains(words), "{last:?} does not say {words:?}");
    }
}

/// The config was at fault: a record without measurements says how.
fn failed(ran: &Ran, expected: FailureKind, says: &str) {
    assert_eq!(ran.code(), Some(Exit::ConfigFailed as i32), "{}", ran.stderr());
    let TrialRecord { outcome: Outcome::Failed { kind, message }, metrics, .. } = ran.record() else {
        panic!("it has not failed")
    };
    assert_eq!((kind, metrics.len()), (expected, 0), "{message}");
    assert!(message.contains(says), "{message:?} does not say {says:?}");
}

/// The file of a folder with this in its name.
fn file(dir: &Path, part: &str) -> PathBuf {
    entries(dir).into_iter().find(|path| path.file_name().unwrap().to_str().unwrap().contains(part)).unwrap()
}

/// Changes a file where it is, so that all links to it see it.
fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Flips bits of one byte, while others may be reading.
fn flip(path: &Path) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let (mut byte, place) = ([0], file.metadata().unwrap().len() / 3);
    file.read_exact_at(&mut byte, place).unwrap();
    file.write_all_at(&[byte[0] ^ 0x55], place).unwrap();
}

fn dataset(bench: &Bench) -> PathBuf {
    let [dataset] = &entries(&bench.data().join("datasets"))[..] else { panic!("not one dataset") };
    dataset.join("db")
}

#[test]
fn a_damaged_dataset_is_not_held_against_the_config_and_is_made_again() {
    let bench = Bench::new();
    let spec = reads();
    let sound = bench.record(&spec);
    let damages: [(&str, Damage); 6] = [
        ("block checksum mismatch", |db| flip(&file(db, ".sst"))),
        ("magic number", |db| change(&file(db, ".sst"), |bytes| *bytes.last_mut().unwrap() ^= 1)),
        ("size mismatch", |db| change(&file(db, ".sst"), |bytes| bytes.truncate(bytes.len() - 100))),
        ("No such file or directory", |db| fs::remove_file(file(db, ".sst")).unwrap()),
        ("checksum mismatch", |db| flip(&file(db, "MANIFEST"))),
        ("CURRENT", |db| fs::write(db.join("CURRENT"), "rubbish").unwrap()),
    ];
    for (says, damage) in damages {
        damage(&dataset(&bench));
        refused(&bench.run(&spec), &["the dataset is damaged; it was removed", "Check the disk", "Corruption", says]);
        assert!(!bench.data().join("check").exists());
        let again = bench.record(&spec);
        assert_eq!((again.dataset, again.work), (sound.dataset.clone(), sound.work.clone()));
    }
    // Without these RocksDB would begin with an empty database.
    fs::remove_file(dataset(&bench).join("CURRENT")).unwrap();
    fs::remove_file(file(&dataset(&bench), ".log")).unwrap();
    assert_eq!(bench.record(&spec).work, sound.work);
    // The WAL was flushed before, so nothing reads it.
    fs::write(file(&dataset(&bench), ".log"), [7; 5_000]).unwrap();
    assert_eq!(bench.record(&of_db(spec, "wal_recovery_mode", "kAbsoluteConsistency")).work, sound.work);
}

/// Files that the trial wrote itself are broken under it, as by a compaction filter or a codec that is.
#[test]
fn corruption_beside_a_sound_dataset_is_the_configs_failure() {
    let bench = Bench::new();
    let small = [("write_buffer_size", "64K"), ("level0_file_num_compaction_trigger", "16")];
    let spec = writes(Some(3_000), &small);
    let mut child = trial(&bench, &spec).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let dir = invocation::trial_dir(&bench.data(), &spec.trial);
    // The compaction of the first ones reads them.
    let mut flipped = Vec::new();
    while child.try_wait().unwrap().is_none() {
        for path in fs::read_dir(&dir).into_iter().flatten().map(|entry| entry.unwrap().path()) {
            let is_whole = fs::metadata(&path).is_ok_and(|metadata| metadata.len() > 40_000);
            let is_table = path.extension().is_some_and(|extension| extension == "sst");
            if is_table && is_whole && flipped.len() < 3 && !flipped.contains(&path) {
                flip(&path);
                flipped.push(path);
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    let ran = Ran { output: child.wait_with_output().unwrap(), record_json: fs::read(bench.record_path()).ok() };
    failed(&ran, FailureKind::Corruption, "block checksum mismatch");
    assert_eq!(entries(&bench.data().join("datasets")).len(), 1, "a sound dataset stays");
}

#[test]
fn a_read_only_disk_is_not_held_against_the_config() {
    let bench = Bench::new();
    bench.record(&reads());
    let read_only = |folder: &Path, spec: &TrialSpec| {
        let folder = folder.display();
        let script = format!("mount --bind {folder} {folder}; mount -o remount,bind,ro {folder}");
        run(&bench, mounted(&script, &trial(&bench, spec)))
    };
    refused(&read_only(&bench.data(), &reads()), &["Read-only file system", "data"]);
    // Where only RocksDB writes.
    let wal = bench.dir.path().join("wal");
    fs::create_dir(&wal).unwrap();
    let elsewhere = of_db(reads(), "wal_dir", wal.to_str().unwrap());
    refused(&read_only(&wal, &elsewhere), &["RocksDB can't open", "IO error", "Read-only file system"]);
}

#[test]
fn a_full_disk_is_not_held_against_the_config() {
    let on_a_disk_of = |size: &str, spec: &TrialSpec| {
        let bench = Bench::new();
        fs::create_dir_all(bench.data()).unwrap();
        let script = format!("mount -t tmpfs -o size={size} none {}", bench.data().display());
        run(&bench, mounted(&script, &trial(&bench, spec)))
    };
    let full = ["the disk is full", "No space left on device"];
    refused(&on_a_disk_of("100k", &reads()), &[&full[..], &["can't prepare the dataset"]].concat());
    // Written to the WAL, by a flush, and by a compaction, which no call is told of.
    refused(&on_a_disk_of("8m", &writes(None, &[("write_buffer_size", "64M")])), &[&full[..], &[".log"]].concat());
    let no_compactions = without_wal(writes(None, &[("disable_auto_compactions", "true")]));
    refused(&on_a_disk_of("8m", &no_compactions), &[&full[..], &[".sst"]].concat());
    let mut few = without_wal(writes(None, &[]));
    let Workload::KeyValue(KeyValue { roles, .. }) = &mut few.workload else { panic!("another workload") };
    roles[0].steps = Some(12_000);
    refused(&on_a_disk_of("8m", &few), &full);
    // But for a database that outgrew what it may have.
    let mut large = writes(None, &[]);
    large.max_disk_bytes = 2 << 20;
    failed(&on_a_disk_of("32m", &large), FailureKind::DiskQuota, "its limit is 2097152");
}

#[test]
fn a_limit_on_the_size_of_files_is_not_held_against_the_config() {
    let bench = Bench::new();
    // Blocks of 512 bytes: less than what a compaction writes.
    let ran = run(&bench, after("ulimit -f 6000", &trial(&bench, &writes(None, &[]))));
    let signal = ran.output.status.signal().unwrap();
    assert!(signal == 25 && !Exit::is_fault(128 + signal), "SIGXFSZ comes from outside, not {signal}");
    assert!(ran.record_json.is_none());

    let told = |spec: &TrialSpec| run(&bench, after("trap '' XFSZ; ulimit -f 6000", &trial(&bench, spec)));
    lost(&told(&writes(None, &[])), &["IO error", "File too large"]);
    // RocksDB tells no call, and tries again for ever.
    let mut patient = of_db(writes(Some(10_000), &[]), "paranoid_checks", "false");
    patient.deadline_seconds = 60;
    lost(&told(&patient), &["a flush or compaction failed: IO error", "File too large"]);
}

/// Nobody returns from a write that waits for compactions which fail again and again: the deadline ends it.
#[test]
fn a_write_that_never_returns_on_a_broken_machine_is_not_held_against_the_config() {
    let bench = Bench::new();
    bench.record(&reads());
    let stop =
        [("write_buffer_size", "64K"), ("level0_slowdown_writes_trigger", "5"), ("level0_stop_writes_trigger", "6")];
    let mut stuck = of_db(writes(None, &stop), "paranoid_checks", "false");
    stuck.deadline_seconds = 1;
    // More than a flush writes, and less than a compaction.
    lost(&run(&bench, after("trap '' XFSZ; ulimit -f 400", &trial(&bench, &stuck))), &["IO error", "File too large"]);
}

#[test]
fn a_limit_on_open_files_is_raised_or_not_held_against_the_config() {
    let bench = Bench::new();
    let reader = role("reader", 1_000, gets());
    let mut spec = spec(KeyValue { keys: 60_000, value_bytes: ValueBytes::Fixed(20), ..workload(vec![reader]) });
    let many_files = [
        ("write_buffer_size", "16K"),
        ("disable_auto_compactions", "true"),
        ("level0_slowdown_writes_trigger", "1000"),
        ("level0_stop_writes_trigger", "1000"),
    ];
    spec.dataset.format = options(&many_files);
    let files: u64 = bench.record(&spec).dataset.files_by_level.iter().sum();
    assert!(files > 40, "{files}");
    let ran = run(&bench, after("ulimit -S -n 40", &trial(&bench, &spec)));
    assert_eq!(ran.code(), Some(Exit::Completed as i32), "{}", ran.stderr());
    refused(&run(&bench, after("ulimit -n 40", &trial(&bench, &spec))), &["IO error", "Too many open files"]);
}

/// In a pod the kernel kills what takes too much. Where memory is refused instead, RocksDB throws, and that ends the bench.
/// It may be gone before the bench sees who it was, or there may be a script between the two. Its end of the pipe is closed in any case.
#[test]
fn a_trial_whose_runner_is_gone_ends() {
    let bench = Bench::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = trial(&bench, &writes(Some(100), &[])).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    // Without this it ends by its deadline, as a failure of the config.
    let ran = Ran { output: child.wait_with_output().unwrap(), record_json: fs::read(bench.record_path()).ok() };
    assert_eq!(ran.code(), Some(Exit::EnvironmentRefused as i32), "{}", ran.stderr());
    assert!(ran.stderr().contains("the process that started this trial is gone") && ran.record_json.is_none());
}

#[test]
fn memory_that_is_refused_is_the_configs_failure() {
    let bench = Bench::new();
    let limited = |spec: &TrialSpec| run(&bench, after("ulimit -v 2000000", &trial(&bench, spec)));
    assert_eq!(limited(&reads()).code(), Some(Exit::Completed as i32));
    let ran = limited(&writes(None, &[("write_buffer_size", "16G"), ("arena_block_size", "8G")]));
    let signal = ran.output.status.signal().unwrap();
    assert!(Exit::is_fault(128 + signal), "{signal}: {}", ran.stderr());
    assert!(ran.record_json.is_none());
}
