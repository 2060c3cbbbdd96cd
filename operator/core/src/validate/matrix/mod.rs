//! `spec.matrix`: a config for each combination of the axes' values, as if the user had written it down after the others.
//!
//! Whatever comes later reads configs that are written out, so a matrix has the plan of the file that spells it out. What is said
//! about one of its configs is told at the value that the user wrote.

mod exclude;
mod names;
mod places;
mod same;

use assay_api::{Config, Matrix, MatrixAxis, MatrixValue, TuningExperimentSpec, bounds};

use super::problem::{FieldPath, Problem};

/// More combinations than this are not even looked at: what excludes all but a few of them is easier to write as configs.
const MOST_COMBINATIONS: usize = 4096;

/// One config of a matrix: the position of its value on each axis.
type Combination = Vec<usize>;

/// How a matrix was written out.
#[derive(Clone, Debug, Default)]
pub struct Expansion {
    axes: Vec<MatrixAxis>,
    /// The names of the axes' values.
    names: Vec<Vec<String>>,
    /// Number of configs that the user wrote down. Those of the matrix follow.
    written: usize,
    combinations: Vec<Combination>,
    /// Combinations before any was excluded.
    product: usize,
    /// Some of its configs may be missing, because something is wrong with the matrix.
    pub(super) is_partial: bool,
}

/// The path of `spec.matrix`.
fn matrix_path() -> FieldPath {
    FieldPath::root().keys("spec.matrix")
}

fn value_path(axis: usize, value: usize) -> FieldPath {
    matrix_path().key("axes").index(axis).key("values").index(value)
}

/// The spec without its matrix, whose configs follow those that the user wrote down.
pub fn expand(mut spec: TuningExperimentSpec) -> (TuningExperimentSpec, Expansion, Vec<Problem>) {
    let written = spec.configs.len();
    let Some(matrix) = spec.matrix.take() else {
        return (spec, Expansion { written, ..Expansion::default() }, Vec::new());
    };
    let mut problems = Vec::new();
    let names = names::of_values(&matrix, &mut problems);
    let excluded = exclude::read(&matrix, &names, &mut problems);
    let is_sound = problems.is_empty();
    let sizes: Vec<usize> = matrix.axes.iter().map(|axis| axis.values.len()).collect();
    let product = product(&sizes);
    let mut combinations: Vec<Combination> =
        (0..product.min(MOST_COMBINATIONS)).map(|number| combination(&sizes, number)).collect();
    let most = bounds::CONFIGS.saturating_sub(written);
    let is_too_large = product > MOST_COMBINATIONS;
    if !is_too_large {
        exclude::apply(&excluded, &mut combinations, &mut problems);
    }
    let count = if is_too_large { product } else { combinations.len() };
    if count > most {
        if is_sound {
            problems.push(Problem::error(matrix_path(), too_many(&matrix, count, product, most, written)));
        }
        // Enough of them to see each value.
        let longest = sizes.iter().copied().max().unwrap_or_default().min(most);
        combinations = (0..longest).map(|number| sizes.iter().map(|size| number % size).collect()).collect();
    }
    let is_partial = !problems.is_empty() || combinations.is_empty();
    let expansion = Expansion { axes: matrix.axes, names, written, combinations, product, is_partial };
    spec.configs.extend(expansion.combinations.iter().map(|combination| expansion.config(combination)));
    if !is_partial {
        problems.extend(names::of_configs(&spec, &expansion));
    }
    (spec, expansion, problems)
}

/// Number of combinations; none without an axis, or with one that has no values, which the schema refuses.
fn product(sizes: &[usize]) -> usize {
    if sizes.is_empty() { 0 } else { sizes.iter().fold(1, |product, size| product.saturating_mul(*size)) }
}

/// The values of the last axis change fastest.
fn combination(sizes: &[usize], number: usize) -> Combination {
    let mut rest = number;
    let mut values = vec![0; sizes.len()];
    for (value, size) in values.iter_mut().zip(sizes).rev() {
        *value = rest % size;
        rest /= size;
    }
    values
}

/// `memtable 5 x codec 4`.
fn factors(axes: &[MatrixAxis]) -> String {
    axes.iter().map(|axis| format!("{} {}", axis.name, axis.values.len())).collect::<Vec<_>>().join(" x ")
}

/// `, 3 excluded`, if any are.
fn less(excluded: usize) -> String {
    if excluded == 0 { String::new() } else { format!(", {excluded} excluded") }
}

fn too_many(matrix: &Matrix, count: usize, product: usize, most: usize, written: usize) -> String {
    let beside = if written > 1 { format!(" next to the {written} in spec.configs") } else { String::new() };
    format!(
        "makes {count} configs ({}{}), at most {most} allowed{beside}: use fewer values, or exclude more combinations",
        factors(&matrix.axes),
        less(product - count)
    )
}

/// The image of a config, of those in `spec.configs` or in the matrix.
pub fn image<'a>(spec: &'a TuningExperimentSpec, config: &str) -> Option<&'a str> {
    if let Some(own) = spec.configs.iter().find(|known| known.name == config) {
        return own.image.as_deref();
    }
    let matrix = spec.matrix.as_ref()?;
    let combination = names::read(matrix, config)?;
    chosen(&matrix.axes, &combination).rev().find_map(|value| value.image.as_deref())
}

/// All images that a spec names, with their fields.
pub fn images(spec: &TuningExperimentSpec) -> impl Iterator<Item = (FieldPath, &str)> {
    let configs = spec.configs.iter().enumerate();
    let configs = configs.map(|(index, config)| (super::configs::config_path(index), config.image.as_deref()));
    let axes = spec.matrix.iter().flat_map(|matrix| matrix.axes.iter().enumerate());
    let values = axes.flat_map(|(axis, own)| {
        let values = own.values.iter().enumerate();
        values.map(move |(value, own)| (value_path(axis, value), own.image.as_deref()))
    });
    configs.chain(values).filter_map(|(path, image)| Some((path.key("image"), image?)))
}

/// The values of a combination, axis by axis.
fn chosen<'a>(axes: &'a [MatrixAxis], combination: &[usize]) -> impl DoubleEndedIterator<Item = &'a MatrixValue> {
    axes.iter().zip(combination.to_vec()).map(|(axis, value)| &axis.values[value])
}

impl Expansion {
    /// What one combination sets. Later axes win.
    fn config(&self, combination: &[usize]) -> Config {
        let name = names::of_config(&self.axes, &self.names, combination);
        let mut config = Config { name, ..Config::default() };
        for value in chosen(&self.axes, combination) {
            config.db_options.extend(value.db_options.clone());
            config.column_families.extend(value.column_families.clone());
            config.block_cache = value.block_cache.clone().or(config.block_cache);
            config.write_options = value.write_options.or(config.write_options);
            config.policy.extend(value.policy.clone());
            // That of one image says nothing of another.
            if value.image.is_some() || value.revision.is_some() {
                config.revision.clone_from(&value.revision);
            }
            config.image = value.image.clone().or(config.image);
        }
        config
    }

    /// Whether there is a matrix.
    pub fn is_there(&self) -> bool {
        self.is_partial || !self.axes.is_empty()
    }

    /// Number of configs that the user wrote down. Those of the matrix follow them.
    pub fn written(&self) -> usize {
        self.written
    }

    /// `4 configs: memtable 3 x codec 2, 2 excluded`.
    pub fn summary(&self) -> String {
        let (count, product) = (self.combinations.len(), self.product);
        format!("{}: {}{}", super::counted(count, "config", "configs"), factors(&self.axes), less(product - count))
    }

    /// The name that a local run knows the bench of a config by, if it is that of a value.
    pub(super) fn bench(&self, index: usize) -> Option<&str> {
        let combination = self.combinations.get(index.checked_sub(self.written)?)?;
        let axis =
            (0..self.axes.len()).rev().find(|&axis| self.axes[axis].values[combination[axis]].image.is_some())?;
        Some(&self.names[axis][combination[axis]])
    }

    /// `{memtable: 64m, codec: lz4}`, as `exclude` has it.
    fn shown(&self, combination: &[usize]) -> String {
        let values = self.axes.iter().zip(&self.names).zip(combination);
        let pairs: Vec<String> =
            values.map(|((axis, names), value)| format!("{}: {}", axis.name, names[*value])).collect();
        format!("{{{}}}", pairs.join(", "))
    }
}

/// The value that tells two combinations apart: that of the later one, on the first axis where they differ.
fn difference(earlier: &[usize], later: &[usize]) -> FieldPath {
    let axis = (0..later.len()).find(|&axis| earlier[axis] != later[axis]);
    axis.map_or_else(matrix_path, |axis| value_path(axis, later[axis]))
}

#[cfg(test)]
mod tests;
