use std::collections::{BTreeMap, BTreeSet};

use crate::engine::{Counters, Properties};

/// A database that says what a test wants to hear: texts by family and property.
#[derive(Default)]
pub struct Told {
    families: Vec<String>,
    texts: BTreeMap<(&'static str, &'static str), String>,
    pub counters: Counters,
}

impl Told {
    pub fn new(texts: &[(&'static str, &'static str, &str)]) -> Self {
        let families: BTreeSet<&str> = texts.iter().map(|(family, ..)| *family).collect();
        Self {
            families: families.into_iter().map(str::to_owned).collect(),
            texts: texts.iter().map(|(family, property, text)| ((*family, *property), (*text).to_owned())).collect(),
            counters: Counters::default(),
        }
    }
}

impl Properties for Told {
    fn families(&self) -> &[String] {
        &self.families
    }

    fn family_text(&self, family: &str, property: &str) -> Option<String> {
        let is_it = |of: &&(&str, &str)| **of == (family, property);
        self.texts.keys().find(is_it).map(|key| self.texts[key].clone())
    }

    fn counters(&self) -> Counters {
        self.counters.clone()
    }
}
