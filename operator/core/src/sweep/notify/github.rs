//! What a commit status and a comment on GitHub say of a sweep.

use std::fmt::{self, Write as _};

use crate::report::html::plural;
use crate::report::markdown::code;
use crate::status::shorten;
use crate::sweep::Night;
use crate::sweep::confirm::{Change, Stage};

/// The most characters that GitHub takes for the description of a status.
const DESCRIPTION: usize = 140;
/// Changes that a comment lists, the latest first.
const LISTED: usize = 20;

/// The state of a commit status, as GitHub calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A change for the worse is confirmed, and neither accepted nor over.
    Failure,
    /// One is being confirmed.
    Pending,
    Success,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failure => "failure",
            Self::Pending => "pending",
            Self::Success => "success",
        })
    }
}

/// All that is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub state: State,
    pub description: String,
    /// What a comment begins with, so that it is found again. Readers don't see it.
    pub marker: String,
    pub comment: String,
    /// There is nothing to comment on: no change is known, and the last night found no loss.
    pub is_quiet: bool,
}

impl Told {
    /// The state follows from the changes of a sweep alone. What the last night proves or suspects by itself is shown beside it.
    pub fn of(sweep: &str, changes: &[Change], last_night: Option<&Night>) -> Self {
        let named = |stage: Stage| -> Vec<&str> {
            changes.iter().rev().filter(|change| change.stage == stage).map(|change| change.name.as_str()).collect()
        };
        let (regressed, confirming) = (named(Stage::Regressed), named(Stage::Confirming));
        let (state, said) = if !regressed.is_empty() {
            (State::Failure, format!("{} regressed: {}", plural(regressed.len(), "change"), regressed.join(", ")))
        } else if !confirming.is_empty() {
            (State::Pending, format!("confirming {}: {}", plural(confirming.len(), "change"), confirming.join(", ")))
        } else {
            (State::Success, "no open regression".to_owned())
        };
        let losses: Vec<String> = last_night.into_iter().flat_map(Night::losses).collect();
        let said = [&[said][..], &losses].concat().join("; ");
        let description = shorten(&said, DESCRIPTION);
        let marker = format!("<!-- assay sweep {sweep} -->");
        let mut comment = format!("{marker}\n**Sweep {sweep}: {description}**\n\n");
        for loss in &losses {
            let _ = writeln!(comment, "{}\n", code(loss));
        }
        if changes.is_empty() {
            comment.push_str("No change is known.\n");
        } else {
            comment.push_str("| change | what is known |\n|---|---|\n");
            for change in changes.iter().rev().take(LISTED) {
                // As code, so that no reason of a person becomes a link or calls somebody.
                let _ = writeln!(comment, "| {} | {} |", code(&change.name), code(&change.said()));
            }
            if changes.len() > LISTED {
                let _ = writeln!(comment, "\n{} are not listed.", plural(changes.len() - LISTED, "earlier change"));
            }
            let _ = writeln!(comment, "\n`assay sweep explain {sweep} CHANGE` says why.");
        }
        Self { state, description, marker, comment, is_quiet: changes.is_empty() && losses.is_empty() }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::sweep::testing::night;
    use crate::verdict::Verdict;

    fn change(number: usize, stage: Stage) -> Change {
        Change {
            name: format!("tonight-{number}"),
            subject: "tonight".to_owned(),
            stage,
            raised: Timestamp::UNIX_EPOCH,
            good: Timestamp::UNIX_EPOCH,
            bad: Timestamp::UNIX_EPOCH,
            visits: 2,
            failed: 0,
            is_sum: false,
            failing: Vec::new(),
            series: Vec::new(),
            accepted: None,
            finding: None,
        }
    }

    fn told(stages: &[Stage]) -> Told {
        let changes: Vec<Change> = stages.iter().enumerate().map(|(number, stage)| change(number, *stage)).collect();
        Told::of("nightly", &changes, None)
    }

    #[test]
    fn losses_of_the_last_night_are_shown() {
        let mut last = night(3, -0.02);
        last.points[0].verdict = Some(Verdict::Inconclusive);
        last.points[0].is_likely_harm = true;
        let told = Told::of("nightly", &[], Some(&last));
        assert_eq!(told.state, State::Success);
        assert_eq!(told.description, "no open regression; this night alone: LikelyHarm main (fill)");
        assert!(
            !told.is_quiet && told.comment.contains("\n`this night alone: LikelyHarm main (fill)`\n"),
            "{}",
            told.comment
        );
        assert!(Told::of("nightly", &[], Some(&night(3, 0.0))).is_quiet);
    }

    #[test]
    fn the_worst_open_change_is_the_state() {
        use Stage::{Accepted, Confirming, Ended, Improved, Recovered, Refuted, Regressed, SmallRegression, Undecided};
        let over = [Accepted, Ended, Improved, Recovered, Refuted, SmallRegression, Undecided];
        for stages in [&[][..], &over] {
            let told = told(stages);
            assert_eq!((told.state, told.description.as_str()), (State::Success, "no open regression"));
            assert_eq!(told.is_quiet, stages.is_empty());
        }
        let pending = told(&[Accepted, Confirming]);
        assert_eq!((pending.state, pending.description.as_str()), (State::Pending, "confirming 1 change: tonight-1"));
        let failure = told(&[Regressed, Confirming, Regressed]);
        assert_eq!(failure.description, "2 changes regressed: tonight-2, tonight-0");
        assert_eq!(failure.state.to_string(), "failure");
    }

    #[test]
    fn a_comment_begins_with_its_marker_and_has_an_end() {
        let told = told(&[Stage::Regressed; 500]);
        assert!(told.comment.starts_with("<!-- assay sweep nightly -->\n**Sweep nightly: 500 changes regressed: "));
        assert!(told.description.chars().count() == 140 && told.description.ends_with("..."));
        assert_eq!(told.comment.matches("| `tonight-").count(), LISTED);
        assert!(told.comment.contains("\n480 earlier changes are not listed.\n"), "{}", told.comment);
    }

    #[test]
    fn what_people_have_written_is_no_markup() {
        let mut change = change(1, Stage::Accepted);
        change.subject = "tonight".to_owned();
        change.name = "x` @team | <img src=x> [a](http://b)".to_owned();
        let comment = Told::of("nightly", &[change], None).comment;
        assert!(comment.contains("| `x' @team \\| <img src=x> [a](http://b)` | `Accepted` |"), "{comment}");
    }
}
