//! One trial as a child process.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use assay_protocol::Exit;
use assay_protocol::invocation::{self, GRACE};
use assay_protocol::output::{MAX_PROGRESS_BYTES, Progress};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::cpus::Cpus;

/// How often the child is looked at.
const TICK: Duration = Duration::from_millis(100);
/// What is kept of output that is no progress, and of standard error, for messages.
const QUOTED: usize = 300;

/// How a child ended.
#[derive(Debug)]
pub enum Ended {
    /// By itself, or by somebody's signal. With what it printed that is no progress.
    Exited { status: ExitStatus, printed: String },
    /// We were asked to stop, and it is gone.
    Interrupted,
    /// It took longer than anything in its block may.
    Overdue,
}

/// A trial to be started.
pub struct Trial<'a> {
    pub bench: &'a Path,
    /// The folder of the trial, which has its spec.
    pub dir: &'a Path,
    pub work: &'a Path,
    pub cpus: &'a Cpus,
}

/// Starts the trial on its CPUs.
pub fn start(trial: &Trial<'_>) -> std::io::Result<Child> {
    let stderr = File::create(trial.dir.join("stderr.log"))?;
    let mut command = Command::new(trial.bench);
    command
        .args(invocation::run(&trial.dir.join("spec.json"), trial.work, &trial.dir.join("record.json")))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(stderr)
        // A group of its own: Ctrl-C in the terminal is for us to pass on, and whatever it starts ends with it.
        .process_group(0);
    trial.cpus.on_trial_cpus(|| command.spawn())
}

/// Waits for the end of a trial, passing its progress on.
pub fn watch(
    mut child: Child,
    longest: Duration,
    stopped: impl Fn() -> bool,
    mut progress: impl FnMut(&Progress),
) -> std::io::Result<Ended> {
    let (sender, lines) = channel();
    let reader = child.stdout.take().map(|stdout| std::thread::spawn(move || read_lines(stdout, &sender)));
    let started = Instant::now();
    let mut printed = String::new();
    let mut closed = false;
    let status = loop {
        closed |= listen(&lines, &mut printed, &mut progress, closed);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if stopped() {
            end(&mut child)?;
            return Ok(Ended::Interrupted);
        }
        if started.elapsed() > longest {
            end(&mut child)?;
            return Ok(Ended::Overdue);
        }
    };
    // A grandchild that outlives the bench must not run beside the next trial, nor hold its output open.
    let _ = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
    if let Some(reader) = reader {
        let _ = reader.join();
    }
    while let Ok(line) = lines.try_recv() {
        take(&line, &mut printed, &mut progress);
    }
    Ok(Ended::Exited { status, printed })
}

/// Takes lines for one tick; `true` when none will come any more.
fn listen(lines: &Receiver<String>, printed: &mut String, progress: &mut impl FnMut(&Progress), closed: bool) -> bool {
    if closed {
        std::thread::sleep(TICK);
        return true;
    }
    match lines.recv_timeout(TICK) {
        Ok(line) => {
            take(&line, printed, progress);
            false
        }
        Err(RecvTimeoutError::Timeout) => false,
        Err(RecvTimeoutError::Disconnected) => true,
    }
}

fn take(line: &str, printed: &mut String, progress: &mut impl FnMut(&Progress)) {
    match Progress::from_line(line) {
        Some(said) => progress(&said),
        // Other lines are none of our business, unless there is no record in the end.
        None if printed.len() < QUOTED => {
            printed.push_str(&quote(line));
            printed.push(' ');
        }
        None => {}
    }
}

fn read_lines(stdout: impl Read, sender: &Sender<String>) {
    let mut reader = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        match reader.by_ref().take(MAX_PROGRESS_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line).trim().to_owned();
                if sender.send(text).is_err() {
                    return;
                }
            }
        }
    }
}

/// Asks the whole group to end, and makes it where it does not.
fn end(child: &mut Child) -> std::io::Result<()> {
    let group = Pid::from_raw(child.id().cast_signed());
    let _ = killpg(group, Signal::SIGTERM);
    let deadline = Instant::now() + GRACE;
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            let _ = killpg(group, Signal::SIGKILL);
            child.wait()?;
        }
        std::thread::sleep(TICK);
    }
    let _ = killpg(group, Signal::SIGKILL);
    Ok(())
}

/// Whether a process was ended by force, as only somebody else can do it.
pub fn is_killed(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::SIGKILL as i32)
}

/// Whether a process has ended itself by a fault.
pub fn is_fault(status: ExitStatus) -> bool {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.is_some_and(Exit::is_fault)
}

/// How a process ended, in words.
pub fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended in an unknown way".to_owned(),
    }
}

/// The end of what a trial wrote to its standard error.
pub fn last_words(dir: &Path) -> String {
    let said = std::fs::read(dir.join("stderr.log")).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    said.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(quote).unwrap_or_default()
}

/// Text from a child, made fit for a line of ours.
fn quote(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).take(QUOTED).collect()
}
