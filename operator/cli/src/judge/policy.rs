//! Which policy results are judged by.

use std::path::{Path, PathBuf};

use assay_core::import::Policy;
use assay_core::validate::Problem;

use super::{Asked, Refused, files};
use crate::file;

/// The policy that is named, else the one beside the results, else none, with what the command line says; and its file.
pub fn find(asked: &Asked<'_>) -> Result<(Policy, Option<PathBuf>), Refused> {
    let used = asked.policy.map(Path::to_owned).or_else(|| files::policy_beside(asked.path));
    let policy = used.as_deref().map_or(Ok(Policy::default()), read)?;
    let path = used.as_deref().unwrap_or(asked.path);
    let contradictions = |problems: Vec<String>| Refused {
        path: path.to_owned(),
        lines: problems.into_iter().map(|problem| format!("{}: {problem}", path.display())).collect(),
        advice: None,
    };
    Ok((policy.with(&asked.flags).map_err(contradictions)?, used))
}

fn read(path: &Path) -> Result<Policy, Refused> {
    let problems = match file::read(path) {
        Ok(document) => match Policy::read(&document.value) {
            Ok(policy) => return Ok(policy),
            Err(problems) => {
                let at = |problem: &Problem| document.places.find(&problem.path, problem.at_key);
                let mut problems: Vec<_> =
                    problems.iter().map(|problem| (Some(at(problem)), problem.to_string())).collect();
                problems.sort();
                problems
            }
        },
        Err(problems) => problems.into_iter().map(|problem| (problem.at, problem.message)).collect(),
    };
    let lines = problems.into_iter().map(|(at, text)| {
        let place = at.map_or(String::new(), |at| format!(":{}:{}", at.line, at.column));
        format!("{}{place}: {text}", path.display())
    });
    let lines = lines.collect();
    Err(Refused { path: path.to_owned(), lines, advice: None })
}
