//! Metrics that a Prometheus server is asked for.

use assay_api::{Better, QueriedMetric, TuningExperimentSpec};
use assay_protocol::metric;

use super::problem::{FieldPath, Problem};
use crate::experiment::Query;
use crate::promql;
use crate::stats::{Direction, Scale};
use crate::verdict::{MetricRule, Purpose};

/// The margin where the user names none.
pub const MARGIN: f64 = 0.05;

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
        problems.extend(promql::Query::parse(&queried.query).err().map(|why| Problem::error(path.key("query"), why)));
    }
    problems
}
