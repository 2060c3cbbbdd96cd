//! The control group that limits us, in version 1 and version 2.
//!
//! A container sees its own group as the root of the hierarchy. Groups above that are out of sight: a quota on the
//! pod that isn't on the container can't be seen from in here.

use std::fs;
use std::path::{Component, Path, PathBuf};

use assay_protocol::CpuList;

use super::Roots;
use super::mounts::{self, Mount};
use super::read;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// Our group in one hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    version: Version,
    /// Our group first, then its parents as far as they can be seen. Their limits hold for us as well.
    levels: Vec<PathBuf>,
}

#[derive(Clone, Debug)]
pub struct Cgroups {
    cpu: Option<Group>,
    cpuset: Option<Group>,
    unified: Option<Group>,
}

/// Throttling so far, of each visible level.
#[derive(Clone, Debug, PartialEq)]
pub struct Throttling(Option<Vec<(u64, f64)>>);

impl Cgroups {
    pub fn find(roots: &Roots) -> Self {
        let memberships = read::text(&roots.proc.join("self/cgroup")).unwrap_or_default();
        let mounts = mounts::parse(&read::text(&roots.proc.join("self/mountinfo")).unwrap_or_default());
        let pid = read::text(&roots.proc.join("self/stat"))
            .and_then(|stat| stat.split(' ').next().map(str::to_owned))
            .unwrap_or_default();
        let group = |controller| group(controller, &memberships, &mounts, &roots.sys, &pid);
        Self { cpu: group(Some("cpu")), cpuset: group(Some("cpuset")), unified: group(None) }
    }

    /// Where pressure files are: they exist in version 2 only.
    pub fn unified(&self) -> Option<&Path> {
        self.unified.as_ref()?.levels.first().map(PathBuf::as_path)
    }

    /// Groups beside ours, and beside each of our parents as far as they can be seen. A container sees none.
    pub fn others(&self) -> Vec<PathBuf> {
        let levels = self.unified.as_ref().map_or(&[][..], |group| &group.levels);
        let beside = levels.windows(2).flat_map(|pair| {
            let entries = fs::read_dir(&pair[1]).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(|path| path.is_dir() && *path != pair[0])
        });
        beside.collect()
    }

    pub fn cpuset(&self) -> Option<CpuList> {
        let group = self.cpuset.as_ref()?;
        let names: &[&str] = match group.version {
            Version::V1 => &["cpuset.effective_cpus", "cpuset.cpus"],
            Version::V2 => &["cpuset.cpus.effective"],
        };
        // Without the controller a group has no file and inherits its parent's set.
        let text = group.levels.iter().find_map(|level| names.iter().find_map(|name| read::line(&level.join(name))))?;
        CpuList::parse(&text).filter(|cpus| !cpus.is_empty())
    }

    /// The tightest quota in CPUs, 0.0 when there is none.
    pub fn quota_cpus(&self) -> Option<f64> {
        let group = self.cpu.as_ref()?;
        let mut tightest: Option<f64> = None;
        let mut seen = false;
        for level in &group.levels {
            let quota = match group.version {
                Version::V1 => read::line(&level.join("cpu.cfs_quota_us")).map(|quota| {
                    read::line(&level.join("cpu.cfs_period_us")).and_then(|period| parse_quota(&quota, &period))
                }),
                Version::V2 => read::line(&level.join("cpu.max"))
                    .map(|max| max.split_once(' ').and_then(|(quota, period)| parse_quota(quota, period))),
            };
            if let Some(quota) = quota {
                seen = true;
                // A file that can't be understood may hold the tightest quota.
                let quota = quota?;
                if quota > 0.0 {
                    tightest = Some(tightest.map_or(quota, |tightest| tightest.min(quota)));
                }
            }
        }
        (seen || group.is_without_limits()).then(|| tightest.unwrap_or(0.0))
    }

    pub fn throttling(&self) -> Throttling {
        Throttling(self.cpu.as_ref().and_then(|group| {
            let levels: Vec<_> = group.levels.iter().filter_map(|level| group.throttled(level)).collect();
            (!levels.is_empty() || group.is_without_limits()).then_some(levels)
        }))
    }
}

impl Throttling {
    /// Periods and seconds of the level that was throttled most: levels overlap, so a sum would count twice.
    pub fn until(&self, after: &Self) -> (Option<u64>, Option<f64>) {
        let (Some(before), Some(after)) = (&self.0, &after.0) else { return (None, None) };
        if before.len() != after.len() {
            return (None, None);
        }
        let (mut periods, mut seconds) = (0, 0.0_f64);
        for (before, after) in before.iter().zip(after) {
            let Some(growth) = after.0.checked_sub(before.0) else { return (None, None) };
            periods = periods.max(growth);
            seconds = seconds.max(after.1 - before.1);
        }
        (Some(periods), Some(seconds))
    }
}

impl Group {
    /// Version 2 has a quota file on every group that can have a quota. Where none is in sight, the controller isn't
    /// enabled and there is nothing that could throttle: known, not unknown.
    fn is_without_limits(&self) -> bool {
        self.version == Version::V2
            && self.levels.first().is_some_and(|level| level.join("cgroup.controllers").exists())
            && self.levels.iter().all(|level| !level.join("cpu.max").exists())
    }

    fn throttled(&self, level: &Path) -> Option<(u64, f64)> {
        let stat = read::text(&level.join("cpu.stat"))?;
        let periods = read::number(&stat, "nr_throttled")?;
        let seconds = match self.version {
            Version::V1 => read::number(&stat, "throttled_time")? as f64 / 1e9,
            Version::V2 => read::number(&stat, "throttled_usec")? as f64 / 1e6,
        };
        Some((periods, seconds))
    }
}

/// `max` in version 2 and a negative number in version 1 are no quota: the result is not positive.
fn parse_quota(quota: &str, period: &str) -> Option<f64> {
    if quota == "max" {
        return Some(0.0);
    }
    let (quota, period): (i64, i64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0).then(|| quota as f64 / period as f64)
}

/// Our group for a controller, or in the unified hierarchy. A controller that version 1 owns is dead in version 2.
fn group(controller: Option<&str>, memberships: &str, mounts: &[Mount], sys: &Path, pid: &str) -> Option<Group> {
    let has = |list: &str, name| list.split(',').any(|entry| entry == name);
    let membership = |wanted: &dyn Fn(&str) -> bool| {
        memberships.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            wanted(controllers).then(|| path.to_owned())
        })
    };
    if let Some(name) = controller
        && let Some(path) = membership(&|controllers| has(controllers, name))
    {
        let hierarchy: Vec<&Mount> =
            mounts.iter().filter(|mount| mount.filesystem == "cgroup" && has(&mount.super_options, name)).collect();
        return Some(Group { version: Version::V1, levels: levels(&hierarchy, &path, sys, pid)? });
    }
    let path = membership(&str::is_empty)?;
    let hierarchy: Vec<&Mount> = mounts.iter().filter(|mount| mount.filesystem == "cgroup2").collect();
    Some(Group { version: Version::V2, levels: levels(&hierarchy, &path, sys, pid)? })
}

fn levels(hierarchy: &[&Mount], path: &str, sys: &Path, pid: &str) -> Option<Vec<PathBuf>> {
    let mounted =
        |mount: &Mount| mount.point.strip_prefix("/sys").map_or_else(|_| mount.point.clone(), |below| sys.join(below));
    let by_path = hierarchy.iter().find_map(|mount| {
        let relative = Path::new(path).strip_prefix(&mount.root).ok()?;
        // A group outside of our namespace's root is shown with `..`; the mount doesn't show it.
        if relative.components().any(|part| part == Component::ParentDir) {
            return None;
        }
        let directory = mounted(mount).join(relative);
        directory.is_dir().then(|| {
            let depth = relative.components().count() + 1;
            directory.ancestors().take(depth).map(Path::to_owned).collect()
        })
    });
    // A container that isn't told its real path may still have its own group mounted. That is our group only if
    // it lists us: reading the host's root instead would report no limits where there are some.
    by_path.or_else(|| {
        let directory = hierarchy.iter().map(|mount| mounted(mount)).find(|directory| {
            read::text(&directory.join("cgroup.procs")).is_some_and(|procs| procs.lines().any(|line| line == pid))
        })?;
        Some(vec![directory])
    })
}
