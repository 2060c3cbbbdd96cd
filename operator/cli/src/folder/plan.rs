//! The plan of a folder, which never changes.

use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use assay_core::plan::Plan;

use super::files::{read_if_there, write};
use super::read::has_trials;

/// Whether a folder is one of a run.
pub fn is_of_run(dir: &Path) -> bool {
    dir.join("plan.json").is_file() || has_lost_plan(dir)
}

/// Trials come after the plan and after what tells where they are from.
fn has_lost_plan(dir: &Path) -> bool {
    !dir.join("plan.json").exists()
        && ["bench.json", "cluster.json"].iter().any(|name| dir.join(name).is_file())
        && has_trials(dir)
}

/// The plan that is kept in a folder.
pub fn kept_plan(dir: &Path) -> anyhow::Result<Plan> {
    let path = dir.join("plan.json");
    let Some(bytes) = read_if_there(&path)? else { bail!("{} is missing: restore it", path.display()) };
    let plan: Plan = serde_json::from_slice(&bytes)
        .map_err(|error| anyhow!("{} is corrupted ({error}): restore it", path.display()))?;
    plan.check().with_context(|| format!("can't use {}", path.display()))?;
    Ok(plan)
}

/// Writes the plan of a folder down, or checks that it is the one that is there.
pub fn keep_plan(dir: &Path, plan: &Plan) -> anyhow::Result<()> {
    let path = dir.join("plan.json");
    let Some(bytes) = read_if_there(&path)? else {
        if has_lost_plan(dir) {
            bail!("{} is missing: restore it, or use another --out", path.display());
        }
        return write(&path, &serde_json::to_vec_pretty(plan)?);
    };
    let kept: Plan = serde_json::from_slice(&bytes)
        .map_err(|error| anyhow!("{} is corrupted ({error}): restore it, or use another --out", path.display()))?;
    kept.check().with_context(|| format!("can't continue with {}: use another --out", path.display()))?;
    if kept.digest != plan.digest {
        bail!(
            "{} holds another plan ({}; this file gives {}): a changed experiment is a new experiment, so use another \
             --out",
            dir.display(),
            kept.digest,
            plan.digest
        );
    }
    Ok(())
}
