//! Lists of CPUs as the kernel writes them, such as `0-3,8`.

use std::collections::BTreeSet;

/// More CPUs than any machine has: a list with a larger number is none.
const MOST: u32 = 1 << 16;

/// The CPUs of a list; `None` where it is none, or is empty.
pub fn parse(list: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// The list of some CPUs.
pub fn write(cpus: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let ranges = ranges.into_iter().map(
        |(first, last)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        },
    );
    ranges.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        for (list, cpus) in [
            ("3\n", Some(vec![3])),
            ("0-2,8", Some(vec![0, 1, 2, 8])),
            ("", None),
            ("2-", None),
            ("3-1", None),
            ("0-4294967295", None),
            ("0,,1", None),
            ("all", None),
        ] {
            assert_eq!(parse(list).map(|cpus| cpus.into_iter().collect::<Vec<_>>()), cpus, "{list}");
        }
        for list in ["3", "0-2,8", "1,3,5-6"] {
            assert_eq!(write(&parse(list).unwrap()), list);
        }
    }
}
