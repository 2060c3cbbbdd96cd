//! What `v4` holds: trials that use every field, what was judged from their termination messages, plans as files are planned since
//! the second version of the rules, and objects of a cluster in every state. With what later folders have of the same.

use std::collections::BTreeMap;

use assay_api::{TuningExperimentSpec, TuningExperimentStatus, TuningTrialSpec, TuningTrialStatus};
use assay_core::{
    attempt::Attempt, cluster, experiment::Experiment, judge::judge, plan::Plan, status, validate::validate_document,
    verdict::Verdict,
};
use assay_protocol::Summary;
use serde_json::Value;

use crate::{assert_frozen, assert_kept, assert_trial, names, read, stopping_for_futility, without_a_drain_of_paced};

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
    assert_frozen("../v5/digests.json", &digests("../v4/plans", |experiment, _| experiment));
    assert_eq!(names("../v7/plans"), ["matrix.json"]);
    assert_frozen("../v7/digests.json", &digests("../v7/plans", |experiment, _| experiment));
}

#[test]
fn trials_since_then_are_read_as_they_were() {
    for folder in ["../v5/trials", "../v9/trials"] {
        for name in names(folder) {
            assert_eq!(assert_trial(&format!("{folder}/{name}"), false), "keyValue", "{folder} {name}");
        }
    }
}

/// The report as it was by the third version of the rules, when a share of others that is plain to see was unknown where a small one would
/// not be seen.
fn as_it_was(mut report: Value) -> Value {
    report["rules"] = 3.into();
    let isolated = report["gates"].as_array_mut().unwrap().iter_mut().find(|gate| gate["gate"] == "Isolated").unwrap();
    assert!(isolated.get("unknownRuns").is_none());
    isolated["unknownRuns"] = 15.into();
    isolated["unknown"] = serde_json::json!(["small shares of foreign CPU time, since windows are short"]);
    report
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
    assert_frozen("../v4/report.json", &as_it_was(serde_json::from_str(&report.json().unwrap()).unwrap()));
    let mut of_report = status::of(&report).unwrap();
    // A digest has no last digits that may differ.
    of_report.report_digest = None;
    assert_frozen("../v4/status.json", &serde_json::to_value(&of_report).unwrap());
}

#[test]
fn objects_of_a_cluster_are_read_as_they_were() {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for object in document("../v4/objects.json").as_array().unwrap() {
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
    assert_eq!(kinds, BTreeMap::from([("TuningExperiment".to_owned(), 5), ("TuningTrial".to_owned(), 4)]));
}
