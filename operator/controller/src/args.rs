//! What the operator is started with.

use std::net::SocketAddr;
use std::path::PathBuf;

use assay_core::sweep::notify::Allowed;
use clap::{Parser, ValueEnum};

use crate::fence::{Fence, begins_with};

/// Runs `TuningExperiments` on the nodes of a cluster.
#[derive(Clone, Debug, Parser)]
#[command(name = "assay-operator", version)]
pub struct Args {
    /// Bench image for configs that don't set their own
    #[arg(long, env = "ASSAY_BENCH_IMAGE")]
    pub bench_image: String,
    /// Prefix that config images must have, such as registry.example/lab; repeatable; *: any image; default: only the bench image
    #[arg(long = "allow-image", value_name = "PREFIX")]
    pub allowed_images: Vec<String>,
    /// When nodes pull bench images
    #[arg(long, value_enum, default_value_t = PullPolicy::IfNotPresent)]
    pub image_pull_policy: PullPolicy,
    /// Namespace to run experiments in; repeatable; default: all namespaces
    #[arg(long = "namespace", value_name = "NAMESPACE")]
    pub namespaces: Vec<String>,
    /// Namespace that the operator runs in
    #[arg(long, env = "POD_NAMESPACE", default_value = "assay-system")]
    pub own_namespace: String,
    /// Name of this replica in the leader election
    #[arg(long, env = "POD_NAME", default_value_t = default_identity())]
    pub identity: String,
    /// Namespace of the Leases that record who holds each node; default: the operator's own
    #[arg(long, value_name = "NAMESPACE")]
    pub node_lease_namespace: Option<String>,
    /// Namespace of the Leases in which node agents answer; default: don't use agents
    #[arg(long, value_name = "NAMESPACE")]
    pub agent_namespace: Option<String>,
    /// Path on nodes under which experiments may keep databases with hostPath; repeatable
    #[arg(long = "host-path", value_name = "PATH")]
    pub host_paths: Vec<String>,
    /// `ServiceAccount` in the operator's namespace with which to ask kubelets for their CPU manager policy; it needs permission to get
    /// nodes/configz, and the operator to create its tokens; default: don't ask
    #[arg(long, value_name = "NAME")]
    pub kubelet_account: Option<String>,
    /// Prometheus server to query for `spec.metrics`, such as <http://prometheus.monitoring:9090>
    #[arg(long, value_name = "URL")]
    pub prometheus: Option<String>,
    /// File with the certificates of the authorities to trust for it, instead of the public ones
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    pub prometheus_ca: Option<PathBuf>,
    /// File with the bearer token to send to it; read again for each trial
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    pub prometheus_token: Option<PathBuf>,
    /// Label by which series belong to a namespace: experiments can query only those of their own
    #[arg(long, value_name = "LABEL", default_value = "namespace", value_parser = label)]
    pub prometheus_label: String,
    /// Namespace whose experiments may query all series; repeatable; * for all namespaces
    #[arg(long = "unconfined-queries", value_name = "NAMESPACE")]
    pub unconfined_queries: Vec<String>,
    /// What the experiments of some namespaces may ask for, in JSON, as an entry of the chart's `fences`; repeatable
    #[arg(long = "fence", value_name = "JSON", value_parser = fence)]
    pub fences: Vec<Fence>,
    /// Host that webhooks of sweeps may be sent to, by https: hooks.example.com, hooks.example.com:8443 or *.example.com, or without TLS
    /// <http://hooks.lab.svc:8080>; repeatable; default: none
    #[arg(long = "webhook-host", value_name = "HOST")]
    pub webhook_hosts: Vec<Allowed>,
    /// Address on which to serve /metrics, /healthz and /readyz
    #[arg(long, default_value = "0.0.0.0:8080")]
    pub listen: SocketAddr,
    /// Folder with tls.crt and tls.key, such as a Secret's, to serve these over TLS; renewed files are read
    #[arg(long, value_name = "FOLDER")]
    pub listen_tls: Option<PathBuf>,
    /// Serve /metrics only to those who send a bearer token of an account that may get the nonResourceURL /metrics
    #[arg(long, requires = "listen_tls")]
    pub authorize_metrics: bool,
    /// Seconds after its end after which an experiment is deleted that does not say so itself; default: never
    #[arg(long, value_name = "SECONDS")]
    pub ttl_seconds_after_finished: Option<u32>,
    /// Seconds that pods without a record are kept after the end of an experiment that does not say so itself
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub failed_pod_retention_seconds: u32,
    /// Finished experiments that are kept in a namespace, the newest ones; default: all
    #[arg(long, value_name = "NUMBER")]
    pub keep_finished: Option<usize>,
    /// Seconds after which a pod that has not started is lost
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub pending_seconds: u32,
    /// Seconds after which a node that is not ready has lost its trial
    #[arg(long, value_name = "SECONDS", default_value_t = assay_core::node::PATIENCE_SECONDS)]
    pub node_lost_seconds: u32,
    /// Experiments, and as many sweeps, that are reconciled at the same time in each of the namespaces that are watched
    #[arg(long, value_name = "NUMBER", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    pub concurrency: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

impl Args {
    pub fn node_lease_namespace(&self) -> &str {
        self.node_lease_namespace.as_deref().unwrap_or(&self.own_namespace)
    }

    /// The label by which the queries of a namespace's experiments are confined to it; `None` where they are not.
    pub fn confining_label(&self, namespace: &str) -> Option<&str> {
        let is_free = self.unconfined_queries.iter().any(|free| free == "*" || free == namespace);
        (!is_free).then_some(&self.prometheus_label)
    }

    /// Whether a database may be there: at a path that was allowed, or below one.
    pub fn allows_host_path(&self, path: &str) -> bool {
        self.host_paths.iter().any(|allowed| begins_with(path, allowed, &['/']))
    }

    /// Whether an experiment that was planned with this bench may continue with it: another version of our own, or what a config may name.
    pub fn allows_bench(&self, image: &str) -> bool {
        repository(image) == repository(&self.bench_image) || self.allows_image(image)
    }

    /// Whether a config may name this image.
    pub fn allows_image(&self, image: &str) -> bool {
        self.knows_image(image) || self.allowed_images.iter().any(|allowed| allowed == ANY)
    }

    /// Whether it is our own image, or one of those that are named, and not just any.
    pub fn knows_image(&self, image: &str) -> bool {
        image == self.bench_image
            || self.allowed_images.iter().any(|allowed| begins_with(image, allowed, &['/', ':', '@']))
    }

    /// The images that a config may name, for people.
    pub fn known_images(&self) -> String {
        let named = self.allowed_images.iter().filter(|allowed| *allowed != ANY).map(String::as_str);
        [self.bench_image.as_str()].into_iter().chain(named).collect::<Vec<_>>().join(", ")
    }
}

fn label(text: &str) -> Result<String, String> {
    let is_name = !text.starts_with(|c: char| c.is_ascii_digit())
        && !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_name { Ok(text.to_owned()) } else { Err("not the name of a label".to_owned()) }
}

fn fence(text: &str) -> serde_json::Result<Fence> {
    serde_json::from_str(text)
}

/// Instead of a prefix of images.
const ANY: &str = "*";

/// An image without its tag and digest.
fn repository(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    match image.rsplit_once(':') {
        // Else it is the port of a registry.
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

fn default_identity() -> String {
    format!("{}-{}", std::env::var("HOSTNAME").unwrap_or_else(|_| "operator".to_owned()), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_allowed_by_whole_parts() {
        let start = ["assay-operator", "--bench-image", "bench"];
        let own = Args::parse_from(start);
        assert!(own.allows_image("bench") && !own.allows_image("bench:2") && !own.allows_image("anything"));
        let any = Args::parse_from([&start[..], &["--allow-image", "*"]].concat());
        assert!(any.allows_image("anything") && !any.knows_image("anything") && any.knows_image("bench"));
        assert_eq!(any.known_images(), "bench");
        let args =
            Args::parse_from([&start[..], &["--allow-image", "r.example/lab", "--allow-image", "x/y:1"]].concat());
        for (image, allowed) in [
            ("r.example/lab/bench:2", true),
            ("r.example/lab@sha256:0", true),
            ("r.example/lab2/bench", false),
            ("r.example", false),
            ("x/y:1", true),
            ("x/y:12", false),
            ("x/y", false),
        ] {
            assert_eq!(args.allows_image(image), allowed, "{image}");
        }
    }

    #[test]
    fn a_bench_of_our_own_is_allowed_in_every_version() {
        let args = ["assay-operator", "--bench-image", "r.example:5000/lab/bench:2", "--allow-image", "x/y"];
        let args = Args::parse_from(args);
        for (image, allowed) in [
            ("r.example:5000/lab/bench:1", true),
            ("r.example:5000/lab/bench@sha256:0", true),
            ("r.example:5000/lab/bench:1@sha256:0", true),
            ("r.example:5000/lab/bench", true),
            ("r.example:5000/lab/bench2:1", false),
            ("r.example:5000/lab", false),
            ("r.example", false),
            ("x/y/z:1", true),
        ] {
            assert_eq!(args.allows_bench(image), allowed, "{image}");
        }
    }

    #[test]
    fn host_paths_are_allowed_by_whole_parts() {
        let args = Args::parse_from(["assay-operator", "--bench-image", "bench", "--host-path", "/mnt/nvme/"]);
        for (path, allowed) in
            [("/mnt/nvme", true), ("/mnt/nvme/a", true), ("/mnt/nvme2", false), ("/mnt", false), ("/etc", false)]
        {
            assert_eq!(args.allows_host_path(path), allowed, "{path}");
        }
    }

    #[test]
    fn nodes_are_held_in_the_own_namespace_or_in_a_given_one() {
        let start = ["assay-operator", "--bench-image", "bench", "--own-namespace", "own"];
        assert_eq!(Args::parse_from(start).node_lease_namespace(), "own");
        let args = Args::parse_from([&start[..], &["--node-lease-namespace", "shared"]].concat());
        assert_eq!(args.node_lease_namespace(), "shared");
    }

    #[test]
    fn queries_are_confined_unless_a_namespace_is_named() {
        let start = ["assay-operator", "--bench-image", "bench"];
        assert_eq!(Args::parse_from(start).confining_label("team"), Some("namespace"));
        let some = ["--prometheus-label", "tenant_id", "--unconfined-queries", "lab"];
        let args = Args::parse_from([&start[..], &some].concat());
        assert_eq!(args.confining_label("team"), Some("tenant_id"));
        assert_eq!(args.confining_label("lab"), None);
        assert_eq!(args.confining_label("lab2"), Some("tenant_id"));
        let args = Args::parse_from([&start[..], &["--unconfined-queries", "*"]].concat());
        assert_eq!(args.confining_label("team"), None);
        for odd in ["", "1a", "a=\"b\"", "a-b"] {
            assert!(Args::try_parse_from([&start[..], &["--prometheus-label", odd]].concat()).is_err(), "{odd}");
        }
    }

    #[test]
    fn webhooks_go_to_hosts_only() {
        let start = ["assay-operator", "--bench-image", "bench"];
        assert_eq!(Args::parse_from(start).webhook_hosts, []);
        let some = ["--webhook-host", "hooks.example.com", "--webhook-host", "http://10.0.0.7:8080"];
        assert_eq!(Args::parse_from([&start[..], &some].concat()).webhook_hosts.len(), 2);
        for odd in ["*", "hooks.example.com/path", "ftp://hooks.example.com"] {
            assert!(Args::try_parse_from([&start[..], &["--webhook-host", odd]].concat()).is_err(), "{odd}");
        }
    }

    /// Tokens would be there for everybody on the way to read.
    #[test]
    fn metrics_are_for_some_only_over_tls() {
        let start = ["assay-operator", "--bench-image", "bench", "--authorize-metrics"];
        assert!(Args::try_parse_from(start).is_err());
        assert!(Args::parse_from([&start[..], &["--listen-tls", "/etc/tls"]].concat()).authorize_metrics);
    }

    /// Two replicas on one machine are two, and two hosts may count their processes alike.
    #[test]
    fn a_replica_without_a_name_goes_by_its_host_and_process() {
        let identity = default_identity();
        let (host, process) = identity.rsplit_once('-').expect("two parts");
        assert_eq!(process, std::process::id().to_string());
        assert_eq!(host, std::env::var("HOSTNAME").as_deref().unwrap_or("operator"));
    }
}
