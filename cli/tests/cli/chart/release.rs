//! The release: version, lint, images, and what `helm test` creates.

use std::{collections::BTreeSet, process::Command};

use serde_json::Value;

use super::{
    helm::{self, printed, with_values},
    installations::{list, workloads},
    objects, read,
};
use crate::commands::{repository, text};

#[test]
fn the_chart_is_in_order_and_its_version_is_that_of_the_binary() {
    let Some(helm) = helm::installed("the_chart_is_in_order_and_its_version_is_that_of_the_binary") else {
        return;
    };
    printed(&helm.run(&["lint", "--strict", "deploy/chart"]).unwrap());
    let chart = read("deploy/chart/Chart.yaml");
    let chart: Value = serde_saphyr::from_str(&chart).unwrap();
    for version in ["version", "appVersion"] {
        assert_eq!(chart[version], env!("CARGO_PKG_VERSION"), "{version}");
    }
}

#[test]
fn what_helm_test_creates_is_removed_by_it() {
    let Some(helm) = helm::installed("what_helm_test_creates_is_removed_by_it") else {
        return;
    };
    let test = "templates/tests/installation.yaml";
    let rendered = helm
        .run(&["template", "parallax", "deploy/chart", "--show-only", test])
        .unwrap();
    let rendered = objects(&printed(&rendered));
    assert!(
        rendered.keys().any(|(kind, ..)| kind == "Pod"),
        "{:?}",
        rendered.keys()
    );
    for (key, object) in rendered {
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations["helm.sh/hook"], "test", "{key:?}");
        let policy = annotations["helm.sh/hook-delete-policy"].as_str().unwrap();
        assert!(
            policy.contains("before-hook-creation") && policy.contains("hook-succeeded"),
            "{key:?}"
        );
    }
}

#[test]
fn every_pod_uses_the_image_of_the_values() {
    let Some(helm) = helm::installed("every_pod_uses_the_image_of_the_values") else {
        return;
    };
    let digest = format!("sha256:{}", "0a".repeat(32));
    for (image, expected) in [
        (
            "{}".to_owned(),
            format!("localhost/parallax:{}", env!("CARGO_PKG_VERSION")),
        ),
        ("{tag: dev}".to_owned(), "localhost/parallax:dev".to_owned()),
        (
            "{registry: '', repository: r.example.com/net/parallax, tag: '1'}".to_owned(),
            "r.example.com/net/parallax:1".to_owned(),
        ),
        (
            format!(
                "{{registry: 'r.example.com:5000', repository: net/parallax, tag: '1', digest: '{digest}'}}"
            ),
            format!("r.example.com:5000/net/parallax:1@{digest}"),
        ),
    ] {
        let values = format!("image: {image}\nhostVantage: true\nresponder: true\npreflight: {{}}");
        let all = with_values(&helm, "parallax", &values);
        let images: Vec<&Value> = workloads(&all)
            .flat_map(|workload| list(&workload["spec"]["template"]["spec"]["containers"]))
            .map(|container| &container["image"])
            .collect();
        assert_eq!(images.len(), 5, "{image}");
        let images: BTreeSet<&str> = images.into_iter().map(|image| image.as_str().unwrap()).collect();
        assert_eq!(images, BTreeSet::from([expected.as_str()]), "{image}");
    }
}

#[test]
fn chart_and_image_accept_the_same_registries() {
    let Some(helm) = helm::installed("chart_and_image_accept_the_same_registries") else {
        return;
    };
    for (registry, accepted) in [
        ("localhost", true),
        ("localhost:5000", true),
        ("registry:65535", true),
        ("registry.example.com", true),
        ("registry.example.com:5000", true),
        ("net", false),
        ("net/registry.example.com", false),
        ("net/registry:5000", false),
        ("registry:65536", false),
        ("registry.example.com:0", false),
        ("registry.example.com:port", false),
    ] {
        let value = format!("image.registry={registry}");
        let rendered = helm
            .template(("parallax", "parallax"), &["--set", &value])
            .unwrap();
        assert_eq!(
            rendered.status.success(),
            accepted,
            "{registry}: {}",
            text(&rendered.stderr)
        );
        // The name is checked first; an unknown architecture then ends the script before it builds.
        let output = Command::new(repository("deploy/build-image"))
            .args(["--tag", &format!("{registry}/parallax:1"), "--arch", "none"])
            .output()
            .unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{registry}: {message}");
        assert_eq!(message.starts_with("usage: "), accepted, "{registry}: {message}");
    }
}
