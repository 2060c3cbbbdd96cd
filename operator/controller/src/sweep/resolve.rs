//! What tags of images mean tonight. A pod pulls each image with the pull secrets of its namespace, and the kubelet says which digest it got;
//! the whole night then runs that digest. The operator itself needs neither a registry nor a password.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use assay_api::names::{NIGHT_ANNOTATION, ROLE_LABEL, ROLE_RESOLVE};
use assay_api::{Config, TuningExperiment};
use assay_core::cluster::resolve_name;
use assay_core::sweep::child::cause;
use assay_core::sweep::next::Tonight;
use assay_core::sweep::night;
use assay_core::sweep::validate::is_pinned;
use k8s_openapi::api::core::v1::{ContainerImage, ContainerStatus, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::reflector::Store;
use tracing::{info, warn};

use super::Reconcile;
use super::children::Children;
use super::memory::Known;
use crate::error::Error;
use crate::experiment::{age, why_waiting};
use crate::fence;
use crate::object;
use crate::pod::{Template, is_owned};

/// How long a pull may fail until the night is given up: a registry that restarts is back by then.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long a pod may take to have its image.
const LONGEST: Duration = Duration::from_mins(15);
/// How long what was looked up is true.
const FRESH: Duration = Duration::from_mins(30);

/// What is known of the images of the night that is due.
pub struct Lookup {
    /// Images by digest, by the name of their config.
    images: BTreeMap<String, String>,
    state: State,
}

enum State {
    Done,
    /// Nobody has begun.
    Open,
    Busy {
        reason: String,
        message: String,
    },
    Failed {
        reason: String,
        message: String,
    },
}

impl Lookup {
    pub fn images(&self) -> &BTreeMap<String, String> {
        &self.images
    }

    /// What is waited for.
    pub fn waits(&self) -> Option<&str> {
        match &self.state {
            State::Busy { message, .. } => Some(message),
            _ => None,
        }
    }

    pub fn tonight(&self, reconcile: &Reconcile<'_>) -> Result<Tonight, Error> {
        Ok(match &self.state {
            State::Open => Tonight::Unresolved,
            State::Busy { reason, message } => Tonight::Resolving { reason: reason.clone(), message: message.clone() },
            State::Failed { reason, message } => Tonight::Failed { reason: reason.clone(), message: message.clone() },
            State::Done => {
                let night = night::pinned(night::experiment(&reconcile.sweep.spec), &self.images);
                Tonight::Known(night::key(&night, Some(&reconcile.cluster().args.bench_image))?)
            }
        })
    }
}

/// Images that are tags, each with the names of the configs that run it: what is looked up once is the same for all of them.
fn tagged(reconcile: &Reconcile<'_>) -> BTreeMap<String, Vec<String>> {
    let mut tagged: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Config { name, image, .. } in night::experiment(&reconcile.sweep.spec).configs {
        if let Some(image) = image.filter(|image| !is_pinned(image)) {
            tagged.entry(image).or_default().push(name);
        }
    }
    tagged
}

/// What the pods that look up images have found so far. They go once their night has begun or was decided otherwise.
pub async fn look(reconcile: &mut Reconcile<'_>, children: &Children, known: &Known) -> Result<Lookup, Error> {
    let tagged = tagged(reconcile);
    let mut lookup = Lookup { images: BTreeMap::new(), state: State::Done };
    let now = reconcile.now;
    // The minute of a night that somebody asks for is the one in which it begins, which may be later than that of its pods.
    let is_decided = |night: Timestamp| {
        let decided = known.remembered.nights.range(night..=now).next().is_some();
        decided || children.range(night..=now).next().is_some()
    };
    let is_over = |pod: &Pod| {
        let night = pod.annotations().get(NIGHT_ANNOTATION).and_then(|night| night.parse::<Timestamp>().ok());
        let expected = tagged.iter().any(|(image, configs)| name(reconcile, &configs[0], image) == pod.name_any());
        night.is_none_or(|night| night > now || is_decided(night))
            || !expected
            || age_of(pod, now) > FRESH
            || has_gone(pod)
    };
    // What they have found is of their night alone: by the next one a tag may have moved.
    let there = pods(reconcile).into_iter().filter(|(_, pod)| pod.metadata.deletion_timestamp.is_none());
    let (over, pods): (BTreeMap<_, _>, BTreeMap<_, _>) = there.partition(|(_, pod)| is_over(pod));
    for pod in over.values() {
        if let Err(error) = object::delete(&reconcile.api::<Pod>(), &**pod, None).await {
            warn!(pod = pod.name_any(), error = error.message(), "can't delete it yet");
        }
    }
    // Only what may run is pulled. What is wrong with the rest of an experiment is said of the night.
    if let Some(message) = not_allowed(reconcile) {
        lookup.state = State::Failed { reason: "NotAllowed".to_owned(), message };
        return Ok(lookup);
    }
    let mut busy = Vec::new();
    for (image, names) in tagged {
        let Some(pod) = pods.get(&name(reconcile, &names[0], &image)) else {
            lookup.state = State::Open;
            return Ok(lookup);
        };
        let told = |message: String| format!("{}: {message}", names.join(", "));
        match ask(reconcile, pod, &image).await? {
            Found::Digest(pinned) => {
                lookup.images.extend(names.into_iter().map(|name| (name, pinned.clone())));
            }
            Found::NotYet { reason, message } => busy.push((reason, told(message))),
            Found::Not { reason, message } => {
                lookup.state = State::Failed { reason, message: told(message) };
                return Ok(lookup);
            }
            Found::Unclear => {}
        }
    }
    if let Some((reason, _)) = busy.first() {
        reconcile.wake_in(Duration::from_secs(10));
        let reason = reason.clone();
        let message = busy.into_iter().map(|(_, message)| message).collect::<Vec<_>>().join("; ");
        lookup.state = State::Busy { reason, message };
    }
    Ok(lookup)
}

/// Why the images of the sweep may not run here.
fn not_allowed(reconcile: &Reconcile<'_>) -> Option<String> {
    let args = &reconcile.cluster().args;
    let tagged = tagged(reconcile);
    if let Some((image, configs)) = tagged.iter().find(|(image, _)| !args.allows_image(image)) {
        let allowed = args.known_images();
        return Some(format!("{}: {image} is not allowed; this operator allows only {allowed}", configs[0]));
    }
    if tagged.is_empty() {
        return None;
    }
    let night = unnamed(reconcile);
    let problems = fence::of(&args.fences, &reconcile.namespace).flat_map(|fence| fence.problems(&night));
    problems.into_iter().next().map(|problem| problem.to_string())
}

/// A night that is no object yet.
fn unnamed(reconcile: &Reconcile<'_>) -> TuningExperiment {
    let mut experiment = TuningExperiment::new(&reconcile.name, night::experiment(&reconcile.sweep.spec));
    experiment.metadata.namespace = Some(reconcile.namespace.clone());
    experiment
}

/// The pods of the sweep that look up images, by name.
fn pods(reconcile: &Reconcile<'_>) -> BTreeMap<String, Arc<Pod>> {
    let is_ours = |pod: &Pod| {
        pod.metadata.namespace.as_ref() == Some(&reconcile.namespace)
            && pod.labels().get(ROLE_LABEL).is_some_and(|role| role == ROLE_RESOLVE)
            && is_owned(pod, reconcile.sweep)
    };
    let all = reconcile.context.pods.iter().flat_map(Store::state).filter(|pod| is_ours(pod));
    all.map(|pod| (pod.name_any(), pod)).collect()
}

fn name(reconcile: &Reconcile<'_>, config: &str, image: &str) -> String {
    resolve_name(&reconcile.name, config, image)
}

fn age_of(pod: &Pod, now: Timestamp) -> Duration {
    let created = pod.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    age(created, now)
}

/// Whether its node has refused or evicted it before its image was there. Another one may have more luck.
fn has_gone(pod: &Pod) -> bool {
    let failed = pod.status.as_ref().filter(|status| status.phase.as_deref() == Some("Failed"));
    failed.is_some_and(|status| begun(pod).is_none() && status.reason.as_deref() != Some("DeadlineExceeded"))
}

/// The container once it has its image.
fn begun(pod: &Pod) -> Option<&ContainerStatus> {
    let container = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
    let state = container.state.as_ref()?;
    (state.running.is_some() || state.terminated.is_some()).then_some(container)
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    Digest(String),
    NotYet {
        reason: String,
        message: String,
    },
    Not {
        reason: String,
        message: String,
    },
    /// Its node has to be asked what it has.
    Unclear,
}

async fn ask(reconcile: &Reconcile<'_>, pod: &Pod, image: &str) -> Result<Found, Error> {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    Ok(match (found(pod, image, reconcile.now, None), node) {
        (Found::Unclear, node) => {
            let images = match node {
                Some(node) => reconcile.cluster().images_on(node).await?,
                None => Vec::new(),
            };
            found(pod, image, reconcile.now, Some(&images))
        }
        (found, _) => found,
    })
}

/// What a pod says of its image; with the images of its node, if those are asked for.
fn found(pod: &Pod, image: &str, now: Timestamp, on_node: Option<&[ContainerImage]>) -> Found {
    let waited = age_of(pod, now);
    // Something that admits pods may have put a mirror there.
    let spec = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    let asked = spec.and_then(|container| container.image.as_deref()).unwrap_or(image);
    let unknown = |message: String| Found::Not { reason: "DigestUnknown".to_owned(), message };
    if let Some(container) = begun(pod) {
        let id = &container.image_id;
        if let Some(pinned) = pinned(image, asked, id) {
            return Found::Digest(pinned);
        }
        // It never came from a registry.
        if !id.contains('@') {
            return unknown(format!("the node has {image} from no registry, so it has no digest: push it to one"));
        }
        // The same content came from another repository as well, whose digest may mean nothing in this one. A node tells all names late.
        let Some(images) = on_node else { return Found::Unclear };
        // A tag of which it tells may have moved since, and content does not.
        let mut names = names(images, id).into_iter().flatten();
        return match names.find_map(|name| pinned(image, asked, name)) {
            Some(pinned) => Found::Digest(pinned),
            None if waited > PATIENCE => unknown(format!("the node knows {image} only as {id}: name it by digest")),
            None => Found::NotYet {
                reason: "DigestUnknown".to_owned(),
                message: format!(
                    "the node runs {image} as {id}, and has not said yet what it is in its own repository"
                ),
            },
        };
    }
    let why = why_waiting(pod).unwrap_or_else(|| "its pod has not started".to_owned());
    let reason = cause("PodPending", &why).to_owned();
    let is_final = why.starts_with("InvalidImageName");
    if reason == "ImagePullFailed" && (waited > PATIENCE || is_final) {
        let Some(images) = on_node.or(is_final.then_some(&[])) else { return Found::Unclear };
        // It was put there by hand, so there is nothing to pull.
        if names(images, asked).is_some_and(|names| names.iter().all(|name| pinned(image, asked, name).is_none())) {
            return unknown(format!(
                "the node has {image} from no registry, so it has no digest, and it can't be pulled: push it to one ({why})"
            ));
        }
        return Found::Not { reason, message: format!("can't pull {image}: {why}") };
    }
    if waited > LONGEST {
        let message = format!("{image} is not there after {} s: {why}", waited.as_secs());
        return Found::Not { reason, message };
    }
    Found::NotYet { reason, message: why }
}

/// All names of an image on a node that has it under this one.
fn names<'a>(images: &'a [ContainerImage], name: &str) -> Option<&'a [String]> {
    let all = images.iter().filter_map(|image| image.names.as_deref());
    let whole = if repository(name) == name { format!("{name}:latest") } else { name.to_owned() };
    all.into_iter().find(|names| names.iter().any(|name| is_same(name, &whole)))
}

/// Whether a full name is what a name means that may lack its registry.
fn is_same(full: &str, name: &str) -> bool {
    full.strip_suffix(name).is_some_and(|registry| registry.is_empty() || registry.ends_with('/'))
}

/// Without its tag.
fn repository(image: &str) -> &str {
    let last = image.rfind('/').map_or(0, |slash| slash + 1);
    image[last..].find(':').map_or(image, |colon| &image[..last + colon])
}

/// The image by its digest, if that is one of the repository that its node was asked for.
fn pinned(image: &str, asked: &str, id: &str) -> Option<String> {
    let (known, digest) = id.split_once('@')?;
    let pinned = format!("{}@{digest}", repository(image));
    (is_same(known, repository(asked)) && is_pinned(&pinned)).then_some(pinned)
}

/// Makes the pods that are not there; says so where they are refused.
pub async fn begin(reconcile: &mut Reconcile<'_>, minute: Timestamp) -> Result<Option<String>, Error> {
    let there = pods(reconcile);
    let experiment = unnamed(reconcile);
    for (image, configs) in tagged(reconcile) {
        let name = name(reconcile, &configs[0], &image);
        if there.contains_key(&name) {
            continue;
        }
        let template = Template { experiment: &experiment, args: &reconcile.cluster().args };
        let pod = template.resolve(&name, &configs[0], reconcile.sweep, minute)?;
        match object::create(&reconcile.api::<Pod>(), &pod).await {
            Ok(_) => info!(%image, pod = name, "looking up what it is tonight"),
            // The watch is late to tell, or its predecessor is just going.
            Err(error) if error.is_already_there() => {}
            // Those of its trials would be, too.
            Err(error) if error.is_refusal() => {
                return Ok(Some(format!("the pod that looks up {image} was refused: {}", error.message())));
            }
            Err(error) => return Err(error),
        }
    }
    reconcile.wake_in(Duration::from_secs(5));
    Ok(None)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn an_image_is_pinned_in_the_repository_that_was_asked_for() {
        for (image, id) in [
            ("r.example/lab/bench:tonight", "r.example/lab/bench"),
            ("r.example:5000/lab/bench:tonight", "r.example:5000/lab/bench"),
            ("r.example:5000/lab/bench", "r.example:5000/lab/bench"),
            ("bench", "docker.io/library/bench"),
            ("lab/bench:tonight", "docker-pullable://lab/bench"),
        ] {
            let expected = format!("{}@{DIGEST}", repository(image));
            assert_eq!(pinned(image, image, &format!("{id}@{DIGEST}")), Some(expected), "{image}");
        }
        // By a mirror that was put into the pod.
        let (image, mirrored) = ("r.example/lab/bench:tonight", "m.example/r/bench:tonight");
        let pinned_in = |id: &str| pinned(image, mirrored, &format!("{id}@{DIGEST}"));
        assert_eq!(pinned_in("m.example/r/bench"), Some(format!("r.example/lab/bench@{DIGEST}")));
        assert_eq!(pinned_in("r.example/lab/bench"), None);
        for id in ["", DIGEST, "r.example/a@sha256:12", "r.example/a:tag", &format!("r.example/other-a@{DIGEST}")] {
            assert_eq!(pinned("r.example/a:tag", "r.example/a:tag", id), None, "{id}");
        }
    }

    fn pod(state: &Value, id: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "creationTimestamp": "2026-11-26T01:17:00Z"},
            "spec": {"containers": [{"name": "bench", "image": "r/a:b"}]},
            "status": {"phase": "Pending", "containerStatuses": [
                {"name": "bench", "image": "r/a:b", "imageID": id, "ready": false, "restartCount": 0, "state": state}]},
        }))
        .expect("a pod")
    }

    /// What is found so many seconds after the pod was made, where its node has images by these names.
    fn seen(pod: &Pod, seconds: u64, on_node: Option<&[&[&str]]>) -> String {
        let created: Timestamp = "2026-11-26T01:17:00Z".parse().expect("a time");
        let images = |all: &[&[&str]]| -> Vec<ContainerImage> {
            all.iter().map(|names| serde_json::from_value(json!({"names": names})).expect("an image")).collect()
        };
        let images = on_node.map(images);
        match found(pod, "r/a:b", created + Duration::from_secs(seconds), images.as_deref()) {
            Found::Digest(pinned) => pinned,
            Found::NotYet { reason, .. } => format!("not yet: {reason}"),
            Found::Not { reason, message } => {
                assert!(message.contains("r/a:b"), "{message}");
                reason
            }
            Found::Unclear => "unclear".to_owned(),
        }
    }

    #[test]
    fn a_pull_that_fails_is_waited_for_a_while() {
        let waiting = |reason: &str| pod(&json!({"waiting": {"reason": reason, "message": "no such image"}}), "");
        let others: Option<&[&[&str]]> = Some(&[&["r/a:c"]]);
        assert_eq!(seen(&waiting("ErrImagePull"), 60, None), "not yet: ImagePullFailed");
        assert_eq!(seen(&waiting("ImagePullBackOff"), 130, None), "unclear");
        assert_eq!(seen(&waiting("ImagePullBackOff"), 130, others), "ImagePullFailed");
        assert_eq!(seen(&waiting("InvalidImageName"), 1, None), "ImagePullFailed");
        assert_eq!(seen(&waiting("ContainerCreating"), 130, None), "not yet: PodPending");
        assert_eq!(seen(&waiting("ContainerCreating"), 1000, None), "PodPending");
        // What a registry once gave may be there again. What never came from one can't.
        let digest = format!("r/a@{DIGEST}");
        assert_eq!(seen(&waiting("ImagePullBackOff"), 130, Some(&[&["r/a:b", &digest]])), "ImagePullFailed");
        assert_eq!(seen(&waiting("ImagePullBackOff"), 130, Some(&[&["r/a:b"]])), "DigestUnknown");
        let other = format!("r/other@{DIGEST}");
        assert_eq!(seen(&waiting("ImagePullBackOff"), 130, Some(&[&[&other, "r/a:b"]])), "DigestUnknown");
        assert_eq!(seen(&waiting("ImagePullBackOff"), 60, Some(&[&["r/a:b"]])), "not yet: ImagePullFailed");
    }

    #[test]
    fn a_digest_is_never_guessed() {
        let ended = |id: &str| pod(&json!({"terminated": {"exitCode": 1}}), id);
        let (own, other) = (format!("r/a@{DIGEST}"), format!("mirror/a@{DIGEST}"));
        assert_eq!(seen(&ended(&own), 10, None), own);
        assert_eq!(seen(&ended(DIGEST), 10, None), "DigestUnknown");
        assert_eq!(seen(&ended(""), 10, None), "DigestUnknown");
        // The same content under several names: the node knows which is which, sooner or later.
        assert_eq!(seen(&ended(&other), 10, None), "unclear");
        assert_eq!(seen(&ended(&other), 10, Some(&[&["r/a:b", &other]])), "not yet: DigestUnknown");
        assert_eq!(seen(&ended(&other), 130, Some(&[&["r/a:b", &other]])), "DigestUnknown");
        assert_eq!(seen(&ended(&other), 10, Some(&[&["x"], &["r/a:b", &other, &own]])), own);
        // The tag as it was before it moved is no answer.
        assert_eq!(seen(&ended(&other), 10, Some(&[&["r/a:b", &own], &[&other]])), "not yet: DigestUnknown");
    }

    #[test]
    fn a_pod_that_its_node_refused_is_no_answer() {
        let failed = |reason: &str, state: &Value| {
            let mut pod = pod(state, "");
            let status = pod.status.as_mut().expect("a status");
            (status.phase, status.reason) = (Some("Failed".to_owned()), Some(reason.to_owned()));
            has_gone(&pod)
        };
        let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
        assert!(failed("OutOfcpu", &waiting) && failed("Evicted", &waiting));
        assert!(!failed("DeadlineExceeded", &waiting) && !failed("", &json!({"terminated": {"exitCode": 1}})));
    }
}
