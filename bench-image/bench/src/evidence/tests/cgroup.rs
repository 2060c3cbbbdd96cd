use std::time::Duration;

use super::super::cgroup::Cgroups;
use super::super::pressure::{Others, Sources, parse_total};
use super::Tree;

const V2_MOUNT: &str = "30 23 0:28 / /sys/fs/cgroup ro,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

fn v1_mounts(root: &str) -> String {
    format!(
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
         32 31 0:29 {root} /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
         33 31 0:30 {root} /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n"
    )
}

fn close(found: Option<f64>, wanted: f64) {
    assert!((found.unwrap() - wanted).abs() < 1e-9, "{found:?} instead of {wanted}");
}

#[test]
fn version_2_with_limits_on_two_levels() {
    let tree = Tree::new();
    let own = "sys/fs/cgroup/kubepods/pod1/ctr";
    tree.file("proc/self/cgroup", "0::/kubepods/pod1/ctr\n")
        .file("proc/self/mountinfo", V2_MOUNT)
        .file(&format!("{own}/cpu.max"), "400000 100000\n")
        .file(&format!("{own}/cpu.stat"), "usage_usec 9\nnr_periods 5\nnr_throttled 1\nthrottled_usec 10\n")
        .file(&format!("{own}/cpuset.cpus.effective"), "2-5\n")
        .file("sys/fs/cgroup/kubepods/pod1/cpu.max", "150000 100000\n")
        .file("sys/fs/cgroup/kubepods/pod1/cpu.stat", "nr_periods 5\nnr_throttled 7\nthrottled_usec 1000000\n")
        .file("sys/fs/cgroup/kubepods/cpu.max", "max 100000\n")
        .file("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory\n");
    let cgroups = Cgroups::find(&tree.roots());
    close(cgroups.quota_cpus(), 1.5);
    assert_eq!(cgroups.unified(), Some(tree.path(own).as_path()), "where its pressure is");
    assert_eq!(cgroups.cpuset().unwrap().to_string(), "2-5");
    tree.file("sys/fs/cgroup/kubepods/cpu.max", "100000 0\n");
    assert_eq!(cgroups.quota_cpus(), None, "a period of nothing is no period");

    let before = cgroups.throttling();
    tree.file("sys/fs/cgroup/kubepods/pod1/cpu.stat", "nr_periods 9\nnr_throttled 9\nthrottled_usec 1500000\n");
    let (periods, seconds) = before.until(&cgroups.throttling());
    assert_eq!(periods, Some(2));
    close(seconds, 0.5);
    assert_eq!(cgroups.throttling().until(&before), (None, None), "counters don't run backwards");
}

#[test]
fn version_2_in_a_namespace() {
    let tree = Tree::new();
    tree.file("proc/self/cgroup", "0::/\n")
        .file("proc/self/mountinfo", V2_MOUNT)
        .file("sys/fs/cgroup/cgroup.controllers", "cpu\n")
        .file("sys/fs/cgroup/cpu.max", "max 100000\n")
        .file("sys/fs/cgroup/cpu.stat", "usage_usec 1\nnr_throttled 0\nthrottled_usec 0\n");
    let cgroups = Cgroups::find(&tree.roots());
    assert_eq!(cgroups.quota_cpus(), Some(0.0));
    assert_eq!(cgroups.throttling().until(&cgroups.throttling()), (Some(0), Some(0.0)));
    assert_eq!(cgroups.cpuset(), None);
}

#[test]
fn version_2_without_the_controller_cannot_throttle() {
    let tree = Tree::new();
    tree.file("proc/self/cgroup", "0::/user.slice\n")
        .file("proc/self/mountinfo", V2_MOUNT)
        .file("sys/fs/cgroup/user.slice/cgroup.controllers", "memory\n")
        .file("sys/fs/cgroup/user.slice/cpu.stat", "usage_usec 1\n")
        .file("sys/fs/cgroup/cpuset.cpus.effective", "0-1\n");
    let cgroups = Cgroups::find(&tree.roots());
    assert_eq!(cgroups.quota_cpus(), Some(0.0));
    assert_eq!(cgroups.throttling().until(&cgroups.throttling()), (Some(0), Some(0.0)));
    assert_eq!(cgroups.cpuset().unwrap().to_string(), "0-1", "inherited");
}

#[test]
fn version_2_out_of_sight_is_unknown() {
    let tree = Tree::new();
    tree.file("proc/self/cgroup", "0::/user.slice\n").file("proc/self/mountinfo", V2_MOUNT);
    assert_eq!(Cgroups::find(&tree.roots()).quota_cpus(), None, "no group where the mount should have it");
    // A folder of this name that is no group.
    tree.file("sys/fs/cgroup/user.slice/something", "");
    let cgroups = Cgroups::find(&tree.roots());
    assert_eq!(cgroups.quota_cpus(), None);
    assert_eq!(cgroups.throttling().until(&cgroups.throttling()), (None, None));
}

#[test]
fn version_1_whose_mount_is_our_group() {
    let tree = Tree::new();
    tree.file("proc/self/cgroup", "5:cpuset:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/docker/abc\n")
        .file("proc/self/mountinfo", &v1_mounts("/docker/abc"))
        .file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n")
        .file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
        .file("sys/fs/cgroup/cpu,cpuacct/cpu.stat", "nr_periods 4\nnr_throttled 2\nthrottled_time 3000000000\n")
        .file("sys/fs/cgroup/cpuset/cpuset.cpus", "0-7\n")
        .file("sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0,2\n");
    let cgroups = Cgroups::find(&tree.roots());
    close(cgroups.quota_cpus(), 2.5);
    assert_eq!(cgroups.cpuset().unwrap().to_string(), "0,2");
    assert_eq!(cgroups.unified(), None, "no version 2 mount");

    let before = cgroups.throttling();
    tree.file("sys/fs/cgroup/cpu,cpuacct/cpu.stat", "nr_periods 4\nnr_throttled 3\nthrottled_time 3250000000\n");
    let (periods, seconds) = before.until(&cgroups.throttling());
    assert_eq!(periods, Some(1));
    close(seconds, 0.25);

    tree.file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    assert_eq!(cgroups.quota_cpus(), Some(0.0));
    tree.file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "many\n");
    assert_eq!(cgroups.quota_cpus(), None);
}

#[test]
fn a_mount_that_does_not_show_our_group_is_used_only_if_it_lists_us() {
    let tree = Tree::new();
    tree.file("proc/self/cgroup", "4:cpu,cpuacct:/host/path/abc\n")
        .file("proc/self/stat", "42 (assay-bench) R 1\n")
        .file("proc/self/mountinfo", &v1_mounts("/../.."))
        .file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n")
        .file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
        .file("sys/fs/cgroup/cpu,cpuacct/cgroup.procs", "1\n142\n");
    assert_eq!(Cgroups::find(&tree.roots()).quota_cpus(), None, "the host's root says nothing about us");
    tree.file("sys/fs/cgroup/cpu,cpuacct/cgroup.procs", "1\n42\n");
    assert_eq!(Cgroups::find(&tree.roots()).quota_cpus(), Some(0.0));
}

#[test]
fn a_group_outside_of_our_namespace_is_not_followed() {
    let tree = Tree::new();
    tree.file("proc/self/cgroup", "0::/../sibling\n")
        .file("proc/self/mountinfo", V2_MOUNT)
        .file("sys/fs/cgroup/cgroup.controllers", "cpu\n")
        .file("sys/fs/sibling/cgroup.controllers", "cpu\n")
        .file("sys/fs/sibling/cpu.max", "100000 100000\n");
    assert_eq!(Cgroups::find(&tree.roots()).quota_cpus(), None);
}

#[test]
fn no_cgroups_at_all_is_unknown() {
    let tree = Tree::new();
    let cgroups = Cgroups::find(&tree.roots());
    assert_eq!(cgroups.quota_cpus(), None);
    assert_eq!(cgroups.cpuset(), None);
    assert_eq!(cgroups.throttling().until(&cgroups.throttling()), (None, None));
}

const PRESSURE: &str = "some avg10=0.21 avg60=0.35 avg300=2.05 total=1000000\n\
    full avg10=0.00 avg60=0.00 avg300=0.00 total=250000\n";

#[test]
fn pressure_totals() {
    assert_eq!(parse_total(PRESSURE, "some"), Some(1_000_000));
    assert_eq!(parse_total(PRESSURE, "full"), Some(250_000));
    assert_eq!(parse_total("some avg10=0.21\n", "some"), None);
    assert_eq!(parse_total("", "some"), None);
}

#[test]
fn pressure_is_the_groups_own_where_it_has_one() {
    let tree = Tree::new();
    tree.file("proc/pressure/cpu", PRESSURE)
        .file("proc/pressure/memory", PRESSURE)
        .file("group/cpu.pressure", PRESSURE);
    let sources = Sources::find(&tree.path("proc"), Some(&tree.path("group")));
    let before = sources.read();
    tree.file("group/cpu.pressure", "some avg10=0.21 avg60=0.35 avg300=2.05 total=2000000\n")
        .file("proc/pressure/cpu", "some avg10=0.21 avg60=0.35 avg300=2.05 total=9000000\n")
        .file("proc/pressure/memory", "some total=5000000\nfull avg10=0.00 total=750000\n");
    let shares = before.until(sources.read(), Duration::from_secs(10));
    assert_eq!(shares.cpu_some, Some(10.0));
    assert_eq!(shares.memory_full, Some(5.0));
    assert_eq!(shares.io_full, None);
}

#[test]
fn groups_beside_ours_show_what_others_wait_for() {
    let tree = Tree::new();
    let full = |micros: u64| format!("some avg10=0.00 total=9999999\nfull avg10=0.00 total={micros}\n");
    let root = "sys/fs/cgroup";
    tree.file("proc/self/cgroup", "0::/user/session\n").file("proc/self/mountinfo", V2_MOUNT);
    tree.file(&format!("{root}/memory.pressure"), &full(0));
    for (group, limits) in [("user/session", 0), ("user/other", 0), ("system", 0), ("limited", 5), ("user", 0)] {
        tree.file(&format!("{root}/{group}/memory.pressure"), &full(100))
            .file(&format!("{root}/{group}/memory.events"), &format!("low 0\nhigh 0\nmax {limits}\noom 0\n"));
    }
    tree.file(&format!("{root}/blind/cgroup.procs"), "");
    let cgroups = Cgroups::find(&tree.roots());
    let mut names: Vec<String> =
        cgroups.others().iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    assert_eq!(names, ["blind", "limited", "other", "system"]);

    let before = Others::read(cgroups.others());
    let window = Duration::from_secs(10);
    assert_eq!(before.until(window), Some(0.0));
    // Our own wait is no sign of others, nor is that of a group that wants more than it may have.
    tree.file(&format!("{root}/user/session/memory.pressure"), &full(5_000_100))
        .file(&format!("{root}/user/memory.pressure"), &full(5_000_100))
        .file(&format!("{root}/limited/memory.pressure"), &full(5_000_100))
        .file(&format!("{root}/limited/memory.events"), "high 0\nmax 6\n");
    assert_eq!(before.until(window), Some(0.0));
    tree.file(&format!("{root}/system/memory.pressure"), &full(1_000_100));
    assert_eq!(before.until(window), Some(10.0));
    tree.file(&format!("{root}/user/other/memory.pressure"), &full(2_000_100));
    assert_eq!(before.until(window), Some(20.0));
    assert_eq!(Others::read([]).until(window), None, "a container sees none");
}
