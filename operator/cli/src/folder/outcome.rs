//! What came of an experiment, wherever it ran.

use std::path::PathBuf;

use assay_core::attempt::Attempt;
use assay_core::plan::Plan;
use assay_core::report::{Report, terminal};

use crate::print;

pub struct Outcome {
    pub plan: Plan,
    pub attempts: Vec<Attempt>,
    pub report: Report,
    /// Where all of it is kept.
    pub dir: PathBuf,
}

impl Outcome {
    /// The report as it is printed, and where the rest of it is.
    pub fn text(&self) -> String {
        let page = self.dir.join("report.html");
        format!(
            "{}\nReport: {}; for a pull request: report.md\n",
            terminal(&self.report, print::width()),
            page.display()
        )
    }
}
