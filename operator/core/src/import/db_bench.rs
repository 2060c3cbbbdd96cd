//! The output of RocksDB's own benchmark, `db_bench`, as it prints it.

use std::collections::BTreeMap;

use super::collect::Collector;
use super::data::{Place, Sample};
use super::policy::Policy;

/// Words that only `db_bench` prints.
pub const SIGNS: [&str; 3] = [" micros/op ", "RocksDB:    version", "DB path: ["];
/// What a line begins with that says which run comes next: `# assay: config=lz4 block=3`.
pub const MARK: &str = "# assay:";
/// What to do where names of files seem to number runs in another way.
pub const NAMING: &str = "A file of db_bench output is named CONFIG.BLOCK.txt, such as plain.1.txt; any other name is a config of its \
                          own. In output of several runs in one file, put a line `# assay: config=NAME block=NUMBER` before each run.";
/// Objectives unless a policy declares others.
pub const DEFAULT_OBJECTIVE: &str = "ops_per_sec";

/// Which run a piece of output is of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunId {
    pub config: Option<String>,
    pub block: Option<String>,
    pub replicate: Option<String>,
}

impl RunId {
    /// As the policy says, else as the file's name says: `CONFIG.BLOCK.REPLICATE.txt`, where both numbers may be missing.
    pub fn of_file(name: &str, policy: &Policy) -> Self {
        if let Some(run) = policy.runs.iter().find(|run| run.file == name) {
            let (config, block, replicate) = (Some(run.config.clone()), run.block.clone(), run.replicate.clone());
            return Self { config, block, replicate };
        }
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let number = |text: &str| -> Option<(String, String)> {
            let (rest, last) = text.rsplit_once('.')?;
            let digits = !last.is_empty() && last.chars().all(|c| c.is_ascii_digit());
            (digits && !rest.is_empty()).then(|| (rest.to_owned(), last.to_owned()))
        };
        let Some((rest, last)) = number(stem) else { return Self { config: Some(stem.to_owned()), ..Self::default() } };
        match number(&rest) {
            Some((config, block)) => Self { config: Some(config), block: Some(block), replicate: Some(last) },
            None => Self { config: Some(rest), block: Some(last), replicate: None },
        }
    }

    /// The rest of a mark: `config=lz4 block=3 replicate=1`.
    fn of_mark(text: &str) -> Result<Self, String> {
        let mut run = Self::default();
        for word in text.split_whitespace() {
            let Some((key, value)) = word.split_once('=').filter(|(_, value)| !value.is_empty()) else {
                return Err(format!("{word:?} is not valid: write `{MARK} config=NAME block=NUMBER`"));
            };
            match key {
                "config" => run.config = Some(value.to_owned()),
                "block" => run.block = Some(value.to_owned()),
                "replicate" => run.replicate = Some(value.to_owned()),
                _ => return Err(format!("unknown key {key}: use config, block or replicate")),
            }
        }
        if run.config.is_none() { Err("config is missing: add config=NAME".to_owned()) } else { Ok(run) }
    }
}

/// Reads output line by line; one reader per file.
#[derive(Debug)]
pub struct Reader {
    file: u32,
    run: RunId,
    marked: bool,
    /// Programs that have begun under this run's name.
    programs: u32,
    build: Option<String>,
    /// Sizes of keys, values and the database, as the header has them.
    sizes: BTreeMap<&'static str, String>,
    /// How often each benchmark has run in this program.
    times: BTreeMap<String, u32>,
    /// The scenario and work of the last result: its histograms follow.
    last: Option<(String, String)>,
    operation: Option<String>,
    results: usize,
}

impl Reader {
    pub fn new(file: u32, run: RunId) -> Self {
        Self {
            file,
            run,
            marked: false,
            programs: 0,
            build: None,
            sizes: BTreeMap::new(),
            times: BTreeMap::new(),
            last: None,
            operation: None,
            results: 0,
        }
    }

    pub fn line(&mut self, number: u64, line: &str, to: &mut Collector<'_>) {
        let place = Place { file: self.file, line: number };
        // Progress is overwritten in place.
        let line = line.trim_end().rsplit('\r').next().unwrap_or_default();
        if let Some(mark) = line.strip_prefix(MARK) {
            match RunId::of_mark(mark) {
                Ok(run) => (self.run, self.marked, self.programs) = (run, true, 0),
                Err(problem) => to.problem(place, None, problem),
            }
            self.begin();
        } else if let Some(version) = line.strip_prefix("RocksDB:") {
            self.build = Some(format!(
                "RocksDB{}",
                version.replace("version", "").split_whitespace().fold(String::new(), |t, w| t + " " + w)
            ));
        } else if let Some(rest) = line.strip_prefix("Keys:  ") {
            self.programs += 1;
            self.begin();
            self.size("keyBytes", rest);
        } else if let Some(rest) = line.strip_prefix("Values:  ") {
            self.size("valueBytes", rest);
        } else if let Some(rest) = line.strip_prefix("Entries:  ") {
            self.size("entries", rest);
        } else if line.starts_with("WARNING:") {
            let name = self.run.config.as_deref().unwrap_or("a config");
            to.note(format!("db_bench of {name}: {line}"));
        } else if let Some(result) = Outcome::parse(line) {
            self.outcome(place, &result, to);
        } else if let Some(operation) = line.strip_prefix("Microseconds per ").and_then(|rest| rest.strip_suffix(':')) {
            self.operation = Some(operation.to_owned());
        } else if let Some(rest) = line.strip_prefix("Percentiles:") {
            self.percentiles(place, rest, to);
        }
    }

    /// Whatever went wrong must not look like a file without results.
    pub fn finish(self, to: &mut Collector<'_>) {
        if self.results == 0 {
            let place = Place { file: self.file, line: 0 };
            to.problem(place, None, "no db_bench result found: did the run finish?");
        }
        let ends_in_number = |config: &String| config.ends_with(|c: char| c.is_ascii_digit());
        if !self.marked && self.run.block.is_none() && self.run.config.as_ref().is_some_and(ends_in_number) {
            to.note(NAMING);
        }
    }

    /// Another program, or another part of one.
    fn begin(&mut self) {
        self.times.clear();
        self.last = None;
        self.operation = None;
    }

    fn size(&mut self, name: &'static str, text: &str) {
        if let Some(size) = text.split_whitespace().next() {
            self.sizes.insert(name, size.to_owned());
        }
    }

    fn outcome(&mut self, place: Place, result: &Outcome<'_>, to: &mut Collector<'_>) {
        self.results += 1;
        let times = self.times.entry(result.name.to_owned()).or_insert(0);
        *times += 1;
        // Later runs find what earlier ones have left: they are another scenario.
        let scenario = if *times == 1 { result.name.to_owned() } else { format!("{}-{times}", result.name) };
        let mut work: Vec<String> = self.sizes.iter().map(|(name, size)| format!("{name}={size}")).collect();
        work.extend(result.work());
        self.last = Some((scenario, work.join(" ")));
        self.operation = None;
        self.sample(place, "ops_per_sec", "ops/s", result.ops, to);
        self.sample(place, "micros_per_op", "us", result.micros, to);
        if let Some(rate) = result.rate {
            self.sample(place, "mb_per_sec", "MB/s", rate, to);
        }
    }

    /// ` P50: 2.77 P75: 3.81 P99: 9.22 P99.9: 19.81`
    fn percentiles(&mut self, place: Place, text: &str, to: &mut Collector<'_>) {
        let Some(operation) = self.operation.take() else { return };
        let words: Vec<&str> = text.split_whitespace().collect();
        for pair in words.chunks_exact(2) {
            if let Some(name) = pair[0].strip_suffix(':') {
                let metric = format!("{operation}_{}_us", name.to_lowercase());
                self.sample(place, &metric, "us", pair[1], to);
            }
        }
    }

    fn sample(&self, place: Place, metric: &str, unit: &str, value: &str, to: &mut Collector<'_>) {
        let Some((scenario, work)) = &self.last else { return };
        let counted = || (self.programs > 1).then(|| self.programs.to_string());
        to.printed(
            place,
            &Sample {
                session: String::new(),
                scenario: scenario.clone(),
                config: self.run.config.clone().unwrap_or_default(),
                block: self.run.block.clone(),
                replicate: self.run.replicate.clone().or_else(counted),
                metric: metric.to_owned(),
                value: value.to_owned(),
                unit: Some(unit.to_owned()),
                work: Some(work.clone()).filter(|work| !work.is_empty()),
                build: self.build.clone(),
                failed: None,
                is_wide: false,
            },
        );
    }
}

/// The line that `db_bench` prints for a benchmark.
struct Outcome<'a> {
    name: &'a str,
    micros: &'a str,
    ops: &'a str,
    /// Newer versions only.
    seconds: Option<&'a str>,
    operations: Option<&'a str>,
    rate: Option<&'a str>,
    found: Option<&'a str>,
}

impl<'a> Outcome<'a> {
    /// `fillrandom : 3.421 micros/op 292338 ops/sec 3.421 seconds 1000000 operations; 115.3 MB/s (632 of 1000 found)`
    fn parse(line: &'a str) -> Option<Self> {
        let (name, rest) = line.split_once(" : ")?;
        let words: Vec<&str> = rest.split_whitespace().map(|word| word.trim_matches([';', '(', ')'])).collect();
        let before = |unit: &str| {
            let at = words.iter().position(|word| *word == unit)?;
            words.get(at.checked_sub(1)?).copied()
        };
        let name = name.trim();
        (!name.is_empty() && !name.contains(char::is_whitespace)).then_some(())?;
        Some(Self {
            name,
            micros: before("micros/op")?,
            ops: before("ops/sec")?,
            seconds: before("seconds"),
            operations: before("operations"),
            rate: before("MB/s"),
            found: words.iter().position(|word| *word == "of").and_then(|at| words.get(at.checked_sub(1)?).copied()),
        })
    }

    /// What was done. A run that ends by the clock does what it can: its count is a result.
    fn work(&self) -> Vec<String> {
        const CLOCK: f64 = 0.01;
        let seconds: Option<f64> = self.seconds.and_then(|seconds| seconds.parse().ok());
        if seconds.is_some_and(|seconds| seconds >= 1.0 && seconds.fract() < CLOCK) {
            return Vec::new();
        }
        let count = |name: &str, count: Option<&str>| count.map(|count| format!("{name}={count}"));
        count("operations", self.operations).into_iter().chain(count("found", self.found)).collect()
    }
}
