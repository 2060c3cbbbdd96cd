//! Published results without blocks, judged as `assay judge` judges them.

use assay_core::{
    import::{Collector, ImportReport, Place, Policy, judge},
    stats::{Direction, Scale, welch},
};
use serde_json::{Value, json};

use super::{Check, camel, known, numbers, object, text};

/// Two arms of one scenario, built alike or not.
fn judged(baseline: &[f64], config: &[f64], builds: [&str; 2]) -> ImportReport {
    let policy = json!({
        "baseline": "base",
        "objectives": [{"metric": "throughput", "direction": "higher", "margin": "5%"}],
        "configs": [
            {"name": "base", "attributes": {"build": builds[0]}},
            {"name": "claimed", "attributes": {"build": builds[1]}},
        ],
    });
    let policy = Policy::read(&policy).unwrap();
    let mut collector = Collector::new(&policy);
    let file = collector.file("case");
    for (name, values) in [("base", baseline), ("claimed", config)] {
        for (run, value) in values.iter().enumerate() {
            let (run, value) = (run.to_string(), value.to_string());
            let fields = [("scenario", "blocks"), ("metric", "throughput"), ("config", name)];
            let fields = fields.into_iter().chain([("replicate", run.as_str()), ("value", value.as_str())]);
            collector.row(Place { file, line: 1 }, fields);
        }
    }
    judge(&collector.finish().unwrap(), &policy).unwrap()
}

pub fn legacy(check: &mut Check, case: &Value) {
    let name = text(&case["name"]);
    known(name, case, &["name", "config", "baseline", "expect"]);
    let (config, baseline) = (numbers(&case["config"]), numbers(&case["baseline"]));
    let expected = &case["expect"];
    let mut report = judged(&baseline, &config, ["same", "same"]);
    if expected["verdict"] == "INVALID" {
        // The file does not hold what the gate saw, only its word. Without it the runs would be as inconclusive as any.
        let free = report.comparisons[0].configs[0].ruling.verdict;
        check.equal(&format!("{name} without gate"), &"Inconclusive".to_owned(), &format!("{free:?}"));
        report = judged(&baseline, &config, ["none", "edge"]);
    }
    let comparison = &report.comparisons[0];
    let (ruling, seen) = (&comparison.configs[0].ruling, &comparison.cells[0].numbers[0]);
    let percent = |shift: Option<f64>| shift.map(|shift| 100.0 * shift.exp_m1());
    let effects = |values: &[f64]| -> Vec<f64> {
        values.iter().map(|&value| Scale::Log.transform(Direction::Higher, value).unwrap()).collect()
    };
    for (key, expected) in object(expected) {
        let at = format!("{name} {key}");
        match key.as_str() {
            "mean_delta_pct" => check.estimate(&at, expected, seen.means_percent),
            "hl_shift_pct" => check.estimate(&at, expected, percent(seen.shift)),
            "mann_whitney_two_sided" => {
                check.p(&at, expected, seen.p);
                // One claim needs no correction.
                check.p(&format!("{at} adjusted"), expected, seen.p_adjusted);
            }
            "min_attainable_two_sided" => check.p(&at, expected, seen.smallest_p),
            "welch_log_two_sided" => check.close(&at, expected, welch(&effects(&baseline), &effects(&config)), check.p),
            "verdict" => check.equal(&at, &camel(text(expected)), &format!("{:?}", ruling.verdict)),
            "reason" => check.equal(&at, &text(expected).to_owned(), &ruling.reason),
            unknown => panic!("{at}: unknown expectation {unknown:?}"),
        }
    }
    check.ran("legacy");
}
