//! What a bench finds in a pod on a cluster, and how it is called there.

use super::{DATA, METRICS, OPTIONS, OUT, RUN, TERMINATION_LOG, flag};

/// The folder and the file with the spec or the question.
pub const INPUT_DIR: &str = "/etc/assay";
pub const INPUT_FILE: &str = "input.json";

/// The volume for databases. Besides it only temporary files can be written.
pub const DATA_DIR: &str = "/data";
pub const TEMPORARY_DIR: &str = "/tmp";

/// From where Kubernetes takes a container's last words.
pub const TERMINATION_MESSAGE: &str = "/dev/termination-log";

/// Where a running bench serves its metrics, on all addresses of its pod.
pub const METRICS_PORT: u16 = 9464;

/// User and group of a bench.
pub const USER: u32 = 65532;

/// The arguments of a trial whose data are in a folder of the volume.
pub fn run(data: &str) -> Vec<String> {
    let arguments = [
        (DATA, data.to_owned()),
        (OUT, format!("{TEMPORARY_DIR}/record.json")),
        (TERMINATION_LOG, TERMINATION_MESSAGE.to_owned()),
        (METRICS, format!("0.0.0.0:{METRICS_PORT}")),
    ];
    let arguments = arguments.into_iter().flat_map(|(name, value)| [flag(name), value]);
    [RUN.to_owned(), input()].into_iter().chain(arguments).collect()
}

/// The arguments of a question about options.
pub fn options() -> Vec<String> {
    vec![OPTIONS.to_owned(), input(), flag(TERMINATION_LOG), TERMINATION_MESSAGE.to_owned()]
}

fn input() -> String {
    format!("{INPUT_DIR}/{INPUT_FILE}")
}
