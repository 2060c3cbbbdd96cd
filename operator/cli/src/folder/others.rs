//! What others keep in a folder or a file: it is neither written over nor mixed with results.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

use super::files::read_if_there;
use super::plan::is_of_run;

/// What the folder of an experiment holds before its plan, and what a new disk has.
const BEFORE: [&str; 6] = ["bench.json", "lock", "lost+found", "plan.partial", "trials", "work"];
const REPORTS: [&str; 3] = ["report.json", "report.md", "report.html"];

/// Refuses the folder of an experiment if it holds something else.
pub fn refuse_others(dir: &Path) -> anyhow::Result<()> {
    if !dir.is_dir() {
        return Ok(());
    }
    let entries = fs::read_dir(dir).with_context(|| format!("can't read {}", dir.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    match names.filter(|name| !BEFORE.contains(&name.as_str())).min() {
        // Asked last: another run may be making this folder, and begins with its plan.
        Some(name) if !is_of_run(dir) => bail!(
            "{} holds other files, such as {name}, and no results of Assay: use a new or an empty folder with --out",
            dir.display()
        ),
        _ => Ok(()),
    }
}

/// Refuses a folder for reports that has others in their places. `judged`: the results folder that they are about.
pub fn check_reports(dir: &Path, judged: Option<&Path>) -> anyhow::Result<()> {
    if dir.exists() && !dir.is_dir() {
        bail!("{} is a file: choose a folder with --out", dir.display());
    }
    let is_judged = || judged.is_some_and(|judged| fs::canonicalize(judged).ok() == fs::canonicalize(dir).ok());
    if dir.join("plan.json").is_file() {
        if is_judged() {
            return Ok(());
        }
        bail!("{} is the results folder of another experiment: use another --out", dir.display());
    }
    let there: Vec<&str> = REPORTS.into_iter().filter(|name| dir.join(name).exists()).collect();
    let is_ours = is_report(&dir.join("report.json"))? || is_page(&dir.join("report.html"))?;
    if let Some(first) = there.first().filter(|_| !is_ours) {
        bail!(
            "{} is not a report of Assay and would be replaced: move it away, or use another --out",
            dir.join(first).display()
        );
    }
    Ok(())
}

/// Refuses a file for a page that can't be written, or that is none of our pages.
pub fn check_page(file: &Path) -> anyhow::Result<()> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !dir.is_dir() {
        bail!("can't write {}: there is no folder {}; make it first", file.display(), dir.display());
    }
    if file.exists() && !is_page(file)? {
        bail!("{} is not a report of Assay and would be replaced: choose another name", file.display());
    }
    Ok(())
}

/// Whether a file is a report of ours as JSON.
pub fn is_report(path: &Path) -> anyhow::Result<bool> {
    let Some(bytes) = read_if_there(path)? else { return Ok(false) };
    let report: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    // The first reports did not name who made them.
    Ok(report["version"].is_u64() && (report["producedBy"].is_string() || report["plan"].is_string()))
}

/// Whether a file is a report of ours as a page.
pub fn is_page(path: &Path) -> anyhow::Result<bool> {
    if path.is_dir() {
        return Ok(false);
    }
    let text = read_if_there(path)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&text).contains(": Assay report</title>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_keep_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert!(refuse_others(&path("new")).is_ok());
        assert!(refuse_others(folder.path()).is_ok(), "it is empty");
        fs::create_dir(path("trials")).unwrap();
        fs::write(path("lock"), "").unwrap();
        assert!(refuse_others(folder.path()).is_ok(), "a run was killed before its plan was written");
        fs::write(path("thesis.tex"), "").unwrap();
        let said = refuse_others(folder.path()).unwrap_err().to_string();
        assert!(said.contains("holds other files, such as thesis.tex"), "{said}");
        fs::write(path("plan.json"), "").unwrap();
        assert!(refuse_others(folder.path()).is_ok(), "results may have notes beside them");

        let said = check_reports(folder.path(), Some(&path("trials"))).unwrap_err().to_string();
        assert!(said.contains("is the results folder of another experiment"), "{said}");
        assert!(check_reports(folder.path(), Some(folder.path())).is_ok());
        fs::remove_file(path("plan.json")).unwrap();
        assert!(check_reports(folder.path(), None).is_ok(), "nothing is replaced");
        for (name, theirs, ours) in [
            ("report.md", "# Mine", None),
            ("report.json", "{\"title\": \"mine\"}", Some("{\"version\": 1, \"producedBy\": \"assay 0.1.0\"}")),
            ("report.html", "<title>mine</title>", Some("<title>x: Assay report</title>")),
        ] {
            fs::write(path(name), theirs).unwrap();
            let said = check_reports(folder.path(), None).unwrap_err().to_string();
            assert!(said.contains("is not a report of Assay and would be replaced"), "{name}: {said}");
            if let Some(ours) = ours {
                fs::write(path(name), ours).unwrap();
                assert!(check_reports(folder.path(), None).is_ok(), "{name}");
            }
            fs::remove_file(path(name)).unwrap();
        }
        assert!(check_reports(&path("lock"), None).unwrap_err().to_string().contains("is a file"));

        assert!(check_page(&path("page.html")).is_ok());
        assert!(check_page(&path("none/page.html")).unwrap_err().to_string().contains("there is no folder"));
        fs::write(path("page.html"), "<title>mine</title>").unwrap();
        assert!(check_page(&path("page.html")).unwrap_err().to_string().contains("choose another name"));
    }
}
