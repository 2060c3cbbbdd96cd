//! Following an experiment of a cluster to its end, as if it ran here.

mod follower;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use assay_api::{TuningExperiment, TuningTrial};
use futures::{Stream, StreamExt as _};
use kube::ResourceExt as _;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::signal::unix::{SignalKind, signal};

use super::client::{Cluster, is_of, of_experiment, readable};
use super::errors::{Explain as _, passes, words as error_words};
use super::plan::plan_of;
use super::words::{finished, observed, seconds_left, so_far};
use crate::machine::unix_ms;
use crate::screen::{Screen, left};
use follower::{Follower, Line};

/// How often the time that is left is shown anew.
const TICK: Duration = Duration::from_secs(2);
/// An operator that runs sees a new experiment at once.
const OPERATOR_PATIENCE: Duration = Duration::from_secs(30);

/// How following ended.
pub enum Followed {
    /// As it was when it was over.
    Over(Box<TuningExperiment>),
    /// By Ctrl-C.
    Interrupted,
}

/// Something that happened in the cluster.
enum Seen {
    Experiment(Box<watcher::Result<Event<TuningExperiment>>>),
    Trial(Box<watcher::Result<Event<TuningTrial>>>),
}

/// Ends with Ctrl-C, or when the process is asked to end.
pub async fn interrupted() -> anyhow::Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// Shows every attempt of this very experiment, of so many planned trials, until it is over.
pub async fn follow(
    cluster: &Cluster,
    experiment: &TuningExperiment,
    planned: usize,
    is_over: impl Fn(&TuningExperiment) -> bool,
) -> anyhow::Result<Followed> {
    let mut view = View::new(experiment, planned);
    let followed = watch(cluster, &mut view, is_over).await;
    view.screen.clear();
    if let Ok(Followed::Over(_)) = followed {
        // The end of the experiment may have come before the news of its last trials.
        view.say_new(readable(cluster.trials_of(experiment).await?));
    }
    followed
}

async fn watch(
    cluster: &Cluster,
    view: &mut View,
    is_over: impl Fn(&TuningExperiment) -> bool,
) -> anyhow::Result<Followed> {
    let mut events = events(cluster, &view.name);
    let mut interrupted = std::pin::pin!(interrupted());
    let mut tick = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            seen = events.next() => match seen.context("the watch ended: run the same command again")? {
                Seen::Experiment(event) => view.experiment(*event)?,
                Seen::Trial(event) => view.trial(*event)?,
            },
            ended = &mut interrupted => return ended.map(|()| Followed::Interrupted),
            _ = tick.tick() => view.miss_operator(),
        }
        view.refresh();
        if let Some(experiment) = view.follower.experiment().filter(|experiment| is_over(experiment)) {
            return Ok(Followed::Over(experiment.clone().into()));
        }
    }
}

fn events(cluster: &Cluster, name: &str) -> impl Stream<Item = Seen> + Unpin + use<> {
    let one = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let own = watcher::Config::default().labels(&of_experiment(name));
    let experiments = watcher(cluster.experiments(), one).default_backoff().map(Box::new).map(Seen::Experiment);
    let trials = watcher(cluster.trials(), own).default_backoff().map(Box::new).map(Seen::Trial);
    futures::stream::select(experiments.boxed(), trials.boxed())
}

struct View {
    /// What is followed, as it was when that began.
    asked: TuningExperiment,
    name: String,
    /// A list of what there is has named it.
    is_listed: bool,
    follower: Follower,
    screen: Screen,
    since: Instant,
    /// The user knows that nothing is heard.
    silence_said: bool,
    no_operator_said: bool,
}

impl View {
    fn new(asked: &TuningExperiment, planned: usize) -> Self {
        Self {
            asked: asked.clone(),
            name: asked.name_any(),
            is_listed: false,
            follower: Follower::new(planned),
            screen: Screen::new(0, BTreeMap::new()),
            since: Instant::now(),
            silence_said: false,
            no_operator_said: false,
        }
    }

    fn experiment(&mut self, event: watcher::Result<Event<TuningExperiment>>) -> anyhow::Result<()> {
        match self.heard(event)? {
            Some(Event::Apply(experiment) | Event::InitApply(experiment)) => {
                if experiment.metadata.uid != self.asked.metadata.uid {
                    bail!("experiment {} was deleted, and another one now has its name", self.name);
                }
                self.is_listed = true;
                self.check_plan(&experiment);
                let lines = self.follower.see_experiment(experiment);
                self.say(lines);
            }
            Some(Event::Init) => self.is_listed = false,
            // No event comes of what was deleted while the watch was interrupted: it is not in the list.
            Some(Event::InitDone) if self.is_listed => {}
            Some(Event::Delete(_) | Event::InitDone) => {
                bail!("experiment {} was deleted, with all its trials and records", self.name)
            }
            None => {}
        }
        Ok(())
    }

    /// Says that there will be no report as soon as that is known: the experiment may take hours, and another version of us is
    /// needed then.
    fn check_plan(&self, experiment: &TuningExperiment) {
        let is_planned = |seen: &TuningExperiment| seen.status.as_ref().is_some_and(|status| status.plan.is_some());
        let is_new = is_planned(experiment) && !self.follower.experiment().is_some_and(is_planned);
        if is_new
            && finished(experiment).is_none()
            && let Err(error) = plan_of(experiment)
        {
            self.screen.say(&format!("assay: can't make the final report here: {error:#}"));
        }
    }

    fn trial(&mut self, event: watcher::Result<Event<TuningTrial>>) -> anyhow::Result<()> {
        let lines = match self.heard(event)? {
            Some(Event::Apply(trial) | Event::InitApply(trial)) if is_of(&trial, &self.asked) => {
                self.follower.see_trial(trial)
            }
            Some(Event::InitDone) => self.follower.begin(),
            _ => Vec::new(),
        };
        self.say(lines);
        Ok(())
    }

    /// An event; `None` where the connection was lost and will be tried again.
    fn heard<K>(&mut self, event: watcher::Result<Event<K>>) -> anyhow::Result<Option<Event<K>>> {
        let error = match event {
            Ok(event) => {
                // A list has begun, which says nothing, or may still fail.
                self.silence_said &= matches!(event, Event::Init | Event::InitApply(_));
                return Ok(Some(event));
            }
            Err(error) => error,
        };
        let cause = match error {
            watcher::Error::InitialListFailed(cause)
            | watcher::Error::WatchStartFailed(cause)
            | watcher::Error::WatchFailed(cause) => cause,
            watcher::Error::WatchError(status) => kube::Error::Api(status),
            watcher::Error::NoResourceVersion => bail!("can't watch the cluster: {error}"),
        };
        if !passes(&cause) {
            Err(cause).explain(&format!("experiment {} continues on the cluster, but can't be followed", self.name))?;
        } else if !self.silence_said {
            self.silence_said = true;
            self.screen.say(&format!("assay: cluster unreachable, retrying: {}", error_words(&cause)));
        }
        Ok(None)
    }

    fn say(&mut self, lines: Vec<Line>) {
        let (planned, done) = self.follower.count();
        self.screen.expect(planned);
        let estimates = self.follower.experiment().map(so_far).unwrap_or_default();
        for line in lines {
            match line {
                Line::Say(text) => self.screen.say(&text),
                Line::Ended { trial, state, loud, seconds } => {
                    self.screen.end(&trial, seconds, done, (&state, loud), &estimates);
                }
            }
        }
    }

    fn say_new(&mut self, trials: Vec<TuningTrial>) {
        for trial in trials {
            let lines = self.follower.see_trial(trial);
            self.say(lines);
        }
    }

    fn refresh(&self) {
        let Some(experiment) = self.follower.experiment() else { return };
        let (planned, done) = self.follower.count();
        let time = left(seconds_left(experiment, unix_ms()));
        let message = format!("{done} of {planned}, {time}: {}", self.follower.under_way());
        self.screen.show(done, message, so_far(experiment));
    }

    /// Without an operator nothing will ever happen, and nobody would say so.
    fn miss_operator(&mut self) {
        let alone = self.follower.experiment().is_some_and(|experiment| !observed(experiment));
        if alone && !self.no_operator_said && self.since.elapsed() > OPERATOR_PATIENCE {
            self.no_operator_said = true;
            self.screen.say(&format!(
                "assay: no operator has picked up {} in {} s: is one installed, and does it watch this namespace?",
                self.name,
                OPERATOR_PATIENCE.as_secs()
            ));
        }
    }
}
