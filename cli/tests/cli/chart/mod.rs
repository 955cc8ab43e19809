//! The Helm chart, rendered by a real Helm: what it creates is coherent and unprivileged, it refuses wrong values, and
//! the committed manifests and overlays are its output.

mod coherence;
mod committed;
mod configurations;
mod differences;
mod document;
mod files;
mod helm;
mod installations;
mod kustomize;
mod overlays;
mod platforms;
mod privileges;
mod prometheus;
mod refused;
mod release;
mod rights;

use std::{collections::BTreeMap, fs};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::commands::repository;

/// Kind, namespace and name.
type Key = (String, String, String);
type Objects = BTreeMap<Key, Value>;

fn key(object: &Value) -> Key {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    (
        word(&object["kind"]),
        word(&metadata["namespace"]),
        word(&metadata["name"]),
    )
}

/// Parses the documents of a YAML stream; no object may occur twice.
fn objects(yaml: &str) -> Objects {
    let mut objects = Objects::new();
    for document in serde_saphyr::from_multiple::<Value>(yaml).unwrap() {
        let key = key(&document);
        assert!(
            !key.0.is_empty() && !key.2.is_empty(),
            "an object has a kind and a name: {document}"
        );
        assert!(
            objects.insert(key.clone(), document).is_none(),
            "{key:?} is there twice"
        );
    }
    objects
}

fn read(path: &str) -> String {
    fs::read_to_string(repository(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The installation with default values, as it is committed.
fn default_installation() -> Objects {
    objects(&read("deploy/install.yaml"))
}

/// Reads the cases of a fixture of the chart.
fn cases<T: DeserializeOwned>(fixture: &str) -> Vec<T> {
    serde_saphyr::from_str(&read(&format!("cli/tests/fixtures/chart/{fixture}.yaml"))).unwrap()
}

/// Reports whether the committed files are being rewritten, so that they cannot be compared.
fn blessing() -> bool {
    std::env::var_os("PARALLAX_BLESS").is_some()
}

/// Compares a committed file with its current content; with `PARALLAX_BLESS=1` rewrites it instead.
fn assert_committed(path: &str, now: &str) {
    if blessing() {
        fs::write(repository(path), now).unwrap();
    }
    let committed = fs::read_to_string(repository(path)).unwrap_or_default();
    assert!(
        committed == now,
        "{path} is out of date; regenerate it with `make manifests` and review the diff"
    );
}
