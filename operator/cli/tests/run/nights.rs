//! `assay sweep run` and `assay sweep history` on one machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::github::GitHub;
use crate::killed::for_each;
use crate::lab::{self, BLOCKS, Ran, fake_bench, now_ms, wait_for};
use crate::trace::{calls_of_a_run, kill_before, places};

const SWEEP: &str = "
apiVersion: assay.rocks/v1alpha1
kind: TuningSweep
metadata: {name: buffers}
spec:
  schedule: SCHEDULE
  reference: {name: base, dbOptions: {max_background_jobs: '2'}}
  subjects:
  - {name: candidate, dbOptions: {max_background_jobs: 'JOBS'}}
  successfulHistoryLimit: 1
  experiment:
    seed: 7
    scenarios:
    - name: fill
      workload:
        keyValue:
          keys: 10
          valueBytes: {fixed: 10}
          roles: [{name: writer, steps: 100, mix: {put: 1}}]
    repetitions: 6
    objectives: [{metric: throughput, margin: 5%}]
    guardrails: []
    placement: {cpus: 1}
";

/// A folder with a sweep whose last night was due two hours ago.
pub struct Lab {
    dir: TempDir,
    epoch: u128,
    bench: PathBuf,
    due: Timestamp,
}

impl Lab {
    pub fn new() -> Self {
        let now = Timestamp::now();
        let minute = Timestamp::from_second(now.as_second() / 60 * 60).unwrap();
        let due = minute - SignedDuration::from_hours(2);
        let lab = Self { dir: TempDir::new().unwrap(), epoch: now_ms(), bench: fake_bench(), due };
        lab.write(4);
        lab
    }

    fn write(&self, jobs: u32) {
        let schedule = self.due.strftime("%M %H * * *").to_string();
        let text = SWEEP.replace("SCHEDULE", &schedule).replace("JOBS", &jobs.to_string());
        fs::write(self.dir.path().join("sweep.yaml"), text).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("out").join(name)
    }

    pub fn command(&self, args: &[&str], faults: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_assay"));
        command
            .current_dir(self.dir.path())
            .args(args)
            .env("ASSAY_BENCH", &self.bench)
            .env("FAKE_BENCH", faults)
            .env("FAKE_BENCH_EPOCH", self.epoch.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn assay(&self, args: &[&str]) -> Ran {
        Ran(self.command(args, "").output().unwrap())
    }

    pub fn run(&self, more: &[&str]) -> Ran {
        self.assay(&[&["sweep", "run", "sweep.yaml", "--history", "out"], more].concat())
    }

    fn history(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path("history.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Results folders of nights.
    fn folders(&self) -> Vec<String> {
        names(&self.path("nights"))
    }

    /// As if the sweep had been here for so many days.
    fn since_days(&self, days: i64) {
        let since = Timestamp::now() - SignedDuration::from_hours(24 * days);
        self.edit("sweep.json", |begun| begun["since"] = json!(since.to_string()));
    }

    fn edit(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut value: Value = serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap();
        change(&mut value);
        fs::write(self.path(name), value.to_string()).unwrap();
    }

    /// Another build of the bench.
    fn other_bench(&self) -> PathBuf {
        let other = self.dir.path().join("other-bench");
        fs::copy(&self.bench, &other).unwrap();
        let mut bytes = fs::read(&other).unwrap();
        bytes.push(0);
        fs::write(&other, bytes).unwrap();
        other
    }

    /// As if an entry of the history were so many hours older. Folders of nights go, since a minute has one.
    fn early(&self, entry: usize, hours: i64) {
        let mut lines = self.history();
        let early = Timestamp::now() - SignedDuration::from_hours(hours);
        lines[entry]["night"] = json!(Timestamp::from_second(early.as_second() / 60 * 60).unwrap().to_string());
        let text: String = lines.iter().map(|line| line.to_string() + "\n").collect();
        fs::write(self.path("history.jsonl"), text).unwrap();
        fs::remove_dir_all(self.path("nights")).unwrap();
    }

    /// Starts a night and interrupts it in a trial.
    fn interrupted(&self, signal: Signal) -> Ran {
        let trial = "fill-b002-base-r0-a0";
        let args = ["sweep", "run", "sweep.yaml", "--history", "out", "--now"];
        let child = self.command(&args, &format!("slow={trial}")).spawn().unwrap();
        wait_for(|| {
            self.folders().first().is_some_and(|night| {
                let night = self.path("nights").join(night);
                night.join("trials").join(trial).join("spec.json").exists()
                    && night.join("work/trials").join(trial).exists()
            })
        });
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        Ran(child.wait_with_output().unwrap())
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn trials(ran: &Ran) -> usize {
    ran.stderr().lines().filter(|line| line.contains(" done: ")).count()
}

fn outcomes(history: &[Value]) -> Vec<String> {
    let word = |night: &Value, field: &str| night[field].as_str().unwrap_or_default().to_owned();
    history
        .iter()
        .map(|night| format!("{} {} {}", word(night, "outcome"), word(night, "trigger"), word(night, "reason")))
        .map(|line| line.trim().to_owned())
        .collect()
}

#[test]
fn nights_are_measured_skipped_and_caught_up() {
    let lab = Lab::new();
    let ran = lab.run(&[]);
    ran.succeeded();
    assert!(ran.stdout().starts_with("next night: "), "{}", ran.stdout());
    assert_eq!(lab.history(), Vec::<Value>::new(), "nights before the first call are nobody's");

    let ran = lab.run(&["--now"]);
    ran.succeeded();
    assert_eq!(trials(&ran), 2 * BLOCKS);
    let history = lab.history();
    assert_eq!(outcomes(&history), ["Measured Manual"]);
    let night = &history[0];
    assert_eq!(night["experiment"], lab.folders()[0].as_str(), "the folder of the night has its name");
    assert!(lab.path("nights").join(&lab.folders()[0]).join("report.html").exists());
    assert!(night["points"][0]["logRatio"].as_f64().unwrap() > 0.2, "{night}");
    assert!(night["subjects"][0]["image"].as_str().unwrap().starts_with("assay-bench@"), "{night}");
    assert!(!lab.path("night.json").exists());
    for report in ["report.html", "report.md", "report.json"] {
        assert!(fs::read_to_string(lab.path(report)).unwrap().contains("candidate"), "{report}");
    }

    // Two were missed, the last one is caught up.
    lab.since_days(2);
    let ran = lab.run(&[]);
    ran.succeeded();
    assert_eq!(outcomes(&lab.history()), ["Gap Schedule Missed", "Measured CatchUp", "Measured Manual"]);
    assert_eq!(lab.history()[1]["night"], lab.due.to_string());
    let newest = [history[0]["experiment"].as_str().unwrap()];
    assert_eq!(lab.folders(), newest, "successfulHistoryLimit is 1");
    assert_eq!(trials(&lab.run(&[])), 0, "it is done");

    // With five nights of history and nothing new, the night is skipped; with something new it is not.
    let measured = lab.history()[1].clone();
    for (jobs, expected) in [(4, "Skipped Schedule Unchanged"), (8, "Measured CatchUp")] {
        let lab = Lab { dir: TempDir::new().unwrap(), bench: lab.bench.clone(), ..lab };
        lab.write(4);
        lab.run(&[]).succeeded();
        let lines = (1..=5).map(|day| {
            let mut night = measured.clone();
            night["night"] = json!((lab.due - SignedDuration::from_hours(24 * day)).to_string());
            night["trigger"] = json!("Schedule");
            night.to_string() + "\n"
        });
        fs::write(lab.dir.path().join("before.jsonl"), lines.collect::<String>()).unwrap();
        lab.assay(&["sweep", "history", "import", "before.jsonl", "--history", "out"]).succeeded();
        lab.since_days(1);
        lab.write(jobs);
        let ran = lab.run(&[]);
        ran.succeeded();
        let history = lab.history();
        assert_eq!(outcomes(&history).last().unwrap(), expected, "{}{}", ran.stdout(), ran.stderr());
        assert_eq!(history.len(), 6);
    }
}

/// A night that is interrupted anywhere goes on, also between its last trial and its place in the history, and is in it once.
#[test]
fn an_interrupted_night_goes_on() {
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let lab = Lab::new();
        let ran = lab.interrupted(signal);
        assert_eq!(ran.code(), if signal == Signal::SIGINT { 130 } else { -1 }, "{}", ran.stderr());
        let (night, active) = (lab.folders(), fs::read(lab.path("night.json")).unwrap());
        assert_eq!(lab.history(), Vec::<Value>::new());
        let shown = lab.assay(&["sweep", "history", "--history", "out"]).stdout();
        assert!(shown.contains(" has begun and is not over: `assay sweep run` continues it"), "{shown}");
        let trials_of_night = lab.path("nights").join(&night[0]).join("trials");
        let done = names(&trials_of_night)
            .iter()
            .filter(|name| trials_of_night.join(name).join("summary.json").exists())
            .count();
        assert!(done >= 4, "{done}");
        // The same command again is the same night, also of another file.
        lab.write(8);
        let ran = lab.run(&["--now"]);
        ran.succeeded();
        let said =
            "sweep.yaml has changed since this night began; the night continues as it began. To drop it, remove ";
        assert!(ran.stderr().contains(said), "{}", ran.stderr());
        lab.write(4);
        assert_eq!(trials(&ran), 2 * BLOCKS - done, "{}", ran.stderr());
        assert_eq!((lab.folders(), lab.history().len()), (night, 1));
        let history = fs::read(lab.path("history.jsonl")).unwrap();

        // Killed before the history had it.
        fs::write(lab.path("night.json"), &active).unwrap();
        fs::remove_file(lab.path("history.jsonl")).unwrap();
        let ran = lab.run(&[]);
        ran.succeeded();
        assert_eq!(trials(&ran), 0);
        assert_eq!(fs::read(lab.path("history.jsonl")).unwrap(), history);

        // Killed after that.
        fs::write(lab.path("night.json"), &active).unwrap();
        lab.run(&[]).succeeded();
        assert_eq!(fs::read(lab.path("history.jsonl")).unwrap(), history);
        assert!(!lab.path("night.json").exists());
    }
}

/// Two nights are due. Killed before anything that is done to the folder, the next call leaves what a single one would have.
#[test]
fn a_sweep_that_is_killed_anywhere_goes_on() {
    let first = Lab::new();
    let again = || {
        let lab = lab::Lab {
            epoch: first.epoch,
            args: &["sweep", "run", "sweep.yaml", "--history", "out"],
            ..lab::Lab::new()
        };
        fs::copy(first.dir.path().join("sweep.yaml"), lab.dir.path().join("sweep.yaml")).unwrap();
        fs::create_dir(lab.out()).unwrap();
        let begun = json!({"sweep": "buffers", "schedule": first.due.strftime("%M %H * * *").to_string(),
            "timeZone": "Etc/UTC", "since": (first.due - SignedDuration::from_hours(36)).to_string()});
        fs::write(lab.out().join("sweep.json"), begun.to_string()).unwrap();
        lab
    };
    let whole = again();
    let calls = calls_of_a_run(&whole);
    let kept = |lab: &lab::Lab| {
        let files = names(&lab.out()).into_iter().filter(|name| !["lock", "nights"].contains(&name.as_str()));
        files.map(|name| (fs::read_to_string(lab.out().join(&name)).unwrap(), name)).collect::<Vec<_>>()
    };
    assert_eq!(names(&whole.out().join("nights")).len(), 1);
    // What a night does to its own folder is that of any run.
    let own = |path: &String| path.starts_with("out/") && !path.starts_with("out/nights/buffers-");
    let places: Vec<_> = places(&calls).into_iter().filter(|call| call.paths.iter().any(own)).collect();
    for needed in ["history", "sweep", "night", "report"] {
        let is_renamed = |site: &str| site.starts_with("rename") && site.contains(&format!("out/{needed}.partial"));
        assert!(places.iter().any(|call| is_renamed(&call.site())), "{needed} is a place in {places:#?}");
    }
    for_each(&places, |call| {
        let lab = again();
        kill_before(&lab, call, "");
        let ran = lab.run("");
        ran.succeeded();
        let after = format!("a kill before {} number {}", call.site(), call.number);
        for (kept, expected) in kept(&lab).into_iter().zip(kept(&whole)) {
            assert_eq!(kept, expected, "after {after}");
        }
        assert_eq!(names(&lab.out()), names(&whole.out()), "nothing else is left, after {after}");
        assert_eq!(names(&lab.out().join("nights")), names(&whole.out().join("nights")), "after {after}");
    });
}

#[test]
fn a_night_whose_bench_was_replaced_is_a_gap() {
    let mut lab = Lab::new();
    lab.interrupted(Signal::SIGINT);
    lab.bench = lab.other_bench();
    // As if that had been an hour ago: a minute has one night at most.
    let night = lab.due + SignedDuration::from_hours(1);
    lab.edit("night.json", |active| active["night"] = json!(night.to_string()));
    fs::remove_dir_all(lab.path("nights")).unwrap();
    let ran = lab.run(&[]);
    ran.succeeded();
    assert_eq!(outcomes(&lab.history()), ["Gap Manual BenchChanged", "Measured Manual"], "it is measured all the same");
}

/// Killed when the history had its night and the folder still said that it runs. By the next night there is another build.
#[test]
fn a_night_that_is_in_the_history_is_over_whatever_its_folder_says() {
    let mut lab = Lab::new();
    lab.interrupted(Signal::SIGINT);
    let active = fs::read(lab.path("night.json")).unwrap();
    lab.run(&["--now"]).succeeded();
    let history = lab.history();
    fs::write(lab.path("night.json"), active).unwrap();
    lab.bench = lab.other_bench();
    let ran = lab.run(&[]);
    ran.succeeded();
    assert_eq!((lab.history(), lab.path("night.json").exists()), (history, false), "{}", ran.stdout());
}

#[test]
fn a_night_without_a_result_is_a_gap_with_its_reason() {
    let lab = Lab::new();
    let of_block =
        |block: usize| (0..3).map(move |attempt| format!("disturbed=fill-b{block:03}-candidate-r0-a{attempt}"));
    let faults: Vec<String> = (0..3 * BLOCKS).flat_map(of_block).collect();
    let args = ["sweep", "run", "sweep.yaml", "--history", "out", "--now"];
    let dedicated = fs::read_to_string(lab.dir.path().join("sweep.yaml")).unwrap();
    let dedicated = dedicated.replace("{cpus: 1}", "{cpus: 1, environment: Dedicated}");
    fs::write(lab.dir.path().join("sweep.yaml"), dedicated).unwrap();
    let ran = Ran(lab.command(&args, &faults.join(",")).output().unwrap());
    assert_eq!(ran.code(), 11, "{}{}", ran.stdout(), ran.stderr());
    assert_eq!(outcomes(&lab.history()), ["Gap Manual InvalidNight"]);
    assert!(ran.stdout().contains("not measured: InvalidNight: no series could be measured: "), "{}", ran.stdout());
}

/// The experiment of a night that had begun may be none for a later version, or for whoever edited it.
#[test]
fn a_night_that_is_no_experiment_any_more_is_given_up_when_the_next_one_is_due() {
    let lab = Lab::new();
    lab.interrupted(Signal::SIGINT);
    lab.edit("night.json", |active| {
        active["night"] = json!((lab.due - SignedDuration::from_hours(1)).to_string());
        active["document"]["spec"]["repetitions"] = json!(0);
    });
    lab.run(&[]).refused("can't run the night of ");
    let ran = lab.run(&[]);
    assert_eq!(ran.code(), 11, "{}", ran.stderr());
    assert_eq!(outcomes(&lab.history()), ["Gap Manual Failed"], "{}", ran.stdout());
    lab.run(&[]).succeeded();
    assert!(lab.history()[0]["message"].as_str().unwrap().contains("repetitions"), "{:?}", lab.history());
}

/// A clock that was ahead when the folder was made silences nothing once it is right.
#[test]
fn a_clock_that_was_ahead_keeps_no_night_from_being_due() {
    let lab = Lab::new();
    lab.run(&[]).succeeded();
    lab.since_days(-3650);
    lab.run(&[]).succeeded();
    let begun: Value = serde_json::from_slice(&fs::read(lab.path("sweep.json")).unwrap()).unwrap();
    let since: Timestamp = begun["since"].as_str().unwrap().parse().unwrap();
    assert!(since <= Timestamp::now(), "{since}");
}

/// A night that can't run waits for whoever fixes the cause, until the next one is due.
#[test]
fn a_night_that_fails_is_given_up_when_the_next_one_is_due() {
    let lab = Lab::new();
    let args = ["sweep", "run", "sweep.yaml", "--history", "out", "--now"];
    let ran = Ran(lab.command(&args, "spec=fill-b000-candidate-r0-a0").output().unwrap());
    ran.refused("no such thing");
    assert_eq!(lab.history(), Vec::<Value>::new());
    // As if that had been a day ago.
    let night = lab.due - SignedDuration::from_hours(1);
    lab.edit("night.json", |active| {
        active["night"] = json!(night.to_string());
        active["runNow"] = json!("yesterday");
    });
    lab.since_days(1);
    let ran = lab.run(&[]);
    ran.succeeded();
    assert_eq!(outcomes(&lab.history()), ["Gap Manual Failed", "Measured CatchUp"]);
    assert!(lab.history()[0]["message"].as_str().unwrap().contains("no such thing"));
}

#[test]
fn a_folder_serves_one_call_and_one_sweep() {
    let lab = Lab::new();
    let trial = "fill-b000-candidate-r0-a0";
    let args = ["sweep", "run", "sweep.yaml", "--history", "out", "--now"];
    let mut child = lab.command(&args, &format!("slow={trial}")).spawn().unwrap();
    wait_for(|| lab.path("night.json").exists());
    lab.run(&["--now"]).refused("out is in use by assay run, process ");
    // The one that runs goes on until nothing is due, so a call of cron has nothing to do, and no error to send.
    let ran = lab.run(&[]);
    ran.succeeded();
    assert!(ran.stderr().contains("nothing to do: ") && ran.stderr().contains("out is in use by"), "{}", ran.stderr());
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    child.wait().unwrap();

    let text = fs::read_to_string(lab.dir.path().join("sweep.yaml")).unwrap();
    fs::write(lab.dir.path().join("sweep.yaml"), text.replace("{name: buffers}", "{name: others}")).unwrap();
    lab.run(&[]).refused("has the history of sweep buffers, not of others: use another --history");
    fs::create_dir(lab.dir.path().join("mine")).unwrap();
    fs::write(lab.dir.path().join("mine/thesis.tex"), "").unwrap();
    lab.assay(&["sweep", "run", "sweep.yaml", "--history", "mine"])
        .refused("mine holds other files, such as thesis.tex, and no history of a sweep");
}

#[test]
fn a_history_moves_from_folder_to_folder_and_nothing_is_lost() {
    let lab = Lab::new();
    lab.run(&["--now"]).succeeded();
    lab.since_days(2);
    lab.run(&[]).succeeded();
    let shown = lab.assay(&["sweep", "history", "--history", "out"]).stdout();
    assert!(shown.contains("Missed: ") && shown.contains("Levels against the reference"), "{shown}");
    let exported = lab.assay(&["sweep", "history", "--history", "out", "--format", "jsonl"]).stdout();
    assert_eq!(exported, fs::read_to_string(lab.path("history.jsonl")).unwrap());
    let page = lab.assay(&["sweep", "history", "--history", "out", "--format", "html"]).stdout();
    assert_eq!(page, fs::read_to_string(lab.path("report.html")).unwrap());
    fs::write(lab.dir.path().join("moved.jsonl"), &exported).unwrap();
    let import = |file: &str| lab.assay(&["sweep", "history", "import", file, "--history", "new"]);
    assert_eq!(import("moved.jsonl").stdout(), "3 nights imported, 0 known already\n");
    assert_eq!(import("moved.jsonl").stdout(), "0 nights imported, 3 known already\n");
    let kept = || fs::read_to_string(lab.dir.path().join("new/history.jsonl")).unwrap();
    assert_eq!(kept(), exported);

    let contradicting = exported.replace("\"Missed\"", "\"Other\"");
    assert_ne!(contradicting, exported);
    fs::write(lab.dir.path().join("other.jsonl"), contradicting).unwrap();
    import("other.jsonl").refused("can't add to new: line 1: night ");
    fs::write(lab.dir.path().join("broken.jsonl"), exported.clone() + "{\"version\": 1, \"sweep\"\n").unwrap();
    import("broken.jsonl").refused("line 4: ");
    fs::write(lab.dir.path().join("none.jsonl"), "experiment,config\n").unwrap();
    import("none.jsonl").refused("none.jsonl: has no nights");
    fs::write(lab.dir.path().join("cut.jsonl"), &exported[..40]).unwrap();
    import("cut.jsonl").refused("cut.jsonl: line 1: EOF while parsing");
    lab.assay(&["sweep", "history"]).refused("name a sweep on a cluster, or a folder with --history");
    assert_eq!(kept(), exported, "all or nothing");
    // The sweep goes on there.
    let ran = lab.assay(&["sweep", "run", "sweep.yaml", "--history", "new"]);
    ran.succeeded();
    assert_eq!(kept(), exported);
    lab.assay(&["sweep", "history", "--history", "nowhere"]).refused("nowhere is not the folder of a sweep");
}

/// Lines of nights that were `days` ago, all like one that was measured, and a little different from each other.
fn lines_like(night: &Value, lab: &Lab, days: impl Iterator<Item = i64>) -> String {
    let line = |day: i64| {
        let mut night = night.clone();
        night["night"] = json!((lab.due - SignedDuration::from_hours(24 * day)).to_string());
        night["trigger"] = json!("Schedule");
        let effect = night["points"][0]["logRatio"].as_f64().unwrap() + 0.002 * ((day % 5) as f64 - 2.0);
        night["points"][0]["logRatio"] = json!(effect);
        night.to_string() + "\n"
    };
    days.map(line).collect()
}

/// Another reference begins another segment. That is told before and after, and can be undone.
#[test]
fn what_is_no_longer_comparable_is_told() {
    let lab = Lab::new();
    let path = lab.dir.path().join("sweep.yaml");
    let first = fs::read_to_string(&path).unwrap();
    let shown = || lab.assay(&["sweep", "history", "--history", "out"]).stdout();
    lab.run(&["--now"]).succeeded();
    lab.early(0, 6);
    // The former reference is a subject of the new one.
    let other = first.replace("jobs: '2'", "jobs: '3'").replace("jobs: '4'", "jobs: '2'");
    fs::write(&path, other).unwrap();
    let plan = lab.assay(&["sweep", "plan", "sweep.yaml", "--history", "out"]).stdout();
    let ran = lab.run(&["--now"]);
    ran.succeeded();
    for said in [plan, ran.stderr()] {
        assert!(said.contains(": a new segment begins for 2 series, and nights before it no longer count"), "{said}");
        assert!(said.contains("candidate is the former reference: a bridge"), "{said}");
    }
    assert!(shown().contains(", new reference\n"), "{}", shown());
    assert!(
        shown().contains("; left out: 1 night measured otherwise; the bridge to them has 1 of 7 nights"),
        "{}",
        shown()
    );
    lab.early(1, 5);
    fs::write(&path, &first).unwrap();
    let ran = lab.run(&["--now"]);
    ran.succeeded();
    assert!(ran.stderr().contains(": for 2 series the segment of earlier nights"), "{}", ran.stderr());
    // With another workload it is no A/A night, though the subject is the same.
    lab.early(2, 4);
    fs::write(&path, first.replace("seed: 7", "seed: 8")).unwrap();
    lab.run(&["--now"]).succeeded();
    assert_eq!(lab.history()[3]["subjects"][0]["unchanged"], Value::Null);
    assert!(shown().contains(", new workload\n"), "{}", shown());
    lab.early(3, 3);
    let ran = lab.run(&["--now"]);
    ran.succeeded();
    assert!(!ran.stderr().contains(" series"), "{}", ran.stderr());
    assert_eq!(lab.history()[4]["subjects"][0]["unchanged"], true);
    assert!(shown().contains(", same programs and options\n"), "{}", shown());
}

/// With more nights a year, more has to speak for a change. What is withdrawn for that is told.
#[test]
fn a_suspicion_does_not_end_unseen() {
    let lab = Lab::new();
    lab.run(&["--now"]).succeeded();
    let night = lab.history().remove(0);
    fs::write(lab.dir.path().join("before.jsonl"), lines_like(&night, &lab, (1..=12).rev())).unwrap();
    lab.assay(&["sweep", "history", "import", "before.jsonl", "--history", "out"]).succeeded();
    let withdrawn = |ran: &Ran| ran.stderr().contains("no longer suspected, because schedule, detect or ");
    let ran = lab.run(&[]);
    assert!(!withdrawn(&ran), "{}", ran.stderr());
    lab.edit("sweep.json", |begun| begun["alarm"] = json!(1e-6));
    let ran = lab.run(&[]);
    assert!(withdrawn(&ran), "{}", ran.stderr());
    assert!(!withdrawn(&lab.run(&[])), "once");
}

/// A suspicion is confirmed by fresh trials of the config before it, of which only the history knows, and of the one of tonight.
#[test]
fn a_change_is_confirmed_by_two_visits_and_can_be_accepted() {
    let measured = |jobs: u32| {
        let lab = Lab::new();
        lab.write(jobs);
        lab.run(&["--now"]).succeeded();
        lab.history().remove(0)
    };
    let lab = Lab::new();
    lab.run(&[]).succeeded();
    let lines = lines_like(&measured(8), &lab, (4..=16).rev()) + &lines_like(&measured(4), &lab, (1..=3).rev());
    fs::write(lab.dir.path().join("before.jsonl"), lines).unwrap();
    lab.assay(&["sweep", "history", "import", "before.jsonl", "--history", "out"]).succeeded();
    lab.since_days(1);
    let ran = lab.run(&[]);
    ran.succeeded();
    let history = lab.history();
    assert_eq!(outcomes(&history)[16..], ["Measured CatchUp", "Visited Confirmation"], "{}", ran.stderr());
    // Whoever reads what cron sends learns of it.
    assert!(ran.stdout().contains("\ncandidate fill throughput: suspected -"), "{}", ran.stdout());
    assert!(ran.stdout().contains(": Confirming "), "{}", ran.stdout());
    let visit = &history[17]["visit"];
    assert_eq!((&visit["subject"], &visit["number"]), (&json!("candidate"), &json!(1)));
    assert!(visit["series"][0]["losses"].as_array().unwrap().len() >= BLOCKS, "{visit}");
    assert!(visit["series"][0]["losses"][0].as_f64().unwrap() > 0.1, "{visit}");
    let shown = |lab: &Lab| lab.assay(&["sweep", "history", "--history", "out"]).stdout();
    assert!(shown(&lab).contains("1 of 2 visits measured"), "{}", shown(&lab));
    let raised: Timestamp = visit["raised"].as_str().unwrap().parse().unwrap();
    let name = format!("candidate-{}", raised.strftime("%Y%m%d-%H%M"));
    let github = GitHub::start();
    let told = || {
        let ran = github.told(&lab, &["--pull-request", "7"]);
        ran.succeeded();
        ran.stdout()
    };
    assert!(
        told().contains(&format!(": pending: confirming 1 change: {name}\ncomment on #7: written\n")),
        "{}",
        told()
    );

    // Too early for the second one.
    lab.run(&[]).succeeded();
    assert_eq!(lab.history().len(), 18);
    lab.early(17, 7);
    let ran = lab.run(&[]);
    ran.succeeded();
    assert_eq!(lab.history().len(), 19, "{}{}", ran.stdout(), ran.stderr());
    assert!(shown(&lab).contains(&format!("{name}: Regressed -")), "{}", shown(&lab));
    assert!(ran.stdout().contains(&format!("{name}: Regressed -")), "{}", ran.stdout());
    for report in ["report.md", "report.html", "report.json"] {
        assert!(fs::read_to_string(lab.path(report)).unwrap().contains("Regressed"), "{report} says so");
    }
    assert!(told().contains(&format!(": failure: 1 change regressed: {name}\ncomment on #7: edited\n")));
    assert!(told().ends_with(" (unchanged)\ncomment on #7: unchanged\n"));
    let row = format!("| `{name}` | `Regressed -");
    assert!(github.comments()[0]["body"].as_str().unwrap().contains(&row), "{:?}", github.comments());

    let ran = lab.assay(&["sweep", "explain", "--history", "out", &name]);
    ran.succeeded();
    for part in [
        "options dbOptions.max_background_jobs \"8\" to \"4\"",
        "throughput (fill): +5",
        "visit 2 at ",
        " for beyond -0.8 %: confirmed",
        "next: find the commit with `assay bisect`",
    ] {
        assert!(ran.stdout().contains(part), "{part}: {}", ran.stdout());
    }
    let ran = lab.assay(&["sweep", "explain", "--history", "out", "candidate-20260101-0000"]);
    assert_eq!(ran.code(), 1);
    assert!(
        ran.stderr().contains(&format!("has no change candidate-20260101-0000: it has {name}")),
        "{}",
        ran.stderr()
    );

    // Accepted with a reason, it is no longer open. What names no change stays without an effect, and says so.
    lab.early(18, 1);
    let path = lab.dir.path().join("sweep.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let accept = |change: &str| format!("  accept: [{{change: {change}, reason: less memory}}]\n  experiment:");
    fs::write(&path, text.replace("  experiment:", &accept("nothing"))).unwrap();
    let ran = lab.run(&[]);
    assert!(ran.stderr().contains("spec.accept[0].change: nothing is no confirmed change"), "{}", ran.stderr());
    fs::write(&path, text.replace("  experiment:", &accept(&name))).unwrap();
    lab.run(&[]).succeeded();
    assert_eq!(outcomes(&lab.history())[19..], ["Accepted Manual"]);
    assert!(shown(&lab).contains("; accepted: less memory"), "{}", shown(&lab));
    assert!(told().contains(": success: no open regression\ncomment on #7: edited\n"));
    let states: Vec<String> = github.statuses().into_iter().map(|(state, _)| state).collect();
    assert_eq!((states, github.comments().len()), (["success", "failure", "pending"].map(str::to_owned).to_vec(), 1));
    lab.run(&[]).succeeded();
    assert_eq!(lab.history().len(), 20, "once");

    // The same from the command line, as long as it is there; what is no change for the worse can't be.
    let accept = |more: &[&str]| lab.assay(&[&["accept", "--history", "out", "--reason", "so be it"], more].concat());
    accept(&[&name, "--expires", "2999-01-01"]).succeeded();
    assert_eq!(lab.history()[20]["accepted"], json!({"change": name, "expires": "2999-01-01T00:00:00Z"}));
    assert!(shown(&lab).contains("; accepted until 2999-01-01: so be it"), "{}", shown(&lab));
    for (more, why) in [
        (vec!["nothing"], "has no change nothing"),
        (vec![name.as_str(), "--expires", "2999-01-01T00:00:00"], "must be a day such as"),
        (vec![name.as_str(), "--expires", "2020-01-01"], "--expires is in the past"),
        (vec![name.as_str(), "--expires", "soon"], "must be a day such as"),
        (vec!["buffers", name.as_str()], "with --history, name the change alone"),
    ] {
        let ran = accept(&more);
        assert!(ran.code() != 0 && ran.stderr().contains(why), "{more:?}: {}", ran.stderr());
    }
    let ran = lab.assay(&["accept", "--history", "out", "--reason", " ", &name]);
    assert!(ran.code() == 1 && ran.stderr().contains("--reason is empty"), "{}", ran.stderr());
    assert_eq!(lab.history().len(), 21);
}
