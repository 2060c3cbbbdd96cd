use std::collections::BTreeMap;

use super::*;
use crate::attempt::Attempt;
use crate::decide::Places;
use crate::gates::Gate;
use crate::gates::testing::{experiment, plan, rule, scenario, summaries};
use crate::judge::judge_with;
use crate::judge::tests::{full_report, golden, judged, larger};
use crate::report::time_spent::tests::sample;
use crate::report::{TrialFate, TrialReport, measured, schema, setup};
use crate::stats::{Direction, Interval};
use crate::verdict::{Intervals, Purpose, Status, Verdict};

/// What records would give, without any.
fn attachments(report: &Report, points: u32) -> Vec<Attachment> {
    let configs = std::iter::once(&report.baseline).chain(report.configs.iter().map(|config| &config.config));
    let configs: Vec<&String> = configs.collect();
    let columns = ["steps_per_second", "write_amplification", "flush_bytes_per_second", "l0_files"];
    let mut all = Vec::new();
    for scenario in &report.design.scenarios {
        for (i, config) in configs.iter().enumerate() {
            let line =
                |column: usize| (0..points).map(|p| f64::from(p * 37 % 11) * 1234.5 + (i + column) as f64).collect();
            all.push(Attachment {
                scenario: scenario.clone(),
                config: (*config).clone(),
                trials: 8,
                latency: (0..points)
                    .map(|p| (10_f64.powf(f64::from(p) / 10.0), 1000 + u64::from(p * p) * 90))
                    .collect(),
                seconds_per_point: 1.0,
                series: columns.iter().enumerate().map(|(c, name)| ((*name).to_owned(), line(c))).collect(),
            });
        }
    }
    all
}

/// The beginning of an experiment's file.
const EXPERIMENT: &str = "apiVersion: assay.rocks/v1alpha1\nkind: TuningExperiment\n# with <marks> & \"quotes\"\n";

/// The names of all elements, refusing what is not closed, not opened or not quoted.
pub(crate) fn elements(page: &str) -> Vec<&str> {
    let (mut open, mut all) = (Vec::new(), Vec::new());
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a page starts with its type");
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "</{name}> before {}", &rest[..rest.len().min(200)]);
            continue;
        }
        assert!(tag.matches('"').count().is_multiple_of(2), "{tag}");
        let name = tag.split([' ', '/']).next().unwrap_or_default();
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "<{tag}>");
        all.push(name);
        if name != "meta" && !tag.ends_with('/') {
            open.push(name);
        }
        // Style is no markup, whatever it contains.
        if name == "style" {
            rest = &rest[rest.find("</style>").expect("style ends")..];
        }
    }
    assert!(open.is_empty(), "not closed: {open:?}");
    all
}

#[test]
fn the_page_is_as_committed() {
    let mut report = full_report(true);
    report.time_spent = sample(&report);
    report.records = measured::tests::sample(&report);
    report.setup = Some(setup::tests::sample());
    golden("report.html", &html(&report, &attachments(&report, 12), Some(EXPERIMENT)));
}

#[test]
fn pages_are_well_formed_and_every_picture_has_a_title() {
    for complete in [true, false] {
        let mut report = full_report(complete);
        for records in [attachments(&report, 40), Vec::new()] {
            report.time_spent = if records.is_empty() { Vec::new() } else { sample(&report) };
            let page = html(&report, &records, None);
            let elements = elements(&page);
            let count = |name: &str| elements.iter().filter(|element| **element == name).count();
            assert_eq!((count("html"), count("h1"), count("main"), count("script")), (1, 1, 1, 0));
            // One title is the page's.
            assert_eq!(count("title"), count("svg") + 1);
            assert_eq!(count("caption"), count("table"));
            assert_eq!(count("figcaption"), count("figure"));
            assert!(count("svg") > 4);
            assert_eq!(page.matches("No data").count(), if records.is_empty() { 3 } else { 0 });
            assert_eq!(page.contains("Not finished"), !complete);
            for forbidden in ["http:", "https:", "NaN", "inf ", " src=", "url("] {
                assert!(!page.contains(forbidden), "{forbidden}");
            }
        }
    }
}

#[test]
fn what_nothing_is_known_of_is_not_drawn() {
    let mut all = summaries(&larger());
    for summary in &mut all {
        summary.disturbance.throttled_periods = Some(7);
    }
    let tries = all.into_iter().flat_map(|summary| {
        let mut again = summary.clone();
        again.trial.attempt = 1;
        [summary, again]
    });
    let all: Vec<Attempt> = tries.map(|summary| Attempt::Finished(summary.into())).collect();
    let invalid = html(&judged(&larger(), &all), &[], None);
    elements(&invalid);
    assert!(invalid.contains("Nothing can be judged (NothingValid).") && invalid.contains("No run counts yet"));
    assert!(!invalid.contains("<svg") && !invalid.contains("No data"), "{invalid}");
    // One config without a run that counts, beside one that has all.
    let mut some = summaries(&larger());
    some.iter_mut().filter(|s| s.trial.config == "candidate").for_each(|s| s.options.undeclared.count = 1);
    let some: Vec<Attempt> = some.into_iter().map(|summary| Attempt::Finished(summary.into())).collect();
    let page = html(&judged(&larger(), &some), &[], None);
    assert_eq!(page.matches("No run of it counts.").count(), 2);
    assert_eq!(page.matches("of same in fill by block").count(), 1);
}

#[test]
fn a_single_chart_has_its_words_beside_it() {
    let one = |report: &Report| html(report, &attachments(report, 12), None).matches("<div class=\"beside\">").count();
    let all: Vec<Attempt> =
        summaries(&experiment()).into_iter().map(|summary| Attempt::Finished(summary.into())).collect();
    // Block by block, in run order, latency.
    assert_eq!(one(&judged(&experiment(), &all)), 3);
    assert_eq!(one(&full_report(true)), 0);
}

/// Ids count blocks from 0, people from 1.
#[test]
fn blocks_are_numbered_from_one() {
    let mut few = experiment();
    few.repetitions = 2;
    let all: Vec<Attempt> = summaries(&few).into_iter().map(|summary| Attempt::Finished(summary.into())).collect();
    let page = html(&judged(&few, &all), &[], None);
    let chart = page.split("by block</title>").nth(1).and_then(|rest| rest.split("</svg>").next()).unwrap();
    let labels: Vec<&str> =
        chart.split("<text class=\"mid\"").skip(1).filter_map(|rest| rest.split(['>', '<']).nth(1)).collect();
    assert_eq!(labels, ["1", "2"], "{chart}");
}

#[test]
fn what_was_run_and_where_is_shown() {
    let mut report = full_report(true);
    let without = html(&report, &[], None);
    assert!(without.contains("<td>unknown</td>") && !without.contains("The experiment file"));
    report.records = measured::tests::sample(&report);
    report.setup = Some(setup::tests::sample());
    let page = html(&report, &[], Some(EXPERIMENT));
    elements(&page);
    for expected in [
        "1,000 keys of 20 B + 100 B values in 1 family",
        "write_buffer_size: 64 MiB → 1 MiB",
        "Micron 7450, nvme0n1",
        "with &lt;marks&gt; &amp; &quot;quotes&quot;",
        "<th scope=\"col\" class=\"n\">p99.9</th>",
        "<td class=\"n\">400 µs</td>",
        "<td class=\"n\">10.12 s</td>",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    // A line per run: block, order, config, scenario, state, window, the judged metrics, folder.
    let row = "<tr><th scope=\"row\" class=\"n\">4</th><td class=\"n\">2</td><td>candidate, try 2</td><td>fill</td>\
               <td>Valid</td><td class=\"n\">10.0 s</td><td class=\"n\">1200 steps/s</td><td class=\"n\">1 ms</td>\
               <td><code>fill-b003-candidate-r0-a1</code></td></tr>";
    assert!(page.contains(row), "{page}");
}

#[test]
#[should_panic(expected = "before")]
fn the_check_sees_what_is_not_well_formed() {
    elements("<!DOCTYPE html><p><b></p></b>");
}

#[test]
fn names_can_not_become_markup() {
    let evil = "<script>alert('x')</script>\"&";
    let mut experiment = larger();
    experiment.name = evil.to_owned();
    experiment.configs[1].name = evil.to_owned();
    experiment.configs[1].changes = vec![evil.to_owned()];
    let all: Vec<Attempt> =
        summaries(&experiment).into_iter().map(|summary| Attempt::Finished(summary.into())).collect();
    let mut report = judged(&experiment, &all);
    report.reproduce.push(evil.to_owned());
    report.configs[0].fragile = vec![evil.to_owned()];
    report.trials[0].message = Some(evil.to_owned());
    report.trials[0].state = TrialFate::Lost;
    let page = html(&report, &attachments(&report, 5), Some(evil));
    let elements = elements(&page);
    assert!(!elements.contains(&"script"));
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;"));
}

#[test]
fn equal_reports_give_equal_pages() {
    let page = |report: &Report| html(report, &attachments(report, 20), Some(EXPERIMENT));
    let report = full_report(true);
    let again = serde_json::from_str(&report.json().unwrap()).unwrap();
    assert_eq!(page(&report), page(&again));
    assert_ne!(page(&report), page(&full_report(false)));
}

#[test]
fn a_large_experiment_is_a_small_page() {
    let mut experiment = experiment();
    experiment.repetitions = 30;
    experiment.baseline_replicates = 4;
    experiment.metrics.push(rule("step_latency_mean", Direction::Lower, Purpose::Guardrail));
    for number in 2..=18 {
        let mut config = experiment.configs[1].clone();
        config.name = format!("some-longer-config-name-{number}");
        experiment.configs.push(config);
    }
    for name in ["read-while-writing", "overwrite"] {
        experiment.scenarios.push(scenario(name));
    }
    // Judging so many trials is not what this is about: only the page has to be as large as it would be.
    let plan = plan(&experiment);
    let places = Places::new(&plan, &[]).unwrap();
    let mut report = judge_with(&places, &experiment.design(), Intervals::None).unwrap();
    report.trials = summaries(&experiment)
        .into_iter()
        .map(|summary| TrialReport {
            trial: summary.trial,
            state: TrialFate::Valid,
            findings: Vec::new(),
            message: None,
            node: None,
            started_unix_ms: summary.started_unix_ms,
            window_seconds: Some(summary.window_seconds),
            record: Some(summary.record),
            metrics: summary.metrics,
        })
        .collect();
    let rulings = report.configs.iter_mut().map(|config| &mut config.ruling);
    for estimate in rulings.chain(report.cells.iter_mut().map(|cell| &mut cell.ruling)).flat_map(|r| &mut r.estimates) {
        estimate.estimate = Some(0.0056);
        estimate.interval95 = Some(Interval { low: Some(-0.0123), high: Some(0.0234) });
        estimate.status = Some(Status::NonInferior);
    }
    assert_eq!((report.configs.len(), report.cells.len(), report.trials.len()), (18, 54, 3 * 30 * 22));
    let page = html(&report, &attachments(&report, 60), None);
    assert!(elements(&page).len() > 1000);
    let limit = 2 << 20;
    assert!(page.len() < limit, "{} bytes", page.len());
    assert!(page.contains("some-longer-config-name-18"));
}

#[test]
fn looks_and_checks_are_shown_where_there_are_any() {
    use crate::report::{LookConfig, LookReport, NodeEstimate, OrderCheck, OrderEffect};
    let mut report = full_report(true);
    let without = html(&report, &[], None);
    assert!(without.contains("Judged once, after all 8 blocks") && !without.contains("each planned look"));
    report.design.looks = vec![4, 6, 8];
    report.looks = [(4, false), (6, true), (8, true)]
        .map(|(blocks, stopped)| LookReport {
            blocks,
            configs: vec![LookConfig {
                config: "candidate".to_owned(),
                verdict: if stopped { Verdict::Win } else { Verdict::Inconclusive },
                reason: "because".to_owned(),
                stopped,
            }],
        })
        .to_vec();
    report.configs[0].stopped_after = Some(6);
    report.configs[0].fragile = vec!["block 3".to_owned()];
    report.configs[0].by_node = vec![NodeEstimate {
        node: "node-a".to_owned(),
        metric: "throughput".to_owned(),
        blocks: 4,
        estimate: Some(0.1),
        estimate_percent: None,
    }];
    report.order_check = vec![OrderCheck {
        scenario: "fill".to_owned(),
        metric: "throughput".to_owned(),
        effect: OrderEffect::Position,
        p: Some(0.004),
        warning: true,
    }];
    let page = html(&report, &[], None);
    elements(&page);
    for expected in [
        "Verdicts as they stood at each planned look",
        "decided earlier",
        "Decided early, after 6 of 8 blocks.",
        "Without block 3 it would not be a Win.",
        "node-a",
        "+10.5 %",
        "0.0040",
        "seen</strong>",
    ] {
        assert!(page.contains(expected) && !without.contains(expected), "{expected}");
    }
}

#[test]
fn every_gate_is_explained() {
    let schema = serde_json::to_value(schema()).unwrap();
    let gate = schema.pointer("/$defs/Gate").expect("reports have gates");
    // Variants with a comment of their own stand apart from the others.
    let mut names: Vec<&str> = Vec::new();
    let mut parts = vec![gate];
    while let Some(part) = parts.pop() {
        parts.extend(part.get("oneOf").and_then(|any| any.as_array()).into_iter().flatten());
        names.extend(part.get("enum").and_then(|all| all.as_array()).into_iter().flatten().filter_map(|v| v.as_str()));
        names.extend(part.get("const").and_then(|only| only.as_str()));
    }
    names.sort_unstable();
    let mut explained: Vec<String> =
        crate::report::gates::QUESTIONS.iter().map(|(gate, _)| format!("{gate:?}")).collect();
    explained.sort_unstable();
    assert_eq!(names, explained);
    assert!(names.contains(&format!("{:?}", Gate::SameWork).as_str()));
}

#[test]
fn the_schema_is_as_committed() {
    let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    golden("../../../../schemas/report.json", &text);
}

#[test]
fn parts_that_may_be_missing_are() {
    let report = full_report(true);
    let mut json: serde_json::Value = serde_json::to_value(&report).unwrap();
    let all: BTreeMap<String, serde_json::Value> = serde_json::from_value(json.clone()).unwrap();
    assert!(all.contains_key("orderCheck"));
    assert!(json["configs"][0].get("byNode").is_none(), "one machine says nothing by itself");
    json["unheardOf"] = true.into();
    assert!(serde_json::from_value::<Report>(json).is_err());
}
