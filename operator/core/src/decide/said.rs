//! What the gates say of attempts, and what looks at them show. To ask for that takes longer than all else that is asked while an experiment
//! runs, and the answer is the same for the same attempts.

use std::collections::HashMap;
use std::sync::Arc;

use assay_protocol::Summary;

use super::drought::Drought;
use super::looks::{Looked, Shown};
use super::places::Unplanned;
use crate::attempt::Attempt;
use crate::experiment::Experiment;
use crate::gates::{self, Gated};

/// What the gates said of the attempts of one plan, and what looks have shown.
#[derive(Debug, Default)]
pub struct Said {
    gates: HashMap<usize, (Vec<Attempt>, Arc<Gated>)>,
    looks: HashMap<usize, Look>,
}

/// What a look has shown that went by this.
#[derive(Debug)]
struct Look {
    gated: Arc<Gated>,
    earlier: Looked,
    shown: Shown,
}

impl Said {
    /// What they say of these attempts, which are all those of the first so many rounds. They are asked only if that are others than before.
    pub(super) fn of(&mut self, rounds: usize, experiment: &Experiment, attempts: &[Attempt]) -> Arc<Gated> {
        if let Some((known, gated)) = self.gates.get_mut(&rounds)
            && known.len() == attempts.len()
        {
            let both = || known.iter().zip(attempts);
            if both().all(|(known, attempt)| is_very_same(known, attempt)) {
                return Arc::clone(gated);
            }
            // To compare summaries takes as long as to ask: only those that were read anew are compared.
            if both().all(|(known, attempt)| is_very_same(known, attempt) || known == attempt) {
                attempts.clone_into(known);
                return Arc::clone(gated);
            }
        }
        let gated = Arc::new(ask(experiment, attempts));
        self.gates.insert(rounds, (attempts.to_vec(), Arc::clone(&gated)));
        gated
    }

    /// What the look after so many rounds shows. It is taken only if the gates have said it of other attempts than before, or other looks came
    /// before it.
    pub(super) fn look(
        &mut self,
        rounds: usize,
        gated: &Arc<Gated>,
        earlier: &Looked,
        take: impl FnOnce() -> Result<Shown, Unplanned>,
    ) -> Result<Shown, Unplanned> {
        if let Some(known) = self.looks.get(&rounds)
            && Arc::ptr_eq(&known.gated, gated)
            && known.earlier == *earlier
        {
            return Ok(known.shown.clone());
        }
        let shown = take()?;
        let look = Look { gated: Arc::clone(gated), earlier: earlier.clone(), shown: shown.clone() };
        self.looks.insert(rounds, look);
        Ok(shown)
    }
}

/// Whether this is the very same attempt, as it was read once.
fn is_very_same(known: &Attempt, attempt: &Attempt) -> bool {
    match (known, attempt) {
        (Attempt::Finished(known), Attempt::Finished(summary)) => Arc::ptr_eq(known, summary),
        (Attempt::Lost(known), Attempt::Lost(lost)) => Arc::ptr_eq(known, lost),
        _ => false,
    }
}

fn ask(experiment: &Experiment, attempts: &[Attempt]) -> Gated {
    let summaries = attempts.iter().filter_map(|attempt| match attempt {
        Attempt::Finished(summary) => Some(&**summary),
        Attempt::Lost(_) => None,
    });
    let mut gated = gates::check(experiment, &summaries.collect::<Vec<&Summary>>());
    let end = Drought::of(attempts, &gated).and_then(|drought| drought.end(experiment));
    gated.experiment.extend(end);
    gated
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::{Lost, LostReason};
    use crate::gates::testing::{experiment, plan, summary};

    #[test]
    fn who_has_said_something_is_asked_again_about_other_attempts_only() {
        let experiment = experiment();
        let finished = |order: usize| {
            let trial = plan(&experiment).trials().nth(order).unwrap_or_else(|| unreachable!());
            Attempt::Finished(summary(&trial).into())
        };
        let lost = |message: &str| {
            let (plan, trial) = (plan(&experiment).digest, finished(1).trial().clone());
            let (reason, message) = (LostReason::Evicted, message.to_owned());
            Attempt::from(Lost { plan, trial, started_unix_ms: 0, boot: None, reason, message })
        };
        let mut said = Said::default();
        let first = finished(0);
        let mut of = |attempts: &[Attempt]| said.of(8, &experiment, attempts);
        let known = of(std::slice::from_ref(&first));
        assert!(Arc::ptr_eq(&known, &of(std::slice::from_ref(&first))));
        for others in [
            vec![],
            vec![finished(0)],
            vec![first.clone(), lost("a")],
            vec![first.clone(), lost("b")],
            vec![first, finished(1)],
        ] {
            let asked = of(&others);
            assert_eq!(*asked, ask(&experiment, &others));
            assert!(Arc::ptr_eq(&asked, &of(&others)), "{others:?}");
        }
        assert!(!Arc::ptr_eq(&said.of(9, &experiment, &[]), &said.of(8, &experiment, &[])), "of other rounds");
    }

    #[test]
    fn who_has_said_something_is_not_asked_about_the_same_that_was_read_anew() {
        let experiment = experiment();
        let read = || Arc::new(summary(&plan(&experiment).trials().next().unwrap_or_else(|| unreachable!())));
        let (before, now) = (read(), read());
        let mut said = Said::default();
        let mut of = |summary: &Arc<Summary>| said.of(8, &experiment, &[Attempt::Finished(Arc::clone(summary))]);
        assert!(Arc::ptr_eq(&of(&before), &of(&now)));
        assert_eq!((Arc::strong_count(&before), Arc::strong_count(&now)), (1, 2), "what was read before is not kept");
    }

    #[test]
    fn a_look_is_taken_again_only_if_it_goes_by_something_else() {
        let experiment = experiment();
        let mut said = Said::default();
        let gated = [said.of(8, &experiment, &[]), said.of(9, &experiment, &[])];
        let mut is_taken = |rounds: usize, gated: &Arc<Gated>, earlier: &Looked| {
            let mut is_taken = false;
            let take = || {
                is_taken = true;
                Ok(Shown::Decided(vec![rounds.to_string()]))
            };
            let shown = said.look(rounds, gated, earlier, take).unwrap_or_else(|error| unreachable!("{error}"));
            assert_eq!(shown, Shown::Decided(vec![rounds.to_string()]));
            is_taken
        };
        let skipped = Looked { skipped: vec![8], ..Looked::default() };
        for (rounds, gated, earlier) in [
            (8, &gated[0], &Looked::default()),
            (9, &gated[0], &Looked::default()),
            (9, &gated[1], &Looked::default()),
            (9, &gated[1], &skipped),
        ] {
            assert!(is_taken(rounds, gated, earlier), "{rounds} {earlier:?}");
            assert!(!is_taken(rounds, gated, earlier), "{rounds} {earlier:?}");
        }
    }
}
