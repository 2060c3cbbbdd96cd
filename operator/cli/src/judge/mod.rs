//! `assay judge`: the rules of Assay, held against results that exist already.

mod files;
#[cfg(test)]
mod fuzz;
mod json;
mod read;
mod records;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use assay_core::import::{
    self, Collector, DataProblem, Format, ImportReport, JudgedMetric, Policy, db_bench, hyperfine,
};
use assay_core::stats::{Direction, Scale};

use crate::file;
use crate::print;
use crate::validate::plural;
use files::{Source, Sources};

/// Arguments of `assay judge`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 no config is rejected, 10 any Reject or Tradeoff, 11 any Invalid or Inconclusive (and no \
                        Reject or Tradeoff), 1 an error."
)]
pub struct JudgeArgs {
    /// The results: a file, a folder of them, or - for standard input
    pub path: PathBuf,
    /// What the columns mean and what is judged; by default policy.yaml beside the results
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// The config that all others are compared with, in every session; by default the policy's
    #[arg(long, value_name = "CONFIG")]
    pub baseline: Option<String>,
    /// How the results are written; by default their content says
    #[arg(long, value_enum)]
    pub format: Option<FormatArg>,
    /// The folder for report.json and report.md
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FormatArg {
    /// A table with a header
    Csv,
    /// One JSON object a line
    Jsonl,
    /// What RocksDB's `db_bench` prints
    #[value(name = "db_bench")]
    DbBench,
    /// What hyperfine writes with --export-json
    Hyperfine,
}

impl From<FormatArg> for Format {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Csv => Self::Csv,
            FormatArg::Jsonl => Self::Jsonl,
            FormatArg::DbBench => Self::DbBench,
            FormatArg::Hyperfine => Self::Hyperfine,
        }
    }
}

pub fn command(args: &JudgeArgs) -> anyhow::Result<ExitCode> {
    if args.path.join("plan.json").is_file() {
        return records::command(args);
    }
    let Some(mut policy) = policy(args)? else { return Ok(ExitCode::FAILURE) };
    if let Some(baseline) = &args.baseline {
        policy.baseline = Some(baseline.clone());
        policy.sessions.clear();
    }
    let sources = Sources::find(&args.path, &policy, args.policy.as_deref())?;
    let format = args.format.map(Format::from).or(policy.format);
    Ok(match judged(&sources, policy, format)? {
        Ok(report) => {
            print::out(import::terminal(&report))?;
            if let Some(dir) = &args.out {
                keep(&report, dir)?;
                print::out(format_args!("\nReport: {}\n", dir.join("report.md").display()))?;
            }
            ExitCode::from(report.exit_code())
        }
        Err(problems) => {
            for problem in &problems {
                print::out(format_args!("{problem}\n"))?;
            }
            print::out(format_args!("{}: {}\n", args.path.display(), plural(problems.len(), "error")))?;
            ExitCode::FAILURE
        }
    })
}

/// The policy that is named, else the one beside the results, else none; `None` after its problems were printed.
fn policy(args: &JudgeArgs) -> anyhow::Result<Option<Policy>> {
    let found = args.policy.clone().or_else(|| files::policy_beside(&args.path));
    let Some(path) = found else { return Ok(Some(Policy::default())) };
    let lines = match file::read(&path) {
        Ok(document) => match Policy::read(&document.value) {
            Ok(policy) => return Ok(Some(policy)),
            Err(problems) => {
                let at = |problem: &assay_core::validate::Problem| document.places.find(&problem.path, problem.at_key);
                let mut lines: Vec<_> =
                    problems.iter().map(|problem| (Some(at(problem)), problem.to_string())).collect();
                lines.sort();
                lines
            }
        },
        Err(problems) => problems.into_iter().map(|problem| (problem.at, problem.message)).collect(),
    };
    for (at, text) in &lines {
        let place = at.map_or(String::new(), |at| format!(":{}:{}", at.line, at.column));
        print::out(format_args!("{}{place}: {text}\n", path.display()))?;
    }
    print::out(format_args!("{}: {}\n", path.display(), plural(lines.len(), "error")))?;
    Ok(None)
}

/// Reads all files and judges what is in them.
fn judged(
    sources: &Sources,
    mut policy: Policy,
    format: Option<Format>,
) -> anyhow::Result<Result<ImportReport, Vec<DataProblem>>> {
    let open = |path: &Path| {
        let opened = read::open(path).and_then(|input| read::detect(input, format));
        opened.with_context(|| format!("{} can't be read", path.display()))
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
            "nothing says what is judged: write a policy.yaml beside the results, or name one with --policy, such as\n  \
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

fn keep(report: &ImportReport, dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("{} can't be made: choose another --out", dir.display()))?;
    for (name, text) in [("report.json", report.json()?), ("report.md", import::markdown(report))] {
        let path = dir.join(name);
        fs::write(&path, text).with_context(|| format!("{} can't be written", path.display()))?;
    }
    Ok(())
}
