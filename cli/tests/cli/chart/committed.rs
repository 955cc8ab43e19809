//! The committed manifests are what the chart renders: `make manifests` rewrites them.

use std::collections::BTreeSet;

use parallax_test_support::helm::Helm;
use serde_json::Value;

use super::{
    Key, assert_committed,
    helm::{self, with_values_of},
    key, objects,
};

/// Comment above the objects of the installation.
const INSTALLATION_COMMENT: &str = "\
# Rendered from deploy/chart with its default values by `make manifests`; do not edit. The whole installation: kubectl
# apply -f creates it, kubectl delete -f removes all of it. Purpose of each object: docs/use/install.md. Other values:
# the chart, or the kustomize overlays next to this file.
";

/// Comment above what an overlay or a component adds or replaces.
const OVERLAY_COMMENT: &str = "# Rendered from deploy/chart by `make manifests`; do not edit.\n";

/// Overlays that change the aggregator's configuration: at most one of them can be applied.
pub(super) const CONFIGURING_OVERLAYS: [&str; 4] =
    ["custom-resources", "host-vantage", "responder", "volume"];

/// Components, and the overlays with whose values the chart renders what each of them adds.
const COMPONENTS: [(&str, &[&str]); 3] = [
    ("host-podmonitor", &["host-vantage", "podmonitor"]),
    ("podmonitor", &["podmonitor"]),
    ("preflight", &["preflight"]),
];

/// The documents of a rendering, without the names of their templates: another version of Helm may write them otherwise.
fn documents(rendered: &str) -> Vec<String> {
    let lines = rendered.lines().filter(|line| !line.starts_with("# Source: "));
    let mut documents: Vec<String> = Vec::new();
    for line in lines {
        if line == "---" {
            documents.push(String::new());
        } else if let Some(document) = documents.last_mut() {
            document.push_str(line);
            document.push('\n');
        }
    }
    // The comment of a template that renders nothing else is no object.
    documents.retain(|document| document.contains("\nkind: ") || document.starts_with("kind: "));
    documents
}

fn stream(comment: &str, documents: &[String]) -> String {
    format!("{comment}---\n{}", documents.join("---\n"))
}

fn document_key(document: &str) -> Key {
    key(&serde_saphyr::from_str::<Value>(document).unwrap())
}

/// The documents that only the combination of overlays renders.
fn additions(helm: &Helm, overlays: &[&str]) -> Vec<String> {
    let mut without: BTreeSet<Key> = objects(&with_values_of(helm, &[])).into_keys().collect();
    for left_out in overlays.iter().filter(|_| overlays.len() > 1) {
        let others: Vec<&str> = overlays.iter().copied().filter(|name| name != left_out).collect();
        without.extend(objects(&with_values_of(helm, &others)).into_keys());
    }
    let mut added = documents(&with_values_of(helm, overlays));
    added.retain(|document| !without.contains(&document_key(document)));
    added
}

#[test]
fn the_installation_is_the_chart_with_its_default_values() {
    let Some(helm) = helm::installed("the_installation_is_the_chart_with_its_default_values") else {
        return;
    };
    let now = stream(INSTALLATION_COMMENT, &documents(&with_values_of(&helm, &[])));
    assert_committed("deploy/install.yaml", &now);
    assert_committed("deploy/base/install.yaml", &now);
}

#[test]
fn what_overlays_and_components_add_is_rendered_from_the_chart() {
    let Some(helm) = helm::installed("what_overlays_and_components_add_is_rendered_from_the_chart") else {
        return;
    };
    for name in CONFIGURING_OVERLAYS {
        let added = additions(&helm, &[name]);
        let path = format!("deploy/overlays/{name}/objects.yaml");
        assert_committed(&path, &stream(OVERLAY_COMMENT, &added));
    }
    for (name, overlays) in COMPONENTS {
        let added = additions(&helm, overlays);
        assert!(!added.is_empty(), "{name}");
        let path = format!("deploy/components/{name}/objects.yaml");
        assert_committed(&path, &stream(OVERLAY_COMMENT, &added));
    }
}

#[test]
fn overlays_replace_the_configuration_with_the_one_of_the_chart_and_roll_out_the_aggregator() {
    let Some(helm) = helm::installed(
        "overlays_replace_the_configuration_with_the_one_of_the_chart_and_roll_out_the_aggregator",
    ) else {
        return;
    };
    for name in CONFIGURING_OVERLAYS {
        let rendered = objects(&with_values_of(&helm, &[name]));
        let object = |kind: &str, name: &str| {
            let key = (kind.to_owned(), "parallax".to_owned(), name.to_owned());
            &rendered[&key]
        };
        let configuration = object("ConfigMap", "parallax-config")["data"]["parallax.yaml"]
            .as_str()
            .unwrap();
        let indented: Vec<String> = configuration
            .lines()
            .map(|line| format!("    {line}\n"))
            .collect();
        assert_committed(
            &format!("deploy/overlays/{name}/configuration.yaml"),
            &format!(
                "{OVERLAY_COMMENT}- op: replace\n  path: /data/parallax.yaml\n  value: |\n{}",
                indented.concat()
            ),
        );
        let digest = object("Deployment", "parallax-aggregator")["spec"]["template"]["metadata"]["annotations"]
            ["parallax.dev/configuration"]
            .as_str()
            .unwrap();
        assert_committed(
            &format!("deploy/overlays/{name}/roll-out.yaml"),
            &format!(
                "{OVERLAY_COMMENT}# Digest of the settings that require a restart: a change rolls out the aggregator.\n\
                 - op: replace\n  path: /spec/template/metadata/annotations/parallax.dev~1configuration\n  \
                 value: '{digest}'\n"
            ),
        );
    }
}
