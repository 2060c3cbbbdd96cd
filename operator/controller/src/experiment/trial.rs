//! A trial as the operator keeps it. There may be ten thousand, so of each is kept what somebody asks for, and that once.

use std::borrow::Cow;
use std::ops::Deref;

use assay_api::{TuningTrial, TuningTrialStatus};
use assay_core::attempt::Attempt;
use assay_core::cluster::{Told, Unfit};
use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use kube::api::{Api, ObjectMeta};
use serde::{Deserialize, Deserializer};

use crate::error::{Error, call};

/// A trial, with what the summaries of its attempts say in place of their text.
#[derive(Clone, Debug)]
pub struct Trial {
    object: TuningTrial,
    /// In the order of its status. Where they can't be understood, their text is kept.
    attempts: Result<Vec<Attempt>, Unfit>,
}

impl Trial {
    /// Of all that the API server has of it.
    pub fn new(mut object: TuningTrial) -> Self {
        let mut attempts = object.attempts();
        // Lists that were read have room for more than is in them.
        if let Ok(attempts) = &mut attempts {
            attempts.shrink_to_fit();
        }
        let ObjectMeta { labels, annotations, managed_fields, owner_references, .. } = &mut object.metadata;
        (*labels, *annotations, *managed_fields) = (None, None, None);
        if let Some(owners) = owner_references {
            owners.shrink_to_fit();
        }
        if let Some(status) = &mut object.status {
            if attempts.is_ok() {
                status.attempts.iter_mut().for_each(|attempt| attempt.summary = None);
            }
            status.attempts.shrink_to_fit();
            status.conditions.shrink_to_fit();
        }
        Self { object, attempts }
    }

    /// Whether it tells of an attempt that left a summary.
    pub fn has_summary(&self, number: u32) -> bool {
        self.with_summary().contains(&number)
    }

    /// The numbers of such attempts.
    fn with_summary(&self) -> Vec<u32> {
        let told = self.status.iter().flat_map(|status| &status.attempts);
        match &self.attempts {
            Ok(attempts) => {
                let finished = |attempt: &Attempt| matches!(attempt, Attempt::Finished(_));
                told.zip(attempts).filter(|(_, read)| finished(read)).map(|(told, _)| told.attempt).collect()
            }
            Err(_) => self.status.iter().flat_map(with_text).collect(),
        }
    }

    /// Its status with the text of summaries, for which the API server is asked: whoever writes a status writes them again.
    pub async fn status_to_change(&self, api: &Api<TuningTrial>) -> Result<TuningTrialStatus, Error> {
        if self.attempts.is_err() || self.with_summary().is_empty() {
            return Ok(self.status.clone().unwrap_or_default());
        }
        let there = call(api.get(self.name())).await?;
        let version = |meta: &ObjectMeta| (meta.uid.clone(), meta.resource_version.clone());
        if version(&there.metadata) != version(&self.metadata) {
            return Err(Error::Changed(format!("trial {}", self.name())));
        }
        Ok(there.status.unwrap_or_default())
    }

    /// Refuses a status without a summary that is written down.
    pub fn check_keeps(&self, status: &TuningTrialStatus) -> Result<(), Error> {
        let kept: Vec<u32> = with_text(status).collect();
        let lost = self.with_summary().into_iter().find(|number| !kept.contains(number));
        lost.map_or(Ok(()), |number| {
            let message = format!("the summary of attempt {number} of trial {} would be lost", self.name());
            Err(Error::Unexpected(message))
        })
    }

    fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }
}

/// The numbers of attempts whose summary is there.
fn with_text(status: &TuningTrialStatus) -> impl Iterator<Item = u32> {
    status.attempts.iter().filter(|attempt| attempt.summary.is_some()).map(|attempt| attempt.attempt)
}

impl Deref for Trial {
    type Target = TuningTrial;

    fn deref(&self) -> &TuningTrial {
        &self.object
    }
}

impl Told for Trial {
    fn object(&self) -> &TuningTrial {
        &self.object
    }

    fn attempts(&self) -> Result<Vec<Attempt>, Unfit> {
        self.attempts.clone()
    }
}

impl<'de> Deserialize<'de> for Trial {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        TuningTrial::deserialize(deserializer).map(Self::new)
    }
}

impl Resource for Trial {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        TuningTrial::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        TuningTrial::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        TuningTrial::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        TuningTrial::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        self.object.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.object.meta_mut()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::http::testing::answering;

    const OBJECTS: &str = include_str!("../../../core/tests/frozen/v8/objects.json");

    /// One whose only attempt has a summary.
    fn whole() -> TuningTrial {
        let objects: Vec<Value> = serde_json::from_str(OBJECTS).unwrap_or_else(|error| unreachable!("{error}"));
        let mut trial = objects.into_iter().find(|object| object["kind"] == "TuningTrial").unwrap_or_default();
        trial["metadata"]["managedFields"] = json!([{"manager": "assay", "operation": "Update"}]);
        trial["metadata"]["annotations"] = json!({"a": "b"});
        serde_json::from_value(trial).unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn said(trial: &impl Told) -> Result<Vec<Attempt>, String> {
        trial.attempts().map_err(|error| error.to_string())
    }

    fn status(trial: &TuningTrial) -> TuningTrialStatus {
        trial.status.clone().unwrap_or_default()
    }

    fn summary(trial: &mut TuningTrial) -> &mut Option<String> {
        &mut trial.status.get_or_insert_default().attempts[0].summary
    }

    #[test]
    fn what_a_summary_says_is_kept_in_place_of_its_text() {
        let mut whole = whole();
        let kept = Trial::new(whole.clone());
        assert_eq!(said(&kept), said(&whole));
        assert!(matches!(said(&kept).as_deref(), Ok([Attempt::Finished(_)])));
        assert_eq!((&kept.metadata.annotations, &kept.metadata.managed_fields), (&None, &None));
        assert!(kept.has_summary(0) && !kept.has_summary(1));
        assert!(kept.check_keeps(&status(&whole)).is_ok());
        let lost = kept.check_keeps(&status(&kept)).map_err(|error| error.to_string());
        assert_eq!(lost, Err("the summary of attempt 0 of trial frozen-0 would be lost".to_owned()));
        let json = json!(whole);
        *summary(&mut whole) = None;
        assert_eq!(status(&kept), status(&whole), "and nothing else is left out");
        let read: Trial = serde_json::from_value(json).unwrap_or_else(|error| unreachable!("{error}"));
        assert_eq!((said(&read), status(&read)), (said(&kept), status(&kept)));
    }

    #[test]
    fn a_text_that_says_nothing_is_kept() {
        let mut whole = whole();
        *summary(&mut whole) = Some("{".to_owned());
        let kept = Trial::new(whole.clone());
        assert!(said(&kept).is_err_and(|why| said(&whole) == Err(why)));
        assert_eq!(status(&kept), status(&whole));
        assert!(kept.has_summary(0) && !kept.has_summary(1));
        *summary(&mut whole) = None;
        assert!(kept.check_keeps(&status(&whole)).is_err());
    }

    #[tokio::test]
    async fn whoever_changes_a_status_gets_the_text_from_the_api_server() {
        let mut whole = whole();
        let (client, requested) = answering(200, &json!(whole).to_string());
        let api = Api::namespaced(client, "bench");
        let changing = async |trial: &TuningTrial| Trial::new(trial.clone()).status_to_change(&api).await.ok();
        assert_eq!(changing(&whole).await, Some(status(&whole)));
        let requested = requested.join().unwrap_or_else(|_| unreachable!());
        assert_eq!(requested.what, "GET /apis/assay.rocks/v1alpha1/namespaces/bench/tuningtrials/frozen-0");
        let mut later = whole.clone();
        later.metadata.resource_version = Some("8".to_owned());
        let (client, _) = answering(200, &json!(later).to_string());
        let changed = Trial::new(whole.clone()).status_to_change(&Api::namespaced(client, "bench")).await;
        assert!(changed.is_err_and(|error| error.is_conflict()), "somebody has written it meanwhile");
        // The server answers no more: nobody is asked for what is there.
        *summary(&mut whole) = Some("{".to_owned());
        assert_eq!(changing(&whole).await, Some(status(&whole)));
        (*summary(&mut whole), whole.status.get_or_insert_default().attempts[0].reason) =
            (None, Some("Evicted".to_owned()));
        assert_eq!(changing(&whole).await, Some(status(&whole)));
    }
}
