//! The physical disk behind a device number, found in sysfs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::mounts::device_number;
use super::read;

/// Stacked devices nest a few levels deep; more is a loop in a damaged tree.
const DEEPEST_STACK: u32 = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Kernel name of the whole disk; names joined by `+` where several lie below.
    pub name: String,
    pub model: Option<String>,
    pub rotational: Option<bool>,
    pub transport: Option<String>,
    /// Of a single disk. Counters of several don't compare to what we wrote: mirrors and parity write more.
    pub stat: Option<PathBuf>,
}

/// Of the disk since boot, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    pub read_bytes: u64,
    pub written_bytes: u64,
}

impl Disk {
    pub fn of_device(sys: &Path, (major, minor): (u32, u32)) -> Option<Self> {
        Self::of_directory(&sys.join(format!("dev/block/{major}:{minor}")))
    }

    /// Of a mount source such as `/dev/nvme0n1p1` or `/dev/mapper/vg-data`.
    pub fn of_source(sys: &Path, source: &Path) -> Option<Self> {
        if !source.starts_with("/dev") {
            return None;
        }
        // In a container the node usually doesn't exist, but the name is the kernel's.
        let node = fs::canonicalize(source).unwrap_or_else(|_| source.to_owned());
        let name = node.file_name()?.to_str()?;
        let class = sys.join("class/block");
        if class.join(name).exists() {
            return Self::of_directory(&class.join(name));
        }
        // Names below /dev/mapper are links that udev makes; sysfs has the same name inside the device.
        fs::read_dir(&class).ok()?.flatten().find_map(|entry| {
            let mapped = read::line(&entry.path().join("dm/name"))?;
            (mapped == name).then(|| Self::of_directory(&entry.path())).flatten()
        })
    }

    fn of_directory(directory: &Path) -> Option<Self> {
        let mut disks = BTreeMap::new();
        collect(directory, DEEPEST_STACK, &mut disks)?;
        Self::of_disks(&disks)
    }

    fn of_disks(disks: &BTreeMap<String, PathBuf>) -> Option<Self> {
        let single = if disks.len() == 1 { disks.values().next() } else { None };
        let rotational: Option<Vec<bool>> = disks.values().map(|disk| rotational(disk)).collect();
        Some(Self {
            name: disks.keys().cloned().reduce(|names, name| names + "+" + &name)?,
            model: common(disks.values().map(|disk| read::line(&disk.join("device/model")))),
            rotational: rotational.map(|all| all.contains(&true)),
            transport: common(disks.iter().map(|(name, disk)| transport(name, disk))),
            stat: single.map(|disk| disk.join("stat")),
        })
    }

    pub fn counters(&self) -> Option<Counters> {
        parse_stat(&read::text(self.stat.as_deref()?)?)
    }

    /// Several disks of one file system, where sysfs knows them. Btrfs names only one of its devices as source.
    pub fn of_btrfs(sys: &Path, source: &Path) -> Option<Self> {
        let first = Self::of_source(sys, source)?;
        for volume in fs::read_dir(sys.join("fs/btrfs")).into_iter().flatten().flatten() {
            let Ok(devices) = fs::read_dir(volume.path().join("devices")) else { continue };
            let mut disks = BTreeMap::new();
            for device in devices.flatten() {
                collect(&device.path(), DEEPEST_STACK, &mut disks)?;
            }
            if first.name.split('+').all(|name| disks.contains_key(name)) {
                return Self::of_disks(&disks);
            }
        }
        Some(first)
    }
}

/// Adds the physical disks below a block device. `None` if any of them can't be followed: half an answer would
/// name a device that holds only a part of the data.
fn collect(directory: &Path, depth: u32, disks: &mut BTreeMap<String, PathBuf>) -> Option<()> {
    let device = fs::canonicalize(directory).ok()?;
    let disk = if device.join("partition").exists() { device.parent()? } else { &device };
    let slaves: Vec<PathBuf> = match fs::read_dir(disk.join("slaves")) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().ok()?,
        Err(_) => Vec::new(),
    };
    if slaves.is_empty() {
        let name = disk.file_name()?.to_str()?.to_owned();
        // Any directory would do otherwise.
        device_number(&read::line(&disk.join("dev"))?)?;
        disks.insert(name, disk.to_owned());
        return Some(());
    }
    let depth = depth.checked_sub(1)?;
    slaves.iter().try_for_each(|slave| collect(slave, depth, disks))
}

/// The value that all have, if all have one.
fn common(mut values: impl Iterator<Item = Option<String>>) -> Option<String> {
    let first = values.next()??;
    values.all(|value| value.as_ref() == Some(&first)).then_some(first)
}

fn rotational(disk: &Path) -> Option<bool> {
    match read::line(&disk.join("queue/rotational"))?.as_str() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

fn transport(name: &str, disk: &Path) -> Option<String> {
    if name.starts_with("nvme") {
        return nvme_transport(disk);
    }
    if name.starts_with("vd") {
        return Some("virtio".to_owned());
    }
    from_path(disk).map(str::to_owned)
}

/// `pcie` also for network disks that a cloud presents as a local controller: there only the model tells.
fn nvme_transport(disk: &Path) -> Option<String> {
    let device = disk.join("device");
    if let Some(transport) = read::line(&device.join("transport")) {
        return Some(transport);
    }
    // With native multipath the disk belongs to a subsystem, which links its controllers.
    let controllers: Vec<PathBuf> = fs::read_dir(&device)
        .ok()?
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_controller))
        .map(|entry| entry.path().join("transport"))
        .collect();
    common(controllers.iter().map(|path| read::line(path)))
}

/// `nvme3`, but not the paths and namespaces `nvme3c0n1` and `nvme3n1`.
fn is_controller(name: &str) -> bool {
    name.strip_prefix("nvme").is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// From the buses that the device hangs on. The order matters: a USB or SATA disk has a SCSI host as well.
fn from_path(disk: &Path) -> Option<&'static str> {
    const BUSES: [(&str, &str); 8] = [
        ("usb", "usb"),
        ("ata", "sata"),
        ("session", "iscsi"),
        ("rport-", "fc"),
        ("end_device-", "sas"),
        ("virtio", "virtio"),
        ("mmc", "mmc"),
        ("host", "scsi"),
    ];
    BUSES.into_iter().find_map(|(prefix, transport)| {
        let found = disk.components().any(|part| {
            part.as_os_str()
                .to_str()
                .and_then(|part| part.strip_prefix(prefix))
                .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
        });
        found.then_some(transport)
    })
}

/// Sectors in this file have 512 bytes whatever the device's own sector size is.
pub fn parse_stat(stat: &str) -> Option<Counters> {
    let fields: Vec<u64> = stat.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let bytes = |index: usize| fields.get(index)?.checked_mul(512);
    Some(Counters { read_bytes: bytes(2)?, written_bytes: bytes(6)? })
}
