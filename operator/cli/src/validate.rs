//! `assay validate`.

use std::process::ExitCode;

use crate::args::CheckArgs;
use crate::check::check;

/// Prints every problem, or that there is none.
pub fn command(args: &CheckArgs) -> ExitCode {
    let report = check(args);
    print!("{report}");
    let Some(experiment) = &report.experiment else {
        println!("{}: {}", report.file(), plural(report.errors(), "error"));
        return ExitCode::FAILURE;
    };
    let warnings = match report.warnings() {
        0 => String::new(),
        count => format!(", {}", plural(count, "warning")),
    };
    println!(
        "{}: valid{warnings}: {}, {}, {} of each, {}",
        report.file(),
        plural(experiment.configs.len(), "config"),
        plural(experiment.scenarios.len(), "scenario"),
        plural(experiment.repetitions as usize, "block"),
        plural(experiment.trials() as usize, "trial"),
    );
    ExitCode::SUCCESS
}

/// `1 error`, `2 errors`.
pub fn plural(count: usize, one: &str) -> String {
    if count == 1 { format!("{count} {one}") } else { format!("{count} {one}s") }
}
