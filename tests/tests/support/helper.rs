//! Helpers in C that make this machine behave like another one. Compiled when a test needs them.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Builds a library with the `ptrace` behaviour of a host kernel with AMX.
pub(crate) fn large_area(folder: &Path) -> PathBuf {
    compile("uml-xstate/tests/large_area.c", folder, &["-shared", "-fPIC"])
}

/// Builds a program that runs another one without permission for `ptrace`.
pub(crate) fn without_ptrace(folder: &Path) -> PathBuf {
    compile("tests/support/without_ptrace.c", folder, &[])
}

fn compile(source: &str, folder: &Path, more: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let output = folder.join(source.with_extension("").file_name().unwrap());
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(&compiler)
        .args(["-O1", "-Wall", "-Wextra", "-Werror"])
        .args(more)
        .arg("-o")
        .args([&output, &source])
        .status();
    assert!(status.unwrap().success(), "{compiler} {}", source.display());
    output
}
