//! Parallax as a release of Helm.

use std::{fs, time::Duration};

use anyhow::{Context, ensure};
use parallax_test_support::helm::{Helm, INSTALL_COMMAND};
use serde_json::json;
use tokio::{process::Command, time::timeout};

use super::{NAMESPACE, ParallaxInstallation, SUITE_LABEL};
use crate::{
    cluster::{Cluster, Output},
    step::{HelmAction, Installation},
};

/// Name of the release.
pub(super) const RELEASE: &str = "parallax";
/// The chart of this workspace, in its folder.
const CHART: &str = "deploy/chart";
/// The Pod of `helm test`.
const TEST_POD: &str = "parallax-test-installation";
/// Timeout of a command; each has its own, shorter one.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(10);
/// How long `helm test` may take: the Pod itself waits for four minutes.
const TEST_TIMEOUT: &str = "7m";
/// How long the objects of a release may take to disappear.
const UNINSTALL_TIMEOUT: &str = "3m";

impl ParallaxInstallation {
    /// Runs a command of Helm for the release, and returns its result, whatever its exit code.
    ///
    /// # Errors
    /// Helm cannot run, or does not exit; [`super::MissingComponent`] if there is no such image.
    pub async fn helm(
        &self,
        cluster: &Cluster,
        kind: Installation,
        action: &HelmAction,
    ) -> anyhow::Result<Output> {
        let mut chart = CHART.to_owned();
        if let HelmAction::Install(install) | HelmAction::Upgrade(install) = action {
            let (values, other) = self.values(kind, &install.value(), install.image)?;
            let path = self.folder.join("release-values.yaml");
            // JSON is YAML.
            fs::write(&path, values.to_string()).with_context(|| format!("writing {}", path.display()))?;
            if let Some(other) = other {
                other
                    .to_str()
                    .context("the chart's path is not valid UTF-8")?
                    .clone_into(&mut chart);
            }
        }
        if let HelmAction::Install(_) = action {
            // `--create-namespace` accepts a namespace that exists. Without the label the suite would not remove it.
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": NAMESPACE, "labels": {SUITE_LABEL: "true"}}});
            cluster
                .kubectl
                .with_input(&["apply", "-f", "-"], &namespace.to_string())
                .await?;
            cluster.pods.include_namespace(NAMESPACE);
        }
        let values = self.folder.join("release-values.yaml");
        let values = values
            .to_str()
            .context("the directory's path is not valid UTF-8")?;
        let output = self.run_helm(cluster, &arguments(action, &chart, values)).await?;
        if matches!(action, HelmAction::Test) && !output.success {
            return self.with_test_log(cluster, output).await;
        }
        Ok(output)
    }

    /// Uninstalls the release, if there is one.
    ///
    /// # Errors
    /// Helm cannot run, or fails.
    pub(super) async fn uninstall_release(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let mut words = arguments(&HelmAction::Uninstall, CHART, "");
        words.push("--ignore-not-found");
        let output = self.run_helm(cluster, &words).await?;
        ensure!(output.success, "helm uninstall: {}", output.stderr.trim());
        Ok(())
    }

    /// Adds the output of the Pod of `helm test`, which names the checks that do not pass.
    async fn with_test_log(&self, cluster: &Cluster, output: Output) -> anyhow::Result<Output> {
        let log = ["-n", NAMESPACE, "logs", TEST_POD];
        let log = cluster.kubectl.output(&log, "").await?;
        Ok(Output {
            stderr: format!("{}\n{}{}", output.stderr.trim(), log.stdout, log.stderr),
            ..output
        })
    }

    async fn run_helm(&self, cluster: &Cluster, words: &[&str]) -> anyhow::Result<Output> {
        let helm =
            Helm::find().with_context(|| format!("helm is missing; install it with: {INSTALL_COMMAND}"))?;
        let mut command = Command::from(helm.command(words));
        command.env("KUBECONFIG", &cluster.kubeconfig);
        for folder in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(folder, self.folder.join("helm"));
        }
        let running = command.kill_on_drop(true).process_group(0).output();
        let output = timeout(COMMAND_TIMEOUT, running)
            .await
            .with_context(|| format!("helm {} did not exit within {COMMAND_TIMEOUT:?}", words[0]))?
            .with_context(|| format!("starting helm {}", words[0]))?;
        Ok(Output {
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}

/// Returns the command as a user types it, with the file of the values.
fn arguments<'a>(action: &HelmAction, chart: &'a str, values: &'a str) -> Vec<&'a str> {
    let words: &[&str] = match action {
        HelmAction::Install(_) => &[
            "install",
            RELEASE,
            chart,
            "--create-namespace",
            "--values",
            values,
        ],
        HelmAction::Upgrade(_) => &[
            "upgrade",
            RELEASE,
            chart,
            "--reset-then-reuse-values",
            "--values",
            values,
        ],
        HelmAction::Test => &["test", RELEASE, "--timeout", TEST_TIMEOUT],
        HelmAction::Rollback => &["rollback", RELEASE],
        HelmAction::Uninstall => &["uninstall", RELEASE, "--wait", "--timeout", UNINSTALL_TIMEOUT],
    };
    [words, &["--namespace", NAMESPACE]].concat()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::{
        install::{MissingComponent, PreviousVersion, ProductImages},
        step::{ImageSelection, InstallAction},
    };

    #[test]
    fn commands_are_those_of_the_documentation() {
        let install = InstallAction::default();
        let line = |action: HelmAction| arguments(&action, CHART, "v.yaml").join(" ");
        assert_eq!(
            line(HelmAction::Install(install.clone())),
            "install parallax deploy/chart --create-namespace --values v.yaml --namespace parallax"
        );
        assert_eq!(
            line(HelmAction::Upgrade(install)),
            "upgrade parallax deploy/chart --reset-then-reuse-values --values v.yaml --namespace parallax"
        );
        assert_eq!(
            line(HelmAction::Rollback),
            "rollback parallax --namespace parallax"
        );
        let page =
            fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/use/install.md"))
                .unwrap();
        for shown in [
            "helm install parallax deploy/chart --namespace parallax --create-namespace",
            "helm test parallax --namespace parallax",
            "helm upgrade parallax deploy/chart --namespace parallax --reset-then-reuse-values",
            "helm uninstall parallax --namespace parallax",
        ] {
            assert!(page.contains(shown), "{shown}");
        }
    }

    #[test]
    fn a_release_of_the_previous_version_has_its_image_and_chart() {
        let mut images = ProductImages::tested("localhost/parallax:1".to_owned());
        let installation =
            |images: ProductImages| ParallaxInstallation::new(PathBuf::new(), images, PathBuf::new());
        let more = json!({"customResources": true});
        let missing = installation(images.clone());
        let error = missing.values(Installation::Plain, &more, ImageSelection::Previous);
        assert!(error.unwrap_err().is::<MissingComponent>());
        images.previous = Some(PreviousVersion {
            image: "localhost/parallax:0".to_owned(),
            chart: PathBuf::from("/previous/chart"),
        });
        let present = installation(images);
        let (values, chart) = present
            .values(Installation::Plain, &more, ImageSelection::Previous)
            .unwrap();
        assert_eq!(chart, Some(PathBuf::from("/previous/chart").as_path()));
        assert_eq!(
            (&values["image"]["tag"], &values["customResources"]),
            (&json!("0"), &json!(true))
        );
        let (values, chart) = present
            .values(Installation::Two, &json!({}), ImageSelection::Tested)
            .unwrap();
        assert_eq!(
            (values["aggregator"]["replicas"].as_u64(), chart),
            (Some(2), None)
        );
    }
}
