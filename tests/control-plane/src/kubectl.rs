//! kubectl as a user has it.

use std::{
    fmt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, bail};
use tokio::{process::Command, time::timeout};

/// The longest that one command takes; only a failing test waits so long.
const PATIENCE: Duration = Duration::from_mins(2);

/// kubectl of one user of one control plane.
#[derive(Debug, Clone)]
pub struct Kubectl {
    pub(crate) program: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    /// Where it keeps what it has learned of the API server, which is another with each test.
    pub(crate) home: PathBuf,
}

impl Kubectl {
    /// Runs a command to its end; what it printed.
    ///
    /// # Errors
    /// Another exit code than 0 with all that was said, or no end within two minutes.
    pub async fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let said = CommandLine(arguments);
        let running = Command::new(&self.program)
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", &self.home)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = timeout(PATIENCE, running)
            .await
            .with_context(|| format!("{said} has not ended after {PATIENCE:?}"))?
            .with_context(|| format!("starting {}", self.program.display()))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let complained = String::from_utf8_lossy(&output.stderr);
            bail!("{said}: {}\n{printed}{complained}", output.status);
        }
        Ok(printed.into_owned())
    }

    /// Runs a command with a file or folder behind its last argument.
    ///
    /// # Errors
    /// As [`Self::run`], and where the path is no text.
    pub async fn run_on(&self, arguments: &[&str], path: &Path) -> anyhow::Result<String> {
        let path = path
            .to_str()
            .with_context(|| format!("{} is no text", path.display()))?;
        self.run(&[arguments, &[path]].concat()).await
    }
}

/// A command as one would type it.
struct CommandLine<'a>(&'a [&'a str]);

impl fmt::Display for CommandLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kubectl {}", self.0.join(" "))
    }
}
