//! The plan of a folder, which never changes.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use assay_core::plan::Plan;

use super::files::{read_if_there, write};

/// The plan that is kept in a folder.
pub fn kept_plan(dir: &Path) -> anyhow::Result<Plan> {
    let path = dir.join("plan.json");
    let bytes = fs::read(&path).with_context(|| format!("can't read {}", path.display()))?;
    let plan: Plan =
        serde_json::from_slice(&bytes).with_context(|| format!("{} is corrupted: restore it", path.display()))?;
    plan.check().with_context(|| format!("can't use {}", path.display()))?;
    Ok(plan)
}

/// Writes the plan of a folder down, or checks that it is the one that is there.
pub fn keep_plan(dir: &Path, plan: &Plan) -> anyhow::Result<()> {
    let path = dir.join("plan.json");
    let Some(bytes) = read_if_there(&path)? else {
        return write(&path, &serde_json::to_vec_pretty(plan)?);
    };
    let kept: Plan = serde_json::from_slice(&bytes)
        .with_context(|| format!("{} is corrupted: restore it, or use another --out", path.display()))?;
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
