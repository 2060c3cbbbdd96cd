//! A bisection on a cluster: each visit is an experiment like any other, and all that is known of the search is in these.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use assay_api::condition::find;
use assay_api::names::{ACCEPTED, BISECT_LABEL, UNMEASURED_ANNOTATION};
use assay_api::{Config, TuningExperiment, TuningExperimentSpec};
use assay_core::bisect::{Arm, Listed, Observed, experiment, observed, whole};
use assay_core::cluster::attempts;
use assay_core::experiment::Experiment;
use assay_core::validate::{API_VERSION, KIND, Problem, validate};
use assay_protocol::Digest;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::changes::{apply, refuse_another, set_aside};
use super::client::{Cluster, ClusterArgs, on, read};
use super::following::{Followed, follow, interrupted};
use super::plan::plan_of;
use super::run::placed;
use super::words::{conditions, finished, refused, unix_ms};
use crate::file::{ListingFile, Wanted, check_for_cluster};
use crate::machine;
use crate::print;
use crate::search::{Asked, Found, Search, Visit};
use crate::text::plural;

/// How long an image may fail to be pulled: a registry that restarts is back by then.
const PATIENCE: Duration = Duration::from_mins(2);
/// What kubelets say of an image that they can't pull.
const UNPULLED: [&str; 4] = ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"];
/// The longest name that leaves room for "-bisect-" and a number.
const LONGEST: usize = 51;

/// What somebody wants of a bisection on a cluster.
pub struct There<'a> {
    pub good: &'a str,
    pub bad: &'a str,
    pub listing: &'a Path,
    /// What its experiments are called.
    pub name: Option<&'a str>,
    pub which: &'a ClusterArgs,
}

/// What can run there.
struct Searched {
    name: String,
    /// All that each candidate sets.
    arms: Vec<Config>,
    digests: Vec<Digest>,
    template: Experiment,
    spec: TuningExperimentSpec,
    /// The file that the spec is from.
    file: PathBuf,
    document: Value,
}

/// Runs a bisection to its end; `None` after Ctrl-C.
pub fn bisect(there: &There<'_>) -> anyhow::Result<Option<Found>> {
    let asked = Asked::read(there.listing, there.good, there.bad)?;
    asked.refuse(
        "bench",
        |listed| listed.bench.is_some(),
        "programs run on one machine: list its image instead, or leave out --cluster",
    )?;
    let searched = Searched::read(&asked, there.name)?;
    let mut search = asked.search(&searched.template, &searched.digests)?;
    searched.check(&asked, &search)?;
    on(there.which, |cluster| async {
        let cluster = placed(cluster, &searched.document, there.which, &searched.file)?;
        let place = searched.place(&cluster);
        let ended = tokio::select! {
            // While an experiment is followed it sees Ctrl-C itself.
            biased;
            ended = searched.run(&cluster, &mut search, &place) => ended?,
            stopped = interrupted() => {
                stopped?;
                print::note("assay: interrupted; run the same command again to continue");
                false
            }
        };
        if ended { search.found(place, None).map(Some) } else { Ok(None) }
    })
}

impl Searched {
    fn read(asked: &Asked, name: Option<&str>) -> anyhow::Result<Self> {
        let file = asked.experiment()?;
        let mut checked = check_for_cluster(&file, Wanted::Either);
        print::err(&checked);
        let (Some(template), Some(document), Some(spec)) =
            (checked.experiment.take(), checked.document.take(), checked.spec.take())
        else {
            bail!("nothing was run: fix the {} of {} above", plural(checked.errors(), "error"), checked.file());
        };
        let name = name.or_else(|| document.value["metadata"]["name"].as_str());
        let name = name.with_context(|| format!("{} has no name: choose one with --name", file.display()))?;
        if name.len() > LONGEST {
            bail!(
                "{name} is too long for names such as {name}-bisect-001: choose one of {LONGEST} characters at most with --name"
            );
        }
        let written = |name: &str| spec.configs.iter().find(|config| config.name == name);
        let baseline = written(&spec.baseline).context("the experiment has no baseline")?.clone();
        let (arms, digests) = if asked.candidates().iter().any(|listed| listed.image.is_some()) {
            let built = |listed: &Listed| Config {
                name: listed.name.clone(),
                image: listed.image.clone(),
                revision: listed.revision.clone(),
                ..baseline.clone()
            };
            asked.candidates().iter().map(|listed| (built(listed), content(listed))).unzip()
        } else {
            let arm = |(listed, (name, digest)): (&Listed, (&str, Digest))| {
                // The baseline is whole as it is.
                let own = if name == baseline.name { baseline.clone() } else { whole(&baseline, written(name)?) };
                Some((Config { name: listed.name.clone(), revision: listed.revision.clone(), ..own }, digest))
            };
            asked.candidates().iter().zip(asked.configs(&template)?).filter_map(arm).unzip()
        };
        Ok(Self { name: name.to_owned(), arms, digests, template, spec, file, document: document.value })
    }

    /// Refuses a candidate whose visits a cluster would refuse, before anything has run.
    fn check(&self, asked: &Asked, search: &Search) -> anyhow::Result<()> {
        let options =
            |side: usize| Config { name: String::new(), image: None, revision: None, ..self.arms[side].clone() };
        // Images run the same options, so one of them speaks for all.
        for side in (1..self.arms.len()).filter(|side| *side == 1 || options(*side) != options(side - 1)) {
            let against = |reference: usize| self.experiment(search, [reference, side], 1, 1);
            let why = match against(side - 1).and_then(|_| against(0)) {
                Ok(spec) => {
                    let problems = validate(&self.called(1), &spec).problems;
                    problems.iter().find(|problem| problem.is_error()).map(ToString::to_string)
                }
                Err(why) => Some(why.to_string()),
            };
            if let Some(why) = why {
                let path = ListingFile::field(asked.range.start() + side, "name");
                asked.file.check(&[Problem::error(path, format!("can't be measured on a cluster: {why}"))])?;
            }
        }
        Ok(())
    }

    /// The name of an experiment.
    fn called(&self, number: usize) -> String {
        format!("{}-bisect-{number:03}", self.name)
    }

    /// How to look at all of them.
    fn place(&self, cluster: &Cluster) -> String {
        let Self { name, .. } = self;
        format!("`kubectl get tuningexperiments -n {} -l {BISECT_LABEL}={name}`", cluster.namespace)
    }

    /// What to do if another experiment has the name of a visit.
    fn renamed(&self, cluster: &Cluster) -> String {
        let (name, namespace) = (&self.name, &cluster.namespace);
        format!(
            "choose another name for this bisection with --name, or delete the earlier one with `kubectl delete \
             tuningexperiments -n {namespace} -l {BISECT_LABEL}={name}`"
        )
    }

    fn experiment(
        &self,
        search: &Search,
        sides: [usize; 2],
        blocks: usize,
        number: usize,
    ) -> anyhow::Result<TuningExperimentSpec> {
        let what = (search.scenario.as_str(), search.rule.name.as_str());
        Ok(experiment(&self.spec, what, sides.map(|side| &self.arms[side]), blocks, number)?)
    }

    /// Makes all visits that are missing; `false` after Ctrl-C.
    async fn run(&self, cluster: &Cluster, search: &mut Search, place: &str) -> anyhow::Result<bool> {
        while let Some(visit) = search.visit() {
            let spec = self.experiment(search, visit.sides(), visit.probe.blocks, visit.number)?;
            let before = self.done(cluster, &visit, &spec).await?;
            let is_new = before.is_none();
            let now = if is_new { self.measure(cluster, search, &visit, &spec).await? } else { before };
            let Some(now) = now else { return Ok(false) };
            search.add(&visit, now, is_new, place)?;
        }
        Ok(true)
    }

    /// What came of a visit whose experiment is there and over.
    async fn done(
        &self,
        cluster: &Cluster,
        visit: &Visit,
        spec: &TuningExperimentSpec,
    ) -> anyhow::Result<Option<Observed>> {
        let Some(found) = cluster.find(&self.called(visit.number)).await? else { return Ok(None) };
        refuse_another(cluster, &found, spec, &self.renamed(cluster))?;
        self.outcome(cluster, &found, visit).await
    }

    /// Runs a visit; `None` after Ctrl-C.
    async fn measure(
        &self,
        cluster: &Cluster,
        search: &Search,
        visit: &Visit,
        spec: &TuningExperimentSpec,
    ) -> anyhow::Result<Option<Observed>> {
        search.begin(visit, spec.repetitions as usize);
        let name = self.called(visit.number);
        let labels = json!({BISECT_LABEL: self.name});
        let object = json!({
            "apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name, "labels": labels}, "spec": spec,
        });
        let experiment = apply(cluster, &name, &object, &self.renamed(cluster)).await?;
        // Both sides run once in a block.
        let planned = 2 * spec.repetitions as usize;
        let is_over = |experiment: &TuningExperiment| {
            finished(experiment).is_some() || !self.unpulled(experiment, visit).is_empty()
        };
        let Followed::Over(experiment) = follow(cluster, &experiment, planned, is_over).await? else {
            print::note(format_args!(
                "assay: interrupted; experiment {name} continues on the cluster in namespace {}; run the same command again to continue",
                cluster.namespace
            ));
            return Ok(None);
        };
        match &self.unpulled(&experiment, visit)[..] {
            [] => {}
            [(arm, why)] => {
                let said = format!("{}: {why}", self.arm(visit, *arm).name);
                set_aside(cluster, &name, &said).await?;
                return Ok(Some(Observed::Unusable(*arm, why.clone())));
            }
            [(_, why), ..] => {
                bail!(
                    "neither image of experiment {name} can be pulled ({why}): fix the cause and run the same command again"
                )
            }
        }
        let seen = self.outcome(cluster, &experiment, visit).await?;
        seen.with_context(|| format!("experiment {name} is over, but has no end: run the same command again")).map(Some)
    }

    fn arm(&self, visit: &Visit, arm: Arm) -> &Config {
        &self.arms[if arm == Arm::Reference { visit.probe.reference } else { visit.probe.candidate }]
    }

    /// What came of an experiment; `None` while it is not over.
    async fn outcome(
        &self,
        cluster: &Cluster,
        experiment: &TuningExperiment,
        visit: &Visit,
    ) -> anyhow::Result<Option<Observed>> {
        let arms = [Arm::Reference, Arm::Candidate].map(|arm| (arm, self.arm(visit, arm)));
        if let Some(aside) = experiment.annotations().get(UNMEASURED_ANNOTATION) {
            let about = arms.iter().find_map(|(arm, config)| {
                let why = aside.strip_prefix(&config.name)?.strip_prefix(": ")?;
                Some(Observed::Unusable(*arm, why.to_owned()))
            });
            return about.map(Some).with_context(|| {
                let name = experiment.name_any();
                format!("the annotation {UNMEASURED_ANNOTATION} of experiment {name} names no candidate of it: remove the annotation")
            });
        }
        if finished(experiment).is_none() {
            return Ok(None);
        }
        if refused(experiment).is_some() {
            let why = find(conditions(experiment), ACCEPTED).map_or("", |accepted| accepted.message.as_str());
            return match blamed(why, [&arms[0].1.name, &arms[1].1.name]) {
                Some(side) => Ok(Some(Observed::Unusable(arms[side].0, why.to_owned()))),
                None => bail!("experiment {} was refused: {why}", experiment.name_any()),
            };
        }
        let plan = plan_of(experiment)?;
        let trials = cluster.trials_of(experiment).await?.into_iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Some(observed(&plan, &attempts(&plan, &trials)?)?))
    }

    /// Sides whose images can't be pulled, and why, once that has lasted long enough. Such an experiment never ends by itself.
    fn unpulled(&self, experiment: &TuningExperiment, visit: &Visit) -> Vec<(Arm, String)> {
        let accepted = find(conditions(experiment), ACCEPTED).filter(|accepted| accepted.status == "Unknown");
        let Some(accepted) = accepted else { return Vec::new() };
        let since = experiment.metadata.creation_timestamp.as_ref().map_or(u64::MAX, unix_ms);
        let waited = Duration::from_millis(machine::unix_ms().saturating_sub(since));
        let arms = [Arm::Reference, Arm::Candidate];
        let told = told(&accepted.message, arms.map(|arm| self.arm(visit, arm).name.as_str()));
        let is_unpulled = |why: &str| UNPULLED.iter().any(|word| why.starts_with(word)) && waited > PATIENCE;
        let failed = arms.into_iter().zip(told).filter(|(_, why)| is_unpulled(why));
        failed.map(|(arm, why)| (arm, why.to_owned())).collect()
    }
}

/// What an image is: its digest, wherever it comes from.
fn content(listed: &Listed) -> Digest {
    let image = listed.image.as_deref().unwrap_or_default();
    Digest::of(image.split_once('@').map_or(image, |(_, digest)| digest).as_bytes())
}

/// What the check of options says of each of two configs: "checking options; ONE: ...; OTHER: ...".
fn told<'a>(message: &'a str, names: [&str; 2]) -> [&'a str; 2] {
    let starts = names.map(|name| {
        let key = format!("; {name}: ");
        message.find(&key).map(|start| (start, start + key.len()))
    });
    let of = |own: usize| {
        let Some((_, from)) = starts[own] else { return "" };
        // What a kubelet says may have semicolons.
        let other = starts[1 - own].map(|(start, _)| start).filter(|start| *start >= from);
        &message[from..other.unwrap_or(message.len())]
    };
    [of(0), of(1)]
}

/// The one of two configs that all reasons of a refusal are about.
fn blamed(why: &str, names: [&String; 2]) -> Option<usize> {
    let side = |line: &str| {
        let is_of = |side: &usize| {
            let field = line.strip_prefix(&format!("spec.configs[{side}]"));
            field.is_some() || line.starts_with(&format!("config {}: ", names[*side]))
        };
        [0, 1].into_iter().find(is_of)
    };
    let mut sides = why.lines().map(side);
    let first = sides.next()??;
    sides.all(|other| other == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_a_side_ends_where_the_other_one_begins() {
        let message = "checking options; v8: ErrImagePull: not found; tried 2 hosts; v1: no answer yet";
        assert_eq!(told(message, ["v1", "v8"]), ["no answer yet", "ErrImagePull: not found; tried 2 hosts"]);
        assert_eq!(told("checking options; v18: ErrImagePull", ["v1", "v8"]), ["", ""]);
        assert_eq!(told("", ["v1", "v8"]), ["", ""]);
    }

    #[test]
    fn a_refusal_is_about_a_side_if_all_of_it_is() {
        let names = ["v1".to_owned(), "v8".to_owned()];
        let blamed = |why: &str| blamed(why, [&names[0], &names[1]]);
        assert_eq!(blamed("config v8: can't check its options: exit code 127: "), Some(1));
        assert_eq!(blamed("spec.configs[0].dbOptions.x: no such option\nconfig v1: out of memory"), Some(0));
        assert_eq!(blamed("config v8: out of memory\nconfig v1: out of memory"), None);
        assert_eq!(blamed("config v8: out of memory\nspec.scenarios[0]: too large"), None);
        assert_eq!(blamed(""), None);
    }

    #[test]
    fn an_image_is_its_digest() {
        let of = |image: &str| content(&serde_json::from_value(json!({"name": "v", "image": image})).unwrap());
        assert_eq!(of("r/a@sha256:1"), of("mirror:5000/b@sha256:1"));
        assert_ne!(of("r/a@sha256:1"), of("r/a@sha256:2"));
        assert_ne!(of("r/a:1"), of("r/b:1"));
    }
}
