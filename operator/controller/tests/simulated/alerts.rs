//! What must hold of messages about changes: whoever waits for one gets it, with one id however often it is sent, and not once more when it
//! is known to have arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use assay_api::names::WEBHOOK_LABEL;
use assay_api::{TuningExperimentSpec, TuningSweepSpec, TuningSweepStatus};
use assay_controller::{Mail, Message};
use assay_core::attempt::Attempt;
use assay_core::plan::Plan;
use assay_core::sweep::night::{self, Ended};
use assay_core::sweep::notify::{TRIES, Target, id};
use assay_core::sweep::{History, Night, Ring, Trigger};
use assay_core::validate::validate;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper::StatusCode;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::api::{Change, Key, Server};
use super::bench::undisturbed;
use super::client::{Fate, Way};
use super::law::{Actor, Law, Made};
use super::machines::KIND;
use super::random::Random;

/// Where messages go.
pub const HOST: &str = "hooks.example";
const SECRET: &str = "hooks";
/// Nights before the change, and since: as many as make any detector suspect it.
const GOOD: i64 = 16;
const BAD: i64 = 8;

/// Makes a sweep whose subject has become worse: visits will say so, and then a message.
pub fn create(server: &mut Server, namespace: &str, mut sweep: Value, random: &mut Random) {
    let spec = &mut sweep["spec"];
    spec["schedule"] = "17 1 1 1 *".into();
    spec["detect"] = json!({"visitGapSeconds": 60});
    let key = json!({"name": SECRET, "key": "token"});
    spec["notify"] = json!({"webhook": {"url": format!("https://{HOST}/changes"), "secretRef": key}});
    let secret = json!({"metadata": {"name": SECRET, "labels": {WEBHOOK_LABEL: "true"}}, "data": {"token": "a2V5"}});
    server.create("secrets", namespace, secret).unwrap();
    for history in history(server.time(), &sweep, random) {
        server.create("tuninghistories", namespace, history).unwrap();
    }
    server.create("tuningsweeps", namespace, sweep).unwrap();
}

/// The objects of a history whose subject had more jobs at first.
fn history(now: Timestamp, sweep: &Value, random: &mut Random) -> Vec<Value> {
    let name = sweep["metadata"]["name"].as_str().unwrap();
    let minute = Timestamp::from_second(now.as_second() / 60 * 60).unwrap();
    let mut ring = Ring::read(name, []);
    let lines: String = (1..=GOOD + BAD)
        .map(|days| {
            let mut spec = sweep["spec"].clone();
            if days > BAD {
                spec["subjects"][0]["dbOptions"]["max_background_jobs"] = "8".into();
            }
            let spec: TuningSweepSpec = serde_json::from_value(spec).unwrap();
            let at = minute - SignedDuration::from_hours(24 * days);
            measured(name, at, &night::experiment(&spec), random).line().unwrap() + "\n"
        })
        .collect();
    let (_, change) = ring.import(&lines).unwrap();
    change.write.into_iter().map(|object| serde_json::to_value(ring.stored(object, "", None)).unwrap()).collect()
}

/// A night of which nothing is left but what is remembered.
fn measured(sweep: &str, night: Timestamp, spec: &TuningExperimentSpec, random: &mut Random) -> Night {
    let plan = Plan::new(validate(sweep, spec).experiment.unwrap()).unwrap();
    let slots = plan.blocks.iter().flat_map(|block| (0..block.slots.len()).map(move |slot| (block, slot)));
    let attempts: Vec<Attempt> = slots
        .map(|(block, slot)| Attempt::Finished(Arc::new(undisturbed(plan.trial_spec(block, slot, 0).unwrap(), random))))
        .collect();
    let ended = Ended {
        sweep,
        night,
        trigger: Trigger::Schedule,
        run_now: None,
        visit: None,
        experiment: sweep,
        spec,
        machines: BTreeSet::from([KIND.to_owned()]),
        bench: Some("bench:1"),
    };
    Night { experiment: None, ..ended.entry(&plan, &attempts, &History::new(sweep)).unwrap() }
}

/// The way from a start of the operator to the endpoint.
pub struct Post(pub Way);

impl Mail for Post {
    fn post<'a>(&'a self, target: &'a Target, message: Message) -> BoxFuture<'a, anyhow::Result<StatusCode>> {
        self.send(target.authority(), message).boxed()
    }
}

impl Post {
    async fn send(&self, to: String, message: Message) -> anyhow::Result<StatusCode> {
        let Way { world, number } = &self.0;
        let sent = world.now();
        if self.0.is_dead() {
            return std::future::pending().await;
        }
        let (fate, out, back) = world.with(None, |inner| {
            let fate = inner.luck(*number, sent);
            (fate, inner.weather.latency(&mut inner.random), inner.weather.latency(&mut inner.random))
        });
        tokio::time::sleep(out).await;
        if fate.is_heard() {
            let body: Value = serde_json::from_str(&message.body)?;
            world.note(&format!("operator-{number} tells {to} {}", body["id"]));
            let by = Actor::Operator { number: *number, sent };
            world.with(None, |inner| inner.law.is_told(&body, by));
        }
        tokio::time::sleep(back).await;
        match fate {
            Fate::Answered => Ok(StatusCode::NO_CONTENT),
            Fate::Refused(_) => Ok(StatusCode::SERVICE_UNAVAILABLE),
            Fate::Broken { .. } => anyhow::bail!("broken"),
            Fate::Silent { .. } => std::future::pending().await,
            Fate::Killed { .. } => {
                world.with(None, |inner| inner.kill(*number, sent));
                std::future::pending().await
            }
        }
    }
}

/// What there was of messages, by their id.
#[derive(Default)]
pub struct Alerts {
    /// Those of which a status says that they are to be sent.
    due: BTreeSet<String>,
    /// Those of which one says that they have arrived, and who has written that.
    delivered: BTreeMap<String, Made>,
    /// Those that have arrived, as they were.
    arrived: BTreeMap<String, Value>,
    /// The last one of each change, with its stage.
    last: BTreeMap<String, (String, String)>,
}

impl Law {
    /// A message arrives.
    fn is_told(&mut self, body: &Value, by: Actor) {
        let id = body["id"].as_str().unwrap_or_default().to_owned();
        if !self.alerts.due.contains(&id) {
            self.breaks(format!("{id} was told, and it is not written down that it is to be"));
        }
        if let Some(delivered) = self.alerts.delivered.get(&id)
            && self.knew(by, *delivered)
        {
            self.breaks(format!("{id} was told, though it is written down that it has arrived"));
        }
        let first = self.alerts.arrived.entry(id.clone()).or_insert_with(|| body.clone());
        if first != body {
            let wrong = format!("{id} was told twice: {first} and {body}");
            self.breaks(wrong);
        }
    }

    pub fn see_sweep(&mut self, change: &Change, made: Made) {
        let Some(sweep) = change.after.as_deref() else { return };
        let status: TuningSweepStatus = serde_json::from_value(sweep["status"].clone()).unwrap_or_default();
        for known in &status.changes {
            let Some(notified) = &known.notified else { continue };
            let id = id(&known.name, &notified.stage, notified.time.0);
            let last = (notified.stage.clone(), id.clone());
            if let Some((stage, before)) = self.alerts.last.insert(known.name.clone(), last)
                && stage == notified.stage
                && before != id
            {
                self.breaks(format!("{id} is to be told, and {before} says the same"));
            }
            self.alerts.due.insert(id.clone());
            if notified.delivered_time.is_some() {
                if !self.alerts.arrived.contains_key(&id) {
                    self.breaks(format!("{id} is said to have arrived"));
                }
                self.alerts.delivered.entry(id).or_insert(made);
            }
        }
    }
}

/// What is not over yet of the changes of a sweep, if anybody is to be told of them.
pub fn open(server: &Server, key: &Key) -> Option<String> {
    let sweep = server.get(key).filter(|sweep| sweep["spec"]["notify"].is_object())?;
    let status: TuningSweepStatus = serde_json::from_value(sweep["status"].clone()).unwrap_or_default();
    // A node that is gone is of no kind, and nights on other machines begin a new segment.
    let is_new = status.state.as_deref() == Some("Learning");
    if status.changes.is_empty() && !is_new {
        return Some(format!("{key} has a change, and says nothing of it"));
    }
    status.changes.iter().find_map(|change| {
        let name = &change.name;
        match &change.notified {
            _ if change.stage == "Suspected" || change.stage == "Confirming" => {
                Some(format!("{name} is neither confirmed nor refuted: {}", change.stage))
            }
            None if change.stage == "Regressed" => Some(format!("nobody is told of {name}")),
            Some(known) if known.delivered_time.is_none() && known.tries < TRIES => {
                Some(format!("{name} is {}, which has not arrived", known.stage))
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const REGRESSED: &str = "candidate-20261031-0000.regressed.20261102T000400Z";

    fn by(seconds: u64) -> Actor {
        Actor::Operator { number: 0, sent: Duration::from_secs(seconds) }
    }

    /// The status says of a message of this time how it stands.
    fn written(law: &mut Law, seconds: u64, time: &str, has_arrived: bool) {
        let notified = json!({"stage": "Regressed", "time": time, "tries": u32::from(has_arrived),
            "deliveredTime": has_arrived.then_some(time)});
        let change = json!({"name": "candidate-20261031-0000", "subject": "candidate", "stage": "Regressed", "message": "",
            "notified": notified});
        let sweep = json!({"status": {"changes": [change], "nightsMeasured": 1}});
        assert!(serde_json::from_value::<TuningSweepStatus>(sweep["status"].clone()).is_ok());
        let (key, at) = (Key::new("tuningsweeps", "team-0", "nightly"), Duration::from_secs(seconds));
        let change = Change { revision: 1, at, key, before: None, after: Some(Arc::new(sweep)) };
        law.see_sweep(&change, Made { at, by: by(seconds), plural: "tuningsweeps" });
    }

    fn told(law: &mut Law, seconds: u64, text: &str) {
        law.is_told(&json!({"id": REGRESSED, "data": text}), by(seconds));
    }

    #[test]
    fn what_may_not_be_is_found() {
        const TIME: &str = "2026-11-02T00:04:00Z";
        type World = fn(&mut Law);
        let table: [(World, Option<&str>); 6] = [
            // An answer may have been lost, and what was written a moment ago is not known yet.
            (
                |law| {
                    written(law, 1, TIME, false);
                    told(law, 2, "");
                    told(law, 9, "");
                    written(law, 10, TIME, true);
                    told(law, 10, "");
                },
                None,
            ),
            (|law| told(law, 2, ""), Some("it is not written down that it is to be")),
            (
                |law| {
                    written(law, 1, TIME, false);
                    told(law, 2, "");
                    written(law, 3, TIME, true);
                    told(law, 20, "");
                },
                Some("though it is written down that it has arrived"),
            ),
            (
                |law| {
                    written(law, 1, TIME, false);
                    told(law, 2, "");
                    told(law, 9, "other");
                },
                Some("was told twice"),
            ),
            (|law| written(law, 1, TIME, true), Some("is said to have arrived")),
            (
                |law| {
                    written(law, 1, TIME, false);
                    written(law, 2, "2026-11-02T00:05:00Z", false);
                },
                Some("says the same"),
            ),
        ];
        for (number, (world, expected)) in table.into_iter().enumerate() {
            let mut law = Law::default();
            world(&mut law);
            let is_so = match (&law.wrong, expected) {
                (Some(wrong), Some(expected)) => wrong.contains(expected),
                (found, _) => found.is_none() && expected.is_none(),
            };
            assert!(is_so, "{number}: {:?}", law.wrong);
        }
    }
}
