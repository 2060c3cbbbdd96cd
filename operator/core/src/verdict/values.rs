use super::{
    design::{Design, DesignError},
    observed::{MetricSamples, Observed},
};
use crate::stats::{Paired, ShapeError, Unmeasurable};

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum JudgeError {
    #[error(transparent)]
    Design(#[from] DesignError),
    #[error("samples do not fit the design: {0}")]
    Misfit(String),
    #[error("metric {metric:?} of config {config:?} in scenario {scenario:?}, block {block}: {value} {problem}")]
    Value { metric: String, scenario: String, config: String, block: usize, value: f64, problem: Unmeasurable },
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

/// One metric of one scenario, transformed so that differences are effects. What is invalid is missing here.
struct Row {
    /// `None` where a replicate is missing: such a block counts for no config.
    baseline: Vec<Option<Vec<f64>>>,
    configs: Vec<Vec<Option<f64>>>,
}

/// All values that may be judged.
pub(super) struct Values {
    rows: Vec<Vec<Row>>,
    weights: Vec<f64>,
    m0: usize,
    /// Blocks in every scenario that counts.
    pub complete: usize,
    /// Blocks in some.
    pub longest: usize,
}

/// The runs of one block that belong together: the config's and the baseline's.
type Block<'a> = (f64, &'a [f64]);

impl Row {
    fn block(&self, config: usize, block: usize) -> Option<Block<'_>> {
        let value = (*self.configs.get(config)?.get(block)?)?;
        Some((value, self.baseline.get(block)?.as_ref()?))
    }
}

impl Values {
    pub fn new(design: &Design, observed: &Observed) -> Result<Self, JudgeError> {
        if let Some(misfit) = observed.misfit(design) {
            return Err(JudgeError::Misfit(misfit));
        }
        let rows: Vec<Vec<Row>> = (0..design.scenarios.len())
            .map(|scenario| (0..design.metrics.len()).map(|metric| row(design, observed, scenario, metric)).collect())
            .collect::<Result<_, JudgeError>>()?;
        let lengths: Vec<usize> = (0..rows.len())
            .filter(|&s| !observed.scenario_is_invalid(s))
            .map(|s| observed.samples[s].first().map_or(0, |samples| samples.baseline.len()))
            .collect();
        Ok(Self {
            rows,
            weights: design.scenarios.iter().map(|s| s.weight).collect(),
            m0: design.m0,
            complete: lengths.iter().copied().min().unwrap_or(0),
            longest: lengths.iter().copied().max().unwrap_or(0),
        })
    }

    /// A config in one scenario, on these blocks.
    pub fn cell(
        &self,
        scenario: usize,
        config: usize,
        metric: usize,
        blocks: impl Iterator<Item = usize>,
    ) -> Result<Paired, ShapeError> {
        let row = &self.rows[scenario][metric];
        self.paired(blocks.filter_map(|b| row.block(config, b)).map(|(c, baseline)| (c, baseline.to_vec())))
    }

    /// Every block's baseline runs in one scenario; `None` where one is missing.
    pub fn baseline(&self, scenario: usize, metric: usize) -> &[Option<Vec<f64>>] {
        &self.rows[scenario][metric].baseline
    }

    /// A config's run in a block, whether or not the block counts.
    pub fn run(&self, scenario: usize, config: usize, metric: usize, block: usize) -> Option<f64> {
        *self.rows[scenario][metric].configs.get(config)?.get(block)?
    }

    /// A config over all scenarios ("Overall"): the weighted mean of what they say in the same round, where all of them do.
    pub fn overall(
        &self,
        config: usize,
        metric: usize,
        rounds: impl Iterator<Item = usize>,
    ) -> Result<Paired, ShapeError> {
        let total: f64 = self.weights.iter().sum();
        let round = |block: usize| {
            let mut sum = (0.0, vec![0.0; self.m0]);
            for (row, weight) in self.rows.iter().map(|rows| &rows[metric]).zip(&self.weights) {
                let (c, baseline) = row.block(config, block)?;
                let share = weight / total;
                sum.0 += share * c;
                sum.1.iter_mut().zip(baseline).for_each(|(to, b)| *to += share * b);
            }
            Some(sum)
        };
        self.paired(rounds.filter_map(round))
    }

    fn paired(&self, pairs: impl Iterator<Item = (f64, Vec<f64>)>) -> Result<Paired, ShapeError> {
        let (configs, baselines): (Vec<f64>, Vec<Vec<f64>>) = pairs.unzip();
        Paired::new(configs, baselines.concat(), self.m0)
    }
}

fn row(design: &Design, observed: &Observed, scenario: usize, metric: usize) -> Result<Row, JudgeError> {
    let MetricSamples { baseline, configs } = &observed.samples[scenario][metric];
    let rule = &design.metrics[metric];
    let transformed = |config: &str, block: usize, value: f64| {
        rule.scale.transform(rule.direction, value).map_err(|problem| JudgeError::Value {
            metric: rule.name.clone(),
            scenario: design.scenarios[scenario].name.clone(),
            config: config.to_owned(),
            block,
            value,
            problem,
        })
    };
    if observed.scenario_is_invalid(scenario) {
        return Ok(Row { baseline: Vec::new(), configs: Vec::new() });
    }
    let baseline_block = |(block, runs): (usize, &Vec<Option<f64>>)| {
        let values: Vec<f64> = runs.iter().flatten().copied().collect();
        if values.len() < design.m0 {
            return Ok(None);
        }
        values.into_iter().map(|value| transformed("baseline", block, value)).collect::<Result<_, _>>().map(Some)
    };
    let config_values = |(config, values): (usize, &Vec<Option<f64>>)| {
        if !observed.cell_codes(scenario, config).is_empty() {
            return Ok(Vec::new());
        }
        let name = &design.configs[config];
        let block =
            |(block, value): (usize, &Option<f64>)| value.map(|value| transformed(name, block, value)).transpose();
        values.iter().enumerate().map(block).collect()
    };
    Ok(Row {
        baseline: baseline.iter().enumerate().map(baseline_block).collect::<Result<_, _>>()?,
        configs: configs.iter().enumerate().map(config_values).collect::<Result<_, _>>()?,
    })
}
