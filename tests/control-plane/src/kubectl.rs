//! kubectl as users run it.

use std::{
    fmt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, bail};
use tokio::{process::Command, time::timeout};

/// Timeout of one command; only a failing test reaches it.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(2);

/// kubectl of one user of one control plane.
#[derive(Debug, Clone)]
pub struct Kubectl {
    pub(crate) program: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    /// Its home directory with the discovery cache, because each test has another API server.
    pub(crate) home: PathBuf,
}

impl Kubectl {
    /// Runs a command and returns its output.
    ///
    /// # Errors
    /// A non-zero exit code, with all output, or a timeout after two minutes.
    pub async fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let command_line = CommandLine(arguments);
        let running = Command::new(&self.program)
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", &self.home)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = timeout(COMMAND_TIMEOUT, running)
            .await
            .with_context(|| format!("{command_line} did not exit within {COMMAND_TIMEOUT:?}"))?
            .with_context(|| format!("starting {}", self.program.display()))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let complained = String::from_utf8_lossy(&output.stderr);
            bail!("{command_line}: {}\n{printed}{complained}", output.status);
        }
        Ok(printed.into_owned())
    }

    /// Runs a command with the path of a file or directory as its last argument.
    ///
    /// # Errors
    /// Like [`Self::run`], and if the path is not valid UTF-8.
    pub async fn run_on(&self, arguments: &[&str], path: &Path) -> anyhow::Result<String> {
        let path = path
            .to_str()
            .with_context(|| format!("{} is not valid UTF-8", path.display()))?;
        self.run(&[arguments, &[path]].concat()).await
    }
}

/// Displays a command as it would be typed.
struct CommandLine<'a>(&'a [&'a str]);

impl fmt::Display for CommandLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kubectl {}", self.0.join(" "))
    }
}
