//! How far it is, on standard error, for people who wait; nothing where nobody looks.

use std::{
    cell::Cell,
    io::{IsTerminal, Write},
};

/// Counts looks. Everything runs on one thread.
#[derive(Debug)]
pub(super) struct CheckProgress {
    looked: Cell<u64>,
    of: u64,
    visible: bool,
}

impl CheckProgress {
    /// Shown only where there is a terminal, and more than one look to wait for.
    pub(super) fn of(looks: u64) -> Self {
        Self {
            looked: Cell::new(0),
            of: looks,
            visible: looks > 1 && std::io::stderr().is_terminal(),
        }
    }

    pub(super) fn step(&self) {
        self.looked.set(self.looked.get() + 1);
        if self.visible && self.looked.get() < self.of {
            self.write(&format!("\r\u{1b}[K{}/{}", self.looked.get(), self.of));
        }
    }

    /// Makes room for a line of output.
    pub(super) fn clear(&self) {
        if self.visible {
            self.write("\r\u{1b}[K");
        }
    }

    #[expect(clippy::unused_self, reason = "only what counts may write")]
    fn write(&self, text: &str) {
        let mut err = std::io::stderr().lock();
        // Whoever closed it does not want to see it.
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }
}
