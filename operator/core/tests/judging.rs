//! Whole experiments: what a table of numbers alone does not show.

#![allow(clippy::unwrap_used, clippy::panic)]

use assay_core::{
    stats::{Adjust, Direction, Scale, Unmeasurable},
    verdict::{
        Design, Effect, Ending, Endings, Intervals, Invalid, JudgeError, Judgement, Lack, LookPlan, LostFirst,
        MetricRule, MetricSamples, Observed, Outcome, Purpose, Scenario, Scope, StopOn, Verdict, guarantees, judge,
    },
};

const BLOCKS: usize = 12;

fn rule(name: &str, direction: Direction, purpose: Purpose, margin: f64) -> MetricRule {
    MetricRule::new(name, direction, purpose, margin, Scale::Log)
}

/// Two scenarios, two configs, throughput to win and p99 to keep.
fn design() -> Design {
    Design {
        metrics: vec![
            rule("throughput", Direction::Higher, Purpose::Objective, 0.05),
            rule("p99", Direction::Lower, Purpose::Guardrail, 0.10),
        ],
        scenarios: ["read", "write"].map(|name| Scenario { name: name.into(), weight: 1.0 }).into(),
        configs: ["one", "two"].map(Into::into).into(),
        m0: 2,
        max_blocks: BLOCKS,
        looks: None,
        cells_adjust: Adjust::Holm,
    }
}

/// A little noise, different in every block, replicate and arm, and never the same sign for long.
fn wobble(i: usize, arm: usize) -> f64 {
    1.0 + 0.001 * (((i * 7 + arm * 13) % 11) as f64 - 5.0)
}

fn row(blocks: usize, base: f64, factors: [f64; 2]) -> MetricSamples {
    let run = |value: f64, block: usize, arm: usize| Some(value * (1.0 + block as f64 / 50.0) * wobble(block, arm));
    MetricSamples {
        baseline: (0..blocks).map(|b| vec![run(base, b, 0), run(base, b, 1)]).collect(),
        configs: factors
            .iter()
            .enumerate()
            .map(|(c, f)| (0..blocks).map(|b| run(base * f, b, 2 + c)).collect())
            .collect(),
    }
}

/// Config one gains 10 % in throughput everywhere, config two nothing; p99 stays.
fn observed() -> Observed {
    let scenario = || vec![row(BLOCKS, 1000.0, [1.1, 1.0]), row(BLOCKS, 8.0, [1.0, 1.0])];
    Observed { samples: vec![scenario(), scenario()], ended: true, ..Observed::default() }
}

fn judged(design: &Design, observed: &Observed) -> Judgement {
    judge(design, observed, Intervals::None).unwrap()
}

fn shown(Outcome { verdict, reason }: &Outcome) -> String {
    format!("{verdict:?} {reason}")
}

fn overall(observed: &Observed) -> Vec<String> {
    judged(&design(), observed).overall.iter().map(|c| shown(&c.conclusion.outcome)).collect()
}

fn cells(observed: &Observed) -> Vec<String> {
    let cells = judged(&design(), observed).cells;
    cells.iter().map(|c| format!("{}/{} {}", c.scenario, c.config, shown(&c.conclusion.outcome))).collect()
}

#[test]
fn a_gain_wins_and_no_difference_is_neutral() {
    assert_eq!(overall(&observed()), ["Win Better:throughput", "Neutral Equivalent"]);
    assert_eq!(
        cells(&observed()),
        [
            "read/one Win Better:throughput",
            "read/two Neutral Equivalent",
            "write/one Win Better:throughput",
            "write/two Neutral Equivalent"
        ]
    );
}

#[test]
fn harm_in_one_scenario_is_not_hidden_by_the_mean() {
    let mut observed = observed();
    // Nearly as much lost in one scenario as is won in the other, and then the mean is within the margin.
    observed.samples[0][0] = row(BLOCKS, 1000.0, [1.3, 1.1]);
    observed.samples[1][0] = row(BLOCKS, 1000.0, [0.9, 0.91]);
    assert_eq!(overall(&observed), ["Tradeoff worse in write", "Reject worse in write"]);
}

fn invalid(scope: Scope) -> Observed {
    Observed { invalid: vec![Invalid { scope, code: "WorkMismatch".into() }], ..observed() }
}

#[test]
fn what_is_invalid_makes_everything_above_it_invalid() {
    assert_eq!(overall(&invalid(Scope::Design)), ["Invalid WorkMismatch"; 2]);
    assert_eq!(overall(&invalid(Scope::Config(0))), ["Invalid WorkMismatch", "Neutral Equivalent"]);
    assert_eq!(overall(&invalid(Scope::Scenario(1))), ["Invalid WorkMismatch in write"; 2]);
    let cell = invalid(Scope::Cell { scenario: 0, config: 1 });
    assert_eq!(overall(&cell), ["Win Better:throughput", "Invalid WorkMismatch in read"]);
    assert_eq!(
        cells(&cell)[1..],
        ["read/two Invalid WorkMismatch", "write/one Win Better:throughput", "write/two Neutral Equivalent"]
    );
}

#[test]
fn invalid_numbers_are_not_even_read() {
    let mut observed = invalid(Scope::Cell { scenario: 0, config: 1 });
    observed.samples[0][0].configs[1] = vec![Some(0.0); BLOCKS];
    let judgement = judged(&design(), &observed);
    let effect = &judgement.cells[1].conclusion.metrics[0];
    assert_eq!((effect.n, effect.estimate, effect.p.better), (0, None, 1.0));
    // Nor do they make the claims of others cheaper.
    assert_eq!(judgement.families, design().families());
}

/// Config one fails in its first blocks of the first scenario.
fn failing(blocks: usize, as_what: Ending) -> Observed {
    let sound = |count| vec![Ending::Sound; count];
    let failed = [vec![as_what; blocks], sound(BLOCKS - blocks)].concat();
    let endings = |own| Endings { baseline: vec![sound(2); BLOCKS], configs: vec![own, sound(BLOCKS)] };
    let mut observed = observed();
    for metric in &mut observed.samples[0] {
        metric.configs[0][..blocks].fill(None);
    }
    Observed { endings: vec![endings(failed), endings(sound(BLOCKS))], ..observed }
}

#[test]
fn a_config_that_fails_is_rejected_however_fast_it_is() {
    assert_eq!(overall(&failing(0, Ending::Failed)), ["Win Better:throughput", "Neutral Equivalent"]);
    assert_eq!(overall(&failing(5, Ending::Failed)), ["Reject Unstable", "Neutral Equivalent"]);
    // Too few to prove anything, and too many to overlook.
    assert_eq!(overall(&failing(1, Ending::Failed)), ["Inconclusive Failures", "Neutral Equivalent"]);
    assert_eq!(overall(&failing(1, Ending::Damaged)), ["Inconclusive Failures", "Neutral Equivalent"]);
    // Invalid comes first: a broken setup explains the failures, too.
    let both = Observed { invalid: invalid(Scope::Config(0)).invalid, ..failing(5, Ending::Failed) };
    assert_eq!(overall(&both)[0], "Invalid WorkMismatch");
}

#[test]
fn a_failed_run_is_the_worst_of_all_and_no_estimate() {
    let judgement = judged(&design(), &failing(3, Ending::Failed));
    let effect = &judgement.cells[0].conclusion.metrics[0];
    assert_eq!(effect.n, BLOCKS, "failures count");
    let whole = judged(&design(), &observed());
    let without = &whole.cells[0].conclusion.metrics[0];
    assert!((effect.estimate.unwrap() - without.estimate.unwrap()).abs() < 2e-3, "of the runs that ended");
    assert!(effect.p.better > 10.0 * without.p.better, "{} {}", effect.p.better, without.p.better);
    // Both arms failing in a block is a tie.
    let mut both = failing(BLOCKS, Ending::Failed);
    both.endings[0].baseline.iter_mut().for_each(|runs| runs.fill(Ending::Failed));
    let tie = &judged(&design(), &both).cells[0].conclusion.metrics[0];
    assert_eq!((tie.p.better, tie.p.worse, tie.estimate), (1.0, 1.0, None));
    // And no proof that they are equal.
    assert_eq!((tie.p.non_inferior, tie.p.no_gain, tie.p.mean_non_inferior_seq), (1.0, 1.0, Some(1.0)));
}

/// Half of the blocks say nothing, so they add nothing to what the others say.
#[test]
fn blocks_in_which_all_fail_prove_nothing() {
    let mut observed = failing(6, Ending::Failed);
    observed.endings[0].baseline[..6].iter_mut().for_each(|runs| runs.fill(Ending::Failed));
    let with = judged(&design(), &observed).cells[0].conclusion.metrics[0].p;
    for metric in &mut observed.samples[0] {
        metric.configs[0].drain(..6);
        metric.configs[1].drain(..6);
        metric.baseline.drain(..6);
    }
    observed.endings.clear();
    let without = judged(&design(), &observed).cells[0].conclusion.metrics[0].p;
    assert_eq!(
        (with.better, with.non_inferior, with.mean_non_inferior_seq),
        (without.better, without.non_inferior, without.mean_non_inferior_seq)
    );
}

/// A p99 that is only there where it is good.
#[test]
fn values_that_are_missing_may_be_the_bad_ones() {
    let mut observed = observed();
    for block in 0..3 {
        observed.samples[0][1].configs[0][block] = None;
        observed.lacks.push(Lack { scenario: 0, metric: 1, config: Some(0), block });
    }
    assert_eq!(overall(&observed)[0], "Inconclusive GuardrailUnresolved:p99");
    // Where the config has no run, nothing that the baseline lacks is beside it.
    let mut apart = observed.clone();
    for block in 3..6 {
        apart.samples[0][1].baseline[block] = vec![None; 2];
        apart.samples[0].iter_mut().for_each(|row| row.configs[0][block] = None);
        apart.lacks.extend([Lack { scenario: 0, metric: 1, config: None, block }; 2]);
    }
    assert_eq!(overall(&apart)[0], "Inconclusive GuardrailUnresolved:p99");
    // What the baseline lacks as well is nobody's advantage.
    for block in 0..3 {
        observed.samples[0][1].baseline[block] = vec![None; 2];
        observed.lacks.extend([Lack { scenario: 0, metric: 1, config: None, block }; 2]);
    }
    assert_eq!(overall(&observed)[0], "Win Better:throughput");
}

/// What is lost may be what was slow.
#[test]
fn a_config_that_loses_more_runs_is_no_win() {
    let lost = |config, block| LostFirst { scenario: 0, config: Some(config), block };
    let lossy =
        Observed { lost_firsts: (0..BLOCKS / 2).flat_map(|b| [lost(0, b), lost(1, b)]).collect(), ..observed() };
    assert_eq!(overall(&lossy), ["Inconclusive Attrition", "Inconclusive Attrition"]);
    let harmful =
        Observed { samples: vec![vec![row(BLOCKS, 1000.0, [0.8, 1.0]), row(BLOCKS, 8.0, [1.0, 1.0])]; 2], ..lossy };
    assert_eq!(overall(&harmful)[0], "Reject Harm:throughput", "harm is harm");
}

/// One scenario is all that there is, but its user has said what it may lose.
#[test]
fn a_declared_scenario_margin_holds_for_a_single_scenario() {
    let one = |scenario_margin: Option<f64>| {
        let mut design = design();
        design.scenarios.truncate(1);
        (design.metrics[1].scenario_margin, design.metrics[1].quantile) = (scenario_margin, true);
        // 3 % more of what must not grow by more than 10 %.
        let samples = vec![vec![row(BLOCKS, 1000.0, [1.1, 1.0]), row(BLOCKS, 8.0, [1.03, 1.0])]];
        let observed = Observed { samples, ended: true, ..Observed::default() };
        shown(&judged(&design, &observed).overall[0].conclusion.outcome)
    };
    assert_eq!(one(None), "Win Better:throughput");
    assert_eq!(one(Some(0.05)), "Win Better:throughput");
    // The mean shows the loss, too.
    assert_eq!(one(Some(0.01)), "Tradeoff SlowTail:p99");
}

/// The order of scenarios is no evidence.
#[test]
fn a_zero_in_a_round_that_does_not_count_changes_nothing() {
    let said = |swap: bool| {
        let mut observed = observed();
        observed.samples[0][0].configs[0][4] = Some(0.0);
        observed.samples[1][0].configs[0][4] = None;
        if swap {
            observed.samples.swap(0, 1);
        }
        let found = &judged(&design(), &observed).overall[0];
        (found.conclusion.metrics[0].has_zeros, found.conclusion.metrics[0].p.better)
    };
    assert_eq!(said(false), said(true));
    assert!(!said(false).0);
}

/// Of two objectives one wins everywhere, and the other adds up to something worse in a scenario.
#[test]
fn a_tail_of_what_is_not_won_speaks_against_a_win() {
    let mut design = design();
    design.metrics[1].purpose = Purpose::Objective;
    let mut observed = observed();
    // Better in its typical run there, with stalls; elsewhere a little worse, so that it is no gain over all.
    observed.samples[0][1] = row(BLOCKS, 8.0, [0.92, 1.0]);
    for value in observed.samples[0][1].configs[0].iter_mut().step_by(3) {
        *value = value.map(|value| value * 12.0);
    }
    observed.samples[1][1] = row(BLOCKS, 8.0, [1.02, 1.0]);
    design.metrics[1].scenario_margin = Some(0.05);
    let judgement = judged(&design, &observed);
    assert_ne!(
        judgement.overall[0].conclusion.outcome.verdict,
        Verdict::Win,
        "{:?}",
        judgement.cells[0].conclusion.outcome
    );
}

/// Nothing at all is the best that a cost can be.
#[test]
fn zero_is_the_best_of_a_cost() {
    let mut design = design();
    design.metrics[1].purpose = Purpose::Objective;
    let mut observed = observed();
    // Of p99 as if it were write amplification: zero in most blocks, and a little more in the rest.
    for scenario in &mut observed.samples {
        scenario[1] = row(BLOCKS, 8.0, [1.02, 1.0]);
        scenario[1].configs[0][..9].fill(Some(0.0));
    }
    let found = &judged(&design, &observed).overall[0].conclusion;
    assert_eq!(shown(&found.outcome), "Win Better:throughput,p99");
    assert_eq!((found.metrics[1].estimate, found.metrics[1].has_zeros), (None, true), "there is no ratio to zero");
    // Over all it is claimed only if it is proven in each scenario.
    observed.samples[1][1] = row(BLOCKS, 8.0, [1.0, 1.0]);
    let found = &judged(&design, &observed).overall[0].conclusion;
    assert_eq!(shown(&found.outcome), "Win Better:throughput");
    // And zero against zero is a tie.
    for scenario in &mut observed.samples {
        scenario[1] = row(BLOCKS, 0.0, [1.0, 1.0]);
    }
    let found = &judged(&design, &observed).cells[0].conclusion.metrics[1];
    assert_eq!((found.p.better, found.p.worse), (1.0, 1.0));
}

/// A config whose typical run is faster and of which some runs stall.
#[test]
fn stalls_are_not_estimated_away() {
    let stalling = |factor: f64, stalls: usize| {
        let mut observed = observed();
        for scenario in &mut observed.samples {
            for value in scenario[0].configs[0].iter_mut().take(stalls) {
                *value = value.map(|value| value * factor);
            }
        }
        overall(&observed)[0].clone()
    };
    assert_eq!(stalling(1.0, 0), "Win Better:throughput");
    assert_eq!(stalling(0.3, 1), "Inconclusive SlowTail:throughput in read,write");
    assert_eq!(stalling(0.9, 1), "Win Better:throughput", "a run that is only a little slower costs little");
}

#[test]
fn a_win_can_be_asked_for_its_size() {
    let sized = |least: Option<f64>, margin: f64| {
        let mut design = design();
        (design.metrics[0].at_least, design.metrics[0].margin) = (least, margin);
        judged(&design, &observed()).overall.iter().map(|c| shown(&c.conclusion.outcome)).collect::<Vec<_>>()
    };
    assert_eq!(sized(None, 0.05), ["Win Better:throughput", "Neutral Equivalent"]);
    assert_eq!(sized(Some(0.08), 0.05), ["Win Better:throughput", "Neutral Equivalent"]);
    assert_eq!(sized(Some(0.12), 0.05)[0], "Inconclusive NoGain", "so large a gain is excluded");
    // A gain that is proven to be as large as was asked for is one, though it lies within the margin.
    assert_eq!(sized(None, 0.2)[0], "Neutral Equivalent");
    assert_eq!(sized(Some(0.08), 0.2)[0], "Win Better:throughput");
}

fn counts(judgement: &Judgement, config: usize) -> (usize, usize, usize) {
    let n = |metrics: &[Effect]| metrics[0].n;
    let cell = |scenario: usize| n(&judgement.cells[scenario * 2 + config].conclusion.metrics);
    (cell(0), cell(1), n(&judgement.overall[config].conclusion.metrics))
}

#[test]
fn missing_runs_cost_their_block_and_round() {
    let mut observed = observed();
    // A baseline replicate of one scenario: the block is lost to all configs there.
    observed.samples[0][0].baseline[3][1] = None;
    // A run of one config in another block of the other scenario.
    observed.samples[1][0].configs[0][5] = None;
    let judgement = judged(&design(), &observed);
    assert_eq!(counts(&judgement, 0), (11, 11, 10));
    assert_eq!(counts(&judgement, 1), (11, 12, 11));
    // The other metric of the same runs is its own.
    assert_eq!(judgement.cells[0].conclusion.metrics[1].n, 12);
}

#[test]
fn a_guardrail_without_numbers_is_unresolved_not_forgotten() {
    let mut observed = observed();
    for scenario in &mut observed.samples {
        scenario[1].configs[0].clear();
    }
    assert_eq!(overall(&observed)[0], "Inconclusive GuardrailUnresolved:p99");
}

#[test]
fn weights_say_what_the_mean_is_about() {
    let mut observed = observed();
    observed.samples[0][0] = row(BLOCKS, 1000.0, [1.2, 1.0]);
    observed.samples[1][0] = row(BLOCKS, 1000.0, [1.0, 1.0]);
    let estimate = |weight: f64| {
        let mut design = design();
        design.scenarios[0].weight = weight;
        judged(&design, &observed).overall[0].conclusion.metrics[0].estimate.unwrap()
    };
    assert!((estimate(1.0) - 1.2_f64.ln() / 2.0).abs() < 2e-3);
    assert!((estimate(3.0) - 1.2_f64.ln() * 0.75).abs() < 2e-3);
}

#[test]
fn numbers_that_mean_nothing_are_an_error_with_an_address() {
    let refused = |change: fn(&mut Observed)| {
        let mut observed = observed();
        change(&mut observed);
        judge(&design(), &observed, Intervals::None).unwrap_err().to_string()
    };
    assert_eq!(
        refused(|e| e.samples[1][0].configs[0][7] = Some(f64::NAN)),
        "metric \"throughput\" of config \"one\" in scenario \"write\", block 8: NaN is not a finite number"
    );
    assert_eq!(
        refused(|e| e.samples[0][1].baseline[2][0] = Some(-1.0)),
        "metric \"p99\" of config \"baseline\" in scenario \"read\", block 3: -1 is negative, but the metric is on a log scale"
    );
    for value in [f64::INFINITY, f64::NEG_INFINITY] {
        let mut observed = observed();
        observed.samples[0][0].configs[0][0] = Some(value);
        let error = judge(&design(), &observed, Intervals::None).unwrap_err();
        assert!(matches!(error, JudgeError::Value { problem: Unmeasurable::NotFinite, .. }), "{error}");
    }
    assert_eq!(
        refused(|e| drop(e.samples.pop())),
        "samples do not fit the design: samples for 1 scenarios, expected 2"
    );
    assert_eq!(
        refused(|e| drop(e.samples[0].pop())),
        "samples do not fit the design: scenario \"read\" has 1 metrics, expected 2"
    );
    assert_eq!(
        refused(|e| drop(e.samples[0][0].configs.pop())),
        "samples do not fit the design: metric \"throughput\" of scenario \"read\" has 1 configs, expected 2"
    );
    assert_eq!(
        refused(|e| e.samples[0][0].baseline[0].push(Some(1.0))),
        "samples do not fit the design: metric \"throughput\" of scenario \"read\" has a block with more than 2 \
         baseline runs"
    );
    assert_eq!(
        refused(|e| e.samples[0][0].configs[1].push(None)),
        "samples do not fit the design: config \"two\" has runs of scenario \"read\" in blocks without a baseline"
    );
    assert_eq!(
        refused(|e| drop(e.samples[0][1].baseline.pop())),
        "samples do not fit the design: metric \"p99\" of scenario \"read\" has 11 blocks, but the first metric has 12"
    );
    assert_eq!(
        refused(|e| e.invalid.push(Invalid { scope: Scope::Config(2), code: "X".into() })),
        "samples do not fit the design: X refers to Config(2), which is not declared"
    );
}

#[test]
fn nothing_is_decided_before_the_plan_says_so() {
    let running = Observed { ended: false, ..observed() };
    let early = Design { max_blocks: 30, ..design() };
    let judgement = judged(&early, &running);
    assert!(judgement.looks.is_empty());
    assert!(
        judgement
            .overall
            .iter()
            .all(|c| shown(&c.conclusion.outcome) == "Inconclusive TooFewBlocks" && c.stopped_at.is_none())
    );
    // But when no more will come, what there is counts.
    let over = judged(&early, &observed());
    assert_eq!(over.overall[0].conclusion.outcome.verdict, Verdict::Win);
    assert_eq!(over.overall[0].stopped_at, Some(BLOCKS));
}

#[test]
fn an_experiment_without_blocks_has_an_answer() {
    let empty = MetricSamples { baseline: vec![], configs: vec![vec![], vec![]] };
    let observed = Observed { samples: vec![vec![empty.clone(), empty]; 2], ended: true, ..Observed::default() };
    let judgement = judge(&design(), &observed, Intervals::All).unwrap();
    assert_eq!(shown(&judgement.overall[0].conclusion.outcome), "Inconclusive TooFewBlocks");
    assert_eq!(judgement.overall[0].conclusion.metrics[0].ci95, None);
}

#[test]
fn more_blocks_never_revoke_a_proof() {
    let looks = LookPlan { blocks: vec![8, 12], stop_on: StopOn::Cells, futility: true };
    let design = Design { looks: Some(looks), ..design() };
    let mut observed = observed();
    let at_first = judged(&design, &observed).looks[0].overall[0].clone();
    assert_eq!(shown(&at_first), "Win Better:throughput");
    // From the second look on the gain is gone, but the first look's proof stands, as its error was paid for.
    for scenario in &mut observed.samples {
        scenario[0].configs[0].truncate(8);
        scenario[0].configs[0].extend([Some(500.0); 4]);
    }
    let judgement = judged(&design, &observed);
    assert_eq!(judgement.overall[0].conclusion.outcome, at_first);
    assert_eq!(judgement.overall[0].stopped_at, Some(8));
}

#[test]
fn intervals_come_where_they_are_asked_for() {
    let has = |intervals| {
        let judgement = judge(&design(), &observed(), intervals).unwrap();
        (
            judgement.overall[0].conclusion.metrics[0].ci95.is_some(),
            judgement.cells[0].conclusion.metrics[0].ci95.is_some(),
        )
    };
    assert_eq!(has(Intervals::None), (false, false));
    assert_eq!(has(Intervals::Overall), (true, false));
    assert_eq!(has(Intervals::All), (true, true));
}

#[test]
fn a_judgement_survives_its_file() {
    let judgement = judge(&design(), &observed(), Intervals::All).unwrap();
    let json = serde_json::to_string(&judgement).unwrap();
    assert_eq!(serde_json::from_str::<Judgement>(&json).unwrap(), judgement);
    let observed = observed();
    let stored: Observed = serde_json::from_str(&serde_json::to_string(&observed).unwrap()).unwrap();
    assert_eq!(stored, observed);
    assert!(json.contains(r#""verdict":"Win","reason":{"Better":["throughput"]}"#), "{json}");
}

/// `cellsAdjust` is about scenarios: what it buys there must not weaken what is promised overall.
#[test]
fn overall_claims_are_adjusted_alike_whatever_scenarios_are() {
    let mut observed = observed();
    for scenario in &mut observed.samples {
        scenario[0] = row(BLOCKS, 1000.0, [1.1, 1.1]);
    }
    let adjusted = |cells_adjust| {
        let judgement = judged(&Design { cells_adjust, ..design() }, &observed);
        let better = |metrics: &[Effect]| metrics[0].p.better_adjusted;
        let overall: Vec<_> = judgement.overall.iter().map(|found| better(&found.conclusion.metrics)).collect();
        let cells: Vec<_> = judgement.cells.iter().map(|found| better(&found.conclusion.metrics)).collect();
        (overall, cells)
    };
    let (holm, exploratory) = (adjusted(Adjust::Holm), adjusted(Adjust::Bh));
    assert_ne!(holm.1, exploratory.1, "the two differ on these data");
    assert_eq!(holm.0, exploratory.0);
}

#[test]
fn guarantees_count_the_claims_they_are_about() {
    let sentences = guarantees(&design());
    assert!(sentences[0].contains("overall Win is at most 5 % (2 claims)"), "{sentences:?}");
    assert!(sentences[1].contains("4 claims of a gain, 12 of harm"), "{sentences:?}");
    assert!(sentences.iter().any(|s| s.contains("the scenarios read, write.")), "{sentences:?}");
    let exploratory = Design { cells_adjust: Adjust::Bh, ..design() };
    assert!(guarantees(&exploratory)[1].contains("exploratory"));
}
