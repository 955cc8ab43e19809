//! A child process with a log of its own, ended by its id when dropped.

use std::{
    ffi::OsStr,
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use anyhow::Context;

/// Lines of a log that a failure shows.
const SHOWN: usize = 30;

/// A running program.
#[derive(Debug)]
pub struct RunningProgram {
    name: String,
    child: Child,
    log: PathBuf,
}

impl RunningProgram {
    /// Starts a program with its output in `FOLDER/NAME.log`. It dies with the thread that started it, however that ends.
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

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Ends it at once, as SIGKILL does.
    pub fn kill(&mut self) {
        // Both fail only for a process that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Everything it wrote.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read(&self.log).map_or_else(
            |error| format!("{}: {error}", self.log.display()),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }

    /// The last lines it wrote, for a message.
    #[must_use]
    pub fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let shown = &lines[lines.len().saturating_sub(SHOWN)..];
        format!("the last of {}'s log:\n{}", self.name, shown.join("\n"))
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            crate::say(&self.tail());
        }
    }
}
