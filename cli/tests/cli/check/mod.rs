//! `parallax check`: output and exit code against real local servers.

mod access;
mod addresses;
mod json;
mod names;
mod repeat;
mod tls;
mod verdict;

use std::{ffi::OsStr, process::Output};

use crate::commands::{parallax, text};

/// The output and exit code of a run.
pub(crate) struct CheckOutput {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: Option<i32>,
}

impl CheckOutput {
    fn from_output(output: &Output) -> Self {
        Self {
            out: text(&output.stdout),
            err: text(&output.stderr),
            code: output.status.code(),
        }
    }

    /// Asserts the exit code and that the output contains all of the words.
    #[track_caller]
    fn assert_output(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        for word in words {
            assert!(self.out.contains(word), "expected {word:?} in:\n{}", self.out);
        }
    }

    #[track_caller]
    fn assert_lacks(&self, word: &str) {
        assert!(
            !self.out.contains(word),
            "did not expect {word:?} in:\n{}",
            self.out
        );
    }
}

/// A timeout that no server of these tests reaches.
const AMPLE_TIMEOUT: &str = "--timeout=30s";

/// Keeps the hosts file of the machine that runs the tests out of them.
const NO_HOSTS_FILE: &str = "--hosts-file=/dev/null";

/// Runs `parallax check` with [`AMPLE_TIMEOUT`] and [`NO_HOSTS_FILE`], unless the test sets these flags.
fn check<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> CheckOutput {
    let mut command = parallax();
    command.arg("check").args(args);
    for default in [AMPLE_TIMEOUT, NO_HOSTS_FILE] {
        let flag = default.split_inclusive('=').next().unwrap();
        if !command
            .get_args()
            .any(|given| given.to_string_lossy().starts_with(flag))
        {
            command.arg(default);
        }
    }
    CheckOutput::from_output(&command.output().unwrap())
}
