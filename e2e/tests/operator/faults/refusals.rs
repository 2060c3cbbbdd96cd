//! Nodes that refuse a trial before anything ran: it costs no attempt, until it is too much.

use assay_api::names;
use assay_protocol::Exit;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::bench::End;
use crate::lab::SOON;
use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_of_the_environment_costs_no_attempt() {
    let refuse = |run: &crate::bench::Run| {
        if run.is_chosen() && run.before < 2 {
            End::says(Exit::EnvironmentRefused, "no luck today")
        } else {
            run.done()
        }
    };
    let scene = Scene::new("refusal", |bench| bench.script(refuse)).await;
    scene.begin(|_| ()).await;
    scene.decides(&[]).await;
    assert_eq!(scene.witness.ran(), 12);
    scene.lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_refusals_in_a_row_are_a_lost_attempt() {
    let refuse = |run: &crate::bench::Run| {
        if run.is_chosen() { End::says(Exit::EnvironmentRefused, "no luck today") } else { run.done() }
    };
    let scene = Scene::new("refusals", |bench| bench.script(refuse)).await;
    scene.begin(|_| ()).await;
    scene.ends_well(&["Lost EnvironmentRefused"]).await;
}

/// Trying again gives the same answer, so it is given once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bench_that_refuses_the_spec_ends_the_experiment() {
    let refuse = |run: &crate::bench::Run| {
        if run.is_chosen() { End::says(Exit::SpecRefused, "protocol 2 is not known") } else { run.done() }
    };
    let scene = Scene::new("unfit", |bench| bench.script(refuse)).await;
    scene.begin(|_| ()).await;
    scene.lab.condition(&scene.name, names::FINISHED, "True", Some("Refused"), 120).await;
    let accepted = scene.lab.condition(&scene.name, names::ACCEPTED, "False", Some("Invalid"), SOON).await;
    let says = ["protocol 2 is not known", crate::operator::IMAGE].iter().all(|word| accepted.message.contains(word));
    scene.lab.check(says, &accepted.message).await;
    let ran = scene.witness.ran();
    scene.lab.no_pods().await;
    assert_eq!(scene.witness.ran(), ran);
    scene.lab.close().await;
}

/// The kubelet refuses a pod that the scheduler gave it, for example while the CPUs of the last one are not free yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_is_not_admitted_costs_no_attempt() {
    let hold = |run: &crate::bench::Run| if run.is_chosen() && run.before == 0 { End::Never } else { run.done() };
    let scene = Scene::new("admission", |bench| bench.script(hold)).await;
    scene.begin(|_| ()).await;
    let held = scene.bench.held(&scene.lab).await;
    let status = json!({"status": {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": "Allocate failed due to not enough cpus available to satisfy request, which is unexpected",
        "containerStatuses": null,
    }});
    let pods = scene.lab.api::<Pod>();
    pods.patch_status(&held, &PatchParams::default(), &Patch::Merge(&status)).await.expect("the pod fails");
    scene.decides(&[]).await;
    assert_eq!(scene.witness.ran(), 11);
    scene.lab.close().await;
}
