//! Everything that is checked before an experiment is planned or run, in one report.

use std::fmt;
use std::path::Path;
use std::rc::Rc;

use assay_api::{TuningExperimentSpec, TuningSweepSpec};
use assay_core::experiment::Experiment;
use assay_core::sweep::validate as sweeps;
use assay_core::validate::matrix::Expansion;
use assay_core::validate::{self, FieldPath, Problem, Severity, Validation, did_you_mean};
use assay_protocol::OptionProblem;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::document::{self, Document};
use super::node::Node;
use super::problem::{FileProblem, Position};
use crate::bench::{BenchArg, Benches};

/// What a file may declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Experiment,
    Sweep,
    Either,
}

/// What is known of a file with an experiment or a sweep.
#[derive(Debug)]
pub struct Checked {
    file: String,
    lines: Vec<Line>,
    /// The experiment; of a sweep, that of a night. Set when nothing is wrong.
    pub experiment: Option<Experiment>,
    /// Its spec with the configs of its matrix written out, where it could be read at all.
    pub spec: Option<TuningExperimentSpec>,
    /// Where those configs come from.
    pub matrix: Expansion,
    /// The sweep, if the file has one and nothing is wrong.
    pub sweep: Option<TuningSweepSpec>,
    /// The benches that were asked.
    pub benches: Option<Benches>,
    /// What was read: a pipe can't be read again.
    pub document: Option<Document>,
    /// What RocksDB rejects, in its own words.
    pub rejected: Vec<OptionProblem>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    at: Option<Position>,
    severity: Severity,
    text: String,
}

/// Reads and checks a file: the document, the experiment, its options, and the disk. `free` gives the bytes that an experiment
/// may use, where they are to be checked.
pub fn check(
    file: &Path,
    wanted: Wanted,
    bench: &[BenchArg],
    free: impl FnOnce(&Experiment) -> Option<anyhow::Result<u64>>,
) -> Checked {
    check_document(file, document::read(file), wanted, |checked, validation| {
        if let Some(experiment) = &validation.experiment {
            match free(experiment) {
                Some(Ok(free)) => {
                    let problem = validate::disk::check(experiment, free);
                    validation.problems.extend(problem);
                }
                Some(Err(error)) => checked.fail(format!("{error:#}")),
                None => {}
            }
        }
        checked.ask_benches(validation, bench);
    })
}

/// The same for a cluster: its operator asks the bench that runs there, so a bench of this machine is a help at most.
pub fn check_for_cluster(file: &Path, wanted: Wanted) -> Checked {
    check_document(file, document::read(file), wanted, |checked, validation| {
        checked.ask_a_bench_if_there(validation, "options not checked here; the operator will check them");
    })
}

/// The same for a file that is to be written. It can do without a bench: whoever runs it needs one.
pub fn check_text(file: &Path, text: String) -> Checked {
    check_document(file, document::parse(text.into_bytes()), Wanted::Experiment, |checked, validation| {
        checked.ask_a_bench_if_there(validation, "options not checked; `assay validate` will check them");
    })
}

fn check_document(
    file: &Path,
    document: Result<Document, Vec<FileProblem>>,
    wanted: Wanted,
    further: impl FnOnce(&mut Checked, &mut Validation),
) -> Checked {
    let name = if file.as_os_str() == "-" { "standard input".to_owned() } else { file.display().to_string() };
    let mut checked = Checked {
        file: name,
        lines: Vec::new(),
        experiment: None,
        spec: None,
        sweep: None,
        matrix: Expansion::default(),
        benches: None,
        document: None,
        rejected: Vec::new(),
    };
    let document = match document {
        Ok(document) => document,
        Err(problems) => {
            let lines = problems.into_iter();
            checked.lines.extend(lines.map(|p| Line { at: p.at, severity: Severity::Error, text: p.message }));
            return checked;
        }
    };
    let mut declared = Declared::read(&document.value, wanted);
    further(&mut checked, declared.experiment());
    checked.add(&document.places, declared.problems());
    checked.lines.sort();
    checked.lines.dedup();
    let is_sound = checked.errors() == 0;
    let experiment = match declared {
        Declared::Experiment(experiment) => *experiment,
        Declared::Sweep(sweep) => {
            checked.sweep = sweep.spec.filter(|_| is_sound);
            sweep.night
        }
    };
    checked.experiment = experiment.experiment.filter(|_| is_sound);
    checked.spec = experiment.spec;
    checked.matrix = experiment.matrix;
    checked.document = Some(document);
    checked
}

/// Why a document is not of the kind that it should be. Whatever else it says of its fields would only mislead.
fn other_kind(document: &Value, wanted: Wanted) -> Option<String> {
    let (kind, spec) = (document["kind"].as_str().unwrap_or_default(), &document["spec"]);
    if kind == sweeps::KIND {
        return None;
    }
    let has = |field: &str| spec.get(field).is_some();
    if has("schedule") && (has("subjects") || has("experiment")) {
        return Some(format!("must be {}: spec has the fields of a sweep", sweeps::KIND));
    }
    let hint = did_you_mean(kind, [sweeps::KIND, validate::KIND]);
    (wanted == Wanted::Sweep || hint.contains(sweeps::KIND)).then(|| format!("must be {}{hint}", sweeps::KIND))
}

/// A document as it was read.
enum Declared {
    Experiment(Box<Validation>),
    Sweep(Box<sweeps::Validated>),
}

impl Declared {
    fn read(document: &Value, wanted: Wanted) -> Self {
        if let Some(message) = other_kind(document, wanted) {
            let mut refused = Validation::default();
            refused.problems.push(Problem::error(FieldPath::root().key("kind"), message));
            return Self::Experiment(Box::new(refused));
        }
        let is_sweep = document["kind"] == sweeps::KIND;
        if wanted == Wanted::Experiment || (wanted == Wanted::Either && !is_sweep) {
            return Self::Experiment(Box::new(validate::validate_document(document)));
        }
        Self::Sweep(Box::new(sweeps::validate_document(document, Timestamp::now())))
    }

    fn experiment(&mut self) -> &mut Validation {
        match self {
            Self::Experiment(experiment) => experiment,
            Self::Sweep(sweep) => &mut sweep.night,
        }
    }

    /// With the fields that the document has.
    fn problems(&self) -> Vec<Problem> {
        match self {
            Self::Experiment(experiment) => experiment.problems.clone(),
            Self::Sweep(sweep) => sweep.problems(),
        }
    }
}

impl Checked {
    /// Number of problems that refuse the experiment.
    pub fn errors(&self) -> usize {
        self.count(Severity::Error)
    }

    pub fn warnings(&self) -> usize {
        self.count(Severity::Warning)
    }

    pub fn file(&self) -> &str {
        &self.file
    }

    fn count(&self, severity: Severity) -> usize {
        self.lines.iter().filter(|line| line.severity == severity).count()
    }

    fn add(&mut self, places: &Rc<Node>, problems: impl IntoIterator<Item = Problem>) {
        self.lines.extend(problems.into_iter().map(|problem| Line {
            at: Some(places.find(&problem.path, problem.at_key)),
            severity: problem.severity,
            text: problem.to_string(),
        }));
    }

    fn fail(&mut self, text: String) {
        self.lines.push(Line { at: None, severity: Severity::Error, text });
    }

    fn ask_benches(&mut self, validation: &mut Validation, bench: &[BenchArg]) {
        if validation.spec.is_none() {
            return;
        }
        let mut benches = match Benches::find(bench) {
            Ok(benches) => benches,
            Err(error) => return self.fail(format!("options not checked: {error}")),
        };
        let named = std::mem::take(&mut benches.by_config);
        for (name, path) in &named {
            let configs = validation.run_by(name);
            if configs.is_empty() {
                self.fail(format!(
                    "--bench {name}=PATH: no config {name:?} declares an image; declare one, or remove the flag"
                ));
            }
            for config in configs {
                // What names a config says more of it than what names a value that it has.
                let path = named.get(config).unwrap_or(path);
                benches.by_config.insert(config.to_owned(), path.clone());
            }
        }
        for question in validation.questions() {
            match benches.ask(&question) {
                Ok(answer) => validation.add_answer(&answer),
                Err(error) => self.fail(format!("options not checked: {error:#}")),
            }
        }
        self.benches = Some(benches);
    }

    fn ask_a_bench_if_there(&mut self, validation: &mut Validation, otherwise: &str) {
        let Some(spec) = &validation.spec else { return };
        let mut questions = validation.questions();
        for question in &mut questions {
            // Another image may know other options.
            question.configs.retain(|name, _| !spec.configs.iter().any(|c| c.name == *name && c.image.is_some()));
        }
        let asked = Benches::find(&[]).and_then(|benches| {
            questions.iter().map(|question| benches.ask(question)).collect::<anyhow::Result<Vec<_>>>()
        });
        match asked {
            Ok(answers) => {
                for answer in answers {
                    validation.add_answer(&answer);
                    self.rejected.extend(answer.problems);
                }
            }
            Err(error) => {
                let text = format!("note: {otherwise} ({error:#})");
                self.lines.push(Line { at: None, severity: Severity::Note, text });
            }
        }
    }
}

impl fmt::Display for Checked {
    /// One problem a line, as compilers write them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            match line.at {
                Some(Position { line: row, column }) => writeln!(f, "{}:{row}:{column}: {}", self.file, line.text)?,
                None => writeln!(f, "{}: {}", self.file, line.text)?,
            }
        }
        Ok(())
    }
}
