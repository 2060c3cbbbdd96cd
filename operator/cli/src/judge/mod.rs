//! The rules of Assay, held against results that exist already.

mod files;
#[cfg(test)]
mod fuzz;
mod json;
mod policy;
mod read;
pub mod records;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use assay_core::import::{
    self, Collector, DataProblem, Format, ImportReport, JudgedMetric, Policy, db_bench, hyperfine,
};
use assay_core::stats::{Direction, Scale};

use files::{Source, Sources};

/// What is to be judged, and how.
pub struct Asked<'a> {
    /// A file, a folder of them, or - for standard input.
    pub path: &'a Path,
    /// By default the policy beside the results.
    pub policy: Option<&'a Path>,
    /// By default the policy's.
    pub baseline: Option<&'a str>,
    /// By default what the content says.
    pub format: Option<Format>,
}

/// Why nothing was judged, a line for each problem.
pub struct Refused {
    /// What has the problems.
    pub path: PathBuf,
    pub lines: Vec<String>,
}

/// Judges results by their policy.
pub fn judge(asked: &Asked<'_>) -> anyhow::Result<Result<ImportReport, Refused>> {
    let mut policy = match policy::find(asked.path, asked.policy) {
        Ok(policy) => policy,
        Err(refused) => return Ok(Err(refused)),
    };
    if let Some(baseline) = asked.baseline {
        policy.baseline = Some(baseline.to_owned());
        policy.sessions.clear();
    }
    let sources = Sources::find(asked.path, &policy, asked.policy)?;
    let format = asked.format.or(policy.format);
    let judged = judged(&sources, policy, format)?;
    Ok(judged.map_err(|problems| Refused {
        path: asked.path.to_owned(),
        lines: problems.iter().map(ToString::to_string).collect(),
    }))
}

/// Reads all files and judges what is in them.
fn judged(
    sources: &Sources,
    mut policy: Policy,
    format: Option<Format>,
) -> anyhow::Result<Result<ImportReport, Vec<DataProblem>>> {
    let open = |path: &Path| {
        let opened = read::open(path).and_then(|input| read::detect(input, format));
        opened.with_context(|| format!("can't read {}", path.display()))
    };
    // All formats first: what they have in common decides how each is read. Standard input can be opened only once.
    let mut opened = Vec::new();
    for Source { name, path } in &sources.files {
        let (found, input) = open(path)?;
        defaults(&mut policy, found);
        opened.push((name, path, found, Some(input).filter(|_| sources.files.len() == 1)));
    }
    if policy.objectives.is_empty() {
        bail!(
            "no objective declared: write a policy.yaml next to the results, or pass one with --policy, for example\n  \
             baseline: CONFIG\n  objectives: [{{metric: NAME, direction: higher, margin: 5%}}]"
        );
    }
    let exports = opened.iter().filter(|(.., found, _)| *found == Format::Hyperfine).count();
    let mut collector = Collector::new(&policy);
    for (name, path, found, input) in opened {
        if collector.is_full() {
            break;
        }
        let reader = match input {
            Some(input) => input,
            None => open(path)?.1,
        };
        let file = collector.file(name);
        let short = name.rsplit('/').next().unwrap_or(name);
        match found {
            Format::Csv => table::csv(reader, file, &mut collector),
            Format::Jsonl => json::lines(reader, file, &mut collector),
            Format::DbBench => {
                read::db_bench(reader, file, db_bench::RunId::of_file(short, &policy), &mut collector);
            }
            // Several calls of hyperfine are blocks; the repetitions in a single one are not.
            Format::Hyperfine => read::hyperfine(reader, file, (exports > 1).then_some(short), &mut collector),
        }
    }
    Ok(collector.finish().and_then(|data| import::judge(&data, &policy)))
}

/// Formats with fixed metrics need no policy.
fn defaults(policy: &mut Policy, format: Format) {
    let objective = |metric: &str, direction| JudgedMetric {
        metric: metric.to_owned(),
        direction,
        margin: "5%".to_owned(),
        scale: Scale::Log,
        at_least: None,
        scenario_margin: None,
        quantile: false,
    };
    if !policy.objectives.is_empty() {
        return;
    }
    match format {
        Format::DbBench => policy.objectives.push(objective(db_bench::DEFAULT_OBJECTIVE, Direction::Higher)),
        Format::Hyperfine => policy.objectives.push(objective(hyperfine::DEFAULT_OBJECTIVE, Direction::Lower)),
        Format::Csv | Format::Jsonl => {}
    }
}

/// Writes a report down.
pub fn keep(report: &ImportReport, dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("can't create {}: choose another --out", dir.display()))?;
    for (name, text) in [("report.json", report.json()?), ("report.md", import::markdown(report))] {
        let path = dir.join(name);
        fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}
