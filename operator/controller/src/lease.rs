//! Leases: who may act, and who holds a node. Every change names the version that it was made from, so of two who want the same
//! only one gets it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use assay_api::names::{ASK_ANNOTATION, HOLDER_ANNOTATION, MANAGED_BY, MANAGED_LABEL, NODE_LEASE_PREFIX};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ObjectMeta, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};

use crate::clock::SharedClock;
use crate::error::{Error, call};
use crate::lock::locked;
use crate::object::find;
use crate::watch::version;

/// Leases of one namespace that are held for one length of time.
#[derive(Clone)]
pub struct Leases {
    api: Api<Lease>,
    duration: Duration,
    clock: SharedClock,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// By the names of leases.
    sightings: HashMap<String, Sighting>,
    /// How often any of them has changed.
    changes: u64,
    all: All,
}

/// All leases as they were known last, and what that was known by.
#[derive(Default)]
struct All {
    watched: Vec<Arc<Lease>>,
    changes: u64,
    /// Some were just written, and no watch has told of them. It may turn out that they are gone.
    is_passing: bool,
    known: Arc<[Holding]>,
}

/// A lease of a node as it is known best.
pub struct Holding {
    pub node: Arc<str>,
    /// Whom it names, whether or not it has run out.
    holder: Option<Arc<str>>,
    /// Namespace and uid of the experiment that it was written for.
    of: Option<(String, String)>,
    /// When it runs out, if nobody renews it.
    until: Instant,
}

impl Holding {
    /// Who holds it and has not let it run out.
    pub fn holder(&self, now: Instant) -> Option<&Arc<str>> {
        self.holder.as_ref().filter(|_| now < self.until)
    }

    /// The uid of the experiment that it was written for.
    pub fn of(&self) -> Option<&str> {
        self.of.as_ref().map(|(_, uid)| uid.as_str())
    }

    /// Whether it was written for the experiment with this uid.
    pub fn is_of(&self, uid: &str) -> bool {
        self.of() == Some(uid)
    }

    /// Whether it was written for an experiment of this namespace.
    pub fn is_in(&self, namespace: &str) -> bool {
        self.of.as_ref().is_some_and(|(of, _)| of == namespace)
    }
}

/// The version of a lease that was seen last, and since when. Clocks of other machines may be wrong by any time, so what counts is
/// for how long a lease has not changed by a clock of our own.
struct Sighting {
    version: String,
    since: Instant,
    /// When we took or renewed it ourselves.
    renewed: Option<Instant>,
    /// As the API server answered when we wrote it.
    written: Option<Arc<Lease>>,
    /// The version that is there no more, of which a watch may be late to tell.
    outdated: Option<u64>,
    /// The version that we wanted to give away, and nobody knows whether we did: an answer was lost.
    doubted: Option<u64>,
    /// The version under which something was begun.
    used: Option<u64>,
}

impl Sighting {
    /// Whether we have just written it, so that a watch may be late to tell.
    fn is_new(&self, now: Instant) -> bool {
        self.renewed.is_some_and(|renewed| now.saturating_duration_since(renewed) < LATE)
    }
}

/// What was seen of a lease, this version included.
fn sighting<'a>(seen: &'a mut Seen, lease: &Lease, now: Instant) -> &'a mut Sighting {
    let version = lease.metadata.resource_version.as_deref().unwrap_or_default();
    let new = || Sighting {
        version: version.to_owned(),
        since: now,
        renewed: None,
        written: None,
        outdated: None,
        doubted: None,
        used: None,
    };
    let sighting = seen.sightings.entry(lease.name_any()).or_insert_with(new);
    if sighting.version != version {
        seen.changes += 1;
        (sighting.version, sighting.since) = (version.to_owned(), now);
    }
    sighting
}

/// A lease as it is known best, given what we know of it and what a watch tells.
fn newest(known: Option<&Sighting>, watched: Option<Arc<Lease>>, now: Instant) -> Option<Arc<Lease>> {
    let outdated = known.and_then(|known| known.outdated);
    let watched = watched.filter(|watched| outdated.is_none_or(|outdated| version(&**watched) > outdated));
    match (watched, known.and_then(|known| known.written.clone())) {
        (Some(watched), Some(written)) if version(&*watched) < version(&*written) => Some(written),
        (None, written) => written.filter(|_| known.is_some_and(|known| known.is_new(now))),
        (watched, _) => watched,
    }
}

/// After this no watch tells of a lease that is gone: one that is silent is begun anew after five minutes.
const TOLD: Duration = Duration::from_mins(10);

/// A watch that after this still tells of no lease where we wrote one has something newer to tell: that it is gone.
const LATE: Duration = Duration::from_secs(5);

/// Whom a lease names, whether or not it has run out.
pub fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// The node that a Lease is of.
pub fn node_of(lease: &Lease) -> Option<&str> {
    lease.metadata.name.as_deref()?.strip_prefix(NODE_LEASE_PREFIX)
}

/// Namespace, name and uid of the experiment that a Lease was written for.
pub fn noted(lease: &Lease) -> Option<(&str, &str, &str)> {
    let (namespace, rest) = lease.annotations().get(HOLDER_ANNOTATION)?.split_once('/')?;
    let (name, uid) = rest.rsplit_once('/')?;
    Some((namespace, name, uid))
}

/// What came of asking for a lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    Held(Box<Lease>),
    /// Somebody else has it.
    Taken(String),
}

impl Leases {
    pub fn new(client: &Client, namespace: &str, duration: Duration, clock: SharedClock) -> Self {
        Self { api: Api::namespaced(client.clone(), namespace), duration, clock, seen: Arc::default() }
    }

    /// What remains until a lease has run out, if nobody renews it.
    pub fn remains(&self, lease: &Lease) -> Duration {
        self.duration.saturating_sub(self.unchanged_for(lease))
    }

    /// Who holds a lease that has not run out.
    pub fn holder_of<'a>(&self, lease: &'a Lease) -> Option<&'a str> {
        let holder = holder(lease)?;
        (!self.remains(lease).is_zero()).then_some(holder)
    }

    /// For how long a lease is known as it is.
    pub fn unchanged_for(&self, lease: &Lease) -> Duration {
        self.sighting(lease, |sighting| self.clock.since(sighting.since))
    }

    /// Since when we have not renewed a lease; `None` if we never did.
    pub fn renewed_for(&self, lease: &Lease) -> Option<Duration> {
        self.sighting(lease, |sighting| sighting.renewed.map(|renewed| self.clock.since(renewed)))
    }

    fn sighting<T>(&self, lease: &Lease, read: impl FnOnce(&mut Sighting) -> T) -> T {
        read(sighting(&mut locked(&self.seen), lease, self.clock.instant()))
    }

    fn change(&self, lease: &Lease, change: impl FnOnce(&mut Sighting)) {
        locked(&self.seen).changes += 1;
        self.sighting(lease, change);
    }

    fn held(&self, mut lease: Lease) -> Asked {
        // Larger than the rest, and kept for each node.
        lease.metadata.managed_fields = None;
        self.change(&lease, |sighting| {
            sighting.renewed = Some(self.clock.instant());
            sighting.written = Some(Arc::new(lease.clone()));
        });
        Asked::Held(lease.into())
    }

    /// A lease as it is known best: a watch may be late to tell of what we have just written.
    pub fn newest(&self, name: &str, watched: Option<Arc<Lease>>) -> Option<Arc<Lease>> {
        newest(locked(&self.seen).sightings.get(name), watched, self.clock.instant())
    }

    /// All leases of nodes as they are known best, in the order of their nodes, given those that a watch tells of. Where there are many, few
    /// have changed since somebody asked last, or none.
    pub fn all(&self, watched: Vec<Arc<Lease>>) -> Arc<[Holding]> {
        let now = self.clock.instant();
        let seen = &mut *locked(&self.seen);
        let is_same = |known: &[Arc<Lease>]| {
            known.len() == watched.len() && known.iter().zip(&watched).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        if seen.all.is_passing || seen.all.changes != seen.changes || !is_same(&seen.all.watched) {
            let told: HashSet<&str> = watched.iter().filter_map(|lease| lease.metadata.name.as_deref()).collect();
            let unseen =
                seen.sightings.iter().filter(|(name, known)| known.is_new(now) && !told.contains(name.as_str()));
            let unseen: Vec<Arc<Lease>> = unseen.filter_map(|(_, known)| known.written.clone()).collect();
            let is_passing = !unseen.is_empty();
            let watched_best = watched.iter().filter_map(|lease| {
                newest(seen.sightings.get(lease.metadata.name.as_deref()?), Some(Arc::clone(lease)), now)
            });
            let all: Vec<Arc<Lease>> = watched_best.chain(unseen).collect();
            let mut known: Vec<Holding> = all.into_iter().filter_map(|lease| self.holding(seen, &lease, now)).collect();
            known.sort_unstable_by(|a, b| a.node.cmp(&b.node));
            seen.all = All { watched, changes: seen.changes, is_passing, known: known.into() };
        }
        Arc::clone(&seen.all.known)
    }

    fn holding(&self, seen: &mut Seen, lease: &Lease, now: Instant) -> Option<Holding> {
        let until = sighting(seen, lease, now).since + self.duration;
        let of = noted(lease).map(|(namespace, _, uid)| (namespace.to_owned(), uid.to_owned()));
        Some(Holding { node: node_of(lease)?.into(), holder: holder(lease).map(Into::into), of, until })
    }

    /// A lease is gone, or was changed by somebody else, of which a watch may be late to tell.
    fn outdated(&self, known: &Lease) {
        locked(&self.seen).sightings.remove(&known.name_any());
        self.change(known, |sighting| sighting.outdated = Some(version(known)));
    }

    /// Forgets leases that are gone, given those that a watch tells of.
    pub fn prune(&self, watched: &[Arc<Lease>]) {
        let now = self.clock.instant();
        let told: HashSet<&str> = watched.iter().filter_map(|lease| lease.metadata.name.as_deref()).collect();
        locked(&self.seen)
            .sightings
            .retain(|name, known| told.contains(name.as_str()) || now.saturating_duration_since(known.since) < TOLD);
    }

    pub async fn get(&self, name: &str) -> Result<Option<Lease>, Error> {
        call(self.api.get_opt(name)).await
    }

    /// Takes or renews a lease, going by what is known of it.
    pub async fn ask(&self, name: &str, holder: &str, note: &str, known: Option<&Lease>) -> Result<Asked, Error> {
        let now = self.clock.time();
        let Some(known) = known else {
            let lease = self.lease(name, holder, note, now, None);
            return match call(self.api.create(&PostParams::default(), &lease)).await {
                Ok(lease) => Ok(self.held(lease)),
                Err(error) if error.is_conflict() => self.ask_for_unseen(name, holder, note).await,
                Err(error) => Err(error),
            };
        };
        if let Some(other) = self.holder_of(known).filter(|other| *other != holder) {
            return Ok(Asked::Taken(other.to_owned()));
        }
        self.replace(&self.lease(name, holder, note, now, Some(known))).await
    }

    /// Renews a lease for whoever holds it, if nobody has changed it meanwhile.
    pub async fn renew(&self, held: &Lease) -> Result<Asked, Error> {
        let note = held.annotations().get(HOLDER_ANNOTATION).map_or("", String::as_str);
        let lease = self.lease(&held.name_any(), holder(held).unwrap_or_default(), note, self.clock.time(), Some(held));
        self.replace(&lease).await
    }

    /// Passes a lease that is held on to another holder, if nobody has changed it meanwhile.
    pub async fn pass_on(&self, held: &Lease, holder: &str, note: &str) -> Result<Asked, Error> {
        let passed = self.replace(&self.lease(&held.name_any(), holder, note, self.clock.time(), Some(held))).await;
        passed.inspect_err(|_| self.doubt(held))
    }

    fn doubt(&self, held: &Lease) {
        self.sighting(held, |sighting| sighting.doubted = Some(version(held)));
    }

    /// Whether this lease may have been given away, whatever is known of it.
    pub fn is_doubted(&self, lease: &Lease) -> bool {
        self.sighting(lease, |sighting| sighting.doubted == Some(version(lease)))
    }

    /// Notes that something is begun under a lease.
    pub fn uses(&self, lease: &Lease) {
        self.sighting(lease, |sighting| sighting.used = Some(version(lease)));
    }

    /// Whether something was begun under a lease since it was written.
    pub fn is_used(&self, lease: &Lease) -> bool {
        self.sighting(lease, |sighting| sighting.used == Some(version(lease)))
    }

    /// Takes a lease that is there and was not seen: somebody was faster, or somebody made it without the label that is watched for.
    async fn ask_for_unseen(&self, name: &str, holder: &str, note: &str) -> Result<Asked, Error> {
        let found = find(&self.api, name).await?;
        let is_unseen = |lease: &Lease| lease.labels().get(MANAGED_LABEL).is_none_or(|by| by != MANAGED_BY);
        match found.filter(is_unseen) {
            Some(lease) => Box::pin(self.ask(name, holder, note, Some(&lease))).await,
            None => Ok(Asked::Taken("another client that was faster".to_owned())),
        }
    }

    /// Asks the agent of a node something, in the node's lease that is held, which renews it.
    pub async fn ask_agent(&self, held: &Lease, request: String) -> Result<Asked, Error> {
        let mut lease = held.clone();
        lease.metadata.managed_fields = None;
        lease.annotations_mut().insert(ASK_ANNOTATION.to_owned(), request);
        if let Some(spec) = &mut lease.spec {
            spec.renew_time = Some(MicroTime(self.clock.time()));
        }
        self.replace(&lease).await
    }

    async fn replace(&self, lease: &Lease) -> Result<Asked, Error> {
        match call(self.api.replace(&lease.name_any(), &PostParams::default(), lease)).await {
            Ok(lease) => Ok(self.held(lease)),
            Err(error) => {
                self.loses(lease, error).await?;
                Ok(Asked::Taken("another client that was faster".to_owned()))
            }
        }
    }

    /// Believes a refusal that says that somebody was faster, and returns any other. If the lease is there as it was, the answer was a webhook's or
    /// a proxy's, and no watch would ever tell of a newer version.
    async fn loses(&self, known: &Lease, error: Error) -> Result<(), Error> {
        let is_same = |there: Option<Lease>| there.is_some_and(|there| version(&there) == version(known));
        if !(error.is_conflict() || error.is_not_found()) || is_same(find(&self.api, &known.name_any()).await?) {
            return Err(error);
        }
        self.outdated(known);
        Ok(())
    }

    /// Gives a lease back, if it is still the one that was held.
    pub async fn release(&self, held: &Lease) -> Result<(), Error> {
        let name = held.metadata.name.as_deref().unwrap_or_default();
        let same =
            Preconditions { resource_version: held.metadata.resource_version.clone(), uid: held.metadata.uid.clone() };
        let params = DeleteParams { preconditions: Some(same), ..DeleteParams::default() };
        match call(self.api.delete(name, &params)).await {
            Ok(_) => {
                self.outdated(held);
                Ok(())
            }
            Err(error) => self.loses(held, error).await.inspect_err(|_| self.doubt(held)),
        }
    }

    fn lease(&self, name: &str, holder: &str, note: &str, now: Timestamp, known: Option<&Lease>) -> Lease {
        let spec = known.and_then(|known| known.spec.clone()).unwrap_or_default();
        let is_new = spec.holder_identity.as_deref() != Some(holder);
        // What the agent was asked stays with whoever asked it.
        let asked = known.filter(|_| !is_new).and_then(|known| known.annotations().get_key_value(ASK_ANNOTATION));
        let asked = asked.map(|(key, value)| (key.clone(), value.clone()));
        let annotations = [(HOLDER_ANNOTATION.to_owned(), note.to_owned())].into_iter().chain(asked).collect();
        Lease {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                // Of a lease that changed meanwhile nothing is replaced.
                resource_version: known.and_then(|known| known.metadata.resource_version.clone()),
                annotations: Some(annotations),
                labels: Some([(MANAGED_LABEL.to_owned(), MANAGED_BY.to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: Some(self.duration.as_secs() as i32),
                acquire_time: if is_new { Some(MicroTime(now)) } else { spec.acquire_time },
                renew_time: Some(MicroTime(now)),
                lease_transitions: Some(spec.lease_transitions.unwrap_or(0) + i32::from(is_new && known.is_some())),
                ..LeaseSpec::default()
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::clock::Clock as _;
    use crate::clock::testing::Manual;
    use crate::http::testing::{answering, answering_each, server};

    const DURATION: Duration = Duration::from_secs(30);

    fn leases() -> (Leases, Arc<Manual>) {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap_or_else(|error| unreachable!("{error}")));
        let client = Client::try_from(nowhere).unwrap_or_else(|error| unreachable!("{error}"));
        let clock = Manual::new();
        (Leases::new(&client, "here", DURATION, clock.clone()), clock)
    }

    fn lease(holder: &str, version: &str) -> Lease {
        let renewed = Timestamp::UNIX_EPOCH - Duration::from_hours(1);
        Lease {
            metadata: ObjectMeta {
                name: Some("l".to_owned()),
                resource_version: Some(version.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                renew_time: Some(MicroTime(renewed)),
                ..LeaseSpec::default()
            }),
        }
    }

    /// How an API server refuses a change, and what it answers who asks which leases there are by then.
    fn refused(status: u16, there: &[Lease]) -> Vec<(u16, String)> {
        let list = json!({"kind": "LeaseList", "metadata": {}, "items": there});
        [refusal(status), vec![(200, list.to_string())]].concat()
    }

    fn conflict(there: &[Lease]) -> Vec<(u16, String)> {
        refused(409, there)
    }

    fn refusal(status: u16) -> Vec<(u16, String)> {
        vec![(status, json!({"kind": "Status", "code": status}).to_string())]
    }

    #[tokio::test]
    async fn a_lease_runs_out_when_nobody_renews_it() {
        let (leases, clock) = leases();
        assert_eq!(leases.holder_of(&lease("", "1")), None);
        assert_eq!(leases.holder_of(&lease("a", "1")), Some("a"), "whatever the clock of who renewed it says");
        clock.pass(Duration::from_secs(29));
        assert_eq!(leases.holder_of(&lease("a", "1")), Some("a"));
        assert!(leases.remains(&lease("a", "1")) <= Duration::from_secs(1));
        assert_eq!(leases.holder_of(&lease("a", "2")), Some("a"), "it was renewed");
        clock.pass(DURATION);
        assert_eq!(leases.holder_of(&lease("a", "2")), None);
    }

    #[tokio::test]
    async fn what_was_written_is_newer_than_what_is_watched() {
        let (leases, clock) = leases();
        let versions = |watched: Option<&str>| {
            let newest = leases.newest("l", watched.map(|version| Arc::new(lease("a", version))))?;
            newest.resource_version()
        };
        assert_eq!(versions(None), None);
        assert_eq!(versions(Some("9")).as_deref(), Some("9"));
        leases.held(lease("a", "10"));
        assert_eq!(versions(None).as_deref(), Some("10"));
        assert_eq!(versions(Some("9")).as_deref(), Some("10"));
        assert_eq!(versions(Some("11")).as_deref(), Some("11"));
        leases.outdated(&lease("a", "10"));
        assert_eq!(versions(None), None);
        assert_eq!(versions(Some("10")), None);

        leases.held(lease("a", "12"));
        clock.pass(LATE.saturating_sub(Duration::from_millis(1)));
        assert_eq!(versions(None).as_deref(), Some("12"));
        clock.pass(Duration::from_millis(1));
        assert_eq!(versions(None), None, "a watch is not so late");
        assert_eq!(versions(Some("11")).as_deref(), Some("12"), "unless it tells that it is");
    }

    #[tokio::test]
    async fn all_leases_are_known_as_each_is() {
        let (leases, clock) = leases();
        let of = |node: &str, holder: &str, version: u32| {
            let mut lease = lease(holder, &version.to_string());
            lease.metadata.name = Some(format!("{NODE_LEASE_PREFIX}{node}"));
            lease.annotations_mut().insert(HOLDER_ANNOTATION.to_owned(), format!("ns/{holder}/uid-of-{holder}"));
            Arc::new(lease)
        };
        let all = |watched: &[&Arc<Lease>]| leases.all(watched.iter().map(|&lease| Arc::clone(lease)).collect());
        let said = |known: &[Holding]| -> Vec<(String, Option<String>)> {
            let now = clock.instant();
            known.iter().map(|one| (one.node.to_string(), one.holder(now).map(ToString::to_string))).collect()
        };
        let is = |known: &[(&str, Option<&str>)]| -> Vec<(String, Option<String>)> {
            known.iter().map(|(node, holder)| ((*node).to_owned(), holder.map(ToOwned::to_owned))).collect()
        };
        let (a, b) = (of("n2", "a", 1), of("n1", "b", 2));
        let first = all(&[&a, &b]);
        assert_eq!(said(&first), is(&[("n1", Some("b")), ("n2", Some("a"))]));
        assert!(
            first[0].is_of("uid-of-b") && !first[0].is_of("uid-of-a") && first[0].is_in("ns") && !first[0].is_in("n")
        );
        assert!(Arc::ptr_eq(&first, &all(&[&a, &b])), "nothing has changed");
        // What was written is newer than what is watched.
        leases.held(Arc::unwrap_or_clone(of("n1", "c", 3)));
        let both = [("n1", Some("c")), ("n2", Some("a"))];
        assert_eq!(said(&all(&[&a, &b])), is(&both));
        leases.held(Arc::unwrap_or_clone(of("n3", "c", 4)));
        assert_eq!(said(&all(&[&a, &b])), is(&[both[0], both[1], ("n3", Some("c"))]), "no watch has told of it");
        clock.pass(LATE);
        assert_eq!(said(&all(&[&a, &b])), is(&both), "by now it would have");
        leases.outdated(&of("n1", "c", 3));
        assert_eq!(said(&all(&[&a, &b])), is(&both[1..]), "it is gone, whatever is watched");
        assert_eq!(said(&all(&[&a])), is(&both[1..]));
        clock.pass(DURATION);
        assert_eq!(said(&all(&[&a])), is(&[("n2", None)]), "it has run out");
        let renewed = of("n2", "a", 5);
        assert_eq!(said(&all(&[&renewed])), is(&[("n2", Some("a"))]));
        assert!(all(&[]).is_empty());
    }

    /// Who went by the watch would take it for held.
    #[tokio::test]
    async fn what_was_given_back_is_gone_whatever_is_watched() {
        let (held, newer) = (lease("a", "7"), lease("b", "8"));
        for (answers, is_there) in [
            (refusal(200), false),
            (refused(404, &[]), false),
            (conflict(&[newer]), false),
            (conflict(&[]), false),
            (conflict(&[held]), true),
            (refusal(500), true),
        ] {
            let (client, _asked) = answering_each(answers.clone());
            let leases = Leases::new(&client, "here", DURATION, Manual::new());
            leases.held(lease("a", "7"));
            let _ = leases.release(&lease("a", "7")).await;
            for (version, is_there) in [("6", is_there), ("7", is_there), ("8", true)] {
                let newest = leases.newest("l", Some(Arc::new(lease("a", version))));
                assert_eq!(newest.is_some(), is_there, "{answers:?}: {version}");
            }
        }
    }

    #[tokio::test]
    async fn what_may_have_been_given_away_is_doubted() {
        let passed_on = vec![(200, json!(lease("b", "8")).to_string())];
        for (answers, is_doubted) in [
            (passed_on, false),
            (conflict(&[lease("b", "8")]), false),
            // It was not, but to renew it once more is all that a doubt costs.
            (conflict(&[lease("a", "7")]), true),
            (refusal(500), true),
        ] {
            for is_passed_on in [true, false] {
                let (client, _asked) = answering_each(answers.clone());
                let leases = Leases::new(&client, "here", DURATION, Manual::new());
                let held = lease("a", "7");
                assert!(!leases.is_doubted(&held));
                if is_passed_on {
                    let _ = leases.pass_on(&held, "b", "note").await;
                } else {
                    let _ = leases.release(&held).await;
                }
                assert_eq!(leases.is_doubted(&held), is_doubted, "{answers:?}, {is_passed_on}");
                assert!(!leases.is_doubted(&lease("a", "10")), "it was renewed since");
            }
        }
    }

    #[tokio::test]
    async fn a_lease_is_used_until_it_is_written_again() {
        let leases = Leases::new(&server(200).0, "here", DURATION, Manual::new());
        let (held, renewed) = (lease("a", "7"), lease("a", "8"));
        assert!(!leases.is_used(&held));
        leases.uses(&held);
        assert!(leases.is_used(&held) && !leases.is_used(&renewed));
        leases.uses(&renewed);
        assert!(leases.is_used(&renewed));
    }

    /// Whoever has taken it meanwhile keeps it.
    #[tokio::test]
    async fn a_lease_is_given_back_as_it_was_held() {
        let mut held = lease("a", "7");
        held.metadata.uid = Some("u1".to_owned());
        for (answers, is_fine) in [
            (refusal(500), false),
            (conflict(&[held.clone()]), false),
            (conflict(&[lease("b", "8")]), true),
            (refused(404, &[]), true),
            (refusal(200), true),
        ] {
            let (client, asked) = answering_each(answers.clone());
            let leases = Leases::new(&client, "here", DURATION, Manual::new());
            assert_eq!(leases.release(&held).await.is_ok(), is_fine, "{answers:?}");
            let asked = asked.join().expect("requests").remove(0);
            assert_eq!(asked.what, "DELETE /apis/coordination.k8s.io/v1/namespaces/here/leases/l");
            assert_eq!(asked.body["preconditions"], json!({"uid": "u1", "resourceVersion": "7"}));
        }
    }

    #[tokio::test]
    async fn only_what_we_renewed_is_known_as_renewed() {
        let (leases, clock) = leases();
        assert_eq!(leases.renewed_for(&lease("a", "1")), None);
        leases.held(lease("a", "2"));
        clock.pass(Duration::from_secs(3));
        assert_eq!(leases.renewed_for(&lease("a", "2")), Some(Duration::from_secs(3)));
    }

    #[tokio::test]
    async fn a_lease_that_is_gone_is_forgotten() {
        let (leases, clock) = leases();
        leases.held(lease("a", "2"));
        let is_known = || leases.renewed_for(&lease("a", "2")).is_some();
        clock.pass(TOLD.saturating_sub(Duration::from_secs(1)));
        leases.prune(&[]);
        assert!(is_known(), "a watch may be late");
        clock.pass(Duration::from_secs(1));
        leases.prune(&[lease("a", "2").into()]);
        assert!(is_known(), "it is there");
        leases.prune(&[]);
        assert!(!is_known());
    }

    #[tokio::test]
    async fn a_lease_is_read_if_it_is_there() {
        let (client, _) = answering(200, &json!(lease("a", "7")).to_string());
        let leases = |client: &Client| Leases::new(client, "here", DURATION, Manual::new());
        assert_eq!(leases(&client).get("l").await.expect("an answer"), Some(lease("a", "7")));
        assert_eq!(leases(&server(404).0).get("l").await.expect("an answer"), None);
        assert!(leases(&server(500).0).get("l").await.is_err());
    }

    /// A lease with everything that somebody may have written into it.
    fn full() -> Lease {
        serde_json::from_value(json!({
            "metadata": {"name": "l", "namespace": "here", "uid": "u", "resourceVersion": "7",
                "annotations": {HOLDER_ANNOTATION: "earlier note", ASK_ANNOTATION: "question", "other": "x"},
                "managedFields": [{"manager": "m"}]},
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 99, "acquireTime": "1970-01-01T00:00:01.000000Z",
                "renewTime": "1970-01-01T00:00:02.000000Z", "leaseTransitions": 3},
        }))
        .expect("a lease")
    }

    /// What is written where a lease is asked for a minute after the epoch, when one that is known has run out.
    async fn written(holder: &str, known: Option<&Lease>) -> (String, Value) {
        let (client, asked) = answering(200, &json!(lease(holder, "8")).to_string());
        let clock = Manual::new();
        let leases = Leases::new(&client, "here", DURATION, clock.clone());
        // From its first sight on it lasts its time.
        assert!(known.is_none_or(|known| leases.remains(known) == DURATION));
        clock.pass(Duration::from_mins(1));
        let held = leases.ask("l", holder, "note", known).await.expect("an answer");
        assert_eq!(held, Asked::Held(lease(holder, "8").into()));
        assert_eq!(leases.newest("l", None).and_then(|lease| lease.resource_version()).as_deref(), Some("8"));
        let asked = asked.join().expect("a request");
        (asked.what, asked.body)
    }

    #[tokio::test]
    async fn a_lease_says_who_has_it_since_when_and_for_what() {
        const MINUTE: &str = "1970-01-01T00:01:00.000000Z";
        let lease = |metadata: Value, acquired: &str, transitions: u32, holder: &str| {
            let mut lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": "l", "labels": {"app.kubernetes.io/managed-by": "assay"}},
                "spec": {"holderIdentity": holder, "leaseDurationSeconds": 30, "acquireTime": acquired,
                    "renewTime": MINUTE, "leaseTransitions": transitions},
            });
            lease["metadata"].as_object_mut().expect("an object").extend(metadata.as_object().expect("one").clone());
            lease
        };
        let (what, new) = written("a", None).await;
        assert_eq!(what, "POST /apis/coordination.k8s.io/v1/namespaces/here/leases");
        assert_eq!(new, lease(json!({"annotations": {"assay.rocks/holder": "note"}}), MINUTE, 0, "a"));

        let (what, renewed) = written("a", Some(&full())).await;
        assert_eq!(what, "PUT /apis/coordination.k8s.io/v1/namespaces/here/leases/l");
        let annotations = json!({"assay.rocks/holder": "note", "assay.rocks/ask": "question"});
        let same = json!({"resourceVersion": "7", "annotations": annotations});
        assert_eq!(renewed, lease(same, "1970-01-01T00:00:01.000000Z", 3, "a"));

        // What the agent was asked by the one before is no question of this one.
        let (what, taken) = written("b", Some(&full())).await;
        assert_eq!(what, "PUT /apis/coordination.k8s.io/v1/namespaces/here/leases/l");
        let same = json!({"resourceVersion": "7", "annotations": {"assay.rocks/holder": "note"}});
        assert_eq!(taken, lease(same, MINUTE, 4, "b"));
    }

    /// In one write, of what was held: what was asked of the agent for the one before is no question of the next.
    #[tokio::test]
    async fn a_lease_is_passed_on_as_it_was_held() {
        let passed = vec![(200, json!(lease("b", "8")).to_string())];
        for (answers, is_passed) in [(passed, true), (conflict(&[lease("c", "8")]), false)] {
            let (client, asked) = answering_each(answers);
            let clock = Manual::new();
            clock.pass(Duration::from_mins(1));
            let leases = Leases::new(&client, "here", DURATION, clock);
            leases.held(full());
            let answer = leases.pass_on(&full(), "b", "note").await.expect("an answer");
            assert_eq!(matches!(answer, Asked::Held(_)), is_passed);
            let newest = leases.newest("l", None);
            assert_eq!(newest.as_deref().and_then(holder), is_passed.then_some("b"));
            let asked = asked.join().expect("requests").remove(0);
            assert_eq!(asked.what, "PUT /apis/coordination.k8s.io/v1/namespaces/here/leases/l");
            assert_eq!(asked.body["metadata"]["resourceVersion"], "7");
            assert_eq!(asked.body["metadata"]["annotations"], json!({HOLDER_ANNOTATION: "note"}));
            let spec = &asked.body["spec"];
            assert_eq!((&spec["holderIdentity"], &spec["leaseTransitions"]), (&json!("b"), &json!(4)));
            assert_eq!(spec["acquireTime"], "1970-01-01T00:01:00.000000Z");
        }
    }

    #[tokio::test]
    async fn a_lease_of_another_is_left_alone_until_it_has_run_out() {
        let (leases, clock) = leases();
        let asked = leases.ask("l", "b", "note", Some(&lease("a", "1"))).await;
        assert!(matches!(asked, Ok(Asked::Taken(other)) if other == "a"));
        clock.pass(DURATION);
        // Now the API server is asked, which is not there.
        assert!(leases.ask("l", "b", "note", Some(&lease("a", "1"))).await.is_err());
    }

    /// Only an answer that says so means that somebody was faster; what is broken is to be tried again.
    #[tokio::test]
    async fn only_a_conflict_says_that_another_was_faster() {
        let (same, newer) = (|| conflict(&[full()]), || conflict(&[lease("b", "8")]));
        for (answers, known, is_taken) in [
            (conflict(&[]), None, Some(true)),
            (refusal(404), None, None),
            (refusal(403), None, None),
            (refusal(500), None, None),
            (same(), Some(full()), None),
            (newer(), Some(full()), Some(true)),
            (conflict(&[]), Some(full()), Some(true)),
            ([refusal(409), refusal(500)].concat(), Some(full()), None),
            (refused(404, &[]), Some(full()), Some(true)),
            (refused(404, &[full()]), Some(full()), None),
            (refusal(403), Some(full()), None),
            (refusal(500), Some(full()), None),
        ] {
            let (client, _asked) = answering_each(answers.clone());
            let leases = Leases::new(&client, "here", DURATION, Manual::new());
            leases.held(full());
            let asked = leases.ask("l", "a", "note", known.as_ref()).await;
            let taken = asked.ok().map(|asked| asked == Asked::Taken("another client that was faster".to_owned()));
            assert_eq!(taken, is_taken, "{answers:?}, {known:?}");
            let is_forgotten = leases.newest("l", None).is_none();
            assert_eq!(is_forgotten, known.is_some() && is_taken.is_some(), "{answers:?}, {known:?}");
        }
    }

    /// Of a lease that is not watched for, nobody else would ever say whose it is, or that it has run out.
    #[tokio::test]
    async fn a_lease_without_its_label_is_held_until_it_has_run_out() {
        let conflict = || (409, json!({"kind": "Status", "code": 409, "reason": "Conflict"}).to_string());
        let listed = |labels: Value| {
            let mut lease = json!(lease("a", "7"));
            lease["metadata"]["labels"] = labels;
            (200, json!({"kind": "LeaseList", "metadata": {}, "items": [lease]}).to_string())
        };
        let ours = json!({MANAGED_LABEL: MANAGED_BY});
        let taken = (200, json!(lease("b", "8")).to_string());
        let (client, asked) = answering_each(vec![
            conflict(),
            listed(ours),
            conflict(),
            listed(json!({})),
            conflict(),
            listed(json!({})),
            taken,
        ]);
        let clock = Manual::new();
        let leases = Leases::new(&client, "here", DURATION, clock.clone());
        let ask = async || leases.ask("l", "b", "note", None).await.expect("an answer");
        assert_eq!(ask().await, Asked::Taken("another client that was faster".to_owned()));
        assert_eq!(ask().await, Asked::Taken("a".to_owned()));
        clock.pass(DURATION);
        assert_eq!(ask().await, Asked::Held(lease("b", "8").into()));
        let asked = asked.join().expect("requests");
        assert_eq!(asked[1].query, ["fieldSelector=metadata.name%3Dl".to_owned()].into());
        assert_eq!(asked[6].body["metadata"]["labels"], json!({MANAGED_LABEL: MANAGED_BY}));
        assert_eq!(asked[6].body["metadata"]["resourceVersion"], "7");
    }

    #[tokio::test]
    async fn an_agent_is_asked_in_the_lease_as_it_is_held() {
        let (client, asked) = answering(200, &json!(lease("a", "8")).to_string());
        let clock = Manual::new();
        clock.pass(Duration::from_mins(1));
        let leases = Leases::new(&client, "here", DURATION, clock);
        let held = leases.ask_agent(&full(), "another question".to_owned()).await.expect("an answer");
        assert_eq!(held, Asked::Held(lease("a", "8").into()));
        let asked = asked.join().expect("a request");
        assert_eq!(asked.what, "PUT /apis/coordination.k8s.io/v1/namespaces/here/leases/l");
        let mut expected = json!(full());
        expected["metadata"].as_object_mut().expect("an object").remove("managedFields");
        expected["metadata"]["annotations"]["assay.rocks/ask"] = "another question".into();
        expected["spec"]["renewTime"] = "1970-01-01T00:01:00.000000Z".into();
        assert_eq!(asked.body, expected);
    }
}
