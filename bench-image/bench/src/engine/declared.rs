//! The options that a config declares, one by one, to look at some of them without the others.

use assay_protocol::EngineConfig;

use super::options_file::DB_SCOPE;

/// One declared option: of the database, or in the entry of this number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    pub entry: Option<usize>,
    pub option: String,
}

impl Declared {
    /// Every option that a config declares.
    pub fn all(config: &EngineConfig) -> Vec<Self> {
        let of_db = config.db_options.keys().map(|option| Self { entry: None, option: option.clone() });
        let entries = config.column_families.iter().enumerate();
        let of_families = entries.flat_map(|(entry, own)| {
            own.options.keys().map(move |option| Self { entry: Some(entry), option: option.clone() })
        });
        of_db.chain(of_families).collect()
    }

    /// The value in a config; configs have the entries of their baseline before their own.
    pub fn value<'a>(&self, config: &'a EngineConfig) -> Option<&'a str> {
        let options = match self.entry {
            None => &config.db_options,
            Some(entry) => &config.column_families.get(entry)?.options,
        };
        options.get(&self.option).map(String::as_str)
    }

    /// The database, or the first family that the entry is about.
    pub fn scope<'a>(&self, config: &EngineConfig, families: &'a [String]) -> Option<&'a str> {
        let Some(entry) = self.entry else { return Some(DB_SCOPE) };
        let own = config.column_families.get(entry)?;
        families.iter().map(String::as_str).find(|family| own.matches(family))
    }
}

/// A config with these of its options alone.
pub fn only(config: &EngineConfig, kept: &[Declared]) -> EngineConfig {
    retain(config, |declared| kept.contains(declared))
}

/// A config without these of its options.
pub fn without(config: &EngineConfig, left_out: &[Declared]) -> EngineConfig {
    retain(config, |declared| !left_out.contains(declared))
}

fn retain(config: &EngineConfig, is_kept: impl Fn(&Declared) -> bool) -> EngineConfig {
    let kept = |entry: Option<usize>, option: &String| is_kept(&Declared { entry, option: option.clone() });
    let mut less = config.clone();
    less.db_options.retain(|option, _| kept(None, option));
    for (entry, own) in less.column_families.iter_mut().enumerate() {
        own.options.retain(|option, _| kept(Some(entry), option));
    }
    less
}
