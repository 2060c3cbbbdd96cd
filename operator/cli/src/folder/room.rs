//! The room that an experiment has on the disk.

use std::path::Path;

use anyhow::Context as _;

use super::work_of;
use crate::machine;

/// Bytes that an experiment may use in its folder: those that are free, and those of the databases that an earlier call has left.
pub fn room(dir: &Path) -> anyhow::Result<u64> {
    let work = work_of(dir);
    let used = machine::used_bytes(&work).with_context(|| format!("can't determine the size of {}", work.display()))?;
    Ok(machine::space(existing(dir))?.saturating_add(used))
}

/// The folder itself, or the nearest one above that exists.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|ancestor| ancestor.is_dir()).unwrap_or(Path::new("."))
}
