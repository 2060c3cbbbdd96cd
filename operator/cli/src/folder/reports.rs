//! The outcome as files.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use assay_core::aa::Noise;
use assay_core::report::{Attachment, Attachments, Earlier, Report, TimeTable, TimeTables, TrialFate, html, markdown};
use assay_protocol::TrialRecord;

use super::files::write;

/// Writes a report in all its forms, with plots from the records of the folder `from`.
pub fn keep_report(report: &Report, from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("{} can't be made: choose another --out", to.display()))?;
    let (attachments, time_spent) = from_records(report, from);
    let report = &Report { time_spent, ..report.clone() };
    write(&to.join("report.json"), report.json()?.as_bytes())?;
    write(&to.join("report.md"), markdown(report).as_bytes())?;
    write(&to.join("report.html"), html(report, &attachments).as_bytes())
}

/// What older rules said of the runs in a folder, as its report has it.
pub fn earlier(dir: &Path) -> Option<Earlier> {
    Earlier::of(&fs::read(dir.join("report.json")).ok()?)
}

/// Keeps what an A/A has found, beside its report.
pub fn keep_noise(dir: &Path, noise: &[Noise]) -> anyhow::Result<()> {
    write(&dir.join("noise.json"), &serde_json::to_vec_pretty(noise)?)
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
