//! The objects of the chart are those of the generator.

use std::fs;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    cases,
    helm::{Helm, printed},
};
use crate::{
    commands::repository,
    manifests::{self, objects},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default = "parallax")]
    release: String,
    #[serde(default = "parallax")]
    namespace: String,
    values: String,
}

fn parallax() -> String {
    "parallax".to_owned()
}

/// Translates values of the chart into those of the generator.
fn generator_values(chart: &str, namespace: &str) -> Value {
    let mut values: Map<String, Value> = serde_saphyr::from_str(chart).unwrap();
    let mut image = Map::new();
    if let Some(Value::Object(given)) = values.remove("image") {
        image = given;
    }
    let part = |key: &str| {
        image
            .get(key)
            .and_then(Value::as_str)
            .filter(|part| !part.is_empty())
    };
    let registry = part("registry").map_or(String::new(), |registry| format!("{registry}/"));
    let repository = part("repository").unwrap_or("parallax");
    let tag = part("tag").unwrap_or(env!("CARGO_PKG_VERSION"));
    let digest = part("digest").map_or(String::new(), |digest| format!("@{digest}"));
    values.insert(
        "image".to_owned(),
        json!(format!("{registry}{repository}:{tag}{digest}")),
    );
    values.insert("namespace".to_owned(), json!(namespace));
    if values.get("certManager") == Some(&json!(false)) {
        // YAML 1.1 reads `off` as a boolean.
        values.insert("certManager".to_owned(), json!("off"));
    }
    for workload in ["prober", "aggregator"] {
        // Helm merges a mapping with its default, and null removes a key. The generator replaces it.
        let selector = values
            .get_mut(workload)
            .and_then(|workload| workload.get_mut("nodeSelector"));
        if let Some(Value::Object(selector)) = selector {
            selector
                .entry("kubernetes.io/os")
                .or_insert_with(|| json!("linux"));
            selector.retain(|_, value| !value.is_null());
        }
    }
    Value::Object(values)
}

#[test]
fn the_chart_renders_the_objects_of_the_generator() {
    let Some(helm) = Helm::installed("the_chart_renders_the_objects_of_the_generator") else {
        return;
    };
    let cases: Vec<Case> = cases("equal");
    let folder = tempfile::tempdir().unwrap();
    let (chart_values, values) = (
        folder.path().join("chart.yaml"),
        folder.path().join("values.yaml"),
    );
    for case in cases {
        fs::write(&chart_values, &case.values).unwrap();
        let generated = generator_values(&case.values, &case.namespace);
        fs::write(&values, generated.to_string()).unwrap();
        let expected = objects(&manifests::printed(Some(&values)));
        let release = (case.release.as_str(), case.namespace.as_str());
        let given = ["--values", chart_values.to_str().unwrap()];
        let with_namespace = [given.as_slice(), &["--set", "createNamespace=true"]].concat();
        let mut rendered = objects(&printed(&helm.template(release, &with_namespace)));
        for (key, object) in &expected {
            let found = rendered.get(key);
            assert_eq!(found, Some(object), "{}: {key:?}", case.name);
        }
        rendered.retain(|key, _| !expected.contains_key(key));
        assert!(rendered.is_empty(), "{}: {:?}", case.name, rendered.keys());
        // Helm itself creates the namespace of a release.
        let without = objects(&printed(&helm.template(release, &given)));
        let namespace = ("Namespace".to_owned(), String::new(), case.namespace.clone());
        assert_eq!(without.len() + 1, expected.len(), "{}", case.name);
        assert!(!without.contains_key(&namespace), "{}", case.name);
    }
}

#[test]
fn the_chart_is_in_order_and_its_version_is_that_of_the_binary() {
    let Some(helm) = Helm::installed("the_chart_is_in_order_and_its_version_is_that_of_the_binary") else {
        return;
    };
    printed(&helm.run(&["lint", "--strict", "deploy/chart"]));
    let chart = fs::read_to_string(repository("deploy/chart/Chart.yaml")).unwrap();
    let chart: Value = serde_saphyr::from_str(&chart).unwrap();
    for version in ["version", "appVersion"] {
        assert_eq!(chart[version], env!("CARGO_PKG_VERSION"), "{version}");
    }
}

#[test]
fn what_helm_test_creates_is_removed_by_it() {
    let Some(helm) = Helm::installed("what_helm_test_creates_is_removed_by_it") else {
        return;
    };
    let test = "templates/tests/status.yaml";
    let rendered = helm.run(&["template", "parallax", "deploy/chart", "--show-only", test]);
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
