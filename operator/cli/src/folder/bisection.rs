//! The folder of a bisection on this machine.
//!
//! ```text
//! DIR/bisection.json   what is searched; never changes
//! DIR/visits/NUMBER    the results folder of a visit
//! DIR/answer.json      what was found
//! DIR/lock             held by a running assay
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use assay_core::attempt::Attempt;
use assay_core::decide::Places;
use assay_core::plan::Plan;
use serde_json::Value;

use super::files::{read_if_there, write};
use super::lock::Lock;
use super::plan::kept_plan;
use super::read::kept_attempts;

/// What the folder may hold before it says what is searched, and what a new disk has.
const BEFORE: [&str; 3] = ["bisection.partial", "lock", "lost+found"];

/// A bisection's folder, held for this process.
#[derive(Debug)]
pub struct Visits {
    dir: PathBuf,
    _lock: Lock,
}

impl Visits {
    /// Opens or makes the folder of a bisection that is described so. One that holds something else is left alone.
    pub fn open(dir: &Path, described: &Value) -> anyhow::Result<Self> {
        let path = dir.join("bisection.json");
        if dir.is_dir() && !path.is_file() {
            let entries = fs::read_dir(dir).with_context(|| format!("can't read {}", dir.display()))?;
            let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
            if let Some(name) = names.filter(|name| !BEFORE.contains(&name.as_str())).min() {
                bail!(
                    "{} holds other files, such as {name}, and no bisection: use a new or an empty folder with --out",
                    dir.display()
                );
            }
        }
        fs::create_dir_all(dir)
            .with_context(|| format!("can't create {}: choose another folder with --out", dir.display()))?;
        let dir = fs::canonicalize(dir).with_context(|| format!("can't find {}", dir.display()))?;
        let lock = Lock::take(&dir, "--out")?;
        match read_if_there(&path)? {
            None => write(&path, &serde_json::to_vec_pretty(described)?)?,
            Some(bytes) => {
                let kept: Value = serde_json::from_slice(&bytes).with_context(|| {
                    format!("{} is corrupted: restore it, or start over with another --out", path.display())
                })?;
                if kept != *described {
                    bail!(
                        "{} holds another bisection: its candidates, programs or experiment are not those of now; use \
                         another --out",
                        dir.display()
                    );
                }
            }
        }
        Ok(Self { dir, _lock: lock })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The results folder of a visit.
    pub fn visit(&self, number: usize) -> PathBuf {
        self.dir.join("visits").join(format!("{number:03}"))
    }

    /// The attempts of a visit that is done; `None` where something of it is left to run.
    pub fn done(&self, number: usize, plan: &Plan) -> anyhow::Result<Option<Vec<Attempt>>> {
        let dir = self.visit(number);
        if !dir.join("plan.json").is_file() {
            return Ok(None);
        }
        if kept_plan(&dir)?.digest != plan.digest {
            bail!("{} holds another visit than the one that is next: start over with another --out", dir.display());
        }
        // What can't be read is set aside and run again.
        let Ok(attempts) = kept_attempts(&dir, plan) else { return Ok(None) };
        let is_done = Places::new(plan, &attempts)?.is_complete();
        Ok(is_done.then_some(attempts))
    }

    pub fn keep_answer(&self, answer: &Value) -> anyhow::Result<()> {
        write(&self.dir.join("answer.json"), &serde_json::to_vec_pretty(answer)?)
    }
}
