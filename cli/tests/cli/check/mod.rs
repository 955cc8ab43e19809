//! `parallax check`: what it says of real local servers, and what it exits with.

mod addresses;
mod json;
mod names;
mod repeat;
mod tls;
mod verdict;

use std::{ffi::OsStr, process::Output};

use crate::commands::{parallax, text};

/// What a run said and exited with.
pub(crate) struct Said {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: Option<i32>,
}

impl Said {
    fn of(output: &Output) -> Self {
        Self {
            out: text(&output.stdout),
            err: text(&output.stderr),
            code: output.status.code(),
        }
    }

    /// Exits so, and says all of these.
    #[track_caller]
    fn holds(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        for word in words {
            assert!(self.out.contains(word), "expected {word:?} in:\n{}", self.out);
        }
    }

    #[track_caller]
    fn lacks(&self, word: &str) {
        assert!(
            !self.out.contains(word),
            "did not expect {word:?} in:\n{}",
            self.out
        );
    }
}

/// A deadline no server of these tests needs; nothing is decided by it.
const AMPLE: &str = "--timeout=30s";

/// The names of the machine that runs the tests are not theirs.
const NO_HOSTS: &str = "--hosts-file=/dev/null";

/// Runs it; with [`AMPLE`] and [`NO_HOSTS`] where the test does not say otherwise.
fn check<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Said {
    let mut command = parallax();
    command.arg("check").args(args);
    for default in [AMPLE, NO_HOSTS] {
        let flag = default.split_inclusive('=').next().unwrap();
        if !command
            .get_args()
            .any(|given| given.to_string_lossy().starts_with(flag))
        {
            command.arg(default);
        }
    }
    Said::of(&command.output().unwrap())
}
