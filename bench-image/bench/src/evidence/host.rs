//! The machine.

use std::path::Path;

use assay_protocol::{CpuList, Digest, Host};

use super::Roots;
use super::read;

/// `cpus` are ours: the governor is that of the first of them.
pub fn read(roots: &Roots, cpus: Option<&CpuList>) -> Host {
    let Roots { proc, sys, .. } = roots;
    let cpuinfo = read::text(&proc.join("cpuinfo")).unwrap_or_default();
    Host {
        hostname: read::line(&proc.join("sys/kernel/hostname")),
        kernel: read::line(&proc.join("sys/kernel/osrelease")),
        boot_id: read::line(&proc.join("sys/kernel/random/boot_id")),
        cpu_model: cpu_model(&cpuinfo),
        cpu_flags: flags(&cpuinfo).map(|flags| Digest::of(flags.join(" ").as_bytes())),
        online_cpus: online(sys).and_then(|cpus| cpus.len().try_into().ok()),
        memory_bytes: read::text(&proc.join("meminfo")).and_then(|meminfo| read::kilobytes(&meminfo, "MemTotal")),
        governor: cpus
            .and_then(CpuList::first)
            .and_then(|cpu| read::line(&sys.join(format!("devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor")))),
        transparent_hugepage: read::line(&sys.join("kernel/mm/transparent_hugepage/enabled"))
            .and_then(|choices| selected(&choices).map(str::to_owned)),
    }
}

fn online(sys: &Path) -> Option<CpuList> {
    CpuList::parse(&read::line(&sys.join("devices/system/cpu/online"))?).filter(|cpus| !cpus.is_empty())
}

/// Whether we run under a hypervisor, as far as the CPU says so (x86 only).
pub fn is_guest(proc: &Path) -> bool {
    let cpuinfo = read::text(&proc.join("cpuinfo")).unwrap_or_default();
    flags(&cpuinfo).is_some_and(|flags| flags.contains(&"hypervisor"))
}

/// The value of the first processor's line; keys are padded with tabs.
fn cpuinfo_value<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

pub fn cpu_model(cpuinfo: &str) -> Option<String> {
    if let Some(model) = cpuinfo_value(cpuinfo, "model name") {
        return Some(model.to_owned());
    }
    // Arm has no name, only numbers.
    let implementer = cpuinfo_value(cpuinfo, "CPU implementer")?;
    let part = cpuinfo_value(cpuinfo, "CPU part")?;
    Some(format!("implementer {implementer} part {part}"))
}

/// Sorted: their order says nothing, so it must not make a difference.
pub fn flags(cpuinfo: &str) -> Option<Vec<&str>> {
    let line = cpuinfo_value(cpuinfo, "flags").or_else(|| cpuinfo_value(cpuinfo, "Features"))?;
    let mut flags: Vec<&str> = line.split_whitespace().collect();
    flags.sort_unstable();
    (!flags.is_empty()).then_some(flags)
}

/// The choice in brackets, as in `always [madvise] never`.
pub fn selected(choices: &str) -> Option<&str> {
    choices.split_once('[')?.1.split_once(']').map(|(choice, _)| choice)
}
