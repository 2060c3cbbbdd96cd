//! `assay validate`.

use std::process::ExitCode;

use super::given::must_be_declared;
use super::options::CheckArgs;
use crate::file::Wanted;
use crate::print;
use crate::text::plural;

/// Prints every problem, or that there is none.
pub fn command(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    must_be_declared(&args.file)?;
    let checked = args.check(Wanted::Either);
    print::out(&checked)?;
    let Some(experiment) = &checked.experiment else {
        print::out(format_args!("{}: {}\n", checked.file(), plural(checked.errors(), "error")))?;
        return Ok(ExitCode::FAILURE);
    };
    let warnings = match checked.warnings() {
        0 => String::new(),
        count => format!(", {}", plural(count, "warning")),
    };
    let (configs, a_night) = match &checked.sweep {
        Some(_) => (format!("a reference and {}", plural(experiment.candidates().count(), "subject")), " a night"),
        None => (plural(experiment.configs.len(), "config"), ""),
    };
    print::out(format_args!(
        "{}: valid{warnings}: {configs}, {}, {} per scenario, {}{a_night}\n",
        checked.file(),
        plural(experiment.scenarios.len(), "scenario"),
        plural(experiment.repetitions as usize, "block"),
        plural(experiment.trials() as usize, "trial"),
    ))?;
    Ok(ExitCode::SUCCESS)
}
