//! The installed Helm.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use parallax_skip::skip;
use parallax_test_support::helm::{Helm, INSTALL_COMMAND};

use super::{Objects, objects};
use crate::commands::{repository, text};

/// Returns the installed Helm. Without one, the test is reported as not run.
pub(super) fn installed(test: &str) -> Option<Helm> {
    let helm = Helm::find();
    if helm.is_none() {
        skip(
            test,
            "helm is not installed",
            &format!("{INSTALL_COMMAND} && cargo test --workspace --locked --test cli chart"),
        );
    }
    helm
}

/// Returns what a successful command printed.
pub(super) fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Renders a whole installation with the values next to overlays.
pub(super) fn with_values_of(helm: &Helm, overlays: &[&str]) -> String {
    let files: Vec<PathBuf> = overlays
        .iter()
        .map(|name| repository(&format!("deploy/overlays/{name}/values.yaml")))
        .collect();
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    helm.installation("parallax", &files).unwrap()
}

/// Renders a whole installation with given values.
pub(super) fn with_values(helm: &Helm, namespace: &str, values: &str) -> Objects {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("values.yaml");
    fs::write(&path, values).unwrap();
    let rendered = helm
        .installation(namespace, &[&path])
        .unwrap_or_else(|error| panic!("{values}: {error:#}"));
    objects(&rendered)
}
