//! Events about objects, as `kubectl describe` shows them. What is said again within minutes is counted in the event that said it first;
//! kube's recorder would count there what says something else as well, and its text would be lost.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use assay_protocol::Digest;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::events::EventType;
use kube::{Api, Client};
use serde_json::json;

use crate::clock::SharedClock;
use crate::error::{Error, call};
use crate::lock::locked;

/// For how long an event counts what is said again. By then the API server may have forgotten it.
const COUNTED: Duration = Duration::from_mins(6);

const REPORTER: &str = "assay-operator";

/// Writes events.
pub struct Events {
    client: Client,
    /// This replica.
    identity: String,
    clock: SharedClock,
    /// By what they say.
    recent: Mutex<BTreeMap<Digest, Recent>>,
}

/// An event that was written a moment ago.
#[derive(Clone)]
struct Recent {
    name: String,
    count: u32,
    at: Instant,
}

/// What an event says, and about what.
pub struct Saying<'a> {
    pub about: &'a ObjectReference,
    /// Something else that it is about, such as a trial of an experiment.
    pub related: Option<ObjectReference>,
    pub type_: EventType,
    pub reason: &'a str,
    pub note: String,
}

impl Saying<'_> {
    fn digest(&self) -> Result<Digest, Error> {
        let is_warning = self.type_ == EventType::Warning;
        Ok(Digest::of_json(&(self.about, &self.related, is_warning, self.reason, &self.note))?)
    }
}

impl Events {
    pub fn new(client: &Client, identity: &str, clock: SharedClock) -> Self {
        Self { client: client.clone(), identity: identity.to_owned(), clock, recent: Mutex::default() }
    }

    pub async fn publish(&self, saying: &Saying<'_>) -> Result<(), Error> {
        let says = saying.digest()?;
        let namespace = saying.about.namespace.as_deref().unwrap_or("default");
        let api = Api::<Event>::namespaced(self.client.clone(), namespace);
        if let Some(known) = self.recent(&says) {
            let count = known.count + 1;
            let series = json!({"series": {"count": count, "lastObservedTime": MicroTime(self.clock.time())}});
            match call(api.patch(&known.name, &PatchParams::default(), &Patch::Merge(&series))).await {
                Ok(_) => {
                    self.remember(says, known.name, count);
                    return Ok(());
                }
                // Somebody has removed it.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let event = self.event(saying, &says);
        let name = event.metadata.name.clone().unwrap_or_default();
        call(api.create(&PostParams::default(), &event)).await?;
        self.remember(says, name, 1);
        Ok(())
    }

    /// The event that says the same, if there is one. Older ones are forgotten.
    fn recent(&self, says: &Digest) -> Option<Recent> {
        let mut recent = locked(&self.recent);
        recent.retain(|_, known| self.clock.since(known.at) < COUNTED);
        recent.get(says).cloned()
    }

    fn remember(&self, says: Digest, name: String, count: u32) {
        locked(&self.recent).insert(says, Recent { name, count, at: self.clock.instant() });
    }

    fn event(&self, saying: &Saying<'_>, says: &Digest) -> Event {
        let now = self.clock.time();
        // Whoever else says the same, and we ourselves at another time, have another name for it.
        let unique = Digest::of(format!("{says} {} {}", self.identity, now.as_nanosecond()).as_bytes());
        let name = saying.about.name.as_deref().unwrap_or(REPORTER);
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:.16}", unique.as_str())),
                namespace: saying.about.namespace.clone(),
                ..ObjectMeta::default()
            },
            action: Some("Reconcile".to_owned()),
            event_time: Some(MicroTime(now)),
            note: Some(saying.note.clone()),
            reason: Some(saying.reason.to_owned()),
            regarding: Some(saying.about.clone()),
            related: saying.related.clone(),
            reporting_controller: Some(REPORTER.to_owned()),
            reporting_instance: Some(self.identity.clone()),
            type_: Some(if saying.type_ == EventType::Warning { "Warning" } else { "Normal" }.to_owned()),
            ..Event::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::testing::Manual;
    use crate::http::testing::{Asked, answering_each};

    /// What the API server is asked where these are said one after another, each so long after the one before; it answers with these.
    async fn asked(answers: &[u16], said: &[(u64, &str, &str)]) -> Vec<Asked> {
        let about = ObjectReference {
            name: Some("nightly".to_owned()),
            namespace: Some("team".to_owned()),
            uid: Some("u".to_owned()),
            ..ObjectReference::default()
        };
        let body = |status: u16| match status {
            404 => json!({"kind": "Status", "code": 404, "reason": "NotFound"}),
            _ => json!({"metadata": {"name": "e"}, "eventTime": null}),
        };
        let (client, asked) =
            answering_each(answers.iter().map(|status| (*status, body(*status).to_string())).collect());
        let clock = Manual::new();
        let events = Events::new(&client, "me", Arc::clone(&clock) as SharedClock);
        for (after, reason, note) in said {
            clock.pass(Duration::from_secs(*after));
            let saying =
                Saying { about: &about, related: None, type_: EventType::Warning, reason, note: (*note).to_owned() };
            events.publish(&saying).await.expect("it is written");
        }
        asked.join().expect("requests")
    }

    fn is_new(asked: &Asked) -> bool {
        asked.what == "POST /apis/events.k8s.io/v1/namespaces/team/events"
    }

    #[tokio::test]
    async fn what_says_something_else_is_another_event() {
        let said = [(0, "ChangeConfirmed", "c1"), (1, "ChangeConfirmed", "c2"), (1, "CulpritFound", "c2")];
        let asked = asked(&[201; 3], &said).await;
        assert!(asked.iter().all(is_new), "{:?}", asked.iter().map(|one| &one.what).collect::<Vec<_>>());
        for (asked, (_, reason, note)) in asked.iter().zip(said) {
            assert_eq!((&asked.body["reason"], &asked.body["note"]), (&json!(reason), &json!(note)));
        }
    }

    #[tokio::test]
    async fn what_is_said_again_soon_is_counted() {
        let asked =
            asked(&[201, 200, 200, 201], &[(0, "R", "n"), (359, "R", "n"), (359, "R", "n"), (360, "R", "n")]).await;
        assert!(is_new(&asked[0]) && is_new(&asked[3]), "later it is news");
        let name = asked[0].body["metadata"]["name"].as_str().expect("a name");
        for (at, count) in [(1, 2), (2, 3)] {
            assert_eq!(asked[at].what, format!("PATCH /apis/events.k8s.io/v1/namespaces/team/events/{name}"));
            assert_eq!(asked[at].body["series"]["count"], count);
        }
        assert_ne!(asked[3].body["metadata"]["name"], name);
    }

    #[tokio::test]
    async fn an_event_that_was_removed_is_written_anew() {
        let asked = asked(&[201, 404, 201], &[(0, "R", "n"), (1, "R", "n")]).await;
        assert!(is_new(&asked[0]) && !is_new(&asked[1]) && is_new(&asked[2]));
        let event = &asked[0].body;
        assert_eq!((&event["type"], &event["action"]), (&json!("Warning"), &json!("Reconcile")));
        assert_eq!(
            (&event["reportingController"], &event["reportingInstance"]),
            (&json!("assay-operator"), &json!("me"))
        );
        assert_eq!(event["regarding"]["uid"], "u");
    }
}
