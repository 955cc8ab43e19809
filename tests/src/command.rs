//! A command as a value: which namespace, which program, what it reads. What builds the cluster is a list of these,
//! so that it can be looked at without running it.

use std::{
    fmt::{self, Display},
    io::Write,
    process::{Command, Stdio},
};

/// Longest tail of a failed command's output in a message.
const TAIL: usize = 400;

/// One command of the machine inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestCommand {
    /// The network namespace it runs in; the machine's own where absent.
    pub netns: Option<String>,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// What it reads.
    pub stdin: String,
}

/// A command did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum CmdError {
    /// It could not be run.
    #[error("cannot run `{command}`: {source}")]
    Run {
        /// The command.
        command: String,
        /// Why.
        source: std::io::Error,
    },
    /// It ended with an error.
    #[error("`{command}` failed ({status}): {output}")]
    Failed {
        /// The command.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// The end of what it said.
        output: String,
    },
}

impl GuestCommand {
    /// A command of the machine's own network.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            netns: None,
            argv: argv.into_iter().map(Into::into).collect(),
            stdin: String::new(),
        }
    }

    /// A command inside a network namespace.
    pub fn within(netns: impl Into<String>, argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            netns: Some(netns.into()),
            ..Self::new(argv)
        }
    }

    /// With lines to read.
    #[must_use]
    pub fn reading(mut self, lines: &[String]) -> Self {
        self.stdin = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        self
    }

    /// As a process to be started. `nsenter` rather than `ip netns exec`: no mount namespace is needed, and the
    /// lab's one CPU starts hundreds of these.
    #[must_use]
    pub fn to_process(&self) -> Command {
        let mut words = Vec::new();
        if let Some(netns) = &self.netns {
            words.extend([
                "nsenter".to_owned(),
                format!("--net=/run/netns/{netns}"),
                "--".to_owned(),
            ]);
        }
        words.extend(self.argv.iter().cloned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }

    /// Runs it to its end; answers what it wrote.
    pub fn run(&self) -> Result<String, CmdError> {
        let failed = |source| CmdError::Run {
            command: self.to_string(),
            source,
        };
        let mut child = self
            .to_process()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A command that ends before it has read everything says why on its own.
            let _ = stdin.write_all(self.stdin.as_bytes());
        }
        let output = child.wait_with_output().map_err(failed)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        let said = text(&output.stderr);
        let said = if said.trim().is_empty() {
            text(&output.stdout)
        } else {
            said
        };
        let said = said.trim();
        let from = said.char_indices().rev().nth(TAIL).map_or(0, |(at, _)| at);
        Err(CmdError::Failed {
            command: self.to_string(),
            status: output.status,
            output: said[from..].to_owned(),
        })
    }
}

impl Display for GuestCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(netns) = &self.netns {
            write!(f, "[{netns}] ")?;
        }
        write!(f, "{}", self.argv.join(" "))
    }
}

/// Runs all, in order, until one fails.
pub fn run_all(commands: &[GuestCommand]) -> Result<(), CmdError> {
    commands.iter().try_for_each(|command| command.run().map(drop))
}
