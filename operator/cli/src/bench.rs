//! The bench is the only program that links RocksDB, so it is asked which options exist.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use anyhow::{Context, bail};
use assay_protocol::{Digest, OptionsAnswer, OptionsQuestion, invocation};
use serde::{Deserialize, Serialize};

/// Names the bench where no flag does.
pub const VARIABLE: &str = "ASSAY_BENCH";

/// A bench, for all configs, or for those that a name stands for: `[NAME=]PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchArg {
    pub config: Option<String>,
    pub path: PathBuf,
}

impl FromStr for BenchArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A path may hold '=', the name of a config can't hold '/' or '.'.
        let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let (config, path) = match text.split_once('=') {
            Some((name, path)) if is_name(name) => (Some(name.to_owned()), path),
            _ => (None, text),
        };
        if path.is_empty() {
            return Err("the path of the bench is empty".to_owned());
        }
        Ok(Self { config, path: PathBuf::from(path) })
    }
}

/// The benches that play an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Benches {
    pub default: PathBuf,
    /// Of configs that declare a difference in code. Until the experiment is known, by what names them.
    pub by_config: BTreeMap<String, PathBuf>,
}

/// What they are, whatever their paths: another build is another program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BenchDigests {
    pub default: Digest,
    pub by_config: BTreeMap<String, Digest>,
}

impl fmt::Display for Benches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.default.display())
    }
}

impl Benches {
    /// The benches that were named, and the one beside this program where none was.
    pub fn find(args: &[BenchArg]) -> anyhow::Result<Self> {
        let mut by_config = BTreeMap::new();
        let mut default = None;
        for BenchArg { config, path } in args {
            exists(path, "--bench")?;
            // A bare name would be looked for in PATH.
            let is_bare = path.parent().is_some_and(|dir| dir.as_os_str().is_empty());
            let path = if is_bare { Path::new(".").join(path) } else { path.clone() };
            match config {
                Some(config) => drop(by_config.insert(config.clone(), path)),
                None => default = Some(path),
            }
        }
        let default = match (default, std::env::var_os(VARIABLE)) {
            (Some(path), _) => path,
            (None, Some(path)) => {
                let path = PathBuf::from(path);
                exists(&path, VARIABLE)?;
                path
            }
            (None, None) => beside_this_program()?,
        };
        Ok(Self { default, by_config })
    }

    /// The bench that runs a config.
    pub fn of(&self, config: &str) -> &Path {
        self.by_config.get(config).unwrap_or(&self.default)
    }

    pub fn digests(&self) -> anyhow::Result<BenchDigests> {
        let digest = |path: &Path| -> anyhow::Result<Digest> {
            let bytes = std::fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
            Ok(Digest::of(&bytes))
        };
        let by_config = self.by_config.iter().map(|(config, path)| Ok((config.clone(), digest(path)?)));
        Ok(BenchDigests { default: digest(&self.default)?, by_config: by_config.collect::<anyhow::Result<_>>()? })
    }

    /// Asks every bench about the configs that it runs.
    pub fn ask(&self, question: &OptionsQuestion) -> anyhow::Result<OptionsAnswer> {
        let mut answer = OptionsAnswer::default();
        let mut benches: Vec<&Path> = question.configs.keys().map(|config| self.of(config)).collect();
        benches.sort_unstable();
        benches.dedup();
        for bench in benches {
            let mut own = question.clone();
            own.configs.retain(|config, _| self.of(config) == bench);
            let part = ask(bench, &own)?;
            answer.problems.extend(part.problems);
            answer.inert.extend(part.inert);
            answer.sanitised.extend(part.sanitised);
            // Another program may differ in more than its options.
            answer.all_inert.extend(part.all_inert.into_iter().filter(|config| !self.by_config.contains_key(config)));
        }
        Ok(answer)
    }
}

fn exists(bench: &Path, named_by: &str) -> anyhow::Result<()> {
    if !bench.is_file() {
        bail!("no bench at {}: build one with `make build`, or fix {named_by}", bench.display());
    }
    Ok(())
}

fn beside_this_program() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("can't find the path of the assay program")?;
    let bench = program.with_file_name("assay-bench");
    if !bench.is_file() {
        bail!("no assay-bench at {}: build it with `make build`, or set --bench PATH or ASSAY_BENCH", bench.display());
    }
    Ok(bench)
}

fn ask(bench: &Path, question: &OptionsQuestion) -> anyhow::Result<OptionsAnswer> {
    let failed = || format!("{} failed", bench.display());
    let mut child = Command::new(bench)
        .args(invocation::options())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(failed)?;
    let question = serde_json::to_vec(question).with_context(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A bench that ends before it has read everything says why on its standard error.
        let _ = stdin.write_all(&question);
    }
    let output = child.wait_with_output().with_context(failed)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}: {}", failed(), output.status, said.trim());
    }
    serde_json::from_slice(&output.stdout).with_context(|| {
        format!("{}: its answer does not match this version of assay; build both with `make build`", failed())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benches_are_named() {
        let parsed = |text: &str| text.parse::<BenchArg>().map(|arg| (arg.config, arg.path.display().to_string()));
        assert_eq!(parsed("bin/assay-bench"), Ok((None, "bin/assay-bench".to_owned())));
        assert_eq!(parsed("new=bin/x=y"), Ok((Some("new".to_owned()), "bin/x=y".to_owned())));
        assert_eq!(parsed("./a=b"), Ok((None, "./a=b".to_owned())));
        assert!(parsed("new=").is_err());
        assert!(parsed("").is_err());
    }

    #[test]
    fn missing_benches_say_what_to_do() {
        let arg = BenchArg { config: None, path: "/nowhere/assay-bench".into() };
        let message = Benches::find(&[arg]).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(message, "no bench at /nowhere/assay-bench: build one with `make build`, or fix --bench");
    }
}
