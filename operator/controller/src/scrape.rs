//! What a running bench says about its progress.

use assay_protocol::invocation::in_pod::METRICS_PORT;
use assay_protocol::output::{METRICS_PATH, share_done};

use crate::http::Http;

/// Asks a bench which share of its steps it has done; `None` where it does not answer, which says nothing about the trial.
pub async fn progress(http: &Http, pod_ip: &str) -> Option<f64> {
    let host = if pod_ip.contains(':') { format!("[{pod_ip}]") } else { pod_ip.to_owned() };
    let (status, page) = http.get(&format!("http://{host}:{METRICS_PORT}{METRICS_PATH}")).await.ok()?;
    if status == 200 { share_done(&page) } else { None }
}
