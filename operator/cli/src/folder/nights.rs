//! The folder of a sweep whose nights run on this machine.
//!
//! ```text
//! DIR/history.jsonl            its nights, a line each
//! DIR/sweep.json               of which sweep it is, and since when
//! DIR/night.json               the night that runs or was interrupted, else nothing
//! DIR/nights/NIGHT             the results folder of a night
//! DIR/programs/DIGEST          benches of late nights that are told apart, to confirm changes with
//! DIR/report.html, report.md, report.json   all nights, written anew after each
//! DIR/lock                     held by a running assay
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use assay_core::sweep::confirm::Visit;
use assay_core::sweep::detect::Watch;
use assay_core::sweep::night::name;
use assay_core::sweep::report::{SweepReport, html, markdown};
use assay_core::sweep::{History, Imported, Night, Outcome, Trigger, surplus};
use assay_protocol::Digest;
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::files::{read_if_there, remove, write};
use super::lock::Lock;
use crate::bench::BenchDigests;

/// The flag that names such a folder.
const FLAG: &str = "--history";

/// The night that has begun.
const ACTIVE: &str = "night.json";

/// Nights whose programs are kept: as far as detection looks back.
const PROGRAM_NIGHTS: usize = 60;

/// What the folder of a sweep may hold before its history, and what a new disk has.
const BEFORE: [&str; 4] = ["lock", "lost+found", "sweep.json", "sweep.partial"];

/// The report that is written last.
const LAST_REPORT: &str = "report.html";

/// A sweep's folder, held for this process.
#[derive(Debug)]
pub struct Nights {
    dir: PathBuf,
    pub begun: Begun,
    pub history: History,
    _lock: Lock,
}

/// The sweep of a folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Begun {
    pub sweep: String,
    pub schedule: String,
    pub time_zone: String,
    /// Nights before it are nobody's.
    pub since: Timestamp,
    /// Of its metrics, for the report.
    #[serde(default)]
    pub margins: BTreeMap<String, f64>,
    /// Evidence from which a change is suspected, for the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm: Option<f64>,
}

impl Begun {
    pub fn watch(&self) -> Watch {
        Watch { alarm: self.alarm, margins: self.margins.clone(), promised: None, bisect: None }
    }
}

/// A night that has begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Active {
    pub night: Timestamp,
    pub trigger: Trigger,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_now: Option<String>,
    /// Its experiment, whatever becomes of the sweep's file meanwhile.
    pub document: Value,
    /// The programs that it began with.
    pub benches: BenchDigests,
    /// What it asks, if it is no night.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visit: Option<Visit>,
    /// Why the last call could not finish it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Nights {
    /// Opens or makes the folder of a sweep. One that holds something else is left alone.
    pub fn open(dir: &Path, sweep: &Begun) -> anyhow::Result<Self> {
        refuse_others(dir)?;
        fs::create_dir_all(dir)
            .with_context(|| format!("can't create {}: choose another folder with {FLAG}", dir.display()))?;
        let dir = fs::canonicalize(dir).with_context(|| format!("can't find {}", dir.display()))?;
        let lock = Lock::take(&dir, FLAG)?;
        let path = dir.join("sweep.json");
        let kept: Option<Begun> = read_json(&path)?;
        if let Some(kept) = kept.as_ref().filter(|kept| kept.sweep != sweep.sweep) {
            bail!(
                "{} has the history of sweep {}, not of {}: use another {FLAG}, or the same name",
                dir.display(),
                kept.sweep,
                sweep.sweep
            );
        }
        // With another schedule, nights begin anew: those of the old one are over, and none of the new one was missed.
        let same = |kept: &&Begun| kept.schedule == sweep.schedule && kept.time_zone == sweep.time_zone;
        // A clock that was ahead when they began must not silence them until it has caught up.
        let since = kept.as_ref().filter(same).map_or(sweep.since, |kept| kept.since.min(sweep.since));
        let begun = Begun { since, ..sweep.clone() };
        let is_new = kept.as_ref() != Some(&begun);
        if is_new {
            write(&path, &serde_json::to_vec_pretty(&begun)?)?;
        }
        let history = kept_history(&dir, &sweep.sweep)?;
        let nights = Self { dir, begun, history, _lock: lock };
        if nights.history.nights().next().is_some() && (is_new || nights.has_old_report()) {
            nights.report()?;
        }
        Ok(nights)
    }

    /// Whether the last call ended between the history and its report.
    fn has_old_report(&self) -> bool {
        let written = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
        written(&self.dir.join(LAST_REPORT)) < written(&history_path(&self.dir))
    }

    /// The results folder of a night.
    pub fn night_dir(&self, night: Timestamp) -> PathBuf {
        self.dir.join("nights").join(name(&self.begun.sweep, night))
    }

    /// The night that has begun and not ended.
    pub fn active(&self) -> anyhow::Result<Option<Active>> {
        read_json(&self.active_path())
    }

    pub fn begin(&self, active: &Active) -> anyhow::Result<()> {
        write(&self.active_path(), &serde_json::to_vec_pretty(active)?)
    }

    /// The night that had begun is in the history.
    pub fn end(&self) -> anyhow::Result<()> {
        remove_file(&self.active_path())
    }

    /// Adds a night: afterwards the file has it as a whole, or not at all.
    pub fn add(&mut self, night: Night) -> anyhow::Result<()> {
        let mut history = self.history.clone();
        history.add(night)?;
        self.keep(history)
    }

    /// Adds nights of another history, or none.
    pub fn import(&mut self, lines: &str) -> anyhow::Result<Imported> {
        let mut history = self.history.clone();
        let imported = history.import(lines)?;
        self.keep(history)?;
        Ok(imported)
    }

    fn keep(&mut self, history: History) -> anyhow::Result<()> {
        write(&history_path(&self.dir), history.lines()?.as_bytes())?;
        self.history = history;
        self.report()
    }

    fn report(&self) -> anyhow::Result<()> {
        let report = SweepReport::new(&self.history, &self.begun.watch());
        write(&self.dir.join("report.json"), &serde_json::to_vec_pretty(&report)?)?;
        write(&self.dir.join("report.md"), markdown(&report).as_bytes())?;
        write(&self.dir.join(LAST_REPORT), html(&report).as_bytes())
    }

    /// Removes the results folders of the oldest nights.
    pub fn prune(&self, measured: u32, failed: u32) -> anyhow::Result<()> {
        let named: BTreeMap<String, Timestamp> =
            self.history.nights().map(|night| (name(&self.begun.sweep, night.night), night.night)).collect();
        let entries = fs::read_dir(self.dir.join("nights")).into_iter().flatten().flatten();
        let there = entries.filter_map(|entry| named.get(entry.file_name().to_str()?).copied());
        for night in surplus(&self.history, there, measured as usize, failed as usize) {
            remove(&self.night_dir(night))?;
        }
        Ok(())
    }

    /// Where a program is kept.
    pub fn program(&self, digest: &str) -> PathBuf {
        self.dir.join("programs").join(digest)
    }

    /// Keeps the programs of a night, and removes those of nights that no confirmation will ask for.
    pub fn keep_programs(&self, programs: &[(Digest, &Path)]) -> anyhow::Result<()> {
        let dir = self.dir.join("programs");
        fs::create_dir_all(&dir).with_context(|| format!("can't create {}", dir.display()))?;
        for (digest, path) in programs {
            let kept = self.program(&digest.to_string());
            if kept.is_file() {
                continue;
            }
            let partial = kept.with_extension("partial");
            fs::copy(path, &partial)
                .and_then(|_| fs::rename(&partial, &kept))
                .with_context(|| format!("can't keep {} as {}", path.display(), kept.display()))?;
        }
        let late = self.history.nights().rev().filter(|night| night.outcome == Outcome::Measured).take(PROGRAM_NIGHTS);
        let images = late.flat_map(|night| {
            let reference = night.reference.iter().filter_map(|reference| reference.image.as_ref());
            reference.chain(night.subjects.iter().filter_map(|subject| subject.image.as_ref()))
        });
        let named: BTreeSet<&str> = images.filter_map(|image| image.rsplit('@').next()).collect();
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let is_new = programs.iter().any(|(digest, _)| entry.file_name().to_str() == Some(&digest.to_string()));
            if !is_new && entry.file_name().to_str().is_none_or(|name| !named.contains(name)) {
                remove_file(&entry.path())?;
            }
        }
        Ok(())
    }

    /// What keeps the night that has begun.
    pub fn active_path(&self) -> PathBuf {
        self.dir.join(ACTIVE)
    }
}

/// The history in a folder, which may be in use.
pub fn kept_history(dir: &Path, sweep: &str) -> anyhow::Result<History> {
    let path = history_path(dir);
    let mut history = History::new(sweep);
    if let Some(bytes) = read_if_there(&path)? {
        let lines = String::from_utf8(bytes).map_err(|_| anyhow!("{} is not UTF-8: restore it", path.display()))?;
        history.import(&lines).map_err(|error| anyhow!("{}, {error}: restore it", path.display()))?;
    }
    Ok(history)
}

/// The night of a folder that has begun and is not in the history yet.
pub fn kept_active(dir: &Path) -> anyhow::Result<Option<Active>> {
    read_json(&dir.join(ACTIVE))
}

/// The sweep of a folder, if it is one of a sweep.
pub fn kept_sweep(dir: &Path) -> anyhow::Result<Option<Begun>> {
    read_json(&dir.join("sweep.json"))
}

fn history_path(dir: &Path) -> PathBuf {
    dir.join("history.jsonl")
}

fn refuse_others(dir: &Path) -> anyhow::Result<()> {
    if !dir.is_dir() || dir.join("sweep.json").is_file() {
        return Ok(());
    }
    let entries = fs::read_dir(dir).with_context(|| format!("can't read {}", dir.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    match names.filter(|name| !BEFORE.contains(&name.as_str())).min() {
        Some(name) => bail!(
            "{} holds other files, such as {name}, and no history of a sweep: use a new or an empty folder with {FLAG}",
            dir.display()
        ),
        None => Ok(()),
    }
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> anyhow::Result<Option<T>> {
    let Some(bytes) = read_if_there(path)? else { return Ok(None) };
    let read = serde_json::from_slice(&bytes);
    read.map(Some).map_err(|error| anyhow!("{} is corrupted ({error}): restore it", path.display()))
}

fn remove_file(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("can't remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
