//! Files of the chart that exist elsewhere are the same there.

use std::{fs, path::Path};

use serde_json::Value;

use crate::{
    commands::{repository, run, text},
    manifests::blessing,
};

fn read(path: &str) -> String {
    fs::read_to_string(repository(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Rewrites a file of the chart instead of comparing it, if committed files are being rewritten.
fn assert_same(path: &str, expected: &str) {
    if blessing() {
        fs::write(repository(path), expected).unwrap();
    }
    assert_eq!(
        read(path),
        expected,
        "{path}: PARALLAX_BLESS=1 cargo test --test cli chart rewrites it"
    );
}

#[test]
fn dashboards_and_rules_are_those_of_the_repository() {
    assert_same(
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
    let mut copies: Vec<String> = fs::read_dir(repository("deploy/chart/files/dashboards"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    copies.sort();
    assert_eq!(names, copies);
    for name in names {
        let original = read(&format!("dashboards/{name}"));
        assert_same(&format!("deploy/chart/files/dashboards/{name}"), &original);
    }
}

#[test]
fn custom_resource_definitions_are_those_of_the_binary() {
    let parsed = |yaml: &str| -> Vec<Value> { serde_saphyr::from_multiple(yaml).unwrap() };
    let output = run(&["manifests", "--crds"]);
    let expected = parsed(&text(&output.stdout));
    let mut found = parsed(&read("deploy/chart/files/custom-resources.yaml"));
    found.extend(parsed(&read("deploy/chart/files/preflights.yaml")));
    assert_eq!(found, expected);
}
