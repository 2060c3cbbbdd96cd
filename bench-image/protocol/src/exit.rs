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

#[cfg(test)]
mod tests {
    use super::Exit;

    #[test]
    fn a_fault_is_a_panic_or_a_signal_that_a_program_gives_itself() {
        // SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE and SIGSEGV.
        for code in [101, 132, 133, 134, 135, 136, 139] {
            assert!(Exit::is_fault(code), "{code}");
        }
        // An end that was asked for or planned, SIGKILL, and what is next to a fault.
        for code in [0, 1, 2, 3, 4, 100, 102, 130, 131, 137, 138, 140, 143] {
            assert!(!Exit::is_fault(code), "{code}");
        }
    }
}
