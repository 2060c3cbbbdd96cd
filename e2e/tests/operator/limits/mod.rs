//! What the operator takes where there is much of everything. `make limits-test` runs these and prints the figures; only bytes, counts
//! and ratios have bounds.

mod calls;
mod hostile;
mod nights;

pub use nights::write_history;

use std::time::Duration;

use serde_json::{Value, json};

use crate::experiment::small;
use crate::lab::Lab;
use crate::logs::Logs;

/// Writes of a test at the same time.
const AT_ONCE: usize = 8;

/// The small experiment, on one node and no other.
fn on_node(lab: &Lab, name: &str, node: &str) -> Value {
    let mut experiment = small(lab, name);
    experiment["spec"]["placement"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
    experiment
}

/// What was asked that is neither a watch nor the renewal of a Lease, which happens by the clock.
fn calls(logs: &Logs) -> Vec<String> {
    let asked = logs.asked().into_iter();
    asked.filter(|asked| !asked.contains("watch=") && !asked.contains("/leases")).collect()
}

/// Waits until nothing happens any more.
async fn quiet(lab: &Lab, logs: &Logs) {
    lab.until("the operator has nothing to do", 300, async || {
        let _ = calls(logs);
        tokio::time::sleep(Duration::from_secs(5)).await;
        calls(logs).is_empty().then_some(())
    })
    .await;
}
