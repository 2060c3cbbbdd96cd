use anyhow::Context as _;
use assay_api::TuningExperiment;
use assay_api::names::EXPERIMENT_LABEL;
use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod, PodSpec, Volume};
use kube::api::ObjectMeta;
use kube::runtime::reflector::Store;
use kube::runtime::watcher;
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use super::ended::{self, uses_node};
use super::memory::experiment_of;
use super::trial::Trial;
use crate::pod::target;
use crate::watch::{self, Objects, Part, Parts, Touched, Unreadable, Wiring};

/// What is watched for experiments.
pub struct Stores {
    pub experiments: Store<TuningExperiment>,
    pub trials: Objects<Trial>,
    pub pods: Objects<Pod>,
    /// The same by the nodes that they use.
    pub pods_on_nodes: Objects<Pod>,
    /// Experiments and trials that this version can't read.
    pub unreadable_experiments: Unreadable,
    pub unreadable_trials: Unreadable,
}

/// Something of the experiment of this namespace and name.
pub fn touched((namespace, name): (String, String)) -> Touched {
    Touched::one::<TuningExperiment>(namespace, name)
}

/// What of an experiment wakes it: of its status nobody else writes more than this.
fn matters(experiment: &TuningExperiment) -> Value {
    let ObjectMeta { uid, generation, deletion_timestamp, labels, annotations, .. } = &experiment.metadata;
    let conditions = experiment.status.iter().flat_map(|status| &status.conditions);
    let conditions: Vec<_> = conditions.map(|known| (&known.type_, &known.status)).collect();
    json!([uid, generation, deletion_timestamp, labels, annotations, conditions])
}

/// The node that a pod uses.
fn on_node(pod: &Pod) -> Option<Touched> {
    target(pod).filter(|_| uses_node(pod)).map(|node| Touched::Node(node.to_owned()))
}

/// Without what only who runs it needs: the input of its trial, an annotation, is larger than all that is asked for. So is the list of who
/// manages which field, which answers to writes have.
pub fn slim_pod(pod: &mut Pod) {
    (pod.metadata.annotations, pod.metadata.managed_fields) = (None, None);
    let Some(spec) = &mut pod.spec else { return };
    let whole = std::mem::take(spec);
    let named = |name: String| Container { name, ..Container::default() };
    let claims = |volumes: Vec<Volume>| -> Vec<Volume> {
        volumes.into_iter().filter(|volume| volume.persistent_volume_claim.is_some()).collect()
    };
    *spec = PodSpec {
        affinity: whole.affinity,
        containers: whole.containers.into_iter().map(|container| named(container.name)).collect(),
        init_containers: whole.init_containers.map(|all| all.into_iter().map(|one| named(one.name)).collect()),
        ephemeral_containers: whole.ephemeral_containers.map(|all| {
            let named = |name: String| EphemeralContainer { name, ..EphemeralContainer::default() };
            all.into_iter().map(|one| named(one.name)).collect()
        }),
        node_name: whole.node_name,
        scheduling_gates: whole.scheduling_gates,
        volumes: whole.volumes.map(claims).filter(|claims| !claims.is_empty()),
        ..PodSpec::default()
    };
}

impl watch::Stores for Stores {
    fn watch(wiring: &Wiring, namespace: Option<&str>) -> Self {
        let itself = |meta: &ObjectMeta| Some(touched((meta.namespace.clone()?, meta.name.clone()?)));
        let all = watcher::Config::default;
        let (experiments, unreadable_experiments) = wiring.reflect_readable(
            wiring.api(namespace),
            all(),
            Part { matters: Some(matters), ..Part::all() },
            move |one: &TuningExperiment| itself(&one.metadata),
            itself,
        );
        // By its owner, which says whose it is, whatever else somebody writes into it.
        let of_trial: fn(&Trial) -> Option<Touched> = |trial| {
            let owner = trial.owner_references().iter().find(|owner| owner.kind == TuningExperiment::kind(&()))?;
            Some(touched((trial.namespace()?, owner.name.clone())))
        };
        let of_unreadable_trial = |meta: &ObjectMeta| {
            let experiment = meta.labels.as_ref()?.get(EXPERIMENT_LABEL)?;
            Some(touched((meta.namespace.clone()?, experiment.clone())))
        };
        let parts = Parts::default();
        // Nobody else makes one, or writes its status: what matters is that it goes.
        let part =
            Part { parts: vec![(parts.clone(), of_trial)], matters: Some(|_: &Trial| Value::Null), ..Part::all() };
        let (trials, unreadable_trials) =
            wiring.reflect_readable(wiring.api(namespace), all(), part, of_trial, of_unreadable_trial);
        let trials = Objects::new(trials, parts);
        let of_pod: fn(&Pod) -> Option<Touched> = |pod| experiment_of(pod).map(touched);
        let (parts, on_nodes) = (Parts::default(), Parts::default());
        let of_experiments = all().labels(EXPERIMENT_LABEL);
        let part = Part {
            parts: vec![(parts.clone(), of_pod), (on_nodes.clone(), on_node)],
            slim: slim_pod,
            matters: Some(ended::matters),
            gone: None,
            saw: None,
        };
        let pods = wiring.reflect_part(wiring.api(namespace), of_experiments, part, of_pod);
        let (pods_on_nodes, pods) = (Objects::new(pods.clone(), on_nodes), Objects::new(pods, parts));
        Self { experiments, trials, pods, pods_on_nodes, unreadable_experiments, unreadable_trials }
    }

    async fn wait_until_ready(&self) -> anyhow::Result<()> {
        self.experiments.wait_until_ready().await.context("can't watch experiments")?;
        self.trials.all.wait_until_ready().await.context("can't watch trials")?;
        self.pods.all.wait_until_ready().await.context("can't watch pods")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_keeps_what_is_asked_of_it() {
        let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": "e-s-0"}});
        let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]});
        let affinity =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
        let pod = json!({
            "metadata": {"name": "p", "labels": {"l": "x"}, "annotations": {"assay.rocks/input": "long"}},
            "spec": {
                "affinity": affinity, "nodeName": "n1", "schedulingGates": [{"name": "queue"}],
                "containers": [{"name": "bench", "image": "i", "env": [{"name": "HOME", "value": "/"}]}],
                "initContainers": [{"name": "init", "image": "i"}], "ephemeralContainers": [{"name": "debug", "image": "i"}],
                "tolerations": [{"key": "t"}], "volumes": [{"name": "tmp", "emptyDir": {}}, claim],
            },
            "status": {"phase": "Pending"},
        });
        let mut pod: Pod = serde_json::from_value(pod).expect("a pod");
        let whole = pod.clone();
        slim_pod(&mut pod);
        assert_eq!(target(&pod), Some("n1"));
        assert_eq!(ended::gate(&pod), Some(ended::Gate::Queue));
        assert_eq!((pod.labels(), &pod.status), (whole.labels(), &whole.status));
        assert_eq!(pod.metadata.annotations, None);
        let kept = json!({
            "affinity": affinity, "nodeName": "n1", "schedulingGates": [{"name": "queue"}],
            "containers": [{"name": "bench"}], "initContainers": [{"name": "init"}],
            "ephemeralContainers": [{"name": "debug"}], "volumes": [claim],
        });
        assert_eq!(json!(pod.spec), kept);
        let slim = pod.clone();
        slim_pod(&mut pod);
        assert_eq!(pod, slim);
    }
}
