//! Objectives and guardrails: what is judged, and whether the design can decide it.

use assay_api::{DefaultGuardrails, Futility, JudgedMetric, Scenario, StopOn, TuningExperimentSpec};
use assay_protocol::{METRICS, MetricInfo, metric};

use super::problem::{FieldPath, Problem};
use super::queries;
use super::scenarios::{paced, scenario_path, writes};
use super::schema::join;
use super::suggest::did_you_mean;
use super::{counted, percent};
use crate::stats::{ALPHA, Direction, Scale, n_min, operations_for_quantile, plan_looks, supports_quantile};
use crate::verdict::{self, LookPlan, MetricRule, Purpose};

/// Observations that must lie beyond a quantile for it to mean anything.
const TAIL: u64 = 100;

/// Times the default from which on a margin is so wide that it may be a mistake.
const WIDE: f64 = 3.0;

/// Default guardrail of scenarios that compact: postponing compaction is no win. In a paced scenario it compares the time to drain.
const DRAINED: &str = "drained_throughput";

/// Default guardrail of objectives that are all latencies: doing less is no win. In a paced scenario a config that can't keep the pace loses it.
const RATE: &str = "throughput";

/// Margin of default guardrails.
const GUARDRAIL_MARGIN: f64 = 0.05;

/// Objectives first, then guardrails, with their margins. Metrics that can't be judged are left out: `check` names them.
pub fn rules(spec: &TuningExperimentSpec) -> Vec<MetricRule> {
    let judged = |declared: &JudgedMetric, purpose: Purpose| {
        let margin = |default| declared.margin.as_deref().map_or(default, percent::fraction);
        let rule = match metric(&declared.metric) {
            Some(info) => rule(info, purpose, margin(info.default_margin)?),
            None => queries::rule(queries::find(spec, &declared.metric)?, purpose, margin(Some(queries::MARGIN))?),
        };
        let declared_as = |text: &Option<String>| text.as_deref().and_then(percent::fraction);
        Some(MetricRule {
            at_least: declared_as(&declared.at_least),
            scenario_margin: declared_as(&declared.scenario_margin),
            ..rule
        })
    };
    let objectives = spec.objectives.iter().filter_map(|declared| judged(declared, Purpose::Objective));
    let guardrails = spec.guardrails.iter().filter_map(|declared| judged(declared, Purpose::Guardrail));
    let mut rules: Vec<MetricRule> = objectives.chain(guardrails).collect();
    for info in default_guardrails(spec) {
        if !rules.iter().any(|rule| rule.name == info.name) {
            rules.push(rule(info, Purpose::Guardrail, GUARDRAIL_MARGIN));
        }
    }
    rules
}

/// The guardrails that a spec has without naming them.
fn default_guardrails(spec: &TuningExperimentSpec) -> impl Iterator<Item = &'static MetricInfo> {
    // Data that another config has made may have to be compacted first, even if nothing is written.
    let compacts = |scenario: &Scenario| writes(scenario) || scenario.dataset.from.is_some();
    let is_latency = |declared: &JudgedMetric| metric(&declared.metric).is_some_and(MetricInfo::is_latency);
    let wanted = [
        (DRAINED, spec.scenarios.iter().any(compacts)),
        (RATE, !spec.objectives.is_empty() && spec.objectives.iter().all(is_latency)),
    ];
    let keeps = spec.default_guardrails == DefaultGuardrails::Keep;
    wanted.into_iter().filter_map(move |(name, is_wanted)| metric(name).filter(|_| keeps && is_wanted))
}

fn rule(info: &MetricInfo, purpose: Purpose, margin: f64) -> MetricRule {
    let direction = match info.direction {
        assay_protocol::Direction::HigherIsBetter => Direction::Higher,
        assay_protocol::Direction::LowerIsBetter => Direction::Lower,
    };
    let scale = match info.scale {
        assay_protocol::Scale::Log => Scale::Log,
        assay_protocol::Scale::Linear => Scale::Linear,
    };
    MetricRule { quantile: info.quantile.is_some(), ..MetricRule::new(info.name, direction, purpose, margin, scale) }
}

/// The judgements before the end, where there are any.
pub fn looks(spec: &TuningExperimentSpec) -> Option<LookPlan> {
    let stop_on = match spec.stop_on {
        StopOn::Overall => verdict::StopOn::Overall,
        StopOn::Cells => verdict::StopOn::Cells,
        StopOn::Never => return None,
    };
    let claims = spec.configs.len().saturating_sub(1) * spec.objectives.len();
    let blocks = plan_looks(spec.repetitions as usize, claims);
    (blocks.len() > 1).then(|| LookPlan { blocks, stop_on, futility: spec.futility == Futility::Stop })
}

/// Everything that can be said about objectives, guardrails and the number of repetitions, with workloads that could be read or not.
pub fn check(spec: &TuningExperimentSpec, workloads_known: bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    let objectives = spec.objectives.iter().map(|declared| ("objectives", declared)).enumerate();
    let guardrails = spec.guardrails.iter().map(|declared| ("guardrails", declared)).enumerate();
    for (index, (list, declared)) in objectives.chain(guardrails) {
        let path = FieldPath::root().key("spec").key(list).index(index);
        judged(declared, list == "objectives", spec, &path, &mut problems);
        if let Some(info) = metric(&declared.metric).filter(|info| workloads_known && info.default_margin.is_some()) {
            measurable(info, list == "objectives", spec, &path.key("metric"), &mut problems);
        }
    }
    enough_blocks(spec, &mut problems);
    if looks(spec).is_none() {
        for (field, is_set) in
            [("stopOn", spec.stop_on == StopOn::Cells), ("futility", spec.futility == Futility::Stop)]
        {
            if is_set {
                let message = "has no effect: an experiment this short is judged only once, at the end";
                problems.push(Problem::note(FieldPath::root().key("spec").key(field), message).at_key());
            }
        }
    }
    problems
}

fn judged(
    declared: &JudgedMetric,
    is_objective: bool,
    spec: &TuningExperimentSpec,
    path: &FieldPath,
    problems: &mut Vec<Problem>,
) {
    let at = path.key("metric");
    let name = declared.metric.as_str();
    let own = || spec.metrics.iter().map(|queried| queried.name.as_str());
    let judgeable = || METRICS.iter().filter(|info| info.default_margin.is_some()).map(|info| info.name).chain(own());
    let info = metric(name);
    if info.is_none() && queries::find(spec, name).is_none() {
        let mut hint = did_you_mean(name, METRICS.iter().map(|info| info.name).chain(own()));
        if hint.is_empty() {
            let is_measured = |known: &&str| metric(known).is_none() || is_measured(known, spec);
            let alike: Vec<&str> = judgeable().filter(is_measured).filter(|known| has_words(known, name)).collect();
            hint = match alike.as_slice() {
                [] => format!("; use one of {}", join(judgeable())),
                [one] => format!("; did you mean {one}?"),
                several => format!("; use one of {}", join(several.iter().copied())),
            };
        }
        problems.push(Problem::error(at, format!("unknown metric {name:?}{hint}")));
        return;
    }
    if info.is_some_and(|info| info.default_margin.is_none()) {
        let message = format!("{name} is informational and can't be judged; these can: {}", join(judgeable()));
        problems.push(Problem::error(at, message));
        return;
    }
    if !is_objective && spec.objectives.iter().any(|objective| objective.metric == name) {
        let message = format!("{name} is already an objective, and objectives are guarded too; remove it here");
        problems.push(Problem::error(at.clone(), message));
    }
    let fields =
        [("margin", &declared.margin), ("atLeast", &declared.at_least), ("scenarioMargin", &declared.scenario_margin)];
    for (field, text) in fields.into_iter().filter_map(|(field, text)| Some((field, text.as_ref()?))) {
        if !percent::fraction(text).is_some_and(|margin| margin > 0.0 && margin < 1.0) {
            let message = format!("must be above 0 % and below 100 %, such as 2%, not {text:?}");
            problems.push(Problem::error(path.key(field), message));
        }
    }
    if declared.at_least.is_some() && !is_objective {
        let message = "a guardrail has nothing to gain: make it an objective, or remove atLeast";
        problems.push(Problem::error(path.key("atLeast"), message));
    }
    if let Some(usual) = info.map_or(Some(queries::MARGIN), |info| info.default_margin)
        && let Some(margin) = declared.margin.as_deref().and_then(percent::fraction)
        && margin > WIDE * usual
        && margin < 1.0
    {
        let message = format!(
            "is more than {WIDE} times the usual {}: a {name} almost that much worse still counts as unchanged",
            percent::display(usual)
        );
        problems.push(Problem::warning(path.key("margin"), message));
    }
}

fn is_measured(name: &str, spec: &TuningExperimentSpec) -> bool {
    spec.scenarios.iter().all(|scenario| scenario.workload.measured_role(name).is_some())
}

/// Whether a name has these words in it, one after the other: `step_latency_p99` has `p99`, and `step_latency_p999` has not.
fn has_words(name: &str, words: &str) -> bool {
    let words = words.to_lowercase().replace(['-', ' ', '.'], "_");
    !words.is_empty() && format!("_{name}_").contains(&format!("_{words}_"))
}

/// Whether the bench can measure it well enough in every scenario.
fn measurable(
    info: &MetricInfo,
    is_objective: bool,
    spec: &TuningExperimentSpec,
    at: &FieldPath,
    problems: &mut Vec<Problem>,
) {
    let name = info.name;
    if is_objective
        && name.ends_with("throughput")
        && let Some((_, scenario)) = paced(spec).first_key_value()
    {
        let message = format!(
            "{name} can't improve in scenario {scenario:?}: stepsPerSecond sets its pace; judge a latency, or remove the pace"
        );
        problems.push(Problem::error(at.clone(), message));
    }
    unmeasured(name, spec, at, problems);
    unwritten(name, spec, at, problems);
    if let Some(quantile) = info.quantile {
        tail(name, quantile, spec, at, problems);
    }
}

/// Not every workload has every metric.
fn unmeasured(name: &str, spec: &TuningExperimentSpec, at: &FieldPath, problems: &mut Vec<Problem>) {
    let without =
        |metric: &str| spec.scenarios.iter().find(|scenario| scenario.workload.measured_role(metric).is_none());
    let Some(scenario) = without(name) else { return };
    let everywhere = METRICS.iter().filter(|info| info.default_margin.is_some() && without(info.name).is_none());
    let message = format!(
        "the {} workload of scenario {:?} has no {name}; all scenarios have {}",
        scenario.workload.kind().name(),
        scenario.name,
        join(everywhere.map(|info| info.name))
    );
    problems.push(Problem::error(at.clone(), message));
}

/// Of nothing that is written nothing is amplified, however many blocks there are.
fn unwritten(name: &str, spec: &TuningExperimentSpec, at: &FieldPath, problems: &mut Vec<Problem>) {
    if let Some(scenario) = spec.scenarios.iter().find(|scenario| !writes(scenario))
        && name == "write_amplification"
    {
        let message = format!("scenario {:?} writes nothing, so it has no {name}; remove one of them", scenario.name);
        problems.push(Problem::error(at.clone(), message));
    }
}

/// A quantile needs observations beyond it, by the role that it is measured on.
fn tail(name: &str, quantile: f64, spec: &TuningExperimentSpec, at: &FieldPath, problems: &mut Vec<Problem>) {
    for (index, scenario) in spec.scenarios.iter().enumerate() {
        let Some(role) = scenario.workload.measured_role(name) else { continue };
        if supports_quantile(role.steps, quantile, TAIL) {
            continue;
        }
        let needed = operations_for_quantile(quantile, TAIL)
            .map_or_else(String::new, |needed| format!(" at least {needed} steps ({TAIL} of them beyond it),"));
        let kind = scenario.workload.kind();
        let message = format!(
            "{name} needs{needed} but role {:?} of scenario {:?} has {}: raise {}.workload.{}.{}, or judge a lower quantile",
            role.name,
            scenario.name,
            role.steps,
            scenario_path(index),
            kind.name(),
            kind.steps_field(&role.name)
        );
        problems.push(Problem::error(at.clone(), message));
    }
}

/// Too few blocks can't prove anything, whatever they measure.
fn enough_blocks(spec: &TuningExperimentSpec, problems: &mut Vec<Problem>) {
    let at = FieldPath::root().keys("spec.repetitions");
    let configs = spec.configs.len().saturating_sub(1);
    let objectives = spec.objectives.len();
    let scenarios = spec.scenarios.len();
    let blocks = spec.repetitions as usize;
    let (overall, cells) = (n_min(configs * objectives, ALPHA), n_min(configs * objectives * scenarios, ALPHA));
    let against = counted(configs, "config against the baseline", "configs against the baseline");
    let claims = format!("{against} x {}", counted(objectives, "objective", "objectives"));
    // Every metric that is judged can get worse, and each is asked separately; and so is whether more runs fail.
    let harms = n_min(configs * (rules(spec).len() + 1), ALPHA);
    if blocks >= overall && blocks < harms {
        let message = format!(
            "{} can't show harm of {}; {harms} can: a loss of any size in every block would stay unproven",
            counted(blocks, "repetition", "repetitions"),
            if configs == 1 { "the config".to_owned() } else { format!("one of {configs} configs") },
        );
        problems.push(Problem::warning(at.clone(), message));
    }
    if blocks < overall {
        let message = format!(
            "{} can't prove anything about {claims}: no result is significant at 5 % with fewer than {overall}; set {overall} or more",
            counted(blocks, "block", "blocks")
        );
        problems.push(Problem::error(at, message));
    } else if blocks < cells {
        let message = format!(
            "{} can decide the overall verdict, but not the verdicts per scenario: {claims} x {} need {cells}",
            counted(blocks, "block", "blocks"),
            counted(scenarios, "scenario", "scenarios")
        );
        problems.push(Problem::warning(at, message));
    }
}
