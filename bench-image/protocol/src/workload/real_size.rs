//! How large a workload's data are beside those of the system that it stands for.

/// Accounts and storage slots of Ethereum's main network when another client [counted](https://github.com/paradigmxyz/reth/pull/5355)
/// them. It has grown since.
pub const MAINNET_ENTRIES: u64 = 225_000_000 + 1_070_000_000;

/// The size of a workload's data beside that of the system that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealSize {
    pub here: u64,
    pub real: u64,
    /// What is counted, and where.
    pub what: &'static str,
    pub system: &'static str,
}

impl RealSize {
    /// Less than half of it. The real one grows, so its size is known about.
    pub fn is_scaled(&self) -> bool {
        self.here < self.real / 2
    }
}

impl std::fmt::Display for RealSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { here, real, what, system } = self;
        let ratio = (*real as f64 / (*here).max(1) as f64).round();
        write!(f, "1/{ratio} of {system} ({} of about {} {what})", rounded(*here), rounded(*real))
    }
}

/// A large number in words.
fn rounded(number: u64) -> String {
    let float = number as f64;
    match number {
        1_000_000_000.. => format!("{:.1} billion", float / 1e9),
        1_000_000.. => format!("{:.1} million", float / 1e6),
        10_000.. => format!("{:.0} thousand", float / 1e3),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::RealSize;

    fn size(here: u64, real: u64) -> RealSize {
        RealSize { here, real, what: "accounts", system: "the network" }
    }

    #[test]
    fn less_than_half_is_scaled() {
        assert!(size(49, 100).is_scaled() && !size(50, 100).is_scaled() && !size(51, 100).is_scaled());
    }

    #[test]
    fn sizes_are_told_in_words() {
        for (here, real, text) in [
            (500, 9_999, "1/20 of the network (500 of about 9999 accounts)"),
            (10_000, 999_499, "1/100 of the network (10 thousand of about 999 thousand accounts)"),
            (1_000_000, 2_500_000_000, "1/2500 of the network (1.0 million of about 2.5 billion accounts)"),
        ] {
            assert_eq!(size(here, real).to_string(), text);
        }
    }
}
