//! One assay per folder.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use assay_protocol::invocation;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid, getpgrp};

use super::work_of;

/// Held as long as it lives. The kernel releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// Another process works in the folder.
#[derive(Debug)]
pub struct InUse {
    pub dir: String,
    pub holder: String,
    flag: String,
}

impl std::fmt::Display for InUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { dir, holder, flag } = self;
        write!(f, "{dir} is in use by {holder}: wait until it finishes, or use another {flag}")
    }
}

impl std::error::Error for InUse {}

/// How long a bench that lost its runner may take to notice.
const ORPHAN_PATIENCE: Duration = Duration::from_secs(5);

impl Lock {
    /// `flag` is where another folder can be chosen.
    pub fn take(dir: &Path, flag: &str) -> anyhow::Result<Self> {
        let path = dir.join("lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .with_context(|| format!("can't write {}: choose another folder with {flag}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let said = fs::read_to_string(&path).unwrap_or_default();
                let holder = said.lines().next().map_or("another process", str::trim);
                let (dir, holder) = (dir.display().to_string(), holder.to_owned());
                return Err(InUse { dir, holder, flag: flag.to_owned() }.into());
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("can't lock {}", path.display()));
            }
        }
        let mut lock = Self { file };
        lock.note();
        end_orphans(dir)?;
        Ok(lock)
    }

    /// Writes who we are. It only informs, so failing to write it is no reason to stop.
    fn note(&mut self) {
        let _ = self.file.set_len(0);
        let _ = self.file.write_all(format!("assay run, process {}\n", std::process::id()).as_bytes());
    }
}

/// A process that is being started has copies of our files for a moment: closing ours would not release the lock. So nobody takes it from
/// a runner that was killed just then before the new process can be seen for what it is.
impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Ends the trials of a runner that was killed: two at once would measure each other. The runner may have died at any moment, so nothing
/// that it wrote down tells what it had started. The processes do: a trial works on its spec in this folder.
fn end_orphans(dir: &Path) -> anyhow::Result<()> {
    let dir = &fs::canonicalize(dir).with_context(|| format!("can't find {}", dir.display()))?;
    let began = Instant::now();
    loop {
        let orphans = trials_of(dir);
        let Some(&first) = orphans.first() else { return Ok(()) };
        if began.elapsed() > 2 * ORPHAN_PATIENCE {
            bail!("process {first} of an earlier run in {} does not exit: kill it, then try again", dir.display());
        }
        let signal = if began.elapsed() > ORPHAN_PATIENCE { Signal::SIGKILL } else { Signal::SIGTERM };
        for pid in orphans {
            // What it has started ends with it, but we don't, should a script have put us together.
            let _ = match getpgid(Some(pid)) {
                Ok(group) if group != getpgrp() => killpg(group, signal),
                _ => kill(pid, signal),
            };
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Processes whose arguments name the spec of a trial in this folder, and the databases beside it.
fn trials_of(dir: &Path) -> Vec<Pid> {
    let (trials, data) = (dir.join("trials"), work_of(dir));
    let is_trial = |arguments: &[&Path]| {
        let [spec, flag, work] = arguments else { return false };
        *work == data
            && *flag == Path::new(&invocation::flag(invocation::DATA))
            && spec.parent().and_then(Path::parent) == Some(&trials)
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    let runs_trial = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let arguments: Vec<&Path> =
            line.split(|&byte| byte == 0).map(|arg| Path::new(OsStr::from_bytes(arg))).collect();
        arguments.windows(3).any(is_trial)
    };
    pids.filter(runs_trial).map(Pid::from_raw).collect()
}
