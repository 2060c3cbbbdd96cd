//! Which policy results are judged by.

use std::path::Path;

use assay_core::import::Policy;
use assay_core::validate::Problem;

use super::{Refused, files};
use crate::file;

/// The policy that is named, else the one beside the results, else none.
pub fn find(results: &Path, named: Option<&Path>) -> Result<Policy, Refused> {
    let found = named.map(Path::to_owned).or_else(|| files::policy_beside(results));
    let Some(path) = found else { return Ok(Policy::default()) };
    let problems = match file::read(&path) {
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
    Err(Refused { path, lines })
}
