//! One reconcile of one sweep: what is there, what comes next ([`assay_core::sweep::next`]), and the writes that bring it about, until there
//! is nothing to do but wait.

mod begin;
mod children;
mod collect;
mod controller;
mod memory;
mod metrics;
mod notify;
mod resolve;
mod status;
mod store;
mod stores;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use assay_api::{ConcurrencyPolicy, TuningExperiment, TuningSweep, TuningSweepStatus};
use assay_core::sweep::child::{Child, ChildState};
use assay_core::sweep::confirm::Visit;
use assay_core::sweep::next::{Observed, Rules, Step, next};
use assay_core::sweep::validate::validate;
use assay_core::sweep::{Night, Outcome, Schedule, Trigger, Unscheduled};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::runtime::controller::Action;
use kube::runtime::events::EventType;
use kube::{Api, Resource, ResourceExt as _};
use tracing::info;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::object;
use begin::Beginning;
use children::Owned;
use controller::Context;
pub use controller::controller;
use memory::{Checked, Known};
use resolve::Lookup;
use status::{Stalled, State};

/// Steps of one reconcile. A month of missed nights takes as many; more would be a circle.
const MOST_STEPS: usize = 64;
/// When to look again, whatever happens.
const LONGEST: Duration = Duration::from_mins(5);

/// One reconcile of a sweep.
pub struct Reconcile<'a> {
    context: &'a Context,
    sweep: &'a TuningSweep,
    namespace: String,
    name: String,
    uid: String,
    now: Timestamp,
    wake: Duration,
}

impl<'a> Reconcile<'a> {
    fn new(context: &'a Context, sweep: &'a TuningSweep) -> Self {
        Self {
            context,
            sweep,
            namespace: sweep.namespace().unwrap_or_default(),
            name: sweep.name_any(),
            uid: sweep.uid().unwrap_or_default(),
            now: context.cluster.clock.time(),
            wake: LONGEST,
        }
    }

    async fn run(&mut self) -> Result<Action, Error> {
        if self.sweep.metadata.deletion_timestamp.is_some() {
            // Nights go with it, and the history stays.
            return Ok(Action::await_change());
        }
        if let Some(message) = self.context.why_unreadable(&self.uid) {
            status::write(self, &State::Stalled { why: Stalled::Unreadable, message }, None).await?;
            return Ok(Action::requeue(LONGEST));
        }
        let checked = self.checked();
        if !checked.problems.is_empty() {
            let message = checked.problems.join("; ");
            status::write(self, &State::Stalled { why: Stalled::Invalid, message }, None).await?;
            // It becomes stale.
            return Ok(Action::requeue(LONGEST));
        }
        let schedule = Schedule::parse(&self.sweep.spec.schedule, &self.sweep.spec.time_zone, self.now);
        let schedule =
            schedule.map_err(|(Unscheduled::Schedule(why) | Unscheduled::Zone(why))| Error::Unexpected(why))?;
        self.go_on(&schedule).await?;
        Ok(Action::requeue(self.wake))
    }

    /// Takes steps until there is nothing to do but wait.
    async fn go_on(&mut self, schedule: &Schedule) -> Result<(), Error> {
        let mut known = self.known(false).await?;
        for _ in 0..MOST_STEPS {
            let Owned { children, foreign } = children::all(self, &known).await?;
            let status = status::latest(self);
            let lookup = resolve::look(self, &children, &known).await?;
            let step = self.step(schedule, &status, &children, &known, &lookup).await?;
            let until = match step {
                Step::Wait(until) => Some(until),
                Step::Taken(until) => Some(Some(until)),
                // Its pods say when they have found something.
                Step::Resolve(night, trigger) => match resolve::begin(self, night).await? {
                    None => Some(None),
                    Some(refused) => {
                        let token = self.sweep.spec.run_now.clone().filter(|_| trigger == Trigger::Manual);
                        let beginning = Beginning { minute: night, trigger, run_now: token, visit: None };
                        begin::refuse(self, beginning, "PodRefused", &refused).await?;
                        known = self.known(false).await?;
                        continue;
                    }
                },
                _ => None,
            };
            if let Some(until) = until {
                children::tidy(self, &children, &known).await?;
                let until = until.and_then(|until| Duration::try_from(until.duration_since(self.now)).ok());
                // A little later, or a clock that is read twice may find it early.
                self.wake_in(until.map_or(LONGEST, |until| until + Duration::from_millis(200)));
                let state = State::Sound { children: &children, foreign: &foreign, schedule, lookup: &lookup };
                status::write(self, &state, Some(&known)).await?;
                notify::send(self, &known);
                return Ok(());
            }
            info!(?step, "next");
            // What is decided is decided by what the history says now, which somebody else may have added to.
            let fresh = self.known(true).await?;
            if fresh.remembered != known.remembered {
                known = fresh;
                continue;
            }
            // What a step holds while it waits is too much for a stack.
            known = Box::pin(self.take(step, &children, &lookup, fresh)).await?;
        }
        Err(Error::Unexpected(format!("{MOST_STEPS} steps have led to no end")))
    }

    async fn step(
        &self,
        schedule: &Schedule,
        status: &TuningSweepStatus,
        children: &children::Children,
        known: &Known,
        lookup: &Lookup,
    ) -> Result<Step, Error> {
        let spec = &self.sweep.spec;
        let all: BTreeMap<Timestamp, Child> =
            children.iter().map(|(night, (child, _))| (*night, child.clone())).collect();
        let observed = Observed {
            now: self.now,
            rules: Rules {
                schedule,
                suspended: spec.suspend == Some(true),
                deadline: spec.starting_deadline_seconds.map(|seconds| SignedDuration::from_secs(seconds.into())),
                replace: spec.concurrency_policy == ConcurrencyPolicy::Replace,
                run_now: spec.run_now.as_deref(),
                max_skip: SignedDuration::from_hours(24 * i64::from(spec.max_skip_days)),
                accept: &spec.accept,
            },
            since: status::since(self, status),
            last_scheduled: status.last_schedule_time.as_ref().map(|time| time.0),
            last_manual: status.last_manual_run.as_deref(),
            lost: children::lost(self, status, &all).await?,
            children: &all,
            remembered: &known.remembered,
            tonight: lookup.tonight(self)?,
        };
        Ok(next(&observed))
    }

    async fn take(
        &mut self,
        step: Step,
        children: &children::Children,
        lookup: &Lookup,
        known: Known,
    ) -> Result<Known, Error> {
        match step {
            Step::Collect(night) => {
                let (child, experiment) = &children[&night];
                let entry = collect::collect(self, night, child, experiment).await?;
                self.remember(entry).await
            }
            Step::Record(unmeasured) => {
                let of = children.get(&unmeasured.night).map(|(_, experiment)| experiment.name_any());
                self.remember(Night { experiment: of, ..unmeasured.night(&self.name) }).await
            }
            Step::End(night) => {
                let (child, experiment) = &children[&night];
                let name = experiment.name_any();
                info!(experiment = name, "ending the night");
                if child.state == ChildState::Altered {
                    let note =
                        format!("the night of {night}: its experiment {name} is not as it was begun, so it is ended");
                    self.publish(EventType::Warning, "NightAltered", &note).await;
                }
                object::delete(&self.api::<TuningExperiment>(), experiment, None).await?;
                self.context.memories.of(self.sweep).lock().gone(experiment);
                Ok(known)
            }
            Step::Begin { night, trigger, run_now } => {
                let beginning = Beginning { minute: night, trigger, run_now, visit: None };
                begin::night(self, beginning, lookup).await?;
                Ok(known)
            }
            Step::Confirm(minute, visit) => {
                begin::visit(self, minute, *visit).await?;
                Ok(known)
            }
            Step::Wait(_) | Step::Taken(_) | Step::Resolve(..) => Ok(known),
        }
    }

    /// Adds a night to the history, and tells of it.
    async fn remember(&mut self, entry: Night) -> Result<Known, Error> {
        let known = store::add(self, entry.clone()).await?;
        if entry.outcome == Outcome::Accepted {
            // The status tells of it.
            return Ok(known);
        }
        let minute = entry.night;
        let said = entry.message.clone().unwrap_or_default();
        let (type_, reason, note) = match (entry.outcome, entry.reason.as_deref()) {
            (Outcome::Measured, _) => {
                let note = format!("{} series, {} without a value", entry.points.len(), entry.gaps.len());
                (EventType::Normal, "NightMeasured", note)
            }
            (Outcome::Skipped, reason) => {
                (EventType::Normal, "NightSkipped", format!("{}: {said}", reason.unwrap_or_default()))
            }
            (Outcome::Visited | Outcome::Accepted, _) => {
                (EventType::Normal, "VisitMeasured", entry.visit.as_ref().map(Visit::change).unwrap_or_default())
            }
            (Outcome::Gap, Some("Missed")) => (EventType::Warning, "NightMissed", said),
            (Outcome::Gap, reason) => {
                (EventType::Warning, "NightFailed", format!("{}: {said}", reason.unwrap_or_default()))
            }
        };
        self.publish(type_, reason, &format!("the night of {minute}: {note}")).await;
        Ok(known)
    }

    /// What the spec is.
    fn checked(&self) -> Arc<Checked> {
        let memory = self.context.memories.of(self.sweep);
        let mut memory = memory.lock();
        let generation = self.sweep.metadata.generation;
        if let Some(known) = memory.checked.as_ref().filter(|known| known.generation == generation) {
            return Arc::clone(known);
        }
        let validated = validate(&self.name, &self.sweep.spec, self.now);
        let problems = validated.problems();
        let errors = problems.iter().filter(|problem| problem.is_error()).map(ToString::to_string);
        let checked = Arc::new(Checked {
            generation,
            problems: errors.collect(),
            series: validated.series().unwrap_or(0) as u32,
            watch: validated.watch(self.now),
        });
        memory.checked = Some(Arc::clone(&checked));
        checked
    }

    fn cluster(&self) -> &'a Cluster {
        &self.context.cluster
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        self.cluster().api(&self.namespace)
    }

    async fn publish(&self, type_: EventType, reason: &str, note: &str) {
        self.cluster().publish(&self.sweep.object_ref(&()), None, type_, reason, note).await;
    }

    fn wake_in(&mut self, wait: Duration) {
        self.wake = self.wake.min(wait.max(Duration::from_millis(100)));
    }

    /// What the history says; read anew if asked for.
    async fn known(&self, anew: bool) -> Result<Known, Error> {
        let memory = self.context.memories.of(self.sweep);
        let kept = memory.lock().known.clone().filter(|_| !anew);
        match kept {
            Some(known) => Ok(known),
            None => store::read(self).await.map(|(_, known)| known),
        }
    }
}
