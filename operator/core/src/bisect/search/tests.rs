use assay_protocol::Digest;
use proptest::prelude::*;

use super::super::candidates::Candidate;
use super::*;

const MARGIN: f64 = 0.03;

fn question(digests: &str) -> Question {
    let candidate = |name: char| Candidate { digest: Digest::of(name.to_string().as_bytes()), weight: 1.0 };
    Question {
        candidates: digests.chars().map(candidate).collect(),
        margin: MARGIN,
        blocks: 2,
        proof: 16,
        budget: None,
    }
}

/// What is worse by how much from which candidate on.
type Truth<'a> = &'a [(usize, f64)];

/// Losses that scatter a little, the same each time.
fn losses(truth: Truth<'_>, probe: &Probe) -> Vec<f64> {
    let between = truth.iter().filter(|(place, _)| probe.reference < *place && *place <= probe.candidate);
    let mean: f64 = between.map(|(_, step)| step).sum();
    (0..probe.blocks).map(|block| mean + [0.004, -0.003, -0.005, 0.004][block % 4]).collect()
}

/// All visits of a search, with what came of them, and its answer.
fn search(question: &Question, truth: Truth<'_>, broken: &[usize]) -> (Vec<(Probe, Came)>, Answer) {
    let mut bisection = Bisection::new(question.clone()).unwrap();
    let mut made = Vec::new();
    loop {
        match bisection.next() {
            Next::Answer(answer) => return (made, answer),
            Next::Visit(probe) => {
                let unusable = [probe.reference, probe.candidate].into_iter().find(|which| broken.contains(which));
                let came = unusable.map_or_else(|| Came::Measured(losses(truth, &probe)), Came::Unusable);
                bisection.add(&probe, came.clone());
                made.push((probe, came));
                assert!(made.len() < 300, "it never ends");
            }
        }
    }
}

fn named(answer: &Answer) -> Vec<(usize, usize)> {
    answer.culprits.iter().map(|culprit| (culprit.group.after, culprit.group.last)).collect()
}

#[test]
fn each_candidate_is_found_when_it_is_the_culprit() {
    let question = question("abcdefghi");
    for culprit in 1..=8 {
        let (made, answer) = search(&question, &[(culprit, 0.04)], &[]);
        assert_eq!((named(&answer), &answer.end), (vec![(culprit - 1, culprit)], &End::Found));
        let found = answer.culprits[0];
        assert!(found.group.probability > 0.95 && (found.step.mean - 0.04).abs() < 0.01, "{found:?}");
        let purposes: Vec<Purpose> = made.iter().map(|(probe, _)| probe.purpose).collect();
        assert_eq!(purposes[..2], [Purpose::Ends; 2]);
        assert_eq!(purposes[purposes.len() - 2..], [Purpose::Verify; 2]);
        let last = &made.last().unwrap().0;
        assert_eq!((last.reference, last.candidate, last.blocks), (culprit - 1, culprit, 8));
    }
}

/// Of neighbours the later one is the only suspect, and proven to be worse like any other.
#[test]
fn neighbours_are_a_question_too() {
    let (made, answer) = search(&question("ab"), &[(1, 0.04)], &[]);
    assert_eq!((named(&answer), &answer.end), (vec![(0, 1)], &End::Found));
    assert_eq!(made.last().map(|(probe, _)| probe.purpose), Some(Purpose::Verify));
    assert_eq!(search(&question("ab"), &[], &[]).1.end, End::NotReproduced(None));
}

/// An experiment on a cluster has five blocks at least.
#[test]
fn visits_may_have_more_blocks_than_were_asked_for() {
    let question = Question { blocks: 1, proof: PROOF, ..question("abcdefghi") };
    let mut bisection = Bisection::new(question).unwrap();
    let answer = loop {
        match bisection.next() {
            Next::Answer(answer) => break answer,
            Next::Visit(probe) => {
                let longer = Probe { blocks: probe.blocks.max(5), ..probe };
                bisection.add(&probe, Came::Measured(losses(&[(3, 0.04)], &longer)));
            }
        }
    };
    assert_eq!((named(&answer), answer.end), (vec![(2, 3)], End::Found));
}

/// What is known after any number of visits follows from them alone.
#[test]
fn a_search_continues_from_its_records() {
    let question = question("abcdefghijklmnop");
    let (made, answer) = search(&question, &[(5, 0.02), (12, 0.05)], &[8]);
    for done in 0..=made.len() {
        let mut again = Bisection::new(question.clone()).unwrap();
        for (probe, came) in &made[..done] {
            again.add(probe, came.clone());
        }
        let expected = made.get(done).map_or(Next::Answer(answer.clone()), |(probe, _)| Next::Visit(*probe));
        assert_eq!(again.next(), expected, "after {done} visits");
    }
}

#[test]
fn ends_that_do_not_differ_end_the_search() {
    let question = question("abcdefghi");
    let (made, answer) = search(&question, &[], &[]);
    assert_eq!((answer, made.len()), (Answer { culprits: Vec::new(), end: End::NotReproduced(None) }, 2));
    // Better is not worse.
    let (_, answer) = search(&question, &[(4, -0.04)], &[]);
    assert_eq!(answer.end, End::NotReproduced(None));
    // What is neither shown nor refuted has a second look.
    let mut bisection = Bisection::new(question).unwrap();
    let wild = |block: usize| [0.2, -0.17, -0.19, 0.21][block % 4];
    for blocks in [8, 8, 8, 8] {
        let Next::Visit(probe) = bisection.next() else { panic!("{bisection:?}") };
        assert_eq!((probe.purpose, probe.blocks), (Purpose::Ends, blocks));
        bisection.add(&probe, Came::Measured((0..blocks).map(wild).collect()));
    }
    assert_eq!(bisection.next(), Next::Answer(Answer { culprits: Vec::new(), end: End::Undecided }));
}

/// The alert was wrong after all: what both ends showed does not come again.
#[test]
fn a_loss_that_does_not_come_again_is_not_reproduced() {
    let mut bisection = Bisection::new(question("abcdefghi")).unwrap();
    let answer = loop {
        match bisection.next() {
            Next::Answer(answer) => break answer,
            Next::Visit(probe) => {
                let truth: Truth<'_> = if probe.purpose == Purpose::Ends { &[(8, 0.04)] } else { &[] };
                bisection.add(&probe, Came::Measured(losses(truth, &probe)));
            }
        }
    };
    assert!(answer.culprits.is_empty());
    assert!(matches!(answer.end, End::NotReproduced(Some(chance)) if chance >= 0.95), "{answer:?}");
    assert!(bisection.visits().iter().any(|visit| visit.candidate == 8), "the bad end is asked again");
}

#[test]
fn candidates_that_can_not_run_widen_the_answer() {
    let question = question("abcdefghi");
    let (made, answer) = search(&question, &[(4, 0.04)], &[3, 4]);
    assert_eq!((named(&answer), &answer.end), (vec![(2, 5)], &End::Found));
    for broken in [3, 4] {
        let tried = made.iter().filter(|(probe, _)| probe.candidate == broken || probe.reference == broken);
        assert!(tried.count() <= 1, "it is not tried again");
    }
    // The one before the culprit was never visited, and can't run: the culprit is one of two.
    let (_, answer) = search(&question, &[(8, 0.04)], &[7]);
    assert_eq!(named(&answer), [(6, 8)]);
    for end in [0, 8] {
        let (_, answer) = search(&question, &[(4, 0.04)], &[end]);
        assert_eq!(answer.end, End::NoEnd(end));
    }
}

#[test]
fn equal_candidates_are_one() {
    // d is b again, so neither c nor d is the culprit, and three are left.
    let undone = question("abcbefg");
    assert_eq!(Bisection::new(undone.clone()).unwrap().candidates().suspects(), 4);
    let (_, answer) = search(&undone, &[(1, 0.04)], &[]);
    assert_eq!(named(&answer), [(0, 1)]);
    let bisection = Bisection::new(undone).unwrap();
    assert_eq!(bisection.members(&Group { after: 0, last: 6, probability: 1.0 }), [1, 4, 5, 6]);
    let refused = |digests: &str| Bisection::new(question(digests)).err();
    assert_eq!(refused("aba"), Some(QuestionError::NoSuspect));
    assert_eq!((refused("a"), refused("")), (Some(QuestionError::NoSuspect), Some(QuestionError::NoSuspect)));
}

#[test]
fn a_loss_that_one_culprit_does_not_explain_has_a_second() {
    let question = question("abcdefghijklmnopq");
    let (_, answer) = search(&question, &[(4, 0.03), (11, 0.09)], &[]);
    let mut both = named(&answer);
    both.sort_unstable();
    assert_eq!((both, answer.end), (vec![(3, 4), (10, 11)], End::Found));
    // A rest below a third of the margin is left alone.
    let (_, answer) = search(&question, &[(4, 0.008), (11, 0.09)], &[]);
    assert_eq!((named(&answer), answer.end), (vec![(10, 11)], End::Found));
}

/// After both ends.
fn begun(digests: &str) -> Bisection {
    let mut bisection = Bisection::new(question(digests)).unwrap();
    let probe = Probe { purpose: Purpose::Ends, reference: 0, candidate: digests.len() - 1, blocks: 16 };
    bisection.add(&probe, Came::Measured(losses(&[(1, 0.06)], &probe)));
    bisection
}

/// A change, its fix, and the change again: a grid shows it, and nothing is claimed.
#[test]
fn what_went_up_and_down_has_no_culprit() {
    let mut bisection = begun("abcdefghijklmnopq");
    let is_bad = |candidate: usize| (3..=6).contains(&candidate) || candidate >= 13;
    let visit = |bisection: &mut Bisection, probe: &Probe| {
        let truth: Truth<'_> = if is_bad(probe.candidate) { &[(1, 0.06)] } else { &[] };
        bisection.add(probe, Came::Measured(losses(truth, &Probe { reference: 0, ..*probe })));
    };
    for candidate in [4, 8] {
        assert!(matches!(bisection.next(), Next::Visit(Probe { purpose: Purpose::Search, .. })));
        visit(&mut bisection, &Probe { purpose: Purpose::Search, reference: 0, candidate, blocks: 2 });
    }
    let mut grid = Vec::new();
    let answer = loop {
        match bisection.next() {
            Next::Answer(answer) => break answer,
            Next::Visit(probe) => {
                assert_eq!(probe.purpose, Purpose::Grid);
                grid.push(probe.candidate);
                visit(&mut bisection, &probe);
            }
        }
    };
    assert_eq!((answer.culprits.len(), answer.end), (0, End::NonMonotone));
    assert_eq!(grid, [2, 2, 4, 6, 6, 8, 10, 10, 12, 12, 14, 14, 16, 16], "four blocks of each, also of the bad end");
}

/// A suspect that no proof confirms is dropped when the budget is spent.
#[test]
fn a_suspect_that_is_not_confirmed_is_not_named() {
    let mut bisection = begun("abcdefghi");
    let mut proofs = 0;
    let answer = loop {
        match bisection.next() {
            Next::Answer(answer) => break answer,
            Next::Visit(probe) => {
                let is_proof = probe.purpose == Purpose::Verify;
                proofs += usize::from(is_proof);
                // The loss is seen against the good end, and never against the candidate before.
                let truth: Truth<'_> = if is_proof { &[] } else { &[(4, 0.06)] };
                bisection.add(&probe, Came::Measured(losses(truth, &probe)));
                assert!(bisection.visits().len() < 100, "it never ends");
            }
        }
    };
    assert!(proofs >= 2 && answer.culprits.is_empty(), "{answer:?}");
    assert!(matches!(answer.end, End::Unsure(..) | End::NotReproduced(_)), "{answer:?}");
}

#[test]
fn a_spent_budget_tells_who_is_left() {
    let question = Question { budget: Some(2), ..question("abcdefghi") };
    let (made, answer) = search(&question, &[(4, 0.04)], &[]);
    let End::Unsure(likely, chance) = &answer.end else { panic!("{answer:?}") };
    assert!(likely.iter().any(|group| group.members().contains(&4)) && likely.len() < 8, "{likely:?}");
    assert!(*chance >= 0.9 && answer.culprits.is_empty());
    assert_eq!(made.iter().filter(|(probe, _)| probe.purpose == Purpose::Search).count(), 1);
}

/// More noise, more blocks, up to four times as many.
#[test]
fn the_budget_follows_the_noise() {
    let budget = |scatter: f64| {
        let mut bisection = Bisection::new(question("abcdefghi")).unwrap();
        assert_eq!((bisection.budget(), bisection.expected_blocks()), (30, None), "before anything is known");
        let ends = (0..16).map(|block| 0.03 + if block % 2 == 0 { scatter } else { -scatter });
        bisection.add(
            &Probe { purpose: Purpose::Ends, reference: 0, candidate: 8, blocks: 16 },
            Came::Measured(ends.collect()),
        );
        (bisection.budget(), bisection.expected_blocks().unwrap().round() as usize)
    };
    assert_eq!(budget(0.001), (30, 0));
    // The bound of the scatter is 1.206 times 1.033 times that of the blocks: 2.25 (0.0249 / 0.03)^2 = 1.55.
    assert_eq!(budget(0.02), (47, 23));
}

#[test]
fn a_question_without_sense_is_refused() {
    let with = |change: fn(&mut Question)| {
        let mut question = question("abc");
        change(&mut question);
        Bisection::new(question).err()
    };
    assert_eq!(with(|question| question.margin = 0.0), Some(QuestionError::Margin));
    assert_eq!(with(|question| question.margin = f64::NAN), Some(QuestionError::Margin));
    assert_eq!(with(|question| question.blocks = 0), Some(QuestionError::Blocks));
    assert_eq!(with(|question| question.proof = 6), Some(QuestionError::Blocks));
    assert_eq!(with(|question| question.proof = 7), None);
    // Seven blocks can prove it at the first of two looks, and six can't.
    assert!(0.5_f64.powi(7) <= ALPHA / 2.0 && 0.5_f64.powi(6) > ALPHA / 2.0);
}

proptest! {
    /// Records that nobody asked for, of any numbers, in any order.
    #[test]
    fn any_records_are_taken(
        records in prop::collection::vec(
            (0_usize..12, 0_usize..12, prop::collection::vec(prop::num::f64::ANY, 0..5), any::<bool>(), 0_u8..4), 0..40),
    ) {
        let mut bisection = Bisection::new(question("abcdefghij")).unwrap();
        for (reference, candidate, losses, usable, asked) in records {
            let probe = match bisection.next() {
                Next::Visit(probe) if asked > 0 => probe,
                _ => Probe { purpose: Purpose::Search, reference, candidate, blocks: 2 },
            };
            bisection.add(&probe, if usable { Came::Measured(losses) } else { Came::Unusable(candidate) });
        }
        let _ = bisection.next();
    }
}
