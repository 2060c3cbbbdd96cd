//! A visit as an experiment that a cluster takes.

use assay_api::{Config, DefaultGuardrails, Futility, JudgedMetric, StopOn, TuningExperimentSpec};
use assay_protocol::EngineConfig;

use super::visit::Unvisited;
use crate::stats::{ALPHA, n_min};
use crate::validate::over;

/// The heaviest that a scenario may be.
const HEAVIEST: usize = 1000;

/// All that a config sets, the baseline's options included, so that it can be a baseline itself.
pub fn whole(baseline: &Config, config: &Config) -> Config {
    let mut whole = Config {
        name: config.name.clone(),
        image: config.image.clone(),
        revision: config.revision.clone(),
        block_cache: config.block_cache.clone().or_else(|| baseline.block_cache.clone()),
        write_options: config.write_options.or(baseline.write_options),
        ..baseline.clone()
    };
    whole.db_options.extend(config.db_options.clone());
    whole.column_families.extend(config.column_families.iter().cloned());
    whole.policy.extend(config.policy.clone());
    whole
}

/// The experiment of a visit: the same question as that of [`super::plan`], in as many blocks as an experiment needs at least. Both sides are
/// [`whole`].
pub fn experiment(
    template: &TuningExperimentSpec,
    (scenario, metric): (&str, &str),
    [reference, candidate]: [&Config; 2],
    blocks: usize,
    number: usize,
) -> Result<TuningExperimentSpec, Unvisited> {
    let named = template.scenarios.iter().find(|own| own.name == scenario);
    let mut scenario = named.ok_or_else(|| Unvisited::NoScenario(scenario.to_owned()))?.clone();
    // Its only use where there is no other: visits of the same sides have orders and operations of their own, on the same data.
    scenario.weight = (number % HEAVIEST) as u32 + 1;
    let changed = changes(reference, candidate);
    let families = scenario.workload.kind().families();
    let none = EngineConfig::default();
    let (runs, wanted) = (over(&over(&none, reference), &changed), over(&none, candidate));
    let is_same = (&runs.db_options, runs.block_cache, runs.write_options, &runs.policy)
        == (&wanted.db_options, wanted.block_cache, wanted.write_options, &wanted.policy)
        && families.into_iter().all(|family| runs.family_options(family) == wanted.family_options(family));
    if !is_same {
        return Err(Unvisited::Inherits { reference: reference.name.clone(), candidate: candidate.name.clone() });
    }
    let judged = template.objectives.iter().chain(&template.guardrails).find(|own| own.metric == metric);
    let objective = JudgedMetric {
        metric: metric.to_owned(),
        margin: judged.and_then(|own| own.margin.clone()),
        at_least: None,
        scenario_margin: None,
    };
    Ok(TuningExperimentSpec {
        baseline: reference.name.clone(),
        configs: vec![reference.clone(), changed],
        matrix: None,
        scenarios: vec![scenario],
        repetitions: blocks.max(n_min(1, ALPHA)) as u32,
        stop_on: StopOn::Never,
        futility: Futility::default(),
        objectives: vec![objective],
        guardrails: Vec::new(),
        default_guardrails: DefaultGuardrails::Remove,
        metrics: Vec::new(),
        suspend: None,
        ..template.clone()
    })
}

/// A config as it is written over another one.
fn changes(reference: &Config, config: &Config) -> Config {
    let mut changes = config.clone();
    changes.db_options.retain(|name, value| reference.db_options.get(name) != Some(value));
    changes.policy.retain(|name, value| reference.policy.get(name) != Some(value));
    if changes.column_families == reference.column_families {
        changes.column_families.clear();
    }
    if changes.block_cache == reference.block_cache {
        changes.block_cache = None;
    }
    if changes.write_options == reference.write_options {
        changes.write_options = None;
    }
    changes
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::validate::validate;

    fn template(configs: &Value) -> TuningExperimentSpec {
        let workload = json!({"keyValue": {"keys": 10, "valueBytes": {"fixed": 10},
            "roles": [{"name": "writer", "steps": 100, "mix": {"put": 1}}]}});
        serde_json::from_value(json!({
            "seed": 7, "baseline": "base", "configs": configs, "repetitions": 30,
            "scenarios": [{"name": "fill", "workload": workload}, {"name": "refill", "workload": workload}],
            "objectives": [{"metric": "throughput", "margin": "5%", "atLeast": "1%"}],
            "placement": {"cpus": 1},
        }))
        .unwrap()
    }

    fn of(spec: &TuningExperimentSpec, sides: [&str; 2]) -> Result<TuningExperimentSpec, Unvisited> {
        let config = |name: &str| spec.configs.iter().find(|config| config.name == name).unwrap();
        let [reference, candidate] = sides.map(|name| match name {
            "base" => config("base").clone(),
            _ => whole(config("base"), config(name)),
        });
        experiment(spec, ("refill", "throughput"), [&reference, &candidate], 2, 3)
    }

    #[test]
    fn a_visit_is_an_experiment_that_is_accepted_and_runs_the_same_options() {
        let spec = template(&json!([
            {"name": "base", "dbOptions": {"max_background_jobs": "2"}, "writeOptions": {"sync": true},
             "columnFamilies": [{"match": ["*"], "options": {"write_buffer_size": "1M"}}]},
            {"name": "one", "dbOptions": {"max_background_jobs": "4"}},
            {"name": "two", "dbOptions": {"max_background_jobs": "4", "max_subcompactions": 2},
             "columnFamilies": [{"match": ["default"], "options": {"write_buffer_size": "2M"}}]},
        ]));
        let asked = validate("e", &spec).experiment.unwrap();
        for sides in [["base", "one"], ["one", "two"], ["base", "two"]] {
            let visit = of(&spec, sides).unwrap();
            let planned = validate("e-bisect-003", &visit);
            let planned = planned.experiment.unwrap_or_else(|| panic!("{:?}", planned.problems));
            assert_eq!((planned.baseline, planned.repetitions, planned.looks), (0, 5, None));
            assert_eq!(planned.metrics.len(), 1, "no guardrail");
            for (side, name) in planned.configs.iter().zip(sides) {
                let wanted = &asked.config(name).unwrap().engine;
                assert_eq!(side.engine.db_options, wanted.db_options, "{sides:?}");
                assert_eq!(side.engine.write_options, wanted.write_options);
                assert_eq!(side.engine.family_options("default"), wanted.family_options("default"));
            }
        }
        let image = |name: &str| Config {
            name: name.to_owned(),
            image: Some(format!("r/a:{name}")),
            revision: Some(name.to_owned()),
            ..spec.configs[0].clone()
        };
        let visit = experiment(&spec, ("refill", "throughput"), [&image("v1"), &image("v2")], 8, 1).unwrap();
        assert_eq!(visit.repetitions, 8);
        let written = serde_json::to_value(&visit.configs[1]).unwrap();
        let expected = json!({"name": "v2", "image": "r/a:v2", "revision": "v2", "dbOptions": {}, "columnFamilies": [], "policy": {}});
        assert_eq!(written, expected, "only the image is declared");
    }

    #[test]
    fn visits_differ_in_their_order_and_not_in_their_data() {
        let spec = template(&json!([{"name": "base"}, {"name": "one", "dbOptions": {"max_background_jobs": "4"}}]));
        let plan = |number: usize| {
            let sides = [&spec.configs[0], &spec.configs[1]];
            let visit = experiment(&spec, ("fill", "throughput"), sides, 5, number).unwrap();
            crate::plan::Plan::new(validate("e", &visit).experiment.unwrap()).unwrap()
        };
        let data = |plan: &crate::plan::Plan| plan.trial_spec(&plan.blocks[0], 0, 0).unwrap().dataset;
        let (one, two) = (plan(1), plan(2));
        assert_ne!(one.blocks[0].seed, two.blocks[0].seed);
        assert_eq!(data(&one), data(&two));
    }

    #[test]
    fn a_side_that_would_run_other_options_is_refused() {
        for earlier in [
            json!({"dbOptions": {"max_background_jobs": "4"}}),
            json!({"columnFamilies": [{"match": ["*"], "options": {"write_buffer_size": "1M"}}]}),
            json!({"writeOptions": {"sync": true}}),
            json!({"blockCache": {"size": "1Gi"}}),
        ] {
            let mut one = earlier.clone();
            one["name"] = json!("one");
            let spec =
                template(&json!([{"name": "base"}, one, {"name": "two", "dbOptions": {"max_subcompactions": 2}}]));
            let refused = of(&spec, ["one", "two"]).unwrap_err().to_string();
            assert!(refused.starts_with("two would inherit options of one"), "{earlier}: {refused}");
            assert!(of(&spec, ["base", "two"]).is_ok());
        }
    }
}
