//! Sweeps on a cluster: what they say, and all that we change of them.

use std::time::Duration;

use anyhow::{Context as _, bail};
use assay_api::condition::find;
use assay_api::names::{ACCEPTED, SWEEP_LABEL};
use assay_api::{Accept, Candidate, TuningHistory, TuningSweep, TuningSweepSpec};
use assay_core::sweep::{History, Imported, Night, Object, Ring};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, ValidationDirective};
use kube::core::DeserializeGuard;
use kube::{Api, Error, ResourceExt};
use serde_json::{Value, json};

use super::client::{Cluster, all, readable};
use super::errors::{Explain as _, not_found, passes, words};
use crate::print;

/// The field manager of what we write.
const MANAGER: &str = "assay";
/// Between two looks at a sweep.
const PAUSE: Duration = Duration::from_secs(2);
/// Whoever else changes the same sweep is done after so many tries.
const TRIES: usize = 5;

impl Cluster {
    fn sweeps(&self) -> Api<TuningSweep> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn histories(&self) -> Api<TuningHistory> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The sweep of this name, if there is one.
    pub async fn find_sweep(&self, name: &str) -> anyhow::Result<Option<TuningSweep>> {
        match self.sweeps().get(name).await {
            Ok(sweep) => Ok(Some(sweep)),
            Err(error) if not_found(&error) => Ok(None),
            Err(error) => Err(error).explain(&format!("can't read sweep {name}")),
        }
    }

    /// The sweep of this name.
    pub async fn sweep(&self, name: &str) -> anyhow::Result<TuningSweep> {
        self.find_sweep(name).await?.with_context(|| {
            format!("no sweep {name} in namespace {}: `assay sweep list -A` lists all namespaces", self.namespace)
        })
    }

    /// All sweeps of the namespace, or of all namespaces.
    pub async fn all_sweeps(&self, everywhere: bool) -> anyhow::Result<Vec<TuningSweep>> {
        let client = self.client.clone();
        let api: Api<DeserializeGuard<TuningSweep>> =
            if everywhere { Api::all(client) } else { Api::namespaced(client, &self.namespace) };
        Ok(readable(all(&api, ListParams::default()).await.explain("can't read the sweeps")?))
    }

    /// What the cluster remembers of a sweep, with the versions of the objects that hold it. They outlive the sweep.
    pub async fn ring(&self, sweep: &str) -> anyhow::Result<(Ring, Vec<TuningHistory>)> {
        let labelled = ListParams::default().labels(&format!("{SWEEP_LABEL}={sweep}"));
        let objects = self.histories().list(&labelled).await;
        let objects = objects.explain(&format!("can't read the history of sweep {sweep}"))?.items;
        let held = objects.iter().cloned().map(Object::from);
        let ring = Ring::read(sweep, held);
        for damaged in ring.damaged() {
            print::note(format_args!("assay: part of the history can't be read: {damaged}"));
        }
        Ok((ring, objects))
    }
}

/// Suspends a sweep, or resumes it.
pub async fn suspend(cluster: &Cluster, name: &str, suspend: bool) -> anyhow::Result<()> {
    patch(cluster, name, &json!({"spec": {"suspend": suspend}}))
        .await
        .explain(&format!("can't change sweep {name}"))?;
    Ok(())
}

/// Asks for a night now.
pub async fn run_now(cluster: &Cluster, name: &str, token: &str) -> anyhow::Result<()> {
    patch(cluster, name, &json!({"spec": {"runNow": token}})).await.explain(&format!("can't change sweep {name}"))?;
    Ok(())
}

/// What a subject, or whoever has a value of the matrix, is to run from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewImage {
    pub subject: String,
    pub image: String,
}

/// Sets images of subjects, or of values of the matrix, with the revision that they were built from. All, or none.
pub async fn set_images(
    cluster: &Cluster,
    name: &str,
    images: &[NewImage],
    revision: Option<&str>,
) -> anyhow::Result<()> {
    change(cluster, name, |sweep| {
        let spec = with_images(sweep, images, revision)?;
        Ok(json!({"subjects": spec.subjects, "matrix": spec.matrix}))
    })
    .await
}

/// Adds a change to those that are accepted, in the place of what was said of it before.
pub async fn accept(cluster: &Cluster, name: &str, accept: &Accept) -> anyhow::Result<()> {
    change(cluster, name, |sweep| {
        let others = sweep.spec.accept.iter().filter(|own| own.change != accept.change);
        Ok(json!({"accept": others.chain([accept]).collect::<Vec<_>>()}))
    })
    .await
}

/// Changes the versions among which a culprit is looked for.
pub async fn list_candidates(
    cluster: &Cluster,
    name: &str,
    of: impl Fn(&[Candidate]) -> Vec<Candidate>,
) -> anyhow::Result<()> {
    change(cluster, name, |sweep| {
        let listed = sweep.spec.bisect.as_ref().map_or(&[][..], |bisect| &bisect.candidates);
        Ok(json!({"bisect": {"candidates": of(listed)}}))
    })
    .await
}

/// Changes lists of a spec, which are patched as a whole, so nobody may have changed them since they were read.
async fn change(
    cluster: &Cluster,
    name: &str,
    of: impl Fn(&TuningSweep) -> anyhow::Result<Value>,
) -> anyhow::Result<()> {
    let mut tries = 1;
    loop {
        let sweep = cluster.sweep(name).await?;
        let changed = json!({"metadata": {"resourceVersion": sweep.metadata.resource_version}, "spec": of(&sweep)?});
        match patch(cluster, name, &changed).await {
            Err(Error::Api(status)) if status.code == 409 && tries < TRIES => tries += 1,
            other => {
                other.explain(&format!("can't change sweep {name}"))?;
                return Ok(());
            }
        }
    }
}

/// A sweep with other images.
fn with_images(sweep: &TuningSweep, images: &[NewImage], revision: Option<&str>) -> anyhow::Result<TuningSweepSpec> {
    let mut spec = sweep.spec.clone();
    for NewImage { subject, image } in images {
        let name = sweep.name_any();
        if *subject == spec.reference.name {
            bail!(
                "{subject} is the reference of sweep {name}: another one begins new series, so change it in the sweep's file \
                 (see docs/nights.md)"
            );
        }
        let values = spec.matrix.iter_mut().flat_map(|matrix| &mut matrix.axes).flat_map(|axis| &mut axis.values);
        // The name of any other value would change with its image.
        let values = values
            .filter(|value| value.image.is_some())
            .filter_map(|value| Some((value.name.as_deref()?, &mut value.image, &mut value.revision)));
        let subjects = spec.subjects.iter_mut().map(|own| (own.name.as_str(), &mut own.image, &mut own.revision));
        let (mut found, mut known) = (false, Vec::new());
        for (own, of, revision_of) in subjects.chain(values) {
            known.push(own.to_owned());
            if own == subject {
                *of = Some(image.clone());
                // That of another image says nothing of this one.
                *revision_of = revision.map(str::to_owned);
                found = true;
            }
        }
        if !found {
            bail!("sweep {name} has no subject {subject}: it has {}", known.join(", "));
        }
    }
    Ok(spec)
}

async fn patch(cluster: &Cluster, name: &str, changed: &Value) -> Result<TuningSweep, Error> {
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::default()
    };
    cluster.sweeps().patch(name, &params, &Patch::Merge(changed)).await
}

/// Waits for the night that was asked for with a token, and returns its entry in the history.
pub async fn night_of(cluster: &Cluster, name: &str, token: &str) -> anyhow::Result<Night> {
    let (mut told, mut unreachable, mut own) = (String::new(), false, None::<String>);
    loop {
        let sweep = match cluster.sweeps().get(name).await {
            Ok(sweep) => sweep,
            Err(error) if passes(&error) => {
                if !std::mem::replace(&mut unreachable, true) {
                    print::note(format_args!("assay: {}; still trying", words(&error)));
                }
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(error) => return Err(error).explain(&format!("can't read sweep {name}")),
        };
        unreachable = false;
        let status = sweep.status.clone().unwrap_or_default();
        if let Some(refused) = find(&status.conditions, ACCEPTED).filter(|accepted| accepted.status == "False") {
            bail!("sweep {name} can't run: {}: {}", refused.reason, refused.message);
        }
        if sweep.spec.run_now.as_deref() != Some(token) {
            bail!("someone else asked for another night of sweep {name}: `assay sweep status {name}` shows it");
        }
        let is_visit = status.active.as_ref().is_some_and(|active| active.confirms.is_some());
        let running = status.active.as_ref().and_then(|active| active.experiment.clone()).unwrap_or_default();
        let has_begun = status.last_manual_run.as_deref() == Some(token);
        // What follows a night, at once if it looks suspicious, need not be waited for.
        if has_begun && (running.is_empty() || is_visit || *own.get_or_insert_with(|| running.clone()) != running) {
            let (ring, _) = cluster.ring(name).await?;
            let night = ring.history().nights().rev().find(|night| night.run_now.as_deref() == Some(token)).cloned();
            if let Some(night) = night {
                return Ok(night);
            }
        }
        if !running.is_empty() && running != told {
            print::note(format_args!("assay: {running} runs; `assay status {running}` shows its trials"));
            told = running;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Adds nights to what the cluster remembers of their sweep, which need not be there yet. The operator writes the same objects, so each is
/// written only if nobody else has written it since it was read.
pub async fn import(cluster: &Cluster, history: &History) -> anyhow::Result<Imported> {
    let name = history.sweep();
    let sweep = cluster.find_sweep(name).await?;
    if let Some(active) = sweep.and_then(|sweep| sweep.status?.active) {
        let night = active.experiment.unwrap_or_else(|| active.time.0.to_string());
        bail!("sweep {name} measures a night ({night}): import when it has ended, or cancel it with `assay cancel`");
    }
    let (mut ring, objects) = cluster.ring(name).await?;
    let (imported, change) = ring.import(&history.lines()?)?;
    let failed = format!("can't write the history of sweep {name}; what was written is complete, so import again");
    for object in change.write {
        let known = objects.iter().find(|known| known.name_any() == object.name);
        let (name, version) = (object.name.clone(), known.and_then(ResourceExt::resource_version));
        let written =
            ring.stored(object, &cluster.namespace, version).with_context(|| format!("{name} has no nights"))?;
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match known {
            Some(known) => cluster.histories().replace(&known.name_any(), &params, &written).await.explain(&failed)?,
            None => cluster.histories().create(&params, &written).await.explain(&failed)?,
        };
    }
    for name in change.delete {
        match cluster.histories().delete(&name, &DeleteParams::default()).await {
            Err(error) if !not_found(&error) => return Err(error).explain(&failed),
            _ => {}
        }
    }
    Ok(imported)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep() -> TuningSweep {
        serde_json::from_value(json!({
            "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningSweep", "metadata": {"name": "nightly"},
            "spec": {
                "schedule": "17 1 * * *",
                "reference": {"name": "release", "image": "r/a@sha256:1"},
                "subjects": [
                    {"name": "tonight", "image": "r/a@sha256:2", "revision": "one", "dbOptions": {"max_background_jobs": "4"}},
                    {"name": "other", "image": "r/a@sha256:3", "revision": "two"},
                ],
                "experiment": {
                    "scenarios": [], "repetitions": 1, "objectives": [{"metric": "throughput", "margin": "1%"}],
                },
            },
        }))
        .unwrap()
    }

    #[test]
    fn an_image_is_set_and_nothing_else() {
        let sweep = sweep();
        let image = |subject: &str| vec![NewImage { subject: subject.to_owned(), image: "r/a@sha256:9".to_owned() }];
        let set = with_images(&sweep, &image("tonight"), Some("nine")).unwrap();
        let mut expected = sweep.spec.clone();
        expected.subjects[0].image = Some("r/a@sha256:9".to_owned());
        expected.subjects[0].revision = Some("nine".to_owned());
        assert_eq!(set, expected);
        let other = with_images(&sweep, &image("other"), None).unwrap();
        assert_eq!(other.subjects[1].revision, None, "that of another image");
        let refused = |subject: &str| with_images(&sweep, &image(subject), None).unwrap_err().to_string();
        assert!(refused("release").starts_with("release is the reference of sweep nightly"), "{}", refused("release"));
        assert_eq!(refused("tonigt"), "sweep nightly has no subject tonigt: it has tonight, other");
    }

    #[test]
    fn values_of_a_matrix_are_set_by_their_names() {
        let mut sweep = sweep();
        let matrix = json!({"axes": [
            {"name": "build", "values": [{"name": "tip", "image": "r/a@sha256:2", "revision": "two"}, {"image": "r/a@sha256:3"}]},
            {"name": "jobs", "values": [{"name": "many", "dbOptions": {"max_background_jobs": 8}}]},
        ]});
        sweep.spec.matrix = serde_json::from_value(matrix).unwrap();
        let set = |value: &str| {
            let image = NewImage { subject: value.to_owned(), image: "r/a@sha256:9".to_owned() };
            with_images(&sweep, &[image], Some("nine"))
        };
        let mut expected = sweep.spec.clone();
        let value = &mut expected.matrix.as_mut().unwrap().axes[0].values[0];
        (value.image, value.revision) = (Some("r/a@sha256:9".to_owned()), Some("nine".to_owned()));
        assert_eq!(set("tip").unwrap(), expected);
        let refused = set("many").unwrap_err().to_string();
        assert_eq!(refused, "sweep nightly has no subject many: it has tonight, other, tip", "it has no image");
    }
}
