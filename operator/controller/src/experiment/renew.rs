//! Renews the Leases of nodes on which something runs, or whose last pod is not written down yet, however long a reconcile takes.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;
use tracing::warn;

use super::context::Context;
use super::node_lease;

/// Between two times.
const PAUSE: Duration = Duration::from_secs(10);
/// Requests at the same time.
const AT_ONCE: usize = 16;

pub async fn keep_up(context: Arc<Context>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let renewed = node_lease::due(&context).into_iter().map(async |lease: Arc<Lease>| {
            if let Err(error) = context.cluster.leases.renew(&lease).await {
                warn!(lease = lease.name_any(), %error, "can't renew it; will retry");
            }
        });
        stream::iter(renewed).for_each_concurrent(AT_ONCE, |done| done).await;
    }
}
