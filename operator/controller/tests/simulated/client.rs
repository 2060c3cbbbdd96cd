//! The way from an operator to the API server and back: it takes time, and loses requests and answers. Here, too, is what a careless
//! operator would do: see [`Bug`].

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use assay_api::names::NODE_LEASE_PREFIX;
use futures::future::BoxFuture;
use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tower::{BoxError, Service};

use super::api::{Answer, Asked, Key, Selector, kind_of, refusal};
use super::law::{Actor, text, uid};
use super::world::{Inner, World};

/// What is planted to be found: each is what an operator would do that leaves out one of its safeguards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// What is written or deleted is whatever has the name by now.
    NoPrecondition,
    /// A node is taken whoever holds it: its Lease is written, and nobody looks at whose it was.
    LeaseNotChecked,
    /// What the API server is asked, a cache answers, which is half a minute behind.
    CacheForTruth,
    /// Two replicas lead at the same time, and don't look at the version of what they write.
    TwoLeaders,
    /// Some pods that should be deleted are not, however often that is asked for.
    LostDelete,
    /// That a message has arrived is not written down.
    ForgottenMessage,
    /// What asks for something panics, now and then.
    Panic,
}

impl Bug {
    pub const ALL: [Self; 7] = [
        Self::NoPrecondition,
        Self::LeaseNotChecked,
        Self::CacheForTruth,
        Self::TwoLeaders,
        Self::LostDelete,
        Self::ForgottenMessage,
        Self::Panic,
    ];
}

/// How old the cache is that is taken for the truth.
const STALE: Duration = Duration::from_secs(30);

/// After this the operator takes a list or a watch that nobody answers for a broken one, and kube a watch that says nothing any more.
const GIVEN_UP: Duration = Duration::from_secs(65);
const MUTE: Duration = Duration::from_secs(295);

/// The Lease of the leader.
const LEADER: &str = "assay-operator";

type Answered = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The API server, as one start of the operator reaches it.
#[derive(Clone)]
pub struct Way {
    pub world: Arc<World>,
    pub number: usize,
}

impl Service<Request<Body>> for Way {
    type Response = Answered;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Answered, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.clone().ask(request).boxed()
    }
}

/// What becomes of a request.
pub enum Fate {
    Answered,
    Refused(Answer),
    /// It does not arrive, or its answer does not.
    Broken {
        is_heard: bool,
    },
    /// The same, and nobody hears of it.
    Silent {
        is_heard: bool,
    },
    Killed {
        is_heard: bool,
    },
}

impl Fate {
    pub fn is_heard(&self) -> bool {
        match self {
            Self::Answered => true,
            Self::Refused(_) => false,
            Self::Broken { is_heard } | Self::Silent { is_heard } | Self::Killed { is_heard } => *is_heard,
        }
    }
}

fn broken() -> BoxError {
    std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()
}

fn response(answer: Answer) -> Answered {
    let body = Full::new(Bytes::from(answer.body)).boxed_unsync();
    Response::builder().status(answer.code).header("content-type", "application/json").body(body).unwrap()
}

impl Way {
    async fn ask(self, request: Request<Body>) -> Result<Answered, BoxError> {
        let (parts, body) = request.into_parts();
        let body = serde_json::from_slice(&body.collect_bytes().await?).unwrap_or_default();
        let kind = parts.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        let Some(mut asked) = Asked::new(parts.method.as_str(), path, query, kind, body) else {
            self.world.with(None, |inner| inner.law.breaks(format!("{} {path} is asked for", parts.method)));
            return Err(broken());
        };
        let sent = self.world.now();
        let (fate, out, back) = self.world.with(None, |inner| {
            let fate = inner.fate(self.number, &asked, sent);
            let (out, back) = (inner.weather.latency(&mut inner.random), inner.weather.latency(&mut inner.random));
            // It arrives when nobody waits for it any more.
            let is_late = matches!(fate, Fate::Silent { .. });
            // A replica is not killed by a watch that it begins: it hears nothing.
            let is_silent = is_late || matches!(fate, Fate::Killed { .. }) && asked.is_watch();
            // Only a watch begins with a list in pages.
            if is_silent && (asked.is_watch() || asked.method == "GET" && !asked.query("limit").is_empty()) {
                inner.law.is_deaf(self.number, asked.plural, sent, sent + GIVEN_UP);
            }
            (fate, if is_late { inner.random.milliseconds(0, 25_000) } else { out }, back)
        });
        if self.is_dead() {
            return std::future::pending().await;
        }
        if let Fate::Killed { is_heard: false } = fate {
            self.world.with(None, |inner| inner.kill(self.number, sent));
            return std::future::pending().await;
        }
        let is_heard = fate.is_heard();
        let bug = self.world.with(None, |inner| inner.bug);
        let panics = bug == Some(Bug::Panic) && self.world.with(None, |inner| inner.random.happens(100));
        assert!(!panics, "a planted bug");
        plant(bug, &mut asked);
        if asked.is_watch() {
            tokio::time::sleep(out).await;
            if self.world.is_logged() {
                self.world.note(&format!("operator-{} WATCH {} {:?}", self.number, asked.key(), asked.query));
            }
            return match fate {
                Fate::Answered => Ok(self.watch(&asked)),
                Fate::Refused(answer) => Ok(response(answer)),
                Fate::Broken { .. } => Err(broken()),
                Fate::Silent { .. } | Fate::Killed { .. } => std::future::pending().await,
            };
        }
        // What was sent arrives, whether or not somebody waits for the answer.
        let (tell, answer) = oneshot::channel();
        let (world, number) = (Arc::clone(&self.world), self.number);
        let wrote = (asked.is_write() && asked.plural == "tuningtrials").then(|| asked.name.clone());
        tokio::spawn(async move {
            tokio::time::sleep(out).await;
            if is_heard {
                let answer = world.answer(number, sent, &asked);
                if world.is_logged() {
                    world.note(&format!(
                        "operator-{number} {} {} {}: {}",
                        asked.method,
                        asked.key(),
                        asked.subresource,
                        answer.code
                    ));
                }
                let _ = tell.send(answer);
            }
        });
        let answer = match fate {
            Fate::Refused(answer) => {
                tokio::time::sleep(out).await;
                Ok(answer)
            }
            Fate::Broken { .. } => {
                let _ = answer.await;
                Err(broken())
            }
            Fate::Silent { .. } => std::future::pending().await,
            Fate::Killed { .. } => {
                let _ = answer.await;
                self.world.with(None, |inner| inner.kill(self.number, sent));
                return std::future::pending().await;
            }
            Fate::Answered => answer.await.map_err(|_| broken()),
        };
        tokio::time::sleep(back).await;
        if self.is_dead() {
            return std::future::pending().await;
        }
        if let Some(trial) = wrote.filter(|_| answer.is_ok()) {
            self.world.with(None, |inner| inner.law.answered.insert((number, sent, trial)));
        }
        answer.map(response)
    }

    pub fn is_dead(&self) -> bool {
        self.world.with(None, |inner| inner.replicas[self.number].is_dead)
    }

    /// An endless answer: what changes from a version on.
    fn watch(&self, asked: &Asked) -> Answered {
        let now = self.world.now();
        let seconds = asked.query("timeoutSeconds").parse().unwrap_or(290);
        let from = asked.query("resourceVersion").parse().unwrap_or(0);
        let watch = self.world.with(None, |inner| {
            let cut = inner.weather.cut(&mut inner.random);
            let is_mute = cut.is_some() && inner.random.happens(300);
            let ends = now + cut.unwrap_or(Duration::MAX).min(Duration::from_secs(seconds));
            if is_mute {
                inner.law.is_deaf(self.number, asked.plural, ends, ends + MUTE);
            }
            Watch {
                way: self.clone(),
                plural: asked.plural,
                selector: asked.selector(),
                from,
                seen: inner.server.log.partition_point(|change| change.revision <= from),
                lag: inner.weather.lag(&mut inner.random),
                ends,
                is_mute,
                bookmark: now + Duration::from_mins(1),
                is_over: false,
            }
        });
        let body = StreamBody::new(watch.events().map(|line| Ok(Frame::data(line)))).boxed_unsync();
        Response::builder().status(200).header("content-type", "application/json").body(body).unwrap()
    }
}

/// One connection of a watch.
struct Watch {
    way: Way,
    plural: &'static str,
    selector: Selector,
    /// The last version that was told of.
    from: u64,
    /// Changes that it has told of, or has nothing to tell of.
    seen: usize,
    /// How late this connection tells.
    lag: Duration,
    ends: Duration,
    /// Nobody hears that it ends.
    is_mute: bool,
    bookmark: Duration,
    is_over: bool,
}

impl Watch {
    fn events(self) -> impl Stream<Item = Bytes> + Send {
        stream::unfold(self, |mut watch| async move { Some((watch.next().await?, watch)) })
    }

    async fn next(&mut self) -> Option<Bytes> {
        let mut changed = self.way.world.changed();
        loop {
            changed.mark_unchanged();
            let now = self.way.world.now();
            if self.is_over || now >= self.ends && !self.is_mute {
                return None;
            }
            if self.way.is_dead() || now >= self.ends {
                return std::future::pending().await;
            }
            let world = Arc::clone(&self.way.world);
            let (line, until) = world.with(None, |inner| self.step(inner, now));
            if let Some(line) = line {
                return Some(Bytes::from(line.to_string() + "\n"));
            }
            let until = until.min(self.ends).min(self.bookmark);
            tokio::select! {
                biased;
                _ = changed.changed() => {}
                () = tokio::time::sleep(until.saturating_sub(now)) => {}
            }
        }
    }

    /// The next line, or when there may be one.
    fn step(&mut self, inner: &Inner, now: Duration) -> (Option<Value>, Duration) {
        if self.from < inner.server.compacted {
            self.is_over = true;
            let status: Value =
                serde_json::from_slice(&Answer::refusal(&refusal(410, "Expired", "too old resource version")).body)
                    .unwrap();
            return (Some(json!({"type": "ERROR", "object": status})), now);
        }
        let due = loop {
            let Some(change) = inner.server.log.get(self.seen) else { break Duration::MAX };
            let due = change.at + self.lag;
            if due > now {
                break due;
            }
            self.seen += 1;
            self.from = change.revision;
            let is_meant = change.key.plural == self.plural;
            let matches = |object: &Option<Arc<Value>>| {
                is_meant && object.as_ref().is_some_and(|object| self.selector.matches(object))
            };
            let kind = match (matches(&change.before), matches(&change.after)) {
                (false, false) => continue,
                (false, true) => "ADDED",
                (true, true) => "MODIFIED",
                (true, false) => "DELETED",
            };
            let mut line = json!({"type": kind, "object": change.object()});
            inner.overlook(self.plural, &mut line["object"]);
            return (Some(line), now);
        };
        if now >= self.bookmark {
            self.bookmark = now + Duration::from_mins(1);
            let kind = kind_of(self.plural).unwrap();
            let object = json!({"kind": kind.name, "apiVersion": kind.version,
                "metadata": {"resourceVersion": self.from.to_string()}});
            return (Some(json!({"type": "BOOKMARK", "object": object})), now);
        }
        (None, due)
    }
}

/// Changes a request to what a careless operator would have asked.
fn plant(bug: Option<Bug>, asked: &mut Asked) {
    let forget = |asked: &mut Asked| {
        asked.body.as_object_mut().map(|body| body.remove("preconditions"));
        if let Some(metadata) = asked.body["metadata"].as_object_mut().filter(|_| asked.method != "POST") {
            metadata.remove("uid");
            metadata.remove("resourceVersion");
        }
    };
    match bug {
        Some(Bug::NoPrecondition) => forget(asked),
        Some(Bug::ForgottenMessage) if asked.plural == "tuningsweeps" => {
            for change in asked.body.pointer_mut("/status/changes").and_then(Value::as_array_mut).into_iter().flatten()
            {
                if let Some(notified) = change.get_mut("notified").and_then(Value::as_object_mut)
                    && notified.remove("deliveredTime").is_some()
                {
                    notified.insert("nextTryTime".to_owned(), notified["time"].clone());
                    notified.insert("tries".to_owned(), 0.into());
                }
            }
        }
        Some(Bug::TwoLeaders) if asked.plural != "leases" => forget(asked),
        _ => {}
    }
}

impl World {
    /// What the API server answers, and does.
    fn answer(&self, number: usize, sent: Duration, asked: &Asked) -> Answer {
        self.with(Some(Actor::Operator { number, sent }), |inner| inner.answer(asked))
    }
}

impl Inner {
    fn fate(&mut self, number: usize, asked: &Asked, now: Duration) -> Fate {
        let Inner { weather, random, .. } = self;
        let is_cut_off = now < self.replicas[number].cut_off_until;
        if !is_cut_off && asked.method == "POST" && asked.plural == "pods" && weather.quota.contains(&asked.namespace) {
            let said =
                if random.happens(2000) { "failed calling webhook: no endpoints" } else { "exceeded quota: pods" };
            let code = if said.starts_with("failed") { 500 } else { 403 };
            return Fate::Refused(Answer::refusal(&refusal(code, "Forbidden", said)));
        }
        match self.luck(number, now) {
            // Whoever asks may take it for another version or another object, and it is the same: a webhook answers so, or a quota that
            // many use up at the same time.
            Fate::Refused(answer) if asked.method == "DELETE" || asked.is_write() && answer.code == 500 => {
                Fate::Refused(Answer::refusal(&refusal(409, "Conflict", "later")))
            }
            Fate::Refused(answer) if asked.is_write() && answer.code == 503 => {
                Fate::Refused(Answer::refusal(&refusal(500, "InternalError", "failed calling webhook: no endpoints")))
            }
            fate => fate,
        }
    }

    /// What becomes of whatever a start of the operator sends.
    pub fn luck(&mut self, number: usize, now: Duration) -> Fate {
        let Inner { weather, random, .. } = self;
        if now < self.replicas[number].cut_off_until {
            return if random.happens(5000) {
                Fate::Broken { is_heard: false }
            } else {
                Fate::Silent { is_heard: false }
            };
        }
        let is_heard = random.happens(5000);
        if random.happens(weather.kills) {
            return Fate::Killed { is_heard };
        }
        if random.happens(weather.refusals) {
            let answers =
                [(429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable"), (504, "Timeout")];
            let (code, reason) = answers[random.below(4) as usize];
            return Fate::Refused(Answer::refusal(&refusal(code, reason, "later")));
        }
        if random.happens(weather.losses) {
            return Fate::Broken { is_heard };
        }
        if random.happens(weather.silences) {
            return Fate::Silent { is_heard };
        }
        Fate::Answered
    }

    fn answer(&mut self, asked: &Asked) -> Answer {
        let key = asked.key();
        let is_of_leader = asked.plural == "leases" && key.name == LEADER;
        match self.bug {
            Some(Bug::LeaseNotChecked) => {
                let mut answer = self.server.answer(asked);
                if asked.plural == "leases" {
                    let mut body: Value = serde_json::from_slice(&answer.body).unwrap();
                    self.overlook(asked.plural, &mut body);
                    for one in body.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
                        self.overlook(asked.plural, one);
                    }
                    answer.body = body.to_string().into_bytes();
                }
                return answer;
            }
            Some(Bug::CacheForTruth) if asked.method == "GET" && asked.subresource.is_empty() => {
                return self.cached(asked);
            }
            Some(Bug::TwoLeaders) if is_of_leader && asked.is_write() => {
                let mut lease = asked.body.clone();
                lease["metadata"]["resourceVersion"] = "1".into();
                return Answer { code: 200, body: lease.to_string().into_bytes() };
            }
            Some(Bug::TwoLeaders) if is_of_leader => {
                return Answer::refusal(&refusal(404, "NotFound", "nobody leads"));
            }
            Some(Bug::LostDelete) if asked.method == "DELETE" && asked.plural == "pods" => {
                if let Some(pod) = self.server.get(&key)
                    && uid(pod).ends_with(['3', '7'])
                {
                    return Answer { code: 200, body: pod.to_string().into_bytes() };
                }
            }
            _ => {}
        }
        self.server.answer(asked)
    }

    /// What an operator does not look at.
    fn overlook(&self, plural: &str, object: &mut Value) {
        let is_of_node = text(object, "/metadata/name").starts_with(NODE_LEASE_PREFIX);
        if self.bug == Some(Bug::LeaseNotChecked) && plural == "leases" && is_of_node {
            object["spec"]["holderIdentity"] = "".into();
        }
    }

    /// As it was a while ago.
    fn cached(&self, asked: &Asked) -> Answer {
        let then = self.server.now.saturating_sub(STALE);
        let log = &self.server.log[..self.server.log.partition_point(|change| change.at <= then)];
        let mut past = super::api::Server::default();
        past.restore(log);
        past.answer(asked)
    }
}

/// Where the leader's Lease is.
pub fn leader(namespace: &str) -> Key {
    Key::new("leases", namespace, LEADER)
}
