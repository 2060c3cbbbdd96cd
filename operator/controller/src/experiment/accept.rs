//! Whether an experiment can run: its spec, what this operator allows, and what RocksDB says about its options.

use std::sync::Arc;
use std::time::Duration;

use assay_api::names::{ROLE_CHECK, ROLE_LABEL};
use assay_api::{Placement, PlanStatus, QueriedMetric};
use assay_core::cluster::check_name;
use assay_core::plan::Plan;
use assay_core::promql::Query;
use assay_core::status::shorten;
use assay_core::validate::{self, FieldPath, Problem, Validation, matrix};
use assay_protocol::{Exit, OptionsAnswer, OptionsQuestion};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::PostParams;

use super::ended::{self, Ended};
use super::outcome::{is_overdue, node_lost};
use super::{RETRY, Reconcile};
use crate::error::{Error, call};
use crate::fence;
use crate::pod::{CHECK_SECONDS, is_owned};
use crate::prometheus::NAMESPACE;

/// What is said of a pod that does what it should: the same throughout, so that the status need not be written again.
const NO_ANSWER: &str = "no answer yet";
const NOT_READ: &str = "its answer is yet to be read";

/// Bytes of an answer, and characters of what a bench says instead: there may be many, and their logs may be long.
const MOST_ANSWERED: usize = 64 << 10;
const MOST_SAID: usize = 500;

/// The taints of nodes that the whole cluster depends on.
const CONTROL_PLANE: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// What is known of an experiment before its first trial.
pub enum Accepted {
    Plan(Arc<Plan>),
    /// Not yet: a reason in a word, and in words.
    Waiting(&'static str, String),
    /// Never, for these problems.
    Refused(Vec<String>),
}

pub async fn accept(reconcile: &Reconcile<'_>) -> Result<Accepted, Error> {
    let status = reconcile.experiment.status.as_ref();
    // Also of one that was planned: a status can be written by others, and what is allowed by an administrator is not theirs to say.
    let disallowed = disallowed(reconcile);
    if let Some(planned) = status.and_then(|status| status.plan.as_ref()) {
        if !disallowed.is_empty() {
            return Ok(not_allowed(&disallowed));
        }
        return Ok(as_planned(planned, plan(reconcile)));
    }
    // Trials begin only after everything was checked: a status without the plan is one that we have not seen our own write of.
    if disallowed.is_empty()
        && !reconcile.trials().is_empty()
        && let Ok(plan) = plan(reconcile)
    {
        return Ok(Accepted::Plan(plan));
    }
    let validation = validate::validate(&reconcile.name, &reconcile.experiment.spec);
    let mut problems: Vec<Problem> = validation.problems.iter().filter(|problem| problem.is_error()).cloned().collect();
    problems.extend(never(&reconcile.namespace, &reconcile.experiment.spec.placement));
    if !problems.is_empty() {
        return Ok(Accepted::Refused(lines(&problems)));
    }
    if !disallowed.is_empty() {
        return Ok(not_allowed(&disallowed));
    }
    if reconcile.is_suspended() {
        let pods = reconcile.pods().present;
        for pod in pods.values().filter(|pod| pod.labels().get(ROLE_LABEL).is_some_and(|role| role == ROLE_CHECK)) {
            dismiss(reconcile, pod).await?;
        }
        return Ok(Accepted::Waiting("Suspended", "nothing starts until spec.suspend is false".to_owned()));
    }
    match check_options(reconcile, &validation).await? {
        Checked::Fine => match plan(reconcile) {
            Ok(plan) => Ok(Accepted::Plan(plan)),
            Err(problems) => Ok(Accepted::Refused(problems)),
        },
        Checked::Waiting(message) => Ok(Accepted::Waiting("Checking", message)),
        Checked::Refused(problems) => Ok(Accepted::Refused(problems)),
    }
}

/// The next start of the operator may allow it, so that the experiment is not lost by an administrator's omission.
fn not_allowed(problems: &[Problem]) -> Accepted {
    Accepted::Waiting("NotAllowed", lines(problems).join("; "))
}

/// Whether this version makes the plan that trials have been run by. Those of two plans can't be judged together.
fn as_planned(planned: &PlanStatus, plan: Result<Arc<Plan>, Vec<String>>) -> Accepted {
    match plan {
        Ok(plan) if plan.digest.as_str() == planned.digest => Accepted::Plan(plan),
        Ok(_) | Err(_) => Accepted::Waiting(
            "PlanChanged",
            format!(
                "{} made the plan, and this version plans the same spec differently: finish it with that version, or \
                 create it again under another name",
                planned.produced_by
            ),
        ),
    }
}

/// The plan of an experiment, or what is wrong with its spec.
pub fn plan(reconcile: &Reconcile<'_>) -> Result<Arc<Plan>, Vec<String>> {
    if let Some(plan) = &reconcile.memory().plan {
        return Ok(Arc::clone(plan));
    }
    let validation = validate::validate(&reconcile.name, &reconcile.experiment.spec);
    let experiment = validation.experiment.clone().ok_or_else(|| lines(&validation.problems))?;
    let plan = Arc::new(Plan::new(experiment).map_err(|error| vec![error.to_string()])?);
    reconcile.memory().plan = Some(Arc::clone(&plan));
    Ok(plan)
}

fn lines(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// What no administrator can allow. The chart's policy says so first, but not of experiments that were there before it.
fn never(namespace: &str, placement: &Placement) -> Vec<Problem> {
    let mut problems = Vec::new();
    if namespace.starts_with("kube-") {
        let message = format!("{namespace} is Kubernetes' own: run experiments in another namespace");
        problems.push(Problem::error(FieldPath::root().keys("metadata.namespace"), message));
    }
    for (index, toleration) in placement.tolerations.iter().enumerate() {
        if CONTROL_PLANE.contains(&toleration.key.as_str()) {
            let field = FieldPath::root().keys("spec.placement.tolerations").index(index);
            let message = "experiments don't run on nodes of the control plane: remove the toleration";
            problems.push(Problem::error(field, message));
        }
    }
    problems
}

/// What another operator may allow.
fn disallowed(reconcile: &Reconcile<'_>) -> Vec<Problem> {
    let (spec, args) = (&reconcile.experiment.spec, &reconcile.cluster().args);
    let path = |keys: &str| FieldPath::root().keys(keys);
    let mut problems = never(&reconcile.namespace, &spec.placement);
    let host_path = spec.placement.storage.as_ref().and_then(|storage| storage.host_path.as_ref());
    if let Some(host) = host_path.filter(|host| !args.allows_host_path(&host.path)) {
        let allowed = match args.host_paths.as_slice() {
            [] => "this operator allows no hostPath: use a persistentVolumeClaim".to_owned(),
            paths => format!("this operator allows only paths under {}", paths.join(", ")),
        };
        let message = format!("{} is not allowed; {allowed}", host.path);
        problems.push(Problem::error(path("spec.placement.storage.hostPath.path"), message));
    }
    for (field, image) in matrix::images(spec) {
        // It could read what others keep in such a folder, and leave links there that lead out of it.
        let is_allowed = if host_path.is_some() { args.knows_image(image) } else { args.allows_image(image) };
        if !is_allowed {
            let where_so = if host_path.is_some() { "with a hostPath, " } else { "" };
            let message =
                format!("{image} is not allowed; {where_so}this operator allows only {}", args.known_images());
            problems.push(Problem::error(field, message));
        }
    }
    let planned = reconcile.experiment.status.as_ref().and_then(|status| status.plan.as_ref());
    if let Some(image) = planned.and_then(|plan| plan.bench_image.as_deref()).filter(|image| !args.allows_bench(image))
    {
        let message = format!("{image} is not allowed; this operator's own image is {}", args.bench_image);
        problems.push(Problem::error(path("status.plan.benchImage"), message));
    }
    if !spec.metrics.is_empty() && args.prometheus.is_none() {
        let message = "this operator has no Prometheus server: start it with --prometheus URL, or remove the metrics";
        problems.push(Problem::error(path("spec.metrics"), message));
    }
    if let Some(label) = args.confining_label(&reconcile.namespace) {
        problems.extend(unconfined(&spec.metrics, label, &reconcile.namespace));
    }
    problems
        .extend(fence::of(&args.fences, &reconcile.namespace).flat_map(|fence| fence.problems(reconcile.experiment)));
    problems
}

/// Queries for series of others.
fn unconfined(metrics: &[QueriedMetric], label: &str, namespace: &str) -> Vec<Problem> {
    let path = FieldPath::root().keys("spec.metrics");
    let refused = metrics.iter().enumerate().filter_map(|(index, metric)| {
        // What can't be read at all is not valid, which is said elsewhere.
        let why = Query::parse(&metric.query).ok()?.confined(label, NAMESPACE, namespace).err()?;
        Some(Problem::error(path.index(index).key("query"), why))
    });
    refused.collect()
}

enum Checked {
    Fine,
    Waiting(String),
    Refused(Vec<String>),
}

/// Asks the bench of every config about its options, in a pod each, all at once: nothing is measured yet.
async fn check_options(reconcile: &Reconcile<'_>, validation: &Validation) -> Result<Checked, Error> {
    let mut waiting = Vec::new();
    let mut failed = Vec::new();
    let mut problems = Vec::new();
    let mut pods = Vec::new();
    for (number, question) in validation.questions().into_iter().enumerate() {
        let mut answer = OptionsAnswer::default();
        for config in question.configs.keys() {
            let name = check_name(&reconcile.name, config, number);
            let pod = match pod(reconcile, &name, config, &question).await? {
                Ok(pod) => pod,
                Err(why) => {
                    waiting.push(format!("{config}: {why}"));
                    continue;
                }
            };
            match answered(reconcile, &pod).await? {
                Answered::Yes(part) => {
                    answer.problems.extend(part.problems);
                    answer.inert.extend(part.inert);
                    answer.sanitised.extend(part.sanitised);
                    // Another program may differ in more than its options.
                    if matrix::image(&reconcile.experiment.spec, config).is_none() {
                        answer.all_inert.extend(part.all_inert);
                    }
                }
                Answered::NotYet(why) => waiting.push(format!("{config}: {why}")),
                Answered::Failed(why) => failed.push(format!("config {config}: can't check its options: {why}")),
            }
            pods.push(pod);
        }
        problems.extend(validation.answer_problems(&answer));
    }
    problems.retain(Problem::is_error);
    if failed.is_empty() && problems.is_empty() && !waiting.is_empty() {
        reconcile.wake_in(Duration::from_secs(30));
        return Ok(Checked::Waiting(shorten(&format!("checking options; {}", waiting.join("; ")), 1000)));
    }
    for pod in pods {
        dismiss(reconcile, &pod).await?;
    }
    problems.sort();
    problems.dedup();
    for why in &mut failed {
        *why = shorten(why, MOST_SAID);
    }
    failed.extend(problems.iter().map(ToString::to_string));
    Ok(if failed.is_empty() { Checked::Fine } else { Checked::Refused(failed) })
}

/// The pod that asks about a config, or why there is none yet.
async fn pod(
    reconcile: &Reconcile<'_>,
    name: &str,
    config: &str,
    question: &OptionsQuestion,
) -> Result<Result<Arc<Pod>, String>, Error> {
    let seen = reconcile.pods_there().await?;
    if let Some(pod) = seen.present.get(name) {
        if is_owned(&**pod, reconcile.experiment) {
            return Ok(Ok(Arc::clone(pod)));
        }
        reconcile.make_room(Some(&**pod), reconcile.experiment).await?;
        return Ok(Err("waiting for an earlier pod of the same name to be deleted".to_owned()));
    }
    // Nothing was measured, so a pod that somebody removed is simply made again.
    reconcile.memory().pods.gone(name);
    let mut own = question.clone();
    own.configs.retain(|known, _| known == config);
    let pod = reconcile.template().check(name, config, &serde_json::to_string(&own)?)?;
    match call(reconcile.api::<Pod>().create(&PostParams::default(), &pod)).await {
        Ok(pod) => drop(reconcile.memory().pods.created(pod, reconcile.instant())),
        Err(error) if error.is_already_there() => {}
        // A quota or an admission rule: somebody may change it.
        Err(error) if error.is_refusal() || error.is_conflict() => {
            reconcile.wake_in(RETRY);
            return Ok(Err(error.message()));
        }
        Err(error) => return Err(error),
    }
    Ok(Err(NO_ANSWER.to_owned()))
}

#[derive(Clone)]
pub enum Answered {
    Yes(OptionsAnswer),
    NotYet(String),
    Failed(String),
}

/// What came of a check. It is kept, so that a long log is read once: where more than one has to be, each would have to wait for its turn again.
async fn answered(reconcile: &Reconcile<'_>, pod: &Pod) -> Result<Answered, Error> {
    let uid = pod.uid().unwrap_or_default();
    if let Some(known) = reconcile.memory().answers.get(&uid) {
        return Ok(known.clone());
    }
    let answered = answer(reconcile, pod).await?;
    if !matches!(answered, Answered::NotYet(_)) && ended::ended(pod).is_some() {
        reconcile.memory().answers.insert(uid, answered.clone());
    }
    Ok(answered)
}

async fn answer(reconcile: &Reconcile<'_>, pod: &Pod) -> Result<Answered, Error> {
    let read = |text: &str| serde_json::from_str::<OptionsAnswer>(text.trim()).ok();
    if let Some(answer) = ended::message(pod).and_then(read) {
        return Ok(Answered::Yes(answer));
    }
    Ok(match ended::ended(pod) {
        None => {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            match node.and_then(|node| node_lost(reconcile, node)) {
                // Nobody is there to confirm that it has ended.
                Some(why) => {
                    reconcile.remove(pod, Some(0)).await?;
                    reconcile.wake_in(Duration::from_secs(2));
                    Answered::NotYet(why)
                }
                None if is_overdue(reconcile, pod) => Answered::Failed(overdue()),
                None => Answered::NotYet(ended::why_waiting(pod).unwrap_or_else(|| NO_ANSWER.to_owned())),
            }
        }
        // Its image took too long to get.
        Some(Ended::Overdue) if ended::terminated(pod).is_none() => {
            dismiss(reconcile, pod).await?;
            Answered::NotYet(format!("not started after {CHECK_SECONDS} s"))
        }
        Some(Ended::Overdue) => Answered::Failed(overdue()),
        // Too much to say for a termination message.
        Some(Ended::Exited { code }) if code == Exit::Completed as i32 => match reconcile.log(pod).await {
            Ok(Some(log)) => {
                let mut lines = log.text().lines().rev().filter(|line| line.len() <= MOST_ANSWERED);
                let answer = lines.find_map(read).and_then(short);
                answer.map_or_else(|| Answered::Failed("can't read its answer".to_owned()), Answered::Yes)
            }
            Ok(None) => Answered::NotYet(NOT_READ.to_owned()),
            Err(error) => again(reconcile, pod, format!("can't read its log: {}", error.message())).await?,
        },
        Some(Ended::Exited { code }) => {
            let failed = |said: &str| Answered::Failed(format!("exit code {code}: {}", one_line(said)));
            match ended::message(pod) {
                Some(said) => failed(said),
                None => match reconcile.log(pod).await {
                    Ok(Some(log)) => failed(log.last_lines()),
                    Ok(None) => Answered::NotYet(NOT_READ.to_owned()),
                    Err(error) => failed(&format!("can't read its log: {}", error.message())),
                },
            }
        }
        Some(Ended::OutOfMemory) => Answered::Failed("out of memory".to_owned()),
        Some(Ended::OutgrewDisk(why)) => Answered::Failed(why),
        // What the infrastructure does to a pod says nothing about options.
        Some(Ended::Evicted(why) | Ended::Refused(why) | Ended::Crashed(why)) => again(reconcile, pod, why).await?,
    })
}

/// As much of an answer as a termination message would have had.
fn short(answer: OptionsAnswer) -> Option<OptionsAnswer> {
    serde_json::from_slice(&answer.short_json().ok()?).ok()
}

/// What a bench said, as far as it is told.
fn one_line(said: &str) -> String {
    let mut line = String::new();
    for part in said.lines().map(str::trim).filter(|part| !part.is_empty()) {
        if line.chars().count() > MOST_SAID {
            break;
        }
        if !line.is_empty() {
            line.push_str("; ");
        }
        line.push_str(&shorten(part, MOST_SAID));
    }
    line
}

/// Asks in another pod.
async fn again(reconcile: &Reconcile<'_>, pod: &Pod, why: String) -> Result<Answered, Error> {
    dismiss(reconcile, pod).await?;
    reconcile.wake_in(Duration::from_secs(2));
    Ok(Answered::NotYet(why))
}

fn overdue() -> String {
    format!("its bench did not answer within {CHECK_SECONDS} s")
}

async fn dismiss(reconcile: &Reconcile<'_>, pod: &Pod) -> Result<(), Error> {
    if pod.metadata.deletion_timestamp.is_some() {
        reconcile.memory().pods.dismissed(pod);
        return Ok(());
    }
    reconcile.remove(pod, None).await
}

#[cfg(test)]
mod tests {
    use assay_api::Better;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_query_for_series_of_others_is_refused() {
        let metric =
            |query: &str| QueriedMetric { name: "m".to_owned(), query: query.to_owned(), better: Better::Lower };
        let metrics =
            ["rate(a[$window])", "rate(a{namespace=\"$namespace\"}[$window])", "rate(a{namespace=~\".*\"}[$window])"];
        let problems = lines(&unconfined(&metrics.map(metric), "namespace", "team"));
        assert_eq!(
            problems,
            [
                "spec.metrics[2].query: can't select namespace=~\".*\": this operator lets experiments query only series \
              with namespace=\"team\", and adds that itself; remove the matcher"
            ]
        );
    }

    #[test]
    fn little_is_kept_of_what_a_bench_says() {
        let long = OptionsAnswer { all_inert: vec![String::new(); 20_000], ..OptionsAnswer::default() };
        assert!(short(long).expect("an answer").all_inert.len() < 2000);
        assert_eq!(one_line(" one\n\n two \n"), "one; two");
        for said in ["x".repeat(1 << 20), "word\n".repeat(1 << 20), "x".repeat(400) + "\n" + &"\u{fc}".repeat(1 << 20)]
        {
            let length = one_line(&said).chars().count();
            assert!((MOST_SAID..3 * MOST_SAID).contains(&length), "{length}");
        }
    }

    #[test]
    fn some_places_are_never_for_experiments() {
        let placement = |keys: &[&str]| {
            let tolerations: Vec<_> = keys.iter().map(|key| json!({"key": key, "operator": "Exists"})).collect();
            serde_json::from_value(json!({"cpus": 1, "tolerations": tolerations})).unwrap()
        };
        assert!(never("team", &placement(&["bench"])).is_empty());
        for (namespace, keys, expected) in [
            ("kube-system", &["bench"][..], "metadata.namespace: kube-system is Kubernetes' own"),
            ("kube-public", &[], "metadata.namespace: kube-public is"),
            ("team", &["bench", CONTROL_PLANE[0]], "spec.placement.tolerations[1]: experiments don't run"),
            ("team", &[CONTROL_PLANE[1]], "spec.placement.tolerations[0]: "),
        ] {
            let found = lines(&never(namespace, &placement(keys)));
            assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
        }
    }

    #[test]
    fn an_experiment_that_another_version_planned_otherwise_waits_for_it() {
        let writer = json!({"name": "writer", "steps": 100, "mix": {"put": 1}});
        let spec = json!({
            "seed": 7,
            "baseline": "base",
            "configs": [{"name": "base"}, {"name": "candidate", "dbOptions": {"max_background_jobs": "4"}}],
            "scenarios": [{"name": "fill", "workload": {
                "keyValue": {"keys": 10, "valueBytes": {"fixed": 10}, "roles": [writer]}
            }}],
            "repetitions": 6,
            "objectives": [{"metric": "throughput", "margin": "5%"}],
            "guardrails": [],
            "placement": {"cpus": 1},
        });
        let spec = serde_json::from_value(spec).unwrap();
        let plan = Arc::new(Plan::new(validate::validate("buffers", &spec).experiment.unwrap()).unwrap());
        let planned_as = |digest: &str| PlanStatus {
            digest: digest.to_owned(),
            seed: 7,
            blocks: 6,
            trials: 12,
            produced_by: "assay 0.0.9".to_owned(),
            rules: None,
            bench_image: None,
        };
        let own = planned_as(plan.digest.as_str());
        assert!(matches!(as_planned(&own, Ok(Arc::clone(&plan))), Accepted::Plan(same) if same.digest == plan.digest));

        let another = planned_as(&"0".repeat(32));
        let unsound = Err(vec!["spec.repetitions: must be at least 12".to_owned()]);
        for (planned, now) in [(&another, Ok(plan)), (&own, unsound)] {
            let Accepted::Waiting(reason, message) = as_planned(planned, now) else { panic!("it does not wait") };
            assert_eq!(reason, "PlanChanged");
            assert!(message.starts_with("assay 0.0.9 made the plan, and this version plans the same spec differently"));
            assert!(message.ends_with("finish it with that version, or create it again under another name"));
        }
    }
}
