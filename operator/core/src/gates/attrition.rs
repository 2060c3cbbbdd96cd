//! Attrition: how many runs may be missing before what is left of a config stops being typical.

/// One in so many.
const SHARE: usize = 5;

/// Whether too many of the planned runs gave no measurement.
pub(crate) fn too_many(missing: usize, planned: usize) -> bool {
    missing * SHARE > planned
}
