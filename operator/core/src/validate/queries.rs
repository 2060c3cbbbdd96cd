//! Metrics that a Prometheus server is asked for.

use assay_api::{Better, QueriedMetric, TuningExperimentSpec};
use assay_protocol::metric;

use super::problem::{FieldPath, Problem};
use crate::experiment::Query;
use crate::stats::{Direction, Scale};
use crate::verdict::{MetricRule, Purpose};

/// The margin where the user names none.
pub const MARGIN: f64 = 0.05;

/// What stands in a query for the length of the measured window.
const WINDOW: &str = "$window";

pub fn find<'a>(spec: &'a TuningExperimentSpec, name: &str) -> Option<&'a QueriedMetric> {
    spec.metrics.iter().find(|queried| queried.name == name)
}

/// Nothing is known of the metric but its direction, so its values are compared by their ratio, as almost all are.
pub fn rule(queried: &QueriedMetric, purpose: Purpose, margin: f64) -> MetricRule {
    let direction = direction(queried.better);
    // Of a quantile there is no sum over runs.
    let quantile = queried.query.contains("quantile");
    MetricRule { quantile, ..MetricRule::new(&queried.name, direction, purpose, margin, Scale::Log) }
}

fn direction(better: Better) -> Direction {
    match better {
        Better::Higher => Direction::Higher,
        Better::Lower => Direction::Lower,
    }
}

/// The queries of a spec that has passed every check.
pub fn queries(spec: &TuningExperimentSpec) -> Vec<Query> {
    let query = |queried: &QueriedMetric| Query {
        name: queried.name.clone(),
        query: queried.query.clone(),
        better: direction(queried.better),
    };
    spec.metrics.iter().map(query).collect()
}

pub fn check(spec: &TuningExperimentSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, queried) in spec.metrics.iter().enumerate() {
        let path = FieldPath::root().keys("spec.metrics").index(index);
        if metric(&queried.name).is_some() {
            let message = format!("{} is a bench metric; choose another name", queried.name);
            problems.push(Problem::error(path.key("name"), message));
        } else if !spec.objectives.iter().chain(&spec.guardrails).any(|judged| judged.metric == queried.name) {
            let message =
                format!("{} is neither an objective nor a guardrail; make it one, or remove it", queried.name);
            problems.push(Problem::error(path.clone(), message));
        }
        problems.extend(window(&queried.query).err().map(|message| Problem::error(path.key("query"), message)));
    }
    problems
}

/// A query has to be about the measured window and about nothing else.
fn window(query: &str) -> Result<(), String> {
    let ranges = ranges(query);
    if let Some(other) = ranges.iter().find(|range| range.trim() != WINDOW) {
        return Err(format!("[{other}] is not the measured window; write [{WINDOW}]"));
    }
    if ranges.is_empty() {
        return Err(format!("has no range over the measured window; write [{WINDOW}]"));
    }
    Ok(())
}

/// What stands in brackets, outside of strings and comments.
fn ranges(query: &str) -> Vec<String> {
    let mut ranges = Vec::new();
    let mut rest = query.chars();
    while let Some(c) = rest.next() {
        match c {
            '[' => ranges.push(rest.by_ref().take_while(|&c| c != ']').collect()),
            '#' => rest.by_ref().take_while(|&c| c != '\n').for_each(drop),
            '"' | '\'' | '`' => {
                while let Some(inner) = rest.next().filter(|&inner| inner != c) {
                    // Between backticks a backslash is a character like others.
                    if inner == '\\' && c != '`' {
                        rest.next();
                    }
                }
            }
            _ => {}
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_about_the_window() {
        let ok = [
            "sum(increase(node_disk_read_bytes_total{instance=\"$node\"}[$window]))",
            "rate(a[ $window ]) / rate(b[$window])",
            r#"rate(a{path=~"/[a-z]\"[5m]", other='[1h]', third=`\`}[$window])"#,
            "rate(a[$window]) # not [5m]\n * 2",
        ];
        for query in ok {
            assert_eq!(window(query), Ok(()), "{query}");
        }
        let other = |range: &str| Err(format!("[{range}] is not the measured window; write [$window]"));
        for (query, range) in [
            ("rate(a[5m])", "5m"),
            ("rate(a[$window]) + rate(b[5m])", "5m"),
            ("max_over_time(rate(a[$window])[1h:1m])", "1h:1m"),
            ("max_over_time(a[$window:5s])", "$window:5s"),
            ("rate(a[$windows])", "$windows"),
            ("rate(a[]", ""),
        ] {
            assert_eq!(window(query), other(range), "{query}");
        }
        let none = Err("has no range over the measured window; write [$window]".to_owned());
        assert_eq!(window("up{job=\"[$window]\"}"), none);
        assert_eq!(window("up # [$window]"), none);
    }
}
