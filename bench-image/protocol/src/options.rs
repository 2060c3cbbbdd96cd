use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{EngineConfig, MAX_SUMMARY_BYTES, PageCache};

/// The question for `assay-bench options`: which of these options does its RocksDB know, and which have no effect?
/// Only a program that links RocksDB can tell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OptionsQuestion {
    /// The column families of the workload.
    pub families: Vec<String>,
    pub baseline: EngineConfig,
    /// By name. Each also holds the baseline's options.
    pub configs: BTreeMap<String, EngineConfig>,
    pub page_cache: PageCache,
}

/// The answer of `assay-bench options`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OptionsAnswer {
    /// Options that RocksDB rejects.
    pub problems: Vec<OptionProblem>,
    /// Options that RocksDB accepts but that have no effect.
    pub inert: Vec<OptionNote>,
    /// Declared options that RocksDB corrects to another value.
    pub sanitised: Vec<OptionNote>,
    /// Configs whose declared options are all inert: they can't differ from the baseline.
    pub all_inert: Vec<String>,
}

/// Characters kept of a problem that is too long by itself. Each takes at most six bytes in JSON.
const MAX_PROBLEM_TEXT: usize = 400;
const MAX_PROBLEM_NAME: usize = 64;

impl OptionsAnswer {
    /// The answer as JSON that fits into a termination message. Notes go first, then problems, each from the end; one problem always
    /// stays, since an answer without any would accept the options.
    pub fn short_json(mut self) -> Result<Vec<u8>, serde_json::Error> {
        // Commas go with their neighbours, but the last of each list has none.
        let most = MAX_SUMMARY_BYTES - 4;
        let mut bytes = serde_json::to_vec(&self)?.len();
        shrink(&mut self.sanitised, 0, &mut bytes, most)?;
        shrink(&mut self.inert, 0, &mut bytes, most)?;
        shrink(&mut self.all_inert, 1, &mut bytes, most)?;
        shrink(&mut self.problems, 1, &mut bytes, most)?;
        if bytes > most {
            self.problems.iter_mut().for_each(OptionProblem::shorten);
        }
        serde_json::to_vec(&self)
    }
}

fn shrink<T: Serialize>(
    list: &mut Vec<T>,
    least: usize,
    bytes: &mut usize,
    most: usize,
) -> Result<(), serde_json::Error> {
    while *bytes > most && list.len() > least {
        let Some(dropped) = list.pop() else { break };
        *bytes = bytes.saturating_sub(serde_json::to_vec(&dropped)?.len() + 1);
    }
    Ok(())
}

impl OptionProblem {
    fn shorten(&mut self) {
        let cut = |text: &mut String, most: usize| {
            if let Some((end, _)) = text.char_indices().nth(most) {
                text.truncate(end);
                text.push_str("...");
            }
        };
        cut(&mut self.message, MAX_PROBLEM_TEXT);
        cut(&mut self.scope, MAX_PROBLEM_NAME);
        cut(&mut self.option, MAX_PROBLEM_NAME);
        self.suggestion.iter_mut().for_each(|suggestion| cut(suggestion, MAX_PROBLEM_NAME));
    }
}

/// An option that RocksDB rejects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OptionProblem {
    pub config: String,
    /// `db`, or the name of a column family; empty if no single option is at fault.
    pub scope: String,
    pub option: String,
    pub message: String,
    /// The option that was probably meant.
    #[serde(default)]
    pub suggestion: Option<String>,
}

/// An option that has no effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OptionNote {
    pub config: String,
    /// `db`, or the name of a column family.
    pub scope: String,
    pub option: String,
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(number: usize) -> OptionNote {
        let option = format!("option_{number}");
        OptionNote { config: "candidate".to_owned(), scope: "db".to_owned(), option, message: "m".repeat(90) }
    }

    fn problem(message: &str) -> OptionProblem {
        OptionProblem {
            config: "candidate".to_owned(),
            scope: "db".to_owned(),
            option: "option".to_owned(),
            message: message.to_owned(),
            suggestion: None,
        }
    }

    fn shortened(answer: OptionsAnswer) -> OptionsAnswer {
        let json = answer.short_json().unwrap();
        assert!(json.len() <= MAX_SUMMARY_BYTES, "{} bytes", json.len());
        serde_json::from_slice(&json).unwrap()
    }

    #[test]
    fn an_answer_that_fits_stays_whole() {
        let answer = OptionsAnswer {
            problems: vec![problem("no")],
            inert: vec![note(1)],
            sanitised: vec![note(2)],
            all_inert: vec!["candidate".to_owned()],
        };
        assert_eq!(shortened(answer.clone()), answer);
        assert_eq!(shortened(OptionsAnswer::default()), OptionsAnswer::default());
    }

    #[test]
    fn notes_go_before_problems() {
        for count in 0..80 {
            let answer = OptionsAnswer {
                problems: vec![problem("no"); 5],
                inert: (0..count).map(note).collect(),
                sanitised: (0..count).map(note).collect(),
                all_inert: vec!["candidate".to_owned()],
            };
            let short = shortened(answer.clone());
            assert_eq!((&short.problems, &short.all_inert), (&answer.problems, &answer.all_inert));
            assert!(answer.inert.starts_with(&short.inert) && answer.sanitised.starts_with(&short.sanitised));
            assert!(short.sanitised.is_empty() || short.inert == answer.inert);
            // As many as there is space for: a note has less than two hundred bytes.
            let json = serde_json::to_vec(&short).unwrap();
            assert!(short == answer || json.len() > MAX_SUMMARY_BYTES - 200, "{} bytes of {count} notes", json.len());
        }
    }

    #[test]
    fn a_refusal_stays_one() {
        let many = OptionsAnswer { problems: vec![problem(&"no ".repeat(30)); 500], ..OptionsAnswer::default() };
        assert!(shortened(many).problems.len() > 10);
        // Whatever takes most space in JSON.
        let mut long = problem(&"\u{1}".repeat(10_000));
        long.scope = "\u{1}".repeat(1000);
        long.option = "\u{1}".repeat(1000);
        long.suggestion = Some("\u{10ffff}".repeat(1000));
        let answer =
            OptionsAnswer { problems: vec![long; 3], all_inert: vec!["c".repeat(63); 64], ..OptionsAnswer::default() };
        let short = shortened(answer);
        assert_eq!((short.problems.len(), short.all_inert.len()), (1, 1));
        assert!(short.problems[0].message.ends_with("..."));
    }

    #[test]
    fn what_just_fits_stays_whole() {
        let one_problem = |fill: &str| OptionsAnswer { problems: vec![problem(fill)], ..OptionsAnswer::default() };
        let filled = |fill: &str| OptionNote { message: fill.to_owned(), ..note(1) };
        let one_inert = |fill: &str| OptionsAnswer { inert: vec![filled(fill)], ..OptionsAnswer::default() };
        let one_sanitised = |fill: &str| OptionsAnswer { sanitised: vec![filled(fill)], ..OptionsAnswer::default() };
        for of in [&one_problem as &dyn Fn(&str) -> OptionsAnswer, &one_inert, &one_sanitised] {
            let empty = serde_json::to_vec(&of("")).unwrap().len();
            for bytes in MAX_SUMMARY_BYTES - 8..MAX_SUMMARY_BYTES + 8 {
                let answer = of(&"m".repeat(bytes - empty));
                let short = shortened(answer.clone());
                assert_eq!(short == answer, bytes <= MAX_SUMMARY_BYTES - 4, "{bytes} bytes");
            }
        }
    }
}
