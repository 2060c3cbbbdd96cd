//! One cluster with two replicas of the operator, for as long as a seed says that things go wrong and until everything has ended.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assay_api::names::{FINISHED, HOLDER_ANNOTATION, NODE_LEASE_PREFIX};
use assay_controller::{Args, Clock, Operator, Stop};
use clap::Parser as _;
use k8s_openapi::jiff::Timestamp;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::alerts::{self, Post};
use super::api::{Change, Key, Server, time};
use super::client::{Bug, Way, leader};
use super::law::{Actor, Law, is_finished, is_trial, owner, text, uid};
use super::machines::{LABEL, Machines, Step, evict};
use super::random::Random;
use super::weather::{Incident, Weather};

const NODES: usize = 3;
const EXPERIMENTS: usize = 2;
const REPLICAS: usize = 2;
const NAMESPACE: &str = "assay-system";
/// The sweep, and where it is.
const SWEEP: &str = "nightly";
const SWEEPS: &str = "team-0";

/// How often machines look around.
const TICK: Duration = Duration::from_millis(100);
/// By then everything has to have ended, once nothing goes wrong any more.
const END: Duration = Duration::from_hours(6);
/// Nor may nothing happen for so long: whoever waits for something tries again sooner.
const STUCK: Duration = Duration::from_mins(40);
/// And everything that an experiment had has to have gone.
const GONE: Duration = Duration::from_mins(10);

pub struct World {
    begin: Instant,
    inner: Mutex<Inner>,
    changed: watch::Sender<u64>,
}

pub struct Inner {
    pub server: Server,
    pub random: Random,
    pub law: Law,
    pub weather: Weather,
    pub replicas: Vec<Replica>,
    pub bug: Option<Bug>,
    machines: Machines,
    /// The last start of each replica.
    current: [usize; REPLICAS],
    skews: [Arc<AtomicI64>; REPLICAS],
    experiments: Vec<Value>,
    /// What some worlds have besides.
    sweep: Option<Value>,
    /// Instead, one whose history has a change.
    changed: Option<Value>,
    /// Reconciles of a kind at the same time.
    concurrency: u16,
    pub trace: Vec<String>,
    /// Requests and the log of the operators are part of the trace.
    is_logged: bool,
}

/// One start of a replica.
pub struct Replica {
    pub is_dead: bool,
    pub cut_off_until: Duration,
    killed: Arc<Notify>,
    stop: Stop,
}

/// The clock of a replica.
struct Skewed {
    world: Arc<World>,
    /// By how many seconds it is wrong.
    skew: Arc<AtomicI64>,
}

impl Clock for Skewed {
    fn time(&self) -> Timestamp {
        let skew = self.skew.load(Ordering::Relaxed);
        let by = Duration::from_secs(skew.unsigned_abs());
        let now = time(self.world.now());
        if skew < 0 { now - by } else { now + by }
    }

    fn instant(&self) -> std::time::Instant {
        (self.world.begin + self.world.now()).into_std()
    }
}

fn namespace(experiment: usize) -> String {
    format!("team-{experiment}")
}

fn sweep_key() -> Key {
    Key::new("tuningsweeps", SWEEPS, SWEEP)
}

fn node(number: usize) -> String {
    format!("n{number}")
}

impl World {
    pub fn new(seed: u64, bug: Option<Bug>, is_logged: bool) -> Arc<Self> {
        let mut random = Random::new(seed);
        let weather = Weather::of(&mut random, NODES, EXPERIMENTS, REPLICAS);
        let experiments = (0..EXPERIMENTS).map(|number| experiment(number, &mut random)).collect();
        let sweep = random.happens(4000).then(|| sweep(&mut random));
        // By a chance of their own.
        let mut own = Random::new(!seed);
        let changed = (sweep.is_none() && own.happens(2500)).then(|| self::sweep(&mut own));
        // With one place they wait for each other.
        let concurrency = if own.happens(2500) { 1 } else { 32 };
        let inner = Inner {
            server: Server::default(),
            random,
            law: Law::default(),
            weather,
            replicas: Vec::new(),
            bug,
            machines: Machines::default(),
            current: [0; REPLICAS],
            skews: Default::default(),
            experiments,
            sweep,
            changed,
            concurrency,
            trace: Vec::new(),
            is_logged,
        };
        let (changed, _) = watch::channel(0);
        #[expect(clippy::disallowed_methods, reason = "this is the clock that everybody else asks")]
        let begin = Instant::now();
        Arc::new(Self { begin, inner: Mutex::new(inner), changed })
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock that everybody else asks")]
    pub fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    pub fn is_logged(&self) -> bool {
        self.with(None, |inner| inner.is_logged)
    }

    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Does something in no time. What it writes somebody has written, and the law sees it.
    pub fn with<T>(&self, by: Option<Actor>, act: impl FnOnce(&mut Inner) -> T) -> T {
        let inner = &mut *self.inner.lock().unwrap();
        inner.server.now = self.now();
        let from = inner.server.log.len();
        let done = act(inner);
        for at in from..inner.server.log.len() {
            let change = inner.server.log[at].clone();
            let by = by.unwrap_or(Actor::Machine);
            inner.trace.push(line(&change, by));
            inner.law.see(&inner.server, &change, by);
        }
        if inner.server.log.len() > from {
            self.changed.send_replace(inner.server.revision);
        }
        done
    }

    /// Everything, from the beginning to the end.
    pub async fn run(self: &Arc<Self>) {
        self.with(Some(Actor::Machine), |inner| {
            for number in 0..NODES {
                inner.machines.add(&mut inner.server, &node(number));
            }
        });
        let mut tasks = tokio::task::JoinSet::new();
        for replica in 0..REPLICAS {
            tasks.spawn(Arc::clone(self).replica(replica));
        }
        tasks.spawn(Arc::clone(self).machines());
        tasks.spawn(Arc::clone(self).experiments());
        self.storm().await;
        self.with(Some(Actor::User), Inner::calm);
        let calm = self.now();
        let is_over = |inner: &mut Inner| {
            inner.law.in_calm(&inner.server, calm);
            let is_held = inner.server.all("leases").any(|(key, _)| key.name.starts_with(NODE_LEASE_PREFIX));
            let has_ended = |one: &Value| is_finished(one) && inner.law.nights.is_remembered(one);
            let is_stuck = inner.server.now > inner.law.moved + STUCK;
            let is_done = inner.server.all("tuningexperiments").all(|(_, one)| has_ended(one))
                && inner.server.all("pods").next().is_none()
                && !is_held;
            // A visit waits for a minute that is past the last one, and a clock may have been hours ahead when that was.
            (is_done || is_stuck) && alerts::open(&inner.server, &sweep_key()).is_none()
        };
        self.until(END, is_over).await;
        self.with(None, |inner| {
            inner.law.at_the_end(&inner.server);
            if let Some(open) = alerts::open(&inner.server, &sweep_key()) {
                inner.law.breaks(format!("everything has ended, and {open}"));
            }
        });
        self.with(Some(Actor::User), |inner| {
            let sweeps = inner.server.all("tuningsweeps").map(|(key, _)| key.clone());
            let all: Vec<Key> =
                sweeps.chain(inner.server.all("tuningexperiments").map(|(key, _)| key.clone())).collect();
            for key in all {
                inner.server.delete(&key, None);
            }
        });
        let is_gone = |inner: &mut Inner| {
            let kinds = ["tuningexperiments", "pods", "tuningtrials", "configmaps", "persistentvolumeclaims"];
            kinds.iter().all(|kind| inner.server.all(kind).next().is_none())
        };
        self.until(GONE, is_gone).await;
        self.with(None, |inner| inner.law.after_the_end(&inner.server));
    }

    /// Runs a sweep with a night every five minutes, until the first trial of a night has ended.
    #[cfg(test)]
    async fn begin_a_night(self: &Arc<Self>) -> tokio::task::JoinSet<()> {
        self.with(Some(Actor::Machine), |inner| {
            inner.weather = Weather::calm();
            for number in 0..NODES {
                inner.machines.add(&mut inner.server, &node(number));
            }
            let mut sweep = sweep(&mut inner.random);
            sweep["spec"]["schedule"] = "*/5 * * * *".into();
            sweep["spec"]["concurrencyPolicy"] = "Forbid".into();
            inner.server.create("tuningsweeps", SWEEPS, sweep).unwrap();
        });
        let mut tasks = tokio::task::JoinSet::new();
        for replica in 0..REPLICAS {
            tasks.spawn(Arc::clone(self).replica(replica));
        }
        tasks.spawn(Arc::clone(self).machines());
        let has_begun = |one: &Value| one["status"]["progress"]["attempts"].as_u64() > Some(0);
        self.until(END, |inner| inner.server.all("tuningexperiments").any(|(_, one)| has_begun(one))).await;
        tasks
    }

    /// The outcomes of nights, by time, once one is measured.
    #[cfg(test)]
    async fn nights(&self) -> Vec<String> {
        let is_measured = |inner: &mut Inner| inner.law.nights.outcomes().iter().any(|outcome| outcome == "Measured");
        self.until(END, is_measured).await;
        self.with(None, |inner| inner.law.nights.outcomes())
    }

    /// Outcomes of nights, one of which has no node from its first trial on until it is remembered.
    #[cfg(test)]
    pub async fn strand_a_night(self: &Arc<Self>) -> Vec<String> {
        let _tasks = self.begin_a_night().await;
        let cordon = |inner: &mut Inner, is_cordoned: bool| {
            let now = inner.server.now;
            (0..NODES).for_each(|number| inner.happens(Incident::Cordon(number, is_cordoned), now));
        };
        self.with(Some(Actor::User), |inner| cordon(inner, true));
        self.until(END, |inner| !inner.law.nights.outcomes().is_empty()).await;
        self.with(Some(Actor::User), |inner| cordon(inner, false));
        self.nights().await
    }

    /// Outcomes of nights, one of which is altered after its first trial, and copied to an hour before. Whether the copy is
    /// still there.
    #[cfg(test)]
    pub async fn forge_nights(self: &Arc<Self>) -> (Vec<String>, bool) {
        let _tasks = self.begin_a_night().await;
        let copy = self.with(Some(Actor::User), |inner| {
            let (key, own) =
                inner.server.all("tuningexperiments").next().map(|(key, own)| (key.clone(), own.clone())).unwrap();
            let minute = text(&own, "/metadata/annotations/assay.rocks~1night").parse::<Timestamp>().unwrap();
            let minute = minute - k8s_openapi::jiff::SignedDuration::from_hours(1);
            let name = assay_core::sweep::night::name(SWEEP, minute);
            let mut annotations = own["metadata"]["annotations"].clone();
            annotations["assay.rocks/night"] = minute.to_string().into();
            let copy = json!({
                "metadata": {"name": name, "annotations": annotations, "labels": own["metadata"]["labels"],
                    "ownerReferences": own["metadata"]["ownerReferences"]},
                "spec": own["spec"],
            });
            inner.server.create("tuningexperiments", SWEEPS, copy).unwrap();
            inner.server.change(&key, |own| own["metadata"]["annotations"]["assay.rocks/trigger"] = "Canary".into());
            Key::new("tuningexperiments", SWEEPS, &name)
        });
        let outcomes = self.nights().await;
        let is_finished = |inner: &mut Inner| inner.server.get(&copy).is_none_or(|copy| is_finished(copy));
        self.until(END, is_finished).await;
        // The sweep does not collect it.
        self.until(Duration::from_mins(20), |_| false).await;
        let minutes = self.with(None, |inner| inner.law.nights.minutes());
        let is_there = self.with(None, |inner| inner.server.get(&copy).is_some());
        assert!(
            minutes.iter().all(|minute| assay_core::sweep::night::name(SWEEP, *minute) != copy.name),
            "{minutes:?}"
        );
        (outcomes, is_there)
    }

    /// Waits for something, or for so long, or until something is wrong.
    async fn until(&self, most: Duration, mut what: impl FnMut(&mut Inner) -> bool) {
        let end = self.now() + most;
        while self.now() < end && !self.with(None, |inner| inner.law.wrong.is_some() || what(inner)) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// The time in which things go wrong.
    async fn storm(&self) {
        let (incidents, lasts) = self.with(None, |inner| (inner.weather.incidents.clone(), inner.weather.lasts));
        for (at, incident) in incidents.into_iter().filter(|(at, _)| *at < lasts) {
            self.until(at.saturating_sub(self.now()), |_| false).await;
            tokio::time::sleep(at.saturating_sub(self.now())).await;
            let now = self.now();
            self.with(Some(Actor::User), |inner| inner.happens(incident, now));
        }
        self.until(lasts.saturating_sub(self.now()), |_| false).await;
    }

    async fn machines(self: Arc<Self>) {
        loop {
            let now = self.now();
            self.with(Some(Actor::Machine), |inner| {
                let Inner { server, random, law, weather, machines, .. } = inner;
                machines.step(Step { server, random, law, weather, now });
            });
            tokio::time::sleep(TICK).await;
        }
    }

    async fn experiments(self: Arc<Self>) {
        for number in 0..EXPERIMENTS {
            let wait = self.with(None, |inner| inner.random.milliseconds(0, 20_000));
            tokio::time::sleep(wait).await;
            self.with(Some(Actor::User), |inner| inner.create(number));
        }
        self.with(Some(Actor::User), |inner| {
            if let Some(sweep) = inner.sweep.clone() {
                let _ = inner.server.create("tuningsweeps", SWEEPS, sweep);
            }
            if let Some(changed) = inner.changed.clone() {
                alerts::create(&mut inner.server, SWEEPS, changed, &mut inner.random);
            }
        });
    }

    /// One replica, which is begun again whenever it ends.
    async fn replica(self: Arc<Self>, replica: usize) {
        loop {
            let wait = self.with(None, |inner| inner.random.milliseconds(100, 8000));
            tokio::time::sleep(wait).await;
            let now = self.now();
            let (number, killed, stop, skew, concurrency) = self.with(None, |inner| {
                let (killed, stop) = (Arc::new(Notify::new()), Stop::default());
                inner.replicas.push(Replica {
                    is_dead: false,
                    cut_off_until: Duration::ZERO,
                    killed: Arc::clone(&killed),
                    stop: stop.clone(),
                });
                inner.current[replica] = inner.replicas.len() - 1;
                inner.law.starts.push(now);
                (inner.current[replica], killed, stop, Arc::clone(&inner.skews[replica]), inner.concurrency)
            });
            self.note(&format!("operator-{number} starts"));
            let identity = format!("operator-{number}");
            let args = Args::parse_from([
                "assay-operator",
                "--bench-image=bench:1",
                &format!("--own-namespace={NAMESPACE}"),
                &format!("--identity={identity}"),
                "--pending-seconds=60",
                &format!("--concurrency={concurrency}"),
                &format!("--webhook-host={}", alerts::HOST),
            ]);
            let client = Client::new(Way { world: Arc::clone(&self), number }, NAMESPACE);
            let config = Config::new("http://simulated".parse().unwrap());
            let clock = Arc::new(Skewed { world: Arc::clone(&self), skew });
            let mail = Arc::new(Post(Way { world: Arc::clone(&self), number }));
            let running = Operator::new(args, config, client, clock, mail).run(stop);
            let why = tokio::select! {
                biased;
                () = killed.notified() => "is killed".to_owned(),
                ended = running => ended.map_or_else(|error| format!("ends: {error:#}"), |()| "ends".to_owned()),
            };
            self.with(None, |inner| inner.replicas[number].is_dead = true);
            self.note(&format!("operator-{number} {why}"));
        }
    }

    pub fn note(&self, what: &str) {
        let now = self.now();
        self.with(None, |inner| inner.note(now, what));
    }

    pub fn into_outcome(self: &Arc<Self>) -> (Option<String>, Vec<String>, usize) {
        self.with(None, |inner| (inner.law.wrong.take(), std::mem::take(&mut inner.trace), inner.law.attempts))
    }
}

impl Inner {
    pub fn note(&mut self, now: Duration, what: &str) {
        self.trace.push(format!("{:10.3} {what}", now.as_secs_f64()));
    }

    pub fn kill(&mut self, number: usize, _: Duration) {
        let replica = &mut self.replicas[number];
        replica.is_dead = true;
        replica.killed.notify_one();
    }

    /// Nothing goes wrong from here on.
    fn calm(&mut self) {
        let now = self.server.now;
        self.note(now, "nothing goes wrong from here on");
        for number in 0..NODES {
            self.happens(Incident::Return(number), now);
            self.happens(Incident::Cordon(number, false), now);
        }
        for number in 0..EXPERIMENTS {
            self.happens(Incident::Suspend(number, false), now);
        }
        // No night begins any more, and visits are made.
        self.happens(Incident::SuspendSweep(self.changed.is_none()), now);
        for skew in &self.skews {
            skew.store(0, Ordering::Relaxed);
        }
        self.weather = Weather::calm();
    }

    fn create(&mut self, number: usize) {
        let _ = self.server.create("tuningexperiments", &namespace(number), self.experiments[number].clone());
    }

    fn key(&self, number: usize) -> Key {
        Key::new("tuningexperiments", &namespace(number), text(&self.experiments[number], "/metadata/name"))
    }

    /// One of the pods of trials.
    fn some_pod(&self, some: u64) -> Option<Key> {
        let pods: Vec<&Key> = self.server.all("pods").filter(|(_, pod)| is_trial(pod)).map(|(key, _)| key).collect();
        (!pods.is_empty()).then(|| pods[some as usize % pods.len()].clone())
    }

    fn happens(&mut self, incident: Incident, now: Duration) {
        self.note(now, &format!("{incident:?}"));
        let Self { server, machines, law, .. } = self;
        match incident {
            Incident::Silence(number) => machines.silence(server, &node(number), Some(now)),
            Incident::Return(number) => {
                if server.get(&Key::new("nodes", "", &node(number))).is_none() {
                    machines.add(server, &node(number));
                }
                machines.silence(server, &node(number), None);
            }
            Incident::Reboot(number) => machines.reboot(server, law, &node(number)),
            Incident::Vanish(number) => machines.vanish(server, law, &node(number)),
            Incident::Cordon(number, is_cordoned) => {
                server.change(&Key::new("nodes", "", &node(number)), |node| {
                    node["spec"]["unschedulable"] = is_cordoned.into();
                });
            }
            Incident::DeletePod(some) => {
                if let Some(pod) = self.some_pod(some) {
                    self.server.delete(&pod, None);
                }
            }
            Incident::EvictPod(some) => {
                if let Some(pod) = self.some_pod(some) {
                    evict(&mut self.server, &pod, "EvictionByEvictionAPI");
                }
            }
            Incident::DeleteLease(number) => {
                let lease = format!("{NODE_LEASE_PREFIX}{}", node(number));
                server.remove(&Key::new("leases", NAMESPACE, &lease));
            }
            Incident::DeleteLeader => drop(server.remove(&leader(NAMESPACE))),
            Incident::DeleteExperiment(number) => {
                let key = self.key(number);
                self.server.delete(&key, None);
            }
            Incident::CreateExperiment(number) => self.create(number),
            Incident::Suspend(number, is_suspended) => {
                let key = self.key(number);
                self.server.change(&key, |experiment| {
                    if is_suspended || experiment["spec"]["suspend"] == true {
                        experiment["spec"]["suspend"] = is_suspended.into();
                    }
                });
            }
            Incident::SuspendSweep(is_suspended) => {
                server.change(&sweep_key(), |sweep| {
                    sweep["spec"]["suspend"] = is_suspended.into();
                });
            }
            Incident::RunNow(token) => {
                server.change(&sweep_key(), |sweep| {
                    sweep["spec"]["runNow"] = format!("token-{token}").into();
                });
            }
            Incident::DeleteNight(some) => {
                let nights = server.all("tuningexperiments").filter(|(_, one)| owner(one).is_some());
                let nights: Vec<Key> = nights.map(|(key, _)| key.clone()).collect();
                if !nights.is_empty() {
                    server.delete(&nights[some as usize % nights.len()], None);
                }
            }
            Incident::Quota(number, true) => drop(self.weather.quota.insert(namespace(number))),
            Incident::Quota(number, false) => drop(self.weather.quota.remove(&namespace(number))),
            Incident::Queue(holds) => self.weather.queue_holds = holds,
            Incident::Clock(replica, seconds) => self.skews[replica].store(seconds, Ordering::Relaxed),
            Incident::CutOff(replica, lasts) => {
                if let Some(replica) = self.replicas.get_mut(self.current[replica]) {
                    replica.cut_off_until = now + lasts;
                }
            }
            Incident::Stop(replica) => {
                if let Some(replica) = self.replicas.get(self.current[replica]) {
                    replica.stop.ask();
                }
            }
            Incident::Kill(replica) => {
                let number = self.current[replica];
                if self.replicas.get(number).is_some_and(|replica| !replica.is_dead) {
                    self.kill(number, now);
                }
            }
            Incident::Compact => server.compacted = server.revision,
        }
    }
}

/// An experiment that can prove something with few trials, in one of the ways that experiments differ.
fn experiment(number: usize, random: &mut Random) -> Value {
    let config = |name: &str, jobs: &str| json!({"name": name, "dbOptions": {"max_background_jobs": jobs}});
    let role = json!({"name": "writer", "steps": 100, "mix": {"put": 1}});
    let workload = json!({"keyValue": {"keys": 10, "valueBytes": {"fixed": 10}, "roles": [role]}});
    let mut experiment = json!({
        "metadata": {"name": format!("e{number}")},
        "spec": {
            "seed": random.below(1000),
            "baseline": "base",
            "configs": [config("base", "2"), config("candidate", "4")],
            "scenarios": [{"name": "fill", "workload": workload}],
            "repetitions": 5,
            "objectives": [{"metric": "throughput", "margin": "5%"}],
            "defaultGuardrails": "Remove",
            "placement": {"cpus": 1, "environment": "Dedicated", "memory": "64Mi", "nodeSelector": {LABEL: "true"}},
        },
    });
    if random.happens(4000) {
        experiment["spec"]["placement"]["storage"] =
            json!({"persistentVolumeClaim": {"storageClassName": "local", "size": "1Gi"}});
    }
    if random.happens(2500) {
        experiment["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "lab"});
    }
    if random.happens(2000) {
        experiment["spec"]["failedPodRetentionSeconds"] = 60.into();
    }
    experiment
}

/// A sweep whose nights are small, and whose hours are minutes.
fn sweep(random: &mut Random) -> Value {
    let mut night = experiment(0, random)["spec"].take();
    let mut part = |name: &str| night.as_object_mut().and_then(|night| night.remove(name)).unwrap_or_default();
    let (configs, _) = (part("configs"), part("baseline"));
    let policy = random.pick(&["Forbid", "Replace"]).unwrap();
    json!({
        "metadata": {"name": SWEEP},
        "spec": {
            "schedule": *random.pick(&["*/2 * * * *", "*/5 * * * *"]).unwrap(),
            "concurrencyPolicy": policy,
            "reference": configs[0],
            "subjects": [configs[1]],
            "experiment": night,
        },
    })
}

/// What a trace has of a write.
fn line(change: &Change, by: Actor) -> String {
    let Change { key, before, after, at, .. } = change;
    let by = match by {
        Actor::Operator { number, .. } => format!("operator-{number}"),
        Actor::Machine => "machine".to_owned(),
        Actor::User => "user".to_owned(),
    };
    let object = change.object();
    let did = match (before, after) {
        (None, _) => "creates",
        (_, None) => "removes",
        _ => "changes",
    };
    let status = &object["status"];
    let what = match key.plural {
        "events" => {
            let (about, reason, note) =
                (text(object, "/regarding/name"), text(object, "/reason"), text(object, "/note"));
            let count = object["series"]["count"].as_u64().unwrap_or(1);
            return format!("{:10.3} {by} tells {about} {reason} ({count}): {note}", at.as_secs_f64());
        }
        "pods" => {
            let gates: Vec<&str> = object["spec"]["schedulingGates"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|gate| text(gate, "/name"))
                .collect();
            let deleted = if object["metadata"]["deletionTimestamp"].is_string() { " deleted" } else { "" };
            let code = &status["containerStatuses"][0]["state"]["terminated"]["exitCode"];
            let node = text(object, "/spec/nodeName");
            format!("{} {node} {code} {} {}{deleted}", text(status, "/phase"), text(status, "/reason"), gates.join(","))
        }
        "tuningtrials" => {
            let attempts = status["attempts"].as_array().into_iter().flatten();
            let attempts: Vec<String> = attempts
                .map(|one| format!("{}:{} {}", one["attempt"], text(one, "/outcome"), text(one, "/reason")))
                .collect();
            format!("{} [{}] refusals {}", text(object, "/spec/node"), attempts.join(", "), status["refusals"])
        }
        "tuningexperiments" => {
            let conditions = status["conditions"].as_array().into_iter().flatten();
            let conditions: Vec<String> = conditions
                .filter(|one| one["type"] == "Progressing" || one["type"] == FINISHED)
                .map(|one| format!("{}={} {}", text(one, "/type"), text(one, "/reason"), text(one, "/message")))
                .collect();
            format!("{} attempts; {}", status["progress"]["attempts"], conditions.join("; "))
        }
        "leases" => {
            let noted = object["metadata"]["annotations"][HOLDER_ANNOTATION].as_str().unwrap_or_default();
            format!("of {} {noted}", text(object, "/spec/holderIdentity"))
        }
        "tuningsweeps" => format!("{} {}", text(status, "/state"), status["active"]),
        "tuninghistories" => format!("{} nights", object["spec"]["count"]),
        "nodes" => format!("{} {}", text(status, "/conditions/0/status"), text(status, "/nodeInfo/bootID")),
        _ => String::new(),
    };
    format!("{:10.3} {by} {did} {key} {} {what}", at.as_secs_f64(), uid(object))
}
