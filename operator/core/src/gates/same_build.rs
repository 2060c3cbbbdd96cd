//! Same build: one program on one machine, except where a config declares another image.

use assay_protocol::{Digest, Summary};

use super::view::{View, majority};
use super::{Code, Findings, Gate, Note, named};

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    builds(view, findings);
    machines(view, findings);
    for summary in view.completed().iter().map(|&trial| view.summary(trial)) {
        if !summary.parity.build_known {
            let text = "The bench could not read its own executable; versions and features were compared instead.";
            findings.notes.insert(Note::unchecked(Gate::SameBuild, None, text));
        }
        let unknown = [(!summary.parity.build_known, "executable"), (summary.parity.boot.is_none(), "boot")];
        findings.unknown(Gate::SameBuild, named(unknown));
    }
}

/// Configs of the same image, or of none, must run the same program in every trial. Another program does not become
/// the right one by being started again, so the whole config is invalid.
fn builds(view: &View<'_>, findings: &mut Findings) {
    let image = |trial: usize| view.config(trial).and_then(|config| config.image.as_deref());
    let mut images: Vec<Option<&str>> = view.completed().iter().map(|&trial| image(trial)).collect();
    images.sort_unstable();
    images.dedup();
    for group in images {
        let trials = || view.completed().iter().copied().filter(|&trial| image(trial) == group);
        let build = |trial: usize| &view.summary(trial).parity.build;
        // The baseline sets the standard where it is part of the group.
        let standard = majority(trials().filter(|&trial| view.is_baseline(trial)).map(build));
        let Some((expected, _)) = standard.or_else(|| majority(trials().map(build))) else { continue };
        for trial in trials().filter(|&trial| build(trial) != expected) {
            let message = format!("build {}, expected {expected}", build(trial));
            findings.trial(trial, Code::FeatureMismatch, message.clone());
            findings.config(&view.summary(trial).trial.config, Code::FeatureMismatch, message);
        }
    }
}

fn machines(view: &View<'_>, findings: &mut Findings) {
    for block in view.blocks() {
        differing(
            view,
            block,
            |s| Some(&s.parity.machine),
            |trial, seen, expected| {
                findings.trial(
                    trial,
                    Code::MachineMismatch,
                    format!("machine {seen}, but {expected} in the rest of the block"),
                );
            },
        );
        differing(
            view,
            block,
            |s| s.parity.boot.as_ref(),
            |trial, seen, expected| {
                findings.trial(trial, Code::Rebooted, format!("boot {seen}, but {expected} in the rest of the block"));
            },
        );
    }
}

fn differing<'a>(
    view: &View<'a>,
    block: &[usize],
    fact: impl Fn(&'a Summary) -> Option<&'a Digest>,
    mut found: impl FnMut(usize, &Digest, &Digest),
) {
    let known = || block.iter().filter_map(|&trial| fact(view.summary(trial)).map(|value| (trial, value)));
    let Some((expected, _)) = majority(known().map(|(_, value)| value)) else { return };
    for (trial, value) in known().filter(|(_, value)| *value != expected) {
        found(trial, value, expected);
    }
}

#[cfg(test)]
mod tests {
    use assay_protocol::Digest;

    use super::super::testing::{codes, experiment, gated_with, gated_with_all};
    use super::Code;

    #[test]
    fn another_program_invalidates_the_config() {
        let gated = gated_with(&experiment(), 1, |s| s.parity.build = Digest::of(b"other"));
        assert_eq!(codes(&gated.trials[1]), [Code::FeatureMismatch]);
        assert!(gated.configs["candidate"].iter().any(|finding| finding.code == Code::FeatureMismatch));
        assert!(!gated.configs.contains_key("base"));
    }

    #[test]
    fn a_declared_image_may_differ_but_not_from_itself() {
        let mut experiment = experiment();
        experiment.configs[1].image = Some("other:1".to_owned());
        let is_candidate = |config: &str| config == "candidate";
        let gated = gated_with_all(&experiment, |s| {
            if is_candidate(&s.trial.config) {
                s.parity.build = Digest::of(b"other");
            }
        });
        assert!(gated.configs.is_empty());
        let gated = gated_with_all(&experiment, |s| {
            if is_candidate(&s.trial.config) {
                s.parity.build = Digest::of(if s.trial.block == 0 { b"a" } else { b"b" });
            }
        });
        assert!(gated.configs["candidate"].iter().any(|finding| finding.code == Code::FeatureMismatch));
    }

    #[test]
    fn a_block_stays_on_one_machine_and_one_boot() {
        let mut experiment = experiment();
        experiment.baseline_replicates = 2;
        let moved = gated_with(&experiment, 1, |s| s.parity.machine = Digest::of(b"other"));
        assert_eq!(codes(&moved.trials[1]), [Code::MachineMismatch]);
        let rebooted = gated_with(&experiment, 1, |s| s.parity.boot = Some(Digest::of(b"other")));
        assert_eq!(codes(&rebooted.trials[1]), [Code::Rebooted]);
        let by_block = gated_with_all(&experiment, |s| s.parity.machine = Digest::of(&s.trial.block.to_le_bytes()));
        assert!(by_block.trials.iter().all(|state| codes(state).is_empty()));
    }

    #[test]
    fn an_unreadable_executable_is_noted() {
        let gated = gated_with(&experiment(), 1, |s| s.parity.build_known = false);
        assert_eq!(codes(&gated.trials[1]), []);
        assert_eq!(gated.notes.len(), 1);
    }
}
