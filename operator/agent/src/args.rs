//! What the agent is started with.

use std::path::PathBuf;

use clap::Parser;

/// Prepares its node for trials and watches their CPUs. Reads requests from the node's Lease and answers in its own.
#[derive(Clone, Debug, Parser)]
#[command(name = "assay-agent", version)]
pub struct Args {
    /// Name of the node that the agent runs on
    #[arg(long, env = "NODE_NAME")]
    pub node: String,
    /// Namespace of the agent's own Lease
    #[arg(long, env = "POD_NAMESPACE", default_value = "assay-agent")]
    pub own_namespace: String,
    /// Namespace of the Leases that record who holds each node; must match the operator's
    #[arg(long, value_name = "NAMESPACE")]
    pub node_lease_namespace: String,
    /// Folder whose file system is trimmed before each block; repeatable
    #[arg(long = "trim", value_name = "PATH")]
    pub trims: Vec<PathBuf>,
    /// Program that trims file systems
    #[arg(long, value_name = "PROGRAM", default_value = "/usr/sbin/fstrim")]
    pub fstrim: PathBuf,
    /// Mount namespace to run it in, such as /proc/1/ns/mnt for the node's; default: the agent's own
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
