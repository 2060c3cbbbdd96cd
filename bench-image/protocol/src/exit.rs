/// The exit codes of a bench that runs a trial: who is to blame, and whether to try again. Of one that answers a question
/// about options, only the first two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// A record of a completed trial exists.
    Completed = 0,
    /// The spec is refused; trying again gives the same answer.
    SpecRefused = 2,
    /// The environment is at fault: the workload had not started, the disk filled up beside it, or its dataset is damaged. Worth another
    /// try.
    EnvironmentRefused = 3,
    /// The workload failed under this config. A record of the failure exists.
    ConfigFailed = 4,
}

impl Exit {
    pub const ALL: [Self; 4] = [Self::Completed, Self::SpecRefused, Self::EnvironmentRefused, Self::ConfigFailed];

    /// Whether a bench with this code, as a kubelet or a shell gives it (128 and a signal's number), has ended itself: by an illegal access or
    /// instruction, an abort, a panic. These don't come from outside, so it is its workload's doing under the config.
    pub fn is_fault(code: i32) -> bool {
        matches!(code, 101 | 132..=136 | 139)
    }

    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|exit| *exit as i32 == code)
    }
}
