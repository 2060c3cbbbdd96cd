//! The file that lists candidates.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::search::PROOF;
use crate::validate::{FieldPath, Problem, did_you_mean, schema};

/// More candidates than anybody builds, and few enough for quick answers.
const MOST: usize = 1000;
const NAME: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const REVISION: &str = "^[A-Za-z0-9]([-A-Za-z0-9_./+]*[A-Za-z0-9])?$";

/// What a bisection is to search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Listing {
    /// The file of the experiment or the sweep that says how to measure.
    pub experiment: String,
    /// If absent, the only one of the experiment.
    pub scenario: Option<String>,
    /// If absent, the first objective of the experiment.
    pub metric: Option<String>,
    #[serde(default = "blocks")]
    pub blocks_per_visit: usize,
    #[serde(default = "proof")]
    pub proof_blocks: usize,
    pub budget_blocks: Option<usize>,
    /// From old to new.
    pub candidates: Vec<Listed>,
}

/// A candidate as it is listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Listed {
    pub name: String,
    pub revision: Option<String>,
    /// The program that it is.
    pub bench: Option<String>,
    /// The image that it is, for a cluster.
    pub image: Option<String>,
    /// The config of the experiment that it is.
    pub config: Option<String>,
    #[serde(default = "weight")]
    pub weight: u32,
}

fn blocks() -> usize {
    2
}

fn proof() -> usize {
    16
}

fn weight() -> u32 {
    1
}

/// Reads a listing: what it is, unless something is wrong with it.
pub fn read(document: &Value) -> Result<Listing, Vec<Problem>> {
    let root = FieldPath::root();
    let mut problems = schema::check(&listing_schema(), document, &root);
    if problems.is_empty() {
        match serde_json::from_value::<Listing>(document.clone()) {
            Ok(listing) => {
                problems = listing.problems();
                if problems.is_empty() {
                    return Ok(listing);
                }
            }
            Err(error) => problems.push(Problem::error(root, error.to_string())),
        }
    }
    problems.sort();
    Err(problems)
}

fn listing_schema() -> Value {
    let count =
        |least: usize, what: &str| json!({"type": "integer", "minimum": least, "maximum": 1000, "description": what});
    let text = |what: &str| json!({"type": "string", "minLength": 1, "maxLength": 4096, "description": what});
    json!({
        "type": "object",
        "required": ["experiment", "candidates"],
        "properties": {
            "experiment": text("The file of an experiment or a sweep: how to measure."),
            "scenario": text("The scenario to run."),
            "metric": text("The metric that became worse."),
            "blocksPerVisit": count(1, "Blocks of each visit."),
            "proofBlocks": count(PROOF, "Blocks to prove that one candidate is worse than another."),
            "budgetBlocks": count(1, "Blocks that the search may take."),
            "candidates": {
                "type": "array",
                "minItems": 2,
                "maxItems": MOST,
                "description": "All candidates, from old to new.",
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string", "minLength": 1, "maxLength": 63, "pattern": NAME, "description": "A name."},
                        "revision": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": REVISION},
                        "bench": text("Its program."),
                        "image": {"type": "string", "minLength": 1, "maxLength": 512, "description": "Its image."},
                        "config": text("Its config."),
                        "weight": count(1, "How likely it is, compared with others."),
                    },
                    "oneOf": [{"required": ["bench"]}, {"required": ["image"]}, {"required": ["config"]}],
                },
            },
        },
    })
}

impl Listed {
    /// Which of its fields says what it is.
    fn kind(&self) -> [bool; 3] {
        [&self.bench, &self.image, &self.config].map(Option::is_some)
    }
}

impl Listing {
    fn problems(&self) -> Vec<Problem> {
        let path = FieldPath::root().key("candidates");
        let mut problems = Vec::new();
        let mut seen: BTreeMap<&str, String> = BTreeMap::new();
        for (index, listed) in self.candidates.iter().enumerate() {
            for (field, text) in [("name", Some(&listed.name)), ("revision", listed.revision.as_ref())] {
                let Some(text) = text else { continue };
                let place = path.index(index).key(field);
                // A candidate may have its revision for a name.
                match seen.get(text.as_str()).filter(|_| field == "name" || *text != listed.name) {
                    Some(first) => {
                        problems.push(Problem::error(place, format!("duplicate {text:?}; first used in {first}")));
                    }
                    None => drop(seen.insert(text, place.to_string())),
                }
            }
            if listed.kind() != self.candidates[0].kind() {
                let message = "mixes kinds of candidates: list only programs (bench), only images, or only configs";
                problems.push(Problem::error(path.index(index), message));
            }
        }
        problems
    }

    /// The candidate that a name or a revision stands for.
    pub fn find(&self, named: &str) -> Result<usize, String> {
        let is_it = |listed: &Listed| listed.name == named || listed.revision.as_deref() == Some(named);
        self.candidates.iter().position(is_it).ok_or_else(|| {
            let names = || self.candidates.iter().map(|listed| listed.name.as_str());
            let mut hint = did_you_mean(named, names());
            if hint.is_empty() {
                let (first, last) = (&self.candidates[0].name, &self.candidates[self.candidates.len() - 1].name);
                hint = format!("; the list goes from {first} to {last}");
            }
            format!("no candidate has the name or revision {named:?}{hint}")
        })
    }

    /// The candidates from the good end to the bad end, as their places in the list.
    pub fn between(&self, good: &str, bad: &str) -> Result<std::ops::RangeInclusive<usize>, String> {
        let (first, last) = (self.find(good)?, self.find(bad)?);
        if first == last {
            return Err(format!(
                "{good} and {bad} are the same candidate: name an older one that is good, and a newer one that is bad"
            ));
        }
        if first > last {
            return Err(format!(
                "{good} comes after {bad}: candidates go from old to new, so turn the list around, or swap GOOD and BAD"
            ));
        }
        Ok(first..=last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing() -> Value {
        json!({
            "experiment": "nightly.yaml",
            "candidates": [
                {"name": "v1", "revision": "4f2c1d", "bench": "v1/assay-bench"},
                {"name": "v2", "bench": "v2/assay-bench", "weight": 3},
                {"name": "v3", "revision": "v3", "bench": "v3/assay-bench"},
            ],
        })
    }

    fn said(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut document = listing();
        change(&mut document);
        read(&document).err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_listing_is_read_with_its_defaults() {
        let read = read(&listing()).unwrap();
        assert_eq!((read.blocks_per_visit, read.proof_blocks, read.budget_blocks), (2, 16, None));
        assert_eq!(read.candidates.iter().map(|listed| listed.weight).collect::<Vec<_>>(), [1, 3, 1]);
        assert_eq!((read.find("4f2c1d"), read.find("v3")), (Ok(0), Ok(2)));
        assert_eq!(read.between("4f2c1d", "v3"), Ok(0..=2));
    }

    #[test]
    fn mistakes_are_told_with_their_fields() {
        for (change, expected) in [
            (
                (|all: &mut Value| all["candidates"] = json!([])) as fn(&mut Value),
                "candidates: has 0 entries, needs at least 2",
            ),
            (
                |all| all["candidates"][1]["name"] = json!("v1"),
                "candidates[1].name: duplicate \"v1\"; first used in candidates[0].name",
            ),
            (
                |all| all["candidates"][1]["revision"] = json!("4f2c1d"),
                "candidates[1].revision: duplicate \"4f2c1d\"; first used in candidates[0].revision",
            ),
            (
                |all| all["candidates"][1]["config"] = json!("x"),
                "candidates[1]: set exactly one of bench, image and config (bench and config are set)",
            ),
            (
                |all| all["candidates"][1] = json!({"name": "v2", "config": "x"}),
                "candidates[1]: mixes kinds of candidates: list only programs (bench), only images, or only configs",
            ),
            (
                |all| all["candidates"][1] = json!({"name": "v2", "image": "r/a:1"}),
                "candidates[1]: mixes kinds of candidates: ",
            ),
            (|all| all["candidates"][1]["weight"] = json!(0), "candidates[1].weight: "),
            (|all| all["candidates"][1]["naem"] = json!("x"), "candidates[1].naem: unknown field; did you mean name?"),
            (|all| all["proofBlocks"] = json!(6), "proofBlocks: "),
            (|all| *all = json!("text"), "must be"),
            (|all| drop(all.as_object_mut().unwrap().remove("experiment")), "experiment is required"),
        ] {
            let said = said(change);
            assert!(matches!(&said[..], [only] if only.contains(expected)), "{expected}: {said:?}");
        }
    }

    #[test]
    fn ends_are_told_apart() {
        let listing = read(&listing()).unwrap();
        let refused = |good: &str, bad: &str| listing.between(good, bad).unwrap_err();
        assert_eq!(refused("v1", "v4"), "no candidate has the name or revision \"v4\"; did you mean v1?");
        assert_eq!(
            refused("main", "v1"),
            "no candidate has the name or revision \"main\"; the list goes from v1 to v3"
        );
        assert!(refused("v3", "v1").starts_with("v3 comes after v1: "));
        assert!(refused("v3", "v3").starts_with("v3 and v3 are the same candidate"));
        assert_eq!(listing.between("v1", "v2"), Ok(0..=1), "neighbours are a question, too");
    }
}
