//! What the agent is started with.

use std::path::PathBuf;

use clap::Parser;

/// Prepares its node for trials and watches their CPUs. It is asked through the node's Lease and answers in one of its own.
#[derive(Clone, Debug, Parser)]
#[command(name = "assay-agent", version)]
pub struct Args {
    /// Name of the node that it runs on
    #[arg(long, env = "NODE_NAME")]
    pub node: String,
    /// Namespace that it answers in
    #[arg(long, env = "POD_NAMESPACE", default_value = "assay-agent")]
    pub own_namespace: String,
    /// Namespace of the Leases that say who holds which node: the operator's
    #[arg(long, value_name = "NAMESPACE")]
    pub node_lease_namespace: String,
    /// Folder of a file system that is trimmed before each block
    #[arg(long = "trim", value_name = "PATH")]
    pub trims: Vec<PathBuf>,
    /// Program that trims a file system
    #[arg(long, value_name = "PROGRAM", default_value = "/usr/sbin/fstrim")]
    pub fstrim: PathBuf,
    /// Whose mounts it is run among, such as /proc/1/ns/mnt for the node's; the agent's own where none is given
    #[arg(long, value_name = "NAMESPACE")]
    pub mounts: Option<PathBuf>,
    /// Socket of the kubelet's podresources API
    #[arg(long, value_name = "PATH", default_value = "/var/lib/kubelet/pod-resources/kubelet.sock")]
    pub pod_resources: PathBuf,
    /// The node's /proc
    #[arg(long, value_name = "PATH", default_value = "/proc")]
    pub proc: PathBuf,
    /// The node's /sys
    #[arg(long, value_name = "PATH", default_value = "/sys")]
    pub sys: PathBuf,
}
