//! From what a user wrote to an [`Experiment`]: every problem at once, each with its field and with what to do.
//!
//! Three steps: the document against the schema of the custom resource, then what no schema can say, then what only
//! RocksDB knows, which somebody else has to ask it: [`Validation::questions`] and [`Validation::answer_problems`].

mod configs;
pub mod disk;
mod doubtful;
mod hints;
pub mod matrix;
mod memtables;
mod mend;
mod metrics;
mod options;
mod percent;
mod placement;
mod problem;
mod queries;
mod reach;
mod scenarios;
pub mod schema;
mod suggest;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use assay_api::{CellsAdjust, Requirement, TuningExperiment, TuningExperimentSpec};
use assay_protocol::{Digest, OptionsAnswer, OptionsQuestion, Summary};
use serde_json::{Value, json};

pub use configs::is_owned;
pub(crate) use configs::over;
use matrix::Expansion;
pub use percent::{display as display_percent, fraction};
pub use problem::{FieldPath, Problem, Segment, Severity};
pub(crate) use reach::levels;
pub use suggest::{did_you_mean, nearest};

use crate::experiment::{ConfigUnderTest, Environment, Experiment, Scenario, default_wait};
use crate::plan::Plan;
use crate::stats::{Adjust, default_m0};

/// The group and version that this build reads.
pub const API_VERSION: &str = "assay.rocks/v1alpha1";

/// The kind of an experiment.
pub const KIND: &str = "TuningExperiment";

/// More trials than this are a slip of the pen: at a second each they would run for a day.
const MOST_TRIALS: u64 = 100_000;

/// What is known of an experiment after reading it.
#[derive(Clone, Debug, Default)]
pub struct Validation {
    /// In the order of the document.
    pub problems: Vec<Problem>,
    /// Set when no problem is an error.
    pub experiment: Option<Experiment>,
    /// The spec with the configs of its matrix written out, where it could be read at all.
    pub spec: Option<TuningExperimentSpec>,
    /// Where those configs come from.
    pub matrix: Expansion,
    /// Where the spec has something else than the document.
    mended: Vec<FieldPath>,
}

impl Validation {
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(Problem::is_error)
    }

    /// What RocksDB has to be asked about the options: one question for each way to use the page cache.
    pub fn questions(&self) -> Vec<OptionsQuestion> {
        self.spec.as_ref().map(options::questions).unwrap_or_default()
    }

    /// What RocksDB says about the options, as problems of the fields that the user wrote.
    pub fn answer_problems(&self, answer: &OptionsAnswer) -> Vec<Problem> {
        let found = self.spec.as_ref().map(|spec| options::answer_problems(spec, answer));
        self.matrix.told(found.unwrap_or_default())
    }

    /// The configs that a program runs which is named `name`: the one of this name, or those with the value of this name, whose
    /// image is its own.
    pub fn run_by(&self, name: &str) -> Vec<&str> {
        let configs = || self.spec.iter().flat_map(|spec| spec.configs.iter().enumerate());
        let with_image = || configs().filter(|(_, config)| config.image.is_some());
        let own = with_image().find(|(_, config)| config.name == name).map(|(_, config)| config.name.as_str());
        own.map_or_else(
            || {
                let of_value = with_image().filter(|(index, _)| self.matrix.bench(*index) == Some(name));
                of_value.map(|(_, config)| config.name.as_str()).collect()
            },
            |own| vec![own],
        )
    }

    /// Adds what RocksDB says about the options.
    pub fn add_answer(&mut self, answer: &OptionsAnswer) {
        let Some(spec) = &self.spec else { return };
        let refused: BTreeSet<FieldPath> =
            self.problems.iter().filter(|problem| problem.is_error()).map(|problem| problem.path.clone()).collect();
        let mut answer = answer.clone();
        // What was not understood of a config may be all that would have had an effect.
        answer.all_inert.retain(|config| {
            let path = options::asked_index(spec, config).map(|index| self.matrix.place(index));
            workloads_known(&self.mended)
                && !refused.iter().any(|field| path.as_ref().is_some_and(|path| field.is_within(path)))
        });
        let mut found = self.answer_problems(&answer);
        // One mistake, one line: of a value that is no text RocksDB knows what it should be, and of what else is wrong it knows less.
        found.retain(|problem| !refused.contains(&problem.path) || self.mended.contains(&problem.path));
        let known_better: BTreeSet<FieldPath> =
            found.iter().filter(|problem| problem.is_error()).map(|problem| problem.path.clone()).collect();
        self.problems.retain(|problem| !(self.mended.contains(&problem.path) && known_better.contains(&problem.path)));
        self.problems.extend(found);
        if self.has_errors() {
            self.experiment = None;
        }
    }
}

/// Validates an object that is typed already, such as one from the API server.
pub fn validate(name: &str, spec: &TuningExperimentSpec) -> Validation {
    match serde_json::to_value(spec) {
        Ok(spec) => validate_document(&json!({
            "apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec,
        })),
        Err(error) => refused(FieldPath::root().key("spec"), format!("can't be written as JSON: {error}")),
    }
}

/// Validates a document as it was read, before any type is put on it.
pub fn validate_document(document: &Value) -> Validation {
    // It is always the same, and takes longer to make than all that follows.
    static SCHEMA: LazyLock<Result<Value, String>> =
        LazyLock::new(|| assay_api::schema::<TuningExperiment>().map_err(|error| error.to_string()));
    let schema = match &*SCHEMA {
        Ok(schema) => schema,
        Err(error) => return refused(FieldPath::root(), format!("can't build the schema of {KIND}: {error}")),
    };
    let Some(object) = document.as_object() else {
        let message = format!("must be a {KIND}, not {}", schema::describe(document));
        return refused(FieldPath::root(), message);
    };
    let mut problems = Vec::new();
    if !is_ours(object, &mut problems) {
        return Validation { problems, ..Validation::default() };
    }
    for key in object.keys() {
        match key.as_str() {
            "apiVersion" | "kind" | "metadata" | "spec" => {}
            "status" => {
                let message = "is ignored: only the operator sets it";
                problems.push(Problem::note(FieldPath::root().key("status"), message).at_key());
            }
            _ => {
                let hint = did_you_mean(key, ["metadata", "spec"]);
                let message = format!("unknown field{hint}; an experiment has apiVersion, kind, metadata and spec");
                problems.push(Problem::error(FieldPath::root().key(key), message).at_key());
            }
        }
    }
    let name = check_metadata(object.get("metadata").unwrap_or(&Value::Null), &mut problems);
    let path = FieldPath::root().key("spec");
    let spec_schema = &schema["properties"]["spec"];
    let mut spec = object.get("spec").cloned().unwrap_or(Value::Null);
    if spec.is_null() {
        problems.push(Problem::error(FieldPath::root(), "spec is required: it says what to compare"));
        return Validation { problems, ..Validation::default() };
    }
    problems.extend(schema::check(spec_schema, &spec, &path));
    schema::prune(spec_schema, &mut spec);
    let mended = mend::mend(spec_schema, &mut spec, &path);
    match serde_json::from_value::<TuningExperimentSpec>(spec) {
        Ok(spec) => validate_spec(&name, spec, problems, mended),
        Err(error) => {
            // Something that was not mended.
            problems.push(Problem::error(path, error.to_string()));
            Validation { problems, ..Validation::default() }
        }
    }
}

fn refused(path: FieldPath, message: String) -> Validation {
    Validation { problems: vec![Problem::error(path, message)], ..Validation::default() }
}

/// Whether this can be read as an experiment. One of another version can, so that its other mistakes are named as well.
fn is_ours(object: &serde_json::Map<String, Value>, problems: &mut Vec<Problem>) -> bool {
    let mut is_ours = false;
    for (field, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        match object.get(field) {
            Some(Value::String(text)) if text == expected => is_ours = true,
            Some(other) => {
                let message = format!("must be {expected}, not {}", schema::describe(other));
                problems.push(Problem::error(FieldPath::root().key(field), message));
            }
            None => problems
                .push(Problem::error(FieldPath::root(), format!("{field} is required: write {field}: {expected}"))),
        }
    }
    is_ours
}

/// Whether every scenario has the workload that the document gives it: families, metrics and rates are those of workloads.
fn workloads_known(mended: &[FieldPath]) -> bool {
    !mended.iter().any(|path| match path.segments() {
        [Segment::Key(_), Segment::Key(list), rest @ ..] if list == "scenarios" => match rest {
            [_, Segment::Key(field), inner @ ..] => {
                let names_families = matches!(inner, [_, Segment::Key(field), ..] if field == "families");
                field == "workload" && (inner.len() < 2 || names_families)
            }
            _ => true,
        },
        _ => false,
    })
}

/// Workloads of which a part could not be read: how much they do is not known, and what stands in for that part says nothing.
struct Unread(Vec<FieldPath>);

impl Unread {
    fn of<'a>(unread: impl Iterator<Item = &'a FieldPath>) -> Self {
        let workload = |path: &FieldPath| match path.segments() {
            [_, Segment::Key(list), _, Segment::Key(field), ..] if list == "scenarios" && field == "workload" => {
                Some(FieldPath::of(&path.segments()[..4]))
            }
            [_, Segment::Key(list), rest @ ..] if list == "scenarios" && rest.len() < 2 => Some(path.clone()),
            _ => None,
        };
        Self(unread.filter_map(workload).collect())
    }

    fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a field belongs to one of them.
    fn is_about(&self, field: &FieldPath) -> bool {
        self.0.iter().any(|path| field.is_within(path))
    }
}

/// Fields of metadata that Kubernetes knows. Only the name matters here.
const METADATA: [&str; 14] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "uid",
];

fn check_metadata(metadata: &Value, problems: &mut Vec<Problem>) -> String {
    let path = FieldPath::root().key("metadata");
    let Some(object) = metadata.as_object() else {
        let message = if metadata.is_null() {
            "metadata is required: write metadata: {name: NAME}".to_owned()
        } else {
            format!("metadata must be a map with a name, not {}", schema::describe(metadata))
        };
        problems.push(Problem::error(FieldPath::root(), message));
        return String::new();
    };
    for key in object.keys().filter(|key| !METADATA.contains(&key.as_str())) {
        let message = format!("unknown field{}", did_you_mean(key, METADATA));
        problems.push(Problem::error(path.key(key), message).at_key());
    }
    match object.get("name") {
        // The longest that a label holds: pods and records carry the name.
        Some(Value::String(name)) => {
            let schema = json!({"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"});
            problems.extend(schema::check(&schema, &json!(name), &path.key("name")));
            name.clone()
        }
        Some(other) if !other.is_null() => {
            let message = format!("must be a string, not {}", schema::describe(other));
            problems.push(Problem::error(path.key("name"), message));
            String::new()
        }
        _ => generated(object, &path, problems),
    }
}

/// Where a cluster gives each experiment a name of its own: what all of them begin with.
fn generated(metadata: &serde_json::Map<String, Value>, path: &FieldPath, problems: &mut Vec<Problem>) -> String {
    let Some(prefix) = metadata.get("generateName").filter(|prefix| !prefix.is_null()) else {
        problems.push(Problem::error(path.clone(), "name is required: results are stored under it"));
        return String::new();
    };
    // A cluster adds five characters.
    let schema = json!({"type": "string", "minLength": 1, "maxLength": 58, "pattern": "^[a-z0-9][-a-z0-9]*$"});
    problems.extend(schema::check(&schema, prefix, &path.key("generateName")));
    prefix.as_str().unwrap_or_default().trim_end_matches('-').to_owned()
}

fn validate_spec(
    name: &str,
    spec: TuningExperimentSpec,
    mut problems: Vec<Problem>,
    mended: Vec<FieldPath>,
) -> Validation {
    let (spec, matrix, of_matrix) = matrix::expand(spec);
    let written = &spec.configs[..matrix.written()];
    // One mistake, one line: what the schema refuses needs no second opinion, and of what stands in for it none is asked.
    let refused: BTreeSet<FieldPath> = problems.iter().map(|problem| problem.path.clone()).collect();
    let is_known = |problem: &Problem| {
        refused.contains(&problem.path) || mended.iter().any(|path| problem.path.is_within(path))
            // Without its unknown fields a map may seem to lack something.
            || refused.iter().any(|path| path.parent().as_ref() == Some(&problem.path))
    };
    let workloads_known = workloads_known(&mended);
    let unread = Unread::of(mended.iter().chain(&refused));
    let of_work = |check: fn(&TuningExperimentSpec) -> Vec<Problem>| {
        if unread.is_nothing() { check(&spec) } else { Vec::new() }
    };
    let of_workloads = scenarios::check(&spec, written)
        .into_iter()
        .filter(|problem| problem.is_error() || !unread.is_about(&problem.path));
    let same = if workloads_known { matrix.same(&spec) } else { Vec::new() };
    // How many configs there are says how many blocks are needed.
    let blocks = FieldPath::root().keys("spec.repetitions");
    let of_configs = [
        configs::check(&spec, &matrix, workloads_known),
        of_work(reach::check),
        of_work(memtables::check),
        of_work(doubtful::without_writes),
        doubtful::check(&spec),
        of_workloads.collect(),
        metrics::check(&spec, unread.is_nothing()),
        queries::check(&spec),
        placement::check(&spec.placement),
    ];
    let found = matrix.told(of_configs.into_iter().flatten().collect());
    let found = found.into_iter().filter(|problem| !(matrix.is_partial && problem.path == blocks));
    let found = of_matrix.into_iter().chain(same).chain(found);
    problems.extend(found.filter(|problem| !is_known(problem)));
    let mut experiment = None;
    if !problems.iter().any(Problem::is_error) {
        match build(name, &spec) {
            Ok(built) => {
                problems.extend(size_problems(&built));
                experiment = Some(built);
            }
            Err(problem) => problems.push(problem),
        }
    }
    if problems.iter().any(Problem::is_error) {
        experiment = None;
        // A config may seem to change nothing only because its fields were not understood.
        problems.retain(|problem| problem.severity != Severity::Note);
    }
    Validation { problems, experiment, spec: Some(spec), matrix, mended }
}

/// The experiment of a spec that has passed every check.
fn build(name: &str, spec: &TuningExperimentSpec) -> Result<Experiment, Problem> {
    let unreadable = |error: serde_json::Error| Problem::error(FieldPath::root().key("spec"), error.to_string());
    let mut canonical = serde_json::to_value(spec.fixed()).map_err(unreadable)?;
    // Whether maps keep their order is a feature of serde_json that any dependency can switch on.
    canonical.sort_all_objects();
    let digest = Digest::of_json(&canonical).map_err(unreadable)?;
    let baseline = configs::baseline_index(spec)
        .ok_or_else(|| Problem::error(FieldPath::root().keys("spec.baseline"), "no such config"))?;
    let engines = configs::effective(spec);
    let changes = |index: usize| {
        let config = &spec.configs[index];
        if index == baseline { Vec::new() } else { configs::changes(spec, &engines[baseline], &engines[index], config) }
    };
    let configs = spec.configs.iter().enumerate().map(|(index, config)| ConfigUnderTest {
        name: config.name.clone(),
        engine: engines[index].clone(),
        changes: changes(index),
        image: config.image.clone(),
    });
    let scenarios = spec.scenarios.iter().map(|scenario| Scenario {
        name: scenario.name.clone(),
        weight: scenario.weight,
        workload: scenario.workload.clone(),
        page_cache: scenario.page_cache,
        dataset_from: scenario.dataset.from.clone(),
        deadline_seconds: u64::from(scenario.deadline_seconds),
        max_disk_bytes: disk::limit(&scenario.workload),
    });
    Ok(Experiment {
        name: name.to_owned(),
        spec: digest,
        seed: spec.seed,
        baseline,
        configs: configs.collect(),
        scenarios: scenarios.collect(),
        repetitions: spec.repetitions,
        looks: metrics::looks(spec),
        cells_adjust: match spec.cells_adjust {
            CellsAdjust::Holm => Adjust::Holm,
            CellsAdjust::BenjaminiHochberg => Adjust::Bh,
        },
        baseline_replicates: default_m0(spec.configs.len() - 1) as u32,
        metrics: metrics::rules(spec),
        queries: queries::queries(spec),
        cpus: spec.placement.cpus,
        require_nvme: spec.placement.require_nvme,
        require_exclusive_cpus: spec.placement.require_exclusive_cpus == Requirement::Require,
        environment: match spec.placement.environment() {
            assay_api::Environment::Dedicated => Environment::Dedicated,
            assay_api::Environment::Shared => Environment::Shared,
        },
        max_block_duration_seconds: u64::from(spec.max_block_duration_seconds),
        max_wait_seconds: spec.max_wait_seconds.map_or_else(default_wait, u64::from),
    })
}

/// Limits that only the whole experiment can break.
fn size_problems(experiment: &Experiment) -> Vec<Problem> {
    let mut problems = Vec::new();
    let path = FieldPath::root().keys("spec.repetitions");
    let trials = experiment.trials();
    if trials > MOST_TRIALS {
        let message = format!(
            "makes {trials} trials, at most {MOST_TRIALS} allowed: use fewer repetitions, configs or scenarios"
        );
        problems.push(Problem::error(path, message));
        return problems;
    }
    // Names are all that differs in length, so the longest of each kind decide for all.
    let longest_config = experiment.configs.iter().max_by_key(|config| config.name.len());
    let longest_scenario = experiment.scenarios.iter().max_by_key(|scenario| scenario.name.len());
    let (Some(config), Some(scenario)) = (longest_config, longest_scenario) else { return problems };
    let spec = Plan::largest_spec(experiment, scenario, config);
    if let Err(error) = Summary::check_fits(&spec) {
        problems.push(Problem::error(FieldPath::root().key("spec"), error.to_string()));
    }
    problems
}

/// `1 block`, `2 blocks`.
pub(crate) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
pub(crate) mod tests;
