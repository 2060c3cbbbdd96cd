//! Messages about changes to the webhook of a sweep. A task of its own sends each, so that no reconcile and no night waits for an endpoint;
//! the status of the sweep says what was sent, so that nothing is forgotten when the operator or its leader changes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assay_api::names::WEBHOOK_LABEL;
use assay_api::{KnownChange, Notified, SecretRef, TuningSweep, TuningSweepStatus};
use assay_core::sweep::notify::{Source, TRIES, Target, due, event, tried, wait};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::events::EventType;
use tracing::{Instrument as _, warn};

use super::memory::Known;
use super::{Reconcile, status};
use crate::cluster::Cluster;
use crate::error::call;
use crate::experiment::whole_second;
use crate::lock::locked;
use crate::task;
use crate::watch::{Tell, Touched, Wiring};

/// Messages that are under way at once, over all and in a namespace: slow endpoints of one team leave room for others.
const AT_ONCE: usize = 16;
const OF_A_NAMESPACE: usize = 2;
/// When to look again whether there is room.
const BUSY: Duration = Duration::from_secs(30);

/// What sends messages.
pub struct Notifier {
    turns: Arc<Turns>,
    tell: Tell,
}

/// What came of a try, until the status has it.
pub struct Told {
    change: String,
    before: Notified,
    after: Notified,
}

impl Told {
    fn is_of(&self, change: &KnownChange) -> bool {
        self.change == change.name && change.notified.as_ref() == Some(&self.before)
    }
}

impl Notifier {
    pub fn new(wiring: &Wiring) -> Self {
        Self { turns: Arc::default(), tell: wiring.tell() }
    }
}

/// Takes over what is known of messages, adds what came of a try, and says which changes are to be told.
pub fn carry(reconcile: &Reconcile<'_>, before: &TuningSweepStatus, after: &mut TuningSweepStatus) {
    if reconcile.sweep.spec.notify.is_none() {
        return;
    }
    let memory = reconcile.context.memories.of(reconcile.sweep);
    let memory = memory.lock();
    for change in &mut after.changes {
        let was = before.changes.iter().find(|known| known.name == change.name);
        let told = memory.told.as_ref().filter(|told| was.is_some_and(|was| told.is_of(was)));
        let known = told.map(|told| &told.after).or(was.and_then(|was| was.notified.as_ref()));
        // What a sweep finds in a history that it has not seen grow is no news.
        let found = (before.nights_measured == 0).then_some(change.stage.as_str());
        let stage = was.map(|was| was.stage.as_str()).or(found);
        change.notified = due(known, stage, &change.stage, whole_second(reconcile.now));
    }
}

/// Begins to send the message that is due next, if there is one. The status has been written.
pub fn send(reconcile: &mut Reconcile<'_>, known: &Known) {
    let Some(notify) = &reconcile.sweep.spec.notify else { return };
    let status = status::latest(reconcile);
    let Some((wait, change, before)) = next(&status, reconcile.now) else { return };
    if !wait.is_zero() {
        return reconcile.wake_in(wait);
    }
    let Some(found) = known.changes.iter().find(|known| known.name == change.name) else { return };
    let context = reconcile.context;
    let notifier = &context.notifier;
    let Some(turn) = notifier.turns.take(&reconcile.namespace, &reconcile.name) else {
        return reconcile.wake_in(BUSY);
    };
    let memory = context.memories.of(reconcile.sweep);
    if let Some(told) = &memory.lock().told
        && status.changes.iter().any(|change| told.is_of(change))
    {
        // The next status has it: whoever sent it has asked for one.
        return;
    }
    let source = Source { namespace: &reconcile.namespace, sweep: &reconcile.name };
    let body = event(source, found, &before.stage, before.time.0).to_string();
    let (change, before, webhook) = (change.name.clone(), before.clone(), notify.webhook.clone());
    let (cluster, tell) = (Arc::clone(&context.cluster), notifier.tell.clone());
    let touched = Touched::one::<TuningSweep>(reconcile.namespace.clone(), reconcile.name.clone());
    let namespace = reconcile.namespace.clone();
    let clock = Arc::clone(&cluster.clock);
    let delivering = async move {
        match Target::parse(&webhook.url) {
            Ok(target) => deliver(&cluster, &namespace, (&target, &webhook.secret_ref), body).await,
            Err(why) => Err(format!("spec.notify.webhook.url {why}")),
        }
    };
    let sending = async move {
        // One that panics is a try like any other: it would be made again for ever.
        let result =
            task::begin(delivering.in_current_span()).await.unwrap_or_else(|_| Err("sending it crashed".to_owned()));
        if let Err(error) = &result {
            warn!(change, error, "a message was not delivered");
        }
        let after = tried(&before, whole_second(clock.time()), &result);
        memory.lock().told = Some(Told { change, before, after });
        // Only now may another one of this sweep be sent.
        drop(turn);
        tell.touched(touched);
    };
    tokio::spawn(sending.in_current_span());
}

/// The message that is due first; of several the one about the oldest change.
fn next(status: &TuningSweepStatus, now: Timestamp) -> Option<(Duration, &KnownChange, &Notified)> {
    let open = status.changes.iter().rev().filter_map(|change| {
        let notified = change.notified.as_ref()?;
        Some((Duration::try_from(wait(notified, now)?).ok()?, change, notified))
    });
    open.min_by_key(|(wait, _, notified)| (*wait, notified.next_try_time.clone()))
}

async fn deliver(
    cluster: &Cluster,
    namespace: &str,
    (target, secret): (&Target, &SecretRef),
    body: String,
) -> Result<(), String> {
    // Before anything is read for it.
    cluster.webhooks.check(target)?;
    let found = call(cluster.api::<Secret>(namespace).get_opt(&secret.name)).await;
    let found = found.map_err(|error| {
        warn!(secret = secret.name, %error, "can't read a Secret");
        format!("the operator can't read the Secret {}", secret.name)
    })?;
    let key = key(found.as_ref(), &secret.key).ok_or_else(|| {
        format!(
            "no Secret {} with the label {WEBHOOK_LABEL}: \"true\" and a value for the key {}",
            secret.name, secret.key
        )
    })?;
    cluster.webhooks.post(target, key, body).await
}

/// The key to sign with. Who may edit sweeps need not be allowed to read Secrets, so one that does not say that it is for this is as good as
/// none, and so is one that is not there.
fn key<'a>(secret: Option<&'a Secret>, key: &str) -> Option<&'a [u8]> {
    let secret = secret.filter(|secret| secret.labels().get(WEBHOOK_LABEL).is_some_and(|value| value == "true"))?;
    let value = secret.data.as_ref()?.get(key)?;
    (!value.0.is_empty()).then_some(value.0.as_slice())
}

/// What is wrong with the messages of a sweep, for people: they can't be sent, or one was given up.
pub fn trouble(reconcile: &Reconcile<'_>, after: &TuningSweepStatus) -> Option<String> {
    let webhook = &reconcile.sweep.spec.notify.as_ref()?.webhook;
    let target = Target::parse(&webhook.url).ok()?;
    let refused = reconcile.context.cluster.webhooks.check(&target).err();
    refused.map(|why| format!("spec.notify.webhook.url: {why}")).or_else(|| after.changes.iter().find_map(given_up))
}

/// Tells of messages that were given up.
pub async fn publish(reconcile: &Reconcile<'_>, before: &TuningSweepStatus, after: &TuningSweepStatus) {
    for note in after.changes.iter().filter_map(given_up) {
        if !before.changes.iter().filter_map(given_up).any(|known| known == note) {
            reconcile.publish(EventType::Warning, "NotificationFailed", &note).await;
        }
    }
}

fn given_up(change: &KnownChange) -> Option<String> {
    let notified =
        change.notified.as_ref().filter(|own| own.next_try_time.is_none() && own.delivered_time.is_none())?;
    let error = notified.error.as_deref().unwrap_or_default();
    Some(format!("the message that {} is {} was not delivered in {TRIES} tries: {error}", change.name, notified.stage))
}

/// Who sends a message now, by namespace and name: one of a sweep at once.
#[derive(Default)]
struct Turns(Mutex<BTreeSet<(String, String)>>);

/// Given back when it is dropped, also by a task that panics.
struct Turn {
    turns: Arc<Turns>,
    of: (String, String),
}

impl Turns {
    fn take(self: &Arc<Self>, namespace: &str, sweep: &str) -> Option<Turn> {
        let mut all = locked(&self.0);
        let of_namespace = all.iter().filter(|(other, _)| other == namespace).count();
        let of = (namespace.to_owned(), sweep.to_owned());
        let has_room = all.len() < AT_ONCE && of_namespace < OF_A_NAMESPACE;
        (has_room && all.insert(of.clone())).then(|| Turn { turns: Arc::clone(self), of })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        locked(&self.turns.0).remove(&self.of);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sweep_sends_one_message_at_once_and_a_namespace_two() {
        let turns = Arc::new(Turns::default());
        let first = turns.take("team", "a").expect("room");
        assert!(turns.take("team", "a").is_none(), "one of a sweep");
        let _second = turns.take("team", "b").expect("room");
        assert!(turns.take("team", "c").is_none(), "two of a namespace");
        let others: Vec<Turn> = (0..).map_while(|number| turns.take(&format!("team-{number}"), "a")).collect();
        assert_eq!(others.len(), AT_ONCE - 2);
        assert!(turns.take("team", "c").is_none());
        drop(first);
        assert!(turns.take("team", "a").is_some(), "given back");
    }

    #[test]
    fn only_a_secret_that_is_for_webhooks_is_used() {
        let secret = |labels: serde_json::Value, data: serde_json::Value| -> Secret {
            serde_json::from_value(json!({"metadata": {"name": "s", "labels": labels}, "data": data})).unwrap()
        };
        let label = || json!({"assay.rocks/webhook": "true"});
        // "key"
        let sound = secret(label(), json!({"token": "a2V5"}));
        assert_eq!(key(Some(&sound), "token"), Some(b"key".as_slice()));
        assert_eq!(key(Some(&sound), "other"), None);
        assert_eq!(key(Some(&secret(label(), json!({"token": ""}))), "token"), None, "everybody has this key");
        assert_eq!(
            key(Some(&secret(json!({"assay.rocks/webhook": "false"}), json!({"token": "a2V5"}))), "token"),
            None
        );
        assert_eq!(key(Some(&secret(json!({}), json!({"token": "a2V5"}))), "token"), None);
        assert_eq!(key(None, "token"), None);
    }

    #[test]
    fn the_message_that_waits_longest_is_next() {
        let status = |changes: serde_json::Value| -> TuningSweepStatus {
            serde_json::from_value(json!({"changes": changes})).unwrap()
        };
        let change = |name: &str, notified: serde_json::Value| json!({"name": name, "stage": "Regressed", "message": "", "notified": notified});
        let notified = |next: Option<&str>| json!({"stage": "Regressed", "time": "2026-12-01T01:00:00Z", "tries": 10, "nextTryTime": next, "error": "the endpoint answered 500"});
        let waits = status(json!([
            change("c", notified(Some("2026-12-01T01:02:00Z"))),
            change("b", notified(Some("2026-12-01T01:01:00Z"))),
            change("a", notified(Some("2026-12-01T01:01:00Z"))),
        ]));
        let now = "2026-12-01T01:05:00Z".parse().unwrap();
        assert_eq!(next(&waits, now).map(|(_, change, _)| change.name.as_str()), Some("a"));
        assert!(waits.changes.iter().all(|change| given_up(change).is_none()));
        let over = status(json!([change("a", notified(None)), {"name": "b", "stage": "Improved", "message": ""}]));
        assert!(next(&over, now).is_none());
        assert_eq!(
            over.changes.iter().filter_map(given_up).collect::<Vec<_>>(),
            ["the message that a is Regressed was not delivered in 10 tries: the endpoint answered 500"]
        );
    }
}
