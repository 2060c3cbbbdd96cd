//! Failed flushes and compactions. RocksDB tries some of them again and tells no call, so a trial could end as if nothing had happened.

use std::{fs, path::Path, thread, time::Duration};

use super::{Engine, EngineError, Properties as _};

/// The status of the first flush or compaction that failed, as the LOG of an open database has it. The C API only counts them, or
/// calls back, for which there is no safe binding.
pub fn logged_failure(db_dir: &Path) -> Option<String> {
    let log = fs::read(db_dir.join("LOG")).ok()?;
    status_in(&String::from_utf8_lossy(&log)).map(str::to_owned)
}

fn status_in(log: &str) -> Option<&str> {
    let (_, after) = log.split_once("Waiting after background ")?;
    let (line, _) = after.split_once(", Accumulated background error counts")?;
    Some(line.split_once(" error: ")?.1)
}

impl Engine {
    /// Fails if a flush or a compaction has failed since the database was opened.
    pub fn check_background(&self) -> Result<(), EngineError> {
        // It is counted before it is written to the LOG.
        const PATIENCE: u32 = 10;
        // RocksDB counts those of all families here.
        if self.family_property("default", "rocksdb.background-errors").unwrap_or_default() == 0 {
            return Ok(());
        }
        let status = (0..PATIENCE).find_map(|tried| {
            thread::sleep(Duration::from_millis(100) * tried.min(1));
            logged_failure(self.db.path())
        });
        Err(EngineError::Background(status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_found() {
        let line = |status| {
            format!(
                "2026/11/24-15:53:33.1 123 [ERROR] [/db_impl/db_impl_compaction_flush.cc:4073] Waiting after background \
                 compaction error: {status}, Accumulated background error counts: 1\n"
            )
        };
        let log =
            ["2026/11/24-15:53:33.0 123 Compaction error\n", &line("IO error: a, b"), &line("Corruption: c")].concat();
        assert_eq!(status_in(&log), Some("IO error: a, b"));
        assert_eq!(status_in("all is well"), None);
    }
}
