//! The chart with its own values, as docs/install.md says, in a cluster that has nothing of it but definitions that were applied by hand: from
//! there to a finished `helm test`.

use std::time::Instant;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition as Definition;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, ResourceExt};

use crate::bench::Bench;
use crate::chart::{chart, helm, try_helm, uninstall};
use crate::lab::{Lab, SOON};
use crate::scrape;

const DEFINITION_FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crds");
const DEFINITION: &str = "customresourcedefinition/tuningexperiments.assay.rocks";
const DEFINITIONS: [&str; 2] = [DEFINITION, "customresourcedefinition/tuningtrials.assay.rocks"];

async fn get(lab: &Lab, object: &str) -> DynamicObject {
    let found = lab.kubectl(&["get", object, "--output", "json"]).await;
    serde_json::from_str(&found).expect("an object is JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_for_those_who_may_read_them() {
    let lab = Lab::alone("scrape", 0).await;
    scrape::certify(&lab).await;
    let own = format!("namespaces={{{}}}", lab.namespace);
    let (chart, values) = (chart(), ["--set", "crds.enabled=false", "--set", own.as_str()]);
    // Ready is what answers kubelets, which have no token.
    helm(&lab, &[&["install", "assay", &chart, "--wait"], &values[..], &scrape::SECURED[..]].concat()).await;
    scrape::is_for_those_who_may(&lab).await;
    uninstall(&lab).await;
    lab.close().await;
}

/// `helm test` on a node where the larger write buffer makes things worse.
async fn fails_without_a_win(lab: &mut Lab) {
    let node = lab.add_node().await;
    let selector = format!("test.nodeSelector.kubernetes\\.io/hostname={node}");
    let tolerations = r#"test.tolerations=[{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]"#;
    let values = ["--set", selector.as_str(), "--set-json", tolerations];
    helm(lab, &[&["upgrade", "assay", chart().as_str(), "--wait"], &values[..]].concat()).await;
    let _bench = Bench::new(lab).effect(0.7).start(lab);
    let (succeeded, said) = try_helm(lab, &["test", "assay", "--timeout", "5m", "--logs"]).await;
    lab.check(!succeeded && said.contains("Reject"), &format!("helm test: {said}")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_docs_end_in_a_win() {
    let mut lab = Lab::alone("install", 0).await;
    lab.kubectl(&[&["delete"], &DEFINITIONS[..]].concat()).await;
    let (chart, began) = (chart(), Instant::now());
    // Definitions that were applied by hand belong to no release: it refuses them until it is told to take them.
    lab.kubectl(&["apply", "--server-side", "--filename", DEFINITION_FILES]).await;
    let install = ["install", "assay", &chart, "--create-namespace", "--wait"];
    let (installed, said) = try_helm(&lab, &install).await;
    lab.check(!installed && said.contains("invalid ownership metadata"), &said).await;
    helm(&lab, &[&install[..], &["--take-ownership"]].concat()).await;
    let (succeeded, said) = try_helm(&lab, &["test", "assay", "--timeout", "30m", "--logs"]).await;
    println!("{} s from an empty cluster to a finished helm test", began.elapsed().as_secs());
    lab.check(succeeded && said.contains("Win"), &format!("helm test: {said}")).await;

    // As if an earlier version of the chart had installed a definition that had less.
    let mut less = get(&lab, DEFINITION).await;
    let columns = less.data["spec"]["versions"][0]["additionalPrinterColumns"].take();
    less.metadata.managed_fields = None;
    let definitions: Api<DynamicObject> = Api::all_with(lab.client.clone(), &ApiResource::erase::<Definition>(&()));
    let params = PatchParams::apply("helm").force();
    definitions.patch(&less.name_any(), &params, &Patch::Apply(&less)).await.expect("a definition can be changed");
    let has_columns =
        async || get(&lab, DEFINITION).await.data["spec"]["versions"][0]["additionalPrinterColumns"] == columns;
    lab.check(!has_columns().await, "it has less").await;
    helm(&lab, &["upgrade", "assay", &chart, "--wait"]).await;
    lab.check(has_columns().await, "an upgrade brings the definition that its chart has").await;

    fails_without_a_win(&mut lab).await;

    let experiment = get(&lab, "tuningexperiment/assay-test").await;
    uninstall(&lab).await;
    let kept = get(&lab, "tuningexperiment/assay-test").await;
    lab.check(kept.metadata.uid == experiment.metadata.uid, "experiments outlive the operator").await;
    lab.until("nothing of the operator runs", SOON, async || {
        lab.kubectl(&["get", "pods", "--selector", "app.kubernetes.io/instance=assay", "--output", "name"])
            .await
            .trim()
            .lines()
            .all(|pod| pod == "pod/assay-test")
            .then_some(())
    })
    .await;
    lab.close().await;
}
