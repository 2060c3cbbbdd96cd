/// Most edits between what was written and what is suggested.
const FAR: usize = 3;

/// The candidate that takes the fewest edits, where few are enough to believe in a slip.
pub fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Long names of files would cost time and suggest nothing.
    if written.is_empty() || written.chars().count() > 128 {
        return None;
    }
    let written = written.to_lowercase();
    // A third of a short name is another name.
    let limit = FAR.min(written.chars().count().div_ceil(3));
    candidates
        .into_iter()
        .map(|candidate| (distance(&written, &candidate.to_lowercase()), candidate))
        .filter(|&(distance, _)| distance <= limit)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// `; did you mean x?`, or nothing.
pub fn did_you_mean<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(written, candidates).map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// Insertions, deletions, replacements and swaps of neighbours between two names ("optimal string alignment").
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before_last[j - 2] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised() {
        let names = ["throughput", "drained_throughput", "step_latency_p99", "step_latency_p90"];
        for (written, expected) in [
            ("througput", Some("throughput")),
            ("Throughput", Some("throughput")),
            ("thruoghput", Some("throughput")),
            ("step_latency_p99", Some("step_latency_p99")),
            ("steplatencyp99", Some("step_latency_p99")),
            ("latency", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, names), expected, "{written}");
        }
        assert_eq!(nearest("put", ["get"]), None);
        assert_eq!(nearest(&"x".repeat(500), names), None);
        // At most 128 characters are compared, and no text is like another.
        let (long, longest) = ("x".repeat(127), "x".repeat(128));
        assert_eq!(nearest(&longest, [long.as_str()]), Some(long.as_str()));
        assert_eq!(nearest(&format!("{longest}x"), [longest.as_str()]), None);
        assert_eq!(nearest("", [""]), None);
        assert_eq!(did_you_mean("througput", names), "; did you mean throughput?");
        assert_eq!(did_you_mean("zzz", names), "");
    }

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "ab", 2),
            ("abc", "acb", 1),
            ("ab", "ba", 1),
            ("abcdefg", "abcdegf", 1),
            ("badc", "abcd", 2),
            ("kitten", "sitting", 3),
            ("é", "e", 1),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }
}
