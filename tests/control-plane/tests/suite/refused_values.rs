//! The API server refuses values that the schema of the chart cannot express, and names the field.

use std::{fs, path::Path};

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use parallax_control_plane::Kubectl;
use parallax_test_support::helm::Helm;
use serde_json::json;

use crate::{lock, objects::create, parallax::helm, plane};

const TEST: &str = "values that only the API server refuses";

/// Values that Helm accepts, the object that the API server refuses, and the field and the reason that it gives. `LONG` stands
/// for a domain of 255 characters.
const REFUSED: [(&str, &str, &[&str]); 6] = [
    (
        "prober: {resources: {requests: {memory: 1Gi}}}",
        "parallax-prober",
        &[
            "resources.requests",
            "must be less than or equal to memory limit of 128Mi",
        ],
    ),
    (
        "aggregator: {resources: {requests: {cpu: 3}, limits: {cpu: 2500m}}}",
        "parallax-aggregator",
        &[
            "resources.requests",
            "must be less than or equal to cpu limit of 2500m",
        ],
    ),
    (
        "prober: {tolerations: [{key: 'not a key', operator: Exists}]}",
        "parallax-prober",
        &["tolerations[0].key", "not a key"],
    ),
    (
        "aggregator: {tolerations: [{key: a, value: 'not a value'}]}",
        "parallax-aggregator",
        &["tolerations[0]", "not a value"],
    ),
    (
        "externalHosts: [a.example.com]\nexternalService: {loadBalancerSourceRanges: [192.0.2.256/24]}",
        "parallax-outside",
        &["oadBalancerSourceRanges", "192.0.2.256/24"],
    ),
    (
        "prober: {nodeSelector: {LONG/key: a}}",
        "parallax-prober",
        &["nodeSelector", "prefix part must be no more than 253"],
    ),
];

/// Sends what the chart renders with some values to the API server, which stores nothing of it.
async fn dry_run(helm: &Helm, kubectl: &Kubectl, folder: &Path, values: &str) -> anyhow::Result<String> {
    let path = folder.join("refused-values.yaml");
    fs::write(&path, values)?;
    let rendered = helm.installation("parallax", &[&path])?;
    let path = folder.join("refused.yaml");
    fs::write(&path, rendered)?;
    kubectl.run_on(&["apply", "--dry-run=server", "-f"], &path).await
}

#[tokio::test]
async fn the_api_server_refuses_what_the_schema_of_the_chart_cannot_express() {
    let _turn = lock().await;
    let Some(plane) = plane(TEST).await else {
        return;
    };
    let (Some(helm), Some(kubectl)) = (helm(TEST), plane.kubectl(TEST).unwrap()) else {
        return;
    };
    // A dry run creates no namespace for the objects in it.
    let namespaces = Api::<Namespace>::all(plane.admin().await.unwrap());
    create(&namespaces, json!({"metadata": {"name": "parallax"}})).await;

    let accepted = dry_run(&helm, &kubectl, plane.folder(), "{}").await.unwrap();
    assert!(
        accepted.contains("daemonset.apps/parallax-prober created (server dry run)"),
        "{accepted}"
    );
    let long = ["a".repeat(63).as_str(); 4].join(".");
    for (values, object, reasons) in REFUSED {
        let refused = dry_run(&helm, &kubectl, plane.folder(), &values.replace("LONG", &long)).await;
        let message = format!("{:#}", refused.expect_err(values));
        for word in [&[object], reasons].concat() {
            assert!(message.contains(word), "{values}: {word} is not in {message}");
        }
        assert!(message.contains("is invalid"), "{values}: {message}");
    }
}
