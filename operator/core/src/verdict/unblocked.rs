use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    design::{DesignError, MetricRule, Role},
    evidence::{Invalid, Scope},
    findings::{Outcome, Reason, Recommendation, Verdict},
    table,
    values::JudgeError,
};
use crate::stats::{Adjust, mann_whitney, shift, welch};

/// Results of one scenario that were not measured in blocks: published tables, runs of other tools ("Unblocked").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unblocked {
    pub metrics: Vec<MetricRule>,
    /// Without the baseline.
    pub configs: Vec<String>,
    /// Metric by metric.
    pub samples: Vec<UnblockedSamples>,
    /// What a gate found unfit; the scenario is number 0.
    #[serde(default)]
    pub invalid: Vec<Invalid>,
}

/// The runs as one metric saw them, in any order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnblockedSamples {
    pub baseline: Vec<f64>,
    /// Config by config.
    pub configs: Vec<Vec<f64>>,
}

/// How the runs were laid out, printed wherever such a judgement is: it is the reason for its verdicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Layout {
    #[default]
    Unblocked,
}

/// One metric of one config. Nothing here is a proof: the p values take all runs for independent and every session for the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Advisory {
    pub metric: String,
    pub role: Role,
    pub baseline_runs: usize,
    pub config_runs: usize,
    /// Ratio of the means minus 1: what a table of means shows. `None` without runs, or where the baseline's mean is zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_delta_percent: Option<f64>,
    /// Hodges-Lehmann shift on the metric's scale; positive is better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<f64>,
    /// Log scale only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift_percent: Option<f64>,
    /// Exact, of Mann and Whitney.
    pub p_two_sided: f64,
    pub p_better: f64,
    pub p_worse: f64,
    /// `p_two_sided` after Holm's correction for all configs on this metric.
    pub p_adjusted: f64,
    /// Smallest `p_two_sided` that so many runs can have.
    pub p_smallest: f64,
    /// Two-sided, of Welch's t test, for comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_welch: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnblockedFinding {
    pub config: String,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub recommendation: Recommendation,
    /// In the order of the metrics.
    pub metrics: Vec<Advisory>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnblockedJudgement {
    pub design: Layout,
    /// In the order of the configs.
    pub findings: Vec<UnblockedFinding>,
}

/// Judges results without blocks ("Unblocked"): `Invalid` where a gate says so, else `Inconclusive`. Differences between sessions
/// are as large as most effects and nothing in such data tells them apart, so no number of runs makes more of it.
pub fn judge_unblocked(results: &Unblocked) -> Result<UnblockedJudgement, JudgeError> {
    results.check()?;
    let mut metrics: Vec<Vec<Advisory>> = vec![Vec::new(); results.configs.len()];
    for (rule, samples) in results.metrics.iter().zip(&results.samples) {
        let advisories = results.advisories(rule, samples)?;
        metrics.iter_mut().zip(advisories).for_each(|(config, advisory)| config.push(advisory));
    }
    let findings = results.configs.iter().zip(metrics).enumerate().map(|(index, (config, metrics))| {
        let outcome = results.outcome(index);
        UnblockedFinding { config: config.clone(), recommendation: table::recommendation(&outcome), outcome, metrics }
    });
    Ok(UnblockedJudgement { design: Layout::Unblocked, findings: findings.collect() })
}

impl Unblocked {
    fn check(&self) -> Result<(), JudgeError> {
        let (metrics, configs) = (self.metrics.len(), self.configs.len());
        if configs == 0 {
            return Err(DesignError::Nothing("config").into());
        }
        if metrics == 0 {
            return Err(DesignError::Nothing("metric").into());
        }
        if self.samples.len() != metrics {
            let message = format!("{} metrics have samples, {metrics} are declared", self.samples.len());
            return Err(JudgeError::Misfit(message));
        }
        for (rule, samples) in self.metrics.iter().zip(&self.samples) {
            if samples.configs.len() != configs {
                let found = samples.configs.len();
                let message = format!("metric {:?} has {found} configs, {configs} are declared", rule.name);
                return Err(JudgeError::Misfit(message));
            }
        }
        Ok(())
    }

    fn outcome(&self, config: usize) -> Outcome {
        let about = |scope| match scope {
            Scope::Design | Scope::Scenario(_) => true,
            Scope::Config(c) | Scope::Cell { config: c, .. } => c == config,
        };
        let mut codes: Vec<String> =
            self.invalid.iter().filter(|invalid| about(invalid.scope)).map(|invalid| invalid.code.clone()).collect();
        codes.sort_unstable();
        codes.dedup();
        if codes.is_empty() {
            return Outcome { verdict: Verdict::Inconclusive, reason: Reason::TooFewBlocks };
        }
        Outcome { verdict: Verdict::Invalid, reason: Reason::Invalid { codes, scenarios: Vec::new() } }
    }

    /// One metric of all configs.
    fn advisories(&self, rule: &MetricRule, samples: &UnblockedSamples) -> Result<Vec<Advisory>, JudgeError> {
        let transformed = |config: &str, values: &[f64]| -> Result<Vec<f64>, JudgeError> {
            let value = |(run, &value): (usize, &f64)| {
                rule.scale.transform(rule.direction, value).map_err(|problem| JudgeError::Run {
                    metric: rule.name.clone(),
                    config: config.to_owned(),
                    run,
                    value,
                    problem,
                })
            };
            values.iter().enumerate().map(value).collect()
        };
        let baseline = transformed("baseline", &samples.baseline)?;
        let mut advisories = Vec::with_capacity(self.configs.len());
        for (name, values) in self.configs.iter().zip(&samples.configs) {
            let own = transformed(name, values)?;
            let test = mann_whitney(&baseline, &own);
            let shift = shift(&baseline, &own);
            advisories.push(Advisory {
                metric: rule.name.clone(),
                role: rule.role,
                baseline_runs: baseline.len(),
                config_runs: own.len(),
                mean_delta_percent: mean_delta_percent(&samples.baseline, values),
                shift,
                shift_percent: shift.and_then(|shift| rule.scale.percent(shift)),
                p_two_sided: test.two_sided,
                p_better: test.greater,
                p_worse: test.less,
                p_adjusted: 1.0,
                p_smallest: test.smallest_two_sided,
                p_welch: welch(&baseline, &own),
            });
        }
        let raw: Vec<f64> = advisories.iter().map(|advisory| advisory.p_two_sided).collect();
        advisories.iter_mut().zip(Adjust::Holm.apply(&raw)).for_each(|(advisory, p)| advisory.p_adjusted = p);
        Ok(advisories)
    }
}

fn mean_delta_percent(baseline: &[f64], config: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let delta = 100.0 * (mean(config) / mean(baseline) - 1.0);
    delta.is_finite().then_some(delta)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Direction, Scale};

    /// A hundred runs of each, far apart: as clear as such data can be.
    fn results() -> Unblocked {
        let runs = |around: f64| (0..100).map(|i| around + f64::from(i) / 100.0).collect::<Vec<_>>();
        Unblocked {
            metrics: vec![MetricRule {
                name: "latency".into(),
                direction: Direction::Lower,
                role: Role::Primary,
                margin: 0.05,
                scale: Scale::Log,
            }],
            configs: ["half", "same"].map(Into::into).into(),
            samples: vec![UnblockedSamples { baseline: runs(20.0), configs: vec![runs(10.0), runs(20.0)] }],
            invalid: Vec::new(),
        }
    }

    #[test]
    fn no_number_of_runs_makes_a_verdict() {
        let judged = judge_unblocked(&results()).unwrap();
        let half = &judged.findings[0];
        assert_eq!((half.outcome.verdict, &half.outcome.reason), (Verdict::Inconclusive, &Reason::TooFewBlocks));
        assert_eq!(half.recommendation, Recommendation::MoreBlocks);
        let advisory = &half.metrics[0];
        // Half the latency is better, and the numbers say so: only the verdict may not.
        assert!(advisory.p_better < 1e-12 && advisory.p_worse > 0.999 && advisory.shift.unwrap() > 0.6);
        assert!((advisory.p_adjusted - 2.0 * advisory.p_two_sided).abs() < 1e-15);
        assert!(judged.findings[1].metrics[0].p_two_sided > 0.9);
        assert!(serde_json::to_string(&judged).unwrap().starts_with(r#"{"design":"unblocked""#));
    }

    #[test]
    fn gates_come_first() {
        let mut results = results();
        let invalid = |scope, code: &str| Invalid { scope, code: code.into() };
        results.invalid = vec![invalid(Scope::Config(1), "WorkMismatch"), invalid(Scope::Config(1), "FeatureMismatch")];
        let verdicts = |results: &Unblocked| {
            let findings = judge_unblocked(results).unwrap().findings;
            findings.iter().map(|f| format!("{:?} {}", f.outcome.verdict, f.outcome.reason)).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(&results), ["Inconclusive TooFewBlocks", "Invalid FeatureMismatch,WorkMismatch"]);
        results.invalid.push(invalid(Scope::Design, "FeatureMismatch"));
        assert_eq!(verdicts(&results), ["Invalid FeatureMismatch", "Invalid FeatureMismatch,WorkMismatch"]);
    }

    #[test]
    fn misfits_are_named() {
        let refused = |change: fn(&mut Unblocked)| {
            let mut results = results();
            change(&mut results);
            judge_unblocked(&results).map_err(|e| e.to_string()).unwrap_err()
        };
        assert_eq!(refused(|r| r.configs.clear()), "a design needs at least one config");
        assert_eq!(refused(|r| r.metrics.clear()), "a design needs at least one metric");
        assert_eq!(
            refused(|r| r.samples.clear()),
            "samples do not fit the design: 0 metrics have samples, 1 are declared"
        );
        assert_eq!(
            refused(|r| r.samples[0].configs.truncate(1)),
            "samples do not fit the design: metric \"latency\" has 1 configs, 2 are declared"
        );
        assert_eq!(
            refused(|r| r.samples[0].configs[1][2] = 0.0),
            "metric \"latency\" of config \"same\", run 2: 0 is not positive, but the metric is on a log scale"
        );
    }

    #[test]
    fn a_config_without_runs_has_no_numbers() {
        let mut results = results();
        results.samples[0].configs[0].clear();
        let advisory = &judge_unblocked(&results).unwrap().findings[0].metrics[0];
        assert_eq!((advisory.shift, advisory.mean_delta_percent, advisory.p_two_sided), (None, None, 1.0));
    }
}
