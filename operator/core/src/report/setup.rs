//! Where, when and with what the runs were made, as their full records tell.

use std::collections::BTreeSet;

use assay_protocol::{Bytes, TrialRecord};
use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Report;
use super::neighbours::{self, NeighbourFacts};

/// Where, when and with what the runs were made. What a record does not know is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Setup {
    /// In plan order.
    pub machines: Vec<MachineFacts>,
    pub builds: Vec<BuildFacts>,
    /// First start and last end of the attempts that left a record.
    pub started_unix_ms: u64,
    pub finished_unix_ms: u64,
    /// Programs that ran on the trials' CPUs, the busiest first. Absent if no record could tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<Vec<NeighbourFacts>>,
    /// Attempts that could not tell, of those that left a record.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub neighbours_unknown: usize,
}

/// A machine as trials saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct MachineFacts {
    /// The node, or the host name if there is no cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Attempts on it.
    pub attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub online_cpus: Option<u32>,
    /// CPUs of a trial.
    pub trial_cpus: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_model: Option<String>,
    /// Kernel name of the disk, such as nvme0n1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_transport: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_options: Option<String>,
    /// Size of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem_bytes: Option<u64>,
}

/// A program that ran trials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BuildFacts {
    /// Configs that ran with it.
    pub configs: BTreeSet<String>,
    pub rocksdb_version: String,
    /// Compiler, flags and codecs of RocksDB.
    pub rocksdb_build: String,
    pub allocator: String,
    pub bench_version: String,
    /// Optimisation level of the bench's own code.
    pub profile: String,
}

/// Collects the setup from records in any order.
#[derive(Clone, Debug, Default)]
pub struct Setups(Option<Setup>);

impl Setups {
    /// Adds an attempt, whether it counts or not, with its node if that is known.
    pub fn add(&mut self, record: &TrialRecord, node: Option<&str>) {
        let (started, finished) = (record.started_unix_ms, record.finished_unix_ms);
        let setup = self.0.get_or_insert_with(|| Setup {
            started_unix_ms: started,
            finished_unix_ms: finished,
            ..Setup::default()
        });
        setup.started_unix_ms = setup.started_unix_ms.min(started);
        setup.finished_unix_ms = setup.finished_unix_ms.max(finished);
        let machine = machine(record, node);
        let same = |known: &&mut MachineFacts| MachineFacts { attempts: 0, ..(**known).clone() } == machine;
        match setup.machines.iter_mut().find(same) {
            Some(known) => known.attempts += 1,
            None => setup.machines.push(MachineFacts { attempts: 1, ..machine }),
        }
        match &record.evidence.disturbance.neighbours {
            Some(seen) => {
                let known = setup.neighbours.get_or_insert_default();
                for neighbour in seen {
                    neighbours::add(known, neighbour);
                }
            }
            None => setup.neighbours_unknown += 1,
        }
        let build = build(record);
        let same = |known: &&mut BuildFacts| BuildFacts { configs: BTreeSet::new(), ..(**known).clone() } == build;
        let config = record.spec.trial.config.clone();
        match setup.builds.iter_mut().find(same) {
            Some(known) => _ = known.configs.insert(config),
            None => setup.builds.push(BuildFacts { configs: BTreeSet::from([config]), ..build }),
        }
    }

    pub fn finish(self) -> Option<Setup> {
        self.0.map(|mut setup| {
            setup.neighbours.iter_mut().for_each(|known| neighbours::sort(known));
            setup
        })
    }
}

fn machine(record: &TrialRecord, node: Option<&str>) -> MachineFacts {
    let (host, storage) = (&record.evidence.host, &record.evidence.storage);
    MachineFacts {
        // In a pod the host name is the pod's.
        name: node.map(ToOwned::to_owned).or_else(|| host.hostname.clone()),
        attempts: 0,
        cpu_model: host.cpu_model.clone(),
        online_cpus: host.online_cpus,
        trial_cpus: record.evidence.placement.requested_cpus,
        memory_bytes: host.memory_bytes,
        kernel: host.kernel.clone(),
        governor: host.governor.clone(),
        disk_model: storage.model.clone(),
        disk: storage.device.clone(),
        disk_transport: storage.transport.clone(),
        rotational: storage.rotational,
        filesystem: storage.filesystem.clone(),
        mount_options: storage.mount_options.clone(),
        filesystem_bytes: storage.total_bytes,
    }
}

fn build(record: &TrialRecord) -> BuildFacts {
    let build = &record.evidence.build;
    BuildFacts {
        configs: BTreeSet::new(),
        rocksdb_version: build.rocksdb_version.clone(),
        rocksdb_build: build.rocksdb_build.clone(),
        allocator: build.allocator.clone(),
        bench_version: build.bench_version.clone(),
        profile: build.profile.clone(),
    }
}

pub(super) const UNKNOWN: &str = "unknown";

/// The setup of a report as names and values, in the order in which people ask.
pub(super) fn rows(report: &Report) -> Vec<(&'static str, String)> {
    let none = Setup::default();
    let setup = report.setup.as_ref().unwrap_or(&none);
    let of_machines = |value: fn(&MachineFacts) -> Option<String>| {
        let named = |(number, machine): (usize, &MachineFacts)| {
            let name = machine.name.clone().unwrap_or_else(|| format!("machine {}", number + 1));
            (name, value(machine))
        };
        together(setup.machines.iter().enumerate().map(named).collect())
    };
    let of_builds = |value: fn(&BuildFacts) -> String| {
        let named =
            |build: &BuildFacts| (build.configs.iter().cloned().collect::<Vec<_>>().join(", "), Some(value(build)));
        together(setup.builds.iter().map(named).collect())
    };
    let (date, duration) = times(report);
    vec![
        ("date", date),
        ("duration", duration),
        ("machine", of_machines(|m| m.name.clone())),
        ("CPU", of_machines(cpu)),
        ("memory", of_machines(|m| m.memory_bytes.map(|bytes| Bytes(bytes).to_string()))),
        ("kernel", of_machines(|m| m.kernel.clone())),
        ("disk", of_machines(disk)),
        ("file system", of_machines(filesystem)),
        ("other programs", neighbours::row(setup)),
        ("RocksDB", of_builds(|b| b.rocksdb_version.clone())),
        ("build", of_builds(|b| b.rocksdb_build.clone())),
        ("bench", of_builds(|b| format!("assay-bench {}, {}, {} allocator", b.bench_version, b.profile, b.allocator))),
    ]
}

/// One value if all have the same, else each with its name.
fn together(values: Vec<(String, Option<String>)>) -> String {
    let distinct: BTreeSet<&Option<String>> = values.iter().map(|(_, value)| value).collect();
    if distinct.len() <= 1 {
        return values.into_iter().next().and_then(|(_, value)| value).unwrap_or_else(|| UNKNOWN.to_owned());
    }
    let each = values.into_iter().map(|(name, value)| {
        let value = value.unwrap_or_else(|| UNKNOWN.to_owned());
        if name == value { name } else { format!("{name}: {value}") }
    });
    each.collect::<Vec<_>>().join("; ")
}

fn cpu(machine: &MachineFacts) -> Option<String> {
    let governor = machine.governor.as_ref().map_or(String::new(), |governor| format!(", governor {governor}"));
    let cpus = machine.online_cpus.map(|online| format!("{} of {online} CPUs per trial{governor}", machine.trial_cpus));
    let parts: Vec<String> = machine.cpu_model.clone().into_iter().chain(cpus).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn disk(machine: &MachineFacts) -> Option<String> {
    // The kernel takes a disk for a rotating one until its driver says otherwise, and that of a virtual disk says nothing.
    let is_virtual = machine.disk_transport.as_deref() == Some("virtio");
    let kind = machine.rotational.filter(|rotational| !(is_virtual && *rotational));
    let kind = kind.map(|rotational| if rotational { "hard disk" } else { "not rotating" }.to_owned());
    let parts = [machine.disk_model.clone(), machine.disk.clone(), machine.disk_transport.clone(), kind];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn filesystem(machine: &MachineFacts) -> Option<String> {
    let name = machine.filesystem.clone()?;
    let size = machine.filesystem_bytes.map_or(String::new(), |bytes| format!(" of {}", Bytes(bytes)));
    let options = machine.mount_options.as_ref().map_or(String::new(), |options| format!(" ({options})"));
    Some(format!("{name}{size}{options}"))
}

/// When it began and how long it took. The end of the last run is in its record only.
fn times(report: &Report) -> (String, String) {
    let first = report.trials.iter().map(|trial| trial.started_unix_ms).min();
    let first = report.setup.as_ref().map(|setup| setup.started_unix_ms).into_iter().chain(first).min();
    let last = report.setup.as_ref().map(|setup| setup.finished_unix_ms);
    let date = first.map_or(UNKNOWN.to_owned(), date);
    let spent = first.zip(last).map(|(first, last)| duration(last.saturating_sub(first) / 1000));
    (date, spent.map_or(UNKNOWN.to_owned(), |spent| format!("{spent}, from the first start to the last end")))
}

fn date(unix_ms: u64) -> String {
    let time = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map_or(UNKNOWN.to_owned(), |time| time.strftime("%Y-%m-%d %H:%M UTC").to_string())
}

/// Seconds with two units at most.
fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::judge::tests::full_report;

    fn machine(name: &str) -> MachineFacts {
        MachineFacts {
            name: Some(name.to_owned()),
            attempts: 8,
            cpu_model: Some("AMD EPYC 7763".to_owned()),
            online_cpus: Some(64),
            trial_cpus: 4,
            memory_bytes: Some(256 << 30),
            kernel: Some("6.8.0".to_owned()),
            disk_model: Some("Micron 7450".to_owned()),
            disk: Some("nvme0n1".to_owned()),
            disk_transport: Some("pcie".to_owned()),
            rotational: Some(false),
            filesystem: Some("ext4".to_owned()),
            filesystem_bytes: Some(1 << 40),
            ..MachineFacts::default()
        }
    }

    fn build(configs: &[&str], version: &str) -> BuildFacts {
        BuildFacts {
            configs: configs.iter().map(ToString::to_string).collect(),
            rocksdb_version: version.to_owned(),
            rocksdb_build: "clang 18, -O2".to_owned(),
            allocator: "jemalloc".to_owned(),
            bench_version: "0.1.0".to_owned(),
            profile: "release".to_owned(),
        }
    }

    /// A setup with something of everything.
    pub(crate) fn sample() -> Setup {
        Setup {
            machines: vec![machine("worker-a"), MachineFacts { kernel: None, ..machine("worker-b") }],
            builds: vec![build(&["base", "same"], "11.8.1"), build(&["candidate"], "11.9.0")],
            started_unix_ms: 1_700_000_000_000,
            finished_unix_ms: 1_700_000_000_000 + 3 * 3_600_000 + 12 * 60_000,
            neighbours: Some(vec![
                NeighbourFacts { name: "cargo".to_owned(), most_percent: 12, attempts: 3 },
                NeighbourFacts { name: "backup".to_owned(), most_percent: 1, attempts: 1 },
            ]),
            neighbours_unknown: 0,
        }
    }

    fn shown(report: &Report) -> Vec<String> {
        rows(report).into_iter().map(|(name, value)| format!("{name}: {value}")).collect()
    }

    #[test]
    fn what_machines_share_is_said_once() {
        let mut report = full_report(true);
        report.setup = Some(sample());
        assert_eq!(
            shown(&report),
            [
                "date: 2023-11-14 22:13 UTC",
                "duration: 3 h 12 min, from the first start to the last end",
                "machine: worker-a; worker-b",
                "CPU: AMD EPYC 7763; 4 of 64 CPUs per trial",
                "memory: 256 GiB",
                "kernel: worker-a: 6.8.0; worker-b: unknown",
                "disk: Micron 7450, nvme0n1, pcie, not rotating",
                "file system: ext4 of 1 TiB",
                "other programs: cargo (in 3 runs; at most 12 % of its CPU time), backup (in 1 run; at most 1 % of its CPU time)",
                "RocksDB: base, same: 11.8.1; candidate: 11.9.0",
                "build: clang 18, -O2",
                "bench: assay-bench 0.1.0, release, jemalloc allocator",
            ]
        );
    }

    #[test]
    fn virtual_disks_are_no_hard_disks() {
        let with = |transport: &str, rotational| {
            let transport = Some(transport.to_owned());
            disk(&MachineFacts {
                disk: Some("a".into()),
                disk_transport: transport,
                rotational,
                ..MachineFacts::default()
            })
        };
        assert_eq!(with("virtio", Some(true)).as_deref(), Some("a, virtio"));
        assert_eq!(with("virtio", Some(false)).as_deref(), Some("a, virtio, not rotating"));
        assert_eq!(with("sata", Some(true)).as_deref(), Some("a, sata, hard disk"));
    }

    #[test]
    fn without_records_only_the_date_is_known() {
        let report = full_report(true);
        let mut all = shown(&report);
        assert_eq!(all.remove(0), "date: 2023-11-14 22:13 UTC");
        assert!(all.iter().all(|row| row.ends_with(": unknown")), "{all:?}");
    }

    #[test]
    fn durations_have_two_units_at_most() {
        assert_eq!([5, 61, 7300, 180_000].map(duration), ["5 s", "1 min 1 s", "2 h 1 min", "2 d 2 h"]);
    }
}
