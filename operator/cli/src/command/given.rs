//! What a path on the command line is, so that whoever gives the wrong one reads what to type.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::bail;
use assay_core::sweep::validate::KIND as SWEEP;
use assay_core::validate::KIND;

use super::options::experiment_name;
use crate::file;
use crate::folder::{folder_of, is_of_run, is_page, is_report};

/// Endings of tables, which nothing else has.
const TABLES: [&str; 4] = ["csv", "tsv", "jsonl", "ndjson"];
/// Where a file shows that it is an experiment.
const PEEK: u64 = 64 << 10;

/// What a command was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    Experiment,
    Sweep,
    /// The results folder of an experiment.
    Results,
    /// A folder of such folders, of which this is one.
    Several(PathBuf),
    /// Something in such a folder.
    PartOf(PathBuf),
    /// A report of Assay outside of such a folder.
    Report,
    /// Results of a benchmark.
    Table,
    /// The folder of a RocksDB database.
    Database,
    /// Nothing is there, but there is a results folder of this name.
    Named(PathBuf),
}

use Given::{Database, Experiment, Named, PartOf, Report, Results, Several, Sweep, Table};

/// What a path is, if it is one of these.
pub fn given(path: &Path) -> Option<Given> {
    if !path.exists() {
        let named = path.to_str().filter(|name| experiment_name(name).is_ok()).map(|name| folder_of(name, None));
        return named.filter(|folder| is_of_run(folder)).map(Named);
    }
    if is_of_run(path) {
        return Some(Results);
    }
    if path.is_dir() {
        let is_database = path.join("CURRENT").is_file() && path.join("IDENTITY").is_file();
        return if is_database { Some(Database) } else { part_of(path).or_else(|| several(path)) };
    }
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
    // What is no file gives its bytes only once.
    if !path.is_file() {
        return None;
    }
    if TABLES.contains(&ending.as_str()) {
        return Some(Table);
    }
    // A page holds the text of its experiment.
    let is_ours = is_report(path).unwrap_or(false) || is_page(path).unwrap_or(false);
    if let Some(declared) = declared(path).filter(|_| !is_ours) {
        return Some(declared);
    }
    part_of(path).or_else(|| is_ours.then_some(Report))
}

/// What a file says that it is.
fn declared(path: &Path) -> Option<Given> {
    let mut start = Vec::new();
    File::open(path).and_then(|file| file.take(PEEK).read_to_end(&mut start)).ok()?;
    let of_line = |line: &str| match line.contains("kind") {
        true if line.contains(KIND) => Some(Experiment),
        true if line.contains(SWEEP) => Some(Sweep),
        _ => None,
    };
    String::from_utf8_lossy(&start).lines().find_map(of_line)
}

/// The first of the results folders in a folder that holds nothing but folders.
fn several(path: &Path) -> Option<Given> {
    let entries: Vec<PathBuf> = fs::read_dir(path).ok()?.flatten().map(|entry| entry.path()).collect();
    let first = entries.iter().filter(|path| is_of_run(path)).min().cloned();
    first.filter(|_| entries.iter().all(|path| path.is_dir())).map(Several)
}

/// The results folder that something is in.
fn part_of(path: &Path) -> Option<Given> {
    let whole = fs::canonicalize(path).ok()?;
    let folder = whole.ancestors().skip(1).find(|folder| is_of_run(folder))?;
    // As it was written, where that leads there.
    let written = path.ancestors().skip(1).map(|dir| if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
    let mut written = written.filter(|dir| fs::canonicalize(dir).is_ok_and(|dir| dir == folder));
    Some(PartOf(written.next().unwrap_or(folder).to_owned()))
}

/// What a path is in words, and what to type.
pub fn advice(path: &Path, given: &Given) -> String {
    let shown = path.display();
    let report = |folder: &Path| format!("its report: `assay report {}`", typed(folder));
    match given {
        Experiment => {
            let name = file::read(path).ok().and_then(|read| Some(read.value["metadata"]["name"].as_str()?.to_owned()));
            let results = name.map(|name| folder_of(&name, None)).filter(|folder| is_of_run(folder));
            let results = results.map_or(String::new(), |folder| format!("; to show {}", report(&folder)));
            format!("{shown} is an experiment file. To run it: `assay run {shown}`{results}")
        }
        Sweep => format!(
            "{shown} is the file of a sweep. To plan it: `assay sweep plan {shown}`; to run its nights on this machine: `assay \
             sweep run {shown} --history DIR`; on a cluster: `kubectl apply -f {shown}`"
        ),
        Results => format!(
            "{shown} is a results folder. To show {}; to continue it: `assay run {1} --out {shown}`",
            report(path),
            path.join("experiment.yaml").display()
        ),
        Several(first) => {
            format!("{shown} holds several results folders. To show one: `assay report {}`", typed(first))
        }
        PartOf(folder) => {
            format!("{shown} is part of the results folder {}. To show {}", folder.display(), report(folder))
        }
        Report => format!(
            "{shown} is a report of Assay, not results. Give the results folder to `assay report`, or the results that \
             the report is about to `assay judge`"
        ),
        Table => format!("{shown} is a table of results. To judge it: `assay judge {shown}`"),
        Database => format!("{shown} is a RocksDB database. To make an experiment of it: `assay import {shown}`"),
        Named(folder) => {
            format!("{shown} does not exist, but {} has results. To show {}", folder.display(), report(folder))
        }
    }
}

/// A path that can't be taken for a name.
fn typed(folder: &Path) -> String {
    let shown = folder.display().to_string();
    if experiment_name(&shown).is_ok() { format!("./{shown}") } else { shown }
}

/// Refuses what is known to be no experiment file.
pub fn must_be_experiment(path: &Path) -> anyhow::Result<()> {
    match given(path) {
        None | Some(Experiment) => Ok(()),
        Some(other) => bail!(advice(path, &other)),
    }
}

/// Refuses what is known to be no sweep's file.
pub fn must_be_sweep(path: &Path) -> anyhow::Result<()> {
    match given(path) {
        None | Some(Sweep) => Ok(()),
        Some(other) => bail!(advice(path, &other)),
    }
}

/// Refuses what is known to be neither.
pub fn must_be_declared(path: &Path) -> anyhow::Result<()> {
    match given(path) {
        None | Some(Experiment | Sweep) => Ok(()),
        Some(other) => bail!(advice(path, &other)),
    }
}

/// Refuses what is known to be no results. Assay's own records are some.
pub fn must_be_results(path: &Path) -> anyhow::Result<()> {
    match given(path) {
        None | Some(Table | Results) => Ok(()),
        Some(other) => bail!(advice(path, &other)),
    }
}
