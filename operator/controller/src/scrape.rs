//! What a running bench says about its progress.

use crate::http::Http;
use crate::pod::METRICS_PORT;

/// Asks a bench which share of its steps it has done; `None` where it does not answer, which says nothing about the trial.
pub async fn progress(http: &Http, pod_ip: &str) -> Option<f64> {
    let host = if pod_ip.contains(':') { format!("[{pod_ip}]") } else { pod_ip.to_owned() };
    let (status, page) = http.get(&format!("http://{host}:{METRICS_PORT}/metrics")).await.ok()?;
    if status == 200 { share(&page) } else { None }
}

fn share(page: &str) -> Option<f64> {
    let sum = |name: &str| -> f64 {
        let lines = page.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
    };
    let planned = sum("assay_trial_steps_planned");
    (planned > 0.0).then(|| (sum("assay_trial_steps_done") / planned).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn progress_is_the_share_of_all_roles() {
        let page = "assay_trial_steps_done{role=\"a\"} 30\nassay_trial_steps_done{role=\"b\"} 20\n\
                    assay_trial_steps_planned{role=\"a\"} 100\nassay_trial_steps_planned{role=\"b\"} 100\n";
        assert_eq!(share(page), Some(0.25));
        assert_eq!(share("# EOF\n"), None, "before the workload begins nothing is known");
    }
}
