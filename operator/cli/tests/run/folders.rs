//! What a folder can hold, and who may use it.

use std::fs;
use std::path::PathBuf;

use nix::fcntl::posix_fallocate;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::Value;

use crate::lab::{BLOCKS, EXPERIMENT, Lab, Ran, fake_bench};
use crate::trace::processes;

#[test]
fn an_interrupted_run_goes_on_and_ends_the_same() {
    let whole = Lab::new();
    whole.run("").succeeded();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let mut lab = Lab::new();
        // The same experiment at the same time: only the interruption differs.
        lab.epoch = whole.epoch;
        let child = lab.hanging("fill-b003-candidate-r0-a0");
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        let ran = Ran(child.wait_with_output().unwrap());
        let kept = lab.records();
        assert!((6..8).contains(&kept), "{kept} records after {signal}");
        if signal != Signal::SIGKILL {
            assert_eq!(ran.code(), 130, "{}", ran.stderr());
            assert!(ran.stderr().contains("interrupted; finished trials are kept"), "{}", ran.stderr());
            assert_eq!(lab.report()["configs"][0]["reason"], "Incomplete");
            assert_eq!(lab.report()["progress"]["trialsValid"], kept);
        }
        let again = lab.run("");
        again.succeeded();
        assert_eq!(lab.report_bytes(), whole.report_bytes(), "after {signal}");
        let lines = again.stderr().lines().filter(|line| line.contains(" done: ")).count();
        assert_eq!(lines, 2 * BLOCKS - kept, "finished trials are not run again");
    }
}

#[test]
fn readers_that_have_gone_end_no_run() {
    let lab = Lab::new();
    let trial = "fill-b003-candidate-r0-a0";
    let mut child = lab.hanging_as(&mut lab.command_without_readers(&format!("slow={trial}")), trial);
    let kept = lab.records();
    assert!(kept >= 6, "{kept} records: every trial has a line of its own");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(lab.report()["progress"]["trialsValid"], kept);
    assert_eq!(lab.command_without_readers("").status().unwrap().code(), Some(0));
    assert_eq!(lab.records(), 2 * BLOCKS);
    assert!(!lab.out().join("work").exists(), "databases are removed");
}

/// A pipe gives what is in it once.
#[test]
fn what_was_read_from_a_pipe_is_kept() {
    let lab = Lab::new();
    let pipe = lab.dir.path().join("experiment.yaml");
    fs::remove_file(&pipe).unwrap();
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let writer = std::thread::spawn(move || fs::write(pipe, EXPERIMENT).unwrap());
    lab.run("").succeeded();
    writer.join().unwrap();
    assert_eq!(fs::read_to_string(lab.out().join("experiment.yaml")).unwrap(), EXPERIMENT);
}

/// The databases of an interrupted run will be used or removed: they don't stand in the way of their own experiment.
#[test]
fn what_a_run_has_filled_is_free_for_it() {
    // Trials may take 1 GiB, and three times what they write.
    const LEAST: u64 = 1 << 30;
    const LEFT: u64 = 256 << 20;
    let fill = |dir: PathBuf| {
        fs::create_dir_all(&dir).unwrap();
        let file = fs::File::create(dir.join("000007.sst")).unwrap();
        posix_fallocate(file, 0, LEFT.cast_signed()).unwrap();
    };
    // The disk is not ours alone: where others filled or freed some of it meanwhile, that decided, and it is tried again.
    for _ in 0..20 {
        let lab = Lab::new();
        let free = || {
            let stat = nix::sys::statvfs::statvfs(lab.dir.path()).unwrap();
            stat.blocks_available() as u64 * stat.fragment_size() as u64
        };
        let before = free();
        assert!(before > LEAST + LEFT, "{} has {before} bytes free, and the test needs more", lab.dir.path().display());
        let steps = (before - LEFT / 2 - LEAST) / 3 / ((1 << 20) + 100);
        let large =
            EXPERIMENT.replace("{fixed: 10}", "{fixed: 1048576}").replace("steps: 100", &format!("steps: {steps}"));
        fs::write(lab.dir.path().join("experiment.yaml"), large).unwrap();

        let others = lab.dir.path().join("others");
        fill(others.clone());
        let beside_others = lab.run("");
        let is_begun = lab.out().exists();
        fs::remove_dir_all(others).unwrap();
        fill(lab.out().join("work/trials/fill-b000-base-r0-a0"));
        let own = lab.run("");
        if free().abs_diff(before) < LEFT / 4 {
            beside_others.refused("spec.scenarios[0].workload: the experiment needs ");
            assert!(!is_begun);
            own.succeeded();
            return;
        }
    }
    panic!("others fill and free the disk all the time");
}

#[test]
fn an_orphan_of_a_killed_run_is_ended() {
    let lab = Lab::new();
    let mut child = lab.hanging("fill-b000-base-r0-a0");
    let orphans = processes(&lab);
    let orphan = *orphans.first().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(kill(Pid::from_raw(orphan), None).is_ok(), "the fake does not look after its parent");
    lab.run("").succeeded();
    let state = fs::read_to_string(format!("/proc/{orphan}/stat")).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
}

#[test]
fn two_runs_do_not_share_a_folder() {
    let lab = Lab::new();
    let mut first = lab.hanging("fill-b000-candidate-r0-a0");
    let second = lab.run("");
    second.refused(&format!("is in use by assay run, process {}", first.id()));
    kill(Pid::from_raw(first.id().cast_signed()), Signal::SIGINT).unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(130));
    lab.run("").succeeded();
}

#[test]
fn a_corrupted_record_is_set_aside_and_run_again() {
    let lab = Lab::new();
    lab.run("").succeeded();
    let before = lab.report_bytes();
    let torn = lab.trial("fill-b001-base-r0-a0");
    let record = fs::read(torn.join("record.json")).unwrap();
    fs::write(torn.join("record.json"), &record[..record.len() / 2]).unwrap();
    // Valid JSON, but no longer what its summary was made of.
    let edited = lab.trial("fill-b002-candidate-r0-a0").join("record.json");
    let text = fs::read_to_string(&edited).unwrap().replace("\"windowSeconds\":0.", "\"windowSeconds\":9.");
    fs::write(&edited, text).unwrap();
    let ran = lab.run("");
    ran.succeeded();
    assert!(ran.stderr().contains("fill-b001-base-r0-a0/record.json is corrupted"), "{}", ran.stderr());
    assert!(ran.stderr().contains("fill-b002-candidate-r0-a0/record.json does not match its summary"));
    assert!(
        lab.trial("fill-b001-base-r0-a0.corrupt").exists() && lab.trial("fill-b002-candidate-r0-a0.corrupt").exists()
    );
    assert_eq!(lab.report_bytes(), before, "the trials were run again");
}

#[test]
fn a_foreign_record_is_named_and_left_alone() {
    let lab = Lab::new();
    lab.run("").succeeded();
    let path = lab.trial("fill-b001-base-r0-a0").join("record.json");
    let plan = lab.report()["plan"].as_str().unwrap().to_owned();
    let foreign = fs::read_to_string(&path).unwrap().replace(&plan, &"0".repeat(32));
    fs::write(&path, &foreign).unwrap();
    lab.run("").refused("fill-b001-base-r0-a0/record.json belongs to another experiment");
    assert_eq!(fs::read_to_string(&path).unwrap(), foreign);
}

#[test]
fn a_record_of_another_version_is_not_called_broken() {
    let lab = Lab::new();
    lab.run("").succeeded();
    let path = lab.trial("fill-b001-base-r0-a0").join("record.json");
    let newer = fs::read_to_string(&path).unwrap().replacen("\"version\":1", "\"version\":99", 1);
    fs::write(&path, newer).unwrap();
    lab.run("").refused("version 99 is unknown");
    assert!(path.exists());
}

#[test]
fn a_changed_experiment_needs_another_folder() {
    let lab = Lab::new();
    lab.run("").succeeded();
    let before = lab.report_bytes();
    fs::write(lab.dir.path().join("experiment.yaml"), EXPERIMENT.replace("seed: 7", "seed: 8")).unwrap();
    lab.run("").refused("holds another plan");
    assert_eq!(lab.report_bytes(), before);
    // Another comment is no other experiment.
    fs::write(lab.dir.path().join("experiment.yaml"), format!("# a comment\n{EXPERIMENT}")).unwrap();
    lab.run("").succeeded();
}

#[test]
fn a_folder_of_other_files_is_refused_and_left_alone() {
    let lab = Lab::new();
    fs::create_dir(lab.out()).unwrap();
    fs::write(lab.out().join("thesis.tex"), "precious").unwrap();
    lab.run("").refused("out holds other files, such as thesis.tex, and no results of Assay: use a new or an empty");
    assert_eq!(fs::read_dir(lab.out()).unwrap().count(), 1);
    fs::remove_file(lab.out().join("thesis.tex")).unwrap();
    lab.run("").succeeded();
    // Notes beside results stand in nobody's way.
    fs::write(lab.out().join("notes.txt"), "").unwrap();
    lab.run("").succeeded();
}

/// A bench that does the same and is another program.
fn another_bench(lab: &Lab) -> PathBuf {
    let other = lab.dir.path().join("other-bench");
    let mut bytes = fs::read(fake_bench()).unwrap();
    bytes.push(0);
    fs::write(&other, bytes).unwrap();
    let mut permissions = fs::metadata(&other).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    fs::set_permissions(&other, permissions).unwrap();
    other
}

/// All configs that get their image from a value run the program that is passed for it.
#[test]
fn the_program_of_a_value_runs_its_configs() {
    let lab = Lab::new();
    let candidate = "  - {name: candidate, dbOptions: {max_background_jobs: '4'}}\n";
    let matrix = "  matrix:
    axes:
    - name: jobs
      values: [{dbOptions: {max_background_jobs: 4}}, {dbOptions: {max_background_jobs: 8}}]
    - name: build
      values: [{name: own}, {name: patched, image: 'bench:patched'}]
";
    assert!(EXPERIMENT.contains(candidate));
    let file = EXPERIMENT.replace(candidate, matrix).replace("repetitions: 6", "repetitions: 8");
    fs::write(lab.dir.path().join("experiment.yaml"), file).unwrap();
    lab.run("").refused(
        "config jobs-4-build-patched uses image bench:patched, which can't run here: pass the bench binary to use with \
         --bench jobs-4-build-patched=PATH",
    );
    let with = |names: &[&str]| {
        let mut command = lab.command("");
        for name in names {
            command.arg("--bench").arg(format!("{name}={}", another_bench(&lab).display()));
        }
        Ran(command.output().unwrap())
    };
    with(&["pathced"]).refused("--bench pathced=PATH: no config \"pathced\" declares an image");
    with(&["own"]).refused("--bench own=PATH: no config \"own\" declares an image");
    let ran = with(&["patched"]);
    assert!(ran.stdout().contains("jobs-8-build-patched"), "{}{}", ran.stdout(), ran.stderr());
    // The baseline has two runs in each block of four others.
    assert_eq!(lab.records(), 8 * (4 + 2));
    let kept: Value = serde_json::from_slice(&fs::read(lab.out().join("bench.json")).unwrap()).unwrap();
    let by_config = kept["byConfig"].as_object().unwrap();
    assert_eq!(by_config.keys().collect::<Vec<_>>(), ["jobs-4-build-patched", "jobs-8-build-patched"]);
    assert!(by_config.values().all(|digest| *digest != kept["default"]));
}

#[test]
fn another_bench_needs_another_folder() {
    let lab = Lab::new();
    lab.run("refuse=fill-b001-base-r0-a0").refused("the environment refused");
    let other = another_bench(&lab);
    let mut command = lab.command("");
    Ran(command.args(["--bench"]).arg(&other).output().unwrap())
        .refused("another build of assay-bench ran the trials in ");
}

#[test]
fn an_unwritable_folder_is_one_clear_message() {
    let lab = Lab::new();
    // Root may write anywhere but below a file.
    fs::write(lab.out(), b"a file").unwrap();
    let ran = lab.run("");
    ran.refused("choose another folder with --out");
    assert_eq!(ran.stderr().lines().filter(|line| line.contains("assay:")).count(), 1, "{}", ran.stderr());
}

#[test]
fn more_cpus_than_there_are_is_refused() {
    let lab = Lab::new();
    fs::write(lab.dir.path().join("experiment.yaml"), EXPERIMENT.replace("cpus: 1", "cpus: 512")).unwrap();
    lab.run("").refused("placement.cpus asks for 512 CPUs");
}
