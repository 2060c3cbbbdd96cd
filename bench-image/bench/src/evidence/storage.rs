//! The device behind the data directory.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use assay_protocol::Storage;
use nix::sys::stat::{major, minor};
use nix::sys::statvfs::statvfs;

pub use super::disk::Counters as DeviceCounters;

use super::Roots;
use super::disk::Disk;
use super::mounts::{self, Mount};
use super::process::ProcessUsage;
use super::read;

/// What doesn't change while a trial runs.
#[derive(Clone, Debug)]
pub struct Location {
    directory: PathBuf,
    filesystem: Option<String>,
    mount_options: Option<String>,
    disk: Option<Disk>,
    replaced_sysfs: Option<String>,
}

/// What changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    total_bytes: Option<u64>,
    free_bytes: Option<u64>,
    device_written: Option<u64>,
    own_written: Option<u64>,
}

impl Location {
    pub fn find(roots: &Roots, data_dir: &Path) -> Self {
        let device = fs::metadata(data_dir).ok().map(|metadata| {
            let number = metadata.dev();
            (major(number), minor(number))
        });
        Self::find_with_device(roots, data_dir, device.and_then(narrow))
    }

    pub(super) fn find_with_device(roots: &Roots, data_dir: &Path, device: Option<(u32, u32)>) -> Self {
        let directory = fs::canonicalize(data_dir).unwrap_or_else(|_| data_dir.to_owned());
        let mounts = mounts::parse(&read::text(&roots.proc.join("self/mountinfo")).unwrap_or_default());
        let mount = mounts::holding(&mounts, &directory);
        Self {
            filesystem: mount.map(|mount| mount.filesystem.clone()),
            mount_options: mount.map(Mount::all_options),
            disk: disk(&roots.sys, device, mount),
            replaced_sysfs: roots.replaced_sysfs.clone(),
            directory,
        }
    }

    pub fn level(&self, proc: &Path) -> Level {
        let space = statvfs(&self.directory).ok();
        let bytes = |blocks: u64, size: u64| blocks.checked_mul(size);
        Level {
            total_bytes: space.as_ref().and_then(|space| bytes(space.blocks(), space.fragment_size())),
            // With what is reserved for root or by a quota: a flash device slows down as it fills, whoever may fill it.
            free_bytes: space.as_ref().and_then(|space| bytes(space.blocks_free(), space.fragment_size())),
            device_written: self.counters().map(|counters| counters.written_bytes),
            own_written: ProcessUsage::read(proc).write_bytes,
        }
    }

    pub fn counters(&self) -> Option<DeviceCounters> {
        self.disk.as_ref()?.counters()
    }

    pub fn storage(&self, before: &Level, after: &Level) -> Storage {
        let disk = self.disk.as_ref();
        Storage {
            filesystem: self.filesystem.clone(),
            mount_options: self.mount_options.clone(),
            device: disk.map(|disk| disk.name.clone()),
            model: disk.and_then(|disk| disk.model.clone()),
            rotational: disk.and_then(|disk| disk.rotational),
            transport: disk.and_then(|disk| disk.transport.clone()),
            total_bytes: after.total_bytes,
            free_bytes_before: before.free_bytes,
            free_bytes_after: after.free_bytes,
            foreign_write_bytes: foreign_writes(before, after),
            replaced_sysfs: self.replaced_sysfs.clone(),
        }
    }
}

/// What the disk wrote beyond what this process wrote, to any file system on the disk.
///
/// The two aren't counted at the same moment. A buffered write is ours when it makes a page dirty and the disk's when
/// the page is written back, maybe after the window or never. So this shows a neighbour that writes more than our
/// own backlog at the end of the window, and misses a smaller one. In the other direction, dirty pages carried in
/// from before the window and the file system's own journal and metadata appear as foreign: sync before the window.
pub fn foreign_writes(before: &Level, after: &Level) -> Option<u64> {
    let device = read::growth(before.device_written, after.device_written)?;
    let own = read::growth(before.own_written, after.own_written)?;
    Some(device.saturating_sub(own))
}

fn disk(sys: &Path, device: Option<(u32, u32)>, mount: Option<&Mount>) -> Option<Disk> {
    let mount = mount?;
    let device = device?;
    // Major 0 is made up by file systems that aren't on one block device, or don't say on which.
    if device.0 != 0 {
        // If the two disagree, the table isn't the one that the path was resolved in.
        return if mount.device == device { Disk::of_device(sys, device) } else { None };
    }
    let source = Path::new(&mount.source);
    if mount.filesystem == "btrfs" { Disk::of_btrfs(sys, source) } else { Disk::of_source(sys, source) }
}

fn narrow((major, minor): (u64, u64)) -> Option<(u32, u32)> {
    Some((major.try_into().ok()?, minor.try_into().ok()?))
}

#[cfg(test)]
impl Level {
    pub fn written(device: Option<u64>, own: Option<u64>) -> Self {
        Self { total_bytes: None, free_bytes: None, device_written: device, own_written: own }
    }
}
