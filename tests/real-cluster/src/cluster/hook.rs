//! The hook: an executable that makes changes to the cluster that kubectl cannot. docs/contributing/testing.md
//! describes its verbs.

use std::{path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context, bail};
use tokio::{process::Command, time::timeout};

/// Exit code of a hook that does not support the request.
const UNSUPPORTED: i32 = 4;

/// Timeout of a call: importing images on every node takes longest.
const CALL_TIMEOUT: Duration = Duration::from_mins(5);

/// The executable in `PARALLAX_REAL_CLUSTER_HOOK`, if any.
#[derive(Debug, Clone)]
pub struct Hook {
    program: Option<PathBuf>,
    kubeconfig: PathBuf,
}

/// Result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookResult {
    /// Completed, with its output.
    Done(String),
    /// Not supported, or there is no hook.
    Unsupported,
}

impl Hook {
    pub(super) const fn new(program: Option<PathBuf>, kubeconfig: PathBuf) -> Self {
        Self { program, kubeconfig }
    }

    /// Reports whether there is a hook.
    #[must_use]
    pub const fn is_some(&self) -> bool {
        self.program.is_some()
    }

    /// Calls it with a verb and its arguments, and waits until it exits.
    ///
    /// # Errors
    /// An exit code other than 0 and 4, with all output, or a timeout after five minutes.
    pub async fn call(&self, arguments: &[impl AsRef<str>]) -> anyhow::Result<HookResult> {
        let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
        let Some(program) = &self.program else {
            return Ok(HookResult::Unsupported);
        };
        let command_text = || format!("{} {}", program.display(), arguments.join(" "));
        let running = Command::new(program)
            .args(&arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null())
            // Ctrl-C in the terminal must reach only the suite, which restores what is broken.
            .process_group(0)
            .kill_on_drop(true)
            .output();
        let output = timeout(CALL_TIMEOUT, running)
            .await
            .with_context(|| format!("{} did not exit within {CALL_TIMEOUT:?}", command_text()))?
            .with_context(command_text)?;
        match output.status.code() {
            Some(0) => Ok(HookResult::Done(
                String::from_utf8_lossy(&output.stdout).trim().to_owned(),
            )),
            Some(UNSUPPORTED) => Ok(HookResult::Unsupported),
            _ => bail!(
                "{}: {}: {}",
                command_text(),
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[tokio::test]
    async fn exit_code_4_is_no_error_and_any_other_one_is() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("hook");
        fs::write(&program, "#!/bin/sh\necho \"$1 done\"\nexit $2\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let hook = Hook::new(Some(program), PathBuf::from("/dev/null"));
        let done = HookResult::Done("load done".to_owned());
        assert_eq!(hook.call(&["load", "0"]).await.unwrap(), done);
        assert_eq!(hook.call(&["load", "4"]).await.unwrap(), HookResult::Unsupported);
        assert!(hook.call(&["load", "1"]).await.is_err());
        let none = Hook::new(None, PathBuf::from("/dev/null"));
        assert_eq!(none.call(&["load", "0"]).await.unwrap(), HookResult::Unsupported);
    }
}
