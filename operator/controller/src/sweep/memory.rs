//! What is remembered of each sweep from one reconcile to the next. Nothing in here is needed after a restart.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use assay_api::{TuningExperiment, TuningSweep};
use assay_core::sweep::confirm::Change;
use assay_core::sweep::culprit::{Unlisted, unlisted};
use assay_core::sweep::detect::{Cause, Suspicion, Watch};
use assay_core::sweep::next::Remembered;
use assay_core::sweep::{Outcome, Ring, Standing, standings, worst};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;

use super::notify::Told;
use crate::lock::locked;
use crate::watch::version;

/// The memory of one sweep.
#[derive(Default)]
pub struct Memory {
    uid: String,
    /// What a generation of the spec was found to be.
    pub checked: Option<Arc<Checked>>,
    /// What the history says.
    pub known: Option<Known>,
    /// As the API server had it when its status was written last.
    pub written: Option<TuningSweep>,
    /// What came of the latest message.
    pub told: Option<Told>,
    /// Experiments that were just made, which the watch may not have told of yet; `None` of those that were just deleted.
    made: BTreeMap<String, Option<Arc<TuningExperiment>>>,
}

/// What is known of a spec without anything else.
#[derive(Debug, Default)]
pub struct Checked {
    pub generation: Option<i64>,
    /// What is wrong with it, a line each.
    pub problems: Vec<String>,
    /// Number of series.
    pub series: u32,
    pub watch: Watch,
}

/// What of a history decides, and what a status shows of it: the history itself is too large to be kept.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub remembered: Remembered,
    pub measured: u32,
    pub last_skipped: Option<(Timestamp, String, String)>,
    pub consecutive_skips: u32,
    /// The worst level, in words.
    pub level: Option<String>,
    /// Where each series stands.
    pub standings: Vec<Standing>,
    /// The outcome of each night that has an experiment, by the experiment's name.
    pub measured_experiments: BTreeMap<String, bool>,
    /// Series that are suspected to have moved.
    pub suspects: usize,
    /// All have, and no subject was changed.
    pub is_reference_broken: bool,
    /// Time at which the yearly budget of confirmations was used up; `None` while another one may start.
    pub spent_since: Option<Timestamp>,
    /// What confirmations are or were about, the oldest first.
    pub changes: Vec<Change>,
    /// Why those of them that are to be searched are not, by their name.
    pub unlisted: BTreeMap<String, Unlisted>,
    /// Objects of the history that can't be read.
    pub damaged: Vec<String>,
}

impl Known {
    pub fn of(ring: &Ring, watch: &Watch) -> Self {
        let history = ring.history();
        let unmeasured =
            history.nights().rev().find(|night| night.is_of_series() && night.outcome != Outcome::Measured);
        let standings = standings(history);
        let watched = history.watched(watch);
        let changes = history.changes(&watched);
        let unlisted =
            |change: &Change| Some((change.name.clone(), unlisted(history, change, watch.bisect.as_ref()?)?));
        let suspicions: Vec<&Suspicion> = watched.iter().filter_map(|own| own.suspicion.as_ref()).collect();
        Self {
            remembered: Remembered { kept_from: ring.kept_from(), ..Remembered::of(history, watch) },
            measured: history.nights().filter(|night| night.outcome == Outcome::Measured).count() as u32,
            last_skipped: unmeasured.map(|night| {
                (night.night, night.reason.clone().unwrap_or_default(), night.message.clone().unwrap_or_default())
            }),
            consecutive_skips: history.unmeasured() as u32,
            level: worst(&standings),
            standings,
            measured_experiments: history
                .nights()
                .filter_map(|night| {
                    Some((night.experiment.clone()?, matches!(night.outcome, Outcome::Measured | Outcome::Visited)))
                })
                .collect(),
            suspects: suspicions.len(),
            spent_since: watched.first().and_then(|own| own.spent_since),
            is_reference_broken: suspicions.iter().any(|own| own.cause == Cause::ReferenceBroken),
            unlisted: changes.iter().filter_map(unlisted).collect(),
            changes,
            damaged: ring.damaged().iter().map(ToString::to_string).collect(),
        }
    }
}

impl Memory {
    pub fn made(&mut self, experiment: TuningExperiment) {
        self.made.insert(experiment.name_any(), Some(Arc::new(experiment)));
    }

    pub fn gone(&mut self, experiment: &TuningExperiment) {
        self.made.insert(experiment.name_any(), None);
    }

    /// Names of those that were made and that the watch does not know.
    pub fn unseen(&self, watched: &[Arc<TuningExperiment>]) -> Vec<String> {
        let is_unseen = |name: &&String| watched.iter().all(|experiment| experiment.name_any() != **name);
        let made = self.made.iter().filter(|(_, made)| made.is_some()).map(|(name, _)| name);
        made.filter(is_unseen).cloned().collect()
    }

    pub fn forget(&mut self, name: &str) {
        self.made.remove(name);
    }

    /// Experiments as they are: those of a watch, which may be late, and what was done since.
    pub fn with(&mut self, watched: Vec<Arc<TuningExperiment>>) -> Vec<Arc<TuningExperiment>> {
        let mut all: BTreeMap<String, Arc<TuningExperiment>> =
            watched.into_iter().map(|experiment| (experiment.name_any(), experiment)).collect();
        self.made.retain(|name, made| match (all.get(name), &*made) {
            // The watch has caught up.
            (Some(seen), Some(made)) => version(&**seen) < version(&**made),
            (None, None) => false,
            (None, Some(_)) | (Some(_), None) => true,
        });
        for (name, made) in &self.made {
            match made {
                Some(made) => _ = all.insert(name.clone(), Arc::clone(made)),
                None => _ = all.remove(name),
            }
        }
        all.into_values().collect()
    }
}

/// The memories of all sweeps.
#[derive(Default)]
pub struct Memories(Mutex<HashMap<(String, String), Shared>>);

/// A memory that others may look into while its sweep is reconciled.
#[derive(Clone, Default)]
pub struct Shared(Arc<Mutex<Memory>>);

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Memory> {
        locked(&self.0)
    }
}

impl Memories {
    pub fn of(&self, sweep: &TuningSweep) -> Shared {
        let name = (sweep.namespace().unwrap_or_default(), sweep.name_any());
        let memory = locked(&self.0).entry(name).or_default().clone();
        let uid = sweep.uid().unwrap_or_default();
        let mut known = memory.lock();
        if known.uid != uid {
            *known = Memory { uid, ..Memory::default() };
        }
        drop(known);
        memory
    }

    /// Forgets sweeps that are gone.
    pub fn prune(&self, known: &[Arc<TuningSweep>]) {
        let names: Vec<(String, String)> =
            known.iter().map(|sweep| (sweep.namespace().unwrap_or_default(), sweep.name_any())).collect();
        locked(&self.0).retain(|name, _| names.contains(name));
    }
}
