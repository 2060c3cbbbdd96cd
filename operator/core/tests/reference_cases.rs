//! Runs the reference cases: inputs with the numbers and verdicts that an independent implementation computed.
//!
//! `ASSAY_REFERENCE_CASES` names another file of the same schema. Every key of the file must be known here: a number that
//! nobody compares is a failure, not a pass. Where the rules of verdicts change, `reference/regenerate.py`, which shares no code with
//! Assay, computes the whole verdicts anew and prints what is another.

#![allow(clippy::unwrap_used, clippy::panic)]

mod reference;

use std::{collections::BTreeMap, env, fs};

use assay_core::stats::{
    ALPHA, Direction, FUTILITY, Paired, Scale, benjamini_hochberg, blocks_to_plan, default_m0, detectable,
    fisher_greater, holm, implausible, look_weights, n_min, plan_looks, robust_z, supports_quantile,
};
use reference::{Check, cell, count, counts, experiment, legacy, list, number, numbers, object, words};
use serde_json::Value;

const METADATA: [&str; 5] = ["schema", "generator", "defaults", "tolerance", "oracle_checks_passed"];

#[test]
fn reference_cases() {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/reference-cases.json");
    let path = env::var("ASSAY_REFERENCE_CASES").unwrap_or_else(|_| own.to_owned());
    let file: Value =
        serde_json::from_str(&fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))).unwrap();
    let tolerance = &file["tolerance"];
    let mut check = Check {
        p: number(&tolerance["p"]),
        estimate: number(&tolerance["estimate"]),
        ci: number(&tolerance["ci"]),
        failures: Vec::new(),
        run: BTreeMap::new(),
    };

    for (group, cases) in object(&file) {
        match group.as_str() {
            "primitives" => primitives(&mut check, cases),
            "cells" => list(cases).iter().for_each(|case| cell(&mut check, case, list(cases))),
            "experiments" => list(cases).iter().for_each(|case| experiment(&mut check, case, list(cases))),
            "guards" => guards(&mut check, cases),
            "legacy" => list(cases).iter().for_each(|case| legacy(&mut check, case)),
            // Of an earlier method; that of nights now has cases of its own, tests/data/detection.json.
            "nightly" => {}
            known if METADATA.contains(&known) => {}
            unknown => panic!("{path} has cases {unknown:?} that this test does not know"),
        }
    }
    defaults(&mut check, &file["defaults"]);

    println!("{path}: {:?}", check.run);
    assert!(check.failures.is_empty(), "{} differences:\n{}", check.failures.len(), check.failures.join("\n"));
    let groups = [
        "paired",
        "adjust",
        "look_weights",
        "n_min",
        "mde",
        "n_plan",
        "m0_default",
        "cells",
        "experiments, fixed",
        "experiments, sequential",
        "robust_z_duration",
        "plausibility_factor3",
        "fisher_failures",
        "quantile_support",
        "legacy",
    ];
    for group in groups {
        assert!(check.run.get(group).is_some_and(|&n| n > 0), "no case of {group:?} was run");
    }
}

/// The numbers that the code holds as constants.
fn defaults(check: &mut Check, defaults: &Value) {
    for (name, value) in object(defaults) {
        match name.as_str() {
            "alpha_win" | "alpha_harm" | "alpha_equiv" | "alpha_noninf" => check.equal(name, &number(value), &ALPHA),
            "futility" => check.equal(name, &number(value), &FUTILITY),
            // Held by the weights in the sequential experiments.
            "rho" => check.equal(name, &serde_json::json!({"better": 2, "worse": 1, "equiv": 1, "noninf": 1}), value),
            "looks" => check.equal(name, &counts(value), &plan_looks(30, 18)),
            "tie_rounding" => check.equal(name, &number(value), &1e-12),
            // Bisection here ends at a width of 1e-7 instead, within the tolerance of limits.
            "ci_bisection_steps" => {}
            unknown => panic!("unknown default {unknown:?}"),
        }
    }
}

fn primitives(check: &mut Check, groups: &Value) {
    for (group, cases) in object(groups) {
        match group.as_str() {
            "paired" => list(cases).iter().for_each(|case| paired(check, case)),
            "adjust" => {
                let p = numbers(&cases["p"]);
                check.vector("holm", &cases["holm"], &holm(&p));
                check.vector("bh", &cases["bh"], &benjamini_hochberg(&p));
                check.ran("adjust");
            }
            "look_weights" => {
                for case in list(cases) {
                    let weights = look_weights(&counts(&case["looks"]), words(&case["rho"]));
                    check.vector(&format!("look_weights {}", case["looks"]), &case["w"], &weights);
                    check.ran("look_weights");
                }
            }
            "n_min" => {
                for case in list(cases) {
                    check.equal("n_min", &count(&case["n"]), &n_min(count(&case["m"]), number(&case["alpha"])));
                    check.ran("n_min");
                }
            }
            "mde" => {
                for case in list(cases) {
                    let mde = detectable(number(&case["sd_block"]), count(&case["n"]), number(&case["m"]));
                    check.estimate("mde", &case["expect_log"], mde);
                    check.estimate("mde pct", &case["expect_pct"], mde.and_then(|x| Scale::Log.percent(x)));
                    check.ran("mde");
                }
            }
            "n_plan" => {
                for case in list(cases) {
                    let delta = number(&case["delta_pct"]) / 100.0;
                    let n = blocks_to_plan(number(&case["sigma"]), count(&case["m0"]), delta, count(&case["m"]));
                    check.equal(&format!("n_plan {case}"), &Some(count(&case["n"])), &n);
                    check.ran("n_plan");
                }
            }
            "m0_default" => {
                for case in list(cases) {
                    check.equal("m0_default", &count(&case["m0"]), &default_m0(count(&case["k"])));
                    check.ran("m0_default");
                }
            }
            unknown => panic!("unknown primitive {unknown:?}"),
        }
    }
}

fn paired(check: &mut Check, case: &Value) {
    let (scale, direction): (Scale, Direction) = (words(&case["scale"]), words(&case["direction"]));
    let transform = |value: &Value| scale.transform(direction, number(value)).unwrap();
    let config = list(&case["config"]).iter().map(transform).collect();
    let blocks = list(&case["baseline"]);
    let baseline = blocks.iter().flat_map(|block| list(block).iter().map(transform)).collect();
    let paired = Paired::new(config, baseline, list(&blocks[0]).len()).unwrap();

    let zero = paired.tails(0.0);
    let signed = paired.signed_rank(0.0);
    // With one baseline run a block there is only one test.
    let aligned = paired.aligned_rank(0.0).unwrap_or(signed);
    let five = scale.margin(0.05);
    for (key, expected) in object(&case["expect"]) {
        let at = format!("{} {key}", case["name"]);
        match key.as_str() {
            "estimate" => check.estimate(&at, expected, paired.estimate()),
            "p_up" => check.p(&at, expected, zero.up),
            "p_dn" => check.p(&at, expected, zero.down),
            "csr" => check.vector(&at, expected, &[signed.up, signed.down]),
            "aligned_rank" => check.vector(&at, expected, &[aligned.up, aligned.down]),
            "ci90" => check.interval(&at, expected, paired.interval(0.90)),
            "ci95" => check.interval(&at, expected, paired.interval(0.95)),
            "p_up_at_minus_eps05" => check.p(&at, expected, paired.tails(-five).up),
            "p_dn_at_plus_eps05" => check.p(&at, expected, paired.tails(five).down),
            "csr_scores" => {
                let scores: Vec<isize> = words(expected);
                check.equal(&at, &scores, &paired.signed_rank_scores(0.0));
            }
            unknown => panic!("{}: unknown expectation {unknown:?}", case["name"]),
        }
    }
    check.ran("paired");
}

fn guards(check: &mut Check, groups: &Value) {
    for (group, cases) in object(groups) {
        match group.as_str() {
            "robust_z_duration" => {
                let z = robust_z(&numbers(&cases["values"]));
                check.vector(group, &cases["z"], &z);
                let flagged: Vec<usize> = (0..z.len()).filter(|&i| z[i].abs() > 6.0).collect();
                check.equal(group, &counts(&cases["flagged"]), &flagged);
                check.ran("robust_z_duration");
            }
            "plausibility_factor3" => {
                let seen = implausible(&numbers(&cases["values"]), 3.0).unwrap();
                check.estimate(group, &cases["median"], Some(seen.median));
                check.equal(group, &counts(&cases["flagged"]), &seen.flagged);
                check.ran("plausibility_factor3");
            }
            "fisher_failures" => {
                for case in list(cases) {
                    let runs = |arm: &str| {
                        let count = |what: &str| count(&case[format!("{arm}_{what}")]) as u32;
                        (count("failed"), count("ok"))
                    };
                    check.p(group, &case["p_greater"], fisher_greater(runs("config"), runs("base")));
                    check.ran("fisher_failures");
                }
            }
            "quantile_support" => {
                for case in list(cases) {
                    let (q, ops) = (number(&case["q"]), count(&case["ops"]) as u64);
                    check.estimate(group, &case["tail"], Some(ops as f64 * (1.0 - q)));
                    let usable = supports_quantile(ops, q, 100);
                    check.equal(group, &case["usable_as_guardrail"].as_bool().unwrap(), &usable);
                    check.ran("quantile_support");
                }
            }
            unknown => panic!("unknown guard {unknown:?}"),
        }
    }
}
