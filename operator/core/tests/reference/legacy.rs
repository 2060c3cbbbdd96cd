//! Published results without blocks.

use assay_core::{
    stats::{Direction, Scale},
    verdict::{Invalid, MetricRule, Role, Scope, Unblocked, UnblockedSamples, judge_unblocked},
};
use serde_json::Value;

use super::{Check, camel, known, numbers, object, text};

pub fn legacy(check: &mut Check, case: &Value) {
    let name = text(&case["name"]);
    known(name, case, &["name", "config", "baseline", "expect"]);
    let (config, baseline) = (numbers(&case["config"]), numbers(&case["baseline"]));
    let mut results = Unblocked {
        metrics: vec![MetricRule {
            name: "throughput".into(),
            direction: Direction::Higher,
            role: Role::Primary,
            margin: 0.05,
            scale: Scale::Log,
        }],
        configs: vec!["claimed".into()],
        samples: vec![UnblockedSamples { baseline, configs: vec![config] }],
        invalid: Vec::new(),
    };
    let expected = &case["expect"];
    if expected["verdict"] == "INVALID" {
        // The file does not hold what the gate saw, only its word. Without it the runs would be as inconclusive as any.
        let free = &judge_unblocked(&results).unwrap().findings[0].outcome;
        check.equal(&format!("{name} without gate"), &"Inconclusive".to_owned(), &format!("{:?}", free.verdict));
        results.invalid.push(Invalid { scope: Scope::Config(0), code: text(&expected["reason"]).to_owned() });
    }
    let judged = judge_unblocked(&results).unwrap();
    let (finding, seen) = (&judged.findings[0], &judged.findings[0].metrics[0]);
    for (key, expected) in object(expected) {
        let at = format!("{name} {key}");
        match key.as_str() {
            "mean_delta_pct" => check.estimate(&at, expected, seen.mean_delta_percent),
            "hl_shift_pct" => check.estimate(&at, expected, seen.shift_percent),
            "mann_whitney_two_sided" => {
                check.p(&at, expected, seen.p_two_sided);
                // One claim needs no correction.
                check.p(&format!("{at} adjusted"), expected, seen.p_adjusted);
            }
            "min_attainable_two_sided" => check.p(&at, expected, seen.p_smallest),
            "welch_log_two_sided" => check.close(&at, expected, seen.p_welch, check.p),
            "verdict" => check.equal(&at, &camel(text(expected)), &format!("{:?}", finding.outcome.verdict)),
            "reason" => check.equal(&at, &text(expected).to_owned(), &finding.outcome.reason.to_string()),
            unknown => panic!("{at}: unknown expectation {unknown:?}"),
        }
    }
    check.ran("legacy");
}
