//! Cases that end in a verdict.

use assay_core::{
    stats::Adjust,
    verdict::{
        Conclusion, Design, Effect, Intervals, Judgement, LookPlan, MetricRule, MetricSamples, Observed, Purpose,
        Scenario, StopOn, judge,
    },
};
use serde_json::Value;

use super::{Check, camel, count, counts, known, list, number, numbers, object, text, words};

fn rules(metrics: &Value) -> Vec<MetricRule> {
    list(metrics)
        .iter()
        .map(|metric| {
            let margin = number(&metric["margin"]);
            let (direction, scale) = (words(&metric["direction"]), words(&metric["scale"]));
            MetricRule::new(text(&metric["name"]), direction, purpose(&metric["role"]), margin, scale)
        })
        .collect()
}

/// The file has a word of its own for objectives.
fn purpose(word: &Value) -> Purpose {
    if word == "primary" { Purpose::Objective } else { words(word) }
}

fn samples(baseline: &Value, configs: &[&Value]) -> MetricSamples {
    let row = |value: &Value| list(value).iter().map(Value::as_f64).collect::<Vec<_>>();
    MetricSamples {
        baseline: list(baseline).iter().map(row).collect(),
        configs: configs.iter().map(|values| row(values)).collect(),
    }
}

fn cell_design(case: &Value) -> (Design, Observed) {
    let metrics = rules(&case["metrics"]);
    let data: Vec<MetricSamples> = metrics
        .iter()
        .map(|rule| samples(&case["data"][&rule.name]["base"], &[&case["data"][&rule.name]["cand"]]))
        .collect();
    let design = Design {
        metrics,
        scenarios: vec![Scenario { name: "s".into(), weight: 1.0 }],
        configs: vec!["cand".into()],
        m0: data[0].baseline[0].len(),
        max_blocks: data[0].baseline.len(),
        looks: None,
        cells_adjust: Adjust::Holm,
    };
    (design, Observed { samples: vec![data], ended: true, ..Observed::default() })
}

pub fn cell(check: &mut Check, case: &Value, all: &[Value]) {
    let name = text(&case["name"]);
    known(name, case, &["name", "note", "metrics", "data", "invalid_blocks", "expect"]);
    let (design, mut observed) = cell_design(case);
    if let Some(invalid) = case.get("invalid_blocks") {
        implausible_cell(check, case, &design, &observed, all);
        for row in &mut observed.samples[0] {
            for block in counts(invalid) {
                row.configs[0][block] = None;
            }
        }
        let judged = judge(&design, &observed, Intervals::BothLevels).unwrap();
        effect(check, name, &case["expect"]["after_drop"], &judged.cells[0].conclusion.metrics[0]);
    } else {
        let judged = judge(&design, &observed, Intervals::BothLevels).unwrap();
        conclusion(check, name, &case["expect"], &judged.cells[0].conclusion);
    }
    check.ran("cells");
}

/// How far one run that did no work moves a mean, and how little the estimate.
fn implausible_cell(check: &mut Check, case: &Value, design: &Design, observed: &Observed, all: &[Value]) {
    let estimate = |design: &Design, observed: &Observed| {
        judge(design, observed, Intervals::None).unwrap().cells[0].conclusion.metrics[0].estimate
    };
    let invalid = counts(&case["invalid_blocks"]);
    let metric = &design.metrics[0].name;
    for (key, expected) in object(&case["expect"]) {
        let at = format!("{} {key}", case["name"]);
        match key.as_str() {
            "estimate_with_bad_run" => check.estimate(&at, expected, estimate(design, observed)),
            "mean_ratio_with_bad_run" => {
                // The ratio of the means, which is what a spreadsheet shows.
                let data = &case["data"][metric];
                let baseline: Vec<f64> = list(&data["base"]).iter().flat_map(numbers).collect();
                let configs = numbers(&data["cand"]);
                let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
                check.estimate(&at, expected, Some(mean(&configs) / mean(&baseline)));
            }
            "estimate_clean" => {
                // The same runs without the bad one are another case.
                let good = |block: &usize| !invalid.contains(block);
                let twin = all.iter().find(|other| {
                    let (own, other) = (&case["data"][metric], &other["data"][metric]);
                    other["base"] == own["base"]
                        && own != other
                        && (0..list(&own["cand"]).len()).filter(good).all(|b| own["cand"][b] == other["cand"][b])
                });
                if let Some(twin) = twin {
                    let (clean, observed) = cell_design(twin);
                    check.estimate(&at, expected, estimate(&clean, &observed));
                } else {
                    println!("{at}: no other case has the clean runs, so it can't be computed");
                }
            }
            "after_drop" => {}
            unknown => panic!("{at}: unknown expectation {unknown:?}"),
        }
    }
}

fn conclusion(check: &mut Check, at: &str, expected: &Value, seen: &Conclusion) {
    for (key, expected) in object(expected) {
        match key.as_str() {
            "verdict" => {
                check.equal(&format!("{at} verdict"), &camel(text(expected)), &format!("{:?}", seen.outcome.verdict));
            }
            "reason" => {
                check.equal(&format!("{at} reason"), &text(expected).to_owned(), &seen.outcome.reason.to_string());
            }
            "status" | "metrics" => {
                check.equal(&format!("{at} {key} count"), &object(expected).len(), &seen.metrics.len());
                for (metric, expected) in object(expected) {
                    let at = format!("{at} {metric}");
                    let seen = seen.metrics.iter().find(|m| m.metric == *metric).unwrap();
                    if key == "status" {
                        check.equal(&at, &camel(text(expected)), &format!("{:?}", seen.status));
                    } else {
                        effect(check, &at, expected, seen);
                    }
                }
            }
            unknown => panic!("{at}: unknown expectation {unknown:?}"),
        }
    }
}

fn effect(check: &mut Check, at: &str, expected: &Value, seen: &Effect) {
    for (key, expected) in object(expected) {
        let at = format!("{at} {key}");
        let p = match key.as_str() {
            "p_better" => Some(seen.p.better),
            "p_worse" => Some(seen.p.worse),
            "p_noninferior" => Some(seen.p.non_inferior),
            "p_nogain" => Some(seen.p.no_gain),
            "p_equivalent" => Some(seen.p.equivalent),
            "p_better_seq" => Some(seen.p.better_seq),
            "p_worse_seq" => Some(seen.p.worse_seq),
            "p_noninferior_seq" => Some(seen.p.non_inferior_seq),
            "p_equivalent_seq" => Some(seen.p.equivalent_seq),
            "p_better_adj" => seen.p.better_adjusted,
            "p_worse_adj" => seen.p.worse_adjusted,
            _ => None,
        };
        match key.as_str() {
            _ if key.starts_with("p_") => check.close(&at, expected, p, check.p),
            "n" => check.equal(&at, &count(expected), &seen.n),
            "m0" => check.equal(&at, &count(expected), &seen.m0),
            "estimate" => check.estimate(&at, expected, seen.estimate),
            "estimate_pct" => check.estimate(&at, expected, seen.estimate_percent),
            "sd_block" => check.estimate(&at, expected, seen.sd_block),
            "ci90" => check.interval(&at, expected, seen.ci90.unwrap()),
            "ci95" => check.interval(&at, expected, seen.ci95.unwrap()),
            unknown => panic!("{at}: unknown expectation {unknown:?}"),
        }
    }
}

pub fn experiment(check: &mut Check, case: &Value, all: &[Value]) {
    let name = text(&case["name"]);
    let source = match case.get("experiment_ref") {
        Some(other) => &all.iter().find(|c| c["name"] == *other).unwrap()["experiment"],
        None => &case["experiment"],
    };
    known(name, case, &["name", "experiment", "experiment_ref", "looks", "stop_on", "cells_adjust", "expect"]);
    known(name, source, &["metrics", "scenarios", "configs", "data"]);
    let metrics = rules(&source["metrics"]);
    let names = |key: &str| list(&source[key]).iter().map(|x| text(x).to_owned()).collect::<Vec<_>>();
    let (scenarios, configs) = (names("scenarios"), names("configs"));
    let rows: Vec<Vec<MetricSamples>> = scenarios
        .iter()
        .map(|scenario| {
            let row = |rule: &MetricRule| {
                let data = &source["data"][scenario][&rule.name];
                samples(&data["base"], &configs.iter().map(|config| &data[config]).collect::<Vec<_>>())
            };
            metrics.iter().map(row).collect()
        })
        .collect();
    let looks = case["looks"].as_array().map(|_| LookPlan {
        blocks: counts(&case["looks"]),
        stop_on: words::<StopOn>(&case["stop_on"]),
        futility: true,
    });
    let group = if looks.is_some() { "experiments, sequential" } else { "experiments, fixed" };
    let blocks = rows[0][0].baseline.len();
    let design = Design {
        metrics,
        scenarios: scenarios.iter().map(|name| Scenario { name: name.clone(), weight: 1.0 }).collect(),
        configs,
        m0: rows[0][0].baseline[0].len(),
        max_blocks: looks.as_ref().map_or(blocks, |looks| *looks.blocks.last().unwrap()),
        looks,
        cells_adjust: words(&case["cells_adjust"]),
    };
    let observed = Observed { samples: rows, ended: true, ..Observed::default() };
    let judged = judge(&design, &observed, Intervals::BothLevels).unwrap();

    for (key, expected) in object(&case["expect"]) {
        match key.as_str() {
            "stopped_at" => {
                for (config, blocks) in object(expected) {
                    let seen = judged.overall.iter().find(|c| c.config == *config).unwrap();
                    check.equal(&format!("{name} {config} stopped at"), &Some(count(blocks)), &seen.stopped_at);
                }
            }
            "trace" => trace(check, name, expected, &judged, &design.configs),
            "overall" => {
                check.equal(&format!("{name} overall"), &object(expected).len(), &judged.overall.len());
                for (config, expected) in object(expected) {
                    let seen = judged.overall.iter().find(|c| c.config == *config).unwrap();
                    conclusion(check, &format!("{name} {config}"), expected, &seen.conclusion);
                }
            }
            "cells" => {
                check.equal(&format!("{name} cells"), &object(expected).len(), &judged.cells.len());
                for (cell, expected) in object(expected) {
                    let seen = judged.cells.iter().find(|c| format!("{}/{}", c.scenario, c.config) == *cell).unwrap();
                    conclusion(check, &format!("{name} {cell}"), expected, &seen.conclusion);
                }
            }
            unknown => panic!("{name}: unknown expectation {unknown:?}"),
        }
    }
    check.ran(group);
}

fn trace(check: &mut Check, name: &str, expected: &Value, judged: &Judgement, configs: &[String]) {
    check.equal(&format!("{name} looks"), &list(expected).len(), &judged.looks.len());
    for (expected, seen) in list(expected).iter().zip(&judged.looks) {
        let at = format!("{name} look {}", seen.blocks);
        check.equal(&at, &count(&expected["n"]), &seen.blocks);
        for (config, expected) in object(&expected["overall"]) {
            let i = configs.iter().position(|c| c == config).unwrap();
            let outcome = &seen.overall[i];
            check.equal(
                &format!("{at} {config}"),
                &camel(text(&expected["verdict"])),
                &format!("{:?}", outcome.verdict),
            );
            check.equal(&format!("{at} {config}"), &text(&expected["reason"]).to_owned(), &outcome.reason.to_string());
        }
        let mut stopped = seen.stopped.clone();
        stopped.sort();
        check.equal(&format!("{at} stopped"), &expected["stopped"], &stopped.into());
    }
}
