//! What tests of drafts share.

use super::Draft;
use crate::validate::{Problem, validate_document};

/// What a draft's file says, with everything that is checked without RocksDB.
pub fn errors(draft: &Draft) -> Vec<String> {
    let document = serde_yaml::from_str(&draft.yaml()).unwrap();
    let problems = validate_document(&document).problems.into_iter();
    problems.filter(Problem::is_error).map(|problem| problem.to_string()).collect()
}
