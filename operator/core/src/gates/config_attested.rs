//! Config attested: the options that RocksDB really had are the declared ones, in every trial.

use std::collections::BTreeMap;

use assay_protocol::Digest;

use super::view::{View, majority};
use super::{Code, Findings, Gate};

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    baselines(view, findings);
    configs(view, findings);
    for &trial in view.completed() {
        let summary = view.summary(trial);
        let config = &summary.trial.config;
        let options = &summary.options;
        let (Some(declared), Some(effective)) = (&options.config, &options.effective) else {
            both(
                findings,
                trial,
                config,
                Code::OptionsUnknown,
                "the options of the measured database are unknown".to_owned(),
            );
            continue;
        };
        if declared != effective {
            let message = format!("options {effective} in effect, but the config declares {declared}");
            both(findings, trial, config, Code::OptionsMismatch, message);
        }
        if options.undeclared.count > 0 {
            let message =
                format!("undeclared differences: {}", list(options.undeclared.count, &options.undeclared.names));
            both(findings, trial, config, Code::UndeclaredOptions, message);
        }
        if options.sanitised.count > 0 {
            // The run is what it claims to be, but not what its author believes: RocksDB corrected the request.
            let text = format!(
                "RocksDB changed the declared value of {} (sanitised).",
                list(options.sanitised.count, &options.sanitised.names)
            );
            findings.note(Gate::ConfigAttested, Some(config), text);
        }
    }
}

/// What the baseline's options are is asked again in every trial: all must give the same answer. Another image may carry
/// another RocksDB, whose defaults differ by declaration.
fn baselines(view: &View<'_>, findings: &mut Findings) {
    type Answers<'a> = Vec<(usize, Option<&'a Digest>)>;
    let mut alike: BTreeMap<(Option<&str>, &str), Answers<'_>> = BTreeMap::new();
    for &trial in view.completed() {
        let image = view.config(trial).and_then(|config| config.image.as_deref());
        let summary = view.summary(trial);
        // Scenarios may have other families, and so other options.
        let key = (image, summary.trial.scenario.as_str());
        alike.entry(key).or_default().push((trial, summary.options.baseline.as_ref()));
    }
    for trials in alike.into_values() {
        let Some((expected, _)) = majority(trials.iter().filter_map(|(_, digest)| *digest)) else { continue };
        for (trial, digest) in trials {
            let config = &view.summary(trial).trial.config;
            match digest {
                None => {
                    both(
                        findings,
                        trial,
                        config,
                        Code::OptionsUnknown,
                        "the baseline's options are unknown".to_owned(),
                    );
                }
                Some(digest) if digest != expected => {
                    let message = format!("baseline options {digest}, expected {expected}");
                    both(findings, trial, config, Code::BaselineOptionsMismatch, message);
                }
                Some(_) => {}
            }
        }
    }
}

/// One config is one set of options, whatever the block.
fn configs(view: &View<'_>, findings: &mut Findings) {
    let mut by_config: BTreeMap<(&str, &str), Vec<(usize, &Digest)>> = BTreeMap::new();
    for &trial in view.completed() {
        let summary = view.summary(trial);
        if let Some(digest) = &summary.options.config {
            // Scenarios may have other families, and so other options.
            let key = (summary.trial.config.as_str(), summary.trial.scenario.as_str());
            by_config.entry(key).or_default().push((trial, digest));
        }
    }
    for ((config, _), trials) in by_config {
        let Some((expected, _)) = majority(trials.iter().map(|(_, digest)| *digest)) else { continue };
        for (trial, digest) in trials.into_iter().filter(|(_, digest)| *digest != expected) {
            let message = format!("the config's options are {digest}, but {expected} in its other trials");
            both(findings, trial, config, Code::OptionsUnstable, message);
        }
    }
}

/// Options are the same at the next try, so the config is invalid with its first such run.
fn both(findings: &mut Findings, trial: usize, config: &str, code: Code, message: String) {
    findings.config(config, code, message.clone());
    findings.trial(trial, code, message);
}

/// A count of options of which only the first few are named.
pub(super) fn list(count: u32, names: &[String]) -> String {
    let named = names.join(", ");
    let more = (count as usize).saturating_sub(names.len());
    if more == 0 { named } else { format!("{named} and {more} more") }
}

#[cfg(test)]
mod tests {
    use assay_protocol::{Digest, Summary};

    use super::super::testing::{codes, experiment, gated_with, gated_with_all, scenario};
    use super::Code;

    #[test]
    fn scenarios_of_other_families_have_other_options() {
        let mut two = experiment();
        two.scenarios.push(scenario("read"));
        let gated = gated_with_all(&two, |s| {
            if s.trial.scenario == "read" {
                for digest in [&mut s.options.baseline, &mut s.options.config, &mut s.options.effective] {
                    *digest = digest.as_ref().map(|digest| Digest::of(format!("{digest} of read").as_bytes()));
                }
            }
        });
        assert!(gated.configs.is_empty(), "{:?}", gated.configs);
    }

    fn broken(change: impl Fn(&mut Summary)) -> Vec<Code> {
        let gated = gated_with(&experiment(), 1, change);
        let config: Vec<Code> =
            gated.configs.get("candidate").into_iter().flatten().map(|finding| finding.code).collect();
        let trial = codes(&gated.trials[1]);
        assert_eq!(trial, config, "a run's options are its config's");
        trial
    }

    #[test]
    fn every_difference_is_found_and_named() {
        let other = || Some(Digest::of(b"other"));
        assert_eq!(broken(|_| ()), []);
        assert_eq!(broken(|s| s.options.baseline = other()), [Code::BaselineOptionsMismatch]);
        assert_eq!(broken(|s| s.options.baseline = None), [Code::OptionsUnknown]);
        assert_eq!(broken(|s| s.options.effective = other()), [Code::OptionsMismatch]);
        assert_eq!(broken(|s| s.options.effective = None), [Code::OptionsUnknown]);
        assert_eq!(broken(|s| s.options.undeclared.count = 1), [Code::UndeclaredOptions]);
        let unstable = |s: &mut Summary| {
            s.options.config = other();
            s.options.effective = other();
        };
        assert_eq!(broken(unstable), [Code::OptionsUnstable]);
    }

    #[test]
    fn sanitised_options_are_named_and_valid() {
        let gated = gated_with(&experiment(), 1, |s| {
            s.options.sanitised.count = 3;
            s.options.sanitised.names = vec!["write_buffer_size".to_owned()];
        });
        assert_eq!(codes(&gated.trials[1]), []);
        let notes: Vec<&str> = gated.notes.iter().map(|note| note.text.as_str()).collect();
        assert_eq!(notes, ["RocksDB changed the declared value of write_buffer_size and 2 more (sanitised)."]);
    }
}
