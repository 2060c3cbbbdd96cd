//! What an experiment has found out, as data and as text. Everything here follows from records alone: the same records give
//! the same bytes.

mod attachments;
mod change;
mod checks;
mod estimate;
mod gates;
pub(crate) mod html;
mod latency;
pub(crate) mod markdown;
pub(crate) mod measured;
mod neighbours;
mod not_judged;
pub(crate) mod number;
mod open;
pub(crate) mod setup;
pub(crate) mod table;
pub(crate) mod terminal;
pub(crate) mod time_spent;
pub(crate) mod unit;
mod words;
pub(crate) mod workload;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use assay_protocol::{Digest, TrialId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use attachments::{Attachment, Attachments};
pub use change::human as human_change;
pub use checks::{LookConfig, LookReport, NodeEstimate, OrderCheck, OrderEffect};
pub use estimate::Estimate;
pub(crate) use gates::gates;
pub use gates::{GateReport, GateState};
pub use html::html;
pub use markdown::markdown;
pub use measured::{Measured, RecordFacts};
pub use neighbours::{NeighbourFacts, name_neighbours};
pub use not_judged::NotJudged;
pub(crate) use open::{Open, Undecided, advise};
pub use setup::{BuildFacts, MachineFacts, Setup, Setups};
pub use table::WIDTH;
pub use terminal::terminal;
pub use time_spent::{TimeCell, TimeRow, TimeTable, TimeTables};
pub(crate) use words::{About, Failures, sentence, sided};

use crate::gates::{Finding, Label, Note};
use crate::verdict::{MetricRule, Status, Verdict};

/// The version of reports that this crate writes and reads.
pub const VERSION: u32 = 1;

/// The version of the rules that verdicts follow from ("Rules" in docs/statistics.md). Older rules are not in the code: what they judged
/// is judged again.
pub const RULES: u32 = 5;

/// Reports that name no version are from before there was a second one.
fn first_rules() -> u32 {
    1
}

/// The reason of a verdict that was asked for before the planned runs were there.
pub const INCOMPLETE: &str = "Incomplete";

/// The outcome of an experiment, or its state so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Report {
    /// Version of the report's format.
    pub version: u32,
    /// Version of the rules that the verdicts follow.
    #[serde(default = "first_rules")]
    pub rules: u32,
    /// The program that judged, with its version.
    pub produced_by: String,
    pub experiment: String,
    pub plan: Digest,
    pub spec: Digest,
    pub seed: u64,
    pub baseline: String,
    pub design: DesignFacts,
    pub progress: Progress,
    /// Over all scenarios: one per config except the baseline, in file order.
    pub configs: Vec<ConfigReport>,
    /// Scenario by scenario, one per config.
    pub cells: Vec<CellReport>,
    /// Why nothing can be judged at all.
    pub invalid: Vec<Finding>,
    /// Conditions that apply to every verdict here.
    pub labels: Vec<Labelled>,
    pub notes: Vec<Note>,
    /// What each gate said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateReport>,
    /// What the experiment does not judge and yet moved: at most five metrics of a config in a scenario, from summaries and
    /// again from full records. Advice, not part of any verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_judged: Vec<NotJudged>,
    /// The overall verdicts as they stood after each look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looks: Vec<LookReport>,
    /// Whether runs depend on their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order_check: Vec<OrderCheck>,
    /// Where the runs that count spent their time, from their full records; absent without records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub time_spent: Vec<TimeTable>,
    /// Where, when and with what the runs were made, from their full records; absent without records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Setup>,
    /// Medians of every metric by scenario and config, the baseline among them, from full records; absent without records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<RecordFacts>,
    /// Every attempt, whether it counts or not, in plan order.
    pub trials: Vec<TrialReport>,
    /// Verdicts by older rules, if they judged this folder before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Earlier>,
    /// What the verdicts guarantee.
    pub guarantees: Vec<String>,
    pub reproduce: Vec<String>,
}

/// Verdicts by older rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Earlier {
    pub rules: u32,
    /// The program that judged, with its version.
    pub produced_by: String,
    pub verdicts: Vec<EarlierVerdict>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EarlierVerdict {
    pub config: String,
    pub verdict: String,
    pub reason: String,
}

impl Earlier {
    /// What a stored report says, if older rules made it, or what it says of older rules itself. Of its format no more is asked than that:
    /// it is another version's.
    pub fn of(json: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Stored {
            #[serde(default = "first_rules")]
            rules: u32,
            #[serde(alias = "engine")]
            produced_by: String,
            configs: Vec<StoredVerdict>,
            earlier: Option<Earlier>,
        }
        #[derive(Deserialize)]
        struct StoredVerdict {
            config: String,
            verdict: String,
            reason: String,
        }
        let stored: Stored = serde_json::from_slice(json).ok()?;
        if stored.rules >= RULES {
            return stored.earlier;
        }
        let verdict = |StoredVerdict { config, verdict, reason }| EarlierVerdict { config, verdict, reason };
        let verdicts = stored.configs.into_iter().map(verdict).collect();
        Some(Self { rules: stored.rules, produced_by: stored.produced_by, verdicts })
    }
}

/// What was fixed before the first run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DesignFacts {
    pub scenarios: Vec<String>,
    /// What each scenario does, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<String>,
    /// Weights of the scenarios in the overall verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<f64>,
    pub metrics: Vec<MetricRule>,
    /// Blocks after which the experiment is judged; absent if it is judged once, at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looks: Vec<u32>,
    /// Blocks per scenario.
    pub blocks: u32,
    /// Baseline runs per block.
    pub baseline_replicates: u32,
    /// Fewest blocks that can prove a gain overall, and in a single scenario.
    pub fewest_blocks: usize,
    pub fewest_blocks_per_scenario: usize,
}

/// How much of the plan is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Progress {
    /// No more runs will come. Until then, only planned looks give verdicts.
    pub complete: bool,
    pub blocks_planned: usize,
    pub blocks_done: usize,
    pub trials_planned: usize,
    /// Trials with a run that counts.
    pub trials_valid: usize,
    pub attempts: usize,
    pub invalid: usize,
    pub failed: usize,
    pub lost: usize,
    /// Planned trials that are not needed because a look decided their config.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub freed: usize,
}

impl Progress {
    /// Trials and blocks in words.
    fn text(&self) -> String {
        let mut text = format!(
            "{} of {} trials valid, {} of {} blocks done",
            self.trials_valid,
            self.trials_planned - self.freed,
            self.blocks_done,
            self.blocks_planned
        );
        if self.freed > 0 {
            let _ = write!(text, ", {} trials not needed because looks decided early", self.freed);
        }
        text
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A verdict and its basis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ruling {
    pub verdict: Verdict,
    pub reason: String,
    /// The same in plain words.
    pub sentence: String,
    pub recommendation: String,
    /// Conditions of this verdict alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<Label>,
    /// In the order of the experiment's metrics.
    pub estimates: Vec<Estimate>,
}

impl Ruling {
    /// Whether harm is likely, though it is not proven ("Likely harm" in docs/statistics.md).
    pub fn is_likely_harm(&self) -> bool {
        self.verdict == Verdict::Inconclusive && self.reason.starts_with("LikelyHarm:")
    }

    /// The reason with what else the verdict carries: its labels, and failed runs of so many.
    pub(crate) fn why(&self, failed: u32, runs: u32) -> String {
        let mut why = self.reason.clone();
        for label in &self.labels {
            let _ = write!(why, ", {label:?}");
        }
        if failed > 0 {
            let _ = write!(why, ", {failed} of {runs} runs failed");
        }
        why
    }

    /// The labels that follow from a verdict and its estimates.
    pub(crate) fn labels(verdict: Verdict, estimates: &[Estimate]) -> Vec<Label> {
        // Who has asked for a gain of the margin has it proven.
        let is_sized = |e: &Estimate| e.at_least.is_some_and(|least| least >= e.margin);
        let below = |e: &Estimate| {
            let margin = e.scale.margin(e.margin);
            let open = e.interval95.is_some_and(|interval| interval.low.is_none_or(|low| low < margin));
            e.status == Some(Status::Better) && open && !is_sized(e)
        };
        if verdict == Verdict::Win && estimates.iter().any(below) { vec![Label::SizeOpen] } else { Vec::new() }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigReport {
    pub config: String,
    /// What it changes from the baseline; empty for an A/A config.
    pub changes: Vec<String>,
    #[serde(flatten)]
    pub ruling: Ruling,
    /// Runs that ended, over all scenarios, and how many of them failed under the config.
    #[serde(default)]
    pub runs: u32,
    #[serde(default)]
    pub failed: u32,
    /// Why the config as a whole is invalid.
    pub findings: Vec<Finding>,
    /// Blocks that would decide it, if it is undecided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<NeededBlocks>,
    /// Input of [`Report::advise`], removed by it.
    #[serde(skip)]
    pub(crate) open: Option<Open>,
    /// Blocks after which it needed no more runs, if a look ended it early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_after: Option<u32>,
    /// The single blocks and nodes without which it would not be a Win.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fragile: Vec<String>,
    /// Estimates of each node alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_node: Vec<NodeEstimate>,
}

/// Blocks with which a new experiment of this kind would decide with 80 % probability. Based on the measured noise,
/// never on the effect. Absent if no practical number would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NeededBlocks {
    /// Neutral, if the config changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neutral: Option<u32>,
    /// Win, if it improves the objectives by their margins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub win: Option<u32>,
    /// Reject, if it worsens the first objective by its margin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reject: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CellReport {
    pub scenario: String,
    pub config: String,
    #[serde(flatten)]
    pub ruling: Ruling,
    /// Runs that ended, and how many of them failed under the config.
    pub runs: u32,
    pub failed: u32,
    /// The same for the baseline in the same blocks.
    #[serde(default)]
    pub baseline_runs: u32,
    #[serde(default)]
    pub baseline_failed: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Labelled {
    pub label: Label,
    pub text: String,
}

/// One attempt at a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrialReport {
    pub trial: TrialId,
    pub state: TrialFate,
    /// Why it does not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Where it ran, if there is more than one place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    pub started_unix_ms: u64,
    /// How long its measured window lasted; absent for a lost attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_seconds: Option<f64>,
    /// Digest of its full record; absent for a lost attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Digest>,
    /// The metrics that the experiment judges.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TrialFate {
    /// It counts.
    Valid,
    /// Implausible, and not repeated by other blocks.
    Held,
    Invalid,
    /// The workload failed under its config.
    Failed,
    Lost,
    BlockInterrupted,
    Superseded,
}

/// The JSON Schema of reports.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(Report)
}

impl Report {
    /// The exit code that says it all to a script: 10 where a config must not be taken over, 11 where an answer is missing, else 0.
    pub fn exit_code(&self) -> u8 {
        let verdicts = || self.configs.iter().map(|config| config.ruling.verdict);
        if verdicts().any(|verdict| matches!(verdict, Verdict::Reject | Verdict::Tradeoff)) {
            10
        } else if verdicts().any(|verdict| matches!(verdict, Verdict::Invalid | Verdict::Inconclusive)) {
            11
        } else {
            0
        }
    }

    /// Whether all that is wrong is that an answer is missing. Likely harm is more than that.
    pub fn is_open_at_worst(&self) -> bool {
        let is_bad = |ruling: &Ruling| {
            matches!(ruling.verdict, Verdict::Reject | Verdict::Tradeoff | Verdict::Invalid) || ruling.is_likely_harm()
        };
        !self.configs.iter().any(|config| is_bad(&config.ruling))
    }

    /// The same report beside what older rules said of the same runs.
    #[must_use]
    pub fn beside(mut self, earlier: Option<Earlier>) -> Self {
        let Some(earlier) = earlier else { return self };
        let text = format!(
            "These runs were judged by version {} of the rules ({}) before. This report uses version {} (see \
             docs/statistics.md).",
            earlier.rules, earlier.produced_by, self.rules
        );
        self.notes.push(Note::new(None, text));
        for before in &earlier.verdicts {
            let now = self.configs.iter().find(|config| config.config == before.config).map(|config| &config.ruling);
            if now.is_some_and(|now| format!("{:?}", now.verdict) != before.verdict || now.reason != before.reason) {
                let text =
                    format!("Version {} of the rules gave {} ({}).", earlier.rules, before.verdict, before.reason);
                self.notes.push(Note::new(Some(&before.config), text));
            }
        }
        self.earlier = Some(earlier);
        self
    }

    /// Simulates how many blocks would decide the configs that are undecided, and says so in their sentences: an answer after each of some
    /// steps, as `progress` is called with those done and their number. Takes seconds, so no verdict waits for it.
    pub fn advise(&mut self, threads: usize, progress: &dyn Fn(usize, usize)) {
        let undecided = self.configs.iter_mut().filter_map(|config| {
            let open = config.open.take()?;
            Some(Undecided { open, config: &config.config, ruling: &mut config.ruling, needed: &mut config.needed })
        });
        advise(undecided.collect(), &self.baseline, threads, progress);
    }

    /// The report without the results of [`Self::advise`].
    #[must_use]
    pub fn without_advice(mut self) -> Self {
        for config in self.configs.iter_mut().filter(|config| config.ruling.verdict == Verdict::Inconclusive) {
            (config.needed, config.open) = (None, None);
            config.ruling.sentence.clear();
        }
        self
    }

    /// The same as it follows from summaries alone.
    #[must_use]
    pub fn without_records(&self) -> Self {
        let mut report = Self { time_spent: Vec::new(), setup: None, records: Vec::new(), ..self.clone() };
        report.not_judged.retain(|found| !found.from_records);
        report
    }

    /// The report as JSON, with a line break at its end.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|json| json + "\n")
    }

    /// The verdicts of one config by scenario.
    fn cells_of<'a>(&'a self, config: &'a str) -> impl Iterator<Item = &'a CellReport> {
        self.cells.iter().filter(move |cell| cell.config == config)
    }
}
