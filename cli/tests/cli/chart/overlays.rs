//! The overlays, alone and combined with components, make what the chart makes with their values.
//!
//! The tests build the kustomizations themselves, so that they also run on machines without kustomize; if `kubectl` is
//! available, its kustomize must agree.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use parallax_skip::skip;
use serde_json::Value;

use super::{
    Key, blessing,
    committed::CONFIGURING_OVERLAYS,
    helm::{self, with_values_of},
    kustomize, objects,
};
use crate::commands::{repository, text};

/// A kustomization, and the overlays with whose values the chart makes the same.
struct Kustomization {
    folder: PathBuf,
    overlays: Vec<String>,
}

fn overlays() -> Vec<Kustomization> {
    let mut names: Vec<_> = fs::read_dir(repository("deploy/overlays"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 6, "{names:?}");
    names
        .into_iter()
        .map(|name| Kustomization {
            folder: repository(&format!("deploy/overlays/{name}")),
            overlays: vec![name],
        })
        .collect()
}

/// Returns the path of a file of the repository, relative to a folder. kustomize permits no absolute paths.
fn relative(folder: &Path, path: &str) -> String {
    let up = "../".repeat(folder.canonicalize().unwrap().components().count() - 1);
    let target = repository(path).canonicalize().unwrap();
    format!("{up}{}", target.strip_prefix("/").unwrap().display())
}

/// Every combination that docs/use/install.md claims, as users write it.
fn combinations(folder: &Path) -> Vec<Kustomization> {
    let mut combinations = Vec::new();
    let bases = CONFIGURING_OVERLAYS.iter().map(|name| Some(*name));
    for overlay in bases.chain([None]) {
        for components in [&["preflight"][..], &["podmonitor"], &["preflight", "podmonitor"]] {
            let number = combinations.len();
            let folder = folder.join(number.to_string());
            fs::create_dir(&folder).unwrap();
            let mut used: Vec<&str> = components.to_vec();
            if overlay == Some("host-vantage") && components.contains(&"podmonitor") {
                used.push("host-podmonitor");
            }
            let base = overlay.map_or_else(
                || "deploy/base".to_owned(),
                |name| format!("deploy/overlays/{name}"),
            );
            let used: Vec<String> = used
                .iter()
                .map(|name| format!("- {}\n", relative(&folder, &format!("deploy/components/{name}"))))
                .collect();
            let text = format!(
                "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- {}\ncomponents:\n{}",
                relative(&folder, &base),
                used.concat()
            );
            fs::write(folder.join("kustomization.yaml"), text).unwrap();
            let overlays = overlay.iter().chain(components).map(|name| (*name).to_owned());
            combinations.push(Kustomization {
                folder,
                overlays: overlays.collect(),
            });
        }
    }
    assert_eq!(combinations.len(), 15);
    combinations
}

#[test]
fn overlays_and_their_combinations_make_what_the_chart_makes_with_their_values() {
    let test = "overlays_and_their_combinations_make_what_the_chart_makes_with_their_values";
    let Some(helm) = helm::installed(test).filter(|_| !blessing()) else {
        return;
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for kustomization in overlays().into_iter().chain(combinations(folder.path())) {
        let names: Vec<&str> = kustomization.overlays.iter().map(String::as_str).collect();
        let wanted = objects(&with_values_of(&helm, &names));
        let made = kustomize::build(&kustomization.folder);
        assert_eq!(
            made.keys().collect::<Vec<_>>(),
            wanted.keys().collect::<Vec<_>>(),
            "{names:?}"
        );
        for (key, object) in &wanted {
            assert_eq!(&made[key], object, "{names:?}: {key:?}");
        }
    }
}

/// Normalizes the numbers of an object: kustomize writes the `0.0` of a schema as `0`.
fn counted((key, object): (Key, Value)) -> (Key, Value) {
    fn numbers(value: &mut Value) {
        match value {
            Value::Number(number) => *value = number.as_f64().map_or(Value::Null, Value::from),
            Value::Array(items) => items.iter_mut().for_each(numbers),
            Value::Object(fields) => fields.values_mut().for_each(numbers),
            _ => {}
        }
    }
    let mut object = object;
    numbers(&mut object);
    (key, object)
}

#[test]
fn kustomize_itself_makes_the_same_and_refuses_two_configurations() {
    if blessing() {
        return;
    }
    let Ok(found) = Command::new("kubectl").args(["kustomize", "--help"]).output() else {
        skip(
            "kustomize_itself_makes_the_same_and_refuses_two_configurations",
            "kubectl is not installed",
            "cargo test --workspace --locked --test cli kustomize_itself",
        );
        return;
    };
    assert!(found.status.success(), "{}", text(&found.stderr));
    let run = |folder: &Path| {
        Command::new("kubectl")
            .arg("kustomize")
            .arg(folder)
            .output()
            .unwrap()
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for kustomization in overlays().into_iter().chain(combinations(folder.path())) {
        let names = kustomization.overlays;
        let output = run(&kustomization.folder);
        assert!(output.status.success(), "{names:?}: {}", text(&output.stderr));
        let made: Vec<_> = objects(&text(&output.stdout)).into_iter().map(counted).collect();
        let wanted: Vec<_> = kustomize::build(&kustomization.folder)
            .into_iter()
            .map(counted)
            .collect();
        assert!(made == wanted, "{names:?}");
    }
    for first in CONFIGURING_OVERLAYS {
        for second in CONFIGURING_OVERLAYS.iter().filter(|second| **second != first) {
            let both = [first, *second].map(|name| {
                let path = relative(folder.path(), &format!("deploy/overlays/{name}"));
                format!("- {path}\n")
            });
            let text_of_both = format!("resources:\n{}", both.concat());
            fs::write(folder.path().join("kustomization.yaml"), text_of_both).unwrap();
            let output = run(folder.path());
            assert!(!output.status.success(), "{first} and {second} hide each other");
        }
    }
}
