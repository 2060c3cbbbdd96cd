//! `assay bisect --cluster`: a search whose visits are experiments.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assay_api::{TuningExperiment, names};
use assay_core::cluster::{trial_id, trial_name};
use assay_core::plan::Plan;
use assay_core::validate::validate;
use assay_protocol::{Digest, Summary};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::lab::{EXPERIMENT, Ran, wait_for};
use crate::objects::{condition, owned_by};
use crate::record::{Measured, record};
use crate::server::{NAMESPACE, Server, experiment_path};

/// Blocks of both proofs.
const PROOFS: usize = 2 * 10;

/// What becomes of the experiment of a visit.
enum End {
    Measured,
    /// Without a trial that counts.
    Empty,
    /// The check of its options waits for this.
    Checking(String),
    Refused(String),
    /// It stays as it is.
    Unseen,
}

/// What an operator does on a server: it ends each experiment once, as it is told.
struct Operator {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Operator {
    fn start(server: &Server, culprit: usize, end: impl Fn(&str, [&str; 2]) -> End + Send + 'static) -> Self {
        let (stop, server) = (Arc::new(AtomicBool::new(false)), server.beside());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::SeqCst) {
                for object in server.all("tuningexperiments").into_iter().filter(|object| object["status"].is_null()) {
                    play(&server, object, culprit, &end);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

fn play(server: &Server, mut object: Value, culprit: usize, end: &impl Fn(&str, [&str; 2]) -> End) {
    let experiment: TuningExperiment = serde_json::from_value(object.clone()).unwrap();
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    object["metadata"]["creationTimestamp"] = json!("2026-01-02T03:04:05Z");
    let names = [0, 1].map(|index: usize| experiment.spec.configs[index].name.as_str());
    let finished = |reason: &str| condition("Finished", "True", reason, "");
    object["status"] = match end(&name, names) {
        End::Unseen => return,
        End::Checking(message) => {
            let checking = condition("Accepted", "Unknown", "Checking", &format!("checking options; {message}"));
            json!({"observedGeneration": 1, "conditions": [checking]})
        }
        End::Refused(message) => {
            let accepted = condition("Accepted", "False", "Invalid", &message);
            json!({"observedGeneration": 1, "conditions": [accepted, finished("Refused")]})
        }
        end @ (End::Measured | End::Empty) => {
            let validation = validate(&name, &experiment.spec);
            let plan = Plan::new(validation.experiment.ok_or(validation.problems).unwrap()).unwrap();
            if matches!(end, End::Measured) {
                for trial in trials(&plan, culprit) {
                    server.put(trial);
                }
            }
            let kept =
                json!({"digest": plan.digest, "seed": 7, "blocks": 5, "trials": 10, "producedBy": "assay 0.1.0"});
            json!({"observedGeneration": 1, "plan": kept, "conditions": [finished("Decided")]})
        }
    };
    server.put(object);
}

/// All trials of a visit: those of the culprit and of later builds are 10 % slower.
fn trials(plan: &Plan, culprit: usize) -> Vec<Value> {
    let of = |block: &assay_core::plan::Block, slot: usize| {
        let spec = plan.trial_spec(block, slot, 0).unwrap();
        let (id, json) = (spec.trial.clone(), serde_json::to_vec(&spec).unwrap());
        let build: usize = id.config.trim_start_matches('v').parse().unwrap();
        let noise = f64::from(id.file_stem().bytes().fold(0_u8, u8::wrapping_add)) / 25_500.0;
        let measured = Measured {
            started_unix_ms: 1_767_323_045_000,
            throughput: 1000.0 * (1.0 + noise) * if build < culprit { 1.0 } else { 0.9 },
            other: 1.0,
            boot_id: Some("boot".to_owned()),
            cpus: Some("0".to_owned()),
        };
        let mut record = record(spec, Digest::of(&json), measured);
        let image = plan.experiment.config(&id.config).and_then(|config| config.image.clone());
        record.evidence.build.binary = Some(Digest::of(image.unwrap_or_default().as_bytes()));
        let summary = Summary::of(&record, &serde_json::to_vec(&record).unwrap()).unwrap();
        let name = trial_name(&plan.experiment.name, &id);
        let spec = assay_core::cluster::spec(plan, &id, block.seed, "n1");
        assert_eq!(trial_id(&spec, 0), id);
        let time = "2026-01-02T03:04:05Z";
        let attempt = json!({"attempt": 0, "node": "n1", "startTime": time, "completionTime": time, "outcome": "Valid",
            "summary": serde_json::to_string(&summary).unwrap()});
        json!({
            "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningTrial",
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": name, "ownerReferences": [owned_by("one")],
                "labels": {names::EXPERIMENT_LABEL: plan.experiment.name}},
            "spec": spec,
            "status": {"attempts": [attempt], "refusals": 0, "conditions": [condition("Finished", "True", "Valid", "")]},
        })
    };
    plan.blocks.iter().flat_map(|block| (0..block.slots.len()).map(move |slot| of(block, slot))).collect()
}

/// A list of the images v1 to v8.
fn list(dir: &Path, more: &str) {
    let candidates =
        (1..=8).map(|number| format!("- {{name: v{number}, revision: r{number}, image: 'r/a:{number}'}}\n"));
    let head = format!("experiment: experiment.yaml\nproofBlocks: 10\n{more}candidates:\n");
    fs::write(dir.join("list.yaml"), head + &candidates.collect::<String>()).unwrap();
}

fn set_up() -> Server {
    let server = Server::start();
    fs::write(server.dir().join("experiment.yaml"), EXPERIMENT).unwrap();
    list(&server.dir(), "");
    server
}

fn command(server: &Server, more: &[&str]) -> Command {
    server.command(&[&["bisect", "v1", "v8", "--candidates", "list.yaml", "--cluster"], more].concat())
}

fn run(server: &Server, more: &[&str]) -> Ran {
    Ran(command(server, more).output().unwrap())
}

/// Experiments that were made, in the order of their names.
fn made(server: &Server) -> Vec<Value> {
    server.all("tuningexperiments")
}

fn answer(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout()).unwrap()
}

fn applied(server: &Server) -> usize {
    server.changes().len()
}

#[test]
fn a_culprit_among_images_is_found() {
    let server = set_up();
    let operator = Operator::start(&server, 6, |_, _| End::Measured);
    let ran = run(&server, &[]);
    ran.succeeded();
    let (text, stderr) = (ran.stdout(), ran.stderr());
    assert!(text.starts_with("culprit: v6 (r6), probability 100.0 %\n"), "{text}");
    assert!(text.contains("than v5 (r5), in 10 new blocks"), "{text}");
    assert!(text.ends_with("`kubectl get tuningexperiments -n perf -l assay.rocks/bisect=buffers`\n"), "{text}");
    assert!(stderr.contains("assay: visit 1, both ends: v8 against v1, 5 blocks\n"), "{stderr}");
    let all = made(&server);
    let blocks: u64 = all.iter().map(|object| object["spec"]["repetitions"].as_u64().unwrap()).sum();
    assert!(blocks as usize > PROOFS && all.len() < 12, "{blocks} in {}", all.len());
    for (object, number) in all.iter().zip(1..) {
        assert_eq!(object["metadata"]["name"], format!("buffers-bisect-{number:03}"));
        assert_eq!(object["metadata"]["labels"], json!({"assay.rocks/bisect": "buffers"}));
        assert!(object["metadata"]["ownerReferences"].is_null() && object["spec"]["repetitions"] == 5, "{object}");
        assert_eq!(object["spec"]["configs"][0]["dbOptions"], json!({"max_background_jobs": "2"}));
        assert_eq!(object["spec"]["configs"][1]["dbOptions"], json!({}), "all run the baseline's options");
    }
    let request = &server.changes()[0].0;
    assert!(request.contains("fieldManager=assay") && request.contains("fieldValidation=Strict"), "{request}");

    // What is there is read, whoever runs the command.
    drop(operator);
    let before = applied(&server);
    let again = run(&server, &["-o", "json"]);
    again.succeeded();
    let answer = answer(&again);
    assert_eq!((&answer["end"], &answer["culprits"][0]["candidates"][0]["name"]), (&json!("Found"), &json!("v6")));
    assert_eq!(answer["visits"].as_array().map(Vec::len), Some(all.len()));
    assert_eq!(applied(&server), before, "nothing is made twice");
}

#[test]
fn an_interrupted_search_continues() {
    let server = set_up();
    // The third visit does not end.
    let operator =
        Operator::start(&server, 6, |name, _| if name == "buffers-bisect-003" { End::Unseen } else { End::Measured });
    let child = command(&server, &[]).spawn().unwrap();
    // Found missing, made, listed and watched.
    wait_for(|| server.requests("buffers-bisect-003") >= 6);
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let ran = Ran(child.wait_with_output().unwrap());
    assert_eq!(ran.code(), 130, "{}", ran.stderr());
    assert!(ran.stderr().contains("interrupted; "), "{}", ran.stderr());
    assert_eq!(made(&server).len(), 3);
    drop(operator);

    let before = server.requests("buffers-bisect-003");
    let child = command(&server, &["-o", "json"]).spawn().unwrap();
    wait_for(|| server.requests("buffers-bisect-003") >= before + 4);
    let _operator = Operator::start(&server, 6, |_, _| End::Measured);
    let ran = Ran(child.wait_with_output().unwrap());
    ran.succeeded();
    assert_eq!(answer(&ran)["culprits"][0]["candidates"][0]["name"], "v6");
    assert!(!ran.stderr().contains("assay: visit 2, "), "it was there: {}", ran.stderr());
    assert!(ran.stderr().contains("assay: visit 3, search: "), "{}", ran.stderr());

    // Measured in one go, it is the same search.
    let whole = set_up();
    let _operator = Operator::start(&whole, 6, |_, _| End::Measured);
    assert_eq!(answer(&run(&whole, &["-o", "json"])), answer(&ran));
}

/// A candidate that can't be pulled, or that the check of options refuses, is avoided; what can't be told apart is one answer.
#[test]
fn a_candidate_that_can_not_run_is_avoided() {
    for (why, is_pulling) in
        [("ImagePullBackOff: Back-off pulling \"r/a:5\"; not found", true), ("exit code 127", false)]
    {
        let server = set_up();
        let operator = Operator::start(&server, 5, move |_, names| match (names.contains(&"v5"), is_pulling) {
            (false, _) => End::Measured,
            (true, true) => End::Checking(format!("v5: {why}; {}: no answer yet", names[0])),
            (true, false) => End::Refused(format!("config v5: can't check its options: {why}")),
        });
        let ran = run(&server, &["-o", "json"]);
        ran.succeeded();
        assert!(ran.stderr().contains("assay: v5 can't be measured and is avoided: "), "{}", ran.stderr());
        let answer = answer(&ran);
        let candidates = answer["culprits"][0]["candidates"].as_array().unwrap();
        let names: Vec<&str> = candidates.iter().map(|candidate| candidate["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["v5", "v6"]);
        assert_eq!(answer["notMeasured"][0]["name"], "v5");
        assert!(answer["notMeasured"][0]["why"].as_str().unwrap().contains(why), "{answer}");
        let of_v5: Vec<Value> =
            made(&server).into_iter().filter(|object| object["spec"]["configs"][1]["name"] == "v5").collect();
        assert_eq!(of_v5.len(), 1, "it is tried once");
        if is_pulling {
            assert_eq!(of_v5[0]["spec"]["suspend"], true, "it would wait forever");
            assert_eq!(of_v5[0]["metadata"]["annotations"]["assay.rocks/unmeasured"], format!("v5: {why}"));
        }
        drop(operator);
        let before = applied(&server);
        assert_eq!(self::answer(&run(&server, &["-o", "json"])), answer, "it is remembered");
        assert_eq!(applied(&server), before);
    }
}

/// A registry that is away for a while says nothing of a candidate.
#[test]
fn an_image_has_time_to_be_pulled() {
    let server = set_up();
    let operator = Operator::start(&server, 6, |_, _| End::Unseen);
    let child = command(&server, &[]).spawn().unwrap();
    let first = experiment_path("buffers-bisect-001");
    wait_for(|| server.get(&first).is_some());
    let mut object = server.get(&first).unwrap();
    object["metadata"]["creationTimestamp"] =
        serde_json::to_value(assay_api::Time(k8s_openapi::jiff::Timestamp::now())).unwrap();
    let message = "checking options; v8: ErrImagePull: connection refused";
    object["status"] =
        json!({"observedGeneration": 1, "conditions": [condition("Accepted", "Unknown", "Checking", message)]});
    server.put(object.clone());
    wait_for(|| server.requests("watch=true") >= 2);
    // It comes in time.
    object["status"] = Value::Null;
    server.put(object);
    drop(operator);
    let _operator = Operator::start(&server, 6, |_, _| End::Measured);
    Ran(child.wait_with_output().unwrap()).succeeded();
}

#[test]
fn what_says_nothing_of_a_candidate_ends_the_search() {
    let both = "v1: ErrImagePull: connection refused; v8: ErrImagePull: connection refused";
    let cases: [(End, &str); 3] = [
        (
            End::Checking(both.to_owned()),
            "neither image of experiment buffers-bisect-001 can be pulled (ErrImagePull: connection",
        ),
        (
            End::Refused("spec.placement: no such node".to_owned()),
            "experiment buffers-bisect-001 was refused: spec.placement: no such",
        ),
        (
            End::Refused("config v1: out of memory\nconfig v8: out of memory".to_owned()),
            "was refused: config v1: out of memory",
        ),
    ];
    for (end, expected) in cases {
        let server = set_up();
        let end = std::sync::Mutex::new(Some(end));
        let _operator = Operator::start(&server, 6, move |_, _| end.lock().unwrap().take().unwrap_or(End::Unseen));
        run(&server, &[]).refused(expected);
        assert_eq!(made(&server).len(), 1);
    }
}

/// A visit that says nothing is repeated, three times in a row at most; the next call has three more.
#[test]
fn what_measures_nothing_is_not_repeated_for_ever() {
    let server = set_up();
    let operator = Operator::start(&server, 6, |_, _| End::Empty);
    for made_by_then in [3, 6] {
        run(&server, &[])
            .refused("3 visits in a row measured nothing (throughput was not measured): look at them (`kubectl");
        assert_eq!(made(&server).len(), made_by_then);
    }
    drop(operator);
    let _operator = Operator::start(&server, 6, |_, _| End::Measured);
    let ran = run(&server, &[]);
    ran.succeeded();
    assert!(ran.stdout().starts_with("culprit: v6 (r6), probability "), "{}", ran.stdout());
}

/// Names are numbers of visits, so another search needs other names.
#[test]
fn another_search_needs_another_name() {
    let server = set_up();
    let _operator = Operator::start(&server, 6, |_, _| End::Measured);
    run(&server, &[]).succeeded();
    let text = fs::read_to_string(server.dir().join("list.yaml")).unwrap();
    fs::write(server.dir().join("list.yaml"), text.replace("r/a:8", "r/a:9")).unwrap();
    let before = applied(&server);
    run(&server, &[]).refused(
        "another experiment buffers-bisect-001 exists in namespace perf, and a changed experiment is a new experiment: choose another \
         name for this bisection with --name, or delete the earlier one with `kubectl delete tuningexperiments -n perf -l \
         assay.rocks/bisect=buffers`",
    );
    assert_eq!(applied(&server), before);
    let ran = run(&server, &["--name", "second"]);
    ran.succeeded();
    assert!(ran.stdout().contains("-l assay.rocks/bisect=second`"), "{}", ran.stdout());
    assert!(server.get(&experiment_path("second-bisect-001")).is_some());
}

/// Before anything is made.
#[test]
fn mistakes_are_refused_where_they_are() {
    let server = set_up();
    let text = fs::read_to_string(server.dir().join("list.yaml")).unwrap();
    let list = |text: &str| fs::write(server.dir().join("list.yaml"), text).unwrap();
    let refused = |text: &str, more: &[&str], expected: &str| {
        list(text);
        run(&server, more).refused(expected);
        assert!(server.requests("/") == 0, "{expected}");
    };
    let images = (1..=8).fold(text.clone(), |text, number| {
        text.replace(&format!("image: 'r/a:{number}'"), &format!("bench: v{number}"))
    });
    refused(&images, &[], "list.yaml:4:35: candidates[0].bench: programs run on one machine: list its image instead");
    refused(&text, &["--name", &"x".repeat(52)], "is too long for names such as ");
    refused(&text.replace("r/a:8", "r/a:1"), &[], "v1 and v8 are the same program or config");
    refused(&text.replace("proof", "metric: drained_throughput\nproof").replace("v3,", "v1,"), &[], "duplicate \"v1\"");
    // Configs, of which a later one does not set what an earlier one does.
    let configs = "  - {name: c3, dbOptions: {max_background_jobs: '3'}}\n  - {name: c4, dbOptions: {max_subcompactions: '4'}}\n\
                   \x20 - {name: c5, dbOptions: {max_open_files: '100'}}\n";
    let experiment = EXPERIMENT.replace("  - {name: candidate, dbOptions: {max_background_jobs: '4'}}\n", configs);
    fs::write(server.dir().join("experiment.yaml"), experiment).unwrap();
    let of = "experiment: experiment.yaml\ncandidates:\n- {name: v1, config: base}\n- {name: v4, config: c4}\n- {name: v8, config: c5}\n";
    refused(
        of,
        &[],
        "list.yaml:5:10: candidates[2].name: can't be measured on a cluster: v8 would inherit options of v4 that",
    );
    // Without a cluster images are refused as well.
    list(&text);
    let local = server.command(&["bisect", "v1", "v8", "--candidates", "list.yaml"]).output().unwrap();
    Ran(local).refused("candidates[0].image: images run on a cluster: pass --cluster, or list its program as bench");
    let flags = Ran(command(&server, &["--out", "x"]).output().unwrap());
    assert_eq!(flags.code(), 2, "{}", flags.stderr());
}

/// Configs of one image, and the first scenario if none is named.
#[test]
fn configs_are_searched_in_the_first_scenario() {
    let server = set_up();
    let config = |jobs: usize| format!("  - {{name: v{jobs}, dbOptions: {{max_background_jobs: '{}'}}}}\n", jobs + 1);
    let configs = [2, 3, 4].map(config).concat();
    let scenario = EXPERIMENT.split_once("  scenarios:\n").unwrap().1.split_once("  repetitions").unwrap().0;
    let text = EXPERIMENT
        .replace("  - {name: candidate, dbOptions: {max_background_jobs: '4'}}\n", &configs)
        .replace("  repetitions", &format!("{}  repetitions", scenario.replace("name: fill", "name: refill")));
    fs::write(server.dir().join("experiment.yaml"), text).unwrap();
    let of = "experiment: experiment.yaml\nproofBlocks: 10\ncandidates:\n- {name: v1, config: base}\n- {name: v2, config: v2}\n\
              - {name: v3, config: v3}\n- {name: v8, config: v4}\n";
    fs::write(server.dir().join("list.yaml"), of).unwrap();
    let _operator = Operator::start(&server, 3, |_, _| End::Measured);
    let ran = run(&server, &[]);
    ran.succeeded();
    assert!(ran.stdout().starts_with("culprit: v3, probability "), "{}", ran.stdout());
    let said = "assay: searching in scenario fill; to search in refill instead, name it as `scenario` in list.yaml";
    assert!(ran.stderr().contains(said), "{}", ran.stderr());
    let proof = made(&server).pop().unwrap();
    let expected = [json!({"max_background_jobs": "3"}), json!({"max_background_jobs": "4"})];
    assert_eq!(
        [&proof["spec"]["configs"][0]["dbOptions"], &proof["spec"]["configs"][1]["dbOptions"]],
        [&expected[0], &expected[1]]
    );
}
