//! The cluster as the machine sees it: its components, its real node, its logs.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The real node, as `cluster.sh` names it.
pub fn node() -> String {
    std::env::var("ASSAY_NODE").expect("ASSAY_NODE is the name of the real node: `cluster.sh env` prints it")
}

/// Where the cluster reaches this machine.
pub fn address() -> String {
    std::env::var("ASSAY_MACHINE_IP").expect("ASSAY_MACHINE_IP: `cluster.sh env` prints it")
}

/// An image as `make images` names it, with the version under test.
pub fn image(name: &str) -> String {
    format!("localhost/assay-{name}:{}", std::env::var("ASSAY_VERSION").expect("ASSAY_VERSION"))
}

/// Most tests share the cluster; some take parts of it away, or measure, and have it for themselves.
pub enum Share {
    Shared(#[expect(dead_code, reason = "held")] RwLockReadGuard<'static, ()>),
    Alone(#[expect(dead_code, reason = "held")] RwLockWriteGuard<'static, ()>),
}

static CLUSTER: RwLock<()> = RwLock::const_new(());

pub async fn shared() -> Share {
    Share::Shared(CLUSTER.read().await)
}

pub async fn alone() -> Share {
    Share::Alone(CLUSTER.write().await)
}

pub fn script() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("cluster/cluster.sh")
}

/// Runs `cluster.sh`, for example to stop a component.
pub async fn cluster(args: &[&str]) {
    let output = Command::new(script()).args(args).stdin(Stdio::null()).output().await.expect("cluster.sh can be run");
    assert!(output.status.success(), "cluster.sh {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Everything that anybody but Kubernetes itself wrote, a JSON document a line. A cluster for fleets has Kubernetes' writes, too.
pub fn audit_log() -> PathBuf {
    state().join("log/audit.log")
}

/// The CPU time that all programs of this machine have used so far.
pub fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").expect("the kernel counts CPU time");
    let all = stat.lines().next().expect("a line for all CPUs").split_whitespace().skip(1).enumerate();
    // Neither idle nor waiting for a disk, and without what guests used, which is in the first two.
    ticks(all.filter(|(at, _)| !matches!(at, 3 | 4 | 8..)).map(|(_, field)| field))
}

/// CPU time as the kernel shows it: in hundredths of a second, on every machine.
pub fn ticks<'a>(fields: impl Iterator<Item = &'a str>) -> Duration {
    Duration::from_millis(10 * fields.map(|field| field.parse::<u64>().expect("a number")).sum::<u64>())
}

/// Where the node reads how registries are reached, in a folder for each of them.
pub fn registries() -> PathBuf {
    state().join("config/certs.d")
}

/// All files of the cluster.
fn state() -> PathBuf {
    let kubeconfig = std::env::var("KUBECONFIG").expect("KUBECONFIG names the cluster");
    PathBuf::from(kubeconfig).parent().expect("it is a file").to_owned()
}
