//! Where the user wrote what a config of the matrix has.

use std::collections::{BTreeMap, BTreeSet};

use super::{Expansion, chosen, matrix_path, value_path};
use crate::validate::configs::config_path;
use crate::validate::problem::{FieldPath, Problem, Segment};

/// Configs that a message names. A matrix has more.
const NAMED: usize = 2;

impl Expansion {
    /// Where a config as a whole was written.
    pub(in crate::validate) fn place(&self, index: usize) -> FieldPath {
        if index < self.written { config_path(index) } else { matrix_path() }
    }

    /// What is said of configs that are written out, as what is said of the fields that the user wrote. What is true of some of the
    /// configs that have a value names them.
    pub(in crate::validate) fn told(&self, problems: Vec<Problem>) -> Vec<Problem> {
        let mut told = Vec::new();
        let mut of_matrix: BTreeMap<Problem, BTreeSet<usize>> = BTreeMap::new();
        for problem in problems {
            let Some((number, rest)) = self.of_matrix(&problem.path) else {
                told.push(problem);
                continue;
            };
            let path = self.origin(number, rest);
            of_matrix.entry(Problem { path, ..problem }).or_default().insert(number);
        }
        told.extend(of_matrix.into_iter().map(|(problem, numbers)| {
            let all = self.with_value(&problem.path);
            if all.as_ref() == Some(&numbers) {
                return problem;
            }
            Problem { message: format!("{} ({})", problem.message, self.configs(&numbers)), ..problem }
        }));
        told
    }

    /// The number of the combination that a path is about, and the rest of the path.
    fn of_matrix<'a>(&self, path: &'a FieldPath) -> Option<(usize, &'a [Segment])> {
        match path.segments() {
            [Segment::Key(spec), Segment::Key(list), Segment::Index(index), rest @ ..]
                if spec == "spec" && list == "configs" =>
            {
                let number = index.checked_sub(self.written)?;
                (number < self.combinations.len()).then_some((number, rest))
            }
            _ => None,
        }
    }

    /// The field of a value that a field of a config comes from; the matrix for what comes from no single one.
    fn origin(&self, number: usize, rest: &[Segment]) -> FieldPath {
        let combination = &self.combinations[number];
        let below = |axis: usize, rest: &[Segment]| {
            let mut path = value_path(axis, combination[axis]).segments().to_vec();
            path.extend_from_slice(rest);
            FieldPath::of(&path)
        };
        if let [Segment::Key(list), Segment::Index(at), inner @ ..] = rest
            && list == "columnFamilies"
        {
            let mut at = *at;
            for (axis, value) in chosen(&self.axes, combination).enumerate() {
                if at < value.column_families.len() {
                    return below(axis, &[&[Segment::Key(list.clone()), Segment::Index(at)], inner].concat());
                }
                at -= value.column_families.len();
            }
            return matrix_path();
        }
        let axis = chosen(&self.axes, combination).enumerate().filter(|(_, value)| match rest {
            [Segment::Key(field), Segment::Key(name), ..] if field == "dbOptions" => {
                value.db_options.contains_key(name)
            }
            [Segment::Key(field), Segment::Key(name), ..] if field == "policy" => value.policy.contains_key(name),
            [Segment::Key(field), ..] if field == "blockCache" => value.block_cache.is_some(),
            [Segment::Key(field), ..] if field == "writeOptions" => value.write_options.is_some(),
            [Segment::Key(field), ..] if field == "image" => value.image.is_some(),
            _ => false,
        });
        // The later one wins, so it is the one at fault.
        axis.last().map_or_else(matrix_path, |(axis, _)| below(axis, rest))
    }

    /// All combinations that have the value which a field belongs to.
    fn with_value(&self, path: &FieldPath) -> Option<BTreeSet<usize>> {
        let [_, _, _, Segment::Index(axis), _, Segment::Index(value), ..] = path.segments() else { return None };
        let combinations = self.combinations.iter().enumerate();
        Some(combinations.filter(|(_, own)| own[*axis] == *value).map(|(number, _)| number).collect())
    }

    /// `configs a, b and 3 others`.
    fn configs(&self, numbers: &BTreeSet<usize>) -> String {
        let name = |number: &usize| super::names::of_config(&self.axes, &self.names, &self.combinations[*number]);
        let mut names: Vec<String> = numbers.iter().take(NAMED).map(name).collect();
        let others = numbers.len() - names.len();
        if others > 0 {
            names.push(format!("{others} more"));
        }
        let word = if numbers.len() == 1 { "config" } else { "configs" };
        format!("{word} {}", crate::validate::schema::join(names.iter().map(String::as_str)))
    }
}
