//! A release of the chart: `helm install`, `upgrade`, `rollback` and `uninstall`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, Client};
use parallax_control_plane::{ControlPlane, Kubectl, Manifest};
use parallax_test_support::helm::Helm;
use serde_json::{Value, json};

use crate::{
    discovery::define_gateways,
    installation::{all, define_what_the_operator_has, wait_until_settled},
    lock,
    objects::create,
    parallax::{InstalledAggregator, helm, installed, until},
    plane,
};

const TEST: &str = "a release of the chart";

/// Values that differ from the defaults: together every value, except `createNamespace`, because `helm install` needs the
/// namespace before it creates objects.
const SETS: [&str; 2] = [
    include_str!("release/first.yaml"),
    include_str!("release/second.yaml"),
];

/// Helm with the release in a cluster.
struct Release {
    helm: Helm,
    kubectl: Kubectl,
    kubeconfig: PathBuf,
    folder: PathBuf,
}

impl Release {
    fn of(plane: &ControlPlane) -> Option<Self> {
        Some(Self {
            helm: helm(TEST)?,
            kubectl: plane.kubectl(TEST).unwrap()?,
            kubeconfig: plane.administrator_kubeconfig().unwrap(),
            folder: plane.folder().to_owned(),
        })
    }

    /// Runs a command of Helm for the release.
    async fn run(&self, words: &[&str]) {
        let release = ["--namespace", "parallax"];
        let mut command = self.helm.command(&[words, &release].concat());
        command.env("KUBECONFIG", &self.kubeconfig);
        for folder in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(folder, self.folder.join("helm"));
        }
        let output = tokio::task::spawn_blocking(move || command.output().unwrap())
            .await
            .unwrap();
        assert!(
            output.status.success(),
            "helm {words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn values(&self, text: &str) -> PathBuf {
        let path = self.folder.join("release-values.yaml");
        fs::write(&path, text).unwrap();
        path
    }

    /// Asserts that the cluster has what the chart renders with these values.
    async fn assert_applied(&self, values: &Path) -> Manifest {
        let output = self
            .helm
            .template(("parallax", "parallax"), &["--values", values.to_str().unwrap()])
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let rendered = String::from_utf8(output.stdout).unwrap();
        let path = self.folder.join("rendered.yaml");
        fs::write(&path, &rendered).unwrap();
        // Exit code 1 if an apply would change something. Lists and structures that are applied as a whole are in conflict
        // with their defaults, which is no change.
        let diff = ["diff", "--server-side", "--force-conflicts", "-f"];
        self.kubectl.run_on(&diff, &path).await.unwrap();
        Manifest::read(&rendered).unwrap()
    }
}

/// Returns what an installation consists of, without what the API server and Helm record about each write.
async fn contents(kubectl: &Kubectl, manifest: &Manifest) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for object in manifest.objects() {
        let types = object.types.as_ref().unwrap();
        let name = object.metadata.name.as_deref().unwrap();
        let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
        let kind = match types.api_version.split_once('/') {
            Some((group, version)) => format!("{}.{version}.{group}", types.kind),
            None => types.kind.clone(),
        };
        let printed = kubectl
            .run(&["get", &kind, name, "-n", namespace, "-o", "json"])
            .await
            .unwrap();
        let mut live: Value = serde_json::from_str(&printed).unwrap();
        let metadata = json!({"labels": live["metadata"]["labels"]});
        let fields = live.as_object_mut().unwrap();
        fields.remove("status");
        fields.insert("metadata".to_owned(), metadata);
        found.insert(format!("{kind} {namespace}/{name}"), live);
    }
    found
}

/// Returns the CA that the aggregator has published.
async fn authority(client: &Client) -> Option<String> {
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "parallax");
    maps.get("parallax-ca").await.unwrap().data?.remove("ca.crt")
}

#[test]
fn every_value_is_changed_by_one_of_the_upgrades() {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/chart");
    let schema: Value = serde_json::from_slice(&fs::read(chart.join("values.schema.json")).unwrap()).unwrap();
    let defaults: Value =
        serde_saphyr::from_str(&fs::read_to_string(chart.join("values.yaml")).unwrap()).unwrap();
    let sets = SETS.map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
    let keys = |schema: &Value| -> Vec<String> {
        let properties = schema["properties"].as_object().unwrap();
        properties.keys().cloned().collect()
    };
    let refused = |property: &Value| {
        let description = property["description"].as_str();
        description.is_some_and(|text| text.starts_with("Refused: "))
    };
    let changed = |pointer: &str| {
        sets.iter().any(|set| {
            let value = set.pointer(pointer);
            value.is_some() && value != defaults.pointer(pointer)
        })
    };
    let mut unchanged = BTreeSet::new();
    for key in keys(&schema) {
        let pointers: Vec<String> = match schema["properties"][&key]["properties"].as_object() {
            Some(inner) => inner
                .iter()
                .filter(|(_, property)| !refused(property))
                .map(|(inner, _)| format!("/{key}/{inner}"))
                .collect(),
            None => vec![format!("/{key}")],
        };
        unchanged.extend(pointers.into_iter().filter(|pointer| !changed(pointer)));
    }
    // Helm defines `global` itself.
    assert_eq!(
        unchanged,
        BTreeSet::from(["/createNamespace".to_owned(), "/global".to_owned()])
    );
}

#[tokio::test]
async fn a_release_is_upgraded_with_every_value_rolled_back_and_uninstalled_without_leftovers() {
    let _turn = lock().await;
    let Some(plane) = plane(TEST).await else {
        return;
    };
    let Some(release) = Release::of(&plane) else {
        return;
    };
    let client = plane.admin().await.unwrap();
    if plane.has_controllers() {
        wait_until_settled(&client).await;
    }
    define_what_the_operator_has(&client).await;
    define_gateways(&client).await;
    for name in ["shop", "cert-manager"] {
        let namespaces = Api::<Namespace>::all(client.clone());
        create(&namespaces, json!({"metadata": {"name": name}})).await;
    }
    let before = all(&client).await;

    let install = ["install", "parallax", "deploy/chart", "--create-namespace"];
    release.run(&install).await;
    let defaults = release.values("{}");
    let manifest = release.assert_applied(&defaults).await;
    let first = contents(&release.kubectl, &manifest).await;
    let installed_objects = all(&client).await;

    let values = release.values(SETS[0]);
    let upgrade = [
        "upgrade",
        "parallax",
        "deploy/chart",
        "--reset-values",
        "--values",
    ];
    let upgrade = [&upgrade[..], &[values.to_str().unwrap()]].concat();
    release.run(&upgrade).await;
    release.assert_applied(&values).await;

    // One of the two aggregators writes the Lease and the CA at run time.
    let Some(pair) = installed(TEST, "aggregator: {replicas: 2}") else {
        return;
    };
    let aggregator = InstalledAggregator::with_name(&plane, &pair, ("parallax-a", "")).await;
    aggregator.published_ca(&client).await;
    until("the aggregator leads", async || {
        (aggregator.replica().await["role"] == "leads").then_some(())
    })
    .await;
    drop(aggregator);
    let published = authority(&client).await;
    assert!(published.is_some());

    release.values(SETS[1]);
    release.run(&upgrade).await;
    release.assert_applied(&values).await;
    assert_eq!(authority(&client).await, published, "an upgrade keeps the CA");

    release.run(&["rollback", "parallax", "1"]).await;
    release.assert_applied(&release.values("{}")).await;
    assert_eq!(authority(&client).await, published, "a rollback keeps the CA");
    for (name, mut object) in contents(&release.kubectl, &manifest).await {
        if name.ends_with("/parallax-ca") {
            object.as_object_mut().unwrap().remove("data");
        }
        assert_eq!(object, first[&name], "{name}");
    }

    if !plane.has_controllers() {
        ControlPlane::skip_without_controllers("leftovers of a release");
        return;
    }
    let lease = "Lease.coordination.k8s.io parallax/parallax-aggregator";
    // Helm's own records of the release.
    let of_release = |name: &&String| !name.contains("sh.helm.release");
    until("the rollback has removed everything else", async || {
        let left: BTreeSet<String> = all(&client).await.iter().filter(of_release).cloned().collect();
        let mut wanted: BTreeSet<String> = installed_objects.iter().filter(of_release).cloned().collect();
        wanted.insert(lease.to_owned());
        (left == wanted).then_some(())
    })
    .await;

    release.run(&["uninstall", "parallax"]).await;
    until("the release is uninstalled", async || {
        let left: BTreeSet<String> = all(&client).await.into_iter().collect();
        let known: BTreeSet<String> = before.iter().cloned().collect();
        let new: Vec<&str> = left.difference(&known).map(String::as_str).collect();
        let of_namespace = [
            "ConfigMap. parallax/kube-root-ca.crt",
            lease,
            "Namespace. /parallax",
            "ServiceAccount. parallax/default",
        ];
        new.iter().all(|name| of_namespace.contains(name)).then_some(())
    })
    .await;
    // As docs/use/install.md says.
    release
        .kubectl
        .run(&["delete", "namespace", "parallax"])
        .await
        .unwrap();
    until("nothing is left", async || {
        (all(&client).await == before).then_some(())
    })
    .await;
}
