//! How large objects may be, in characters and items: the bounds of the schema, which whoever writes a status keeps to.

/// Configs of an experiment, the baseline among them.
pub const CONFIGS: usize = 65;
/// Axes of a matrix.
pub const AXES: usize = 8;
/// Scenarios of an experiment.
pub const SCENARIOS: usize = 32;
/// Objectives, guardrails and metrics of its own, of each.
pub const METRICS: usize = 8;
/// Candidates of a bisection.
pub const CANDIDATES: usize = 128;

/// What was seen or said, in a sentence or two.
pub const MESSAGE: usize = 1024;
/// What to do about it.
pub const ADVICE: usize = 512;
/// Why a config has its verdict.
pub const REASON: usize = 256;
/// Why it has its verdict in one scenario.
pub const CELL_REASON: usize = 96;
/// A decimal number.
pub const NUMBER: usize = 32;
/// A list of CPUs such as 2-5,9.
pub const CPU_LIST: usize = 1024;
/// Findings about a whole experiment.
pub const EXPERIMENT_FINDINGS: usize = 16;
/// Findings about a config or an attempt.
pub const FINDINGS: usize = 8;
/// Metrics that no one judged, of a config.
pub const NOT_JUDGED: usize = 5;
/// What one of them did, in a few words.
pub const NOT_JUDGED_TEXT: usize = 128;
/// Containers of a pod that are not ours.
pub const FOREIGN_CONTAINERS: usize = 16;
