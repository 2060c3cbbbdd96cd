//! The pods of trials as somebody sees them who watches: when each was made and when it ended.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use assay_api::names;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::watcher::Event;
use tokio::task::AbortHandle;

use crate::lab::Lab;
use crate::pods;

#[derive(Default)]
struct Seen {
    node: String,
    made: Duration,
    ended: Option<Duration>,
}

/// By the uid of a pod. Times count from when the watch began.
#[derive(Default)]
pub struct Course {
    pods: HashMap<String, Seen>,
    /// Of the turns before this one.
    before: Vec<Course>,
}

impl Course {
    fn see(&mut self, pod: &Pod, now: Duration) {
        let seen =
            self.pods.entry(pod.uid().unwrap_or_default()).or_insert_with(|| Seen { made: now, ..Seen::default() });
        if seen.node.is_empty() {
            pods::node(pod).clone_into(&mut seen.node);
        }
        if matches!(pods::phase(pod), "Succeeded" | "Failed") {
            seen.ended.get_or_insert(now);
        }
    }

    /// This turn and another one.
    pub fn and(mut self, other: Self) -> Self {
        self.before.push(other);
        self
    }

    fn turns(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.before)
    }

    /// Pods that have ended, in all turns.
    pub fn ended(&self) -> usize {
        self.turns().map(|turn| turn.pods.values().filter(|pod| pod.ended.is_some()).count()).sum()
    }

    /// From the first pod that was made to the last that ended.
    fn span(&self) -> Duration {
        let first = self.pods.values().map(|pod| pod.made).min().unwrap_or_default();
        self.pods.values().filter_map(|pod| pod.ended).max().unwrap_or_default().saturating_sub(first)
    }

    /// Trials a second.
    pub fn rate(&self) -> f64 {
        self.ended() as f64 / self.turns().map(Self::span).sum::<Duration>().as_secs_f64()
    }

    /// How long nodes had nothing to do, from the end of each pod to when the next one was made: in order.
    pub fn gaps(&self) -> Vec<Duration> {
        let mut gaps: Vec<Duration> = self.turns().flat_map(Self::own_gaps).collect();
        gaps.sort_unstable();
        gaps
    }

    fn own_gaps(&self) -> Vec<Duration> {
        let mut nodes: BTreeMap<&str, Vec<&Seen>> = BTreeMap::new();
        for pod in self.pods.values() {
            nodes.entry(&pod.node).or_default().push(pod);
        }
        let mut gaps = Vec::new();
        for pods in nodes.values_mut() {
            pods.sort_unstable_by_key(|pod| pod.made);
            let next = pods.windows(2).filter_map(|two| Some(two[1].made.saturating_sub(two[0].ended?)));
            gaps.extend(next);
        }
        gaps
    }
}

#[cfg(test)]
impl Course {
    /// Of pods on one node, each made and ended in these seconds.
    pub fn testing(pods: &[(u64, u64)]) -> Self {
        let [made, ended] =
            [|pod: &(u64, u64)| Duration::from_secs(pod.0), |pod: &(u64, u64)| Duration::from_secs(pod.1)];
        let seen = pods.iter().map(|pod| Seen { node: "n0".to_owned(), made: made(pod), ended: Some(ended(pod)) });
        Self { pods: seen.enumerate().map(|(uid, pod)| (uid.to_string(), pod)).collect(), before: Vec::new() }
    }
}

/// A course that goes on.
pub struct Watched {
    course: Arc<Mutex<Course>>,
    task: AbortHandle,
}

impl Watched {
    /// Whatever is made after this is seen.
    pub async fn start(lab: &Lab) -> Self {
        let mut changes = Box::pin(pods::changes(lab.api()));
        while !matches!(changes.next().await, Some(Event::InitDone)) {}
        let (course, began) = (Arc::<Mutex<Course>>::default(), Instant::now());
        let shared = Arc::clone(&course);
        let task = tokio::spawn(async move {
            while let Some(event) = changes.next().await {
                if let Event::Apply(pod) | Event::InitApply(pod) | Event::Delete(pod) = event
                    && pods::role(&pod) == names::ROLE_TRIAL
                {
                    shared.lock().expect("the course").see(&pod, began.elapsed());
                }
            }
        });
        Self { course, task: task.abort_handle() }
    }

    pub fn ended(&self) -> usize {
        self.course.lock().expect("the course").ended()
    }

    pub fn end(self) -> Course {
        self.task.abort();
        std::mem::take(&mut self.course.lock().expect("the course"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, node: &str, phase: &str) -> Pod {
        let pod =
            json!({"metadata": {"uid": uid}, "spec": {"nodeName": node, "containers": []}, "status": {"phase": phase}});
        serde_json::from_value(pod).expect("a pod")
    }

    fn course(seen: Vec<(u64, Pod)>) -> Course {
        let mut course = Course::default();
        for (second, pod) in seen {
            course.see(&pod, Duration::from_secs(second));
        }
        course
    }

    #[test]
    fn gaps_are_those_of_each_node() {
        let first = course(vec![
            (10, pod("a", "", "Pending")),
            (11, pod("a", "n0", "Running")),
            (11, pod("b", "n1", "Running")),
            (13, pod("a", "n0", "Succeeded")),
            // Seen again while it goes.
            (14, pod("a", "n0", "Succeeded")),
            (15, pod("c", "n0", "Pending")),
            (16, pod("b", "n1", "Failed")),
            (20, pod("c", "n0", "Succeeded")),
            // Never ends.
            (21, pod("d", "n1", "Running")),
        ]);
        let seconds = |course: &Course| course.gaps().iter().map(Duration::as_secs).collect::<Vec<_>>();
        assert_eq!(seconds(&first), [2, 5]);
        assert_eq!((first.ended(), first.rate()), (3, 0.3));
        let second = course(vec![(0, pod("e", "n0", "Pending")), (5, pod("e", "n0", "Succeeded"))]);
        let both = first.and(second);
        assert_eq!((both.ended(), both.rate()), (4, 4.0 / 15.0));
        assert_eq!(seconds(&both), [2, 5], "nothing is between two turns");
    }
}
