//! Which crate of the workspace may depend on which.

use std::collections::BTreeSet;

use crate::workspace::{Package, packages};

/// What a crate may depend on.
const DEPENDENCIES: &[(&str, &[&str])] = &[
    (
        "parallax-acme",
        &["parallax-model", "parallax-prober", "parallax-skip"],
    ),
    (
        "parallax-aggregator",
        &[
            "parallax-diagnosis",
            "parallax-kubernetes",
            "parallax-model",
            "parallax-runtime",
        ],
    ),
    ("parallax-bench", &["parallax-model", "parallax-prober"]),
    (
        "parallax-cli",
        &[
            "parallax-aggregator",
            "parallax-dashboards",
            "parallax-diagnosis",
            "parallax-kubernetes",
            "parallax-model",
            "parallax-prober",
        ],
    ),
    ("parallax-control-plane", &["parallax-skip"]),
    ("parallax-diagnosis", &["parallax-model"]),
    ("parallax-fixtures", &["parallax-diagnosis", "parallax-model"]),
    ("parallax-kubernetes", &["parallax-diagnosis", "parallax-model"]),
    (
        "parallax-lab",
        &[
            "parallax-api-server",
            "parallax-diagnosis",
            "parallax-model",
            "parallax-uml-xstate",
        ],
    ),
    ("parallax-prober", &["parallax-model"]),
    ("parallax-runtime", &["parallax-model"]),
];

/// What only the tests of a crate may depend on.
const DEV_DEPENDENCIES: &[(&str, &[&str])] = &[
    (
        "parallax-aggregator",
        &["parallax-api-server", "parallax-fixtures"],
    ),
    ("parallax-cli", &["parallax-skip"]),
    (
        "parallax-dashboards",
        &["parallax-control-plane", "parallax-skip"],
    ),
    ("parallax-kubernetes", &["parallax-api-server"]),
    ("parallax-lab", &["parallax-skip"]),
    ("parallax-real-cluster", &["parallax-skip"]),
];

#[test]
fn crates_depend_on_each_other_only_as_listed() {
    let packages = packages();
    let found = |of: fn(&Package) -> &[String]| -> BTreeSet<String> {
        packages
            .iter()
            .flat_map(|package| of(package).iter().map(|to| arrow(&package.name, to)))
            .collect()
    };
    compare(
        "dependencies",
        &found(|package| &package.dependencies),
        DEPENDENCIES,
    );
    compare(
        "dev-dependencies",
        &found(|package| &package.dev_dependencies),
        DEV_DEPENDENCIES,
    );
}

fn compare(kind: &str, found: &BTreeSet<String>, listed: &[(&str, &[&str])]) {
    let listed: BTreeSet<_> = listed
        .iter()
        .flat_map(|(from, all)| all.iter().map(|to| arrow(from, to)))
        .collect();
    let new: Vec<_> = found.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(found).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "{kind}: not in the list: {new:?}; in the list, but in no manifest: {gone:?}"
    );
}

fn arrow(from: &str, to: &str) -> String {
    format!("{from} -> {to}")
}
