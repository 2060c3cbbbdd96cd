//! Machines that fail a trial: limits, full and read-only file systems.

use std::process::{Command, Stdio};

/// The same command, after a shell has run `script`, for example to set limits.
pub fn after(script: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-ec", &format!("{script}\nexec \"$@\""), "sh"]).arg(command.get_program()).args(command.get_args());
    shell
}

/// The same, where `script` may also mount what nobody else sees, and which goes with the process.
pub fn mounted(script: &str, command: &Command) -> Command {
    let shell = after(script, command);
    let mut apart = Command::new("unshare");
    apart.args(unshare()).arg(shell.get_program()).args(shell.get_args());
    apart
}

/// How this machine lets us mount: as anybody in a user namespace, or as root without one.
fn unshare() -> &'static [&'static str] {
    let ways: [&[&str]; 2] = [&["--map-root-user", "--mount"], &["--mount"]];
    let works = |way: &&&[&str]| {
        let mut probe = Command::new("unshare");
        probe.args(**way).args(["mount", "-t", "tmpfs", "none", "/mnt"]).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    };
    let Some(way) = ways.iter().find(works) else {
        panic!(
            "full and read-only disks are mounted in a namespace, which this machine forbids: run these tests as root, or \
             allow user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces=1000)"
        )
    };
    way
}
