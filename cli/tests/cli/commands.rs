//! Running the binary under test.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

pub(crate) fn parallax() -> Command {
    called(Path::new(env!("CARGO_BIN_EXE_parallax")))
}

/// The same by another name.
pub(crate) fn called(program: &Path) -> Command {
    let mut command = Command::new(program);
    // What `parallax up` keeps belongs to the test.
    command.env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    // The tests must not depend on what their caller has set.
    for name in [
        "PARALLAX_CONFIG",
        "PARALLAX_LOG",
        "PARALLAX_AGGREGATOR",
        "PARALLAX_VANTAGE",
        "PARALLAX_POD",
        "PARALLAX_ADDRESS",
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

/// A file of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// A configuration file in a folder of its own.
pub(crate) fn config(content: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parallax.yaml");
    std::fs::write(&path, content).unwrap();
    (folder, path)
}
