use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::validate::tests::experiment;

fn document(configs: usize, scenarios: usize, repetitions: u32, seed: u64) -> Value {
    let scenario = |index: usize| {
        json!({"name": format!("s{index}"), "workload": {"keyValue": {"keys": 1000, "valueBytes": {"fixed": 10},
            "roles": [{"name": "writer", "steps": 1000, "mix": {"put": 1}}]}}})
    };
    let config = |index: usize| json!({"name": format!("c{index}"), "dbOptions": {"max_background_jobs": index + 1}});
    json!({
        "apiVersion": "assay.rocks/v1alpha1",
        "kind": "TuningExperiment",
        "metadata": {"name": "plans"},
        "spec": {
            "seed": seed,
            "baseline": "c0",
            "configs": (0..configs).map(config).collect::<Vec<_>>(),
            "scenarios": (0..scenarios).map(scenario).collect::<Vec<_>>(),
            "repetitions": repetitions,
            "objectives": [{"metric": "throughput"}],
        },
    })
}

fn plan(configs: usize, scenarios: usize, repetitions: u32, seed: u64) -> Plan {
    Plan::new(experiment(&document(configs, scenarios, repetitions, seed))).expect("a plan")
}

fn orders(plan: &Plan) -> Vec<String> {
    plan.blocks
        .iter()
        .map(|block| {
            let slots: Vec<String> =
                block.slots.iter().map(|slot| format!("{}.{}", slot.config, slot.replicate)).collect();
            format!("{} {} {}", block.scenario, block.number, slots.join(" "))
        })
        .collect()
}

/// The stream as another implementation must reproduce it. If this changes, `ALGORITHM` changes with it.
#[test]
fn the_order_is_fixed_for_all_time() {
    let mut stream = order::Stream::new(&json!(["assay plan 1", "golden"]));
    let numbers: Vec<u32> = [10, 10, 10, 1, 2, 3, u32::MAX, 1_000_000].into_iter().map(|n| stream.below(n)).collect();
    assert_eq!(numbers, GOLDEN_NUMBERS);
    // The digest of the spec is set by hand, so that a new field of the API with a default does not move the goldens.
    let mut experiment = experiment(&document(5, 2, 8, 42));
    experiment.spec = serde_json::from_value(json!("57c823b55278df0faf8fb4cb2e07d335")).expect("a digest");
    let plan = Plan::new(experiment).expect("a plan");
    assert_eq!(orders(&plan)[..4], GOLDEN_ORDERS);
    assert_eq!(plan.blocks[0].seed, GOLDEN_SEED);
    assert_eq!(order::dataset_seed(&plan.experiment, "s0"), GOLDEN_DATASET_SEED);
}

const GOLDEN_NUMBERS: [u32; 8] = [0, 4, 8, 0, 1, 2, 3_762_025_434, 912_772];
const GOLDEN_ORDERS: [&str; 4] = [
    "s0 0 c1.0 c0.0 c2.0 c0.1 c4.0 c3.0",
    "s1 0 c4.0 c1.0 c0.0 c3.0 c2.0 c0.1",
    "s0 1 c0.0 c2.0 c3.0 c4.0 c0.1 c1.0",
    "s1 1 c0.0 c4.0 c2.0 c3.0 c1.0 c0.1",
];
const GOLDEN_SEED: u64 = 8_817_957_266_882_547;
const GOLDEN_DATASET_SEED: u64 = 102_529_730_707_733;

#[test]
fn rounds_are_complete_before_the_next_begins() {
    let plan = plan(3, 4, 9, 1);
    for (round, blocks) in plan.blocks.chunks(4).enumerate() {
        let mut scenarios: Vec<&str> = blocks.iter().map(|block| block.scenario.as_str()).collect();
        scenarios.sort_unstable();
        assert_eq!(scenarios, ["s0", "s1", "s2", "s3"]);
        assert!(blocks.iter().all(|block| block.number as usize == round));
    }
    let firsts: std::collections::BTreeSet<&str> =
        plan.blocks.chunks(4).map(|round| round[0].scenario.as_str()).collect();
    assert!(firsts.len() > 1, "the same scenario is always first");
}

#[test]
fn every_config_is_everywhere_equally_often() {
    // 4 configs and 2 baseline runs in 6 slots, 600 blocks: 150 visits are expected of a config in each slot that it may
    // take. The limits are 5 standard deviations wide, so that only a broken shuffle crosses them.
    let blocks = 600.0;
    let plan = plan(5, 1, 600, 3);
    let mut visits: BTreeMap<(String, u32, usize), f64> = BTreeMap::new();
    for block in &plan.blocks {
        for (place, slot) in block.slots.iter().enumerate() {
            *visits.entry((slot.config.clone(), slot.replicate, place)).or_default() += 1.0;
        }
    }
    let check = |config: &str, replicate: u32, place: usize, chance: f64| {
        let seen = visits.get(&(config.to_owned(), replicate, place)).copied().unwrap_or_default();
        let spread = (blocks * chance * (1.0 - chance)).sqrt();
        assert!((seen - blocks * chance).abs() < 5.0 * spread + 1e-9, "{config}.{replicate} at {place}: {seen}");
    };
    for place in 0..6 {
        for config in ["c1", "c2", "c3", "c4"] {
            check(config, 0, place, 1.0 / 6.0);
        }
        check("c0", 0, place, if place < 3 { 1.0 / 3.0 } else { 0.0 });
        check("c0", 1, place, if place < 3 { 0.0 } else { 1.0 / 3.0 });
    }
}

#[test]
fn small_numbers_are_drawn_evenly() {
    let mut stream = order::Stream::new(&json!("even"));
    let mut counts = [0_u32; 7];
    for _ in 0..70_000 {
        counts[stream.below(7) as usize] += 1;
    }
    // Chi-square with 6 degrees of freedom: 22.5 is exceeded once in a thousand draws, and this draw never changes.
    let chi: f64 = counts.iter().map(|&count| (f64::from(count) - 10_000.0).powi(2) / 10_000.0).sum();
    assert!(chi < 22.5, "{chi}");
    assert_eq!(stream.below(0), 0);
}

/// Of words below 2^32 the last quarter is no complete run of such a number: it would be drawn twice.
#[test]
fn words_beyond_the_last_complete_run_are_thrown_away() {
    let mut stream = order::Stream::new(&json!("rejected"));
    let small = (0..3000).filter(|_| stream.below(3 << 30) < 1 << 30).count();
    // A third, within 5 standard deviations; with those words it would be half.
    assert!(small.abs_diff(1000) < 5 * 26, "{small}");
    // The first word of a stream is itself the end of the run: 2^32 holds a number above 2^31 only once.
    let words = |purpose: u32| {
        let mut stream = order::Stream::new(&json!(purpose));
        [stream.below(u32::MAX), stream.below(u32::MAX)]
    };
    let is_meant = |&purpose: &u32| words(purpose)[0] > 1 << 31 && words(purpose)[1] < 1 << 31;
    let purpose = (0..99).find(is_meant).expect("a purpose");
    let [first, second] = words(purpose);
    assert_eq!(order::Stream::new(&json!(purpose)).below(first), second);
    assert_eq!(order::Stream::new(&json!(purpose)).below(first + 1), first);
}

#[test]
fn trials_know_all_they_need() {
    let plan = plan(3, 2, 8, 5);
    let trials: Vec<TrialId> = plan.trials().collect();
    assert_eq!(trials.len() as u64, plan.experiment.trials());
    let block = plan.block("s1", 2).expect("a block");
    let spec = plan.trial_spec(block, 1, 2).expect("a spec");
    assert_eq!(spec.plan, plan.digest);
    assert_eq!((spec.trial.order, spec.trial.attempt, spec.trial.block, spec.seed), (1, 2, 2, block.seed));
    assert_eq!(spec.metrics, ["throughput", "drained_throughput"]);
    let seeds: std::collections::BTreeSet<u64> = plan.blocks.iter().map(|block| block.seed).collect();
    assert_eq!(seeds.len(), plan.blocks.len(), "blocks share operations");
    assert!(seeds.iter().all(|seed| *seed < 1 << 53));
    let of =
        |scenario: &str| plan.trial_spec(plan.block(scenario, 0).expect("a block"), 0, 0).expect("a spec").dataset.seed;
    assert_ne!(of("s0"), of("s1"));
    assert!(matches!(plan.trial_spec(block, 9, 0), Err(PlanError::NoSuchSlot { .. })));
    assert!(plan.block("s9", 0).is_none());
}

#[test]
fn datasets_survive_edits_that_do_not_concern_them() {
    let seed = |document: &Value| order::dataset_seed(&experiment(document), "s0");
    let mut edited = document(3, 2, 9, 5);
    edited["spec"]["objectives"][0]["margin"] = json!("9%");
    assert_eq!(seed(&edited), seed(&document(2, 1, 8, 5)));
    assert_ne!(seed(&document(2, 1, 8, 6)), seed(&document(2, 1, 8, 5)));
}

#[test]
fn a_format_is_the_configs_over_the_baselines_other_options() {
    let mut document = document(3, 1, 8, 0);
    let configs = &mut document["spec"]["configs"];
    configs[0]["columnFamilies"] =
        json!([{"match": ["*"], "options": {"compression": "kNoCompression", "write_buffer_size": 1}}]);
    configs[0]["dbOptions"] = json!({"max_background_jobs": 3});
    configs[1]["columnFamilies"] = json!([
        {"match": ["*"], "options": {"compression": "kZSTD", "write_buffer_size": 2, "block_based_table_factory": "{block_size=8K}"}},
        {"match": ["default"], "options": {"level0_file_num_compaction_trigger": 9}},
    ]);
    let migrating = {
        let mut document = document.clone();
        document["spec"]["scenarios"][0]["dataset"] = json!({"from": "c1"});
        experiment(&document)
    };
    let experiment = experiment(&document);
    let format = |experiment: &Experiment, config: &str| {
        format_of(experiment, &experiment.scenarios[0], experiment.config(config).expect("a config"))
    };
    let own = format(&experiment, "c1");
    assert_eq!(own.db_options["max_background_jobs"], "3");
    assert_eq!(own.db_options, experiment.configs[0].engine.db_options);
    let family = own.family_options("default");
    assert_eq!(
        family.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>(),
        ["block_based_table_factory={block_size=8K}", "compression=kZSTD", "write_buffer_size=1"]
    );
    // What differs only in memtables and triggers shares a dataset.
    assert_eq!(format(&experiment, "c2"), format(&experiment, "c0"));
    assert_eq!(formats(&experiment, &experiment.scenarios[0]), 2);
    for config in ["c0", "c1", "c2"] {
        assert_eq!(format(&migrating, config), own);
    }
    assert_eq!(formats(&migrating, &migrating.scenarios[0]), 1);
}

#[test]
fn each_run_is_watched_in_the_families_that_are_compared() {
    let mut document = document(3, 1, 8, 1);
    let families = ["state", "code", "blocks"];
    document["spec"]["scenarios"][0]["workload"]["keyValue"]["families"] = json!(families);
    let all = json!([{"match": ["*"], "options": {"compression": "kLZ4Compression"}}]);
    document["spec"]["configs"][0]["columnFamilies"] = all;
    document["spec"]["configs"][1]["columnFamilies"] =
        json!([{"match": ["state", "blocks"], "options": {"write_buffer_size": "1M"}}]);
    let experiment = experiment(&document);
    let watched = |config: usize| {
        spec::trial_spec(
            &experiment,
            &experiment.scenarios[0],
            &experiment.configs[config],
            &experiment.spec,
            TrialId { scenario: String::new(), block: 0, config: String::new(), replicate: 0, order: 0, attempt: 0 },
            1,
        )
        .tuned_families
    };
    assert_eq!(watched(1), ["state", "blocks"]);
    // What the baseline declares for all is no difference, so only what the config changes is watched.
    assert_eq!(watched(0), ["state", "blocks"]);
    // It changes options of the database: all families are watched.
    assert!(watched(2).is_empty());
}

#[test]
fn plans_are_kept_and_edits_are_seen() {
    let plan = plan(4, 2, 8, 11);
    let json = serde_json::to_string(&plan).expect("a plan is JSON");
    let mut read: Plan = serde_json::from_str(&json).expect("a plan is read");
    assert_eq!(read, plan);
    assert!(read.check().is_ok());
    read.blocks[0].slots.swap(0, 1);
    assert!(matches!(read.check(), Err(PlanError::Changed { .. })));
    read.version = 2;
    assert!(matches!(read.check(), Err(PlanError::Version { found: 2 })));
}

#[test]
fn time_is_guessed_from_the_work() {
    let experiment = experiment(&document(2, 1, 8, 0));
    let guess = assumed(&experiment.scenarios[0], 1);
    assert!((guess.trial_seconds - 1.005).abs() < 1e-9, "{guess:?}");
    assert!((assumed_seconds(&experiment) - (1.005 * 16.0 + 0.005)).abs() < 1e-9);
}

/// An operation takes 5 us, a trial a second besides.
#[test]
fn the_slowest_role_its_pace_or_the_cpus_set_the_time() {
    let mut experiment = experiment(&document(2, 1, 8, 0));
    let mut seconds = |cpus: u32, roles: &Value| {
        let workload = json!({"keyValue": {"keys": 1000, "valueBytes": {"fixed": 10}, "roles": roles}});
        experiment.scenarios[0].workload = serde_json::from_value(workload).expect("a workload");
        assumed(&experiment.scenarios[0], cpus).trial_seconds
    };
    let busy = json!([{"name": "writer", "steps": 3_000_000, "warmupSteps": 1_000_000, "batch": 2, "threads": 4, "mix": {"put": 1}}]);
    // 8 million operations are 40 s of CPU: 20 on two, and no less than 10 on four threads.
    assert!((seconds(2, &busy) - 21.0).abs() < 1e-9);
    assert!((seconds(16, &busy) - 11.0).abs() < 1e-9);
    // 120 steps, four a second.
    let paced = json!([{"name": "writer", "steps": 100, "warmupSteps": 20, "stepsPerSecond": 4, "mix": {"put": 1}}]);
    assert!((seconds(1, &paced) - 31.0).abs() < 1e-9);
    // Beside 2 million operations, 10 s, 1000 steps a second are 10 000, and 2000 more of warm-up: with 300 operations in each that is
    // 18 s. Both together are 28 s of CPU.
    let company = json!([
        {"name": "writer", "steps": 2_000_000, "mix": {"put": 1}},
        {"name": "reader", "until": "PrimaryEnds", "stepsPerSecond": 1000, "warmupSteps": 2000, "batch": 300, "mix": {"get": 1}},
    ]);
    assert!((seconds(4, &company) - 19.0).abs() < 1e-9);
    assert!((seconds(1, &company) - 29.0).abs() < 1e-9);
}

#[test]
fn every_format_has_a_dataset_to_load() {
    let mut document = document(3, 1, 8, 0);
    document["spec"]["configs"][1]["columnFamilies"] = json!([{"match": ["*"], "options": {"compression": "kZSTD"}}]);
    let experiment = experiment(&document);
    assert_eq!(experiment.baseline_replicates, 2);
    // 8 blocks of 2 configs and 2 baseline runs, and 1000 entries of 5 us in each of two formats.
    assert!((assumed_seconds(&experiment) - (1.005 * 32.0 + 0.005 * 2.0)).abs() < 1e-9);
}

#[test]
fn the_baseline_is_no_earlier_than_the_others() {
    // Segments of two and three slots: seen from the front only, a drift within blocks would look like a loss.
    let plan = plan(4, 1, 1000, 5);
    let mean = |wanted: bool| {
        let slots = plan.blocks.iter().flat_map(|block| block.slots.iter().enumerate());
        let of: Vec<f64> = slots.filter(|(_, s)| (s.config == "c0") == wanted).map(|(slot, _)| slot as f64).collect();
        of.iter().sum::<f64>() / of.len() as f64
    };
    assert!((mean(true) - mean(false)).abs() < 0.1, "{} and {}", mean(true), mean(false));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn blocks_are_complete_and_stratified(configs in 2_usize..12, scenarios in 1_usize..4, seed in 0_u64..1 << 53) {
        let plan = plan(configs, scenarios, 12, seed);
        let m0 = plan.experiment.baseline_replicates as usize;
        for block in &plan.blocks {
            prop_assert_eq!(block.slots.len(), configs - 1 + m0);
            let mut others: Vec<&str> = block.slots.iter().map(|slot| slot.config.as_str()).filter(|name| *name != "c0").collect();
            others.sort_unstable();
            let mut expected: Vec<String> = (1..configs).map(|index| format!("c{index}")).collect();
            expected.sort_unstable();
            prop_assert_eq!(others, expected);
            let length = block.slots.len();
            let runs: Vec<(usize, u32)> = (0..length).zip(&block.slots).filter(|(_, s)| s.config == "c0").map(|(i, s)| (i, s.replicate)).collect();
            prop_assert_eq!(runs.iter().map(|run| run.1).collect::<Vec<_>>(), (0..m0 as u32).collect::<Vec<_>>());
            // One in each segment, seen from one of the two ends.
            let fits = |end: bool| {
                (0..m0).all(|segment| {
                    let range = segment * length / m0..(segment + 1) * length / m0;
                    runs.iter().filter(|(slot, _)| range.contains(&if end { length - 1 - slot } else { *slot })).count() == 1
                })
            };
            prop_assert!(fits(false) || fits(true));
        }
    }

    #[test]
    fn plans_follow_from_the_spec_alone(configs in 2_usize..8, seed in 0_u64..1 << 53) {
        let first = plan(configs, 2, 10, seed);
        prop_assert_eq!(&first, &plan(configs, 2, 10, seed));
        prop_assert_ne!(orders(&first), orders(&plan(configs, 2, 10, seed ^ 1)));
    }
}
