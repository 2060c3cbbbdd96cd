//! What must hold of sweeps: a minute makes one night, what is remembered of it never changes, and it is told of once.

use std::collections::{BTreeMap, BTreeSet};

use assay_api::names::{NIGHT_ANNOTATION, SWEEP_LABEL};
use assay_api::{TuningExperimentSpec, TuningHistory};
use assay_core::sweep::night::Ended;
use assay_core::sweep::{History, Night, Object, Outcome, Ring};
use serde_json::Value;

use super::api::{Change, Key, Server};
use super::law::{Law, Made, text};

/// What there was of nights. One world has one sweep at most.
#[derive(Default)]
pub struct Nights {
    /// Those that are remembered, by their minute, and who has written that.
    remembered: BTreeMap<String, (Night, Made)>,
    /// What was told.
    told: BTreeMap<(String, String), Made>,
}

/// The minute of the night that an experiment is of.
fn minute(experiment: &Value) -> Option<&str> {
    experiment["metadata"]["annotations"][NIGHT_ANNOTATION].as_str()
}

impl Nights {
    /// Whether nobody waits for this experiment: it is of no night, or of one that is remembered.
    pub fn is_remembered(&self, experiment: &Value) -> bool {
        minute(experiment).is_none_or(|minute| self.remembered.contains_key(minute))
    }

    #[cfg(test)]
    pub fn minutes(&self) -> Vec<k8s_openapi::jiff::Timestamp> {
        self.remembered.values().map(|(night, _)| night.night).collect()
    }

    /// Outcomes of nights, or the reasons of gaps, by time.
    #[cfg(test)]
    pub fn outcomes(&self) -> Vec<String> {
        let outcome = |night: &Night| night.reason.clone().unwrap_or_else(|| format!("{:?}", night.outcome));
        self.remembered.values().map(|(night, _)| outcome(night)).collect()
    }
}

impl Law {
    pub fn begins_night(&mut self, change: &Change, made: Made) {
        let Some(minute) = minute(change.object()) else { return };
        if let Some((_, earlier)) = self.nights.remembered.get(minute)
            && self.knew(made.by, *earlier)
        {
            self.breaks(format!("{} was begun, though what became of {minute} is remembered", change.key));
        }
    }

    pub fn see_history(&mut self, server: &Server, change: &Change, made: Made) {
        let sweep = text(change.object(), &format!("/metadata/labels/{}", SWEEP_LABEL.replace('/', "~1"))).to_owned();
        let objects = server.all("tuninghistories").map(|(_, object)| (**object).clone());
        let objects = objects.map(|object| serde_json::from_value::<TuningHistory>(object).unwrap());
        let ring = Ring::read(&sweep, objects.map(Object::from));
        if let Some(damaged) = ring.damaged().first() {
            return self.breaks(format!("{} can't be read: {damaged}", change.key));
        }
        let now: BTreeMap<String, &Night> =
            ring.history().nights().map(|night| (night.night.to_string(), night)).collect();
        if now.len() != ring.history().nights().count() {
            self.breaks(format!("{} has a night twice", change.key));
        }
        let changed = self.nights.remembered.iter().find(|(minute, (night, _))| now.get(*minute) != Some(&night));
        if let Some((minute, _)) = changed {
            let wrong = format!("{}: what was remembered of {minute} has changed", change.key);
            self.breaks(wrong);
        }
        for (minute, night) in now {
            if self.nights.remembered.contains_key(&minute) {
                continue;
            }
            if !self.follows_from_trials(server, change, night, ring.history()) {
                self.breaks(format!("{}: what is remembered of {minute} does not follow from its trials", change.key));
            }
            self.nights.remembered.insert(minute, (night.clone(), made));
        }
    }

    /// What a night has measured is what anybody gets who judges its trials from scratch.
    fn follows_from_trials(&mut self, server: &Server, change: &Change, night: &Night, history: &History) -> bool {
        let name =
            night.experiment.as_deref().filter(|_| matches!(night.outcome, Outcome::Measured | Outcome::Visited));
        let experiment = name.and_then(|name| server.get(&Key::new("tuningexperiments", &change.key.namespace, name)));
        // Somebody may have deleted it meanwhile.
        let (Some(name), Some(experiment)) = (name, experiment) else { return true };
        let spec: TuningExperimentSpec = serde_json::from_value(experiment["spec"].clone()).unwrap();
        let Some((plan, attempts)) = self.tried_last(experiment) else { return false };
        let ended = Ended {
            sweep: &night.sweep,
            night: night.night,
            trigger: night.trigger,
            run_now: night.run_now.clone(),
            visit: night.visit.as_ref(),
            experiment: name,
            spec: &spec,
            machines: BTreeSet::new(),
            bench: None,
        };
        let expected = ended.entry(plan, &attempts, history);
        expected.is_ok_and(|expected| {
            (&expected.points, &expected.gaps, &expected.visit) == (&night.points, &night.gaps, &night.visit)
        })
    }

    /// Of two leaders, each tells.
    pub fn see_event(&mut self, change: &Change, made: Made) {
        let event = change.object();
        let (reason, note) = (text(event, "/reason"), text(event, "/note"));
        let is_last = ["NightMeasured", "NightSkipped", "NightMissed", "NightFailed"].contains(&reason);
        if !is_last {
            return;
        }
        let earlier = self.nights.told.insert((reason.to_owned(), note.to_owned()), made);
        if earlier.is_some_and(|earlier| self.knew(made.by, earlier)) {
            self.breaks(format!("it was told twice that {reason}: {note}"));
        }
    }
}
