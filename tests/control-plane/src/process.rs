//! A child process with its own log, killed by its id on drop.

use std::{
    ffi::OsStr,
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use anyhow::Context;

/// Log lines shown in an error.
const TAIL_LINES: usize = 30;

/// A running program.
#[derive(Debug)]
pub struct RunningProgram {
    name: String,
    child: Child,
    log: PathBuf,
}

impl RunningProgram {
    /// Starts a program with its output in `FOLDER/NAME.log`. It is killed with the thread that started it, however
    /// that ends.
    pub fn start(
        folder: &Path,
        name: &str,
        program: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        environment: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let out = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("opening {}", log.display()))?;
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(arguments)
            .envs(environment.iter().copied())
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(out.try_clone().context("sharing the log")?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("starting {} with setpriv (util-linux)", program.display()))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log,
        })
    }

    /// Returns its exit status, if it has exited.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        // Both fail only if the process has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns its complete output.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read(&self.log).map_or_else(
            |error| format!("{}: {error}", self.log.display()),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }

    /// Returns its last lines of output, for a message.
    #[must_use]
    pub fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let shown = &lines[lines.len().saturating_sub(TAIL_LINES)..];
        format!("end of the log of {}:\n{}", self.name, shown.join("\n"))
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            crate::print_uncaptured(&self.tail());
        }
    }
}
