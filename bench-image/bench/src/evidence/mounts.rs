//! `/proc/self/mountinfo`.

use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub device: (u32, u32),
    /// The directory of the file system that is mounted: not `/` for bind mounts and cgroup namespaces.
    pub root: String,
    pub point: PathBuf,
    pub options: String,
    pub filesystem: String,
    pub source: String,
    pub super_options: String,
}

impl Mount {
    /// Options of the mount, then those of the file system that the mount doesn't state itself.
    pub fn all_options(&self) -> String {
        let mut all: Vec<&str> = self.options.split(',').collect();
        for option in self.super_options.split(',') {
            // `ro` on the mount over `rw` below would read as a contradiction.
            if !matches!(option, "rw" | "ro") && !all.contains(&option) {
                all.push(option);
            }
        }
        all.join(",")
    }
}

pub fn parse(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    // The number of optional fields before the dash varies.
    let (head, tail) = line.split_once(" - ")?;
    let mut head = head.split(' ').skip(2);
    let device = device_number(head.next()?)?;
    let root = unescape(head.next()?);
    let point = PathBuf::from(unescape(head.next()?));
    let options = head.next()?.to_owned();
    let mut tail = tail.split(' ');
    Some(Mount {
        device,
        root,
        point,
        options,
        filesystem: tail.next()?.to_owned(),
        source: unescape(tail.next()?),
        super_options: tail.next().unwrap_or_default().to_owned(),
    })
}

pub fn device_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The mount that a canonical path lies on: the longest mount point, and of equal ones the last, which covers the
/// earlier ones.
pub fn holding<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts.iter().filter(|mount| path.starts_with(&mount.point)).max_by_key(|mount| mount.point.components().count())
}

/// The kernel writes space, tab, newline and backslash in octal.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(position) = rest.find('\\') {
        out.push_str(&rest[..position]);
        let code = rest.get(position + 1..position + 4).and_then(|octal| u8::from_str_radix(octal, 8).ok());
        if let Some(code) = code {
            out.push(char::from(code));
            rest = &rest[position + 4..];
        } else {
            out.push('\\');
            rest = &rest[position + 1..];
        }
    }
    out.push_str(rest);
    out
}
