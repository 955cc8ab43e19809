//! A running machine on either kernel: a child process, its process group, its log.

use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::ExitStatus,
};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// A running machine; killed with all its processes on drop.
#[derive(Debug)]
pub struct RunningMachine {
    child: Child,
    group: Option<Pid>,
    log: PathBuf,
}

impl RunningMachine {
    /// Starts the machine's command in its own process group. Its output goes to `log`.
    pub(crate) fn start(mut command: Command, log: PathBuf) -> anyhow::Result<Self> {
        let out = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let child = command
            .stdout(out.try_clone().context("sharing the log file")?)
            .stderr(out)
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {}", command.as_std().get_program().display()))?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(Self { child, group, log })
    }

    /// Returns its PID on this machine.
    pub(crate) fn pid(&self) -> Option<Pid> {
        self.group
    }

    /// Returns the log of the machine and everything in it.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Waits until it exits.
    pub async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait().await
    }
}

impl Drop for RunningMachine {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // It is fine if no process is left.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Writes an executable script.
pub(crate) fn script(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("making {} executable", path.display()))
}
