//! How a pod ended, from what the kubelet and the controllers wrote into its status.

use assay_api::names::{CONTAINER, DATA_VOLUME, NODE_GATE, TEMPORARY_VOLUME};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};
use serde_json::{Value, json};

/// How a pod ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The bench ran and ended.
    Exited {
        code: i32,
    },
    OutOfMemory,
    /// The kubelet evicted it because the bench filled more of the node's disk than the pod may.
    OutgrewDisk(String),
    /// The node needed its room, or somebody drained it.
    Evicted(String),
    /// The node refused it before anything ran.
    Refused(String),
    /// It ran for longer than it may.
    Overdue,
    /// In a way that tells nothing.
    Crashed(String),
}

/// Reasons with which a kubelet refuses a pod that the scheduler gave it. A predecessor that is just going is reason enough.
const REFUSALS: [&str; 9] = [
    "UnexpectedAdmissionError",
    "OutOfcpu",
    "OutOfmemory",
    "OutOfpods",
    "OutOfephemeral-storage",
    "TopologyAffinityError",
    "SMTAlignmentError",
    "NodeAffinity",
    "NodeShutdown",
];

/// The reason with which a kubelet ends a pod that runs for longer than its `activeDeadlineSeconds`.
const OVERDUE: &str = "DeadlineExceeded";

/// How a pod ended; `None` while it has not.
pub fn ended(pod: &Pod) -> Option<Ended> {
    let status = pod.status.as_ref()?;
    if !matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) && !has_company(pod) {
        return None;
    }
    let reason = status.reason.as_deref().unwrap_or_default();
    let message = status.message.as_deref().unwrap_or_default();
    let why = || if message.is_empty() { reason.to_owned() } else { format!("{reason}: {message}") };
    if REFUSALS.contains(&reason) {
        return Some(Ended::Refused(why()));
    }
    if let Some(ended) = terminated(pod) {
        // A container that is killed in an eviction looks as if it had crashed.
        let was_killed = matches!(ended.exit_code, 137 | 143);
        if ended.reason.as_deref() == Some("OOMKilled") {
            return Some(Ended::OutOfMemory);
        }
        if !(was_killed && (matches!(reason, "Evicted" | OVERDUE) || disruption(pod).is_some())) {
            return Some(Ended::Exited { code: ended.exit_code });
        }
    }
    if reason == OVERDUE {
        return Some(Ended::Overdue);
    }
    if reason == "Evicted" && outgrew_disk(message) {
        return Some(Ended::OutgrewDisk(message.trim_end().to_owned()));
    }
    if reason == "Evicted" || disruption(pod).is_some() {
        return Some(Ended::Evicted(disruption(pod).unwrap_or_else(why)));
    }
    Some(Ended::Crashed(if reason.is_empty() { "its pod ended without a reason".to_owned() } else { why() }))
}

/// Whether an eviction's message says that the bench exceeded a limit of its own pod, as the constants `emptyDirMessageFmt`,
/// `podEphemeralStorageMessageFmt` and `containerEphemeralStorageMessageFmt` of the kubelet's package `eviction` word it. A node that
/// is short of a resource names the pod's usage, too, but begins otherwise. Volumes and containers that were injected are not the bench's.
fn outgrew_disk(message: &str) -> bool {
    [DATA_VOLUME, TEMPORARY_VOLUME]
        .iter()
        .any(|volume| message.starts_with(&format!("Usage of EmptyDir volume \"{volume}\" exceeds the limit ")))
        || message.starts_with("Pod ephemeral local storage usage exceeds the total limit of containers ")
        || message.starts_with(&format!("Container {CONTAINER} exceeded its local ephemeral storage limit "))
}

/// Whether the bench has ended and somebody's container runs on, which keeps a pod running for ever.
fn has_company(pod: &Pod) -> bool {
    let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
    let mut running = containers.filter(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()));
    terminated(pod).is_some() && running.any(|status| status.name != CONTAINER)
}

/// The condition that says that somebody has ended a pod on purpose.
pub fn disruption(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let target = conditions.iter().find(|found| found.type_ == "DisruptionTarget" && found.status == "True")?;
    let (reason, message) = (target.reason.as_deref(), target.message.as_deref());
    Some(format!("{}: {}", reason.unwrap_or("Disrupted"), message.unwrap_or_default()))
}

/// What the bench left as its last words.
pub fn message(pod: &Pod) -> Option<&str> {
    terminated(pod)?.message.as_deref().filter(|message| !message.trim().is_empty())
}

/// How the bench's container ended.
pub fn terminated(pod: &Pod) -> Option<&ContainerStateTerminated> {
    bench(pod)?.state.as_ref()?.terminated.as_ref()
}

fn bench(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.iter().find(|status| status.name == CONTAINER)
}

/// Whether a pod has not started.
pub fn is_pending(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase.is_none_or(|phase| phase == "Pending")
}

/// What of a pod wakes its experiment. The watch tells of it six times, of which two matter: it ends, and it is gone. That it was made its
/// experiment knows, that it starts is as expected unless it had to wait for something, and that one which has ended is deleted does nothing
/// yet.
pub fn matters(pod: &Pod) -> Value {
    if let Some(ended) = ended(pod) {
        return json!(format!("{ended:?}"));
    }
    let is_deleted = pod.metadata.deletion_timestamp.is_some();
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref()).filter(|_| is_pending(pod));
    let why = (disruption(pod), why_waiting(pod));
    if !is_deleted && gates.is_none_or(Vec::is_empty) && why == (None, None) {
        return Value::Null;
    }
    json!([is_pending(pod), is_deleted, gates, why])
}

/// Whether a pod has a node for itself, or is to get it without anybody's doing. What waits in a queue has none to keep.
pub fn uses_node(pod: &Pod) -> bool {
    ended(pod).is_none() && gate(pod).is_none()
}

/// What keeps a pod from being scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Somebody else, such as a queue, until there is room for it.
    Queue,
    /// We, until its node can be had: its queue has let it go.
    Node,
}

/// What keeps a pod from being scheduled; `None` where nothing does.
pub fn gate(pod: &Pod) -> Option<Gate> {
    let gates = pod.spec.as_ref().filter(|_| is_pending(pod))?.scheduling_gates.as_ref()?;
    if gates.iter().any(|gate| gate.name != NODE_GATE) {
        return Some(Gate::Queue);
    }
    (!gates.is_empty()).then_some(Gate::Node)
}

/// What the scheduler says of a pod for which it finds no room.
pub fn unschedulable(pod: &Pod) -> Option<&str> {
    let status = pod.status.as_ref().filter(|_| is_pending(pod))?;
    let conditions = status.conditions.iter().flatten();
    let unscheduled = conditions.into_iter().find(|found| found.type_ == "PodScheduled" && found.status == "False")?;
    let is_final = unscheduled.reason.as_deref() == Some("Unschedulable");
    is_final.then(|| unscheduled.message.as_deref().unwrap_or_default())
}

/// What a pod waits for that has not started, where somebody says so.
pub fn why_waiting(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref().filter(|_| is_pending(pod))?;
    if let Some(waiting) = bench(pod).and_then(|status| status.state.as_ref()?.waiting.as_ref()) {
        let image = bench(pod).map(|status| status.image.as_str()).unwrap_or_default();
        return match (waiting.reason.as_deref().unwrap_or("waiting"), waiting.message.as_deref()) {
            ("ContainerCreating" | "PodInitializing", None) => None,
            (reason, Some(message)) => Some(format!("{reason}: {message}")),
            (reason, None) if reason.contains("Image") => Some(format!("{reason} ({image})")),
            (reason, None) => Some(reason.to_owned()),
        };
    }
    let conditions = status.conditions.iter().flatten();
    let unscheduled = conditions.into_iter().find(|found| found.type_ == "PodScheduled" && found.status == "False")?;
    let (reason, message) = (unscheduled.reason.as_deref(), unscheduled.message.as_deref());
    Some(format!("{}: {}", reason.unwrap_or("Unschedulable"), message.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "status": status}))
            .unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn exited(code: i32, reason: &str) -> Value {
        json!([{"name": "bench", "image": "i", "imageID": "i", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": code, "reason": reason, "message": "last words"}}}])
    }

    /// Beside a container that somebody else has put there.
    fn beside(bench: &Value) -> Value {
        let mut all = bench.clone();
        let other = json!({"name": "sidecar", "image": "i", "imageID": "i", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}});
        all.as_array_mut().unwrap_or_else(|| unreachable!()).push(other);
        all
    }

    #[test]
    fn ends_are_told_apart() {
        let target =
            json!([{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "m"}]);
        let table = [
            (json!({"phase": "Running"}), None),
            (
                json!({"phase": "Succeeded", "containerStatuses": exited(0, "Completed")}),
                Some(Ended::Exited { code: 0 }),
            ),
            (json!({"phase": "Failed", "containerStatuses": exited(4, "Error")}), Some(Ended::Exited { code: 4 })),
            (json!({"phase": "Failed", "containerStatuses": exited(137, "OOMKilled")}), Some(Ended::OutOfMemory)),
            (json!({"phase": "Failed", "containerStatuses": exited(137, "Error")}), Some(Ended::Exited { code: 137 })),
            (
                json!({"phase": "Failed", "containerStatuses": exited(137, "Error"), "conditions": target}),
                Some(Ended::Evicted("EvictionByEvictionAPI: m".to_owned())),
            ),
            (
                json!({"phase": "Failed", "containerStatuses": exited(143, "Error"), "reason": "Evicted",
                    "message": "disk pressure"}),
                Some(Ended::Evicted("Evicted: disk pressure".to_owned())),
            ),
            // Conditions that are not met, and met ones that are none.
            (
                json!({"phase": "Failed", "containerStatuses": exited(137, "Error"), "conditions": [
                    {"type": "DisruptionTarget", "status": "False"}, {"type": "PodScheduled", "status": "True"}]}),
                Some(Ended::Exited { code: 137 }),
            ),
            (
                json!({"phase": "Failed", "containerStatuses": exited(137, "Error"), "reason": "DeadlineExceeded",
                    "message": "Pod was active on the node longer than the specified deadline"}),
                Some(Ended::Overdue),
            ),
            // It never came so far as to run.
            (json!({"phase": "Failed", "reason": "DeadlineExceeded"}), Some(Ended::Overdue)),
            // It had ended just before.
            (
                json!({"phase": "Failed", "containerStatuses": exited(4, "Error"), "reason": "DeadlineExceeded"}),
                Some(Ended::Exited { code: 4 }),
            ),
            // It had ended well before it was evicted.
            (
                json!({"phase": "Failed", "containerStatuses": exited(0, "Completed"), "conditions": target}),
                Some(Ended::Exited { code: 0 }),
            ),
            (
                json!({"phase": "Failed", "reason": "Evicted", "message": "disk pressure"}),
                Some(Ended::Evicted("Evicted: disk pressure".to_owned())),
            ),
            (
                json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "m"}),
                Some(Ended::Refused("UnexpectedAdmissionError: m".to_owned())),
            ),
            (json!({"phase": "Failed"}), Some(Ended::Crashed("its pod ended without a reason".to_owned()))),
            // Its kubelet will tell more in a moment.
            (json!({"phase": "Running", "containerStatuses": exited(143, "Error")}), None),
            (
                json!({"phase": "Running", "containerStatuses": beside(&exited(0, "Completed"))}),
                Some(Ended::Exited { code: 0 }),
            ),
            (json!({"phase": "Running", "containerStatuses": beside(&json!([]))}), None),
        ];
        for (status, expected) in table {
            assert_eq!(ended(&pod(&status)), expected, "{status}");
        }
    }

    #[test]
    fn only_an_eviction_for_a_limit_of_the_pods_own_is_a_failure() {
        let own = [
            r#"Usage of EmptyDir volume "data" exceeds the limit "4Gi". "#,
            r#"Usage of EmptyDir volume "tmp" exceeds the limit "1Gi". "#,
            r#"Container bench exceeded its local ephemeral storage limit "1280Mi". "#,
            "Pod ephemeral local storage usage exceeds the total limit of containers 1280Mi. ",
        ];
        let others = [
            "The node was low on resource: memory. ",
            "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 900Mi. ",
            // Kubernetes 1.25 and later, and before.
            "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 900Mi. Container bench was \
             using 20Gi, request is 1Gi, has larger consumption of ephemeral-storage. ",
            "The node was low on resource: ephemeral-storage. Container bench was using 20Gi, which exceeds its request of 1Gi. ",
            "The node had condition: [DiskPressure]. ",
            "Pod was rejected: The node had condition: [MemoryPressure]. ",
            // Injected beside the bench.
            r#"Usage of EmptyDir volume "proxy" exceeds the limit "1Mi". "#,
            r#"Container proxy exceeded its local ephemeral storage limit "1Mi". "#,
            // Texts of a future kubelet and of another program.
            "Usage of the node's quota exceeds the limit",
            r#"evicted by an agent: Usage of EmptyDir volume "data" exceeds the limit "4Gi". "#,
            "",
        ];
        let evicted = |message: &str, killed: bool| {
            let containers = if killed { exited(137, "Error") } else { json!([]) };
            ended(&pod(
                &json!({"phase": "Failed", "reason": "Evicted", "message": message, "containerStatuses": containers}),
            ))
        };
        for killed in [false, true] {
            for message in own {
                assert_eq!(evicted(message, killed), Some(Ended::OutgrewDisk(message.trim_end().to_owned())));
            }
            for message in others {
                assert!(matches!(evicted(message, killed), Some(Ended::Evicted(_))), "{message}");
            }
        }
        let other = json!({"phase": "Failed", "reason": "Terminated", "message": own[0]});
        assert!(matches!(ended(&pod(&other)), Some(Ended::Crashed(_))), "no eviction");
        let done = json!({"phase": "Failed", "reason": "Evicted", "message": own[0], "containerStatuses": exited(0, "Completed")});
        assert_eq!(ended(&pod(&done)), Some(Ended::Exited { code: 0 }), "it had ended before");
    }

    #[test]
    fn pending_pods_say_why() {
        let waiting = |state: Value| {
            json!({"phase": "Pending", "containerStatuses": [{"name": "bench", "image": "none:1", "imageID": "",
                "ready": false, "restartCount": 0, "state": {"waiting": state}}]})
        };
        let unscheduled = |phase: &str, conditions: Value| json!({"phase": phase, "conditions": conditions});
        let no_room =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"});
        let table = [
            (waiting(json!({"reason": "ImagePullBackOff"})), Some("ImagePullBackOff (none:1)")),
            (waiting(json!({"reason": "ErrImagePull", "message": "no such tag"})), Some("ErrImagePull: no such tag")),
            (waiting(json!({"reason": "CreateContainerConfigError"})), Some("CreateContainerConfigError")),
            (waiting(json!({})), Some("waiting")),
            // As it should be.
            (waiting(json!({"reason": "ContainerCreating"})), None),
            (waiting(json!({"reason": "ContainerCreating", "message": "m"})), Some("ContainerCreating: m")),
            (unscheduled("Pending", json!([no_room])), Some("Unschedulable: 0/3 nodes")),
            (unscheduled("Pending", json!([{"type": "PodScheduled", "status": "False"}])), Some("Unschedulable: ")),
            (
                unscheduled("Pending", json!([{"type": "Ready", "status": "False", "reason": "no"}, no_room])),
                Some("Unschedulable: 0/3 nodes"),
            ),
            (unscheduled("Pending", json!([{"type": "PodScheduled", "status": "True", "reason": "no"}])), None),
            (unscheduled("Running", json!([no_room])), None),
            (json!({"phase": "Running"}), None),
        ];
        for (status, why) in table {
            assert_eq!(why_waiting(&pod(&status)).as_deref(), why, "{status}");
        }
    }

    #[test]
    fn only_the_scheduler_says_that_there_is_no_room() {
        let said = |phase: &str, status: &str, reason: &str| {
            let condition = json!({"type": "PodScheduled", "status": status, "reason": reason, "message": "0/3 nodes"});
            unschedulable(&pod(&json!({"phase": phase, "conditions": [condition]}))).map(ToOwned::to_owned)
        };
        assert_eq!(said("Pending", "False", "Unschedulable").as_deref(), Some("0/3 nodes"));
        // A gate, an error of its own, and what was true once.
        for (phase, status, reason) in [
            ("Pending", "False", "SchedulingGated"),
            ("Pending", "False", "SchedulerError"),
            ("Pending", "True", "Unschedulable"),
            ("Running", "False", "Unschedulable"),
        ] {
            assert_eq!(said(phase, status, reason), None, "{phase} {status} {reason}");
        }
    }

    #[test]
    fn a_pod_is_pending_until_somebody_says_that_it_is_not() {
        let never: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}})).expect("a pod");
        assert!(is_pending(&never) && is_pending(&pod(&json!({}))) && is_pending(&pod(&json!({"phase": "Pending"}))));
        for phase in ["Running", "Succeeded", "Failed"] {
            assert!(!is_pending(&pod(&json!({"phase": phase}))), "{phase}");
        }
    }

    fn with_gates(phase: &str, gates: &Value) -> Pod {
        let spec = json!({"containers": [], "schedulingGates": gates});
        let pod = json!({"metadata": {"name": "p"}, "spec": spec, "status": {"phase": phase}});
        serde_json::from_value(pod).expect("a pod")
    }

    #[test]
    fn a_gate_holds_back_only_what_has_not_started() {
        let gate = |phase: &str, gates: Value| gate(&with_gates(phase, &gates));
        let (queue, own) = (json!({"name": "queue"}), json!({"name": "assay.rocks/node"}));
        assert_eq!(gate("Pending", json!([queue])), Some(Gate::Queue));
        assert_eq!(gate("Pending", json!([own, queue])), Some(Gate::Queue));
        assert_eq!(gate("Pending", json!([own])), Some(Gate::Node));
        assert_eq!((gate("Pending", json!([])), gate("Pending", Value::Null)), (None, None));
        assert_eq!(gate("Running", json!([queue])), None);
    }

    #[test]
    fn a_node_is_used_by_what_runs_there_or_will() {
        let uses = |phase: &str, gates: &Value| uses_node(&with_gates(phase, gates));
        let (none, queue) = (Value::Null, json!([{"name": "queue"}]));
        assert!(uses("Pending", &none) && uses("Running", &none) && uses("Running", &queue));
        assert!(!uses("Pending", &queue) && !uses("Succeeded", &none) && !uses("Failed", &none));
    }

    #[test]
    fn last_words_are_those_of_the_bench() {
        let words = |status: &Value| message(&pod(status)).map(ToOwned::to_owned);
        let said = |text: &str| {
            let mut containers = beside(&exited(4, "Error"));
            containers[0]["state"]["terminated"]["message"] = text.into();
            // Whoever put it there may end with words, too.
            containers[1]["state"] = json!({"terminated": {"exitCode": 0, "message": "other words"}});
            containers.as_array_mut().expect("containers").reverse();
            json!({"phase": "Failed", "containerStatuses": containers})
        };
        assert_eq!(words(&said("last words")).as_deref(), Some("last words"));
        assert_eq!(words(&said(" \n")), None, "that says nothing");
        assert_eq!(words(&json!({"phase": "Failed"})), None);
        assert_eq!(words(&json!({"phase": "Running", "containerStatuses": beside(&json!([]))})), None);
    }

    /// Each state of a pod's life, and whether it is news after the one before.
    #[test]
    fn a_pod_wakes_when_it_ends_and_when_it_starts_late() {
        let ready = |status: &str| json!([{"type": "PodScheduled", "status": status, "reason": "Unschedulable", "message": "full"}]);
        let waiting = |reason: &str, message: Option<&str>| {
            json!([{"name": "bench", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": reason, "message": message}}}])
        };
        let gated = |gates: &[&str]| {
            let gates: Vec<_> = gates.iter().map(|name| json!({"name": name})).collect();
            json!({"spec": {"containers": [], "schedulingGates": gates}, "status": {"phase": "Pending"}})
        };
        let with = |status: Value| json!({"status": status});
        let deleted = |mut pod: Value| {
            pod["metadata"] = json!({"deletionTimestamp": "2026-01-02T03:04:05Z"});
            pod
        };
        let pending = || with(json!({"phase": "Pending"}));
        let running = || with(json!({"phase": "Running"}));
        let over = || with(json!({"phase": "Succeeded", "containerStatuses": exited(0, "Completed")}));
        let mut before = Value::Null;
        for (step, now, is_news) in [
            ("made", pending(), false),
            ("found no room", with(json!({"phase": "Pending", "conditions": ready("False")})), true),
            ("bound", with(json!({"phase": "Pending", "conditions": ready("True")})), true),
            (
                "on its node",
                with(json!({"phase": "Pending", "containerStatuses": waiting("ContainerCreating", None)})),
                false,
            ),
            (
                "without its image",
                with(json!({"phase": "Pending", "containerStatuses": waiting("ErrImagePull", Some("no"))})),
                true,
            ),
            ("running at last", running(), true),
            ("ready", with(json!({"phase": "Running", "conditions": ready("True"), "podIP": "10.0.0.1"})), false),
            ("ended", over(), true),
            ("deleted at its end", deleted(over()), false),
            ("ended in another way", with(json!({"phase": "Failed", "reason": "OutOfcpu"})), true),
            ("made again", pending(), true),
            ("running as expected", running(), false),
            ("deleted before it ran", deleted(pending()), true),
            ("running again", running(), true),
            ("deleted while it runs", deleted(running()), true),
            ("in a queue", gated(&["queue", NODE_GATE]), true),
            ("out of it", gated(&[NODE_GATE]), true),
            ("let run", gated(&[]), true),
        ] {
            let matters = matters(&serde_json::from_value(now).unwrap_or_else(|error| unreachable!("{error}")));
            assert_eq!(matters != before, is_news, "{step}: {matters}");
            before = matters;
        }
    }
}
