//! What `v4` holds: trials that use every field, what was judged from their termination messages, plans as files are planned since
//! the second version of the rules, and objects of a cluster in every state. With what later folders have of the same.

use std::collections::BTreeMap;

use assay_api::{TuningExperimentSpec, TuningExperimentStatus, TuningTrialSpec, TuningTrialStatus};
use assay_core::{
    attempt::Attempt, cluster, experiment::Experiment, judge::judge, plan::Plan, report::Report, status,
    validate::validate_document, verdict::Verdict,
};
use assay_protocol::Summary;
use serde_json::Value;

use crate::{
    assert_frozen, assert_kept, assert_trial, names, read, stopping_for_futility, without_a_drain_of_paced,
    without_a_rate,
};

fn document(file: &str) -> Value {
    serde_json::from_slice(&read(file)).unwrap()
}

#[test]
fn trials_with_every_field_are_read_and_summed_up_as_they_were() {
    let workloads: Vec<String> =
        names("../v4/trials").iter().map(|name| assert_trial(&format!("../v4/trials/{name}"), false)).collect();
    assert_eq!(workloads, ["ethrex", "keyValue"]);
}

/// Digests of the plans of a folder as this build makes them, in a form of the experiment.
fn digests(folder: &str, form: impl Fn(Experiment, &Value) -> Experiment) -> Value {
    let digest = |name: String| {
        let document = stopping_for_futility(document(&format!("{folder}/{name}")));
        let plan = Plan::new(form(validate_document(&document).experiment.unwrap(), &document)).unwrap();
        (name, plan.digest.as_str().to_owned())
    };
    let digests: BTreeMap<String, String> = names(folder).into_iter().map(digest).collect();
    serde_json::to_value(digests).unwrap()
}

/// Where one differs, records of its experiment can't be judged any more.
#[test]
fn the_same_file_has_the_same_plan() {
    assert!(names("../v4/plans").len() >= 9);
    assert_frozen("../v4/digests.json", &digests("../v4/plans", without_a_drain_of_paced));
    assert_frozen("../v5/digests.json", &digests("../v4/plans", without_a_rate));
    assert_eq!(names("../v7/plans"), ["matrix.json"]);
    assert_frozen("../v7/digests.json", &digests("../v7/plans", without_a_rate));
}

#[test]
fn trials_since_then_are_read_as_they_were() {
    for folder in ["../v5/trials", "../v9/trials"] {
        for name in names(folder) {
            assert_eq!(assert_trial(&format!("{folder}/{name}"), false), "keyValue", "{folder} {name}");
        }
    }
}

/// Verdict and reason of each config, overall and in each scenario.
fn verdicts(report: &Report) -> Vec<(Verdict, &str)> {
    let configs = report.configs.iter().map(|config| &config.ruling);
    let cells = report.cells.iter().map(|cell| &cell.ruling);
    configs.chain(cells).map(|ruling| (ruling.verdict, ruling.reason.as_str())).collect()
}

#[test]
fn termination_messages_are_judged_as_they_were() {
    let plan: Plan = assert_kept("plan.json", &document("../v4/plan.json"));
    plan.check().unwrap();
    let attempts: Vec<Attempt> = names("../v4/messages")
        .iter()
        .map(|name| Attempt::Finished(Summary::from_json(&read(format!("../v4/messages/{name}"))).unwrap().into()))
        .collect();
    let report = judge(&plan, &attempts).unwrap();
    assert_eq!(report.configs[0].ruling.verdict, Verdict::Reject);
    // Earlier rules did not remove drift within blocks.
    let by_third_rules: Report = serde_json::from_slice(&read("../v4/report.json")).unwrap();
    assert_eq!(verdicts(&by_third_rules), verdicts(&report));
    assert_frozen("../v9/report.json", &serde_json::from_str(&report.json().unwrap()).unwrap());
    let mut of_report = status::of(&report).unwrap();
    // A digest has no last digits that may differ.
    of_report.report_digest = None;
    let by_third_rules: TuningExperimentStatus = assert_kept("status.json", &document("../v4/status.json"));
    assert_eq!(by_third_rules.verdict, of_report.verdict);
    assert_frozen("../v9/status.json", &serde_json::to_value(&of_report).unwrap());
}

#[test]
fn objects_of_a_cluster_are_read_as_they_were() {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    let objects = ["../v4/objects.json", "../v9/objects.json"].map(document);
    for object in objects.iter().flat_map(|objects| objects.as_array().unwrap()) {
        let (kind, spec, status) = (object["kind"].as_str().unwrap(), &object["spec"], &object["status"]);
        *kinds.entry(kind.to_owned()).or_default() += 1;
        if kind == "TuningExperiment" {
            // What a file leaves out has its default once it was read.
            let _: TuningExperimentSpec = serde_json::from_value(spec.clone()).unwrap();
            assert_kept::<TuningExperimentStatus>(kind, status);
            continue;
        }
        let spec: TuningTrialSpec = assert_kept(kind, spec);
        let status: TuningTrialStatus = assert_kept(kind, status);
        for told in &status.attempts {
            let attempt = cluster::attempt(&spec, told).unwrap();
            assert_eq!(matches!(attempt, Attempt::Lost(_)), told.outcome == "Lost");
            if let Attempt::Finished(summary) = attempt {
                assert_eq!(summary.pod.as_ref().unwrap().foreign_containers, ["istio-proxy"]);
            }
        }
    }
    assert_eq!(kinds, BTreeMap::from([("TuningExperiment".to_owned(), 6), ("TuningTrial".to_owned(), 4)]));
}
