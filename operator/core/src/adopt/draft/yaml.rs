//! A draft as YAML with comments, as a person would write it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use assay_protocol::{KeyOrder, KeyValue, Mix, Preload, Role, Until, ValueBytes};

use super::super::baseline::grouped;
use super::super::defaults::{BUNDLED, Scope, TABLE};
use super::super::options_file::Options;
use super::{BASELINE, CANDIDATE, Change, Draft, DraftScenario};
use crate::validate::{API_VERSION, KIND};

/// Columns of a comment.
const WIDTH: usize = 100;

/// Repetitions from which on an experiment is judged before its end as well.
const REPETITIONS: u32 = 12;

pub fn write(draft: &Draft) -> String {
    let mut file = Page::default();
    for paragraph in &draft.head {
        file.comment(0, paragraph);
    }
    let left = draft.left_behind();
    if !left.is_empty() {
        file.line(0, "#");
        file.comment(0, "Not carried over:");
        for item in &left {
            file.comment(0, &format!("- {item}"));
        }
    }
    file.line(0, &format!("apiVersion: {API_VERSION}"));
    file.line(0, &format!("kind: {KIND}"));
    file.line(0, "metadata:");
    file.line(1, &format!("name: {}", scalar(&draft.name)));
    file.line(0, "spec:");
    if let Some(seed) = draft.seed {
        file.line(1, &format!("seed: {seed}"));
    }
    file.line(1, &format!("baseline: {BASELINE}"));
    file.line(1, "configs:");
    baseline(draft, &mut file);
    candidate(draft, &mut file);
    file.line(0, "");
    file.line(1, "scenarios:");
    for scenario in &draft.scenarios {
        self::scenario(scenario, &mut file);
    }
    rest(draft, &mut file);
    file.0
}

/// Text with two blanks for each step in.
#[derive(Default)]
struct Page(String);

impl Page {
    fn line(&mut self, depth: usize, text: &str) {
        let indent = if text.is_empty() { 0 } else { 2 * depth };
        let _ = writeln!(self.0, "{:indent$}{text}", "");
    }

    /// A paragraph, or one of a list.
    fn comment(&mut self, depth: usize, text: &str) {
        match text.strip_prefix("- ") {
            Some(item) => self.wrapped(depth, "# - ", item),
            None => self.wrapped(depth, "# ", text),
        }
    }

    fn wrapped(&mut self, depth: usize, first: &str, text: &str) {
        let printable: String = text.chars().map(|c| if is_printable(c) { c } else { '?' }).collect();
        let mut line = first.to_owned();
        for word in printable.split(' ').filter(|word| !word.is_empty()) {
            let is_full = 2 * depth + line.chars().count() + word.chars().count() > WIDTH;
            if is_full && line.trim_end().len() > first.trim_end().len() {
                self.line(depth, line.trim_end());
                line = format!("#{:width$}", "", width = first.len() - 1);
            }
            line.push_str(word);
            line.push(' ');
        }
        self.line(depth, line.trim_end());
    }
}

fn baseline(draft: &Draft, file: &mut Page) {
    let notes = draft.baseline_notes.iter().chain(&draft.baseline.assumed);
    for note in notes {
        file.comment(1, note);
    }
    file.line(1, &format!("- name: {BASELINE}"));
    if !draft.baseline.db.is_empty() {
        file.line(2, "dbOptions:");
        options(3, &draft.baseline.db, file);
    }
    let groups = grouped(&draft.baseline.families);
    if !groups.is_empty() {
        file.line(2, "columnFamilies:");
    }
    for (families, own) in groups {
        file.line(2, &format!("- match: {}", list(&families)));
        file.line(3, "options:");
        options(4, &own, file);
    }
    if let Some(cache) = draft.cache {
        let sharing = if cache.shared { "" } else { ", sharing: Private" };
        file.line(2, &format!("blockCache: {{size: {}{sharing}}}", quantity(cache.bytes)));
    }
    let write: Vec<&str> = [("sync: true", draft.write.sync), ("disableWAL: true", draft.write.disable_wal)]
        .into_iter()
        .filter_map(|(text, is_set)| is_set.then_some(text))
        .collect();
    if !write.is_empty() {
        file.line(2, &format!("writeOptions: {{{}}}", write.join(", ")));
    }
}

fn candidate(draft: &Draft, file: &mut Page) {
    let Some(change) = &draft.change else {
        file.comment(
            1,
            "What you want to try. It starts from the baseline: name only what changes. As long as it changes nothing, \
             the experiment shows the noise.",
        );
        file.line(1, &format!("- name: {CANDIDATE}"));
        let mut lines = Page::default();
        declared(&twice_the_block(draft), &mut lines);
        for line in lines.0.lines() {
            file.line(2, &format!("# {line}"));
        }
        return;
    };
    file.comment(1, "What you want to try. It starts from the baseline and names only what changes.");
    file.line(1, &format!("- name: {CANDIDATE}"));
    let mut lines = Page::default();
    declared(change, &mut lines);
    for line in lines.0.lines() {
        file.line(2, line);
    }
}

fn declared(change: &Change, lines: &mut Page) {
    let one = Options::from([(change.option.clone(), change.value.clone())]);
    match change.scope {
        Scope::Db => {
            lines.line(0, "dbOptions:");
            options(1, &one, lines);
        }
        Scope::Families => {
            lines.line(0, "columnFamilies:");
            lines.line(0, "- match: [\"*\"]");
            lines.line(1, "options:");
            options(2, &one, lines);
        }
    }
}

/// An example that changes something whatever the baseline has, and that acts whatever the scenarios do: blocks are read by
/// reads, and written by flushes and compactions.
fn twice_the_block(draft: &Draft) -> Change {
    let option = format!("{TABLE}.block_size");
    let own = |options: &Options| options.get(&option).and_then(|value| value.parse::<u64>().ok());
    let default = own(&BUNDLED.family).unwrap_or(4096);
    let families = draft.baseline.families.iter().map(|(_, options)| options);
    let largest = families.map(|options| own(options).unwrap_or(default)).max().unwrap_or(default);
    Change { scope: Scope::Families, value: largest.saturating_mul(2).to_string(), option }
}

fn scenario(scenario: &DraftScenario, file: &mut Page) {
    for note in &scenario.notes {
        file.comment(1, note);
    }
    let KeyValue { keys, key_bytes, value_bytes, compressed_percent, families, preload, roles } = &scenario.workload;
    file.line(1, &format!("- name: {}", scalar(&scenario.name)));
    file.line(2, "workload:");
    file.line(3, "keyValue:");
    file.line(4, &format!("keys: {keys}"));
    file.line(4, &format!("keyBytes: {key_bytes}"));
    let values = match value_bytes {
        ValueBytes::Fixed(bytes) => format!("{{fixed: {bytes}}}"),
        ValueBytes::Uniform { min, max } => format!("{{uniform: {{min: {min}, max: {max}}}}}"),
    };
    file.line(4, &format!("valueBytes: {values}"));
    file.line(4, &format!("compressedPercent: {compressed_percent}"));
    if families.as_slice() != ["default"] {
        file.line(4, &format!("families: {}", list(families)));
    }
    match preload {
        Preload::Shuffled => {}
        Preload::Sequential => file.line(4, "preload: Sequential"),
        Preload::Empty => file.line(4, "preload: Empty"),
    }
    file.line(4, "roles:");
    for role in roles {
        self::role(role, file);
    }
}

fn role(role: &Role, file: &mut Page) {
    file.line(4, &format!("- name: {}", scalar(&role.name)));
    let mut fields: Vec<(&str, String)> = Vec::new();
    if role.threads != 1 {
        fields.push(("threads", role.threads.to_string()));
    }
    if let Some(steps) = role.steps {
        fields.push(("steps", steps.to_string()));
    }
    if role.until == Some(Until::PrimaryEnds) {
        fields.push(("until", "PrimaryEnds".to_owned()));
    }
    if role.warmup_steps > 0 {
        fields.push(("warmupSteps", role.warmup_steps.to_string()));
    }
    if let Some(rate) = role.steps_per_second {
        fields.push(("stepsPerSecond", rate.to_string()));
    }
    fields.push(("mix", mix(role.mix)));
    if role.batch != 1 {
        fields.push(("batch", role.batch.to_string()));
    }
    if role.mix.scan > 0 {
        fields.push(("scanLength", role.scan_length.to_string()));
    }
    match role.key_order {
        KeyOrder::Uniform => {}
        KeyOrder::Sequential => fields.push(("keyOrder", "Sequential".to_owned())),
        KeyOrder::Zipfian => fields.push(("keyOrder", "Zipfian".to_owned())),
    }
    for (name, value) in fields {
        file.line(5, &format!("{name}: {value}"));
    }
}

fn mix(mix: Mix) -> String {
    let weights = [
        ("put", mix.put),
        ("get", mix.get),
        ("getMissing", mix.get_missing),
        ("delete", mix.delete),
        ("scan", mix.scan),
    ];
    let set: Vec<String> =
        weights.iter().filter(|(_, weight)| *weight > 0).map(|(name, weight)| format!("{name}: {weight}")).collect();
    format!("{{{}}}", set.join(", "))
}

/// What is judged, how often, and where.
fn rest(draft: &Draft, file: &mut Page) {
    let judged = draft.judged();
    file.line(0, "");
    file.comment(1, "Blocks of each scenario. Each config runs once in each block, in random order.");
    file.line(1, &format!("repetitions: {REPETITIONS}"));
    file.comment(1, "What has to improve, and the smallest difference that matters to you.");
    file.line(1, "objectives:");
    file.line(1, &format!("- metric: {}", judged.objective));
    file.line(2, if judged.objective == "step_latency_p99" { "margin: 10%" } else { "margin: 5%" });
    if let Some(metric) = judged.guardrail {
        file.comment(1, "What must be proven not to get worse.");
        file.line(1, "guardrails:");
        file.line(1, &format!("- metric: {metric}"));
        file.line(2, "margin: 10%");
    }
    file.line(1, "placement:");
    file.line(2, &format!("cpus: {}    # each trial is pinned to so many", draft.cpus_of_a_trial()));
}

/// Options as YAML, those of structs together.
fn options(depth: usize, flat: &Options, file: &mut Page) {
    let mut plain: BTreeMap<&str, String> = BTreeMap::new();
    let mut structs: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, value) in flat {
        match name.split_once('.') {
            Some((name, key)) => structs.entry(name).or_default().push(format!("{key}={value}")),
            None => drop(plain.insert(name, value.clone())),
        }
    }
    plain.extend(structs.into_iter().map(|(name, keys)| (name, format!("{{{}}}", keys.join(";")))));
    for (name, value) in plain {
        file.line(depth, &format!("{name}: {}", value_of(&value)));
    }
}

/// A value of an option: whole numbers as they are, everything else as text.
fn value_of(value: &str) -> String {
    let is_plain = value.parse::<i64>().is_ok_and(|number| number.to_string() == value);
    if is_plain { value.to_owned() } else { scalar(value) }
}

/// Words as they are, if YAML reads them as text, else between quotes.
fn scalar(text: &str) -> String {
    const RESERVED: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if is_word && !RESERVED.contains(&text.to_ascii_lowercase().as_str()) { text.to_owned() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if is_printable(c) => quoted.push(c),
            c => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(c));
            }
        }
    }
    quoted + "\""
}

/// What may stand in a YAML file as it is.
fn is_printable(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn list(names: &[String]) -> String {
    // A glob such as * would be an alias of YAML.
    let names: Vec<String> = names.iter().map(|name| scalar(name)).collect();
    format!("[{}]", names.join(", "))
}

/// Bytes in the largest unit that leaves no fraction.
pub fn quantity(bytes: u64) -> String {
    let units = [(30, "Gi"), (20, "Mi"), (10, "Ki")];
    let unit = units.iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    unit.map_or(bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}
