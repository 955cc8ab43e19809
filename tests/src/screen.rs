//! Progress output: a line per event, and a status line that is redrawn.

use std::io::{IsTerminal, Write, stderr};

use tokio::time::Instant;

/// Writes to stderr, so that stdout contains only the result.
#[derive(Debug)]
pub struct ProgressScreen {
    start: Instant,
    terminal: bool,
    lines: bool,
    status: String,
}

impl Default for ProgressScreen {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            terminal: stderr().is_terminal(),
            lines: true,
            status: String::new(),
        }
    }
}

impl ProgressScreen {
    /// Prints only the status line, and only on a terminal.
    #[must_use]
    pub fn status_only() -> Self {
        let mut screen = Self::default();
        screen.lines = false;
        screen
    }

    /// Prints nothing.
    #[must_use]
    pub fn silent() -> Self {
        let mut screen = Self::status_only();
        screen.terminal = false;
        screen
    }

    /// Prints an event.
    pub fn line(&mut self, text: &str) {
        if !self.lines {
            return;
        }
        self.wipe();
        let seconds = self.start.elapsed().as_secs_f64();
        // A closed stderr is no reason to stop.
        let _ = writeln!(stderr(), "{seconds:6.1} s  {text}");
        self.status.clear();
    }

    /// Prints the status. Redrawn in place on a terminal; otherwise printed when it changes.
    pub fn status(&mut self, text: &str) {
        if self.terminal {
            self.wipe();
            let seconds = self.start.elapsed().as_secs_f64();
            let _ = write!(stderr(), "{seconds:6.1} s  {text}");
            let _ = stderr().flush();
            text.clone_into(&mut self.status);
        } else if self.lines && self.status != text {
            self.line(text);
            text.clone_into(&mut self.status);
        }
    }

    /// Returns the time since the start.
    #[must_use]
    pub fn elapsed(&self) -> std::time::Duration {
        self.start.elapsed()
    }

    fn wipe(&self) {
        if self.terminal && !self.status.is_empty() {
            let _ = write!(stderr(), "\r\x1b[2K");
        }
    }
}

impl Drop for ProgressScreen {
    fn drop(&mut self) {
        if self.terminal && !self.status.is_empty() {
            if self.lines {
                let _ = writeln!(stderr());
            } else {
                self.wipe();
            }
        }
    }
}
