//! Helm, and the chart that it renders.

use std::{
    io,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context, ensure};

/// Installs Helm where [`Helm::find`] looks for it.
pub const INSTALL_COMMAND: &str = "tests/install-tools helm";

/// The `helm` command, run in the repository.
#[derive(Debug, Clone)]
pub struct Helm {
    program: PathBuf,
    repository: PathBuf,
    chart: PathBuf,
}

impl Helm {
    /// Returns the Helm that [`INSTALL_COMMAND`] installs, or the one of this machine.
    #[must_use]
    pub fn find() -> Option<Self> {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let installed = repository.join("target/tools/bin/helm");
        let runs = |program: &PathBuf| {
            let version = Command::new(program).arg("version").output();
            version.is_ok_and(|output| output.status.success())
        };
        let program = [installed, PathBuf::from("helm")].into_iter().find(runs)?;
        Some(Self {
            program,
            repository,
            chart: PathBuf::from("deploy/chart"),
        })
    }

    /// Renders another chart than that of the repository.
    #[must_use]
    pub fn with_chart(mut self, chart: PathBuf) -> Self {
        self.chart = chart;
        self
    }

    /// Runs a command that needs no cluster.
    ///
    /// # Errors
    /// Helm cannot be started.
    pub fn run(&self, arguments: &[&str]) -> io::Result<Output> {
        self.command(arguments)
            // A kubeconfig of this machine must not matter.
            .env("KUBECONFIG", "there-is-no-cluster")
            .output()
    }

    /// Builds a command for a cluster, which the caller adds.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(&self.repository);
        command
    }

    /// Renders the chart for a release in a namespace, without the objects of `helm test`.
    ///
    /// # Errors
    /// Like [`Self::run`].
    pub fn template(&self, (release, namespace): (&str, &str), further: &[&str]) -> io::Result<Output> {
        let chart = self.chart.to_str();
        let chart = chart.ok_or_else(|| io::Error::other("the path of the chart is not valid UTF-8"))?;
        let mut arguments = vec!["template", release, chart];
        arguments.extend(["--namespace", namespace, "--skip-tests"]);
        arguments.extend(further);
        self.run(&arguments)
    }

    /// Renders a whole installation, including its Namespace, with the values of all files.
    ///
    /// # Errors
    /// Like [`Self::run`], and values that the chart refuses.
    pub fn installation(&self, namespace: &str, values: &[&Path]) -> anyhow::Result<String> {
        let mut further = vec!["--set", "createNamespace=true"];
        for path in values {
            let path = path
                .to_str()
                .with_context(|| format!("{} is not valid UTF-8", path.display()))?;
            further.extend(["--values", path]);
        }
        let output = self
            .template(("parallax", namespace), &further)
            .with_context(|| format!("starting {}", self.program.display()))?;
        ensure!(
            output.status.success(),
            "helm template: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).context("the rendered chart is not valid UTF-8")
    }
}
