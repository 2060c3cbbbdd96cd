//! The node's page cache: what an earlier trial read and wrote must not be there for the next.

use std::path::Path;
use std::time::Instant;

/// Clean pages only: nothing that is not on its disk yet gets lost.
const PAGES: &str = "1";

/// Writes back what is dirty, which would stay, and drops the rest. Disks may take long: after the deadline nothing is dropped.
pub fn drop(proc: &Path, deadline: Instant) -> Result<(), String> {
    nix::unistd::sync();
    if Instant::now() >= deadline {
        return Err("writing back dirty pages took until the trial started".to_owned());
    }
    let file = proc.join("sys/vm/drop_caches");
    std::fs::write(&file, PAGES).map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn pages_are_dropped_in_time_or_not_at_all() {
        let soon = Instant::now() + Duration::from_hours(1);
        let proc = tempfile::tempdir().unwrap();
        let file = proc.path().join("sys/vm/drop_caches");
        let problem = drop(proc.path(), soon).unwrap_err();
        assert!(problem.starts_with(&file.display().to_string()), "{problem}");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        assert!(drop(proc.path(), Instant::now()).is_err());
        assert!(!file.exists());
        drop(proc.path(), soon).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "1");
    }
}
