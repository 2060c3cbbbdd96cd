//! The outcome as files.

use std::fs;
use std::path::Path;

use anyhow::Context;
use assay_core::report::{Attachment, Attachments, Report, TimeTable, TimeTables, TrialFate, html, markdown};
use assay_record::TrialRecord;

use super::{Store, write};

impl Store {
    pub fn keep_report(&self, report: &Report) -> anyhow::Result<()> {
        keep_report(report, &self.dir, &self.dir)
    }
}

/// Writes a report in all its forms, with plots from the records of the folder `from`.
pub fn keep_report(report: &Report, from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("{} can't be made: choose another --out", to.display()))?;
    let (attachments, time_spent) = from_records(report, from);
    let report = &Report { time_spent, ..report.clone() };
    write(&to.join("report.json"), report.json()?.as_bytes())?;
    write(&to.join("report.md"), markdown(report).as_bytes())?;
    write(&to.join("report.html"), html(report, &attachments).as_bytes())
}

/// What plots and tables need of the trials that count. A record that can't be read any more is a gap in a picture, not in a
/// verdict.
fn from_records(report: &Report, dir: &Path) -> (Vec<Attachment>, Vec<TimeTable>) {
    let (mut attachments, mut times) = (Attachments::default(), TimeTables::default());
    for trial in report.trials.iter().filter(|trial| trial.state == TrialFate::Valid) {
        let path = dir.join("trials").join(trial.trial.file_stem()).join("record.json");
        if let Some(record) = fs::read(path).ok().and_then(|bytes| TrialRecord::from_json(&bytes).ok()) {
            attachments.add(&record);
            times.add(&record);
        }
    }
    (attachments.finish(), times.finish(report))
}
