//! `assay validate`.

use std::process::ExitCode;

use super::given::must_be_experiment;
use super::options::CheckArgs;
use crate::print;
use crate::text::plural;

/// Prints every problem, or that there is none.
pub fn command(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    must_be_experiment(&args.file)?;
    let checked = args.check();
    print::out(&checked)?;
    let Some(experiment) = &checked.experiment else {
        print::out(format_args!("{}: {}\n", checked.file(), plural(checked.errors(), "error")))?;
        return Ok(ExitCode::FAILURE);
    };
    let warnings = match checked.warnings() {
        0 => String::new(),
        count => format!(", {}", plural(count, "warning")),
    };
    print::out(format_args!(
        "{}: valid{warnings}: {}, {}, {} per scenario, {}\n",
        checked.file(),
        plural(experiment.configs.len(), "config"),
        plural(experiment.scenarios.len(), "scenario"),
        plural(experiment.repetitions as usize, "block"),
        plural(experiment.trials() as usize, "trial"),
    ))?;
    Ok(ExitCode::SUCCESS)
}
