//! Parallax as users install it: the chart, rendered by Helm and passed to `kubectl apply`.

use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, ensure};
use k8s_openapi::api::{core::v1::Namespace, storage::v1::StorageClass};
use kube::{Api, ResourceExt, api::ListParams};
use parallax_test_support::helm::{Helm, INSTALL_COMMAND};
use serde_json::{Value, json};
use tokio::{task::spawn_blocking, time::sleep};

use super::SUITE_LABEL;
use crate::{
    cluster::{Cluster, HookResult},
    step::{ImageSelection, Installation},
};

/// Namespace of the installation.
pub const NAMESPACE: &str = "parallax";
/// The second namespace, of the overlay `host-vantage`.
const HOST_NAMESPACE: &str = "parallax-host";
/// The volume of an installation with a store.
const VOLUME: &str = "parallax-real-cluster";

/// Installs Parallax in the cluster.
#[derive(Debug)]
pub struct ParallaxInstallation {
    /// The product's binary for this machine.
    pub binary: PathBuf,
    /// Its images.
    pub images: ProductImages,
    /// Directory for manifests.
    pub folder: PathBuf,
    /// The installation that is applied now.
    applied: RefCell<Option<AppliedInstallation>>,
}

/// The images of the product.
#[derive(Debug, Clone)]
pub struct ProductImages {
    /// Name of the image that is tested.
    pub tested: String,
    /// Another name of the same image; absent if the image comes from a registry.
    pub renamed: Option<String>,
    /// The previous version.
    pub previous: Option<PreviousVersion>,
}

/// A version from which users upgrade.
#[derive(Debug, Clone)]
pub struct PreviousVersion {
    /// Name of its image.
    pub image: String,
    /// Its chart.
    pub chart: PathBuf,
}

impl ProductImages {
    /// Only the image that is tested.
    #[must_use]
    pub const fn tested(image: String) -> Self {
        Self {
            tested: image,
            renamed: None,
            previous: None,
        }
    }
}

/// An applied installation.
#[derive(Debug, Clone, PartialEq)]
struct AppliedInstallation {
    values: Value,
    objects: Vec<ObjectName>,
}

/// An object by kind and name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ObjectName {
    kind: String,
    namespace: Option<String>,
    name: String,
}

impl ParallaxInstallation {
    /// Creates an installer; nothing is applied yet.
    #[must_use]
    pub const fn new(binary: PathBuf, images: ProductImages, folder: PathBuf) -> Self {
        Self {
            binary,
            images,
            folder,
            applied: RefCell::new(None),
        }
    }

    /// Returns the values of an installation, and its chart; absent for that of this workspace.
    ///
    /// # Errors
    /// [`MissingComponent`] if there is no such image.
    pub(super) fn values(
        &self,
        kind: Installation,
        more: &Value,
        selection: ImageSelection,
    ) -> anyhow::Result<(Value, Option<&Path>)> {
        let missing = |component: &str| MissingComponent(component.to_owned());
        let images = &self.images;
        let (image, chart) = match selection {
            ImageSelection::Tested => (&images.tested, None),
            ImageSelection::Renamed => {
                let renamed = images.renamed.as_ref();
                (renamed.ok_or_else(|| missing("another name of the image"))?, None)
            }
            ImageSelection::Previous => {
                let previous = images.previous.as_ref();
                let previous = previous
                    .ok_or_else(|| missing("the previous version: set PARALLAX_REAL_CLUSTER_PREVIOUS"))?;
                (&previous.image, Some(previous.chart.as_path()))
            }
        };
        let mut values = json!({"image": image_values(image)});
        match kind {
            Installation::Plain => {}
            Installation::Store => values["aggregator"] = json!({"volume": {"size": "1Gi"}}),
            Installation::Two => values["aggregator"] = json!({"replicas": 2}),
        }
        merge(&mut values, more);
        Ok((values, chart))
    }

    /// Applies an installation over the current one, deletes objects that belong only to the previous one, and waits
    /// until all Pods are rolled out.
    ///
    /// # Errors
    /// Rejected values, rejected objects, or a rollout that does not complete; [`MissingComponent`] if there is no such image.
    pub async fn apply(
        &self,
        cluster: &Cluster,
        kind: Installation,
        more: &Value,
        selection: ImageSelection,
    ) -> anyhow::Result<()> {
        let (values, chart) = self.values(kind, more, selection)?;
        let text = self.manifests(&values, chart).await?;
        let objects = objects(&text)?;
        let path = self.folder.join("install.yaml");
        fs::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
        let path = path.to_str().context("the directory's path is not valid UTF-8")?;
        cluster.kubectl.run(&["apply", "-f", path]).await?;
        let former = self.applied.replace(Some(AppliedInstallation {
            values,
            objects: objects.clone(),
        }));
        let former = former.map(|former| former.objects).unwrap_or_default();
        for object in former.iter().rev().filter(|object| !objects.contains(object)) {
            delete(cluster, object).await?;
        }
        for namespace in [NAMESPACE, HOST_NAMESPACE] {
            if objects
                .iter()
                .any(|object| object.kind == "Namespace" && object.name == namespace)
            {
                let mark = format!("{SUITE_LABEL}=true");
                cluster
                    .kubectl
                    .run(&["label", "namespace", namespace, &mark, "--overwrite"])
                    .await?;
                cluster.pods.include_namespace(namespace);
            }
        }
        for object in &objects {
            if matches!(object.kind.as_str(), "Deployment" | "DaemonSet") {
                let namespace = object.namespace.as_deref().unwrap_or(NAMESPACE);
                let workload = format!("{}/{}", object.kind.to_lowercase(), object.name);
                cluster
                    .kubectl
                    .run(&["-n", namespace, "rollout", "status", &workload, "--timeout=180s"])
                    .await?;
            }
        }
        Ok(())
    }

    /// Removes what is left of an earlier run or of this one, and applies an installation to a clean cluster.
    ///
    /// # Errors
    /// Like [`Self::apply`]; an installation that this suite did not create; [`MissingComponent`] if a store has no volume.
    pub async fn install(&self, cluster: &Cluster, kind: Installation) -> anyhow::Result<()> {
        self.remove(cluster).await?;
        if kind == Installation::Store {
            volume(cluster).await?;
        }
        self.apply(cluster, kind, &json!({}), ImageSelection::Tested)
            .await
    }

    /// Removes the installation, whether it is a release of Helm or not.
    ///
    /// # Errors
    /// An installation that this suite did not create, or a release that Helm cannot uninstall.
    pub async fn remove(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let api = Api::<Namespace>::all(cluster.client.clone());
        let applied = self.applied.replace(None);
        for name in [NAMESPACE, HOST_NAMESPACE] {
            if let Some(found) = api.get_opt(name).await? {
                ensure!(
                    found.labels().contains_key(SUITE_LABEL),
                    "the namespace {name} already exists and was not created by this suite: delete it, or use another cluster"
                );
            }
        }
        if api.get_opt(NAMESPACE).await?.is_some() {
            self.uninstall_release(cluster).await?;
        }
        let text = self
            .manifests(&json!({"hostVantage": true, "aggregator": {"replicas": 2}}), None)
            .await?;
        let mut left = objects(&text)?;
        left.extend(applied.map(|applied| applied.objects).unwrap_or_default());
        let cluster_wide = left.iter().filter(|object| object.namespace.is_none());
        for object in cluster_wide {
            delete(cluster, object).await?;
        }
        for name in [NAMESPACE, HOST_NAMESPACE] {
            while api.get_opt(name).await?.is_some() {
                sleep(Duration::from_millis(500)).await;
            }
        }
        let volume = ["delete", "persistentvolume", VOLUME, "--ignore-not-found"];
        cluster.kubectl.run(&volume).await?;
        Ok(())
    }

    /// Returns the `PodMonitors` of the chart for the Prometheus operator.
    ///
    /// # Errors
    /// Rejected values.
    pub async fn pod_monitors(&self) -> anyhow::Result<Vec<Value>> {
        let text = self
            .manifests(
                &json!({"podMonitor": {}, "pageNamespaces": ["monitoring"], "hostVantage": true}),
                None,
            )
            .await?;
        let documents = serde_saphyr::from_multiple::<Value>(&text).context("parsing the manifests")?;
        Ok(documents
            .into_iter()
            .filter(|document| document["kind"] == "PodMonitor")
            .collect())
    }

    /// Renders the chart of this workspace, or another one.
    async fn manifests(&self, values: &Value, chart: Option<&Path>) -> anyhow::Result<String> {
        let path = self.folder.join("values.yaml");
        // JSON is YAML.
        fs::write(&path, values.to_string()).with_context(|| format!("writing {}", path.display()))?;
        let mut helm =
            Helm::find().with_context(|| format!("helm is missing; install it with: {INSTALL_COMMAND}"))?;
        if let Some(chart) = chart {
            helm = helm.with_chart(chart.to_owned());
        }
        // The observers of this thread measure times.
        spawn_blocking(move || helm.installation(NAMESPACE, &[&path]))
            .await
            .context("rendering the chart")?
    }
}

/// Splits the name of an image into the values of the chart.
fn image_values(image: &str) -> Value {
    let (name, digest) = image.split_once('@').unwrap_or((image, ""));
    let (registry, path) = match name.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => (host, path),
        _ => ("", name),
    };
    let (repository, tag) = path.split_once(':').unwrap_or((path, ""));
    json!({"registry": registry, "repository": repository, "tag": tag, "digest": digest})
}

/// A component that a step needs is missing in the cluster.
#[derive(Debug)]
pub struct MissingComponent(pub String);

impl std::fmt::Display for MissingComponent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MissingComponent {}

/// Provides a volume for the installation's claim: from the default `StorageClass`, or a directory created by the hook.
async fn volume(cluster: &Cluster) -> anyhow::Result<()> {
    let classes = Api::<StorageClass>::all(cluster.client.clone())
        .list(&ListParams::default())
        .await?;
    let default = "storageclass.kubernetes.io/is-default-class";
    if classes
        .items
        .iter()
        .any(|class| class.annotations().get(default).is_some_and(|is| is == "true"))
    {
        return Ok(());
    }
    let HookResult::Done(path) = cluster.hook.call(&["volume", VOLUME]).await? else {
        return Err(MissingComponent(
            "a volume: there is no default StorageClass, and the hook provides none".to_owned(),
        )
        .into());
    };
    let object = json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": VOLUME, "labels": {SUITE_LABEL: "true"}},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": path}, "claimRef": {"namespace": NAMESPACE, "name": "parallax-data"}}});
    cluster
        .kubectl
        .with_input(&["apply", "-f", "-"], &object.to_string())
        .await?;
    Ok(())
}

async fn delete(cluster: &Cluster, object: &ObjectName) -> anyhow::Result<()> {
    let mut arguments = vec![
        "delete",
        &object.kind,
        &object.name,
        "--ignore-not-found",
        "--wait=false",
    ];
    if let Some(namespace) = &object.namespace {
        arguments.extend(["-n", namespace]);
    }
    let output = cluster.kubectl.output(&arguments, "").await?;
    ensure!(
        output.success || output.stderr.contains("not found"),
        "kubectl {}: {}",
        arguments.join(" "),
        output.stderr.trim()
    );
    Ok(())
}

fn objects(text: &str) -> anyhow::Result<Vec<ObjectName>> {
    let documents = serde_saphyr::from_multiple::<Value>(text).context("parsing the manifests")?;
    let word = |value: &Value| value.as_str().map(ToOwned::to_owned);
    documents
        .iter()
        .map(|document| {
            Ok(ObjectName {
                kind: word(&document["kind"]).context("an object without a kind")?,
                namespace: word(&document["metadata"]["namespace"]),
                name: word(&document["metadata"]["name"]).context("an object without a name")?,
            })
        })
        .collect()
}

/// Merges one document over another.
fn merge(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                merge(under.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (under, over) => under.clone_from(over),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_step_lie_over_those_of_the_installation() {
        let mut values = json!({"intervalMs": 1000, "aggregator": {"replicas": 2}});
        merge(
            &mut values,
            &json!({"aggregator": {"resources": {}}, "intervalMs": 2000}),
        );
        let merged = json!({"aggregator": {"replicas": 2, "resources": {}}, "intervalMs": 2000});
        assert_eq!(values, merged);
        merge(&mut values, &Value::Null);
        assert_eq!(values, merged);
    }

    #[test]
    fn the_name_of_an_image_is_split_into_values_of_the_chart() {
        let values = |registry: &str, repository: &str, tag: &str, digest: &str| json!({"registry": registry, "repository": repository, "tag": tag, "digest": digest});
        for (image, expected) in [
            ("parallax:0.1.0", values("", "parallax", "0.1.0", "")),
            (
                "localhost:5000/net/parallax",
                values("localhost:5000", "net/parallax", "", ""),
            ),
            ("net/parallax:1", values("", "net/parallax", "1", "")),
            (
                "r.example.com/parallax:1@sha256:00",
                values("r.example.com", "parallax", "1", "sha256:00"),
            ),
        ] {
            assert_eq!(image_values(image), expected, "{image}");
        }
    }
}
