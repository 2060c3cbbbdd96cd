//! `assay judge`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use assay_core::import::{self, Format};
use assay_core::report::terminal;

use crate::folder::Pages;
use crate::judge::{self, Asked, records};
use crate::print;
use crate::text::plural;

/// Arguments of `assay judge`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit code 0: no config rejected; 10: any Reject or Tradeoff; 11: any Invalid or Inconclusive (and no \
                        Reject or Tradeoff); 1: error."
)]
pub struct JudgeArgs {
    /// The results: a file, a folder, or - for standard input
    pub path: PathBuf,
    /// What the columns mean and what to judge; default: policy.yaml next to the results
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// The config to compare all others with, in every session; default: the policy's
    #[arg(long, value_name = "CONFIG")]
    pub baseline: Option<String>,
    /// The format of the results; default: detected from the content
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
    /// One JSON object per line
    Jsonl,
    /// Output of RocksDB's `db_bench`
    #[value(name = "db_bench")]
    DbBench,
    /// Output of hyperfine --export-json
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
    if records::are_in(&args.path) {
        return of_records(args);
    }
    let asked = Asked {
        path: &args.path,
        policy: args.policy.as_deref(),
        baseline: args.baseline.as_deref(),
        format: args.format.map(Format::from),
    };
    Ok(match judge::judge(&asked)? {
        Ok(report) => {
            print::out(import::terminal(&report))?;
            if let Some(dir) = &args.out {
                judge::keep(&report, dir)?;
                print::out(format_args!("\nReport: {}\n", dir.join("report.md").display()))?;
            }
            ExitCode::from(report.exit_code())
        }
        Err(refused) => {
            for line in &refused.lines {
                print::out(format_args!("{line}\n"))?;
            }
            let errors = plural(refused.lines.len(), "error");
            print::out(format_args!("{}: {errors}\n", refused.path.display()))?;
            ExitCode::FAILURE
        }
    })
}

/// The verdict of a folder that `assay run` has made.
fn of_records(args: &JudgeArgs) -> anyhow::Result<ExitCode> {
    for (flag, given) in [
        ("--policy", args.policy.is_some()),
        ("--baseline", args.baseline.is_some()),
        ("--format", args.format.is_some()),
    ] {
        if given {
            bail!("{flag} does not apply to Assay's own records: their plan fixes what is judged");
        }
    }
    let pages = Pages::of(&records::judge(&args.path)?, &args.path);
    print::out(terminal(&pages.report))?;
    if let Some(dir) = &args.out {
        pages.keep(dir)?;
        print::out(format_args!("\nReport: {}\n", dir.join("report.md").display()))?;
    }
    Ok(ExitCode::from(pages.report.exit_code()))
}
