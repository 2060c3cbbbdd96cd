//! What is asked: the candidates between two of a list, and how to measure them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use assay_core::bisect::{Bisection, Candidate, Listed, Question, QuestionError};
use assay_core::experiment::Experiment;
use assay_core::validate::{FieldPath, Problem};
use assay_core::verdict::MetricRule;
use assay_protocol::Digest;

use super::Search;
use crate::file::ListingFile;
use crate::print;

/// A list of candidates, and which of them are searched.
pub struct Asked {
    pub file: ListingFile,
    pub range: RangeInclusive<usize>,
    path: PathBuf,
}

impl Asked {
    pub fn read(path: &Path, good: &str, bad: &str) -> anyhow::Result<Self> {
        let file = ListingFile::read(path)?;
        let range = file.listing.between(good, bad).map_err(|why| anyhow!("{}: {why}", path.display()))?;
        Ok(Self { file, range, path: path.to_owned() })
    }

    /// From the good end to the bad end.
    pub fn candidates(&self) -> &[Listed] {
        &self.file.listing.candidates[self.range.clone()]
    }

    /// The same, each with the path of a field of it.
    pub fn fields<'a>(&'a self, field: &'a str) -> impl Iterator<Item = (&'a Listed, FieldPath)> + 'a {
        let paths = self.range.clone().map(move |index| ListingFile::field(index, field));
        self.candidates().iter().zip(paths)
    }

    /// The file of the experiment or the sweep.
    pub fn experiment(&self) -> anyhow::Result<PathBuf> {
        let path = self.file.path(&self.file.listing.experiment);
        if !path.is_file() {
            let message = format!("there is no file {}: paths start at the folder of this file", path.display());
            self.file.check(&[Problem::error(FieldPath::root().key("experiment"), message)])?;
        }
        Ok(path)
    }

    /// Refuses candidates of a kind that can't run where it was asked for.
    pub fn refuse(&self, field: &str, is_it: impl Fn(&Listed) -> bool, why: &str) -> anyhow::Result<()> {
        let wrong = self.fields(field).find(|(listed, _)| is_it(listed));
        let problem = wrong.map(|(_, path)| Problem::error(path, why));
        self.file.check(problem.as_slice())
    }

    /// The candidates that configs of the experiment are, with the names of these and the digests of what they set; none if they are no
    /// configs.
    pub fn configs(&self, template: &Experiment) -> anyhow::Result<Vec<(&str, Digest)>> {
        let (mut configs, mut problems) = (Vec::new(), Vec::new());
        for (listed, path) in self.fields("config") {
            let Some(name) = &listed.config else { continue };
            match template.config(name) {
                None => problems.push(Problem::error(path, format!("the experiment has no config {name:?}"))),
                Some(config) if config.image.is_some() => {
                    let message =
                        format!("config {name:?} declares an image: list that, or its program as bench, instead");
                    problems.push(Problem::error(path, message));
                }
                Some(config) => configs.push((name.as_str(), Digest::of_json(&config.engine)?)),
            }
        }
        self.file.check(&problems)?;
        Ok(configs)
    }

    /// The search among candidates that these are the digests of.
    pub fn search(&self, template: &Experiment, digests: &[Digest]) -> anyhow::Result<Search> {
        let (scenario, rule) = (self.scenario(template)?, self.metric(template)?);
        let listing = &self.file.listing;
        let weigh =
            |(listed, digest): (&Listed, &Digest)| Candidate { digest: digest.clone(), weight: listed.weight.into() };
        let candidates = self.candidates().to_vec();
        let bisection = Bisection::new(Question {
            candidates: candidates.iter().zip(digests).map(weigh).collect(),
            margin: rule.scale.margin(rule.margin),
            blocks: listing.blocks_per_visit,
            proof: listing.proof_blocks,
            budget: listing.budget_blocks,
        });
        let bisection = bisection.map_err(|error| match error {
            QuestionError::NoSuspect => {
                let ends = [candidates.first(), candidates.last()].map(|end| end.map_or("", |end| end.name.as_str()));
                anyhow!("{} and {} are the same program or config", ends[0], ends[1])
            }
            error => anyhow!("{}: {error}", self.path.display()),
        })?;
        Ok(Search {
            candidates,
            rule,
            scenario,
            bisection,
            avoided: BTreeMap::new(),
            made: Vec::new(),
            number: 0,
            nothing: 0,
        })
    }

    /// The scenario that is run: the first one, unless another one is named.
    fn scenario(&self, template: &Experiment) -> anyhow::Result<String> {
        let names: Vec<&str> = template.scenarios.iter().map(|scenario| scenario.name.as_str()).collect();
        let name = match (&self.file.listing.scenario, &names[..]) {
            (Some(name), _) => name.as_str(),
            (None, [first, others @ ..]) => {
                if !others.is_empty() {
                    print::note(format_args!(
                        "assay: searching in scenario {first}; to search in {} instead, name it as `scenario` in {}",
                        others.join(" or "),
                        self.path.display()
                    ));
                }
                first
            }
            (None, []) => bail!("the experiment has no scenario"),
        };
        let Some(scenario) = template.scenario(name) else {
            let message = format!("the experiment has no scenario {name:?}; it has {}", names.join(", "));
            self.file.check(&[Problem::error(FieldPath::root().key("scenario"), message)])?;
            bail!("no scenario {name}");
        };
        if scenario.dataset_from.is_some() {
            bail!("scenario {name} sets dataset.from, which a bisection can't: each candidate writes its own data");
        }
        Ok(name.to_owned())
    }

    /// The metric that is searched.
    fn metric(&self, template: &Experiment) -> anyhow::Result<MetricRule> {
        let names: Vec<&str> = template.measured().map(|rule| rule.name.as_str()).collect();
        let wanted = self.file.listing.metric.as_deref();
        let rule = template.measured().find(|rule| wanted.is_none_or(|name| rule.name == name));
        if rule.is_none() {
            let wanted = wanted.unwrap_or_default();
            let message = format!("the experiment judges no metric {wanted:?}; it judges {}", names.join(", "));
            self.file.check(&[Problem::error(FieldPath::root().key("metric"), message)])?;
        }
        rule.cloned().context("the experiment judges no metric")
    }
}
