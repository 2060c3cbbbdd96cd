//! One assay per folder.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Held as long as it lives. The kernel releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// How long a bench that lost its runner may take to notice.
const ORPHAN_PATIENCE: Duration = Duration::from_secs(5);

impl Lock {
    pub fn take(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join("lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .with_context(|| format!("can't write {}: choose another folder with --out", path.display()))?;
        let said = fs::read_to_string(&path).unwrap_or_default();
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = said.lines().next().map_or("another process", str::trim);
                bail!("{} is in use by {holder}: wait until it finishes, or use another --out", dir.display());
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("can't lock {}", path.display()));
            }
        }
        end_orphan(dir, &said)?;
        let mut lock = Self { file };
        lock.note_child(None);
        Ok(lock)
    }

    /// Writes who we are and who works for us. It only informs, so failing to write it is no reason to stop.
    pub fn note_child(&mut self, pid: Option<u32>) {
        let mut text = format!("assay run, process {}\n", std::process::id());
        if let Some(pid) = pid {
            let _ = writeln!(text, "bench {pid}");
        }
        let _ = self.file.set_len(0);
        let _ = self.file.seek(SeekFrom::Start(0));
        let _ = self.file.write_all(text.as_bytes());
    }
}

/// A process that is being started has copies of our files for a moment: closing ours would not release the lock.
impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Ends the bench of a runner that was killed: two trials at once would measure each other.
fn end_orphan(dir: &Path, said: &str) -> anyhow::Result<()> {
    let pid = said.lines().find_map(|line| line.strip_prefix("bench ")).and_then(|pid| pid.trim().parse::<i32>().ok());
    let Some(pid) = pid.filter(|&pid| pid > 1) else { return Ok(()) };
    // The number may have gone to a stranger by now: only a process with a spec of ours is ours.
    let ours = dir.join("trials");
    let is_ours = || {
        let line = fs::read(PathBuf::from(format!("/proc/{pid}/cmdline"))).unwrap_or_default();
        line.split(|&byte| byte == 0).any(|arg| String::from_utf8_lossy(arg).starts_with(&*ours.to_string_lossy()))
    };
    if !is_ours() {
        return Ok(());
    }
    let deadline = Instant::now() + ORPHAN_PATIENCE;
    let _ = killpg(Pid::from_raw(pid), Signal::SIGTERM);
    while is_ours() {
        if Instant::now() > deadline {
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
            std::thread::sleep(Duration::from_millis(200));
            if is_ours() {
                bail!("process {pid} of an earlier run in {} does not exit: kill it, then try again", dir.display());
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
