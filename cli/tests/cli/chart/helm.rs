//! The `helm` command.

use std::{
    path::PathBuf,
    process::{Command, Output},
};

use parallax_skip::skip;

use crate::commands::{repository, text};

/// Helm, and the release that it renders.
pub(crate) struct Helm(PathBuf);

impl Helm {
    /// Returns the installed Helm. Without one, the test is reported as not run.
    pub(crate) fn installed(test: &str) -> Option<Self> {
        let installed = repository("target/tools/bin/helm");
        for command in [installed, PathBuf::from("helm")] {
            let version = Command::new(&command).arg("version").output();
            if version.is_ok_and(|output| output.status.success()) {
                return Some(Self(command));
            }
        }
        skip(
            test,
            "helm is not installed",
            "tests/install-tools helm && cargo test --workspace --locked --test cli chart",
        );
        None
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        Command::new(&self.0)
            .args(args)
            .current_dir(repository(""))
            // A kubeconfig of this machine must not matter.
            .env("KUBECONFIG", "there-is-no-cluster")
            .output()
            .unwrap()
    }

    /// Renders the chart for a release in a namespace, without the objects of its test.
    pub(crate) fn template(&self, (release, namespace): (&str, &str), further: &[&str]) -> Output {
        let mut args = vec!["template", release, "deploy/chart"];
        args.extend(["--namespace", namespace, "--skip-tests"]);
        args.extend(further);
        self.run(&args)
    }
}

/// Returns what a successful command printed.
pub(crate) fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}
