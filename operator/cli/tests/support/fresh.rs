//! Programs that tests start. Cargo builds some of them only when it is asked to.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

/// Has cargo build a program with these arguments, unless it is as its sources are.
pub fn build(program: &Path, arguments: &[&str]) {
    if !is_fresh(program) {
        let status = Command::new(env!("CARGO")).args(["build", "--quiet"]).args(arguments).status();
        assert!(status.expect("cargo can be run").success(), "{} is not built", program.display());
    }
}

/// By the list of its sources, which cargo leaves beside it. To ask cargo itself would build what the program depends on once more,
/// with the features that it alone needs.
fn is_fresh(program: &Path) -> bool {
    let (built, list) = (changed(program), fs::read_to_string(program.with_extension("d")));
    let (Some(built), Ok(list)) = (built, list) else { return false };
    let sources = list.split_once(": ").map_or("", |(_, sources)| sources);
    sources.split_whitespace().all(|source| changed(Path::new(source)).is_some_and(|changed| changed <= built))
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}
