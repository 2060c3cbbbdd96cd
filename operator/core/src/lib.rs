pub mod decide;
pub mod experiment;
pub mod gates;
pub mod plan;
pub mod stats;
pub mod validate;
pub mod verdict;
