//! Progress on standard error, if that is a terminal.

use std::{
    cell::Cell,
    io::{IsTerminal, Write},
};

/// Counts passes. Everything runs on one thread.
#[derive(Debug)]
pub(super) struct CheckProgress {
    completed: Cell<u64>,
    total: u64,
    visible: bool,
}

impl CheckProgress {
    /// Returns a counter that is visible only on a terminal and for more than one pass.
    pub(super) fn new(looks: u64) -> Self {
        Self {
            completed: Cell::new(0),
            total: looks,
            visible: looks > 1 && std::io::stderr().is_terminal(),
        }
    }

    pub(super) fn step(&self) {
        self.completed.set(self.completed.get() + 1);
        if self.visible && self.completed.get() < self.total {
            self.write(&format!("\r\u{1b}[K{}/{}", self.completed.get(), self.total));
        }
    }

    /// Clears the line for output.
    pub(super) fn clear(&self) {
        if self.visible {
            self.write("\r\u{1b}[K");
        }
    }

    #[expect(clippy::unused_self, reason = "only the counter may write")]
    fn write(&self, text: &str) {
        let mut err = std::io::stderr().lock();
        // If standard error is closed, progress is not wanted.
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }
}
