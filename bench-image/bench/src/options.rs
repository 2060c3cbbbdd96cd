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

use crate::dataset;
use crate::engine::{self, Declared, only, without};

/// How long RocksDB may take to open databases, and for each config: a second is usual. Who takes longer is looked at again.
const PATIENCE: Duration = Duration::from_secs(10);
const EACH: Duration = Duration::from_secs(2);
/// Then one config may take so many times as long as RocksDB's defaults do on this machine, within these limits.
const SLOWER: u32 = 30;
const LEAST: Duration = Duration::from_secs(3);
const MOST: Duration = Duration::from_secs(24);
/// What a process may map besides all memory that the machine has: stacks of threads and the like, most of which nobody touches.
const SPARE_BYTES: u64 = 8 << 30;

/// The command that answers in this process; a folder for databases follows.
pub const COMMAND: &str = "answer-options";

/// Answers a question, whatever its options do to RocksDB.
pub fn answer(question: &OptionsQuestion) -> anyhow::Result<OptionsAnswer> {
    let scratch = Scratch::new()?;
    match scratch.ask(question, PATIENCE + EACH * question.configs.len() as u32)? {
        Tried::Answered(answer) => Ok(answer),
        Tried::Died(_) => apart(question, &|asked, patience| scratch.ask(asked, patience)),
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

/// Asks about each config alone, and of those that RocksDB does not survive names the option. Without it the others are looked at.
fn apart(
    question: &OptionsQuestion,
    ask: &dyn Fn(&OptionsQuestion, Duration) -> anyhow::Result<Tried>,
) -> anyhow::Result<OptionsAnswer> {
    let within = |patience: Duration, baseline: &EngineConfig, name: &str, config: &EngineConfig| {
        let configs = BTreeMap::from([(name.to_owned(), config.clone())]);
        ask(&OptionsQuestion { baseline: baseline.clone(), configs, ..question.clone() }, patience)
    };
    let began = Instant::now();
    if let Tried::Died(death) = within(MOST, &EngineConfig::default(), "", &EngineConfig::default())? {
        bail!("RocksDB {death}, with no option set");
    }
    let patience = (SLOWER * began.elapsed()).clamp(LEAST, MOST);
    let opens = |baseline: &EngineConfig, name: &str, config: &EngineConfig| within(patience, baseline, name, config);
    let dies = |config: &EngineConfig| Ok(matches!(opens(config, "", config)?, Tried::Died(_)));
    let mut answer = OptionsAnswer::default();
    // Every config is opened beside the baseline, so that one comes first.
    let its_name = question.configs.iter().find(|(_, config)| **config == question.baseline).map(|(name, _)| name);
    let its_name = its_name.or_else(|| question.configs.keys().next()).map(String::as_str).unwrap_or_default();
    let mut deadly = Vec::new();
    let mut baseline = question.baseline.clone();
    while let Tried::Died(death) = opens(&baseline, "", &baseline)? {
        let culprits = culprits(&baseline, &dies)?;
        answer.problems.push(problem(its_name, &baseline, &question.families, &death, &culprits));
        if culprits.is_empty() {
            return Ok(answer);
        }
        baseline = without(&baseline, &culprits);
        deadly.extend(culprits);
    }
    for (name, config) in &question.configs {
        let inherited: Vec<Declared> = deadly
            .iter()
            .filter(|declared| declared.value(config) == declared.value(&question.baseline))
            .cloned()
            .collect();
        let whole = without(config, &inherited);
        let mut config = whole.clone();
        loop {
            let death = match opens(&baseline, name, &config)? {
                Tried::Died(death) => death,
                Tried::Answered(own) => {
                    answer.problems.extend(own.problems);
                    answer.inert.extend(own.inert);
                    answer.sanitised.extend(own.sanitised);
                    // What was left out may be all that would have had an effect.
                    answer.all_inert.extend(own.all_inert.into_iter().filter(|_| config == whole));
                    break;
                }
            };
            let culprits = culprits(&config, &dies)?;
            answer.problems.push(problem(name, &config, &question.families, &death, &culprits));
            if culprits.is_empty() {
                break;
            }
            config = without(&config, &culprits);
        }
    }
    Ok(answer)
}

/// Halves a config's options until one is left with which RocksDB dies, or none dies alone.
fn culprits(
    config: &EngineConfig,
    dies: &dyn Fn(&EngineConfig) -> anyhow::Result<bool>,
) -> anyhow::Result<Vec<Declared>> {
    let mut suspects = Declared::all(config);
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
    Ok(suspects)
}

fn problem(
    name: &str,
    config: &EngineConfig,
    families: &[String],
    death: &Death,
    culprits: &[Declared],
) -> OptionProblem {
    let found = |message: String, scope: &str, option: &str| OptionProblem {
        config: name.to_owned(),
        scope: scope.to_owned(),
        option: option.to_owned(),
        message,
        suggestion: None,
    };
    match culprits {
        [] => found(format!("RocksDB {death}"), "", ""),
        [one] => {
            let message = format!("with the value {:?} RocksDB {death}", one.value(config).unwrap_or_default());
            found(message, one.scope(config, families).unwrap_or(engine::DB_SCOPE), &one.option)
        }
        several => {
            let names: Vec<&str> = several.iter().map(|own| own.option.as_str()).collect();
            found(format!("RocksDB {death}, with these options together: {}", names.join(", ")), "", "")
        }
    }
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

    fn ask(&self, question: &OptionsQuestion, patience: Duration) -> anyhow::Result<Tried> {
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
        let ask = |question: &OptionsQuestion, _: Duration| {
            let all = question.configs.values().chain([&question.baseline]);
            let dies = |config: &EngineConfig| {
                deadly.iter().all(|name| Declared::all(config).iter().any(|own| own.option == *name))
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
    fn what_kills_hides_nothing_else() {
        let baseline = config(&["a", "b"], &["c"]);
        let mut candidate = config(&["a", "b", "x"], &["c", "y"]);
        // A value of its own is another option.
        candidate.db_options.insert("b".to_owned(), "2".to_owned());
        let question = OptionsQuestion {
            families: vec!["default".to_owned()],
            baseline: baseline.clone(),
            configs: BTreeMap::from([("base".to_owned(), baseline), ("candidate".to_owned(), candidate)]),
            page_cache: PageCache::Evict,
        };
        let ask = |question: &OptionsQuestion, _: Duration| {
            let all: Vec<&EngineConfig> = question.configs.values().chain([&question.baseline]).collect();
            let deadly = [("a", "1"), ("b", "1"), ("x", "1"), ("y", "1")];
            let has = |name: &str, value: &str| {
                all.iter().any(|config| {
                    Declared::all(config).iter().any(|own| own.option == name && own.value(config) == Some(value))
                })
            };
            if deadly.iter().any(|(name, value)| has(name, value)) {
                return Ok(Tried::Died(Death("crashes".to_owned())));
            }
            // What is left is answered, and looks as if it could not differ.
            let all_inert = question.configs.keys().filter(|name| !name.is_empty()).cloned().collect();
            Ok(Tried::Answered(OptionsAnswer { all_inert, ..OptionsAnswer::default() }))
        };
        let answer = apart(&question, &ask).unwrap();
        let named: Vec<(&str, &str)> =
            answer.problems.iter().map(|problem| (problem.config.as_str(), problem.option.as_str())).collect();
        assert_eq!(named, [("base", "a"), ("base", "b"), ("candidate", "x"), ("candidate", "y")]);
        assert_eq!(answer.all_inert, ["base"]);
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
