//! What stands on the wire, letter by letter: a change here breaks every bench and every executor of another version.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use assay_protocol::invocation::{self, in_pod};
use assay_protocol::output::{self, Progress};
use assay_protocol::{Digest, Exit, MAX_SUMMARY_BYTES, TrialId, VERSION};

#[test]
fn benches_are_called_so() {
    let run = invocation::run(Path::new("spec.json"), Path::new("work"), Path::new("record.json"));
    assert_eq!(run, ["run", "spec.json", "--data", "work", "--out", "record.json"]);
    assert_eq!(invocation::options(), ["options", "-"]);
    assert_eq!(
        in_pod::run("/data/team/tuning").join(" "),
        "run /etc/assay/input.json --data /data/team/tuning --out /tmp/record.json \
         --termination-log /dev/termination-log --metrics 0.0.0.0:9464"
    );
    assert_eq!(in_pod::options().join(" "), "options /etc/assay/input.json --termination-log /dev/termination-log");
    let pod = (in_pod::INPUT_DIR, in_pod::INPUT_FILE, in_pod::DATA_DIR, in_pod::TEMPORARY_DIR, in_pod::USER);
    assert_eq!(pod, ("/etc/assay", "input.json", "/data", "/tmp", 65532));
    assert_eq!(invocation::GRACE.as_secs(), 5);
}

#[test]
fn databases_of_trials_are_there() {
    let (scenario, config) = ("writes".to_owned(), "roomy".to_owned());
    let trial = TrialId { scenario, block: 2, config, replicate: 0, order: 1, attempt: 3 };
    let dir = invocation::trial_dir(Path::new("work"), &trial);
    assert_eq!(dir, Path::new("work/trials/writes-b002-roomy-r0-a3"));
    assert!(dir.starts_with(invocation::trials_dir(Path::new("work"))));
}

#[test]
fn progress_is_a_line() {
    let progress = Progress { phase: "measure".to_owned(), done: 1, total: 2, steps_per_second: Some(1000.5) };
    let line = r#"{"progress":{"done":1,"phase":"measure","stepsPerSecond":1000.5,"total":2}}"#;
    assert_eq!(progress.line(), line);
    assert_eq!(Progress::from_line(line), Some(progress.clone()));

    let begun = Progress { done: 0, steps_per_second: None, ..progress };
    assert_eq!(begun.line(), r#"{"progress":{"done":0,"phase":"measure","total":2}}"#);
    assert_eq!(Progress::from_line(&begun.line()), Some(begun));

    // Of another bench, or of a later one.
    let least = Progress::from_line(r#"{"progress": {"phase": "p", "more": 1}, "more": 2}"#).unwrap();
    assert_eq!(least, Progress { phase: "p".to_owned(), done: 0, total: 0, steps_per_second: None });
    for other in ["", "opened", "{}", r#"{"progress":1}"#, r#"{"record":{}}"#] {
        assert_eq!(Progress::from_line(other), None, "{other}");
    }
}

#[test]
fn a_free_port_is_told() {
    let address = "127.0.0.1:40123".parse().unwrap();
    assert_eq!(output::metrics_line(address), r#"{"metrics":"127.0.0.1:40123"}"#);
    assert_eq!(output::metrics_address(&output::metrics_line(address)), Some(address));
    assert_eq!(output::metrics_address(r#"{"metrics":"somewhere"}"#), None);
}

#[test]
fn a_record_is_found_in_a_log() {
    let json = r#"{"version":1}"#;
    assert_eq!(output::record_line(json.as_bytes()), br#"{"record":{"version":1}}"#);
    let log = "{\"progress\":{\"phase\":\"run\"}}\n{\"record\":{\"version\":1}}\nassay-bench: said something\n";
    assert_eq!(output::record_in(log), Some(json));
    assert_eq!(output::record_in("{\"record\":1}\r\n{\"record\":2} \n"), Some("2"), "the last one counts");
    assert_eq!(output::record_in("{\"record\":{\"version\":1"), None, "half a line is no record");
    assert_eq!(output::record_in(""), None);
    assert_eq!((output::LAST_LINES, output::MAX_LOG_BYTES, output::MAX_PROGRESS_BYTES), (20, 16_777_216, 65_536));
}

#[test]
fn progress_is_the_share_of_all_roles() {
    let page = "assay_trial_steps_done{role=\"a\"} 30\nassay_trial_steps_done{role=\"b\"} 20\n\
                assay_trial_steps_planned{role=\"a\"} 100\nassay_trial_steps_planned{role=\"b\"} 100\n";
    assert_eq!(output::share_done(page), Some(0.25));
    assert_eq!(output::share_done("# EOF\n"), None, "before the workload begins nothing is known");
    assert_eq!((output::METRICS_PATH, output::STEPS_DONE), ("/metrics", "assay_trial_steps_done"));
    assert_eq!(output::STEP_LATENCY, "assay_trial_step_latency_seconds");
}

#[test]
fn ends_have_these_codes() {
    assert_eq!(Exit::ALL.map(|exit| exit as i32), [0, 2, 3, 4]);
    for exit in Exit::ALL {
        assert_eq!(Exit::from_code(exit as i32), Some(exit));
    }
    assert_eq!(Exit::from_code(1), None);
}

#[test]
fn versions_limits_and_digests_are_these() {
    assert_eq!((VERSION, MAX_SUMMARY_BYTES), (1, 4096));
    // The first half of SHA-256, as `printf abc | sha256sum | cut -c 1-32` prints it.
    assert_eq!(Digest::of(b"abc").as_str(), "ba7816bf8f01cfea414140de5dae2223");
}
