use std::fmt::Write as _;

use super::{Report, Ruling, TrialFate, TrialReport, number};

/// The report as Markdown: what matters first, the rest folded away.
pub fn markdown(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "# {}\n", escape(&report.experiment));
    summary(&mut out, report);
    let _ = writeln!(out);
    for config in &report.configs {
        let _ = writeln!(out, "- {}", escape(&config.ruling.sentence));
    }
    for finding in &report.invalid {
        let text = format!("**Invalid ({})**: {}. {}", finding.code, escape(&finding.message), finding.what_to_do);
        let _ = writeln!(out, "- {text}");
    }
    for labelled in &report.labels {
        let _ = writeln!(out, "- **{:?}**: {}", labelled.label, escape(&labelled.text));
    }
    let _ = writeln!(out);
    if report.design.scenarios.len() > 1 {
        folded(&mut out, "By scenario", &by_scenario(report));
    }
    folded(&mut out, "What the configs change", &changes(report));
    if !report.notes.is_empty() {
        folded(&mut out, "Notes", &notes(report));
    }
    folded(&mut out, "Trials", &trials(report));
    folded(&mut out, "What these verdicts promise", &bullets(&report.guarantees));
    folded(&mut out, "How to reproduce", &bullets(&report.reproduce));
    out
}

fn summary(out: &mut String, report: &Report) {
    let progress = &report.progress;
    let _ = writeln!(
        out,
        "{} of {} trials valid, {} of {} blocks done, baseline `{}`.{}\n",
        progress.trials_valid,
        progress.trials_planned,
        progress.blocks_done,
        progress.blocks_planned,
        report.baseline,
        if progress.complete { "" } else { " **Incomplete: no verdicts yet.**" }
    );
    let _ = writeln!(out, "| config | verdict | reason | metric | estimate | 95 % interval | proven |");
    let _ = writeln!(out, "|---|---|---|---|---|---|---|");
    for config in &report.configs {
        rows(out, &[&code(&config.config)], &config.ruling);
    }
    let _ = writeln!(out, "\nPositive estimates are better, for latencies too.");
}

fn rows(out: &mut String, first: &[&str], ruling: &Ruling) {
    let verdict = format!("**{:?}**", ruling.verdict);
    let reason = escape(&ruling.reason);
    let named: Vec<&str> = first.iter().copied().chain([verdict.as_str(), reason.as_str()]).collect();
    let blank = vec![""; named.len()];
    if ruling.estimates.is_empty() {
        let _ = writeln!(out, "| {} | | | | |", named.join(" | "));
    }
    for (i, estimate) in ruling.estimates.iter().enumerate() {
        let start = if i == 0 { &named } else { &blank };
        let status = estimate.status.map_or(String::new(), |status| format!("{status:?}"));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {status} |",
            start.join(" | "),
            code(&estimate.metric),
            number::estimate(estimate),
            number::interval(estimate)
        );
    }
}

fn by_scenario(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "| scenario | config | verdict | reason | metric | estimate | 95 % interval | proven |");
    let _ = writeln!(out, "|---|---|---|---|---|---|---|---|");
    for cell in &report.cells {
        rows(&mut out, &[&code(&cell.scenario), &code(&cell.config)], &cell.ruling);
    }
    let _ = writeln!(out, "\nMedians of the runs that count:\n");
    let _ = writeln!(out, "| scenario | config | metric | baseline | config |\n|---|---|---|---|---|");
    for cell in &report.cells {
        for estimate in &cell.ruling.estimates {
            let shown = |value: Option<f64>| value.map_or("unknown".to_owned(), number::measured);
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} |",
                code(&cell.scenario),
                code(&cell.config),
                code(&estimate.metric),
                shown(estimate.baseline_median),
                shown(estimate.config_median)
            );
        }
    }
    out
}

fn changes(report: &Report) -> String {
    let mut out = String::new();
    for config in &report.configs {
        let _ = writeln!(out, "- {}", code(&config.config));
        if config.changes.is_empty() {
            let _ = writeln!(out, "  - nothing (A/A)");
        }
        for change in &config.changes {
            let _ = writeln!(out, "  - {}", code(change));
        }
    }
    out
}

fn notes(report: &Report) -> String {
    let lines: Vec<String> = report
        .notes
        .iter()
        .map(|note| match &note.config {
            Some(config) => format!("{}: {}", code(config), escape(&note.text)),
            None => escape(&note.text),
        })
        .collect();
    bullets(&lines)
}

fn trials(report: &Report) -> String {
    let mut out = String::new();
    let progress = &report.progress;
    let _ = writeln!(
        out,
        "{} attempts: {} valid, {} invalid, {} failed under their config, {} lost. Only those that do not count are listed; \
         `report.json` has all.\n",
        progress.attempts, progress.trials_valid, progress.invalid, progress.failed, progress.lost
    );
    let unused: Vec<&TrialReport> = report.trials.iter().filter(|trial| trial.state != TrialFate::Valid).collect();
    if unused.is_empty() {
        return out;
    }
    let _ = writeln!(out, "| trial | state | why |\n|---|---|---|");
    for trial in unused {
        let mut why: Vec<String> =
            trial.findings.iter().map(|finding| format!("{}: {}", finding.code, finding.message)).collect();
        why.extend(trial.message.clone());
        let why = escape(&why.join("; "));
        let _ = writeln!(out, "| {} | {:?} | {why} |", code(&trial.trial.file_stem()), trial.state);
    }
    out
}

fn bullets(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |mut out, line| {
        let _ = writeln!(out, "- {line}");
        out
    })
}

fn folded(out: &mut String, title: &str, body: &str) {
    // GitHub needs the empty lines to read Markdown inside.
    let _ = writeln!(out, "<details>\n<summary>{title}</summary>\n\n{}\n\n</details>\n", body.trim_end());
}

/// Text from outside must not become markup: names and messages can hold anything.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('|', "\\|").replace(['\n', '\r'], " ")
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'").replace('|', "\\|").replace(['\n', '\r'], " "))
}
