//! Inert: a config that changes nothing can't have an effect, whatever its numbers say.

use super::config_attested::list;
use super::view::View;
use super::{Code, Findings, Gate};
use crate::experiment::{ConfigUnderTest, Experiment};

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    let base_build = || {
        let mut trials = view.completed().iter().copied();
        trials.find(|&trial| view.is_baseline(trial)).map(|trial| &view.summary(trial).parity.build)
    };
    for &trial in view.completed() {
        // The baseline's options equal the baseline's, of course.
        if view.is_baseline(trial) {
            continue;
        }
        let summary = view.summary(trial);
        let (name, options) = (&summary.trial.config, &summary.options);
        let Some(config) = view.config(trial).filter(|config| !config.changes.is_empty()) else { continue };
        if options.inert.count > 0 {
            let text = format!("No effect (inert): {}.", list(options.inert.count, &options.inert.names));
            findings.note(Gate::Inert, Some(name), text);
        }
        let same_options = options.inert.count >= options.declared && options.effective == options.baseline;
        let same_program = config.image.is_none() || base_build() == Some(&summary.parity.build);
        if same_options && same_program && only_options(view.experiment, config) {
            findings.config(name, Code::NoEffectPossible, "none of the declared options had an effect on RocksDB");
        }
    }
}

/// Whether all that the config changes are options, so that equal options mean an equal database.
fn only_options(experiment: &Experiment, config: &ConfigUnderTest) -> bool {
    experiment.baseline_config().is_some_and(|baseline| {
        let (own, base) = (&config.engine, &baseline.engine);
        own.block_cache == base.block_cache && own.write_options == base.write_options && own.policy == base.policy
    })
}

#[cfg(test)]
mod tests {
    use assay_protocol::Summary;

    use super::super::testing::{codes, experiment, gated_with_all};
    use super::Code;
    use crate::experiment::Experiment;

    fn all_inert(summary: &mut Summary) {
        if summary.trial.config == "candidate" {
            summary.options.inert.count = 2;
            summary.options.inert.names = vec!["a".to_owned(), "b".to_owned()];
            summary.options.declared = 2;
            summary.options.config = summary.options.baseline.clone();
            summary.options.effective = summary.options.baseline.clone();
        }
    }

    fn found(experiment: &Experiment, change: impl Fn(&mut Summary)) -> Vec<Code> {
        let gated = gated_with_all(experiment, change);
        assert!(gated.trials.iter().all(|state| codes(state).is_empty()), "the runs themselves are fine");
        gated.configs.get("candidate").into_iter().flatten().map(|finding| finding.code).collect()
    }

    #[test]
    fn a_change_that_reaches_nothing_is_no_change() {
        assert_eq!(found(&experiment(), all_inert), [Code::NoEffectPossible]);
    }

    #[test]
    fn partly_inert_is_a_note() {
        let experiment = experiment();
        let partly = |summary: &mut Summary| {
            if summary.trial.config == "candidate" {
                summary.options.inert.count = 1;
                summary.options.inert.names = vec!["a".to_owned()];
                summary.options.declared = 2;
            }
        };
        assert_eq!(found(&experiment, partly), []);
        let notes = gated_with_all(&experiment, partly).notes;
        assert_eq!(notes.first().map(|note| note.text.as_str()), Some("No effect (inert): a."));
    }

    #[test]
    fn an_a_a_config_is_fine() {
        let mut experiment = experiment();
        experiment.configs[1].changes.clear();
        assert_eq!(found(&experiment, all_inert), []);
    }

    #[test]
    fn changes_beside_options_count() {
        let mut cache = experiment();
        cache.configs[1].engine.block_cache = Some(assay_protocol::BlockCache { bytes: 1 << 20, shared: true });
        assert_eq!(found(&cache, all_inert), []);
    }

    #[test]
    fn an_image_that_is_the_same_program_is_no_change() {
        let mut image = experiment();
        image.configs[1].image = Some("other:1".to_owned());
        assert_eq!(found(&image, all_inert), [Code::NoEffectPossible]);
        let other_program = |summary: &mut Summary| {
            all_inert(summary);
            if summary.trial.config == "candidate" {
                summary.parity.build = assay_protocol::Digest::of(b"other");
            }
        };
        assert_eq!(found(&image, other_program), []);
    }
}
