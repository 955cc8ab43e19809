//! Files of the chart that exist elsewhere are the same there.

use std::{fs, path::Path};

use super::{assert_committed, read};
use crate::commands::repository;

#[test]
fn dashboards_and_rules_are_those_of_the_repository() {
    assert_committed(
        "deploy/chart/files/parallax.rules.yaml",
        &read("dashboards/parallax.rules.yaml"),
    );
    let mut names: Vec<String> = fs::read_dir(repository("dashboards"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| {
            Path::new(name)
                .extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    names.sort();
    for name in &names {
        let original = read(&format!("dashboards/{name}"));
        assert_committed(&format!("deploy/chart/files/dashboards/{name}"), &original);
    }
    let mut copies: Vec<String> = fs::read_dir(repository("deploy/chart/files/dashboards"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    copies.sort();
    assert_eq!(names, copies);
}

#[test]
fn custom_resource_definitions_are_those_of_the_repository() {
    let definitions = read("deploy/crds.yaml");
    let documents: Vec<&str> = definitions.split("---\n").skip(1).collect();
    let [first, second, preflight] = documents.as_slice() else {
        panic!("deploy/crds.yaml has {} documents", documents.len());
    };
    assert!(preflight.contains("\n    kind: Preflight\n"));
    assert_committed(
        "deploy/chart/files/custom-resources.yaml",
        &format!(
            "# CRDs of Target and Run: a copy of their documents in deploy/crds.yaml; do not edit.\n\
             ---\n{first}---\n{second}"
        ),
    );
    assert_committed(
        "deploy/chart/files/preflights.yaml",
        &format!(
            "# CRD of Preflight: a copy of its document in deploy/crds.yaml; do not edit.\n---\n{preflight}"
        ),
    );
}
