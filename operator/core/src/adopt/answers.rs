//! An experiment from answers to a few questions.

use assay_protocol::{KeyOrder, Mix};

use super::defaults::{BUNDLED, Defaults, Scope, TABLE, same};
use super::draft::{Cache, Change, Draft, DraftScenario, placeholder};
use crate::validate::did_you_mean;

/// Keys of a first experiment.
const KEY_BYTES: u32 = 20;

/// What somebody wants to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    pub keys: u64,
    pub value_bytes: u32,
    pub read_percent: u32,
    /// `None` is RocksDB's default.
    pub cache_bytes: Option<u64>,
    pub change: Change,
}

impl Answers {
    pub fn draft(&self, name: &str, cpus: u32) -> Draft {
        let mut workload =
            placeholder(self.keys, KEY_BYTES, self.value_bytes, vec!["default".to_owned()], mix(self.read_percent));
        for role in &mut workload.roles {
            role.key_order = KeyOrder::Zipfian;
        }
        let scenario = DraftScenario {
            name: "mixed".to_owned(),
            notes: vec!["Few keys are hot; remove keyOrder if all are equally likely.".to_owned()],
            workload,
        };
        Draft {
            name: name.to_owned(),
            head: vec![
                "Written by `assay init`. Next: `assay validate` and `assay plan` on this file. docs/experiment.md has all \
                 fields."
                    .to_owned(),
            ],
            cache: self.cache_bytes.map(|bytes| Cache { bytes, shared: true }),
            change: Some(self.change.clone()),
            scenarios: vec![scenario],
            cpus,
            ..Draft::default()
        }
    }
}

/// Shares in the smallest numbers.
fn mix(read_percent: u32) -> Mix {
    let gcd = |mut a: u32, mut b: u32| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a.max(1)
    };
    let (get, put) = (read_percent.min(100), 100 - read_percent.min(100));
    let divisor = gcd(get, put);
    Mix { get: get / divisor, put: put / divisor, ..Mix::default() }
}

/// Reads `option=value`. The option is one of RocksDB's, the value not its default.
impl std::str::FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((option, value)) = text.split_once('=') else {
            return Err("write an option and its value, such as block_size=16384".to_owned());
        };
        let (option, value) = (option.trim(), value.trim());
        let Defaults { version, db, family } = &*BUNDLED;
        let Some((scope, name)) = BUNDLED.find(option) else {
            let in_table =
                |name: &'static str| name.strip_prefix(TABLE).map_or(name, |rest| rest.trim_start_matches('.'));
            let known = db.keys().chain(family.keys()).map(|name| in_table(name));
            return Err(format!("RocksDB {version} has no option {option}{}", did_you_mean(option, known)));
        };
        if value.is_empty() || value.contains([';', '{', '}']) {
            return Err(format!("{option} needs a plain value"));
        }
        let defaults = if scope == Scope::Db { db } else { family };
        if let Some(default) = defaults.get(&name).filter(|default| same(value, default)) {
            return Err(format!("{option} is {default} by default: give another value"));
        }
        Ok(Self { scope, option: name, value: value.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::errors;
    use super::*;

    #[test]
    fn answers_become_a_valid_experiment() {
        for (read_percent, expected) in [(100, (1, 0)), (0, (0, 1)), (90, (9, 1)), (50, (1, 1)), (33, (33, 67))] {
            let answers = Answers {
                keys: 1_000_000,
                value_bytes: 400,
                read_percent,
                cache_bytes: Some(64 << 20),
                change: "block_size=16K".parse().unwrap(),
            };
            let draft = answers.draft("mine", 4);
            let mix = draft.scenarios[0].workload.roles[0].mix;
            assert_eq!((mix.get, mix.put), expected);
            assert_eq!(errors(&draft), Vec::<String>::new());
            assert!(draft.yaml().contains("block_based_table_factory: \"{block_size=16K}\""), "{}", draft.yaml());
        }
    }

    #[test]
    fn options_are_known_by_their_scope() {
        let change = |text: &str| text.parse::<Change>().map(|change| (change.scope, change.option));
        assert_eq!(change("max_background_jobs = 8"), Ok((Scope::Db, "max_background_jobs".to_owned())));
        assert_eq!(change("write_buffer_size=128M"), Ok((Scope::Families, "write_buffer_size".to_owned())));
        for (text, message) in [
            ("write_buffer_size", "write an option and its value"),
            ("write_bufer_size=1", "RocksDB 11.8.1 has no option write_bufer_size; did you mean write_buffer_size?"),
            ("blok_size=1", "RocksDB 11.8.1 has no option blok_size; did you mean block_size?"),
            ("write_buffer_size=64M", "write_buffer_size is 67108864 by default: give another value"),
            ("write_buffer_size=", "write_buffer_size needs a plain value"),
            ("ttl={a=1}", "ttl needs a plain value"),
        ] {
            let said = change(text).unwrap_err();
            assert!(said.starts_with(message), "{text}: {said}");
        }
    }
}
