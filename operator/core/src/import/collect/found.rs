//! What rows name, for whoever writes a policy.

use crate::import::data::Sample;

/// More names than this are not of configs or metrics.
const MOST: usize = 256;

/// Names in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub configs: Vec<String>,
    pub metrics: Vec<String>,
    /// Whether any run is in a block.
    pub has_blocks: bool,
}

impl Found {
    pub(super) fn add(&mut self, sample: &Sample) {
        for (names, name) in [(&mut self.configs, &sample.config), (&mut self.metrics, &sample.metric)] {
            if names.len() < MOST && !names.contains(name) {
                names.push(name.clone());
            }
        }
        self.has_blocks |= sample.block.is_some();
    }
}
