//! The crates of the workspace, as listed by cargo.

use std::{path::PathBuf, process::Command};

use serde_json::Value;

/// A crate of the workspace.
pub(crate) struct Package {
    pub(crate) name: String,
    /// Root files of its library and programs.
    pub(crate) roots: Vec<PathBuf>,
    /// Workspace crates that it depends on, including build dependencies.
    pub(crate) dependencies: Vec<String>,
    /// Workspace crates that only its tests depend on.
    pub(crate) dev_dependencies: Vec<String>,
}

/// Lists all crates without resolving their dependencies, so that it works offline.
pub(crate) fn packages() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages: Vec<_> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(package)
        .collect();
    assert!(packages.len() > 5, "cargo lists only {} crates", packages.len());
    packages
}

fn package(package: &Value) -> Package {
    let dependencies = |dev: bool| {
        let all = package["dependencies"].as_array().unwrap().iter();
        let mut names: Vec<_> = all
            .filter(|dependency| dependency["path"].is_string() && (dependency["kind"] == "dev") == dev)
            .map(|dependency| dependency["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names.dedup();
        names
    };
    let targets = package["targets"].as_array().unwrap().iter();
    Package {
        name: package["name"].as_str().unwrap().to_owned(),
        roots: targets
            .filter(|target| {
                let kinds = target["kind"].as_array().unwrap();
                kinds
                    .iter()
                    .any(|kind| matches!(kind.as_str(), Some("lib" | "rlib" | "bin")))
            })
            .map(|target| PathBuf::from(target["src_path"].as_str().unwrap()))
            .collect(),
        dependencies: dependencies(false),
        dev_dependencies: dependencies(true),
    }
}
