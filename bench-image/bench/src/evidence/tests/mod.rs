#![allow(clippy::unwrap_used, clippy::panic)]

mod cgroup;
mod cpu;
mod disk;
mod foreign;
mod host;
mod process;
mod window;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::Roots;

/// A machine made of files.
pub struct Tree(TempDir);

impl Tree {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(below)
    }

    pub fn file(&self, below: &str, content: &str) -> &Self {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// `target` is below the root as well; the link is absolute.
    pub fn link(&self, below: &str, target: &str) -> &Self {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(self.path(target), path).unwrap();
        self
    }

    pub fn roots(&self) -> Roots {
        Roots { proc: self.path("proc"), sys: self.path("sys"), replaced_sysfs: Some("fixture".to_owned()) }
    }

    pub fn sys(&self) -> PathBuf {
        self.path("sys")
    }

    /// A device directory such as `devices/pci0/nvme/nvme0/nvme0n1`, reachable as the kernel makes it.
    pub fn block(&self, below: &str, number: &str) -> &Self {
        let directory = format!("sys/{below}");
        let name = Path::new(below).file_name().unwrap().to_str().unwrap();
        self.file(&format!("{directory}/dev"), &format!("{number}\n"))
            .link(&format!("sys/dev/block/{number}"), &directory)
            .link(&format!("sys/class/block/{name}"), &directory)
    }
}
