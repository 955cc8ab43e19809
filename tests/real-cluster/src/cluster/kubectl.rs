//! kubectl as an administrator uses it.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, bail};
use tokio::{io::AsyncWriteExt, process::Command, time::timeout};

/// Timeout of commands that have none of their own.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(5);

/// kubectl with one kubeconfig.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: OsString,
    kubeconfig: PathBuf,
    /// Its home directory with the discovery cache.
    home: PathBuf,
}

/// Result of a command.
#[derive(Debug, Clone)]
pub struct Output {
    /// Whether the exit code is 0.
    pub success: bool,
    /// Its output.
    pub stdout: String,
    /// Its error output.
    pub stderr: String,
}

impl Kubectl {
    /// Uses the program in `KUBECTL`, or `kubectl` from the path.
    pub(super) fn new(kubeconfig: PathBuf, home: PathBuf) -> Self {
        Self {
            program: env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into()),
            kubeconfig,
            home,
        }
    }

    /// Runs a command and returns its output.
    ///
    /// # Errors
    /// A non-zero exit code, with all output, or a timeout after five minutes.
    pub async fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.with_input(arguments, "").await
    }

    /// The same with standard input.
    ///
    /// # Errors
    /// Like [`Self::run`].
    pub async fn with_input(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        let output = self.output(arguments, input).await?;
        if !output.success {
            bail!(
                "kubectl {}: {}{}",
                arguments.join(" "),
                output.stdout,
                output.stderr.trim()
            );
        }
        Ok(output.stdout)
    }

    /// Runs a command and returns its result, whatever its exit code.
    ///
    /// # Errors
    /// It cannot be started, or does not exit within five minutes.
    pub async fn output(&self, arguments: &[&str], input: &str) -> anyhow::Result<Output> {
        let command_text = || format!("kubectl {}", arguments.join(" "));
        let mut child = Command::new(&self.program)
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", &self.home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", Path::new(&self.program).display()))?;
        let mut stdin = child.stdin.take().context("kubectl has no input")?;
        let ended = async {
            // A command that does not read its input has closed it.
            let _ = stdin.write_all(input.as_bytes()).await;
            drop(stdin);
            child.wait_with_output().await
        };
        let output = timeout(COMMAND_TIMEOUT, ended)
            .await
            .with_context(|| format!("{} did not exit within {COMMAND_TIMEOUT:?}", command_text()))?
            .with_context(command_text)?;
        Ok(Output {
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}
