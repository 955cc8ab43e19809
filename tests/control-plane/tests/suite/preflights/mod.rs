//! Preflight objects as users see them, and the objects created for them, with a real API server: validation,
//! permissions, garbage collection.

mod one_namespace;
mod refused;
mod stand_in;
mod started;

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, Role},
};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams},
    core::GroupVersionKind,
};
use parallax_control_plane::{ControlPlane, Manifest};
use serde_json::{Value, json};

use self::{
    refused::{applies_the_documented_objects, refuses},
    stand_in::{FakeKubelet, LABEL},
    started::StartedController,
};
use crate::{
    discovery::{BALANCER, SmallMesh, define_gateways},
    lock,
    objects::{create, node, pod},
    parallax::{overlay, until},
    plane,
    rights::{permissions, right},
};

/// Namespace of the test's objects.
const NAMESPACE: &str = "shop";
/// The controller's account, as a user of the API server.
const CONTROLLER: &str = "system:serviceaccount:parallax:parallax-preflight";

fn preflights(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("parallax.dev", "v1alpha1", "Preflight");
    Api::namespaced_with(client.clone(), NAMESPACE, &ApiResource::from_gvk(&kind))
}

fn written(name: &str, spec: &Value) -> DynamicObject {
    let object = json!({"apiVersion": "parallax.dev/v1alpha1", "kind": "Preflight", "spec": spec,
        "metadata": {"name": name, "namespace": NAMESPACE}});
    serde_json::from_value(object).unwrap()
}

async fn put(client: &Client, name: &str, spec: Value) {
    preflights(client)
        .create(&PostParams::default(), &written(name, &spec))
        .await
        .unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// Waits until an object is finished; returns its condition Ready.
async fn ready(client: &Client, name: &str) -> Value {
    let api = preflights(client);
    until(&format!("{name} is finished"), async || {
        let status = api.get(name).await.unwrap().data["status"].clone();
        let conditions = status["conditions"].as_array()?.clone();
        let of = |sort: &str| {
            conditions
                .iter()
                .find(|condition| condition["type"] == sort)
                .cloned()
        };
        (of("Complete")?["status"] == "True").then(|| of("Ready").unwrap())
    })
    .await
}

/// Returns the existing objects of preflights.
async fn remaining_objects(client: &Client) -> Vec<String> {
    let mut left = Vec::new();
    for (group, version, kind) in [
        ("", "v1", "Pod"),
        ("", "v1", "Service"),
        ("networking.k8s.io", "v1", "Ingress"),
        ("gateway.networking.k8s.io", "v1", "HTTPRoute"),
    ] {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), NAMESPACE, &kind);
        let found = api.list(&ListParams::default().labels(LABEL)).await.unwrap();
        left.extend(
            found
                .into_iter()
                .map(|object| format!("{} {}", kind.kind, object.metadata.name.unwrap_or_default())),
        );
    }
    left
}

/// Creates cert-manager's kinds, its controller on n2, and the Issuers and Certificates of the test.
async fn with_cert_manager(plane: &ControlPlane, client: &Client) {
    for text in [include_str!("cert-manager.yaml"), include_str!("objects.yaml")] {
        Manifest::read(text).unwrap().apply_all(client).await;
    }
    let template = json!({"metadata": {"labels": {"app": "cert-manager"}},
        "spec": {"containers": [{"name": "controller", "image": "cert-manager:test"}]}});
    if !plane.has_controllers() {
        for namespace in [NAMESPACE, "cert-manager"] {
            let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
            create(&accounts, json!({"metadata": {"name": "default"}})).await;
        }
    }
    until("accounts exist", async || {
        for namespace in [NAMESPACE, "cert-manager"] {
            let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
            accounts.get_opt("default").await.unwrap()?;
        }
        Some(())
    })
    .await;
    let template = serde_json::from_value(template).unwrap();
    pod(
        client,
        "cert-manager",
        &template,
        ("cert-manager-1", "n2"),
        "192.0.2.40",
    )
    .await;
}

/// Applies objects; a definition is established only a moment after it is created.
trait ApplyAll {
    async fn apply_all(&self, client: &Client);
}

impl ApplyAll for Manifest {
    async fn apply_all(&self, client: &Client) {
        for object in self.objects() {
            let one = Self::from_objects(vec![object.clone()]);
            let name = object.metadata.name.clone().unwrap_or_default();
            until(&format!("{name} is applied"), async || {
                one.apply(client).await.ok()
            })
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preflight_is_answered_waited_for_and_collected_by_rights_that_are_all_needed() {
    let _turn = lock().await;
    let Some(plane) = plane("Preflights").await else {
        return;
    };
    let client = plane.admin().await.unwrap();
    let Some(installation) = overlay("Preflights", "preflight") else {
        return;
    };
    define_gateways(&client).await;
    // Everything is on this machine, on a port that no host is published on.
    let more = "runs: {targets: any, allow: [127.0.0.0/8]}\n";
    let mesh = SmallMesh::with_installation(&plane, &client, &installation, more).await;
    with_cert_manager(&plane, &client).await;
    refuses(&client).await;
    applies_the_documented_objects(&client).await;
    let stand_in = FakeKubelet::start(client.clone(), BALANCER).await;
    let started = StartedController::with(&plane, &client, &mesh, stand_in.entry.port()).await;

    // The command's own objects are accepted, respond, and are deleted.
    let words = [
        "cli.example.test",
        "--class",
        "public",
        "-n",
        NAMESPACE,
        "--profile",
        "pebble",
    ];
    let output = started.command(&words).await;
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("including n2, where cert-manager's Pod runs"),
        "{text}"
    );
    assert_eq!(remaining_objects(&client).await, Vec::<String>::new());

    let mut controller = started.start();
    for (name, spec) in [
        (
            "web",
            json!({"certificateRef": {"name": "web"}, "profile": "pebble"}),
        ),
        (
            "gate",
            json!({"hosts": ["gate.example.test"], "gatewayRef": {"name": "gate"}, "profile": "pebble"}),
        ),
        (
            "edge",
            json!({"ingressRef": {"name": "edge"}, "profile": "pebble"}),
        ),
    ] {
        put(&client, name, spec).await;
        let ready = ready(&client, name).await;
        // The plane has no vantage on the internet.
        assert_eq!(
            (&ready["status"], &ready["reason"]),
            (&json!("Unknown"), &json!("NoOutsideVantage")),
            "{name}: {ready}"
        );
    }
    let spec = json!({"hosts": ["of-cluster.example.test"], "issuerRef": {"name": "letsencrypt", "kind": "ClusterIssuer"},
        "profile": "pebble", "ttlSecondsAfterFinished": 1});
    put(&client, "of-cluster", spec).await;
    until("finished objects are removed", async || {
        preflights(&client)
            .get_opt("of-cluster")
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
    put(
        &client,
        "down",
        json!({"hosts": ["down.example.test"], "class": "public", "profile": "pebble", "readySeconds": 1}),
    )
    .await;
    let text = ready(&client, "down").await;
    assert_eq!(
        (&text["status"], &text["reason"]),
        (&json!("False"), &json!("BothFailed")),
        "{text}"
    );
    let status = preflights(&client).get("down").await.unwrap().data["status"].clone();
    assert_eq!(
        status["hosts"][0]["selfCheck"]["failureGroups"][0]["causes"][0]["id"], "F19",
        "{status}"
    );
    assert_eq!(remaining_objects(&client).await, Vec::<String>::new());
    wait_with_kubectl(&plane).await;
    controller.kill();
    check_forwarded_port(&client, &installation, &started).await;
    assert_rights(&plane, &installation);
    check_garbage_collection(&plane, &client, &started).await;
}

/// As in docs/use/preflight.md.
async fn wait_with_kubectl(plane: &ControlPlane) {
    let Some(kubectl) = plane.kubectl("waiting for a Preflight with kubectl").unwrap() else {
        return;
    };
    let failed = "--for=jsonpath={.status.conditions[?(@.type==\"Ready\")].status}=False";
    for (condition, name) in [
        ("--for=condition=SelfCheckPassed", "preflight/web"),
        (failed, "preflight/down"),
        ("--for=condition=Complete", "preflight/down"),
        ("--for=condition=Stalled", "preflight/down"),
    ] {
        let words = ["wait", condition, name, "-n", NAMESPACE, "--timeout=30s"];
        kubectl.run(&words).await.unwrap();
    }
    let listed = kubectl
        .run(&["get", "preflights", "-n", NAMESPACE])
        .await
        .unwrap();
    for column in ["NAME", "READY", "SELF CHECK", "CA", "REASON", "AGE"] {
        assert!(listed.contains(column), "{listed}");
    }
    let row = listed.lines().find(|line| line.starts_with("down")).unwrap();
    assert!(row.contains("False") && row.contains("BothFailed"), "{listed}");
}

/// As installed, the controller reaches the aggregator through the API server; there is no kubelet, so this fails at
/// the node.
async fn check_forwarded_port(client: &Client, installation: &Manifest, started: &StartedController<'_>) {
    node(client, "n3", "127.0.0.1", json!({}), json!([])).await;
    let deployment: Deployment = installation.object("Deployment", "parallax-aggregator").unwrap();
    let template = deployment.spec.unwrap().template;
    pod(client, "parallax", &template, ("aggregator-1", "n3"), "192.0.2.7").await;
    let controller = started.as_installed();
    let spec = json!({"hosts": ["forwarded.example.test"], "class": "public", "profile": "pebble"});
    put(client, "forwarded", spec).await;
    let status = until("the status gives the reason", async || {
        let status = preflights(client).get("forwarded").await.unwrap().data["status"].clone();
        let ready = status["conditions"][0].clone();
        (status["attempts"].as_u64()? > 0 && ready["status"] == "Unknown").then_some(ready)
    })
    .await;
    assert_eq!(status["reason"], "AggregatorUnreachable", "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("cannot forward a port of the Pod parallax/aggregator-1"),
        "{status}"
    );
    let gone = preflights(client)
        .delete("forwarded", &DeleteParams::default())
        .await;
    gone.unwrap();
    drop(controller);
}

/// The controller is killed midway, and the object is deleted before the next one starts.
async fn check_garbage_collection(plane: &ControlPlane, client: &Client, started: &StartedController<'_>) {
    let mut controller = started.start();
    let spec = json!({"hosts": ["stuck.example.test"], "class": "public", "profile": "pebble"});
    let made = async || {
        until("everything is created", async || {
            (remaining_objects(client).await.len() == 3).then_some(())
        })
        .await;
    };
    put(client, "stuck", spec.clone()).await;
    made().await;
    controller.kill();
    if plane.has_controllers() {
        preflights(client)
            .delete("stuck", &DeleteParams::default())
            .await
            .unwrap();
        until("its dependents are collected", async || {
            remaining_objects(client).await.is_empty().then_some(())
        })
        .await;
        put(client, "stuck", spec).await;
    } else {
        ControlPlane::skip_without_controllers("garbage collection of a Preflight");
    }
    // The next controller starts again, and deletes everything with the object.
    let next = started.start();
    made().await;
    preflights(client)
        .delete("stuck", &DeleteParams::default())
        .await
        .unwrap();
    until("nothing is left", async || {
        remaining_objects(client).await.is_empty().then_some(())
    })
    .await;
    drop(next);
}

/// Asserts that the controller was never denied a permission, and used each one that it has.
fn assert_rights(plane: &ControlPlane, installation: &Manifest) {
    let requests = plane.audited_requests().unwrap();
    let requests: Vec<_> = requests
        .iter()
        .filter(|request| request.user == CONTROLLER)
        .collect();
    let refused: Vec<_> = requests.iter().filter(|request| !request.allowed).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let names = [
        "parallax-preflight",
        "parallax-preflight-cluster",
        "parallax-preflight-seat",
    ];
    let cluster = names.map(|name| {
        installation
            .object::<ClusterRole>("ClusterRole", name)
            .unwrap()
            .rules
    });
    let own = ["parallax-preflight", "parallax-reach"]
        .map(|name| installation.object::<Role>("Role", name).unwrap().rules);
    let rules = cluster.into_iter().chain(own).flatten().flatten();
    let used: Vec<String> = requests
        .iter()
        .flat_map(|a| [a.name.as_str(), ""].map(|name| right(&a.verb, &a.resource, &a.group, name)))
        .collect();
    let idle: Vec<String> = permissions(rules)
        .into_iter()
        // The aggregator checks this one with a SubjectAccessReview.
        .filter(|granted| granted != "create runs.parallax.dev ")
        // A WebSocket starts with a GET, and either verb allows it; its response shows that it was allowed.
        .filter(|granted| !granted.contains("pods/portforward"))
        .filter(|granted| !used.contains(granted))
        .collect();
    assert!(idle.is_empty(), "granted and never used: {idle:#?}");
}
