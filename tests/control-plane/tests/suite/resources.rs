//! Targets and Runs as users see them: validated on creation, with a status, and usable with `kubectl wait`.

mod permissions;

use std::fs;

use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use parallax_control_plane::{ControlPlane, Manifest, TokenHolder};
use reqwest::StatusCode;
use serde_json::{Value, json};

use self::permissions::user_token;
pub(crate) use self::permissions::{bound_token, use_every_right};
use crate::{
    discovery::{BALANCER, SmallMesh},
    lock,
    objects::create,
    parallax::{InstalledAggregator, overlay, until},
    plane,
    web::WebServer,
};

/// Namespace of the test's objects.
const NAMESPACE: &str = "shop";

/// Returns the API of a Parallax kind.
fn parallax_api(client: &Client, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("parallax.dev", "v1alpha1", kind);
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind))
}

fn written(kind: &str, namespace: &str, name: &str, spec: &Value) -> DynamicObject {
    serde_json::from_value(
        json!({"apiVersion": "parallax.dev/v1alpha1", "kind": kind, "spec": spec,
        "metadata": {"name": name, "namespace": namespace}}),
    )
    .unwrap()
}

async fn put(client: &Client, kind: &str, namespace: &str, name: &str, spec: Value) {
    let object = written(kind, namespace, name, &spec);
    parallax_api(client, kind, namespace)
        .create(&PostParams::default(), &object)
        .await
        .unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
}

/// Waits until an object has a condition, and returns it.
async fn condition(api: &Api<DynamicObject>, name: &str, (sort, status): (&str, &str)) -> Value {
    until(&format!("{name} is {sort}={status}"), async || {
        let object = api.get(name).await.unwrap();
        let conditions = object.data["status"]["conditions"].as_array()?.clone();
        conditions
            .into_iter()
            .find(|condition| condition["type"] == sort && condition["status"] == status)
    })
    .await
}

/// Waits until the kinds are established, a moment after their definitions are created.
async fn defined(client: &Client) {
    for kind in ["Target", "Run"] {
        let api = parallax_api(client, kind, "default");
        until(&format!("{kind} is known"), async || {
            api.list(&ListParams::default()).await.ok()
        })
        .await;
    }
}

/// Asserts that the API server rejects invalid objects with the given message.
async fn check_validation(client: &Client) {
    let url = "http://a.example.test/";
    for (kind, spec, words) in [
        (
            "Target",
            json!({"url": "ftp://a.example.test/"}),
            "url: expected http://",
        ),
        ("Target", json!({"url": 7}), "spec.url"),
        ("Target", json!({}), "spec.url"),
        (
            "Target",
            json!({"url": url, "intervalMs": 10}),
            "intervalMs: expected 200 to 3600000",
        ),
        (
            "Target",
            json!({"url": url, "timeoutMs": 70_000}),
            "timeoutMs: expected 50 to 60000",
        ),
        (
            "Target",
            json!({"url": url, "body": "x"}),
            "body: only a POST has one",
        ),
        (
            "Target",
            json!({"url": url, "expectTls": {"daysLeft": 3}}),
            "expectTls: only for https and tls targets",
        ),
        (
            "Run",
            json!({"url": url, "rounds": 0}),
            "rounds: expected 1 to 20",
        ),
        ("Run", json!({"url": "meshes"}), "dns://name or mesh"),
        (
            "Run",
            json!({"url": url, "from": "the moon"}),
            "from: expected all, nodes, zones or outside",
        ),
    ] {
        let refused = parallax_api(client, kind, NAMESPACE)
            .create(&PostParams::default(), &written(kind, NAMESPACE, "bad", &spec))
            .await
            .unwrap_err();
        let kube::Error::Api(status) = refused else {
            panic!("{spec}: {refused}");
        };
        assert_eq!(status.code, 422, "{spec}: {status}");
        assert!(status.message.contains(words), "{spec}: {status}");
    }
    // Strict validation detects a misspelt field.
    let typo = written(
        "Target",
        NAMESPACE,
        "typo",
        &json!({"url": url, "expectBdy": "x"}),
    );
    let refused = Manifest::from_objects(vec![typo])
        .apply(client)
        .await
        .unwrap_err();
    assert!(format!("{refused:#}").contains("expectBdy"), "{refused:#}");
}

/// Returns the columns of `kubectl get` for a kind, and the row of one object.
async fn printed(client: &Client, plural: &str, name: &str) -> (Vec<String>, Vec<Value>) {
    let request = http::Request::get(format!(
        "/apis/parallax.dev/v1alpha1/namespaces/{NAMESPACE}/{plural}/{name}"
    ))
    .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
    .body(Vec::new())
    .unwrap();
    let table: Value = client.request(request).await.unwrap();
    let columns = table["columnDefinitions"].as_array().unwrap();
    let names = columns
        .iter()
        .map(|column| column["name"].as_str().unwrap().to_owned());
    let row = table["rows"][0]["cells"].as_array().unwrap().clone();
    (names.collect(), row)
}

#[tokio::test]
async fn what_cannot_be_is_refused_a_target_says_whether_it_is_probed_and_a_run_ends_in_passed() {
    let _turn = lock().await;
    let Some(plane) = plane("Targets and Runs").await else {
        return;
    };
    let client = plane.admin().await.unwrap();
    // Everything is on this machine, which only an operator may allow as a target.
    let allow = format!(
        "runs: {{allow: [127.0.0.0/8]}}\ntenants: {{namespaces: {{{NAMESPACE}: {{anyProbe: true, allow: [127.0.0.0/8]}}}}}}\n"
    );
    let Some(installation) = overlay("Targets and Runs", "custom-resources") else {
        return;
    };
    let mesh = SmallMesh::with_installation(&plane, &client, &installation, &allow).await;
    defined(&client).await;
    check_validation(&client).await;

    let web = WebServer::at(BALANCER).await;
    let port = web.address.port();
    let url = format!("http://pay.example.test:{port}/");
    let targets = parallax_api(&client, "Target", NAMESPACE);
    let good = json!({"url": url, "expectStatus": "2xx", "intervalMs": 500});
    put(&client, "Target", NAMESPACE, "pay", good).await;
    // Nothing listens there.
    let down = json!({"url": "http://down.example.test:1/"});
    put(&client, "Target", NAMESPACE, "down", down).await;
    for (name, spec, reason) in [
        (
            "status",
            json!({"url": "http://x.example.test/", "expectStatus": "fine"}),
            "Invalid",
        ),
        ("metadata", json!({"url": "http://169.254.169.254/"}), "Forbidden"),
        // If both are created within the same second, the first by name counts as the older one.
        ("pay-again", json!({"url": url}), "Duplicate"),
    ] {
        put(&client, "Target", NAMESPACE, name, spec).await;
        let status_condition = condition(&targets, name, ("Accepted", "False")).await;
        assert_eq!(status_condition["reason"], reason, "{status_condition}");
    }
    let status_condition = condition(&targets, "pay", ("Accepted", "True")).await;
    assert_eq!(
        (
            &status_condition["reason"],
            &status_condition["observedGeneration"]
        ),
        (&json!("Probed"), &json!(1))
    );
    let (columns, row) = printed(&client, "targets", "pay").await;
    assert_eq!(columns, ["Name", "URL", "Accepted", "Reason", "Age"]);
    assert_eq!(
        row[..4],
        [json!("pay"), json!(url), json!("True"), json!("Probed")]
    );

    run(&client, &url).await;

    // A user with a token of the cluster: the API server decides whether it is allowed.
    let (status, status_condition) = mesh
        .aggregator
        .request_run(&user_token(&client, "sre", true).await, &url)
        .await;
    assert!(status.is_success(), "{status} {status_condition}");
    let (status, status_condition) = mesh
        .aggregator
        .request_run(&user_token(&client, "passer-by", false).await, &url)
        .await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{status_condition}");
    assert!(
        status_condition.contains("may not create runs.parallax.dev"),
        "{status_condition}"
    );

    wait_with_kubectl(&plane, &url).await;
}

/// A run that passes, cannot be changed and is kept, and one that fails and is deleted.
async fn run(client: &Client, url: &str) {
    let runs = parallax_api(client, "Run", NAMESPACE);
    put(
        client,
        "Run",
        NAMESPACE,
        "works",
        json!({"url": url, "from": "nodes"}),
    )
    .await;
    condition(&runs, "works", ("Passed", "True")).await;
    let status = runs.get("works").await.unwrap().data["status"].clone();
    let from: Vec<&Value> = status["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| &result["vantage"])
        .collect();
    assert_eq!(from, ["n1/pod", "n2/pod"], "{status}");
    let (columns, row) = printed(client, "runs", "works").await;
    assert_eq!(columns, ["Name", "URL", "Passed", "Message", "Age"]);
    assert_eq!(row[2], "True");
    let other = Patch::Merge(json!({"spec": {"rounds": 5}}));
    let refused = runs.patch("works", &PatchParams::default(), &other).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("spec is immutable"), "{refused}");

    // The network between the nodes.
    put(
        client,
        "Run",
        NAMESPACE,
        "mesh",
        json!({"url": "mesh", "rounds": 1}),
    )
    .await;
    condition(&runs, "mesh", ("Complete", "True")).await;

    let failing = json!({"url": "http://down.example.test:1/", "rounds": 1, "ttlSecondsAfterFinished": 3});
    put(client, "Run", NAMESPACE, "fails", failing).await;
    condition(&runs, "fails", ("Passed", "False")).await;
    until("finished objects are removed", async || {
        runs.get_opt("fails").await.unwrap().is_none().then_some(())
    })
    .await;
}

/// As in docs/use/custom-resources.md.
async fn wait_with_kubectl(plane: &ControlPlane, url: &str) {
    let Some(kubectl) = plane.kubectl("waiting for a Run with kubectl").unwrap() else {
        return;
    };
    let path = plane.folder().join("run.yaml");
    fs::write(
        &path,
        format!(
            "apiVersion: parallax.dev/v1alpha1\nkind: Run\nmetadata: {{name: after-deploy, namespace: {NAMESPACE}}}\n\
             spec: {{url: '{url}', from: nodes}}\n"
        ),
    )
    .unwrap();
    kubectl.run_on(&["apply", "-f"], &path).await.unwrap();
    kubectl
        .run(&[
            "wait",
            "--for=condition=Passed",
            "run/after-deploy",
            "--timeout=60s",
            "--namespace",
            NAMESPACE,
        ])
        .await
        .unwrap();
    let listed = kubectl
        .run(&["get", "parallax", "--namespace", NAMESPACE])
        .await
        .unwrap();
    for name in ["run.parallax.dev/after-deploy", "target.parallax.dev/pay"] {
        assert!(listed.contains(name), "{listed}");
    }
}
