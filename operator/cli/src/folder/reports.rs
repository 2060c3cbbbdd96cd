//! The outcome as files.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use assay_core::aa::Noise;
use assay_core::report::{
    Attachment, Attachments, Earlier, Measured, Report, Setups, TimeTables, TrialFate, html, markdown, name_neighbours,
};
use assay_protocol::TrialRecord;

use super::files::write;

/// A report with what its folder shows beside it.
pub struct Pages {
    pub report: Report,
    attachments: Vec<Attachment>,
    /// The text of the experiment's file.
    experiment: Option<String>,
}

impl Pages {
    /// A record that can't be read any more is a gap in a picture, not in a verdict.
    pub fn of(report: &Report, dir: &Path) -> Self {
        let (mut attachments, mut times) = (Attachments::default(), TimeTables::default());
        let (mut measured, mut setups) = (Measured::default(), Setups::default());
        let mut full = report.clone();
        for trial in full.trials.iter_mut().filter(|trial| trial.record.is_some()) {
            let path = dir.join("trials").join(trial.trial.file_stem()).join("record.json");
            let record = fs::read(path).ok().and_then(|bytes| TrialRecord::from_json(&bytes).ok());
            let Some(record) = record else { continue };
            setups.add(&record, trial.node.as_deref());
            name_neighbours(trial, &record);
            if trial.state == TrialFate::Valid {
                attachments.add(&record);
                times.add(&record);
                measured.add(&record.spec.trial, &record.metrics);
            }
        }
        full.time_spent = times.finish(report);
        full.not_judged.extend(measured.in_records(report));
        full.records = measured.facts(report);
        full.setup = setups.finish();
        let experiment = fs::read(dir.join("experiment.yaml")).ok();
        let experiment = experiment.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Self { report: full, attachments: attachments.finish(), experiment }
    }

    /// The report as one page.
    pub fn html(&self) -> String {
        html(&self.report, &self.attachments, self.experiment.as_deref())
    }

    /// Writes the report in all its forms.
    pub fn keep(&self, dir: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(dir).with_context(|| format!("can't create {}: choose another --out", dir.display()))?;
        write(&dir.join("report.json"), self.report.json()?.as_bytes())?;
        write(&dir.join("report.md"), markdown(&self.report).as_bytes())?;
        write(&dir.join("report.html"), self.html().as_bytes())
    }
}

/// What older rules said of the runs in a folder, as its report has it.
pub fn earlier(dir: &Path) -> Option<Earlier> {
    Earlier::of(&fs::read(dir.join("report.json")).ok()?)
}

/// Keeps what an A/A has found, beside its report.
pub fn keep_noise(dir: &Path, noise: &[Noise]) -> anyhow::Result<()> {
    write(&dir.join("noise.json"), &serde_json::to_vec_pretty(noise)?)
}
