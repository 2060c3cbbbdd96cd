use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::sys::stat::{major, minor};

use super::super::disk::{Counters, Disk, parse_stat};
use super::super::mounts;
use super::super::storage::{Level, Location, foreign_writes};
use super::Tree;

const STAT: &str = "   40552    10351  5220802    29004    11338    21789  3724872    11252        0     8732\n";

fn nvme(tree: &Tree, index: u32, number: &str, transport: &str) -> String {
    let controller = format!("devices/pci0000:00/0000:00:0{index}.0/nvme/nvme{index}");
    let disk = format!("{controller}/nvme{index}n1");
    tree.block(&disk, number)
        .file(&format!("sys/{disk}/queue/rotational"), "0\n")
        .file(&format!("sys/{disk}/stat"), STAT)
        .file(&format!("sys/{controller}/transport"), &format!("{transport}\n"))
        .file(&format!("sys/{controller}/model"), "ACME Fast 2TB                           \n")
        .link(&format!("sys/{disk}/device"), &format!("sys/{controller}"));
    disk
}

fn partition(tree: &Tree, disk: &str, number: &str) -> String {
    let name = Path::new(disk).file_name().unwrap().to_str().unwrap();
    let partition = format!("{disk}/{name}p1");
    tree.block(&partition, number).file(&format!("sys/{partition}/partition"), "1\n");
    partition
}

fn slave(tree: &Tree, of: &str, disk: &str) {
    let name = Path::new(disk).file_name().unwrap().to_str().unwrap();
    tree.link(&format!("sys/{of}/slaves/{name}"), &format!("sys/{disk}"));
}

#[test]
fn a_partition_leads_to_its_disk() {
    let tree = Tree::new();
    let disk = nvme(&tree, 0, "259:0", "pcie");
    partition(&tree, &disk, "259:1");
    let found = Disk::of_device(&tree.sys(), (259, 1)).unwrap();
    assert_eq!(found.name, "nvme0n1");
    assert_eq!(found.model.as_deref(), Some("ACME Fast 2TB"));
    assert_eq!(found.rotational, Some(false));
    tree.file(&format!("sys/{disk}/queue/rotational"), "1\n");
    assert_eq!(Disk::of_device(&tree.sys(), (259, 1)).unwrap().rotational, Some(true));
    tree.file(&format!("sys/{disk}/queue/rotational"), "0\n");
    assert_eq!(found.transport.as_deref(), Some("pcie"));
    assert_eq!(found.counters(), Some(Counters { read_bytes: 5_220_802 * 512, written_bytes: 3_724_872 * 512 }));
    assert_eq!(Disk::of_device(&tree.sys(), (259, 0)).as_ref(), Some(&found));
    assert_eq!(Disk::of_device(&tree.sys(), (8, 0)), None);
}

/// As the kernel tells it of a real directory: by its number, or where that is made up, by the table's source.
#[test]
fn the_device_of_a_directory_is_found() {
    let tree = Tree::new();
    let number = fs::metadata(tree.path("")).unwrap().dev();
    let number = format!("{}:{}", major(number), minor(number));
    nvme(&tree, 0, &number, "pcie");
    nvme(&tree, 1, "259:1", "pcie");
    tree.file("proc/self/mountinfo", &format!("1 0 {number} / / rw - ext4 /dev/nvme1n1 rw\n"));
    let location = Location::find(&tree.roots(), &tree.path(""));
    let level = location.level(&tree.path("proc"));
    let found = location.storage(&level, &level);
    let expected = if number.starts_with("0:") { "nvme1n1" } else { "nvme0n1" };
    assert_eq!((found.device.as_deref(), found.filesystem.as_deref()), (Some(expected), Some("ext4")));
}

#[test]
fn a_logical_volume_leads_to_the_one_disk_below() {
    let tree = Tree::new();
    let disk = nvme(&tree, 1, "259:0", "pcie");
    let partition = partition(&tree, &disk, "259:1");
    // LVM on LUKS on a partition.
    tree.block("devices/virtual/block/dm-0", "253:0").block("devices/virtual/block/dm-1", "253:1");
    slave(&tree, "devices/virtual/block/dm-0", &partition);
    slave(&tree, "devices/virtual/block/dm-1", "devices/virtual/block/dm-0");
    tree.file("sys/devices/virtual/block/dm-1/dm/name", "vg-data\n");
    let found = Disk::of_device(&tree.sys(), (253, 1)).unwrap();
    assert_eq!(found.name, "nvme1n1");
    assert_eq!(found.transport.as_deref(), Some("pcie"));
    assert!(found.counters().is_some());
    assert_eq!(Disk::of_source(&tree.sys(), Path::new("/dev/mapper/vg-data")), Some(found));
    assert_eq!(Disk::of_source(&tree.sys(), Path::new("/dev/mapper/other")), None);
    assert_eq!(Disk::of_source(&tree.sys(), Path::new("overlay")), None);
}

#[test]
fn an_array_has_joined_names_and_what_its_disks_agree_on() {
    let tree = Tree::new();
    let (first, second) = (nvme(&tree, 0, "259:0", "pcie"), nvme(&tree, 1, "259:1", "tcp"));
    tree.block("devices/virtual/block/md0", "9:0");
    slave(&tree, "devices/virtual/block/md0", &first);
    slave(&tree, "devices/virtual/block/md0", &second);
    let found = Disk::of_device(&tree.sys(), (9, 0)).unwrap();
    assert_eq!(found.name, "nvme0n1+nvme1n1");
    assert_eq!(found.model.as_deref(), Some("ACME Fast 2TB"));
    assert_eq!(found.rotational, Some(false));
    assert_eq!(found.transport, None, "half of it is remote");
    assert_eq!(found.counters(), None);

    // A leg that can't be followed makes the whole unknown.
    tree.link("sys/devices/virtual/block/md0/slaves/gone", "sys/nowhere");
    assert_eq!(Disk::of_device(&tree.sys(), (9, 0)), None);
}

#[test]
fn a_loop_of_devices_ends() {
    let tree = Tree::new();
    tree.block("devices/virtual/block/dm-0", "253:0");
    slave(&tree, "devices/virtual/block/dm-0", "devices/virtual/block/dm-0");
    assert_eq!(Disk::of_device(&tree.sys(), (253, 0)), None);
}

#[test]
fn nvme_over_fabrics_and_multipath() {
    let tree = Tree::new();
    nvme(&tree, 2, "259:0", "tcp");
    assert_eq!(Disk::of_device(&tree.sys(), (259, 0)).unwrap().transport.as_deref(), Some("tcp"));

    let tree = Tree::new();
    let subsystem = "devices/virtual/nvme-subsystem/nvme-subsys0";
    let disk = format!("{subsystem}/nvme0n1");
    tree.block(&disk, "259:0")
        .link(&format!("sys/{disk}/device"), &format!("sys/{subsystem}"))
        .file(&format!("sys/{subsystem}/model"), "ACME Remote\n")
        .file("sys/devices/virtual/nvme-fabrics/ctl/nvme0/transport", "rdma\n")
        .file("sys/devices/virtual/nvme-fabrics/ctl/nvme1/transport", "rdma\n")
        .link(&format!("sys/{subsystem}/nvme0"), "sys/devices/virtual/nvme-fabrics/ctl/nvme0")
        .link(&format!("sys/{subsystem}/nvme1"), "sys/devices/virtual/nvme-fabrics/ctl/nvme1");
    let found = Disk::of_device(&tree.sys(), (259, 0)).unwrap();
    assert_eq!(found.transport.as_deref(), Some("rdma"));
    assert_eq!(found.model.as_deref(), Some("ACME Remote"));
    assert_eq!(found.rotational, None);

    // Controllers of different kinds: no one answer.
    tree.file("sys/devices/virtual/nvme-fabrics/ctl/nvme1/transport", "tcp\n");
    assert_eq!(Disk::of_device(&tree.sys(), (259, 0)).unwrap().transport, None);
}

#[test]
fn transports_of_other_disks() {
    for (path, transport) in [
        ("devices/pci0000:00/0000:00:02.0/virtio1/block/vda", Some("virtio")),
        ("devices/pci0000:00/0000:00:02.0/virtio1/host0/target0:0:0/0:0:0:1/block/sda", Some("virtio")),
        ("devices/pci0000:00/0000:00:17.0/ata3/host2/target2:0:0/2:0:0:0/block/sda", Some("sata")),
        ("devices/pci0000:00/0000:00:14.0/usb2/2-1/host6/target6:0:0/block/sda", Some("usb")),
        ("devices/platform/host3/session1/target3:0:0/3:0:0:1/block/sda", Some("iscsi")),
        ("devices/pci0000:00/0000:02:00.0/host0/port-0:0/end_device-0:0/target0:0:0/block/sda", Some("sas")),
        ("devices/pci0000:00/0000:03:00.0/host1/target1:2:0/1:2:0:0/block/sda", Some("scsi")),
        ("devices/virtual/block/loop0", None),
    ] {
        let tree = Tree::new();
        tree.block(path, "8:0");
        let found = Disk::of_device(&tree.sys(), (8, 0)).unwrap();
        assert_eq!(found.transport.as_deref(), transport, "{path}");
        assert_eq!((found.model, found.rotational, found.stat.is_some()), (None, None, true));
    }
}

fn storage(tree: &Tree, device: Option<(u32, u32)>) -> assay_protocol::Storage {
    let data = tree.path("data");
    fs::create_dir_all(&data).unwrap();
    let location = Location::find_with_device(&tree.roots(), &data, device);
    let level = location.level(&tree.path("proc"));
    location.storage(&level, &level)
}

fn mountinfo(tree: &Tree, device: &str, kind: &str, source: &str) {
    let point = tree.path("data");
    tree.file(
        "proc/self/mountinfo",
        &format!(
            "27 1 254:0 / / rw - ext4 /dev/root rw\n\
             28 27 {device} /sub {} rw,relatime shared:7 - {kind} {source} rw,discard\n",
            point.display()
        ),
    );
}

#[test]
fn a_data_directory_on_a_partition() {
    let tree = Tree::new();
    let disk = nvme(&tree, 0, "259:0", "pcie");
    partition(&tree, &disk, "259:1");
    mountinfo(&tree, "259:1", "xfs", "/dev/nvme0n1p1");
    tree.file("proc/self/io", "write_bytes: 4096\n");
    let found = storage(&tree, Some((259, 1)));
    assert_eq!(found.filesystem.as_deref(), Some("xfs"));
    assert_eq!(found.mount_options.as_deref(), Some("rw,relatime,discard"));
    assert_eq!(found.device.as_deref(), Some("nvme0n1"));
    assert_eq!(found.foreign_write_bytes, Some(0));
    assert!(found.total_bytes.unwrap() >= found.free_bytes_before.unwrap());
    assert_eq!(found.replaced_sysfs.as_deref(), Some("fixture"));
    // The path is on another device than the table says.
    assert_eq!(storage(&tree, Some((259, 0))).device, None);
    assert_eq!(storage(&tree, None).device, None);
}

#[test]
fn anonymous_devices_are_followed_by_their_source_if_it_is_a_device() {
    let tree = Tree::new();
    let disk = nvme(&tree, 0, "259:0", "pcie");
    partition(&tree, &disk, "259:1");
    mountinfo(&tree, "0:31", "btrfs", "/dev/nvme0n1p1");
    assert_eq!(storage(&tree, Some((0, 40))).device.as_deref(), Some("nvme0n1"));

    // A second device of the same file system.
    let second = nvme(&tree, 1, "259:2", "pcie");
    tree.link("sys/fs/btrfs/uuid/devices/nvme0n1p1", &format!("sys/{disk}/nvme0n1p1"))
        .link("sys/fs/btrfs/uuid/devices/nvme1n1", &format!("sys/{second}"));
    assert_eq!(storage(&tree, Some((0, 40))).device.as_deref(), Some("nvme0n1+nvme1n1"));

    mountinfo(&tree, "0:31", "overlay", "overlay");
    let found = storage(&tree, Some((0, 31)));
    assert_eq!(found.filesystem.as_deref(), Some("overlay"));
    assert_eq!((found.device, found.transport, found.foreign_write_bytes), (None, None, None));
}

#[test]
fn without_any_file_storage_is_unknown() {
    let found = storage(&Tree::new(), Some((259, 1)));
    assert_eq!((found.filesystem, found.mount_options, found.device), (None, None, None));
    assert_eq!((found.model, found.rotational, found.foreign_write_bytes), (None, None, None));
}

#[test]
fn foreign_writes_are_the_rest() {
    let level = Level::written;
    let before = level(Some(1000), Some(100));
    assert_eq!(foreign_writes(&before, &level(Some(6000), Some(2100))), Some(3000));
    assert_eq!(foreign_writes(&before, &level(Some(2000), Some(9100))), Some(0), "not written back yet");
    assert_eq!(foreign_writes(&before, &level(Some(500), Some(200))), None, "another disk");
    assert_eq!(foreign_writes(&before, &level(None, Some(200))), None);
    assert_eq!(foreign_writes(&before, &level(Some(2000), None)), None);
    assert_eq!(parse_stat("1 2 3"), None);
}

#[test]
fn mount_points_with_spaces_and_mounts_over_mounts() {
    let table = mounts::parse(
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
         2 1 8:2 / /my\\040data rw,noatime master:1 propagate_from:2 - xfs /dev/sdb1 ro\n\
         3 1 8:3 / /my\\040data rw - ext4 /dev/sdc1 rw\n\
         garbage\n\
         4 1 8:4 / /my rw - ext4 /dev/sdd1 rw\n\
         5 1 8:5 / /a\\b\\ rw - ext4 /dev/sde1 rw\n",
    );
    assert_eq!(table.len(), 5);
    assert_eq!(table[1].all_options(), "rw,noatime");
    let device = |path: &str| mounts::holding(&table, Path::new(path)).map(|mount| mount.device);
    assert_eq!(device("/my data/db"), Some((8, 3)), "the later mount covers the earlier");
    assert_eq!(device("/my database"), Some((8, 1)), "whole names only");
    assert_eq!(device("/my/x"), Some((8, 4)));
    assert_eq!(device("/a\\b\\/x"), Some((8, 5)), "what is no code stays");
    assert_eq!(mounts::parse("x \\").len(), 0);
}
