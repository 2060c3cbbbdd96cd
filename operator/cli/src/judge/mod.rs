//! The rules of Assay, held against results that exist already.

mod files;
#[cfg(test)]
mod fuzz;
mod json;
mod policy;
mod read;
pub mod records;
mod table;

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use assay_core::import::{
    self, Collector, DataProblem, Flags, Format, ImportReport, JudgedMetric, Policy, db_bench, hyperfine,
};
use assay_core::stats::Direction;

use files::{Source, Sources};

/// What is to be judged, and how.
pub struct Asked<'a> {
    /// A file, a folder of them, or - for standard input.
    pub path: &'a Path,
    /// By default the policy beside the results.
    pub policy: Option<&'a Path>,
    /// What is said without a policy.
    pub flags: Flags<'a>,
    /// By default what the content says.
    pub format: Option<Format>,
}

/// Why nothing was judged, a line for each problem.
pub struct Refused {
    /// What has the problems.
    pub path: PathBuf,
    pub lines: Vec<String>,
    /// What to do about all of it.
    pub advice: Option<&'static str>,
}

impl Refused {
    /// Of so many files.
    fn of(path: &Path, files: usize, problems: &[DataProblem]) -> Self {
        let faulty: BTreeSet<&String> = problems.iter().filter_map(|problem| problem.file.as_ref()).collect();
        let advice = (!faulty.is_empty() && faulty.len() < files)
            .then_some("To leave a file of the folder out, list all others under data in its policy.yaml");
        Self { path: path.to_owned(), lines: problems.iter().map(ToString::to_string).collect(), advice }
    }
}

/// Judges results by their policy.
pub fn judge(asked: &Asked<'_>) -> anyhow::Result<Result<ImportReport, Refused>> {
    let mut policy = match policy::find(asked) {
        Ok((policy, _)) => policy,
        Err(refused) => return Ok(Err(refused)),
    };
    let files = open(asked, &policy)?;
    let count = files.len();
    for file in &files {
        defaults(&mut policy, file.format);
    }
    let mut collector = Collector::new(&policy);
    read_all(files, &mut collector)?;
    if policy.objectives.is_empty() {
        let found = collector.found().metrics.join(", ");
        return match collector.finish() {
            Err(problems) => Ok(Err(Refused::of(asked.path, count, &problems))),
            Ok(_) => bail!(
                "no objective declared: pass --objective NAME:higher or NAME:lower, or start with --write-policy \
                 policy.yaml; metrics found: {found}"
            ),
        };
    }
    let judged = collector.finish().and_then(|data| import::judge(&data, &policy));
    Ok(judged.map_err(|problems| Refused::of(asked.path, count, &problems)))
}

/// A policy to begin with, of what the results name.
pub fn draft(asked: &Asked<'_>) -> anyhow::Result<Result<String, Refused>> {
    let policy = match policy::find(asked) {
        Ok((_, Some(used))) => bail!("{} already exists: edit it, or move it away first", used.display()),
        Ok((policy, None)) => policy,
        Err(refused) => return Ok(Err(refused)),
    };
    let files = open(asked, &policy)?;
    let count = files.len();
    let mut collector = Collector::new(&policy);
    read_all(files, &mut collector)?;
    let found = collector.found().clone();
    let read = collector.finish().map_err(|problems| Refused::of(asked.path, count, &problems));
    Ok(read.map(|_| import::draft(&policy, &found)))
}

/// A file of results that was opened.
struct Opened<'a> {
    source: Source,
    format: Format,
    again: Option<read::Input>,
    asked: &'a Asked<'a>,
}

impl Opened<'_> {
    fn input(source: &Source, asked: &Asked<'_>, format: Option<Format>) -> anyhow::Result<(Format, read::Input)> {
        let opened = read::open(&source.path).and_then(|input| read::detect(input, asked.format.or(format)));
        opened.with_context(|| format!("can't read {}", source.path.display()))
    }
}

/// All formats first: what they have in common decides how each is read. Standard input can be opened only once.
fn open<'a>(asked: &'a Asked<'a>, policy: &Policy) -> anyhow::Result<Vec<Opened<'a>>> {
    let sources = Sources::find(asked.path, policy, asked.policy)?.files;
    let only = sources.len() == 1;
    let open = |source: Source| {
        let (format, input) = Opened::input(&source, asked, policy.format)?;
        Ok(Opened { source, format, again: Some(input).filter(|_| only), asked })
    };
    sources.into_iter().map(open).collect()
}

fn read_all(files: Vec<Opened<'_>>, collector: &mut Collector<'_>) -> anyhow::Result<()> {
    let exports = files.iter().filter(|file| file.format == Format::Hyperfine).count();
    for Opened { source, format, again, asked } in files {
        if collector.is_full() {
            break;
        }
        let reader = match again {
            Some(input) => input,
            None => Opened::input(&source, asked, Some(format))?.1,
        };
        let name = source.name.as_str();
        let file = collector.file(name);
        let short = name.rsplit('/').next().unwrap_or(name);
        match format {
            Format::Csv => table::csv(reader, file, collector),
            Format::Jsonl => json::lines(reader, file, collector),
            Format::DbBench => {
                let run = db_bench::RunId::of_file(short, collector.policy());
                read::db_bench(reader, file, run, collector);
            }
            // Several calls of hyperfine are blocks; the repetitions in a single one are not.
            Format::Hyperfine => read::hyperfine(reader, file, (exports > 1).then_some(short), collector),
        }
    }
    Ok(())
}

/// Formats with fixed metrics need no policy.
fn defaults(policy: &mut Policy, format: Format) {
    if !policy.objectives.is_empty() {
        return;
    }
    let objective = match format {
        Format::DbBench => JudgedMetric::new(db_bench::DEFAULT_OBJECTIVE, Direction::Higher, None),
        Format::Hyperfine => JudgedMetric::new(hyperfine::DEFAULT_OBJECTIVE, Direction::Lower, None),
        Format::Csv | Format::Jsonl => return,
    };
    // What is a guardrail already can't be improved as well.
    if policy.guardrails.iter().all(|judged| judged.metric != objective.metric) {
        policy.objectives.push(objective);
    }
}

/// Writes a report down.
pub fn keep(report: &ImportReport, dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("can't create {}: choose another --out", dir.display()))?;
    for (name, text) in [
        ("report.json", report.json()?),
        ("report.md", import::markdown(report)),
        ("report.html", import::html(report)),
    ] {
        keep_text(&dir.join(name), &text)?;
    }
    Ok(())
}

pub fn keep_text(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("can't write {}", path.display()))
}

/// Writes a policy where there is no file yet. Whether the next call finds it without being told.
pub fn keep_draft(results: &Path, path: &Path, text: &str) -> anyhow::Result<bool> {
    let opened = OpenOptions::new().write(true).create_new(true).open(path);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::AlreadyExists) {
        bail!("{} already exists: remove it, or choose another name", path.display());
    }
    written.with_context(|| format!("can't write {}", path.display()))?;
    let found = files::policy_beside(results);
    let same = |found: PathBuf| Some(fs::canonicalize(found).ok()? == fs::canonicalize(path).ok()?);
    Ok(found.and_then(same).unwrap_or(false))
}
