//! A folder that `assay run` has made: the same verdict again, from the plan and the records alone.

use std::process::ExitCode;

use anyhow::bail;
use assay_core::judge::judge;
use assay_core::report::terminal;

use super::JudgeArgs;
use crate::print;
use crate::run::store::{kept_attempts, kept_plan, reports::keep_report};

/// Judges a folder of records. What else is in it, reports and summaries, is not looked at.
pub fn command(args: &JudgeArgs) -> anyhow::Result<ExitCode> {
    for (flag, given) in [
        ("--policy", args.policy.is_some()),
        ("--baseline", args.baseline.is_some()),
        ("--format", args.format.is_some()),
    ] {
        if given {
            bail!("{flag} is not for records of Assay: their plan says what is judged, and it can't change afterwards");
        }
    }
    let plan = kept_plan(&args.path)?;
    let report = judge(&plan, &kept_attempts(&args.path, &plan)?)?;
    print::out(terminal(&report))?;
    if let Some(dir) = &args.out {
        keep_report(&report, &args.path, dir)?;
        print::out(format_args!("\nReport: {}\n", dir.join("report.md").display()))?;
    }
    Ok(ExitCode::from(report.exit_code()))
}
