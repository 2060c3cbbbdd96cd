//! Which files hold the results.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use assay_core::import::Policy;

const POLICIES: [&str; 3] = ["policy.yaml", "policy.yml", "policy.json"];
const ENDINGS: [&str; 8] = ["csv", "tsv", "jsonl", "ndjson", "json", "txt", "log", "out"];
/// Our own reports are no results.
const OURS: [&str; 2] = ["report.json", "report.md"];

/// A file with the name that messages use.
#[derive(Debug)]
pub struct Source {
    pub name: String,
    pub path: PathBuf,
}

#[derive(Debug)]
pub struct Sources {
    /// In the order of their names, or of the policy.
    pub files: Vec<Source>,
}

/// The policy that lies with the results.
pub fn policy_beside(path: &Path) -> Option<PathBuf> {
    if path.as_os_str() == "-" {
        return None;
    }
    let dir = if path.is_dir() { path } else { path.parent()? };
    POLICIES.iter().map(|name| dir.join(name)).find(|path| path.is_file())
}

impl Sources {
    /// The file itself, or those of a folder: the ones that the policy names, else all that look like results.
    pub fn find(path: &Path, policy: &Policy, used: Option<&Path>) -> anyhow::Result<Self> {
        let source = |path: PathBuf| Source { name: path.display().to_string(), path };
        if !path.is_dir() {
            let name = if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() };
            return Ok(Self { files: vec![Source { name, path: path.to_owned() }] });
        }
        if !policy.data.is_empty() {
            return Ok(Self { files: policy.data.iter().map(|name| source(path.join(name))).collect() });
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(path).with_context(|| format!("can't read {}", path.display()))? {
            let file = entry.with_context(|| format!("can't read {}", path.display()))?.path();
            if file.is_file() && Some(file.as_path()) != used && looks_like_results(&file) {
                files.push(file);
            }
        }
        files.sort();
        if files.is_empty() {
            bail!(
                "{} has no results: no file ends in {}; list the files under data in the policy",
                path.display(),
                ENDINGS.join(", ")
            );
        }
        Ok(Self { files: files.into_iter().map(source).collect() })
    }
}

fn looks_like_results(file: &Path) -> bool {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let ending = file.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
    !POLICIES.contains(&name.as_str()) && !OURS.contains(&name.as_str()) && ENDINGS.contains(&ending.as_str())
}
