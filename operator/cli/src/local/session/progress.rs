//! What the user sees of trials while they run and when they end.

use assay_core::attempt::Attempt;
use assay_core::decide::{Fate, Places};
use assay_core::judge::judge_with;
use assay_core::report::{INCOMPLETE, Report};
use assay_core::verdict::Intervals;
use assay_protocol::TrialId;
use assay_protocol::output::Progress;

use super::{Session, done};
use crate::screen::{self, so_far};

impl Session<'_> {
    /// Says how a trial went.
    pub fn say_fate(&mut self, trial: &TrialId, seconds: f64) -> anyhow::Result<()> {
        let places = Places::new(self.plan, &self.attempts)?;
        let last = self.attempts.len() - 1;
        let (state, loud) = match places.fate(last) {
            Fate::Used => ("valid".to_owned(), false),
            Fate::Held(finding) => (format!("held: {}", finding.message), true),
            Fate::Failed => {
                let message = match &self.attempts[last] {
                    Attempt::Finished(summary) => summary.failure.as_ref().map_or("", |failure| &failure.message),
                    Attempt::Lost(lost) => &lost.message,
                };
                (format!("failed: {message}"), true)
            }
            Fate::Invalid(findings) => {
                let all: Vec<String> =
                    findings.iter().map(|finding| format!("{}: {}", finding.code, finding.message)).collect();
                (format!("invalid: {}", all.join("; ")), true)
            }
            Fate::Lost(lost) => (format!("lost: {}", lost.message), true),
            Fate::BlockInterrupted | Fate::Superseded => ("does not count".to_owned(), false),
        };
        let report = judge_with(&places, &self.design, Intervals::None)?;
        self.screen.end(trial, Some(seconds), done(&places), (&state, loud), &so_far(&report));
        self.say_decisions(&report);
        Ok(())
    }

    /// Says which configs a look has just decided.
    fn say_decisions(&mut self, report: &Report) {
        if report.progress.complete {
            return;
        }
        for config in report.configs.iter().filter(|config| config.ruling.reason != INCOMPLETE) {
            if self.decided.insert(config.config.clone()) {
                let blocks = config.ruling.estimates.first().map_or(0, |estimate| estimate.blocks);
                let verdict = format!("{:?}", config.ruling.verdict);
                self.screen.say(&screen::decided(&config.config, blocks, &verdict, &config.ruling.reason));
            }
        }
    }
}

/// How far a trial is.
pub fn in_words(progress: &Progress) -> String {
    let share =
        (100 * progress.done).checked_div(progress.total).map_or(String::new(), |percent| format!(" {percent} %"));
    let rate = progress.steps_per_second.filter(|rate| *rate > 0.0);
    let rate = rate.map_or(String::new(), |rate| format!(", {} steps/s", short(rate)));
    format!("{}{share}{rate}", progress.phase)
}

fn short(value: f64) -> String {
    if value >= 1e6 {
        format!("{:.2} M", value / 1e6)
    } else if value >= 1e4 {
        format!("{:.1} k", value / 1e3)
    } else {
        format!("{value:.0}")
    }
}
