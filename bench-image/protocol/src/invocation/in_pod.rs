//! What a bench finds in a pod on a cluster, and how it is called there.

use crate::Digest;

use super::{DATA, METRICS, OPTIONS, OUT, RUN, TERMINATION_LOG, flag};

/// The folder and the file with the spec or the question.
pub const INPUT_DIR: &str = "/etc/assay";
pub const INPUT_FILE: &str = "input.json";

/// The environment variable with the digest of the input, which comes from an annotation. People may change annotations of a pod, but
/// nobody its environment.
pub const INPUT_DIGEST: &str = "ASSAY_INPUT_DIGEST";

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

/// Why this is not the input that the pod was made for. Nothing is expected where nobody said so.
pub fn check_input(input: &[u8], expected: Option<&str>) -> Result<(), String> {
    let found = Digest::of(input);
    match expected {
        Some(expected) if expected != found.as_str() => Err(format!(
            "the input was changed after the pod was made: its digest is {found}, {INPUT_DIGEST} is {expected}"
        )),
        _ => Ok(()),
    }
}

fn input() -> String {
    format!("{INPUT_DIR}/{INPUT_FILE}")
}

#[cfg(test)]
mod tests {
    use super::check_input;

    #[test]
    fn an_input_that_was_changed_is_none() {
        let digest = "ba7816bf8f01cfea414140de5dae2223";
        assert_eq!(check_input(b"abc", Some(digest)), Ok(()));
        assert_eq!(check_input(b"abc", None), Ok(()), "on a machine, or by an older operator");
        for changed in [&b"abd"[..], b"abc ", b""] {
            let why = check_input(changed, Some(digest)).expect_err("it was changed");
            assert!(why.contains(digest) && why.contains("after the pod was made"), "{why}");
        }
        assert!(check_input(b"abc", Some("")).is_err(), "an empty digest is none");
    }
}
