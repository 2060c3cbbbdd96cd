//! Trimming: flash that does not know which blocks are free has more to move around while it is written to.
//!
//! It is done by the node's own `fstrim`, among the node's mounts: an image that brought it along would bring a system along.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns, unshare};

/// How often it is looked whether a program has ended.
const POLL: Duration = Duration::from_millis(20);

/// Trims the file systems of these folders, one after another, until the deadline; the error names those that could not be.
pub fn trim(fstrim: &Path, mounts: Option<&Path>, folders: &[PathBuf], deadline: Instant) -> Result<(), String> {
    let trim_all = || {
        if let Some(mounts) = mounts {
            enter(mounts).map_err(|error| format!("{}: {error}", mounts.display()))?;
        }
        let tried = folders.iter().map(|folder| (folder, run(fstrim, folder, deadline)));
        let problems: Vec<String> =
            tried.filter_map(|(folder, tried)| Some(format!("{}: {}", folder.display(), tried.err()?))).collect();
        if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
    };
    // In a thread of its own: what it has entered it can't leave.
    std::thread::scope(|scope| scope.spawn(trim_all).join()).unwrap_or_else(|_| Err("trimming crashed".to_owned()))
}

/// Sees the mounts of the node from here on, which a thread can only if it shares its root with no other.
fn enter(mounts: &Path) -> std::io::Result<()> {
    unshare(CloneFlags::CLONE_FS)?;
    setns(File::open(mounts)?, CloneFlags::CLONE_NEWNS)?;
    Ok(())
}

fn run(fstrim: &Path, folder: &Path, deadline: Instant) -> Result<(), String> {
    let named = |error: std::io::Error| format!("{}: {error}", fstrim.display());
    let mut command = Command::new(fstrim);
    command.arg(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(named)?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(named)? {
            break status;
        }
        if Instant::now() >= deadline {
            child.kill().and_then(|()| child.wait()).map_err(named)?;
            return Err("stopped because the trial starts".to_owned());
        }
        std::thread::sleep(POLL);
    };
    if status.success() {
        return Ok(());
    }
    let mut said = String::new();
    if let Some(mut errors) = child.stderr.take() {
        // Whatever it said, it failed.
        let _ = errors.read_to_string(&mut said);
    }
    Err(format!("{status}: {}", said.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders() -> [PathBuf; 2] {
        ["1", "2"].map(PathBuf::from)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_mins(1)
    }

    #[test]
    fn what_could_not_be_trimmed_is_named() {
        let with = |program: &str| trim(Path::new(program), None, &folders(), soon());
        assert_eq!(with("/bin/true"), Ok(()));
        assert_eq!(with("/bin/false"), Err("1: exit status: 1: ; 2: exit status: 1: ".to_owned()));
        let missing = with("/nowhere/fstrim").unwrap_err();
        assert!(missing.starts_with("1: /nowhere/fstrim: "), "{missing}");
        let said = with("/bin/ls").unwrap_err();
        assert!(said.contains("exit status: 2: /bin/ls: "), "{said}");
    }

    #[test]
    fn nothing_is_trimmed_within_a_trial() {
        let hour = [PathBuf::from("3600")];
        let broken_off = trim(Path::new("/bin/sleep"), None, &hour, Instant::now());
        assert_eq!(broken_off, Err("3600: stopped because the trial starts".to_owned()));
    }

    #[test]
    fn mounts_that_can_not_be_entered_are_named() {
        let nowhere = trim(Path::new("/bin/true"), Some(Path::new("/nowhere/mnt")), &folders(), soon()).unwrap_err();
        assert!(nowhere.starts_with("/nowhere/mnt: "), "{nowhere}");
        // Only root may enter its own, too.
        let own = trim(Path::new("/bin/true"), Some(Path::new("/proc/self/ns/mnt")), &folders(), soon());
        assert!(own.as_ref().err().is_none_or(|why| why.starts_with("/proc/self/ns/mnt: EPERM")), "{own:?}");
    }
}
