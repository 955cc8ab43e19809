//! Commands as values: network namespace, program, standard input. The steps that build the cluster are a list of
//! these, so that tests can inspect them without running them.

use std::{
    fmt::{self, Display},
    io::Write,
    process::{Command, Stdio},
};

/// Maximum length of a failed command's output in an error.
const MAX_OUTPUT_CHARS: usize = 400;

/// One command in the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestCommand {
    /// Its network namespace; absent for the guest's own.
    pub netns: Option<String>,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Its standard input.
    pub stdin: String,
}

/// A failed command.
#[derive(Debug, thiserror::Error)]
pub enum CmdError {
    /// It could not be started.
    #[error("cannot run `{command}`: {source}")]
    Run {
        /// The command.
        command: String,
        /// Why.
        source: std::io::Error,
    },
    /// It exited with an error.
    #[error("`{command}` failed ({status}): {output}")]
    Failed {
        /// The command.
        command: String,
        /// Exit status.
        status: std::process::ExitStatus,
        /// The end of its output.
        output: String,
    },
}

impl GuestCommand {
    /// Builds a command in the guest's own network namespace.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            netns: None,
            argv: argv.into_iter().map(Into::into).collect(),
            stdin: String::new(),
        }
    }

    /// Builds a command in a network namespace.
    pub fn in_namespace(netns: impl Into<String>, argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            netns: Some(netns.into()),
            ..Self::new(argv)
        }
    }

    /// Sets the lines of its standard input.
    #[must_use]
    pub fn with_stdin(mut self, lines: &[String]) -> Self {
        self.stdin = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        self
    }

    /// Builds the process. Uses `nsenter`, not `ip netns exec`: no mount namespace is needed, and the lab's single CPU
    /// starts hundreds of these.
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

    /// Runs it to completion and returns its output.
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
            // A command that exits before it has read all input reports the reason itself.
            let _ = stdin.write_all(self.stdin.as_bytes());
        }
        let output = child.wait_with_output().map_err(failed)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        let message = text(&output.stderr);
        let message = if message.trim().is_empty() {
            text(&output.stdout)
        } else {
            message
        };
        let message = message.trim();
        let from = message
            .char_indices()
            .rev()
            .nth(MAX_OUTPUT_CHARS)
            .map_or(0, |(at, _)| at);
        Err(CmdError::Failed {
            command: self.to_string(),
            status: output.status,
            output: message[from..].to_owned(),
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

/// Runs all in order, until one fails.
pub fn run_all(commands: &[GuestCommand]) -> Result<(), CmdError> {
    commands.iter().try_for_each(|command| command.run().map(drop))
}
