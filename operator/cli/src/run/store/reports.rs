use std::fs;

use assay_core::report::{Attachment, Attachments, Report, TrialFate, html, markdown};
use assay_record::TrialRecord;

use super::{Store, write};

impl Store {
    pub fn keep_report(&self, report: &Report) -> anyhow::Result<()> {
        write(&self.dir.join("report.json"), report.json()?.as_bytes())?;
        write(&self.dir.join("report.md"), markdown(report).as_bytes())?;
        write(&self.dir.join("report.html"), html(report, &self.attachments(report)).as_bytes())
    }

    /// What plots need of the trials that count. A record that can't be read any more is a gap in a picture, not in a verdict.
    fn attachments(&self, report: &Report) -> Vec<Attachment> {
        let mut attachments = Attachments::default();
        for trial in report.trials.iter().filter(|trial| trial.state == TrialFate::Valid) {
            let path = self.trial_dir(&trial.trial).join("record.json");
            if let Some(record) = fs::read(path).ok().and_then(|bytes| TrialRecord::from_json(&bytes).ok()) {
                attachments.add(&record);
            }
        }
        attachments.finish()
    }
}
