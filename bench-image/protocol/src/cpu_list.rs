//! The kernel's notation for sets of CPUs, such as `0-3,8`.

use std::collections::BTreeSet;
use std::fmt;

/// Far above the kernel's own limit; keeps a damaged file from filling memory.
const LIMIT: u32 = 1 << 16;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList(BTreeSet<u32>);

impl CpuList {
    pub fn parse(text: &str) -> Option<Self> {
        let mut cpus = BTreeSet::new();
        for part in text.trim().split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last >= LIMIT {
                return None;
            }
            cpus.extend(first..=last);
        }
        Some(Self(cpus))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }

    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.0.is_disjoint(&other.0)
    }

    pub fn join(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<T: IntoIterator<Item = u32>>(cpus: T) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.iter().copied().peekable();
        let mut separator = "";
        while let Some(first) = rest.next() {
            let mut last = first;
            while let Some(next) = rest.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn cpus(text: &str) -> Option<Vec<u32>> {
        CpuList::parse(text).map(|list| list.iter().collect())
    }

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(cpus("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpus(" 5 , 5-5,,4"), Some(vec![4, 5]));
        assert_eq!(cpus(""), Some(Vec::new()));
        assert_eq!(cpus("65535"), Some(vec![65_535]));
        for damaged in ["65536", "0-65536", "3-2", "-1", "1-", "a", "1-2-3", "4294967296"] {
            assert_eq!(cpus(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn lists_are_written_as_short_as_they_can_be() {
        for text in ["", "0", "0-1", "0-3,8", "1,3,5-7", "65534-65535"] {
            assert_eq!(CpuList::parse(text).unwrap().to_string(), text);
        }
        assert_eq!([3, 1, 2, 9].into_iter().collect::<CpuList>().to_string(), "1-3,9");
    }

    #[test]
    fn lists_are_compared_and_joined() {
        let list = |text| CpuList::parse(text).unwrap();
        assert!(list("1-2").is_subset(&list("0-3")) && !list("1-4").is_subset(&list("0-3")));
        assert!(list("1-2").is_disjoint(&list("3")) && !list("1-3").is_disjoint(&list("3")));
        assert!(list("").is_empty() && !list("7").is_empty());
        assert_eq!((list("5,2-3").first(), list("").first(), list("5,2-3").len()), (Some(2), None, 3));
        let mut both = list("0-1");
        both.join(list("1-2,6"));
        assert_eq!(both.to_string(), "0-2,6");
    }
}
