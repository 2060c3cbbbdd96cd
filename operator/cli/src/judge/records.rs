//! A folder that `assay run` has made: the same verdict again, from the plan and the records alone.

use std::path::Path;

use assay_core::report::Report;

use crate::folder::{earlier, kept_attempts, kept_plan};
use crate::screen::advised;

/// Judges a folder of records. Of what else is in it only what older rules have said is told.
pub fn judge(path: &Path) -> anyhow::Result<Report> {
    let plan = kept_plan(path)?;
    let report = assay_core::judge::judge(&plan, &kept_attempts(path, &plan)?)?;
    Ok(advised(report).beside(earlier(path)))
}
