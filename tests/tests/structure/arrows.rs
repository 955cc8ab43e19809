//! Permitted dependencies between the crates of the workspace.

use std::collections::BTreeSet;

use crate::workspace::{Package, packages};

/// Permitted dependencies of each crate.
const DEPENDENCIES: &[(&str, &[&str])] = &[
    (
        "parallax-acme",
        &[
            "parallax-api",
            "parallax-diagnosis",
            "parallax-kubernetes",
            "parallax-model",
            "parallax-preflight",
            "parallax-runs",
            "parallax-runtime",
        ],
    ),
    (
        "parallax-acme-conformance",
        &["parallax-model", "parallax-prober", "parallax-skip"],
    ),
    (
        "parallax-aggregator",
        &[
            "parallax-acme",
            "parallax-api",
            "parallax-diagnosis",
            "parallax-history",
            "parallax-kubernetes",
            "parallax-model",
            "parallax-notify",
            "parallax-preflight",
            "parallax-runs",
            "parallax-runtime",
        ],
    ),
    ("parallax-api", &["parallax-diagnosis", "parallax-model"]),
    (
        "parallax-bench",
        &["parallax-model", "parallax-prober", "parallax-simulated-cluster"],
    ),
    (
        "parallax-check",
        &[
            "parallax-diagnosis",
            "parallax-model",
            "parallax-prober",
            "parallax-terminal",
        ],
    ),
    (
        "parallax-cli",
        &[
            "parallax-acme",
            "parallax-aggregator",
            "parallax-api",
            "parallax-check",
            "parallax-diagnosis",
            "parallax-history",
            "parallax-kubernetes",
            "parallax-model",
            "parallax-notify",
            "parallax-preflight",
            "parallax-prober",
            "parallax-runtime",
            "parallax-terminal",
        ],
    ),
    ("parallax-control-plane", &["parallax-skip"]),
    ("parallax-diagnosis", &["parallax-model"]),
    ("parallax-fixtures", &["parallax-diagnosis", "parallax-model"]),
    (
        "parallax-fuzz",
        &[
            "parallax-aggregator",
            "parallax-api",
            "parallax-diagnosis",
            "parallax-history",
            "parallax-kubernetes",
            "parallax-model",
            "parallax-preflight",
            "parallax-prober",
        ],
    ),
    (
        "parallax-history",
        &["parallax-diagnosis", "parallax-model", "parallax-runtime"],
    ),
    (
        "parallax-kubernetes",
        &["parallax-diagnosis", "parallax-model", "parallax-runtime"],
    ),
    (
        "parallax-lab",
        &[
            "parallax-api-server",
            "parallax-diagnosis",
            "parallax-model",
            "parallax-terminal",
            "parallax-test-support",
            "parallax-uml-xstate",
        ],
    ),
    (
        "parallax-notify",
        &[
            "parallax-api",
            "parallax-diagnosis",
            "parallax-history",
            "parallax-kubernetes",
            "parallax-model",
            "parallax-runtime",
        ],
    ),
    (
        "parallax-preflight",
        &[
            "parallax-api",
            "parallax-diagnosis",
            "parallax-kubernetes",
            "parallax-model",
        ],
    ),
    ("parallax-prober", &["parallax-model", "parallax-runtime"]),
    ("parallax-real-cluster", &["parallax-test-support"]),
    (
        "parallax-runs",
        &[
            "parallax-api",
            "parallax-diagnosis",
            "parallax-history",
            "parallax-kubernetes",
            "parallax-model",
            "parallax-preflight",
            "parallax-runtime",
        ],
    ),
    ("parallax-runtime", &["parallax-model"]),
    (
        "parallax-simulated-cluster",
        &["parallax-diagnosis", "parallax-model"],
    ),
    ("parallax-terminal", &["parallax-diagnosis", "parallax-model"]),
];

/// Permitted dependencies of a crate's tests only.
const DEV_DEPENDENCIES: &[(&str, &[&str])] = &[
    (
        "parallax-acme",
        &["parallax-api-server", "parallax-fixtures", "parallax-history"],
    ),
    (
        "parallax-aggregator",
        &["parallax-api-server", "parallax-fixtures"],
    ),
    ("parallax-api", &["parallax-fixtures"]),
    (
        "parallax-cli",
        &["parallax-api-server", "parallax-skip", "parallax-test-support"],
    ),
    ("parallax-control-plane", &["parallax-test-support"]),
    (
        "parallax-dashboards",
        &["parallax-control-plane", "parallax-skip"],
    ),
    ("parallax-diagnosis", &["parallax-simulated-cluster"]),
    ("parallax-history", &["parallax-fixtures", "parallax-terminal"]),
    ("parallax-kubernetes", &["parallax-api-server"]),
    ("parallax-lab", &["parallax-skip"]),
    ("parallax-notify", &["parallax-api-server", "parallax-fixtures"]),
    ("parallax-preflight", &["parallax-fixtures"]),
    ("parallax-prober", &["parallax-test-support"]),
    ("parallax-real-cluster", &["parallax-skip"]),
    ("parallax-runs", &["parallax-fixtures"]),
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
        "{kind}: not in the list: {new:?}; in the list but not in a manifest: {gone:?}"
    );
}

fn arrow(from: &str, to: &str) -> String {
    format!("{from} -> {to}")
}
