//! The room that an experiment has on the disk.

use std::path::Path;

use anyhow::{Context as _, bail};

use super::work_of;
use crate::machine;

/// Bytes that an experiment may use in its folder: those that are free, and those of the databases that an earlier call has left.
pub fn room(dir: &Path) -> anyhow::Result<u64> {
    let above = existing(dir);
    if !machine::holds_files(above)? {
        bail!("{} can't hold results: its file system stores no data; choose another --out", above.display());
    }
    let work = work_of(dir);
    let used = machine::used_bytes(&work).with_context(|| format!("can't determine the size of {}", work.display()))?;
    Ok(machine::space(above)?.saturating_add(used))
}

/// The folder itself, or the nearest one above that exists.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|ancestor| ancestor.is_dir()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_no_files_is_not_a_full_disk() {
        let refused = room(Path::new("/proc/x")).unwrap_err().to_string();
        assert_eq!(refused, "/proc can't hold results: its file system stores no data; choose another --out");
        assert!(room(&std::env::temp_dir().join("not-there")).unwrap() > 0);
    }
}
