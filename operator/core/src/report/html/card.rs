//! Verdicts as cards, wherever the runs came from.

use std::fmt::Write as _;

use super::escape;
use crate::report::Ruling;
use crate::verdict::Verdict;

/// A verdict, and how the runs ended that it is about.
#[derive(Clone, Copy)]
pub(crate) struct Judged<'a> {
    pub config: &'a str,
    /// `None`: over all of them.
    pub scenario: Option<&'a str>,
    pub ruling: &'a Ruling,
    pub runs: u32,
    pub failed: u32,
}

/// A card with further remarks on the verdict, and beside them what the config changes and its verdicts by scenario.
pub(crate) fn card(out: &mut String, judged: Judged<'_>, remarks: &str, changes: &str, cells: &[Judged<'_>]) {
    let ruling = judged.ruling;
    let _ = write!(
        out,
        "<article class=\"card {}\">\n<h3>{} <span class=\"config\">{}</span></h3>\n<div>\n<p>{}</p>\n",
        class(ruling.verdict),
        badge(ruling.verdict),
        escape(judged.config),
        escape(&ruling.sentence)
    );
    for label in &ruling.labels {
        let _ =
            writeln!(out, "<p class=\"label\"><strong>{label:?}.</strong> Its interval starts below the margin.</p>");
    }
    if judged.failed > 0 {
        let (failed, runs) = (judged.failed, judged.runs);
        let _ =
            writeln!(out, "<p class=\"label\"><strong>{failed} of {runs} runs failed</strong> under this config.</p>");
    }
    out.push_str(remarks);
    let _ = write!(out, "</div>\n<div>\n{changes}");
    if !cells.is_empty() {
        out.push_str("<ul class=\"cells\">\n");
        for cell in cells {
            let scenario = escape(cell.scenario.unwrap_or_default());
            let reason = escape(&cell.ruling.why(cell.failed, cell.runs));
            let _ = writeln!(out, "<li>{} in {scenario} <small>{reason}</small></li>", badge(cell.ruling.verdict));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</div>\n</article>\n");
}

/// A verdict with its sign, so that colour is not all that tells it.
pub(crate) fn badge(verdict: Verdict) -> String {
    let sign = match verdict {
        Verdict::Win => '▲',
        Verdict::Reject => '▼',
        Verdict::Neutral => '=',
        Verdict::Tradeoff => '⇅',
        Verdict::Inconclusive => '?',
        Verdict::Invalid => '✕',
    };
    format!("<span class=\"badge {}\"><span aria-hidden=\"true\">{sign}</span> {verdict:?}</span>", class(verdict))
}

pub(super) fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Win => "win",
        Verdict::Reject => "reject",
        Verdict::Neutral => "neutral",
        Verdict::Tradeoff => "tradeoff",
        Verdict::Inconclusive => "inconclusive",
        Verdict::Invalid => "invalid",
    }
}
