//! This machine: its clock, its boots, its disks.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use assay_protocol::Digest;

pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Digest of the boot id, as records have it.
pub fn boot() -> Option<Digest> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(Digest::of(id.trim().as_bytes()))
}

/// CPUs that this process may use.
pub fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32)
}

/// All memory there is.
pub fn memory_bytes() -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let kib = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().strip_suffix("kB")?;
    kib.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Whether the file system of an existing path has room at all, be it free or not: that of /proc has none.
pub fn holds_files(path: &Path) -> anyhow::Result<bool> {
    let stat =
        nix::sys::statvfs::statvfs(path).with_context(|| format!("can't determine the space in {}", path.display()))?;
    Ok(stat.blocks() > 0)
}

/// Bytes that an ordinary user may still fill in the file system of an existing path.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = nix::sys::statvfs::statvfs(path)?;
    Ok(stat.blocks_available() as u64 * stat.fragment_size() as u64)
}

/// The same, with words for where that can't be read.
pub fn space(dir: &Path) -> anyhow::Result<u64> {
    free_bytes(dir).with_context(|| format!("can't determine the free space in {}", dir.display()))
}

/// Bytes that removing a directory would free: a file with several names is there once. Nothing where there is none.
pub fn used_bytes(dir: &Path) -> io::Result<u64> {
    let (mut bytes, mut seen) = (0, BTreeSet::new());
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        // What was there a moment ago may be gone.
        let Some(entries) = if_there(fs::read_dir(&dir))? else { continue };
        for entry in entries {
            let entry = entry?;
            let Some(metadata) = if_there(entry.metadata())? else { continue };
            if metadata.is_dir() {
                dirs.push(entry.path());
            } else if seen.insert((metadata.dev(), metadata.ino())) {
                // Of 512 bytes, whatever those of the file system are.
                bytes += 512 * metadata.blocks();
            }
        }
    }
    Ok(bytes)
}

fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        found => found.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_take_no_room_and_files_take_what_they_fill() {
        let dir = tempfile::TempDir::new().unwrap();
        let work = dir.path().join("work");
        assert_eq!(used_bytes(&work).unwrap(), 0, "there is none");
        fs::create_dir_all(work.join("trials/one")).unwrap();
        fs::write(work.join("data"), vec![1; 1 << 20]).unwrap();
        let once = used_bytes(&work).unwrap();
        assert!((1 << 20..2 << 20).contains(&once), "{once}");
        fs::hard_link(work.join("data"), work.join("trials/one/data")).unwrap();
        fs::File::create(work.join("sparse")).unwrap().set_len(1 << 30).unwrap();
        assert_eq!(used_bytes(&work).unwrap(), once);
        fs::write(work.join("trials/one/own"), vec![1; 1 << 20]).unwrap();
        assert!(used_bytes(&work).unwrap() >= once + (1 << 20));
    }
}
