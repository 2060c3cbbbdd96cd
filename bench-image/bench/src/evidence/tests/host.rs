use assay_protocol::{CpuList, Digest};

use super::super::{build_facts, host};
use super::Tree;

const CPUINFO: &str = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: sse fpu hypervisor\n\n\
    processor\t: 1\nmodel name\t: Other\nflags\t\t: x\n";

#[test]
fn a_machine() {
    let tree = Tree::new();
    tree.file("proc/cpuinfo", CPUINFO)
        .file("proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\n")
        .file("proc/sys/kernel/hostname", "node-1\n")
        .file("proc/sys/kernel/osrelease", "6.18.0\n")
        .file("proc/sys/kernel/random/boot_id", "abc\n")
        .file("sys/devices/system/cpu/online", "0-3\n")
        .file("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "performance\n")
        .file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    let found = host::read(&tree.roots(), CpuList::parse("2-3").as_ref());
    assert_eq!(found.hostname.as_deref(), Some("node-1"));
    assert_eq!(found.kernel.as_deref(), Some("6.18.0"));
    assert_eq!(found.boot_id.as_deref(), Some("abc"));
    assert_eq!(found.cpu_model.as_deref(), Some("AMD EPYC"));
    assert_eq!(found.cpu_flags, Some(Digest::of(b"fpu hypervisor sse")));
    assert_eq!(found.online_cpus, Some(4));
    assert_eq!(found.memory_bytes, Some(1_024_000));
    assert_eq!(found.governor.as_deref(), Some("performance"));
    assert_eq!(found.transparent_hugepage.as_deref(), Some("madvise"));
    assert!(host::is_guest(&tree.path("proc")));
}

#[test]
fn an_empty_machine_is_unknown() {
    let tree = Tree::new();
    let found = host::read(&tree.roots(), None);
    let json = serde_json::to_value(found).unwrap();
    assert!(json.as_object().unwrap().values().all(serde_json::Value::is_null), "{json}");
    assert!(!host::is_guest(&tree.path("proc")));
}

#[test]
fn arm_has_numbers_for_a_name() {
    let cpuinfo = "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
    assert_eq!(host::cpu_model(cpuinfo).as_deref(), Some("implementer 0x41 part 0xd0c"));
    assert_eq!(host::flags(cpuinfo), Some(vec!["asimd", "fp"]));
}

#[test]
fn the_running_program() {
    let build = build_facts("1.2.3", "11.8.1".to_owned(), "gcc".to_owned());
    let image = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    assert_eq!(build.binary, Some(Digest::of(&image)));
    assert_eq!(build.bench_version, "1.2.3");
    assert_eq!(build.profile, if cfg!(debug_assertions) { "debug" } else { "release" });
}
