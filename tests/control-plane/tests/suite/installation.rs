//! `kubectl apply -f deploy/install.yaml` and its deletion.

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::{Namespace, Node, Pod},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use parallax_control_plane::{ControlPlane, Manifest, everything};
use serde_json::{Value, json};

use crate::{
    lock,
    objects::{installation, node},
    parallax::{installed, overlay, overlay_folder, until},
    plane,
};

/// Reports whether a control plane creates and renews the object itself.
fn is_built_in(name: &str) -> bool {
    name.starts_with("Lease.coordination.k8s.io kube-")
}

pub(crate) async fn all(client: &Client) -> Vec<String> {
    let found = everything(client).await.unwrap();
    found.into_iter().filter(|name| !is_built_in(name)).collect()
}

/// Waits until the control plane's controllers have created their initial objects, before anything is counted.
pub(crate) async fn wait_until_settled(client: &Client) {
    until("the default account", async || {
        let found = all(client).await;
        let own = |name: &&str| found.iter().any(|known| known == name);
        let made = ["ServiceAccount. default/default", "Service. default/kubernetes"];
        made.iter().all(own).then_some(())
    })
    .await;
}

/// Sends the Pod of a template as its controller would, as a dry run.
async fn dry_run_pod(client: &Client, namespace: &str, template: Value) -> Result<Pod, kube::Error> {
    let mut pod = template;
    pod["metadata"]["name"] = json!("tried");
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let tried = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    Api::namespaced(client.clone(), namespace)
        .create(&tried, &pod)
        .await
}

#[tokio::test]
async fn the_installation_is_accepted_as_it_stands_its_pods_are_admitted_and_deleting_it_leaves_nothing() {
    let _turn = lock().await;
    let Some(mut plane) = plane("the installation").await else {
        return;
    };
    let client = plane.admin().await.unwrap();
    let linux = json!({});
    node(&client, "n1", "192.0.2.1", linux.clone(), json!([])).await;
    let taint = json!([{"key": "gpu", "value": "yes", "effect": "NoExecute"}]);
    node(&client, "n2", "192.0.2.2", linux, taint).await;
    node(
        &client,
        "virtual",
        "192.0.2.3",
        json!({"type": "virtual-kubelet"}),
        json!([]),
    )
    .await;
    node(
        &client,
        "windows",
        "192.0.2.4",
        json!({"kubernetes.io/os": "windows"}),
        json!([]),
    )
    .await;
    if plane.has_controllers() {
        wait_until_settled(&client).await;
    }
    let before = all(&client).await;

    let installation = installation();
    installation.apply(&client).await.unwrap();
    installation.apply(&client).await.expect("applying twice");

    let daemons: DaemonSet = installation.object("DaemonSet", "parallax-prober").unwrap();
    let deployment: Deployment = installation.object("Deployment", "parallax-aggregator").unwrap();
    for template in [daemons.spec.unwrap().template, deployment.spec.unwrap().template] {
        let template = serde_json::to_value(template).unwrap();
        dry_run_pod(&client, "parallax", template.clone()).await.unwrap();
        let mut privileged = template;
        privileged["spec"]["hostPID"] = json!(true);
        let refused = dry_run_pod(&client, "parallax", privileged).await.unwrap_err();
        assert!(
            refused.to_string().contains("violates PodSecurity \"restricted"),
            "{refused}"
        );
    }

    if !plane.has_controllers() {
        ControlPlane::skip_without_controllers("nodes of the DaemonSet and leftovers after deletion");
        return;
    }
    plane.follow_daemon_sets().unwrap();
    let pods = Api::<Pod>::namespaced(client.clone(), "parallax");
    let on = until("a prober on each Linux node", async || {
        let pods = pods.list(&kube::api::ListParams::default()).await.unwrap();
        (pods.items.len() >= 2).then(|| pods.items.iter().map(wanted_node).collect::<Vec<_>>())
    })
    .await;
    assert_eq!(
        {
            let mut on = on;
            on.sort();
            on
        },
        ["n1", "n2"],
        "tainted or not, but neither virtual nor Windows"
    );

    installation.delete(&client).await.unwrap();
    let namespaces = Api::<Namespace>::all(client.clone());
    until("the namespace is deleted", async || {
        namespaces
            .get_opt("parallax")
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
    until("nothing is left", async || {
        let left: Vec<String> = all(&client)
            .await
            .into_iter()
            .filter(|name| !before.contains(name))
            .collect();
        left.is_empty().then_some(())
    })
    .await;
    assert_eq!(all(&client).await, before);
    let nodes = Api::<Node>::all(client);
    nodes.delete("n1", &DeleteParams::default()).await.unwrap();
}

/// Returns the node that a DaemonSet's Pod is meant for; a scheduler would bind it.
fn wanted_node(pod: &Pod) -> String {
    let pod = serde_json::to_value(pod).unwrap();
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
    pod.pointer(terms)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Lists all overlays.
fn overlays() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(overlay_folder(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 5, "{names:?}");
    names
}

/// Defines `PodMonitor` and `PrometheusRule` as far as they are used here.
pub(crate) async fn define_what_the_operator_has(client: &Client) {
    let definitions = Manifest::read(include_str!("prometheus-operator.yaml")).unwrap();
    definitions.apply(client).await.unwrap();
    for kind in ["PodMonitor", "PrometheusRule"] {
        let known = GroupVersionKind::gvk("monitoring.coreos.com", "v1", kind);
        until(&format!("{kind} is known"), async || {
            kube::discovery::pinned_kind(client, &known).await.ok()
        })
        .await;
    }
}

#[tokio::test]
async fn every_overlay_is_accepted_and_its_pods_are_admitted() {
    let _turn = lock().await;
    let Some(plane) = plane("the overlays").await else {
        return;
    };
    let client = plane.admin().await.unwrap();
    define_what_the_operator_has(&client).await;
    for overlay_name in overlays() {
        let Some(manifest) = overlay("the overlays", &overlay_name) else {
            return;
        };
        assert_admitted(&client, &overlay_name, &manifest).await;
    }
}

/// Asserts that the API server accepts the objects and admits the Pods of their templates.
async fn assert_admitted(client: &Client, name: &str, manifest: &Manifest) {
    manifest
        .apply(client)
        .await
        .unwrap_or_else(|error| panic!("{name}: {error:#}"));
    for object in manifest.objects() {
        if let Some(template) = object.data.pointer("/spec/template") {
            let namespace = object.namespace().unwrap();
            let admitted = dry_run_pod(client, &namespace, template.clone()).await;
            admitted.unwrap_or_else(|error| panic!("{name}: {}: {error}", object.name_any()));
        }
    }
}

/// Pod Security `restricted` applies in the namespace, so Pods without ids must be admitted, too.
#[tokio::test]
async fn the_values_of_every_platform_are_accepted_and_their_pods_are_admitted() {
    let _turn = lock().await;
    let Some(plane) = plane("the platforms").await else {
        return;
    };
    let client = plane.admin().await.unwrap();
    let folder = overlay_folder("../chart/platforms");
    let mut accepted = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let values = std::fs::read_to_string(&path).unwrap();
        let Some(manifest) = installed("the platforms", &values) else {
            return;
        };
        assert_admitted(&client, &path.display().to_string(), &manifest).await;
        accepted += 1;
    }
    assert!(accepted > 0, "no values were found");
}

#[tokio::test]
async fn kubectl_installs_the_file_and_every_overlay_and_what_it_deletes_leaves_nothing() {
    let _turn = lock().await;
    let Some(plane) = plane("installing with kubectl").await else {
        return;
    };
    let Some(kubectl) = plane.kubectl("installing with kubectl").unwrap() else {
        return;
    };
    let client = plane.admin().await.unwrap();
    define_what_the_operator_has(&client).await;
    if plane.has_controllers() {
        wait_until_settled(&client).await;
    } else {
        ControlPlane::skip_without_controllers("leftovers after kubectl's deletion");
    }
    let file = overlay_folder("../install.yaml");
    let folders = overlays().into_iter().map(|name| overlay_folder(&name));
    let ways: Vec<_> = [("-f", file)]
        .into_iter()
        .chain(folders.map(|folder| ("-k", folder)))
        .collect();
    for (flag, path) in &ways {
        let before = all(&client).await;
        let made = kubectl.run_on(&["apply", flag], path).await.unwrap();
        assert!(made.contains("namespace/parallax created"), "{made}");
        // Exit code 1 if another apply would change something.
        kubectl.run_on(&["diff", flag], path).await.unwrap();
        kubectl.run_on(&["apply", flag], path).await.unwrap();
        let defined = made.contains("targets.parallax.dev created");
        if defined {
            target(&client).await;
        }
        if !plane.has_controllers() {
            continue;
        }
        kubectl.run_on(&["delete", flag], path).await.unwrap();
        until("nothing is left", async || {
            (all(&client).await == before).then_some(())
        })
        .await;
    }
}

/// Creates an object as a user would, once the kind is established.
async fn target(client: &Client) {
    let kind = GroupVersionKind::gvk("parallax.dev", "v1alpha1", "Target");
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&kind));
    let target: DynamicObject =
        serde_json::from_value(json!({"apiVersion": "parallax.dev/v1alpha1", "kind": "Target",
        "metadata": {"name": "pay"}, "spec": {"url": "http://pay.example.test/"}}))
        .unwrap();
    until("a Target is created", async || {
        api.create(&PostParams::default(), &target).await.ok()
    })
    .await;
}
