//! `/sys/devices/system/cpu/cpu*/thermal_throttle`: how often a core, or the package that it is in, clocked down for heat. Kernels have
//! it for machines of Intel that are not virtual.

use std::collections::BTreeMap;
use std::path::Path;

const COUNTERS: [&str; 2] = ["core_throttle_count", "package_throttle_count"];

/// The sum of both counters of each CPU; one whose counters can't be read is missing.
pub fn read(cpus: &Path) -> BTreeMap<u32, u64> {
    let folders = std::fs::read_dir(cpus).into_iter().flatten().flatten();
    let counts = folders.filter_map(|folder| {
        let cpu: u32 = folder.file_name().to_str()?.strip_prefix("cpu")?.parse().ok()?;
        let folder = folder.path().join("thermal_throttle");
        let counts = COUNTERS.map(|name| count(&folder.join(name)));
        Some((cpu, counts.into_iter().sum::<Option<u64>>()?))
    });
    counts.collect()
}

fn count(file: &Path) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_and_packages_are_read() {
        let cpus = tempfile::tempdir().unwrap();
        let put = |cpu: &str, counters: &[(&str, &str)]| {
            let folder = cpus.path().join(cpu).join("thermal_throttle");
            std::fs::create_dir_all(&folder).unwrap();
            for (name, count) in counters {
                std::fs::write(folder.join(name), count).unwrap();
            }
        };
        let more = [("core_throttle_max_time_ms", "7\n"), ("package_throttle_total_time_ms", "11\n")];
        put("cpu0", &[&[("core_throttle_count", "2\n"), ("package_throttle_count", "40\n")][..], &more].concat());
        put("cpu10", &[("core_throttle_count", "0\n"), ("package_throttle_count", "40\n")]);
        // One that is off, one that is broken, and what only looks like a CPU.
        put("cpu1", &[]);
        put("cpu2", &[("core_throttle_count", "many\n"), ("package_throttle_count", "40\n")]);
        put("cpufreq", &[("core_throttle_count", "1\n"), ("package_throttle_count", "1\n")]);
        assert_eq!(read(cpus.path()), BTreeMap::from([(0, 42), (10, 40)]));
        assert_eq!(read(&cpus.path().join("nowhere")), BTreeMap::new());
    }
}
