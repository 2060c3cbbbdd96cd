//! Asks RocksDB about options in a process of its own: its parser takes values that crash it, or keep it busy without an end, once a
//! database is opened with them. Which option does that is found by halving.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use assay_protocol::{EngineConfig, OptionProblem, OptionsAnswer, OptionsQuestion};
use nix::sys::resource::{Resource, setrlimit};

use crate::{dataset, engine};

/// How long RocksDB may take to open databases with one config, and for each further one: a second is usual.
const PATIENCE: Duration = Duration::from_secs(20);
const EACH: Duration = Duration::from_secs(4);
/// What a process may map besides all memory that the machine has: stacks of threads and the like, most of which nobody touches.
const SPARE_BYTES: u64 = 8 << 30;

/// The command that answers in this process; a folder for databases follows.
pub const COMMAND: &str = "answer-options";

/// Answers a question, whatever its options do to RocksDB.
pub fn answer(question: &OptionsQuestion) -> anyhow::Result<OptionsAnswer> {
    let scratch = Scratch::new()?;
    match scratch.ask(question)? {
        Tried::Answered(answer) => Ok(answer),
        Tried::Died(_) => apart(question, &|asked| scratch.ask(asked)),
    }
}

/// The part of a child: answers in this process, which may die of it.
pub fn answer_here(question: &Path, scratch: &Path) -> anyhow::Result<()> {
    // An option that makes RocksDB take all memory must not take that of others. Where limits can't be set, the timeout is left.
    let most = total_memory().map_or(u64::MAX, |bytes| bytes.saturating_add(SPARE_BYTES));
    let _ = setrlimit(Resource::RLIMIT_AS, most, most);
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let json = fs::read(question).with_context(|| question.display().to_string())?;
    let question: OptionsQuestion = serde_json::from_slice(&json)?;
    println!("{}", serde_json::to_string(&engine::options_answer(&question, scratch)?)?);
    Ok(())
}

fn total_memory() -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 =
        info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// What came of a question.
enum Tried {
    Answered(OptionsAnswer),
    Died(Death),
}

/// How RocksDB came to its end, in words that follow its name.
#[derive(Clone, Debug)]
struct Death(String);

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Asks about each config alone, and of those that RocksDB does not survive names the option.
fn apart(
    question: &OptionsQuestion,
    ask: &dyn Fn(&OptionsQuestion) -> anyhow::Result<Tried>,
) -> anyhow::Result<OptionsAnswer> {
    let opens = |baseline: &EngineConfig, configs: BTreeMap<String, EngineConfig>| {
        ask(&OptionsQuestion { baseline: baseline.clone(), configs, ..question.clone() })
    };
    let alone = |config: &EngineConfig| opens(config, BTreeMap::from([(String::new(), config.clone())]));
    if let Tried::Died(death) = alone(&EngineConfig::default())? {
        bail!("RocksDB {death}, with no option set");
    }
    let mut answer = OptionsAnswer::default();
    let culprit = |name: &str, config: &EngineConfig, death: &Death| {
        let dies = |config: &EngineConfig| Ok(matches!(alone(config)?, Tried::Died(_)));
        problem(name, config, &question.families, death, &dies)
    };
    // Every config is opened beside the baseline, so that one comes first.
    if let Tried::Died(death) = alone(&question.baseline)? {
        let name = question.configs.keys().next().map(String::as_str).unwrap_or_default();
        answer.problems.push(culprit(name, &question.baseline, &death)?);
        return Ok(answer);
    }
    for (name, config) in &question.configs {
        match opens(&question.baseline, BTreeMap::from([(name.clone(), config.clone())]))? {
            Tried::Answered(own) => {
                answer.problems.extend(own.problems);
                answer.inert.extend(own.inert);
                answer.sanitised.extend(own.sanitised);
                answer.all_inert.extend(own.all_inert);
            }
            Tried::Died(death) => answer.problems.push(culprit(name, config, &death)?),
        }
    }
    Ok(answer)
}

/// One declared option: of the database, or in the entry of this number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Declared {
    entry: Option<usize>,
    option: String,
}

fn declared(config: &EngineConfig) -> Vec<Declared> {
    let of_db = config.db_options.keys().map(|option| Declared { entry: None, option: option.clone() });
    let entries = config.column_families.iter().enumerate();
    let of_families = entries.flat_map(|(entry, own)| {
        own.options.keys().map(move |option| Declared { entry: Some(entry), option: option.clone() })
    });
    of_db.chain(of_families).collect()
}

/// A config with these of its options alone.
fn only(config: &EngineConfig, kept: &[Declared]) -> EngineConfig {
    let is_kept =
        |entry: Option<usize>, option: &String| kept.iter().any(|own| own.entry == entry && own.option == *option);
    let mut less = config.clone();
    less.db_options.retain(|option, _| is_kept(None, option));
    for (entry, own) in less.column_families.iter_mut().enumerate() {
        own.options.retain(|option, _| is_kept(Some(entry), option));
    }
    less
}

/// Halves a config's options until one is left with which RocksDB dies, or none dies alone.
fn problem(
    name: &str,
    config: &EngineConfig,
    families: &[String],
    death: &Death,
    dies: &dyn Fn(&EngineConfig) -> anyhow::Result<bool>,
) -> anyhow::Result<OptionProblem> {
    let mut suspects = declared(config);
    while suspects.len() > 1 {
        let (left, right) = suspects.split_at(suspects.len() / 2);
        suspects = if dies(&only(config, left))? {
            left.to_vec()
        } else if dies(&only(config, right))? {
            right.to_vec()
        } else {
            break;
        };
    }
    let found = |message: String, scope: String, option: String| OptionProblem {
        config: name.to_owned(),
        scope,
        option,
        message,
        suggestion: None,
    };
    let [one] = &suspects[..] else {
        let names: Vec<&str> = suspects.iter().map(|own| own.option.as_str()).collect();
        let message = format!("RocksDB {death}, with these options together: {}", names.join(", "));
        return Ok(found(message, String::new(), String::new()));
    };
    let own = one.entry.map(|entry| &config.column_families[entry]);
    let scope = own.and_then(|own| families.iter().find(|family| own.matches(family)));
    let value =
        own.map_or(&config.db_options, |own| &own.options).get(&one.option).map(String::as_str).unwrap_or_default();
    let message = format!("with the value {value:?} RocksDB {death}");
    Ok(found(message, scope.map_or_else(|| engine::DB_SCOPE.to_owned(), Clone::clone), one.option.clone()))
}

/// A folder that goes away with its process, however that ends.
struct Scratch(PathBuf);

const PREFIX: &str = "assay-bench-options-";

impl Scratch {
    fn new() -> anyhow::Result<Self> {
        let parent = std::env::temp_dir();
        for entry in fs::read_dir(&parent).with_context(|| parent.display().to_string())?.flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            // What is not ours can't be removed, and nobody minds.
            if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let folder = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self(folder))
    }

    fn ask(&self, question: &OptionsQuestion) -> anyhow::Result<Tried> {
        let [asked, answered, complaint, databases] =
            ["question", "answer", "complaint", "databases"].map(|name| self.0.join(name));
        fs::write(&asked, serde_json::to_vec(question)?)?;
        let mut child = Command::new(std::env::current_exe()?)
            .arg(COMMAND)
            .args([&asked, &databases])
            .stdin(Stdio::null())
            .stdout(File::create(&answered)?)
            .stderr(File::create(&complaint)?)
            .spawn()?;
        let patience = PATIENCE + EACH * question.configs.len() as u32;
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if began.elapsed() > patience {
                child.kill()?;
                child.wait()?;
                break None;
            }
            thread::sleep(Duration::from_millis(5));
        };
        dataset::remove(&databases)?;
        let said = fs::read(&complaint).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let Some(status) = status else {
            let death = format!("has not opened an empty database after {} s", patience.as_secs());
            return Ok(Tried::Died(Death(death)));
        };
        if status.success() {
            let answer = fs::read(&answered)?;
            return Ok(Tried::Answered(serde_json::from_slice(&answer).context("the answer")?));
        }
        if let Some(how) = fault(status) {
            let last = said
                .lines()
                .rev()
                .find(|line| !line.trim().is_empty())
                .map_or(String::new(), |line| format!(": {}", line.trim()));
            return Ok(Tried::Died(Death(format!("crashes when it opens an empty database ({how}{last})"))));
        }
        // It has said why.
        bail!("{}", said.trim().trim_start_matches("assay-bench: "));
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How a process ended that did not end by its own decision.
fn fault(status: ExitStatus) -> Option<String> {
    use std::os::unix::process::ExitStatusExt as _;
    let signal = nix::sys::signal::Signal::try_from(status.signal()?);
    Some(signal.map_or_else(|_| status.to_string(), |signal| signal.to_string()))
}

#[cfg(test)]
mod tests {
    use assay_protocol::{FamilyOptions, PageCache};

    use super::*;

    fn config(db: &[&str], family: &[&str]) -> EngineConfig {
        let map = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect();
        EngineConfig {
            db_options: map(db),
            column_families: vec![FamilyOptions { r#match: vec!["d*".to_owned()], options: map(family) }],
            ..EngineConfig::default()
        }
    }

    /// Asks a RocksDB that dies of configs with all of these options.
    fn asked(baseline: &EngineConfig, candidate: &EngineConfig, deadly: &[&str]) -> Vec<(String, String, String)> {
        let question = OptionsQuestion {
            families: vec!["default".to_owned()],
            baseline: baseline.clone(),
            configs: BTreeMap::from([
                ("base".to_owned(), baseline.clone()),
                ("candidate".to_owned(), candidate.clone()),
            ]),
            page_cache: PageCache::Evict,
        };
        let ask = |question: &OptionsQuestion| {
            let all = question.configs.values().chain([&question.baseline]);
            let dies = |config: &EngineConfig| {
                deadly.iter().all(|name| declared(config).iter().any(|own| own.option == *name))
            };
            Ok(if all.into_iter().any(dies) {
                Tried::Died(Death("crashes".to_owned()))
            } else {
                Tried::Answered(OptionsAnswer::default())
            })
        };
        let answer = apart(&question, &ask).unwrap();
        answer
            .problems
            .into_iter()
            .map(|problem| (problem.config, format!("{} {}", problem.scope, problem.option), problem.message))
            .collect()
    }

    #[test]
    fn the_option_that_kills_is_named() {
        let baseline = config(&["a", "b"], &["c"]);
        let candidate = config(&["a", "b", "x"], &["c", "y", "z"]);
        assert_eq!(asked(&baseline, &candidate, &["no"]), []);
        let one =
            |config: &str, place: &str, message: &str| vec![(config.to_owned(), place.to_owned(), message.to_owned())];
        assert_eq!(
            asked(&baseline, &candidate, &["x"]),
            one("candidate", "db x", "with the value \"1\" RocksDB crashes")
        );
        assert_eq!(
            asked(&baseline, &candidate, &["z"]),
            one("candidate", "default z", "with the value \"1\" RocksDB crashes")
        );
        // What the baseline has, all have.
        assert_eq!(asked(&baseline, &candidate, &["b"]), one("base", "db b", "with the value \"1\" RocksDB crashes"));
        let together = "RocksDB crashes, with these options together: a, b, x, c, y, z";
        assert_eq!(asked(&baseline, &candidate, &["a", "z"]), one("candidate", " ", together));
    }

    #[test]
    fn what_others_left_goes_away() {
        let parent = std::env::temp_dir();
        // No process has this number.
        let left = parent.join(format!("{PREFIX}4194305"));
        fs::create_dir_all(left.join("databases")).unwrap();
        let own = Scratch::new().unwrap();
        assert!(!left.exists() && own.0.is_dir());
        let folder = own.0.clone();
        drop(own);
        assert!(!folder.exists());
    }
}
