//! Boot tests of this machine, with the scripts that `tests/check-kernel` runs before anything is built.

use std::{process::Command, sync::OnceLock};

use crate::{incident::Dataplane, packets};

const UML_SCRIPT: &str = include_str!("uml-trial.sh");
const HOST_SCRIPT: &str = include_str!("host-trial.sh");

/// Boots user-mode Linux, once per process. The error is a reason for the user.
pub(crate) fn uml() -> Result<(), String> {
    static RESULT: OnceLock<Result<(), String>> = OnceLock::new();
    RESULT.get_or_init(|| run(UML_SCRIPT, &[])).clone()
}

/// Tests the kernel features that a data plane needs, in temporary namespaces. The error is a reason for the user.
pub(crate) fn host(dataplane: Dataplane) -> Result<(), String> {
    let rules = if dataplane.is_nftables() {
        "nftables"
    } else {
        "iptables"
    };
    run(HOST_SCRIPT, &[rules])
}

fn run(script: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("sh")
        .args(["-c", script, "sh"])
        .args(arguments)
        .output()
        .map_err(|error| format!("running sh: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last = stderr.lines().map(str::trim).rfind(|line| !line.is_empty());
    Err(match last {
        Some(line) => packets::sanitize(line),
        None => format!("the trial exited with {}", output.status),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_last_line_that_a_trial_writes_without_control_characters() {
        assert_eq!(run("exit 0", &[]), Ok(()));
        let reason = run(
            "echo first >&2; printf 'no \\033 %s\\n\\n' \"$1\" >&2; exit 1",
            &["root"],
        )
        .unwrap_err();
        assert!(reason.starts_with("no ") && reason.ends_with(" root"), "{reason}");
        assert!(!reason.contains(char::is_control), "{reason:?}");
        let silent = run("exit 7", &[]).unwrap_err();
        assert!(silent.contains('7'), "{silent}");
    }

    #[test]
    fn the_trial_of_this_machines_kernel_makes_the_namespaces_that_a_lab_makes() {
        let made = format!("unshare {} ", crate::host::NAMESPACES.join(" "));
        assert!(HOST_SCRIPT.contains(&made));
    }
}
