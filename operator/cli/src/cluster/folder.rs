//! The folder of an experiment on a cluster: what `assay run` leaves on one machine, from objects.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use assay_api::{AttemptStatus, TuningExperiment, TuningTrial, names};
use assay_core::cluster::trial_id;
use assay_core::plan::Plan;
use assay_core::validate::{API_VERSION, KIND, Problem, validate};
use assay_record::Digest;
use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::json;

use crate::run::store::cluster::{KeptAttempt, Origin};
use crate::run::store::{Lock, keep_plan, make_dir, write};

/// No record is larger; what is, was not written by a bench.
const MOST_BYTES: u64 = 64 << 20;

/// The folder, held for this process.
#[derive(Debug)]
pub struct Folder {
    pub dir: PathBuf,
    _lock: Lock,
}

/// The plan of an experiment, drawn anew from its spec: it must be the one that the trials were run by.
pub fn plan_of(experiment: &TuningExperiment) -> anyhow::Result<Plan> {
    let name = experiment.metadata.name.as_deref().unwrap_or_default();
    let Some(kept) = experiment.status.as_ref().and_then(|status| status.plan.as_ref()) else {
        bail!(
            "experiment {name} has no plan yet, so there are no trials: `assay status {name}` says what it waits for"
        );
    };
    let (own, theirs) = (concat!("assay ", env!("CARGO_PKG_VERSION")), &kept.engine);
    let validation = validate(name, &experiment.spec);
    let problem = validation.problems.iter().find(|problem| problem.is_error()).map(Problem::to_string);
    let Some(sound) = validation.experiment else {
        bail!(
            "{own} refuses experiment {name}, which was planned by {theirs} ({}): use the assay of that version",
            problem.unwrap_or_default()
        );
    };
    let plan = Plan::new(sound)?;
    if plan.digest.as_str() != kept.digest {
        bail!(
            "{own} makes another plan of experiment {name} ({}) than {theirs} did, which runs it ({}): use the assay of that \
             version",
            plan.digest,
            kept.digest
        );
    }
    Ok(plan)
}

fn origin(namespace: &str, experiment: &TuningExperiment) -> Origin {
    Origin {
        namespace: namespace.to_owned(),
        experiment: experiment.name_any(),
        uid: experiment.uid().unwrap_or_default(),
    }
}

/// Makes the folder of an experiment where there is none. One that can't be used is refused now, and not in hours when it is
/// needed.
pub fn prepare(dir: &Path, namespace: &str, experiment: &TuningExperiment) -> anyhow::Result<()> {
    let _lock = make(dir)?;
    refuse_another(dir, namespace, experiment)
}

/// Makes a folder, and holds it.
fn make(dir: &Path) -> anyhow::Result<Lock> {
    let trials = dir.join("trials");
    fs::create_dir_all(&trials)
        .with_context(|| format!("{} can't be made: choose another folder with --out", trials.display()))?;
    Lock::take(dir)
}

/// Refuses a folder that holds something else than this experiment.
fn refuse_another(dir: &Path, namespace: &str, experiment: &TuningExperiment) -> anyhow::Result<()> {
    if dir.join("bench.json").exists() {
        bail!("{} holds trials that were run on this machine: use another --out", dir.display());
    }
    match Origin::of(dir)? {
        Some(kept) if kept != origin(namespace, experiment) => bail!(
            "{} holds the trials of another experiment ({} in namespace {}, uid {}): use another --out",
            dir.display(),
            kept.experiment,
            kept.namespace,
            kept.uid
        ),
        _ => Ok(()),
    }
}

impl Folder {
    /// Opens or makes the folder of an experiment. One that holds another is left alone.
    pub fn open(
        dir: &Path,
        namespace: &str,
        experiment: &TuningExperiment,
        plan: &Plan,
        source: Option<&[u8]>,
    ) -> anyhow::Result<Self> {
        let lock = make(dir)?;
        refuse_another(dir, namespace, experiment)?;
        let origin = origin(namespace, experiment);
        keep_plan(dir, plan)?;
        origin.keep(dir)?;
        let copy = dir.join("experiment.yaml");
        if !copy.exists() {
            match source {
                Some(source) => write(&copy, source)?,
                None => write(&copy, as_file(experiment)?.as_bytes())?,
            }
        }
        Ok(Self { dir: dir.to_owned(), _lock: lock })
    }

    /// Writes down an attempt, with its record where that was stored.
    pub fn keep(&self, trial: &TuningTrial, status: &AttemptStatus, record: Option<&ConfigMap>) -> anyhow::Result<()> {
        let dir = self.trial_dir(trial, status.attempt);
        make_dir(&dir)?;
        let mut kept = KeptAttempt { trial: trial.spec.clone(), attempt: status.clone(), dropped: Vec::new() };
        if let Some(record) = record {
            kept.dropped = dropped(record);
            write(&dir.join("record.json"), &unpacked(record)?)?;
        }
        let path = dir.join("attempt.json");
        write(&path, &serde_json::to_vec_pretty(&kept)?)
    }

    /// Whether an attempt is there already, whole and unchanged.
    pub fn has(&self, trial: &TuningTrial, status: &AttemptStatus) -> bool {
        let dir = self.trial_dir(trial, status.attempt);
        let Ok(bytes) = fs::read(dir.join("attempt.json")) else { return false };
        let Ok(kept) = serde_json::from_slice::<KeptAttempt>(&bytes) else { return false };
        let record = fs::read(dir.join("record.json")).ok();
        kept.attempt == *status
            && kept.trial == trial.spec
            && kept.dropped.is_empty()
            && record.is_some()
            && kept.read(&dir, record.as_deref()).is_ok()
    }

    fn trial_dir(&self, trial: &TuningTrial, attempt: u32) -> PathBuf {
        self.dir.join("trials").join(trial_id(&trial.spec, attempt).file_stem())
    }
}

/// The experiment as a file that gives the same plan.
fn as_file(experiment: &TuningExperiment) -> anyhow::Result<String> {
    let spec = experiment.spec.fixed();
    let document = json!({
        "apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": experiment.metadata.name}, "spec": spec,
    });
    Ok(serde_yaml::to_string(&document)?)
}

/// Parts that a record lost on its way.
fn dropped(record: &ConfigMap) -> Vec<String> {
    let annotations = record.metadata.annotations.iter();
    let parts = annotations.filter_map(|all| all.get(names::DROPPED_ANNOTATION)).flat_map(|parts| parts.split(','));
    parts.map(str::trim).filter(|part| !part.is_empty()).map(ToOwned::to_owned).collect()
}

/// The record in its `ConfigMap`.
pub fn unpacked(record: &ConfigMap) -> anyhow::Result<Vec<u8>> {
    let name = record.metadata.name.as_deref().unwrap_or_default();
    let packed = record.binary_data.as_ref().and_then(|data| data.get(names::RECORD_KEY));
    let packed = packed.with_context(|| format!("ConfigMap {name} has no {}: it is no record", names::RECORD_KEY))?;
    let mut bytes = Vec::new();
    let unpacked = GzDecoder::new(packed.0.as_slice()).take(MOST_BYTES).read_to_end(&mut bytes);
    unpacked.with_context(|| {
        format!("the record in ConfigMap {name} can't be unpacked (digest {})", Digest::of(&packed.0))
    })?;
    Ok(bytes)
}
