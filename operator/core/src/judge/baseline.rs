//! What the baseline's runs say about each other.

use crate::gates::{Code, Finding, Note};
use crate::verdict::{BaselineCheck, CheckState};

/// Why nothing can be judged, if the baseline does not agree with itself.
pub(super) fn disagreements(checks: &[BaselineCheck]) -> Vec<Finding> {
    let failed = checks.iter().filter(|check| check.state == CheckState::Failed);
    failed
        .map(|check| {
            let p = check.p.unwrap_or_default();
            let message = format!(
                "in {} the baseline's first run of a block differs from its others on {} (p = {p:.1e})",
                check.scenario, check.metric
            );
            Finding::new(Code::BaselineDisagrees, message)
        })
        .collect()
}

/// Notes about a baseline that hardly agrees with itself.
pub(super) fn doubts(checks: &[BaselineCheck]) -> impl Iterator<Item = Note> {
    let doubtful = checks.iter().filter(|check| check.state == CheckState::Warning);
    doubtful.map(|check| Note {
        config: None,
        text: format!(
            "In {} the baseline's first run of a block differs from its others on {} (p = {:.4}); of a hundred such checks one does \
             by chance.",
            check.scenario,
            check.metric,
            check.p.unwrap_or_default()
        ),
    })
}
