//! Pods of trials, as they come and go.

use assay_api::names;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};

use crate::lab::{Lab, SOON};

/// Every change of pods. A watch that ends is begun again.
pub fn changes(pods: Api<Pod>) -> impl Stream<Item = watcher::Event<Pod>> + Send {
    watcher(pods, watcher::Config::default()).default_backoff().filter_map(|event| async { event.ok() })
}

pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

pub fn role(pod: &Pod) -> &str {
    pod.labels().get(names::ROLE_LABEL).map_or("", String::as_str)
}

pub fn trial(pod: &Pod) -> &str {
    pod.labels().get(names::TRIAL_LABEL).map_or("", String::as_str)
}

pub fn attempt(pod: &Pod) -> u32 {
    pod.labels().get(names::ATTEMPT_LABEL).and_then(|number| number.parse().ok()).unwrap_or_default()
}

pub fn node(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

impl Lab {
    /// Waits for a trial's pod that fits.
    pub async fn pod(&self, what: &str, fits: impl Fn(&Pod) -> bool) -> Pod {
        self.until(what, 120, async || {
            let pods = self.api::<Pod>().list(&ListParams::default()).await.ok()?;
            pods.items.into_iter().find(|pod| role(pod) == names::ROLE_TRIAL && fits(pod))
        })
        .await
    }

    /// Waits until all pods of trials are gone.
    pub async fn no_pods(&self) {
        let selector = format!("{}={}", names::ROLE_LABEL, names::ROLE_TRIAL);
        let none = async || self.names::<Pod>(&selector).await.is_empty().then_some(());
        self.until("no pod of a trial is left", SOON, none).await;
    }

    /// Waits for a trial's pod that runs.
    pub async fn running_pod(&self) -> Pod {
        self.pod("a trial runs", |pod| phase(pod) == "Running" && pod.metadata.deletion_timestamp.is_none()).await
    }
}
