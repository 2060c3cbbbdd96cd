//! Asks running trials for their progress, again and again. The API server is not asked.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use assay_api::names::{ROLE_LABEL, ROLE_TRIAL};
use futures::{StreamExt as _, stream};
use kube::ResourceExt as _;

use super::context::Context;
use super::memory::{Name, experiment_of};
use crate::scrape;

/// Pages in memory at the same time.
const AT_ONCE: usize = 8;
/// Between two times.
const PAUSE: Duration = Duration::from_secs(5);

pub async fn keep_up(context: Arc<Context>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let running = context.all_pods().into_iter().filter_map(|pod| {
            let status = pod.status.as_ref()?;
            let is_trial = pod.labels().get(ROLE_LABEL).is_some_and(|role| role == ROLE_TRIAL);
            let is_running = status.phase.as_deref() == Some("Running");
            let ip = status.pod_ip.clone().filter(|_| is_trial && is_running)?;
            Some((experiment_of(&pod)?, pod.name_any(), ip))
        });
        let asked = running.map(|(experiment, pod, ip)| {
            let http = &context.cluster.http;
            async move { Some((experiment, pod, scrape::progress(http, &ip).await?)) }
        });
        let mut known: HashMap<Name, HashMap<String, f64>> = HashMap::new();
        let told: Vec<_> = stream::iter(asked).buffer_unordered(AT_ONCE).collect().await;
        for (experiment, pod, share) in told.into_iter().flatten() {
            known.entry(experiment).or_default().insert(pod, share);
        }
        for (name, memory) in context.memories.all() {
            memory.lock().progress = known.remove(&name).unwrap_or_default();
        }
    }
}
