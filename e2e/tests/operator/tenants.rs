//! Teams that share a cluster: their experiments never share a node, and nobody reaches what is another team's.

use std::time::Duration;

use assay_api::{TuningExperiment, TuningExperimentSpec, names};
use assay_core::plan::Plan;
use assay_core::validate::validate;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::account;
use crate::bench::{Bench, End, Run};
use crate::chart::user_roles;
use crate::command_line::assay;
use crate::experiment::{condition, small};
use crate::lab::{Lab, SOON};
use crate::operator::Operator;
use crate::pods;
use crate::rights::{Subject, VERBS};
use crate::scene::Scene;
use crate::witness::Witness;

/// Two namespaces with an installation each that share the nodes of the first, and who has them.
struct Teams {
    first: Lab,
    second: Lab,
}

impl Teams {
    async fn new(name: &str) -> Self {
        let first = Lab::new(name).await;
        let second = first.beside(&format!("{name}-b")).await;
        Self { first, second }
    }

    /// The small experiment in the namespace of `lab`, on the shared node.
    fn experiment(&self, name: &str) -> Value {
        small(&self.first, name)
    }

    async fn close(self) {
        self.second.close().await;
        self.first.close().await;
    }
}

/// Pods that the scheduler kept away from others, which it need not where Leases do.
async fn kept_apart(lab: &Lab) -> Vec<String> {
    let notes = lab.events("FailedScheduling").await.into_iter().filter_map(|event| event.note);
    notes.filter(|note| note.contains("anti-affinity")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_installations_never_share_a_node() {
    let teams = Teams::new("race").await;
    let (first, second) = (&teams.first, &teams.second);
    let takes = Duration::from_millis(300);
    let _benches = [first, second].map(|lab| Bench::new(lab).takes(takes).start(lab));
    let witness = Witness::of_nodes(first);
    let _operators = [first.operator(), second.operator()];
    let (one, other) = (teams.experiment("one"), teams.experiment("other"));
    tokio::join!(first.apply(one), second.apply(other));
    tokio::join!(first.decided("one", "Win", 5), second.decided("other", "Win", 5));
    assert_eq!(witness.ran(), 20);
    witness.saw_nothing_wrong(first).await;
    for lab in [first, second] {
        let kept = kept_apart(lab).await;
        lab.check(kept.is_empty(), &format!("not the Lease but the scheduler kept trials apart: {kept:?}")).await;
    }
    teams.close().await;
}

/// Its roles have gone with it, or nobody has made them yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_that_can_not_be_watched_stops_no_other() {
    let teams = Teams::new("shut").await;
    let (first, second) = (&teams.first, &teams.second);
    let user = format!("assay-{}", first.namespace);
    let kubeconfig = account::confined(&first.client, &user).await;
    account::within(&first.client, &user, &first.namespace).await;
    let _benches = [first, second].map(|lab| Bench::new(lab).start(lab));
    let mut operator = first.operator_with(&["--namespace", &second.namespace], Some(&kubeconfig));
    tokio::join!(first.apply(teams.experiment("one")), second.apply(teams.experiment("other")));
    first.until("it leads", SOON, async || operator.said().contains("this replica leads").then_some(())).await;
    assert!(operator.terminate(), "it ends when it is asked to, whatever it waits for");
    operator.start_again();
    first.decided("one", "Win", 5).await;
    first
        .check(operator.said().contains("can't watch the namespace: its experiments are ignored"), &operator.said())
        .await;
    first.check(operator.get("/metrics").await.contains("\nassay_leader 1\n"), "it leads").await;
    let untouched = second.status("other").await;
    second.check(untouched.conditions.is_empty(), &format!("nobody looks at it: {untouched:?}")).await;

    account::within(&first.client, &user, &second.namespace).await;
    let ended = async || (!operator.is_running()).then_some(());
    second.until("the operator begins again, with all of its namespaces", SOON, ended).await;
    operator.start_again();
    second.decided("other", "Win", 5).await;
    teams.close().await;
}

/// Whoever has a node is named: to people, to Prometheus, and to the experiment that waits.
async fn is_held(teams: &Teams, operators: [&Operator; 2], (holder, waiting): (&str, &str)) {
    let (second, node) = (&teams.second, &teams.first.nodes[0]);
    second
        .until("the condition names who has the node", SOON, async || {
            let status = second.status(waiting).await;
            let found = condition(&status, names::PROGRESSING).filter(|found| found.reason == "NodeHeld")?;
            found.message.contains(&format!("{node} is held by {holder}")).then_some(())
        })
        .await;
    second.event(waiting, "NodeHeld").await;
    for operator in operators {
        let metrics = operator.get("/metrics").await;
        let held = format!("\nassay_node_held{{node=\"{node}\",holder=\"{holder}\"}} 1");
        second.check(metrics.contains(&held), &metrics).await;
    }
    let nodes = assay(second, &["nodes"]).await;
    let said = String::from_utf8_lossy(&nodes.stdout);
    let row = said.lines().find(|line| line.starts_with(node)).unwrap_or_default();
    second.check(row.contains(&format!(" {holder} ")), &said).await;
}

/// A Lease says who may begin; what still runs of somebody who lost it, the scheduler keeps others away from.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_lease_was_lost_is_not_shared_either() {
    let teams = Teams::new("fence").await;
    let (first, second) = (&teams.first, &teams.second);
    // Once: an operator that has not looked yet when the pod is deleted does not know that it was ever there, and makes it again.
    let hangs = |run: &Run| {
        let is_first = run.is_first_of_baseline() && (run.spec.trial.block, run.before) == (0, 0);
        if is_first { End::Never } else { run.done() }
    };
    let first_bench = Bench::new(first).script(hangs).start(first);
    let _second_bench = Bench::new(second).start(second);
    let witness = Witness::of_nodes(first);
    let mut operator = first.operator();
    first.apply(teams.experiment("one")).await;
    let running = first_bench.held(first).await;
    let other = second.operator();
    second.apply(teams.experiment("other")).await;
    is_held(&teams, [&operator, &other], (&format!("{}/one", first.namespace), "other")).await;
    operator.kill();
    let leases: Api<Lease> = first.api();
    let node = format!("assay-node-{}", first.nodes[0]);
    leases.delete(&node, &DeleteParams::default()).await.expect("somebody deletes the lease");
    second.pod("the second team's pod is there", |pod| pods::node(pod).is_empty()).await;
    second
        .until("the scheduler says why it waits", SOON, async || (!kept_apart(second).await.is_empty()).then_some(()))
        .await;
    let still = first.api::<Pod>().get(&running).await.expect("the first team's pod");
    assert_eq!(pods::phase(&still), "Running");
    // Its operator comes back, and sees it go.
    operator.start_again();
    operator.is_back(first).await;
    let at_once = DeleteParams::default().grace_period(0);
    first.api::<Pod>().delete(&running, &at_once).await.expect("it can be deleted");
    second.decided("other", "Win", 5).await;
    first.decided("one", "Win", 5).await;
    witness.saw_nothing_wrong(first).await;
    teams.close().await;
}

/// As somebody has it who may `edit` a namespace, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_team_reaches_only_what_is_its_own() {
    // With the Leases of nodes.
    let operators = Lab::with_nodes("operators", 0).await;
    let (own, other) = (operators.beside("team").await, operators.beside("team-b").await);
    let user = "somebody-of-the-first-team";
    let roles = format!("{}-roles", own.namespace);
    user_roles(&own, &roles).await;
    own.put::<k8s_openapi::api::rbac::v1::RoleBinding>(
        Some(&own.namespace),
        json!({
            "metadata": {"name": "edit"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }),
    )
    .await;
    let somebody = Subject { user: user.to_owned(), groups: vec!["system:authenticated".to_owned()] };
    let experiments = "tuningexperiments.assay.rocks";
    let here = Some(own.namespace.as_str());
    // Each role is aggregated on its own, so each right comes in its own time.
    let (sweeps, histories) = ("tuningsweeps.assay.rocks", "tuninghistories.assay.rocks");
    for (verb, what) in [
        ("create", experiments),
        ("delete", experiments),
        ("patch", sweeps),
        ("list", histories),
        ("list", "tuningtrials.assay.rocks"),
        ("get", "configmaps"),
    ] {
        own.until(&format!("they {verb} their own {what}"), SOON, async || {
            somebody.may(&own, here, verb, what).await.then_some(())
        })
        .await;
    }
    // What a trial says and what a sweep remembers, who has a node and what an experiment was planned with is the operator's to write.
    for (verb, what) in [
        ("create", "tuningtrials.assay.rocks"),
        ("create", histories),
        ("update", histories),
        ("delete", histories),
        ("patch", "tuningsweeps.assay.rocks/status"),
        ("patch", "tuningtrials.assay.rocks/status"),
        ("patch", "tuningexperiments.assay.rocks/status"),
        ("patch", "nodes"),
    ] {
        own.check(!somebody.may(&own, here, verb, what).await, &format!("nobody may {verb} {what}")).await;
    }
    let leases = "leases.coordination.k8s.io";
    // Kubernetes gives them the Leases of their own namespace, so those of nodes must not be there.
    own.check(somebody.may(&own, here, "delete", leases).await, "their own Leases are theirs").await;
    for place in [&other.namespace, &operators.namespace] {
        for resource in
            [experiments, sweeps, histories, "tuningtrials.assay.rocks", "configmaps", "pods", "pods/log", leases]
        {
            for verb in VERBS {
                let refused = !somebody.may(&own, Some(place), verb, resource).await;
                own.check(refused, &format!("they may not {verb} {resource} in {place}")).await;
            }
        }
    }
    own.kubectl(&["delete", "clusterroles", "--selector", &format!("app.kubernetes.io/instance={roles}")]).await;
    tokio::join!(own.close(), other.close(), operators.close());
}

/// An experiment can ask for nothing that an administrator has not allowed, and no status that somebody writes changes that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_allowed_is_refused_whatever_a_status_says() {
    let lab = Lab::new("allowed").await;
    let (_bench, witness) = (Bench::new(&lab).start(&lab), Witness::start(&lab));
    let mut operator = lab.operator_with(&["--allow-image", "registry.example/lab"], None);
    let with = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut experiment = small(&lab, name);
        change(&mut experiment["spec"]);
        experiment
    };
    for (name, field, change) in [
        (
            "path",
            "spec.placement.storage.hostPath.path",
            (&|spec: &mut Value| {
                spec["placement"]["storage"] = json!({"hostPath": {"path": "/etc"}});
            }) as &dyn Fn(&mut Value),
        ),
        ("image", "spec.configs[1].image", &|spec| {
            spec["configs"][1]["image"] = json!("registry.example/lab2/bench:1");
        }),
        ("matrix", "spec.matrix.axes[0].values[0].image", &|spec| {
            let values = json!([{"image": "registry.example/lab2/bench:1"}]);
            spec["matrix"] = json!({"axes": [{"name": "build", "values": values}]});
            spec["configs"] = json!([spec["configs"][0]]);
        }),
    ] {
        lab.apply(with(name, change)).await;
        let accepted = lab.condition(name, names::ACCEPTED, "False", Some("NotAllowed"), SOON).await;
        lab.check(accepted.message.contains(field), &accepted.message).await;
        // It waits: another administrator's answer may be another one.
        lab.condition(name, names::FINISHED, "False", None, SOON).await;
        // As if it had been planned long ago, under an operator that allowed it.
        operator.kill();
        let api: Api<TuningExperiment> = lab.api();
        api.delete(name, &DeleteParams::default()).await.expect("it can be deleted");
        lab.until("it is gone", SOON, async || api.get_opt(name).await.ok()?.is_none().then_some(())).await;
        lab.apply(with(name, change)).await;
        let spec: TuningExperimentSpec = serde_json::from_value(with(name, change)["spec"].clone()).expect("a spec");
        let digest = Plan::new(validate(name, &spec).experiment.expect("it is sound")).expect("a plan").digest;
        let plan = json!({"digest": digest, "seed": 7, "blocks": 5, "trials": 10, "producedBy": "assay"});
        write_plan(&lab, name, plan).await;
        operator.start_again();
        let waits = lab.condition(name, names::PROGRESSING, "False", Some("NotAllowed"), SOON).await;
        lab.check(waits.message.contains(field), &waits.message).await;
    }
    // Nor a bench that nobody allowed.
    operator.kill();
    let planned = lab.apply(small(&lab, "bench")).await;
    let digest = Plan::new(validate("bench", &planned.spec).experiment.expect("it is sound")).expect("a plan").digest;
    let bench = "registry.example/other/bench:1";
    let plan =
        json!({"digest": digest, "seed": 7, "blocks": 5, "trials": 10, "producedBy": "assay", "benchImage": bench});
    write_plan(&lab, "bench", plan).await;
    operator.start_again();
    let waits = lab.condition("bench", names::PROGRESSING, "False", Some("NotAllowed"), SOON).await;
    lab.check(waits.message.contains("status.plan.benchImage"), &waits.message).await;
    assert_eq!(witness.ran(), 0);
    let made = lab.api::<Pod>().list(&ListParams::default()).await.expect("a list");
    assert!(made.items.is_empty());
    lab.close().await;
}

/// Nothing runs, neither by the old plan nor by the new one, until the version that made the plan is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_experiment_that_another_version_planned_waits_for_it() {
    let lab = Lab::new("replanned").await;
    let (_bench, witness) = (Bench::new(&lab).start(&lab), Witness::start(&lab));
    let mut operator = lab.operator();
    operator.kill();
    let name = "replanned";
    let applied = lab.apply(small(&lab, name)).await;
    let seen = applied.status.as_ref().and_then(|status| status.observed_generation);
    lab.check(seen == Some(-1), &format!("kstatus must not take it for done before it is seen: {seen:?}")).await;
    let own = Plan::new(validate(name, &applied.spec).experiment.expect("it is sound")).expect("a plan").digest;
    let planned =
        |digest: &str| json!({"digest": digest, "seed": 7, "blocks": 5, "trials": 10, "producedBy": "assay 0.0.9"});
    write_plan(&lab, name, planned(&"0".repeat(32))).await;
    operator.start_again();
    let waits = lab.condition(name, names::PROGRESSING, "False", Some("PlanChanged"), SOON).await;
    lab.check(waits.message.starts_with("assay 0.0.9 made the plan"), &waits.message).await;
    let made = lab.api::<Pod>().list(&ListParams::default()).await.expect("a list");
    assert!(made.items.is_empty() && witness.ran() == 0);
    write_plan(&lab, name, planned(own.as_str())).await;
    lab.condition(name, names::PROGRESSING, "True", None, SOON).await;
    lab.close().await;
}

/// As somebody does who has the right to write a status.
pub async fn write_plan(lab: &Lab, experiment: &str, plan: Value) {
    let status = json!({"apiVersion": "assay.rocks/v1alpha1", "kind": "TuningExperiment", "status": {"plan": plan}});
    let params = PatchParams::apply("somebody").force();
    let api: Api<TuningExperiment> = lab.api();
    api.patch_status(experiment, &params, &Patch::Apply(&status)).await.expect("a status can be written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_trials_have_no_rights() {
    let scene = Scene::new("token", |bench| bench.takes(Duration::from_secs(2))).await;
    scene.begin(|_| ()).await;
    let spec = scene.lab.running_pod().await.spec.unwrap_or_default();
    assert_eq!((spec.automount_service_account_token, spec.enable_service_links), (Some(false), Some(false)));
    let projected = spec.volumes.iter().flatten().any(|volume| volume.projected.is_some() || volume.secret.is_some());
    assert!(!projected && spec.host_network.is_none() && spec.host_pid.is_none() && spec.host_ipc.is_none());
    // Whoever it could be, they may do nothing.
    let nobody = Subject::service_account(&scene.lab.namespace, "default");
    let rights = nobody.rights(&scene.lab, &scene.lab.namespace).await;
    scene.lab.check(rights.is_empty(), &format!("the account of trials may: {rights:?}")).await;
    scene.lab.close().await;
}
