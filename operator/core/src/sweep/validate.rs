//! From what a user wrote to a sweep: every problem at once, each with its field and with what to do.
//!
//! A night is an experiment, so what is wrong with it is found where experiments are validated, and told at the field of the sweep that it
//! comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::LazyLock;

use assay_api::{Bisect, Detect, TuningSweep, TuningSweepSpec};
use assay_protocol::OptionsAnswer;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::confirm::{Promised, UNSUREST};
use super::detect::Watch;
use super::notify::Target;
use super::point::MOST_SERIES;
use super::schedule::{Schedule, Unscheduled};
use crate::experiment::{Experiment, Scenario};
use crate::plan::{assumed, assumed_seconds};
use crate::validate::{
    API_VERSION, FieldPath, KIND as EXPERIMENT, Problem, Segment, Validation, did_you_mean, fraction, schema,
    validate_document as validate_experiment,
};

/// The kind of a sweep.
pub const KIND: &str = "TuningSweep";
/// The smallest chance of an error of a confirmation: a surer one takes too many blocks.
const SUREST: f64 = 0.0001;
/// The longest name: that of a night has its minute, too.
const NAME: usize = 49;

/// What is known of a sweep after reading it.
#[derive(Clone, Debug, Default)]
pub struct Validated {
    own: Vec<Problem>,
    /// The experiment of a night.
    pub night: Validation,
    /// Set when no problem is an error.
    pub spec: Option<TuningSweepSpec>,
}

/// Validates an object that is typed already, such as one from the API server.
pub fn validate(name: &str, spec: &TuningSweepSpec, now: Timestamp) -> Validated {
    match serde_json::to_value(spec) {
        Ok(spec) => validate_document(
            &json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}),
            now,
        ),
        Err(error) => {
            let problem = Problem::error(FieldPath::root().key("spec"), format!("can't be written as JSON: {error}"));
            Validated { own: vec![problem], ..Validated::default() }
        }
    }
}

/// Validates a document as it was read, before any type is put on it. `now` is where the schedule begins.
pub fn validate_document(document: &Value, now: Timestamp) -> Validated {
    static SCHEMA: LazyLock<Result<Value, String>> =
        LazyLock::new(|| assay_api::schema::<TuningSweep>().map_err(|error| error.to_string()));
    let mut own = Vec::new();
    match &*SCHEMA {
        Ok(schema) => {
            let path = FieldPath::root().key("spec");
            match document.get("spec").filter(|spec| spec.is_object()) {
                Some(spec) => own.extend(schema::check(&schema["properties"]["spec"], spec, &path)),
                None => {
                    own.push(Problem::error(FieldPath::root(), "spec is required: it says what to measure, and when"));
                }
            }
        }
        Err(error) => own.push(Problem::error(FieldPath::root(), format!("can't build the schema of {KIND}: {error}"))),
    }
    let night = validate_experiment(&experiment_document(document));
    let mut validated = Validated { own, night, spec: None };
    if validated.has_errors() {
        // What the sweep adds to an experiment may be sound all the same.
        if let Some(spec) = document.get("spec").and_then(Value::as_object) {
            let problems = schedule_problems(spec, now).1;
            // Its own words say more than its length does.
            validated.own.retain(|own| problems.iter().all(|problem| problem.path != own.path));
            validated.own.extend(problems);
        }
        return validated;
    }
    match serde_json::from_value::<TuningSweepSpec>(document["spec"].clone()) {
        Ok(spec) => {
            let problems = check(document, &spec, &validated, now);
            validated.own.extend(problems);
            validated.spec = (!validated.has_errors()).then_some(spec);
        }
        Err(error) => validated.own.push(Problem::error(FieldPath::root().key("spec"), error.to_string())),
    }
    validated
}

impl Validated {
    /// What is wrong, by the fields of the sweep, in the order of the document.
    pub fn problems(&self) -> Vec<Problem> {
        let refused = |path: &FieldPath| self.own.iter().any(|own| own.is_error() && own.path == *path);
        let told = self.night.problems.iter().map(|problem| {
            let message = in_words_of_a_sweep(&problem.message);
            Problem { path: as_sweep(&problem.path), message, ..problem.clone() }
        });
        // Words of the sweep's own schema name its own fields.
        let told = told.filter(|problem| !problem.is_error() || !refused(&problem.path));
        let all: BTreeSet<Problem> = self.own.iter().cloned().chain(told).collect();
        // One mistake, one line: what both schemas refuse was said once.
        let mut seen = BTreeSet::new();
        all.into_iter()
            .filter(|problem| !problem.is_error() || seen.insert((problem.path.clone(), problem.message.clone())))
            .collect()
    }

    /// Subjects times scenarios times metrics; none where its night is not sound.
    pub fn series(&self) -> Option<usize> {
        self.night.experiment.as_ref().map(Experiment::series)
    }

    /// What it watches for; nothing of its own where it is not sound.
    pub fn watch(&self, now: Timestamp) -> Watch {
        let sound = self.spec.as_ref().zip(self.night.experiment.as_ref());
        sound.map(|(spec, experiment)| Watch::of(spec, experiment, now)).unwrap_or_default()
    }

    pub fn has_errors(&self) -> bool {
        self.own.iter().chain(&self.night.problems).any(Problem::is_error)
    }

    /// Adds what RocksDB says about the options.
    pub fn add_answer(&mut self, answer: &OptionsAnswer) {
        self.night.add_answer(answer);
        if self.has_errors() {
            self.spec = None;
        }
    }
}

/// The document of the experiment that a night of this sweep is.
fn experiment_document(sweep: &Value) -> Value {
    let mut document = sweep.clone();
    if document["kind"] == KIND {
        document["kind"] = json!(EXPERIMENT);
    }
    let Some(spec) = sweep.get("spec").and_then(Value::as_object) else { return document };
    let mut night = spec.get("experiment").and_then(Value::as_object).cloned().unwrap_or_default();
    let subjects = spec.get("subjects").and_then(Value::as_array);
    let configs = spec.get("reference").into_iter().chain(subjects.into_iter().flatten()).cloned();
    night.insert("configs".to_owned(), configs.collect());
    if let Some(matrix) = spec.get("matrix") {
        night.insert("matrix".to_owned(), matrix.clone());
    }
    if let Some(name) = spec.get("reference").and_then(|reference| reference.get("name")) {
        night.insert("baseline".to_owned(), name.clone());
    }
    night.insert("stopOn".to_owned(), json!("Never"));
    document["spec"] = Value::Object(night);
    document
}

/// The field of a sweep that a field of its night comes from.
fn as_sweep(path: &FieldPath) -> FieldPath {
    let spec = FieldPath::root().key("spec");
    let (base, rest) = match path.segments() {
        [Segment::Key(first), Segment::Key(field), Segment::Index(config), rest @ ..]
            if first == "spec" && field == "configs" =>
        {
            match config.checked_sub(1) {
                None => (spec.key("reference"), rest),
                Some(subject) => (spec.key("subjects").index(subject), rest),
            }
        }
        [Segment::Key(first), Segment::Key(field)] if first == "spec" && field == "configs" => {
            (spec.key("subjects"), &[][..])
        }
        [Segment::Key(first), Segment::Key(field), ..] if first == "spec" && field == "baseline" => {
            (spec.key("reference").key("name"), &[][..])
        }
        [Segment::Key(first), Segment::Key(field), rest @ ..] if first == "spec" && field == "matrix" => {
            (spec.key("matrix"), rest)
        }
        [Segment::Key(first)] if first == "spec" => (spec.key("experiment"), &[][..]),
        [Segment::Key(first), rest @ ..] if first == "spec" => (spec.key("experiment"), rest),
        _ => return path.clone(),
    };
    rest.iter().fold(base, |path, segment| match segment {
        Segment::Key(key) => path.key(key),
        Segment::Index(index) => path.index(*index),
    })
}

/// What a message about a night says, of a sweep.
fn in_words_of_a_sweep(message: &str) -> String {
    const CONFIG: &str = "spec.configs[";
    let mut parts = message.split(CONFIG);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let config = part.split_once(']').and_then(|(index, rest)| Some((index.parse::<usize>().ok()?, rest)));
        match config {
            Some((0, rest)) => out.extend(["spec.reference", rest]),
            // Writing to a string can't fail.
            Some((config, rest)) => {
                let _ = write!(out, "spec.subjects[{}]{rest}", config - 1);
            }
            None => out.extend([CONFIG, part]),
        }
    }
    let few = "has 1 entry, needs at least 2: the baseline and a config to compare with it; or add a matrix";
    out.replace(few, "has no entry, needs at least 1: a config to compare with the reference; or add a matrix")
        .replace("the baseline", "the reference")
}

fn schedule_problems(spec: &Map<String, Value>, now: Timestamp) -> (Option<Schedule>, Vec<Problem>) {
    let text = |field: &str| spec.get(field).and_then(Value::as_str);
    let Some(schedule) = text("schedule") else { return (None, Vec::new()) };
    let path = FieldPath::root().key("spec");
    match Schedule::parse(schedule, text("timeZone").unwrap_or("Etc/UTC"), now) {
        Ok(schedule) => (Some(schedule), Vec::new()),
        Err(Unscheduled::Schedule(why)) => (None, vec![Problem::error(path.key("schedule"), why)]),
        Err(Unscheduled::Zone(why)) => (None, vec![Problem::error(path.key("timeZone"), why)]),
    }
}

/// What a sweep adds to an experiment, where both are sound by themselves.
fn check(document: &Value, spec: &TuningSweepSpec, validated: &Validated, now: Timestamp) -> Vec<Problem> {
    let path = |keys: &str| FieldPath::root().keys(keys);
    let (schedule, mut problems) = schedule_problems(document["spec"].as_object().unwrap_or(&Map::new()), now);
    let name = document["metadata"]["name"].as_str();
    if name.is_none() {
        problems.push(Problem::error(path("metadata"), "name is required: nights are named after it"));
    }
    if name.is_some_and(|name| name.len() > NAME) {
        let message = format!("must have at most {NAME} characters, because the minute of each night is added to it");
        problems.push(Problem::error(path("metadata.name"), message));
    }
    let Some(experiment) = &validated.night.experiment else { return problems };
    let (subjects, scenarios, metrics) =
        (experiment.candidates().count(), experiment.scenarios.len(), experiment.metrics.len());
    if let Some(series) = validated.series().filter(|series| *series > MOST_SERIES) {
        let message = format!(
            "makes {series} series ({subjects} subjects x {scenarios} scenarios x {metrics} metrics), at most {MOST_SERIES} allowed: \
             make two sweeps, or leave out some"
        );
        problems.push(Problem::error(path("spec"), message));
    }
    if let Some(closest) = schedule.and_then(|schedule| schedule.closest(now)) {
        problems.extend(too_close(experiment, closest));
    }
    problems.extend(detect_problems(&spec.detect));
    problems.extend(spec.bisect.iter().flat_map(|bisect| candidate_problems(bisect, experiment)));
    if let Some(notify) = &spec.notify
        && let Err(why) = Target::parse(&notify.webhook.url)
    {
        problems.push(Problem::error(path("spec.notify.webhook.url"), why));
    }
    if spec.reference.image.as_deref().is_some_and(|image| !is_pinned(image)) {
        let message = "is a tag: where it moves, all series begin again. Name the reference's image by digest, as in repository@sha256:...";
        problems.push(Problem::warning(path("spec.reference.image"), message));
    }
    problems
}

/// Promises that nobody can keep.
fn detect_problems(detect: &Detect) -> Vec<Problem> {
    let path = FieldPath::root().keys("spec.detect");
    let mut problems = Vec::new();
    if detect.margin.as_deref().and_then(fraction).is_some_and(|margin| margin <= 0.0 || margin >= 1.0) {
        problems.push(Problem::error(
            path.key("margin"),
            "must be above 0% and below 100%: every night is a little different",
        ));
    }
    let alpha = Promised::of(detect).alpha;
    // Sums and products of such numbers are not exact.
    if !(SUREST * 0.999..=UNSUREST * 1.001).contains(&alpha) {
        let [low, high] = [SUREST, UNSUREST].map(|alpha| alpha * f64::from(detect.confirmations_per_year));
        let message = format!(
            "must be {low:.4} to {high:.1} with confirmationsPerYear {}: each confirmation may err with a chance of {SUREST} to {UNSUREST}",
            detect.confirmations_per_year
        );
        problems.push(Problem::error(path.key("falseAlertsPerYear"), message));
    }
    problems
}

/// Candidates of nobody, and revisions that are two versions.
fn candidate_problems(bisect: &Bisect, experiment: &Experiment) -> Vec<Problem> {
    let path = FieldPath::root().keys("spec.bisect.candidates");
    let subjects: Vec<&str> = experiment.candidates().map(|config| config.name.as_str()).collect();
    let mut problems = Vec::new();
    let mut seen: BTreeMap<(Option<&str>, &str), usize> = BTreeMap::new();
    for (index, own) in bisect.candidates.iter().enumerate() {
        let at = |field: &str| path.index(index).key(field);
        if let Some(subject) = own.subject.as_deref().filter(|subject| !subjects.contains(subject)) {
            let hint = did_you_mean(subject, subjects.iter().copied());
            problems.push(Problem::error(at("subject"), format!("there is no subject {subject}{hint}")));
        }
        let Some(revision) = own.revision.as_deref() else { continue };
        if let Some(first) = seen.insert((own.subject.as_deref(), revision), index) {
            let message = format!("duplicate {revision:?}; first used in {}", path.index(first).key("revision"));
            problems.push(Problem::error(at("revision"), message));
        }
    }
    problems
}

/// Nights that are due before the one before them can have ended.
fn too_close(experiment: &Experiment, closest: SignedDuration) -> Option<Problem> {
    let path = FieldPath::root().keys("spec.schedule");
    let slots = experiment.configs.len() as f64 - 1.0 + f64::from(experiment.baseline_replicates);
    let block = |scenario: &Scenario| assumed(scenario, experiment.cpus).trial_seconds * slots;
    let longest = experiment.scenarios.iter().map(block).fold(0.0, f64::max);
    let (between, whole) = (closest.as_secs_f64(), assumed_seconds(experiment));
    if longest > between {
        let message = format!(
            "nights are {between:.0} s apart, and a single block takes about {longest:.0} s: let more time pass between nights"
        );
        return Some(Problem::error(path, message));
    }
    let message = format!(
        "nights are {between:.0} s apart, and one takes about {whole:.0} s on one node: unless several nodes share the work, nights will be \
         skipped as PreviousRunning"
    );
    (whole > between).then(|| Problem::warning(path, message))
}

/// Whether an image is named by what it is.
pub fn is_pinned(image: &str) -> bool {
    let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    image.split_once("@sha256:").is_some_and(|(repository, digest)| {
        !repository.is_empty() && digest.len() == 64 && digest.chars().all(is_digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::Severity;

    fn now() -> Timestamp {
        "2026-11-26T12:00:00Z".parse().expect("a time")
    }

    fn sweep() -> Value {
        json!({
            "apiVersion": "assay.rocks/v1alpha1",
            "kind": "TuningSweep",
            "metadata": {"name": "nightly"},
            "spec": {
                "schedule": "17 1 * * *",
                "reference": {"name": "release", "image": format!("r.example/bench@sha256:{}", "0".repeat(64))},
                "subjects": [{"name": "main", "image": "r.example/bench:main", "revision": "4f2c1d"}],
                "experiment": {
                    "scenarios": [{"name": "fill", "workload": {"keyValue": {"keys": 1000, "valueBytes": {"fixed": 100},
                        "roles": [{"name": "writer", "steps": 10000, "mix": {"put": 1}}]}}}],
                    "repetitions": 8,
                    "objectives": [{"metric": "throughput", "margin": "3%"}],
                },
            },
        })
    }

    /// What is said of a sweep after a change, a line each.
    fn said(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut document = sweep();
        change(&mut document);
        let validated = validate_document(&document, now());
        let errors = validated.problems().iter().any(Problem::is_error);
        assert_eq!(validated.spec.is_none(), errors, "{document}");
        let worse = |problem: &&Problem| problem.severity != Severity::Note;
        validated.problems().iter().filter(worse).map(ToString::to_string).collect()
    }

    #[test]
    fn a_sound_sweep_is_a_sound_experiment_every_night() {
        assert_eq!(said(|_| ()), [""; 0]);
        let document = sweep();
        let spec = validate_document(&document, now()).spec.expect("a spec");
        let night = super::super::night::experiment(&spec);
        let direct = crate::validate::validate("nightly-20261127-0117", &night);
        assert!(direct.experiment.is_some(), "{:?}", direct.problems);
        assert!(!validate("nightly", &spec, now()).has_errors());
    }

    #[test]
    fn a_matrix_makes_subjects() {
        let jobs = |number: u32| json!({"dbOptions": {"max_background_jobs": number}});
        let builds = json!([
            {"name": "tip", "image": "r.example/bench:tip", "revision": "4f2c1d"}, {"name": "old", "image": "r.example/bench:old"},
        ]);
        let matrix = json!({"axes": [{"name": "build", "values": builds}, {"name": "jobs", "values": [jobs(3), jobs(4)]}],
            "exclude": [{"build": "old", "jobs": 4}]});
        let mut document = sweep();
        document["spec"].as_object_mut().expect("a spec").remove("subjects");
        let said = |document: &Value| {
            let problems = validate_document(document, now()).problems();
            problems.iter().filter(|problem| problem.is_error()).map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(said(&document).len(), 1, "nothing to measure: {:?}", said(&document));
        document["spec"]["matrix"] = matrix;
        assert_eq!(said(&document), [""; 0]);
        let validated = validate_document(&document, now());
        assert_eq!(validated.series(), Some(3 * 2));
        let night = super::super::night::experiment(&validated.spec.expect("a spec"));
        let configs: Vec<(&str, Option<&str>)> =
            night.configs.iter().map(|config| (config.name.as_str(), config.revision.as_deref())).collect();
        let expected = [
            ("release", None),
            ("build-tip-jobs-3", Some("4f2c1d")),
            ("build-tip-jobs-4", Some("4f2c1d")),
            ("build-old-jobs-3", None),
        ];
        assert_eq!(configs, expected);
        assert_eq!(night.matrix, None, "whoever pins an image finds a config for it");
        document["spec"]["matrix"]["axes"][1]["values"][0] = json!({"dbOptions": {"wal_dir": "x"}});
        let wrong = said(&document);
        assert!(wrong[0].starts_with("spec.matrix.axes[1].values[0].dbOptions.wal_dir: "), "{wrong:?}");
    }

    #[test]
    fn what_is_wrong_is_told_at_the_field_of_the_sweep() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str); 14] = [
            (|sweep| sweep["spec"]["schedule"] = json!("0 0 31 2 *"), "spec.schedule: is never due"),
            (
                |sweep| sweep["spec"]["timeZone"] = json!("Mars/Olympus"),
                "spec.timeZone: \"Mars/Olympus\" is no time zone",
            ),
            (|sweep| sweep["spec"]["subjects"][0]["name"] = json!("release"), "spec.subjects[0].name: "),
            (
                |sweep| {
                    let subject = sweep["spec"]["subjects"][0].clone();
                    sweep["spec"]["subjects"] = json!([subject, subject]);
                },
                "spec.subjects[1].name: ",
            ),
            (
                |sweep| sweep["spec"]["subjects"][0]["dbOptions"] = json!({"wal_dir": "x"}),
                "spec.subjects[0].dbOptions.wal_dir: ",
            ),
            (|sweep| sweep["spec"]["reference"]["dbOption"] = json!({}), "spec.reference.dbOption: unknown field"),
            (|sweep| sweep["spec"]["experiment"]["repetition"] = json!(3), "spec.experiment.repetition: unknown field"),
            (|sweep| sweep["spec"]["experiment"]["stopOn"] = json!("Cells"), "spec.experiment.stopOn: unknown field"),
            (
                |sweep| sweep["spec"]["experiment"]["objectives"][0]["metric"] = json!("througput"),
                "spec.experiment.objectives[0].metric: ",
            ),
            (|sweep| sweep["spec"]["experiment"]["scenarios"] = json!([]), "spec.experiment.scenarios: "),
            (|sweep| sweep["spec"]["concurrencyPolicy"] = json!("Allow"), "spec.concurrencyPolicy: "),
            (|sweep| sweep["spec"]["startingDeadlineSeconds"] = json!(5), "spec.startingDeadlineSeconds: "),
            (|sweep| sweep["metadata"]["name"] = json!("n".repeat(50)), "metadata.name: must have at most 49"),
            (
                |sweep| sweep["spec"]["cost"] = json!({"perNodeHour": "cheap", "currency": "EUR"}),
                "spec.cost.perNodeHour: ",
            ),
        ];
        for (change, expected) in cases {
            let said = said(change);
            assert!(said.iter().any(|line| line.starts_with(expected)), "{expected}: {said:?}");
            let mut once = said.clone();
            once.dedup();
            assert_eq!(once, said, "one mistake, one line");
        }
    }

    #[test]
    fn promises_that_nobody_can_keep_are_refused() {
        let promised = |detect: Value| said(|sweep| sweep["spec"]["detect"] = detect);
        for sound in [json!({}), json!({"confirmationsPerYear": 6, "margin": "2.5%"})] {
            assert_eq!(promised(sound.clone()), [""; 0], "{sound}");
        }
        let cases = [
            (json!({"confirmationsPerYear": 0}), "confirmationsPerYear: "),
            (json!({"margin": "0%"}), "margin: must be above 0% and below 100%"),
            (json!({"margin": "100%"}), "margin: must be above 0% and below 100%"),
            (json!({"margin": "3"}), "margin: "),
            (json!({"alpha": 1}), "alpha: unknown field"),
            (json!({"falseAlertsPerYear": "0"}), "falseAlertsPerYear: must be 0.0050 to 5.0 with"),
            (json!({"falseAlertsPerYear": "6"}), "falseAlertsPerYear: must be 0.0050 to 5.0 with"),
            (json!({"falseAlertsPerYear": 1}), "falseAlertsPerYear: "),
            (json!({"visitGapSeconds": 10}), "visitGapSeconds: "),
        ];
        for (detect, expected) in cases {
            let said = promised(detect);
            assert!(said.len() == 1 && said[0].starts_with(&format!("spec.detect.{expected}")), "{expected}: {said:?}");
        }
    }

    #[test]
    fn candidates_are_versions_of_a_subject_each_with_a_revision_of_its_own() {
        let of = |candidates: Value| said(|sweep| sweep["spec"]["bisect"] = json!({"candidates": candidates}));
        let subject = json!({"image": "r/b:1", "revision": "one", "subject": "main", "weight": 3});
        for sound in
            [json!([{"image": "r/b:1"}, {"image": "r/b:1"}]), json!([subject, {"image": "r/b:2", "revision": "one"}])]
        {
            assert_eq!(of(sound.clone()), [""; 0], "{sound}");
        }
        let cases = [
            (json!([]), ": has 0 entries"),
            (json!([{"revision": "one"}]), "[0]: image is required"),
            (json!([{"image": "r/b", "weight": 0}]), "[0].weight: "),
            (json!([{"image": "r/b", "subject": "mane"}]), "[0].subject: there is no subject mane; did you mean"),
            (
                json!([{"image": "r/b:1", "revision": "one"}, {"image": "r/b:2", "revision": "one"}]),
                "[1].revision: duplicate \"one\"; first used in spec.bisect.candidates[0].revision",
            ),
        ];
        for (candidates, expected) in cases {
            let said = of(candidates);
            let expected = format!("spec.bisect.candidates{expected}");
            assert!(said.len() == 1 && said[0].starts_with(&expected), "{expected}: {said:?}");
        }
    }

    #[test]
    fn a_webhook_needs_an_address_and_a_key() {
        let secret = json!({"name": "hooks", "key": "token"});
        let webhook = |webhook: Value| said(|sweep| sweep["spec"]["notify"] = json!({"webhook": webhook}));
        let to = |url: &str| webhook(json!({"url": url, "secretRef": secret}));
        for sound in ["https://hooks.example.com/assay?team=storage", "http://[fd00::7]:8080"] {
            assert_eq!(to(sound), [""; 0], "{sound}");
        }
        let cases = [
            (to("hooks.example.com"), ".url: must be an address that begins with https://"),
            (to("https://user:word@hooks.example.com"), ".url: must not have a user or a password"),
            (to("https://2130706433/"), ".url: has no host"),
            (webhook(json!({"url": "https://hooks.example.com"})), ": secretRef is required"),
            (
                webhook(json!({"url": "https://h.example", "secretRef": {"name": "hooks"}})),
                ".secretRef: key is required",
            ),
            (
                webhook(json!({"url": "https://h.example", "secretRef": {"name": "../x", "key": "token"}})),
                ".secretRef.name: ",
            ),
        ];
        for (said, expected) in cases {
            let expected = format!("spec.notify.webhook{expected}");
            assert!(said.len() == 1 && said[0].starts_with(&expected), "{expected}: {said:?}");
        }
    }

    #[test]
    fn a_sweep_watches_for_what_it_declares() {
        let mut document = sweep();
        let watch = |document: &Value| validate_document(document, now()).watch(now());
        let plain = watch(&document);
        // Two series of one night a day.
        assert_eq!((plain.alarm, plain.margins["throughput"]), (Some(100.0), 0.03));
        document["spec"]["detect"] = json!({"margin": "1%", "confirmationsPerYear": 2});
        let watch = watch(&document);
        assert!((watch.alarm.unwrap() - 365.0).abs() < 2.0, "{watch:?}");
        assert_eq!(watch.margins.values().copied().collect::<Vec<_>>(), [0.01; 2]);
    }

    #[test]
    fn too_many_series_are_refused_with_their_count() {
        let many = |subjects: usize| {
            said(|sweep| {
                let all = (0..subjects).map(
                    |number| json!({"name": format!("s{number}"), "dbOptions": {"max_background_jobs": number + 3}}),
                );
                sweep["spec"]["subjects"] = all.collect();
                sweep["spec"]["experiment"]["repetitions"] = json!(14);
                let scenario = sweep["spec"]["experiment"]["scenarios"][0].clone();
                let scenarios = (0..10).map(|number| {
                    let mut scenario = scenario.clone();
                    scenario["name"] = json!(format!("fill-{number}"));
                    scenario
                });
                sweep["spec"]["experiment"]["scenarios"] = scenarios.collect();
            })
        };
        // Throughput and the default guardrail.
        assert_eq!(many(25), [""; 0]);
        let said = many(26);
        assert!(
            said[0].starts_with("spec: makes 520 series (26 subjects x 10 scenarios x 2 metrics), at most 500 allowed"),
            "{said:?}"
        );
    }

    #[test]
    fn nights_that_are_due_before_one_can_end_are_refused() {
        let each = |steps: u64, schedule: &str| {
            said(|sweep| {
                sweep["spec"]["schedule"] = json!(schedule);
                sweep["spec"]["experiment"]["scenarios"][0]["workload"]["keyValue"]["roles"][0]["steps"] = json!(steps);
            })
        };
        assert_eq!(each(10_000, "*/10 * * * *"), [""; 0]);
        let said = each(20_000_000, "*/10 * * * *");
        assert!(
            said.len() == 1
                && said[0].starts_with("warning: spec.schedule: nights are 600 s apart, and one takes about"),
            "{said:?}"
        );
        let said = each(2_000_000_000, "*/10 * * * *");
        assert!(
            said[0].starts_with("spec.schedule: nights are 600 s apart, and a single block takes about"),
            "{said:?}"
        );
    }

    #[test]
    fn a_digest_is_what_registries_call_one() {
        let digest = "0123456789abcdef".repeat(4);
        assert!(is_pinned(&format!("r.example/bench@sha256:{digest}")));
        let upper = digest.to_uppercase();
        for wrong in
            [&format!("@sha256:{digest}"), &format!("r@sha256:{upper}"), &format!("r@sha256:{digest}0"), "r:tag"]
        {
            assert!(!is_pinned(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_reference_that_can_move_is_warned_of() {
        let said = said(|sweep| sweep["spec"]["reference"]["image"] = json!("r.example/bench:release"));
        assert!(said.len() == 1 && said[0].starts_with("warning: spec.reference.image: is a tag"), "{said:?}");
    }
}
