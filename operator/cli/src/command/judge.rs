//! `assay judge`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use assay_core::import::{self, ColumnFlag, Flags, Format, ImportReport, MetricFlag};
use assay_core::report::terminal;

use super::given::must_be_results;
use crate::folder::{Pages, check_page, check_reports, is_of_run};
use crate::judge::{self, Asked, Refused, records};
use crate::print;
use crate::text::plural;

/// Arguments of `assay judge`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit code 0: every config is Win or Neutral; 10: any Reject or Tradeoff; 11: any Invalid or Inconclusive (and no \
                        Reject or Tradeoff); 1: error; 2: wrong arguments."
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
    /// A metric to improve, with the smallest change that matters (default: 5%); :quantile if its values are quantiles, such as a p99; repeatable
    #[arg(long = "objective", value_name = "NAME:higher|lower[:MARGIN][:quantile]")]
    pub objectives: Vec<MetricFlag>,
    /// A metric that must not get worse, written as an objective; repeatable
    #[arg(long = "guardrail", value_name = "NAME:higher|lower[:MARGIN][:quantile]")]
    pub guardrails: Vec<MetricFlag>,
    /// What a column with another name means, such as block=round; repeatable
    #[arg(long = "column", value_name = "ROLE=COLUMN")]
    pub columns: Vec<ColumnFlag>,
    /// A column to ignore; repeatable
    #[arg(long = "ignore-column", value_name = "COLUMN")]
    pub ignored: Vec<String>,
    /// The format of the results; default: detected from the content
    #[arg(long, value_enum)]
    pub format: Option<FormatArg>,
    /// The folder for report.html, report.md and report.json
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The file for the report as a page; its name must end in .html
    #[arg(long, value_name = "FILE", value_parser = page)]
    pub html: Option<PathBuf>,
    /// Write a policy from the data and these arguments, to check and edit, instead of judging; - for standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["policy", "out", "html"])]
    pub write_policy: Option<PathBuf>,
}

/// A name that neither results nor a policy have: a page replaces an older one without asking.
fn page(name: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(name);
    let is_page = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("html"));
    if is_page { Ok(path) } else { Err("the name must end in .html".to_owned()) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FormatArg {
    /// A table with a header; columns are separated by commas, tabs or semicolons
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
    must_be_results(&args.path)?;
    let of_records = is_of_run(&args.path);
    // Before any work, not after the verdict.
    if let Some(dir) = &args.out {
        check_reports(dir, Some(args.path.as_path()).filter(|_| of_records))?;
    }
    args.html.as_deref().map_or(Ok(()), check_page)?;
    if of_records {
        return self::of_records(args);
    }
    let asked = Asked {
        path: &args.path,
        policy: args.policy.as_deref(),
        flags: Flags {
            baseline: args.baseline.as_deref(),
            objectives: &args.objectives,
            guardrails: &args.guardrails,
            columns: &args.columns,
            ignored: &args.ignored,
        },
        format: args.format.map(Format::from),
    };
    let done = match &args.write_policy {
        Some(file) => judge::draft(&asked)?.map(|text| written(args, file, &text)),
        None => judge::judge(&asked)?.map(|report| judged(args, &report)),
    };
    done.unwrap_or_else(|refused| said(&refused))
}

fn judged(args: &JudgeArgs, report: &ImportReport) -> anyhow::Result<ExitCode> {
    print::out(import::terminal(report, print::width()))?;
    if let Some(dir) = &args.out {
        judge::keep(report, dir)?;
    }
    if let Some(file) = &args.html {
        judge::keep_text(file, &import::html(report))?;
    }
    kept(args)?;
    Ok(ExitCode::from(report.exit_code()))
}

/// Says where the report is.
fn kept(args: &JudgeArgs) -> anyhow::Result<()> {
    if let Some(dir) = &args.out {
        let page = dir.join("report.html");
        print::out(format_args!("\nReport: {}; for a pull request: report.md\n", page.display()))?;
    }
    if let Some(file) = &args.html {
        print::out(format_args!("\nReport: {}\n", file.display()))?;
    }
    Ok(())
}

fn written(args: &JudgeArgs, file: &Path, text: &str) -> anyhow::Result<ExitCode> {
    if file.as_os_str() == "-" {
        print::out(text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let found = judge::keep_draft(&args.path, file, text)?;
    let named = if found { String::new() } else { format!(" --policy {}", file.display()) };
    print::out(format_args!(
        "Wrote {}. Check the guesses in it, then run: assay judge {}{named}\n",
        file.display(),
        args.path.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn said(refused: &Refused) -> anyhow::Result<ExitCode> {
    for line in &refused.lines {
        print::out(format_args!("{line}\n"))?;
    }
    if let Some(advice) = refused.advice {
        print::out(format_args!("{advice}\n"))?;
    }
    let errors = plural(refused.lines.len(), "error");
    print::out(format_args!("{}: {errors}\n", refused.path.display()))?;
    Ok(ExitCode::FAILURE)
}

/// The verdict of a folder that `assay run` has made.
fn of_records(args: &JudgeArgs) -> anyhow::Result<ExitCode> {
    for (flag, given) in [
        ("--policy", args.policy.is_some()),
        ("--baseline", args.baseline.is_some()),
        ("--objective", !args.objectives.is_empty()),
        ("--guardrail", !args.guardrails.is_empty()),
        ("--column", !args.columns.is_empty()),
        ("--ignore-column", !args.ignored.is_empty()),
        ("--format", args.format.is_some()),
        ("--write-policy", args.write_policy.is_some()),
    ] {
        if given {
            bail!("{flag} does not apply to Assay's own records: their plan fixes what is judged");
        }
    }
    let pages = Pages::of(&records::judge(&args.path)?, &args.path);
    print::out(terminal(&pages.report, print::width()))?;
    if let Some(dir) = &args.out {
        pages.keep(dir)?;
    }
    if let Some(file) = &args.html {
        judge::keep_text(file, &pages.html())?;
    }
    kept(args)?;
    Ok(ExitCode::from(pages.report.exit_code()))
}
