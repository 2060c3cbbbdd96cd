//! The attempts that trials tell of.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

use assay_api::TuningTrial;
use assay_protocol::TrialId;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::attempt;
use crate::attempt::Attempt;
use crate::plan::Plan;

/// An attempt that can't be understood, so nothing can be judged.
#[derive(Clone, Debug, thiserror::Error)]
#[error("attempt {attempt} of trial {trial} can't be read: {why}")]
pub struct Unfit {
    pub trial: String,
    pub attempt: u32,
    pub why: String,
}

/// A trial that tells of its attempts.
pub trait Told {
    fn object(&self) -> &TuningTrial;

    /// Those that have ended, in the order of its status.
    fn attempts(&self) -> Result<Vec<Attempt>, Unfit>;
}

impl Told for TuningTrial {
    fn object(&self) -> &TuningTrial {
        self
    }

    fn attempts(&self) -> Result<Vec<Attempt>, Unfit> {
        let told = self.status.as_ref().map_or(&[][..], |status| &status.attempts);
        let read = told.iter().map(|status| {
            attempt(&self.spec, status).map_err(|why| Unfit {
                trial: self.metadata.name.clone().unwrap_or_default(),
                attempt: status.attempt,
                why,
            })
        });
        read.collect()
    }
}

/// The attempts that the trials of a plan tell of. To read a summary takes longer than all that follows from it, so a trial is looked at
/// again only where it is another version, or was read anew.
#[derive(Default)]
pub struct Attempts {
    all: BTreeSet<InPlan>,
    /// By the name of their trial.
    read: HashMap<String, Read>,
    updates: u64,
}

/// What was read of a trial.
struct Read {
    version: Option<String>,
    /// Where it was. One that was read anew is elsewhere and has summaries of its own, which would be kept beside those of before.
    place: usize,
    attempts: Vec<Attempt>,
    /// The last update that had this trial.
    seen: u64,
}

/// An attempt in the order of the plan. It has the id that it is sorted by: there may be ten thousand, and no room for each twice.
struct InPlan(Attempt);

impl Borrow<TrialId> for InPlan {
    fn borrow(&self) -> &TrialId {
        self.0.trial()
    }
}

impl Ord for InPlan {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.trial().cmp(other.0.trial())
    }
}

impl PartialOrd for InPlan {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for InPlan {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for InPlan {}

impl Attempts {
    /// Goes by these trials from now on.
    pub fn update<'a, T: Told + 'a>(
        &mut self,
        plan: &Plan,
        trials: impl IntoIterator<Item = &'a T>,
    ) -> Result<(), Unfit> {
        self.updates += 1;
        let mut there = 0;
        for trial in trials.into_iter().filter(|trial| trial.object().spec.plan == plan.digest.as_str()) {
            there += 1;
            let ObjectMeta { name, resource_version: version, .. } = &trial.object().metadata;
            let name = name.as_deref().unwrap_or_default();
            match self.read.get_mut(name) {
                Some(read) if version.is_some() && read.version == *version && read.place == place(trial) => {
                    read.seen = self.updates;
                }
                _ => self.read(name, trial)?,
            }
        }
        if self.read.len() > there {
            let gone: Vec<String> =
                self.read.iter().filter(|(_, read)| read.seen < self.updates).map(|(name, _)| name.clone()).collect();
            for name in gone {
                self.forget(&name);
            }
        }
        Ok(())
    }

    /// In the order of the plan.
    pub fn all(&self) -> Vec<Attempt> {
        self.all.iter().map(|InPlan(attempt)| attempt.clone()).collect()
    }

    fn read(&mut self, name: &str, trial: &impl Told) -> Result<(), Unfit> {
        self.forget(name);
        let attempts = trial.attempts()?;
        for attempt in &attempts {
            self.all.replace(InPlan(attempt.clone()));
        }
        let version = trial.object().metadata.resource_version.clone();
        self.read.insert(name.to_owned(), Read { version, place: place(trial), attempts, seen: self.updates });
        Ok(())
    }

    fn forget(&mut self, name: &str) {
        for attempt in self.read.remove(name).into_iter().flat_map(|read| read.attempts) {
            self.all.remove(attempt.trial());
        }
    }
}

fn place(trial: &impl Told) -> usize {
    std::ptr::from_ref(trial.object()).addr()
}

/// Every attempt that these trials tell of, in the order of the plan.
pub fn attempts<'a>(plan: &Plan, trials: impl IntoIterator<Item = &'a TuningTrial>) -> Result<Vec<Attempt>, Unfit> {
    let mut attempts = Attempts::default();
    attempts.update(plan, trials)?;
    Ok(attempts.all())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use assay_api::{AttemptStatus, TuningTrialStatus};
    use proptest::prelude::*;

    use super::*;
    use crate::cluster::{spec, trial_name};
    use crate::gates::testing::{experiment, plan};

    /// What happens to the trials of a plan: position of a trial, and attempts that it has from then on; none is the end of it.
    type Change = (usize, Option<Vec<u32>>);

    fn trial(plan: &Plan, position: usize, attempts: &[u32], version: u64) -> TuningTrial {
        let id = plan.trials().nth(position).unwrap_or_else(|| unreachable!());
        let mut trial = TuningTrial::new(&trial_name("e", &id), spec(plan, &id, 1, "n0"));
        trial.metadata.resource_version = Some(version.to_string());
        let lost = |attempt: &u32| AttemptStatus {
            attempt: *attempt,
            reason: Some("Evicted".to_owned()),
            message: Some(version.to_string()),
            ..AttemptStatus::default()
        };
        let attempts = attempts.iter().map(lost).collect();
        trial.status = Some(TuningTrialStatus { attempts, ..TuningTrialStatus::default() });
        trial
    }

    proptest! {
        #[test]
        fn what_is_read_once_is_what_is_there(
            changes in prop::collection::vec(
                (0..6_usize, prop::option::weighted(0.8, prop::collection::vec(0..4_u32, 0..3))), 1..30),
        ) {
            let plan = plan(&experiment());
            let (mut known, mut there) = (Attempts::default(), BTreeMap::new());
            let changes: Vec<Change> = changes;
            for (version, (position, attempts)) in (1..).zip(&changes) {
                match attempts {
                    Some(attempts) => drop(there.insert(*position, trial(&plan, *position, attempts, version))),
                    None => drop(there.remove(position)),
                }
                known.update(&plan, there.values()).unwrap_or_else(|error| unreachable!("{error}"));
                let anew = attempts_of(there.values());
                prop_assert_eq!(known.all(), anew);
            }
        }
    }

    /// As a list of what each trial says.
    fn attempts_of<'a>(trials: impl IntoIterator<Item = &'a TuningTrial>) -> Vec<Attempt> {
        let told = trials.into_iter().flat_map(|trial| {
            let own = trial.status.iter().flat_map(|status| &status.attempts);
            own.map(|status| attempt(&trial.spec, status).unwrap_or_else(|error| unreachable!("{error}")))
        });
        let told: BTreeMap<TrialId, Attempt> = told.map(|attempt| (attempt.trial().clone(), attempt)).collect();
        told.into_values().collect()
    }

    #[test]
    fn what_was_read_anew_is_not_kept_beside_what_was_read_before() {
        struct Kept(TuningTrial, Vec<Attempt>);

        impl Told for Kept {
            fn object(&self) -> &TuningTrial {
                &self.0
            }

            fn attempts(&self) -> Result<Vec<Attempt>, Unfit> {
                Ok(self.1.clone())
            }
        }

        let plan = plan(&experiment());
        let read = || {
            let object = trial(&plan, 0, &[0], 7);
            let attempts = object.attempts().unwrap_or_else(|error| unreachable!("{error}"));
            Box::new(Kept(object, attempts))
        };
        let (first, again) = (read(), read());
        let mut known = Attempts::default();
        for kept in [&first, &again, &again] {
            known.update(&plan, [&**kept]).unwrap_or_else(|error| unreachable!("{error}"));
        }
        let (Attempt::Lost(before), Attempt::Lost(now)) = (&first.1[0], &again.1[0]) else { unreachable!() };
        assert_eq!(Arc::strong_count(before), 1);
        assert!(Arc::strong_count(now) > 1 && known.all() == again.1);
    }

    #[test]
    fn what_has_the_version_that_was_read_is_not_read_again() {
        let plan = plan(&experiment());
        let mut known = Attempts::default();
        let mut told = trial(&plan, 0, &[0], 7);
        known.update(&plan, [&told]).unwrap_or_else(|error| unreachable!("{error}"));
        let before = known.all();
        told.status.as_mut().unwrap_or_else(|| unreachable!()).attempts[0].reason = Some("Bored".to_owned());
        assert!(known.update(&plan, [&told]).is_ok(), "it is not read");
        assert_eq!(known.all(), before);
        told.metadata.resource_version = Some("8".to_owned());
        let refused = known.update(&plan, [&told]).map_err(|error| error.to_string());
        assert!(refused.is_err_and(|why| why.contains("unknown reason")), "it is");
        told.metadata.resource_version = None;
        assert!(known.update(&plan, [&told]).is_err(), "without a version it is read each time");
    }
}
