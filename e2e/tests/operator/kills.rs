//! The operator is killed at every moment of a trial's life, and loses nothing by it.

use std::collections::BTreeMap;
use std::time::Duration;

use assay_api::{TuningTrial, names};
use futures::StreamExt;
use futures::stream::select;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::experiment::{self, condition};
use crate::lab::{Lab, rounds};
use crate::pods;
use crate::scene::Scene;

/// How often the operator is killed within one experiment.
const KILLS: usize = 25;
/// Below twelve there are no looks, so that all trials are wanted.
const BLOCKS: usize = 11;

/// What a trial is like for somebody who looks at its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// There is a trial, and no pod yet.
    Planned,
    Created,
    Running,
    /// The pod has ended, and nobody wrote down how.
    Exited,
    /// That is written down, and the pod is still there.
    Collected,
    Deleted,
}

const STATES: [State; 6] =
    [State::Planned, State::Created, State::Running, State::Exited, State::Collected, State::Deleted];

enum Change {
    Trial(Box<watcher::Event<TuningTrial>>),
    Pod(Box<watcher::Event<Pod>>),
}

#[derive(Default)]
struct Objects {
    /// Attempts that are written down, by trial.
    trials: BTreeMap<String, Vec<u32>>,
    /// Attempt and phase of the pod, by trial.
    pods: BTreeMap<String, (u32, String)>,
}

impl Objects {
    /// Takes a change in, and says which trial it was about.
    fn take(&mut self, change: Change) -> Option<String> {
        use watcher::Event::{Apply, Delete, InitApply};
        match change {
            Change::Trial(event) => {
                let (Apply(trial) | InitApply(trial)) = *event else { return None };
                let attempts = trial.status.iter().flat_map(|status| &status.attempts);
                self.trials.insert(trial.name_any(), attempts.map(|attempt| attempt.attempt).collect());
                Some(trial.name_any())
            }
            Change::Pod(event) => {
                let (Apply(pod) | InitApply(pod) | Delete(pod)) = event.as_ref() else { return None };
                let trial = Some(pods::trial(pod)).filter(|_| pods::role(pod) == names::ROLE_TRIAL)?.to_owned();
                if matches!(*event, Delete(_)) {
                    self.pods.remove(&trial);
                } else {
                    self.pods.insert(trial.clone(), (pods::attempt(pod), pods::phase(pod).to_owned()));
                }
                Some(trial)
            }
        }
    }

    fn state(&self, trial: &str) -> Option<State> {
        let attempts = self.trials.get(trial)?;
        Some(match self.pods.get(trial) {
            None if attempts.is_empty() => State::Planned,
            None => State::Deleted,
            Some((attempt, _)) if attempts.contains(attempt) => State::Collected,
            Some((_, phase)) => match phase.as_str() {
                "Pending" => State::Created,
                "Running" => State::Running,
                _ => State::Exited,
            },
        })
    }
}

/// The states that trials come into, as they do.
fn states(lab: &Lab) -> UnboundedReceiver<State> {
    let trials = watcher(lab.api::<TuningTrial>(), watcher::Config::default()).default_backoff();
    let trials = trials.filter_map(|event| async { event.ok().map(|event| Change::Trial(event.into())) });
    let changes = select(trials, pods::changes(lab.api()).map(|event| Change::Pod(event.into())));
    let (sender, receiver) = unbounded_channel();
    tokio::spawn(async move {
        let mut changes = std::pin::pin!(changes);
        let (mut objects, mut last) = (Objects::default(), BTreeMap::new());
        while let Some(change) = changes.next().await {
            let Some(trial) = objects.take(change) else { continue };
            let Some(state) = objects.state(&trial) else { continue };
            if last.insert(trial, state) != Some(state) && sender.send(state).is_err() {
                return;
            }
        }
    });
    receiver
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_operator_loses_no_trial_and_repeats_none() {
    for _ in 0..rounds() {
        let mut scene = Scene::new("kills", |bench| bench).await;
        let mut states = states(&scene.lab);
        scene.begin(|spec| spec["repetitions"] = json!(BLOCKS)).await;
        for kill in 0..KILLS {
            let wanted = STATES[kill % STATES.len()];
            // What happened while nobody was there to be killed does not count.
            while states.try_recv().is_ok() {}
            loop {
                let seen = tokio::time::timeout(Duration::from_mins(1), states.recv()).await;
                if seen == Ok(Some(wanted)) {
                    break;
                }
                let status = scene.lab.status(&scene.name).await;
                if seen.is_err() || condition(&status, names::FINISHED).is_some_and(|found| found.status == "True") {
                    scene.lab.fail(&format!("no trial came into {wanted:?} for kill {}", kill + 1)).await;
                }
            }
            scene.operator.kill();
            scene.operator.start_again();
        }
        scene.lab.decided(&scene.name, "Win", BLOCKS).await;
        scene.lost(&[]).await;
        assert_eq!(scene.witness.ran(), experiment::trials(BLOCKS));
        scene.witness.saw_nothing_wrong(&scene.lab).await;
        scene.lab.close().await;
    }
}
