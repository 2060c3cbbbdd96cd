//! The images of sweeps: what a tag means in a night, and what is said of images that can't be had. Pods are real, and so are the registries.

use assay_api::{TuningExperiment, TuningSweep, TuningSweepStatus, names};
use assay_core::sweep::{Night, Outcome, Trigger};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};

use crate::experiment::on_the_real_node;
use crate::lab::{Lab, SOON};
use crate::limits::write_history;
use crate::machine::image;
use crate::nights::{soon, sweep};
use crate::registry::{PASSWORD, Registry, USER};

/// A sweep that compares two images on the real node.
fn compares(lab: &Lab, name: &str, reference: &str, subject: &str) -> Value {
    let mut sweep = sweep(lab, name);
    let spec = &mut sweep["spec"];
    spec["reference"] = json!({"name": "release", "image": reference});
    spec["subjects"] = json!([{"name": "main", "image": subject}]);
    on_the_real_node(&mut spec["experiment"]);
    spec["experiment"]["scenarios"][0]["workload"]["keyValue"] = json!({
        "keys": 20_000,
        "valueBytes": {"fixed": 400},
        "roles": [{"name": "writer", "steps": 100_000, "warmupSteps": 5_000, "mix": {"get": 9, "put": 1}}],
    });
    sweep
}

impl Lab {
    /// The images of the reference and of the subject, as the experiment of the running night has them.
    async fn images_tonight(&self, sweep: &str) -> (String, [String; 2]) {
        let status = self.sweeps_to(sweep, "its night runs", |status| status.active.is_some()).await;
        let name = status.active.and_then(|active| active.experiment).expect("an experiment");
        let spec = self.api::<TuningExperiment>().get(&name).await.expect("the experiment is there").spec;
        let images = [0, 1].map(|index: usize| spec.configs[index].image.clone().unwrap_or_default());
        (name, images)
    }

    /// The last night of a sweep is a gap for this reason, and says which image it is about.
    async fn is_gap(&self, sweep: &str, reason: &str, image: &str) {
        let status = self.sweeps_to(sweep, "its night is a gap", |status| status.last_skipped.is_some()).await;
        let nights = self.history(sweep).await;
        let night = nights.last().expect("a night");
        let said = night.message.as_deref().unwrap_or_default();
        let right = night.outcome == Outcome::Gap
            && night.reason.as_deref() == Some(reason)
            && night.points.is_empty()
            && said.contains(image);
        self.check(right, &format!("{sweep}: not {reason} of {image}: {night:?}")).await;
        self.check(status.nights_measured == 0 && status.level.is_none(), &format!("{sweep}: {status:?}")).await;
        println!("{sweep}: {reason}: {said}");
    }

    async fn no_lookups(&self) {
        self.until("no pod is left that looked up an image", SOON, async || {
            let looking = format!("{}={}", names::ROLE_LABEL, names::ROLE_RESOLVE);
            self.names::<Pod>(&looking).await.is_empty().then_some(())
        })
        .await;
    }
}

fn is_unchanged(status: &TuningSweepStatus) -> bool {
    status.last_skipped.as_ref().is_some_and(|skipped| skipped.reason == "Unchanged")
}

/// It moves while the first night runs, which keeps what it began with. The next one has the new digest, though it is wanted already. Then
/// nothing changes, which is not measured again, until it moves back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tag_means_one_image_for_a_whole_night() {
    let lab = Lab::alone("tag", 0).await;
    let registry = Registry::open(&lab).await;
    let release = registry.push("lab/bench:main", "bench-first").await;
    let by_digest = |digest: &str| registry.image(&format!("lab/bench@{digest}"));
    let _operator = lab.operator_with(&["--allow-image", &registry.image("lab")], None);
    let mut object = compares(&lab, "moves", &by_digest(&release), &registry.image("lab/bench:main"));
    object["spec"]["runNow"] = json!("first");
    lab.put::<TuningSweep>(Some(&lab.namespace), object).await;
    let (experiment, images) = lab.images_tonight("moves").await;
    lab.check(images == [by_digest(&release), by_digest(&release)], &format!("{images:?}")).await;
    lab.no_lookups().await;
    lab.attempted(&experiment, 1).await;
    let moved = registry.push("lab/bench:main", "bench-second").await;
    lab.check(moved != release, "they are two images").await;
    lab.change("moves", json!({"runNow": "second"})).await;
    lab.sweeps_to("moves", "the first night is measured", |status| status.nights_measured == 1).await;
    let ran = lab.api::<TuningExperiment>().get(&experiment).await.expect("it is kept").spec;
    lab.check(ran.configs[1].image.as_deref() == Some(&by_digest(&release)), "it has kept its image").await;
    lab.sweeps_to("moves", "the second night is measured", |status| status.nights_measured == 2).await;
    let nights = lab.history("moves").await;
    for (night, (digest, token)) in nights.iter().zip([(&release, "first"), (&moved, "second")]) {
        let (reference, subject) = (night.reference.as_ref().expect("it was measured"), &night.subjects[0]);
        let right = night.run_now.as_deref() == Some(token)
            && reference.image.as_deref() == Some(&by_digest(&release))
            && subject.image.as_deref() == Some(&by_digest(digest))
            && !subject.unchanged
            && !night.points.is_empty();
        lab.check(right, &format!("{night:?}")).await;
        println!("{}", night.line().expect("a line"));
    }
    lab.check(nights[0].key != nights[1].key, "what is measured has changed").await;

    // Of so many nights it has learned enough, and the tag stays.
    let earlier = |days: i64| {
        let night = nights[0].night - SignedDuration::from_hours(24 * days);
        Night { night, run_now: None, experiment: None, trigger: Trigger::Schedule, ..nights[0].clone() }
    };
    write_history(&lab, "moves", &[1, 2, 3].map(earlier)).await;
    lab.change("moves", json!({"schedule": soon().0})).await;
    let status = lab.sweeps_to("moves", "nothing has changed", is_unchanged).await;
    lab.check(status.nights_measured == 5 && status.active.is_none(), &format!("{status:?}")).await;
    let skipped = lab.history("moves").await.pop().expect("a night");
    lab.check(skipped.outcome == Outcome::Skipped && skipped.experiment.is_none(), &format!("{skipped:?}")).await;

    registry.push("lab/bench:main", "bench-first").await;
    lab.change("moves", json!({"schedule": soon().0})).await;
    let (_, images) = lab.images_tonight("moves").await;
    lab.check(images[1] == by_digest(&release), &format!("the night that saw the tag move back has {images:?}")).await;
    lab.close().await;
}

/// Each for a reason of its own, and all say which image it is. With the namespace's pull secret the same sweep is measured: by pods that look
/// up a tag, check options and run trials.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_cannot_be_had_is_a_gap() {
    let lab = Lab::alone("pull", 0).await;
    let (open, asking) = (Registry::open(&lab).await, Registry::asking(&lab).await);
    let release = asking.image(&format!("lab/release@{}", asking.push("lab/release:1", "bench-first").await));
    let secret = asking.image(&format!("lab/secret@{}", asking.push("lab/secret:1", "bench-second").await));
    asking.push("lab/main:tonight", "bench-second").await;
    let kept = open.image(&format!("lab/kept@{}", open.push("lab/kept:1", "bench-first").await));
    open.push("lab/untagged:tonight", "bench-first").await;
    open.delete("lab/untagged", "tonight").await;
    let digest = open.push("lab/deleted:1", "bench-first").await;
    open.delete("lab/deleted", &digest).await;
    let (untagged, deleted) = (open.image("lab/untagged:tonight"), open.image(&format!("lab/deleted@{digest}")));
    let main = asking.image("lab/main:tonight");
    let _operator = lab.operator_with(&["--allow-image", "*"], None);
    let sweeps = [
        ("locked", &release, &main, "ImagePullFailed"),
        ("secret", &release, &secret, "ImagePullFailed"),
        ("untagged", &kept, &untagged, "ImagePullFailed"),
        ("deleted", &kept, &deleted, "ImagePullFailed"),
        ("imported", &kept, &image("bench-first"), "DigestUnknown"),
    ];
    for (name, reference, subject, _) in sweeps {
        let mut object = compares(&lab, name, reference, subject);
        object["spec"]["runNow"] = json!("now");
        // What is pinned is not looked up: its night waits for it so long.
        object["spec"]["startingDeadlineSeconds"] = json!(150);
        lab.put::<TuningSweep>(Some(&lab.namespace), object).await;
    }
    for (name, _, subject, reason) in sweeps {
        // Who can't log in can't pull the reference, either.
        let about = if name == "secret" { asking.address.as_str() } else { subject };
        lab.is_gap(name, reason, about).await;
    }
    lab.until("nothing is left of these nights", SOON, async || {
        lab.names::<TuningExperiment>("").await.is_empty().then_some(())
    })
    .await;
    lab.no_lookups().await;

    // As docs/install.md says.
    let login = [
        "create",
        "secret",
        "docker-registry",
        "registry",
        "--docker-server",
        &asking.address,
        "--docker-username",
        USER,
        "--docker-password",
        PASSWORD,
    ];
    lab.kubectl(&login).await;
    let patch = r#"{"imagePullSecrets": [{"name": "registry"}]}"#;
    lab.kubectl(&["patch", "serviceaccount", "default", "--patch", patch]).await;
    let account = lab.api::<ServiceAccount>().get("default").await.expect("an account");
    lab.check(account.image_pull_secrets.is_some_and(|secrets| secrets.len() == 1), "it has the secret").await;
    lab.change("locked", json!({"runNow": "again"})).await;
    lab.sweeps_to("locked", "its night is measured", |status| status.nights_measured == 1).await;
    let night = lab.history("locked").await.pop().expect("a night");
    let pulled = night.subjects[0].image.as_deref().unwrap_or_default();
    lab.check(pulled.starts_with(&asking.image("lab/main@sha256:")), &format!("{night:?}")).await;
    lab.close().await;
}

mod real {
    use super::*;

    /// Where images are put onto nodes by hand, no digest says what a tag means, and none is made up.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_no_registry_has_is_unknown() {
        let lab = Lab::alone("imported", 0).await;
        let bench = image("bench");
        let _operator = lab.operator_with(&["--image-pull-policy", "Never", "--allow-image", &bench], None);
        let pinned = format!("localhost/assay-bench@sha256:{}", "0".repeat(64));
        let mut object = compares(&lab, "imported", &pinned, &bench);
        object["spec"]["runNow"] = json!("now");
        lab.put::<TuningSweep>(Some(&lab.namespace), object).await;
        lab.is_gap("imported", "DigestUnknown", &bench).await;
        lab.no_lookups().await;
        lab.close().await;
    }
}
