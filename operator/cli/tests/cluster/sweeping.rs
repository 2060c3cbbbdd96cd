//! `assay sweep` on a cluster.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use assay_api::Config;
use assay_core::sweep::{Night, Object, Ring};
use serde_json::{Value, json};

use crate::lab::Ran;
use crate::server::{NAMESPACE, Server, path};

const DIGEST: &str = "5b2f6d2f8b7f0b9b6a1c8a4f2e9d7c3b1a0f8e6d4c2b0a9f8e7d6c5b4a392817";

fn sweep() -> Value {
    json!({
        "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningSweep",
        "metadata": {"name": "nightly", "namespace": NAMESPACE, "uid": "one", "generation": 1},
        "spec": {
            "schedule": "17 1 * * *", "timeZone": "Europe/Berlin",
            "reference": {"name": "release", "image": format!("r/a@sha256:{DIGEST}")},
            "subjects": [
                {"name": "tonight", "image": format!("r/b@sha256:{DIGEST}"), "revision": "one"},
                {"name": "other", "image": format!("r/c@sha256:{DIGEST}"), "revision": "two"},
            ],
            "experiment": {
                "scenarios": [], "repetitions": 6, "objectives": [{"metric": "throughput", "margin": "5%"}],
            },
        },
        "status": {
            "observedGeneration": 1, "state": "Watching", "level": "-1.2 % throughput (tonight, fill)",
            "nightsMeasured": 12, "series": 4, "consecutiveSkips": 1,
            "lastMeasuredTime": "2026-11-25T00:17:00Z", "nextScheduleTime": "2026-11-27T00:17:00Z",
            "lastSkipped": {"time": "2026-11-26T00:17:00Z", "reason": "Unchanged", "message": "nothing has changed"},
        },
    })
}

/// Lines of a history: nights that measured nothing.
fn lines(minutes: std::ops::Range<u32>, token: &str) -> String {
    let night = |minute: u32| {
        let night: Night = serde_json::from_value(json!({
            "version": 1, "sweep": "nightly", "night": format!("2026-11-26T00:{minute:02}:00Z"), "trigger": "Manual",
            "runNow": token, "outcome": "Gap", "reason": "InvalidNight", "message": "no series could be measured",
        }))
        .unwrap();
        night.line().unwrap() + "\n"
    };
    minutes.map(night).collect()
}

/// The objects that hold these lines.
fn held(lines: &str) -> Vec<Value> {
    let mut ring = Ring::read("nightly", Vec::<Object>::new());
    let (_, change) = ring.import(lines).unwrap();
    let object = |object: Object| json!(ring.stored(object, NAMESPACE, None).unwrap());
    change.write.into_iter().map(object).collect()
}

fn set_up() -> Server {
    let server = Server::start();
    server.put(sweep());
    server
}

fn subjects(server: &Server) -> Vec<Config> {
    subjects_of(&server.get(&path(&sweep())).unwrap())
}

fn subjects_of(sweep: &Value) -> Vec<Config> {
    serde_json::from_value(sweep["spec"]["subjects"].clone()).unwrap()
}

#[test]
fn sweeps_are_shown() {
    let server = set_up();
    for object in held(&lines(1..3, "a")) {
        server.put(object);
    }
    let listed = server.assay(&["sweep", "list"]);
    listed.succeeded();
    assert!(listed.stdout().starts_with("name     state     nights  level"), "{}", listed.stdout());
    assert!(
        listed.stdout().contains("-1.2 % throughput (tonight, fill)  Wed 2026-11-25 01:17 CET"),
        "{}",
        listed.stdout()
    );
    assert!(server.assay(&["sweep", "list", "-A"]).stdout().contains("\nperf "));
    let shown = server.assay(&["sweep", "status", "nightly"]).stdout();
    for expected in [
        "nightly in namespace perf",
        "Watching\n",
        "schedule   17 1 * * * in Europe/Berlin\n",
        "subject    tonight, r/b@sha256:5b2f6d",
        "revision one\n",
        "nights     12 measured\n",
        "without    Thu 2026-11-26 01:17 CET: Unchanged: nothing has changed\n",
        "next       Fri 2026-11-27 01:17 CET\n",
    ] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    let history = server.assay(&["sweep", "history", "nightly"]).stdout();
    assert!(history.contains("2026-11-26 00:02  gap") && history.contains("InvalidNight: no series"), "{history}");
    server.assay(&["sweep", "status", "nigtly"]).refused("no sweep nigtly in namespace perf: `assay sweep list -A`");
    server.assay(&["sweep", "history", "nigtly"]).refused("no sweep nigtly in namespace perf");
    let empty = Server::start();
    assert!(empty.assay(&["sweep", "list"]).stdout().starts_with("No sweeps in namespace perf"));
}

#[test]
fn sweeps_are_paused_and_go_on() {
    let server = set_up();
    let ran = server.assay(&["sweep", "suspend", "nightly"]);
    ran.succeeded();
    assert!(ran.stdout().starts_with("sweep nightly suspended: a running night finishes"), "{}", ran.stdout());
    assert_eq!(server.changes()[0].1, json!({"spec": {"suspend": true}}));
    assert!(server.changes()[0].0.contains("fieldValidation=Strict"), "{}", server.changes()[0].0);
    assert_eq!(server.assay(&["sweep", "resume", "nightly"]).stdout(), "sweep nightly resumed\n");
    assert_eq!(server.changes()[1].1, json!({"spec": {"suspend": false}}));
    server.assay(&["sweep", "suspend", "nigtly"]).refused("no sweep nigtly");
    assert_eq!(server.changes().len(), 2);
}

#[test]
fn images_are_set_by_digest() {
    let server = set_up();
    let image = format!("r/new@sha256:{DIGEST}");
    let set = |args: &[&str]| server.assay(&[&["sweep", "set-image", "nightly"], args].concat());
    let ran = set(&[&format!("tonight={image}"), "--revision", "three"]);
    ran.succeeded();
    assert_eq!(ran.stdout(), format!("sweep nightly: tonight runs {image} from the next night on\n"));
    let mut expected = subjects_of(&sweep());
    (expected[0].image, expected[0].revision) = (Some(image.clone()), Some("three".to_owned()));
    assert_eq!(subjects(&server), expected);

    set(&["tonight=r/new:main"]).refused("r/new:main does not name its digest (@sha256:...)");
    set(&["tonight=r/new@sha256:12"]).refused("does not name its digest");
    set(&[&format!("release={image}")]).refused("release is the reference of sweep nightly");
    set(&[&format!("tonigt={image}")]).refused("sweep nightly has no subject tonigt: it has tonight, other");
    assert_eq!(set(&["tonight"]).code(), 2);
    assert_eq!(subjects(&server), expected, "nothing was changed");
    set(&["tonight=r/new:main", "--allow-tag"]).succeeded();
    assert_eq!(subjects(&server)[0].image.as_deref(), Some("r/new:main"));
    assert_eq!(subjects(&server)[0].revision, None, "that of another image");
}

/// Two jobs of CI at once: neither undoes what the other has set.
#[test]
fn a_sweep_that_someone_else_changes_is_read_again() {
    let server = set_up();
    let image = |subject: &str| format!("{subject}=r/new@sha256:{DIGEST}");
    let conflict =
        json!({"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict", "message": "modified"});
    server.fail("PATCH", 2, 409, &conflict.to_string());
    server.assay(&["sweep", "set-image", "nightly", &image("tonight")]).succeeded();
    let children: Vec<_> = ["tonight", "other"]
        .map(|subject| {
            server.command(&["sweep", "set-image", "nightly", &image(subject), "--revision", subject]).spawn().unwrap()
        })
        .into();
    for child in children {
        Ran(child.wait_with_output().unwrap()).succeeded();
    }
    let revisions: Vec<Option<String>> = subjects(&server).into_iter().map(|subject| subject.revision).collect();
    assert_eq!(revisions, [Some("tonight".to_owned()), Some("other".to_owned())]);
    server.fail("PATCH", 9, 409, &conflict.to_string());
    server.assay(&["sweep", "set-image", "nightly", &image("tonight")]).refused("someone else changed it (modified)");
}

#[test]
fn versions_are_listed_one_by_one_or_all_at_once() {
    let server = set_up();
    let listed = || server.assay(&["sweep", "candidates", "nightly"]).stdout();
    assert_eq!(listed(), "");
    let add = |image: &str, more: &[&str]| {
        server.assay(&[&["sweep", "candidates", "nightly", image][..], more].concat()).stdout()
    };
    assert_eq!(add("r/a:1", &["--revision", "one"]), "sweep nightly: 1 candidate, the newest one r/a:1\n");
    add("r/a:2", &["--revision", "two", "--subject", "tonight", "--weight", "5"]);
    // A build that runs again.
    add("r/a:1b", &["--revision", "one"]);
    let both = "one r/a:1b\ntwo r/a:2 for tonight, weight 5\n";
    assert_eq!(listed(), both);
    // Somebody else adds one at the same time.
    let conflict =
        json!({"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict", "message": "modified"});
    server.fail("PATCH", 2, 409, &conflict.to_string());
    add("r/a:3", &[]);
    assert_eq!(listed(), format!("{both}r/a:3\n"));

    let file = |text: &str| {
        fs::write(server.dir().join("versions.yaml"), text).unwrap();
        server.assay(&["sweep", "candidates", "nightly", "--file", "versions.yaml"])
    };
    let refused = file("- image: r/b:1\n  revison: one\n");
    refused.refused("nothing was done: fix the 1 error above");
    assert!(refused.stderr().contains("versions.yaml:2:3: [0].revison: unknown field"), "{}", refused.stderr());
    assert_eq!(listed().lines().count(), 3);
    file("- {image: r/b:1, revision: one}\n- {image: r/b:2, revision: two}\n").succeeded();
    assert_eq!(listed(), "one r/b:1\ntwo r/b:2\n");
    let without = server.assay(&["sweep", "candidates", "nightly", "--revision", "one"]);
    assert!(without.code() == 2 && without.stderr().contains("<IMAGE>"), "{}", without.stderr());
}

/// The step of the workflow as it is, with what GitHub would put into its environment.
#[test]
fn the_workflow_sets_the_image_that_it_has_built() {
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/github/nightly-image.yml"))
            .unwrap();
    let workflow: Value = serde_yaml::from_str(&text).unwrap();
    let steps = workflow["jobs"]["image"]["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["run"].is_string()).unwrap();
    let image = step["env"]["IMAGE"].as_str().unwrap();
    assert!(image.ends_with("@${{ steps.image.outputs.digest }}"), "{image}");
    let server = Server::start();
    let mut there = sweep();
    there["metadata"]["namespace"] = json!("bench");
    server.put(there.clone());
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_assay")).parent().unwrap();
    let output = Command::new("sh")
        .args(["-e", "-c", step["run"].as_str().unwrap()])
        .env("PATH", format!("{}:{}", program.display(), std::env::var("PATH").unwrap()))
        .env("RUNNER_TEMP", folder.path())
        .env("GITHUB_SHA", "0123456789abcdef")
        .env("KUBECONFIG_TEXT", fs::read_to_string(server.kubeconfig()).unwrap())
        .env("IMAGE", format!("ghcr.io/lab/assay-bench@sha256:{DIGEST}"))
        .output()
        .unwrap();
    Ran(output).succeeded();
    let set = &server.get(&path(&there)).unwrap()["spec"]["subjects"][0];
    assert_eq!(set["image"], format!("ghcr.io/lab/assay-bench@sha256:{DIGEST}"));
    assert_eq!(set["revision"], "0123456789abcdef");
}

#[test]
fn a_night_is_asked_for_and_waited_for() {
    let server = set_up();
    server.assay(&["sweep", "run-now", "nightly"]).succeeded();
    let token = || server.get(&path(&sweep())).unwrap()["spec"]["runNow"].as_str().unwrap_or_default().to_owned();
    let first = token();
    assert!(first.starts_with("now-2"), "{first}");

    // An operator that begins the night, then ends it. The API server is away for a moment.
    let child = server.command(&["sweep", "run-now", "nightly", "--wait"]).spawn().unwrap();
    crate::lab::wait_for(|| token() != first);
    let busy =
        json!({"kind": "Status", "status": "Failure", "code": 503, "reason": "ServiceUnavailable", "message": "away"});
    server.fail("GET", 1, 503, &busy.to_string());
    let mut running = server.get(&path(&sweep())).unwrap();
    running["status"]["lastManualRun"] = json!(token());
    running["status"]["active"] = json!({"time": "2026-11-26T00:01:00Z", "experiment": "nightly-20261126-0001"});
    server.put(running.clone());
    std::thread::sleep(Duration::from_secs(5));
    for object in held(&lines(1..2, &token())) {
        server.put(object);
    }
    // Visits about what it has found follow at once.
    running["status"]["active"] = json!({
        "time": "2026-11-26T00:03:00Z", "experiment": "nightly-20261126-0003", "confirms": "tonight-20261126-0001",
    });
    server.put(running);
    let ran = Ran(child.wait_with_output().unwrap());
    assert_eq!(ran.code(), 11, "{}{}", ran.stdout(), ran.stderr());
    assert_eq!(ran.stdout(), "nightly-20261126-0001: not measured: InvalidNight: no series could be measured\n");
    assert!(ran.stderr().contains("nightly-20261126-0001 runs"), "{}", ran.stderr());

    let mut refused = sweep();
    refused["status"]["conditions"] = json!([{
        "type": "Accepted", "status": "False", "reason": "Invalid", "message": "spec.schedule: is never due",
        "lastTransitionTime": "2026-11-26T00:01:00Z",
    }]);
    server.put(refused);
    server
        .assay(&["sweep", "run-now", "nightly", "--wait"])
        .refused("sweep nightly can't run: Invalid: spec.schedule: is never due");
}

#[test]
fn a_history_moves_to_a_cluster_and_back() {
    let server = set_up();
    let put = |name: &str, text: &str| fs::write(server.dir().join(name), text).unwrap();
    let import = |file: &str| server.assay(&["sweep", "history", "import", file]);
    let exported = || server.assay(&["sweep", "history", "nightly", "--format", "jsonl"]).stdout();
    let all = lines(1..6, "a");
    let (older, _) = all.split_at(all.len() / 5 * 3);
    put("older.jsonl", older);
    put("all.jsonl", &all);
    assert_eq!(import("older.jsonl").stdout(), "3 nights imported, 0 known already\n");
    assert_eq!(exported(), older);
    assert_eq!(import("all.jsonl").stdout(), "2 nights imported, 3 known already\n");
    assert_eq!(exported(), all);
    let objects = server.get(&path(&held(&all)[0])).unwrap();
    assert_eq!(
        (&objects["spec"]["count"], &objects["metadata"]["labels"]["assay.rocks/sweep"]),
        (&json!(5), &json!("nightly"))
    );
    let writes = server.changes().len();
    assert_eq!(import("all.jsonl").stdout(), "0 nights imported, 5 known already\n");
    assert_eq!(server.changes().len(), writes, "nothing is written for nothing");

    put("other.jsonl", &all.replace("InvalidNight", "Other"));
    import("other.jsonl").refused("night 2026-11-26T00:01:00Z is already there, with other reason");
    put("new.jsonl", &lines(6..7, "b"));
    // The operator has written since.
    let conflict =
        json!({"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict", "message": "modified"});
    server.fail("PUT", 1, 409, &conflict.to_string());
    import("new.jsonl").refused("what was written is complete, so import again: someone else changed it (modified)");
    let mut running = sweep();
    running["status"]["active"] = json!({"time": "2026-11-26T00:01:00Z", "experiment": "nightly-20261126-0001"});
    server.put(running);
    import("new.jsonl").refused("sweep nightly measures a night (nightly-20261126-0001): import when it has ended");
    assert_eq!(exported(), all);
    // A history outlives its sweep, and may come before it.
    server.remove(&path(&sweep()));
    assert_eq!(exported(), all);
    import("new.jsonl").succeeded();
    assert!(exported().ends_with(&lines(6..7, "b")));
}
