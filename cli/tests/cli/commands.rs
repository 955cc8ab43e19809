//! Runs the binary under test.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

pub(crate) fn parallax() -> Command {
    called(Path::new(env!("CARGO_BIN_EXE_parallax")))
}

/// The same under another program name.
pub(crate) fn called(program: &Path) -> Command {
    let mut command = Command::new(program);
    // Keep the state of `parallax up` within the test's directory.
    command.env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    // The tests must not depend on the caller's environment.
    for name in [
        "PARALLAX_CONFIG",
        "PARALLAX_LOG",
        "PARALLAX_AGGREGATOR",
        "PARALLAX_VANTAGE",
        "PARALLAX_POD",
        "PARALLAX_ADDRESS",
        "PARALLAX_CREDENTIALS",
        "PARALLAX_EVERY_ADDRESS",
        "PARALLAX_SERVER",
        "PARALLAX_TOKEN",
        "KUBECONFIG",
    ] {
        command.env_remove(name);
    }
    command
}

pub(crate) fn run(args: &[&str]) -> Output {
    parallax().args(args).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the path of a file in the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Writes a configuration file in its own temporary directory.
pub(crate) fn config(content: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parallax.yaml");
    std::fs::write(&path, content).unwrap();
    (folder, path)
}
