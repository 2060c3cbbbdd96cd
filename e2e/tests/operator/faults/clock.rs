//! Clocks of nodes are not the operator's.

use serde_json::json;

use crate::bench::{End, Run};
use crate::scene::Scene;

/// By its own clock the node did everything twenty minutes ago, twice as long as a block may take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_clock_is_behind_is_no_old_block() {
    let script = |run: &Run| {
        if run.is_chosen() {
            return End::crashes();
        }
        run.done_with(|summary| summary.started_unix_ms -= 20 * 60 * 1000)
    };
    let scene = Scene::new("clock", |bench| bench.script(script)).await;
    scene.begin(|spec| spec["maxBlockDurationSeconds"] = json!(600)).await;
    scene.ends_well(&["Lost Crashed"]).await;
}
