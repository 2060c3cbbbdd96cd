//! Small readers. All of them turn every failure into `None`: a file that is missing, masked or refused is unknown.

use std::fs;
use std::path::Path;

pub fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The content without surrounding white space; an empty file says nothing.
pub fn line(path: &Path) -> Option<String> {
    let content = text(path)?;
    let trimmed = content.trim();
    (!trimmed.is_empty()).then(|| trimmed.to_owned())
}

/// The value of `key` in lines such as `VmRSS:   1716 kB` or `nr_throttled 3`.
pub fn field<'a>(content: &'a str, key: &str) -> Option<&'a str> {
    content.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?;
        let value = rest.strip_prefix(':').unwrap_or(rest);
        // Else `nr_throttled` would be found in `nr_throttled_more`.
        (rest.len() != value.len() || value.starts_with(char::is_whitespace)).then(|| value.trim())
    })
}

pub fn number(content: &str, key: &str) -> Option<u64> {
    field(content, key)?.parse().ok()
}

/// A value in kB, as bytes.
pub fn kilobytes(content: &str, key: &str) -> Option<u64> {
    let value = field(content, key)?.strip_suffix("kB")?;
    value.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// A counter's growth. One that went backwards was reset or replaced, so nothing is known.
pub fn growth(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    after?.checked_sub(before?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_whole_key() {
        let content = "nr_throttled_more 9\nnr_throttled 3\nVmRSS:\t  1716 kB\nclose:4\n";
        assert_eq!(number(content, "nr_throttled"), Some(3));
        assert_eq!((number(content, "close"), number(content, "clo")), (Some(4), None));
        assert_eq!((kilobytes(content, "VmRSS"), kilobytes(content, "close")), (Some(1716 * 1024), None));
    }
}
