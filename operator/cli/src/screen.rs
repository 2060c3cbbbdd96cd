//! What the user sees while trials run.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::time::Duration;

use assay_core::report::Report;
use assay_core::verdict::Purpose;
use assay_protocol::TrialId;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::machine;
use crate::print;
use crate::text::plural;

/// A bar for what computes for seconds, on a terminal only.
pub struct Steps(ProgressBar);

impl Steps {
    pub fn new(message: &'static str) -> Self {
        let target =
            if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target).with_message(message);
        let style = ProgressStyle::with_template("{bar:10} {msg} ({pos} of {len})");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }

    pub fn at(&self, done: usize, of: usize) {
        self.0.set_length(of as u64);
        self.0.set_position(done as u64);
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A report with the repetitions that would decide what is undecided.
pub fn advised(mut report: Report) -> Report {
    let steps = Steps::new("simulating how many repetitions would decide");
    report.advise(machine::cpus() as usize, &|done, of| steps.at(done, of));
    report
}

/// A progress bar on a terminal, lines elsewhere.
pub struct Screen {
    bar: Option<ProgressBar>,
    total: usize,
    /// Seconds that trials took, by scenario.
    seconds: BTreeMap<String, Vec<f64>>,
}

impl Screen {
    pub fn new(total: usize, seconds: BTreeMap<String, Vec<f64>>) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{bar:10} {wide_msg}\n{prefix}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        Self { bar, total, seconds }
    }

    /// How many trials there will be, where that was not known from the start.
    pub fn expect(&mut self, total: usize) {
        self.total = total;
        if let Some(bar) = &self.bar {
            bar.set_length(total as u64);
        }
    }

    /// What is going on, for as long as nothing else is.
    pub fn show(&self, done: usize, message: String, so_far: String) {
        if let Some(bar) = &self.bar {
            bar.set_position(done as u64);
            bar.set_message(message);
            bar.set_prefix(so_far);
        }
    }

    /// A line that stays.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| print::note(text)),
            None => print::note(text),
        }
    }

    /// A trial goes on; `progress` says how far it is.
    pub fn progress(&self, trial: &TrialId, progress: &str, eta: &str) {
        let Some(bar) = &self.bar else { return };
        bar.set_message(self.line(trial, bar.position(), progress, eta));
    }

    pub fn begin(&self, trial: &TrialId, done: usize, eta: &str) {
        if let Some(bar) = &self.bar {
            bar.set_position(done as u64);
            bar.set_message(self.line(trial, done as u64, "starting", eta));
        }
    }

    /// Which trial of how many. A narrow terminal cuts the end, so the names are there.
    fn line(&self, trial: &TrialId, done: u64, progress: &str, eta: &str) -> String {
        format!("{} of {}: {progress}, {eta}; {}", (done + 1).min(self.total as u64), self.total, name(trial))
    }

    /// A trial has ended in some state, which may be worth a line of its own; `done` of the planned ones are settled now.
    pub fn end(
        &mut self,
        trial: &TrialId,
        seconds: Option<f64>,
        done: usize,
        (state, loud): (&str, bool),
        so_far: &str,
    ) {
        if let Some(seconds) = seconds {
            self.seconds.entry(trial.scenario.clone()).or_default().push(seconds);
        }
        let Some(bar) = &self.bar else {
            let took = seconds.map_or(String::new(), |seconds| format!(" ({seconds:.1} s)"));
            print::note(format_args!("{done} of {} done: {}: {state}{took}", self.total, name(trial)));
            return;
        };
        if loud {
            self.say(&format!("{}: {state}", name(trial)));
        }
        bar.set_position(done as u64);
        bar.set_prefix(so_far.to_owned());
    }

    /// The time that so many trials of each scenario will take, judged by those that are done.
    pub fn eta(&self, open: &BTreeMap<&str, usize>) -> String {
        let all: Vec<f64> = self.seconds.values().flatten().copied().collect();
        let Some(overall) = mean(&all) else { return left(None) };
        let seconds: f64 = open
            .iter()
            .map(|(scenario, count)| {
                let own = self.seconds.get(*scenario).and_then(|seconds| mean(seconds));
                own.unwrap_or(overall) * *count as f64
            })
            .sum();
        left(Some(seconds))
    }

    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The estimates so far in one line: no verdicts, since those wait for the end.
pub fn so_far(report: &Report) -> String {
    let estimates = report.configs.iter().filter_map(|config| {
        let estimate = config.ruling.estimates.iter().find(|e| e.purpose == Purpose::Objective)?;
        let value = match (estimate.estimate_percent, estimate.estimate) {
            (Some(percent), _) => format!("{percent:+.1} %"),
            (None, Some(value)) => format!("{value:+.4}"),
            (None, None) => return None,
        };
        Some(one_so_far(&config.config, &value, &estimate.metric, estimate.blocks))
    });
    all_so_far(estimates)
}

pub fn one_so_far(config: &str, value: &str, metric: &str, blocks: usize) -> String {
    format!("{config} {value} {metric} ({blocks} blocks)")
}

pub fn all_so_far(estimates: impl Iterator<Item = String>) -> String {
    let estimates: Vec<String> = estimates.collect();
    if estimates.is_empty() {
        "so far: no estimates yet".to_owned()
    } else {
        format!("so far: {}", estimates.join(", "))
    }
}

/// That a look has just decided a config.
pub fn decided(config: &str, blocks: usize, verdict: &str, reason: &str) -> String {
    let blocks = plural(blocks, "block");
    format!("assay: {config} decided after {blocks}: {verdict} ({reason}); no more runs")
}

pub fn name(trial: &TrialId) -> String {
    let replicate = if trial.replicate > 0 { format!(" run {}", trial.replicate + 1) } else { String::new() };
    let again = if trial.attempt > 0 { format!(" try {}", trial.attempt + 1) } else { String::new() };
    format!("{} block {} {}{replicate}{again}", trial.scenario, trial.block + 1, trial.config)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The time that is left, in words.
pub fn left(seconds: Option<f64>) -> String {
    seconds.map_or("time left unknown".to_owned(), |seconds| format!("{} left", duration(seconds)))
}

fn duration(seconds: f64) -> String {
    if seconds < 90.0 {
        format!("{seconds:.0} s")
    } else if seconds < 5400.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.1} h", seconds / 3600.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eighty_columns_show_the_rate_and_the_time_left() {
        let trial = TrialId {
            scenario: "a-scenario-with-a-long-name".to_owned(),
            config: "candidate".to_owned(),
            block: 11,
            replicate: 1,
            order: 0,
            attempt: 1,
        };
        let screen = Screen { bar: None, total: 1200, seconds: BTreeMap::new() };
        let line = screen.line(&trial, 1100, "measuring 100 %, 999.9 k steps/s", "time left unknown");
        // The bar takes 10 and a blank.
        assert!(line.find(';').is_some_and(|end| end < 69), "{line}");
        assert!(line.ends_with("; a-scenario-with-a-long-name block 12 candidate run 2 try 2"), "{line}");
    }

    #[test]
    fn time_left_comes_from_finished_trials() {
        let screen = |seconds: &[(&str, f64)]| {
            let mut by_scenario: BTreeMap<String, Vec<f64>> = BTreeMap::new();
            for (scenario, seconds) in seconds {
                by_scenario.entry((*scenario).to_owned()).or_default().push(*seconds);
            }
            Screen { bar: None, total: 4, seconds: by_scenario }
        };
        let open = BTreeMap::from([("fill", 2), ("read", 1)]);
        assert_eq!(screen(&[]).eta(&open), "time left unknown");
        assert_eq!(screen(&[("fill", 10.0), ("fill", 20.0)]).eta(&open), "45 s left");
        assert_eq!(screen(&[("fill", 60.0), ("read", 600.0)]).eta(&open), "12 min left");
    }
}
