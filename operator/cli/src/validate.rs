//! `assay validate`.

use std::process::ExitCode;

use crate::args::CheckArgs;
use crate::check::check;
use crate::print;

/// Prints every problem, or that there is none.
pub fn command(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let report = check(args);
    print::out(&report)?;
    let Some(experiment) = &report.experiment else {
        print::out(format_args!("{}: {}\n", report.file(), plural(report.errors(), "error")))?;
        return Ok(ExitCode::FAILURE);
    };
    let warnings = match report.warnings() {
        0 => String::new(),
        count => format!(", {}", plural(count, "warning")),
    };
    print::out(format_args!(
        "{}: valid{warnings}: {}, {}, {} of each, {}\n",
        report.file(),
        plural(experiment.configs.len(), "config"),
        plural(experiment.scenarios.len(), "scenario"),
        plural(experiment.repetitions as usize, "block"),
        plural(experiment.trials() as usize, "trial"),
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// `1 error`, `2 errors`.
pub fn plural(count: usize, one: &str) -> String {
    if count == 1 { format!("{count} {one}") } else { format!("{count} {one}s") }
}
