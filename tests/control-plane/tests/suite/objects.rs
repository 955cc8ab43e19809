//! Objects of a small cluster, as written by kubelets, users and controllers.

use k8s_openapi::api::core::v1::{Node, Pod, PodTemplateSpec};
use kube::{
    Api, Client, Resource,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use parallax_control_plane::Manifest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Loads the installation file.
pub(crate) fn installation() -> Manifest {
    Manifest::read(include_str!("../../../../deploy/install.yaml")).unwrap()
}

pub(crate) async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    let typed: K = serde_json::from_value(object.clone()).unwrap();
    api.create(&PostParams::default(), &typed)
        .await
        .unwrap_or_else(|error| panic!("creating {object}: {error}"))
}

/// Writes the status of an object as a kubelet or a controller would.
pub(crate) async fn write_status<K>(api: &Api<K>, name: &str, status: Value)
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    api.patch_status(
        name,
        &PatchParams::default(),
        &Patch::Merge(json!({"status": status})),
    )
    .await
    .unwrap_or_else(|error| panic!("the status of {name}: {error}"));
}

/// Creates a ready Linux node with additional labels and taints.
pub(crate) async fn node(client: &Client, name: &str, address: &str, labels: Value, taints: Value) {
    let api = Api::<Node>::all(client.clone());
    let mut all = json!({"kubernetes.io/os": "linux", "kubernetes.io/hostname": name});
    all.as_object_mut()
        .unwrap()
        .extend(labels.as_object().unwrap().clone());
    create(
        &api,
        json!({"metadata": {"name": name, "labels": all}, "spec": {"taints": taints}}),
    )
    .await;
    write_status(
        &api,
        name,
        json!({
            "conditions": [{"type": "Ready", "status": "True", "reason": "test", "message": "",
                            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "addresses": [{"type": "InternalIP", "address": address}],
        }),
    )
    .await;
}

/// Creates a Pod of a template that runs on a node at an address.
pub(crate) async fn pod(
    client: &Client,
    namespace: &str,
    template: &PodTemplateSpec,
    (name, node): (&str, &str),
    address: &str,
) -> Pod {
    let api = Api::<Pod>::namespaced(client.clone(), namespace);
    let mut template = serde_json::to_value(template).unwrap();
    template["metadata"]["name"] = json!(name);
    template["spec"]["nodeName"] = json!(node);
    let pod = create(&api, template).await;
    write_status(
        &api,
        name,
        json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
               "conditions": [{"type": "Ready", "status": "True"}]}),
    )
    .await;
    pod
}

/// Creates an EndpointSlice of a Service with one Pod on each node, as the controller would write it. The Pods
/// themselves do not exist.
pub(crate) async fn endpoint_slice(
    client: &Client,
    namespace: &str,
    service: &str,
    port: u16,
    endpoints: Value,
) {
    let slice: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": format!("{service}-1"), "namespace": namespace,
                     "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
        "endpoints": endpoints,
    }))
    .unwrap();
    Manifest::from_objects(vec![slice]).apply(client).await.unwrap();
}
