//! The folders of an experiment, a sweep and a bisection: what is in it, and how it is read again.
//!
//! ```text
//! DIR/experiment.yaml          the file as it was given
//! DIR/plan.json                the plan; never changes
//! DIR/bench.json               digests of the programs that run the trials; never change
//! DIR/lock                     held by a running assay
//! DIR/trials/TRIAL/spec.json   what the trial was asked
//! DIR/trials/TRIAL/record.json what it answered
//! DIR/trials/TRIAL/summary.json the part of the record that gates and verdicts read
//! DIR/trials/TRIAL/lost.json   instead of a record: why there is none
//! DIR/trials/TRIAL/attempt.json   instead of all of these but the record: what the cluster says of the attempt
//! DIR/trials/TRIAL/stderr.log  what the bench said
//! DIR/trials/TRIAL.corrupt     a record that can't be read, set aside
//! DIR/work                     databases; removed at the end
//! DIR/report.json, report.md, report.html   the outcome, written anew each time
//! DIR/cluster.json             of a run on a cluster: where the trials come from
//! DIR/noise.json               of an A/A only: how much runs scatter
//! ```

mod bisection;
mod fetched;
mod files;
mod kept;
mod lock;
mod nights;
mod others;
mod outcome;
mod plan;
mod read;
mod reports;
mod room;
mod store;

use std::path::{Path, PathBuf};

pub use bisection::Visits;
pub use fetched::{Fetched, StoredRecord, prepare};
pub use files::Full;
pub use kept::Origin;
pub use lock::InUse;
pub use nights::{Active, Begun, Nights, kept_active, kept_history, kept_sweep};
pub use others::{check_page, check_reports, is_page, is_report, refuse_others};
pub use outcome::Outcome;
pub use plan::{is_of_run, kept_plan};
pub use read::kept_attempts;
pub use reports::{Pages, earlier, keep_noise};
pub use room::room;
pub use store::Store;

/// Where results go if nobody says otherwise, a folder for each experiment.
const RESULTS: &str = "results";

/// The folder of an experiment: the one that was named, else one of its own name.
pub fn folder_of(experiment: &str, named: Option<&Path>) -> PathBuf {
    named.map_or_else(|| Path::new(RESULTS).join(experiment), Path::to_owned)
}

/// Where the databases of a folder are.
fn work_of(dir: &Path) -> PathBuf {
    dir.join("work")
}
