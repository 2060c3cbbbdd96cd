//! Answers, before anything runs, which declared options do not exist and which would reach nothing.

use std::path::Path;

use assay_protocol::{
    EngineConfig, OptionFact, OptionNote, OptionProblem, OptionStatus, OptionsAnswer, OptionsQuestion, PageCache,
};

use super::{
    EngineError, Family,
    attest::{Attestor, Reference},
    needs::is_on,
    options_file::OptionMap,
    rejected::{misplaced, refused},
    without,
};

/// Answers which declared options do not exist and which reach nothing, before anything runs. What is refused is left out, so that
/// it hides nothing else.
pub fn options_answer(question: &OptionsQuestion, scratch: &Path) -> Result<OptionsAnswer, EngineError> {
    let families: Vec<Family> = question.families.iter().map(|name| Family::new(name)).collect();
    let defaults = probe(scratch, &EngineConfig::default(), &families, PageCache::Evict)?;
    let (of_baseline, _) = refused("", &question.baseline, &question.families, &defaults.options);
    let baseline = without(&question.baseline, &of_baseline);
    let unopened = probe(scratch, &baseline, &families, question.page_cache).err().map(|error| reason(&error));
    let is_asked = question.configs.values().any(|config| *config == question.baseline);
    let mut answer = OptionsAnswer::default();
    for (name, config) in &question.configs {
        let (options, problems) = refused(name, config, &question.families, &defaults.options);
        let is_whole = problems.is_empty();
        let only_inherited = options
            .iter()
            .all(|option| of_baseline.contains(option) && option.value(config) == option.value(&question.baseline));
        answer.problems.extend(problems);
        let sound = without(config, &options);
        // A baseline that can't be opened can't be compared with.
        let compared = if unopened.is_none() { &baseline } else { &sound };
        match Attestor::new(scratch, compared, &sound, &|_| families.clone(), question.page_cache) {
            Ok(attestor) => {
                note_inert(name, &sound, compared, &attestor, only_inherited, &mut answer);
                note_sanitised(name, &attestor, &mut answer);
            }
            // Without what was refused it may be no config that can be opened.
            Err(_) if !is_whole => {}
            Err(error) => {
                let message = reason(&error);
                let is_inherited = is_asked && *config != question.baseline && unopened.as_ref() == Some(&message);
                if !is_inherited {
                    answer.problems.push(OptionProblem {
                        config: name.clone(),
                        scope: String::new(),
                        option: String::new(),
                        message,
                        suggestion: None,
                    });
                }
            }
        }
    }
    Ok(answer)
}

fn probe(
    scratch: &Path,
    config: &EngineConfig,
    families: &[Family],
    page_cache: PageCache,
) -> Result<Reference, EngineError> {
    Reference::probe(&scratch.join("attest"), config, families, page_cache)
}

/// Why a config has no database. The folder that was tried is nobody's concern.
fn reason(error: &EngineError) -> String {
    match error {
        EngineError::Open { status, .. } => format!("RocksDB can't open a database with these options: {status}"),
        other => other.to_string(),
    }
}

fn note_inert(
    name: &str,
    config: &EngineConfig,
    baseline: &EngineConfig,
    attestor: &Attestor,
    is_understood: bool,
    answer: &mut OptionsAnswer,
) {
    let declared: Vec<&OptionFact> = attestor.facts.iter().filter(|fact| fact.declared.is_some()).collect();
    let inert: Vec<&&OptionFact> = declared.iter().filter(|fact| fact.status == OptionStatus::Inert).collect();
    let (misread, inert): (Vec<&OptionFact>, Vec<&OptionFact>) =
        inert.into_iter().copied().partition(|fact| read_in_part(fact).is_some());
    answer.problems.extend(misread.into_iter().filter_map(|fact| Some(problem(name, fact, read_in_part(fact)?))));
    for fact in &inert {
        answer.inert.push(note(name, fact, inert_reason(fact, attestor)));
    }
    let only_engine_changed = config.policy == baseline.policy;
    if config != baseline
        && only_engine_changed
        && is_understood
        && !declared.is_empty()
        && inert.len() == declared.len()
        && attestor.changes_nothing()
    {
        answer.all_inert.push(name.to_owned());
    }
}

fn note_sanitised(name: &str, attestor: &Attestor, answer: &mut OptionsAnswer) {
    for fact in attestor.facts.iter().filter(|fact| fact.status == OptionStatus::Sanitised) {
        let (asked, has) = (fact.declared.as_deref().unwrap_or(""), fact.effective.as_deref().unwrap_or(""));
        // RocksDB's parser reads a negative size as a huge one; nobody means that.
        let negative = (asked.starts_with('-') && !has.starts_with('-'))
            .then(|| format!("{asked} is negative, and RocksDB would use {has}"));
        match negative.or_else(|| read_in_part(fact)) {
            Some(message) => answer.problems.push(problem(name, fact, message)),
            None => answer.sanitised.push(note(name, fact, format!("RocksDB uses {has} instead of {asked}"))),
        }
    }
}

fn problem(config: &str, fact: &OptionFact, message: String) -> OptionProblem {
    OptionProblem {
        config: config.to_owned(),
        scope: fact.scope.clone(),
        option: fact.option.clone(),
        message,
        suggestion: None,
    }
}

fn note(config: &str, fact: &OptionFact, message: String) -> OptionNote {
    OptionNote { config: config.to_owned(), scope: fact.scope.clone(), option: fact.option.clone(), message }
}

/// RocksDB's parser stops where a number ends: of 1.5G it reads the 1.
fn read_in_part(fact: &OptionFact) -> Option<String> {
    let (asked, has) = (fact.declared.as_deref()?, fact.effective.as_deref()?);
    (is_integer(has) && asked.starts_with(|c: char| c.is_ascii_digit()) && !is_size(asked)).then(|| {
        format!(
            "RocksDB reads only part of {asked} and would use {has}: write a whole number, with K, M, G or T if needed"
        )
    })
}

fn is_integer(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
}

/// A number as RocksDB reads it whole: with a binary suffix of one letter at most.
fn is_size(text: &str) -> bool {
    is_integer(text.strip_suffix(|c: char| "kKmMgGtT".contains(c)).unwrap_or(text))
}

fn inert_reason(fact: &OptionFact, attestor: &Attestor) -> String {
    let options: &OptionMap = &attestor.config.options;
    if let Some(reason) = options.ignored(&fact.scope, &fact.option) {
        return reason.to_owned();
    }
    let declared = fact.declared.as_deref().unwrap_or_default();
    match fact.effective.as_deref() {
        None => misplaced(&fact.scope, &fact.option, options).unwrap_or("RocksDB ignores it").to_owned(),
        Some("" | "nullptr") if is_on(declared) => {
            format!("RocksDB does not know {declared:?} and uses none{}", filter_policy(&fact.option, declared))
        }
        Some(effective) if attestor.is_as_declared(fact) => format!("already {effective} in the baseline"),
        Some(effective) => format!("RocksDB keeps {effective}"),
    }
}

/// The filter policy that was meant, as a clause.
fn filter_policy(option: &str, declared: &str) -> String {
    if !option.ends_with(".filter_policy") {
        return String::new();
    }
    let bits = declared.split(|c: char| !c.is_ascii_digit() && c != '.').find(|part| part.parse::<f64>().is_ok());
    format!("; write bloomfilter:{}:false", bits.unwrap_or("10"))
}
