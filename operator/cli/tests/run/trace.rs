//! What `assay run` does to files and processes, as the kernel sees it, and its end at any of these calls.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Output;

use crate::lab::Lab;

/// Calls that change files or processes. Not every machine has all of them.
const CALLS: &str = "?open,?openat,?creat,?write,?fsync,?fdatasync,?ftruncate,?rename,?renameat,?renameat2,?mkdir,\
                     ?mkdirat,?unlink,?unlinkat,?rmdir,?clone,?clone3,?fork,?vfork,?kill";

/// One call of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub name: String,
    /// Its number among the calls of this name; of one that opens a file, among those that open this file. How many others a run reads is
    /// no matter of its own: it looks at all processes.
    pub number: usize,
    /// The files that it names.
    pub paths: Vec<String>,
    text: String,
}

impl Call {
    fn opens(&self) -> bool {
        self.name.contains("open")
    }

    fn changes_something(&self) -> bool {
        !self.opens() || ["O_CREAT", "O_TRUNC", "O_WRONLY", "O_RDWR"].iter().any(|m| self.text.contains(m))
    }

    pub fn starts_process(&self) -> bool {
        self.text.contains("CLONE_VFORK") || self.text.contains("CLONE_PIDFD") || self.name.ends_with("fork")
    }

    /// What it does, whichever trial it does it for.
    pub fn site(&self) -> String {
        let paths = self.paths.iter().map(|path| {
            let parts = path.split('/').map(|part| if is_trial(part) { "TRIAL" } else { part });
            parts.collect::<Vec<_>>().join("/")
        });
        [self.name.clone()].into_iter().chain(paths).collect::<Vec<_>>().join(" ")
    }
}

fn is_trial(name: &str) -> bool {
    name.starts_with("fill-b")
}

/// All calls of a whole run that change something, in order.
pub fn calls_of_a_run(lab: &Lab) -> Vec<Call> {
    let output = strace(lab, &[], "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    calls(lab)
}

/// Runs until the kernel is about to do this call, which it does not: the run is killed.
pub fn kill_before(lab: &Lab, call: &Call, faults: &str) {
    let inject = format!("inject={}:signal=SIGKILL:when={}", call.name, call.number);
    let file = lab.folder().join(call.paths.last().map_or("", String::as_str)).display().to_string();
    let of_file = ["-P", &file];
    let of_all: &[&str] = if call.opens() { &of_file } else { &[] };
    let output = strace(lab, &[&["-e", &inject], of_all].concat(), faults);
    assert_eq!(
        output.status.signal(),
        Some(9),
        "not killed before {}: {}",
        call.text,
        String::from_utf8_lossy(&output.stderr)
    );
    let last = calls(lab).pop().unwrap();
    assert_eq!((last.site(), last.number), (call.site(), call.number), "two runs do the same in the same order");
}

/// Follows the run alone, and nothing that it starts.
fn strace(lab: &Lab, more: &[&str], faults: &str) -> Output {
    let trace = format!("trace={CALLS}");
    let file = lab.dir.path().join("trace");
    let arguments = [&["-y", "-s", "0", "-o", file.to_str().unwrap(), "-e", &trace], more].concat();
    let output = lab.command_under("strace", &arguments, faults).output();
    let output = output.unwrap_or_else(|error| panic!("can't run strace ({error}): install it with `make setup`"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !said.contains("ptrace") && !said.contains("PTRACE"),
        "this machine does not let strace follow a process, and these tests need it; allow ptrace to this user: {said}"
    );
    output
}

fn calls(lab: &Lab) -> Vec<Call> {
    let text = fs::read_to_string(lab.dir.path().join("trace")).unwrap();
    let folder = lab.folder().display().to_string();
    let mut numbers: BTreeMap<(String, Vec<String>), usize> = BTreeMap::new();
    let all = text.lines().filter_map(|line| {
        let (name, text) = line.split_once('(')?;
        // What it came to is not known of a call that was not made.
        let end = [") ", " =>", " <unfinished"].iter().filter_map(|end| text.find(end)).min();
        let text = &text[..end.unwrap_or(text.len())];
        // Paths are in quotes, and behind the numbers of open files in angle brackets.
        let pieces =
            text.split(['"', '<', '>']).skip(1).step_by(2).filter(|piece| !piece.is_empty() && *piece != folder);
        let paths = pieces.map(|piece| match piece.split_once(":[") {
            Some((kind, _)) => kind.to_owned(),
            None => piece.replace(&format!("{folder}/"), ""),
        });
        let mut call = Call { name: name.to_owned(), number: 0, paths: paths.collect(), text: text.to_owned() };
        let counted = if call.opens() { call.paths.clone() } else { Vec::new() };
        let number = numbers.entry((call.name.clone(), counted)).or_default();
        *number += 1;
        call.number = *number;
        Some(call)
    });
    all.filter(Call::changes_something).collect()
}

/// A call for each place in the program: one of those that do the same after the same. That a file is on its disk and what was printed
/// makes no difference to those who come after.
pub fn places(calls: &[Call]) -> Vec<Call> {
    let mut before = String::new();
    let mut places: BTreeMap<(String, String), Vec<&Call>> = BTreeMap::new();
    for call in calls.iter().filter(|call| !call.name.contains("sync") && !call.text.starts_with("2<")) {
        let site = call.site();
        places.entry((before, site.clone())).or_default().push(call);
        before = site;
    }
    places.into_values().map(|calls| calls[calls.len() / 2].clone()).collect()
}

/// Processes that work in the folder.
pub fn processes(lab: &Lab) -> BTreeSet<i32> {
    let folder = lab.folder().join("out/trials/").display().to_string();
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let line = |pid: i32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    all.filter(|&pid| String::from_utf8_lossy(&line(pid)).contains(&folder)).collect()
}
