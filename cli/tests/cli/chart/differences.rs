//! What each value changes in the rendered objects, as a committed text.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Deserialize;
use serde_json::Value;

use super::{
    Key, Objects, assert_committed, cases,
    helm::{self, printed, with_values_of},
    objects, platforms, read,
};

/// Longer texts are shown by their length; they are files of the repository.
const MAX_TEXT_CHARS: usize = 300;

/// Values, and the release that they are for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) name: String,
    #[serde(default = "parallax")]
    release: String,
    #[serde(default = "parallax")]
    pub(super) namespace: String,
    pub(super) values: String,
}

fn parallax() -> String {
    "parallax".to_owned()
}

/// The values of each platform.
fn platform_cases() -> impl Iterator<Item = Case> {
    platforms::names().into_iter().map(|name| Case {
        values: read(&platforms::path(&name)),
        name: format!("platform {name}"),
        release: parallax(),
        namespace: parallax(),
    })
}

/// Returns the scalars of a value by their path. Items of a list are called by their name if each has its own.
fn leaves(value: &Value, path: &str, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                leaves(value, &format!("{path}/{}", key.replace('/', "~1")), found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let name = |item: &Value| -> Option<String> {
                let name = ["name", "alert", "record"]
                    .iter()
                    .find_map(|key| item.get(*key))?;
                name.as_str().map(str::to_owned)
            };
            let mut names: Vec<_> = items.iter().filter_map(name).collect();
            names.sort();
            names.dedup();
            let unique = names.len() == items.len();
            for (number, item) in items.iter().enumerate() {
                let segment = name(item)
                    .filter(|_| unique)
                    .unwrap_or_else(|| number.to_string());
                leaves(item, &format!("{path}/{segment}"), found);
                if unique {
                    found.remove(&format!("{path}/{segment}/name"));
                }
            }
        }
        Value::String(text) if path == "/data/parallax.yaml" => {
            let configuration: Value = serde_saphyr::from_str(text).unwrap();
            leaves(&configuration, path, found);
        }
        Value::String(text) if text.chars().count() > MAX_TEXT_CHARS => {
            found.insert(path.to_owned(), format!("{} lines", text.lines().count()));
        }
        scalar => {
            found.insert(path.to_owned(), scalar.to_string());
        }
    }
}

fn leaves_of(object: &Value) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    leaves(object, "", &mut found);
    found
}

/// Appends the differences between an object and what it is compared with, if there are any.
fn compare(title: &str, reference: Option<&Value>, object: &Value, text: &mut String) {
    let before = reference.map(leaves_of).unwrap_or_default();
    let after = leaves_of(object);
    let mut lines = String::new();
    for path in before.keys().filter(|path| !after.contains_key(*path)) {
        writeln!(lines, "  {path}: absent").unwrap();
    }
    for (path, value) in &after {
        if before.get(path) != Some(value) {
            writeln!(lines, "  {path}: {value}").unwrap();
        }
    }
    if !lines.is_empty() || title.starts_with('+') {
        write!(text, "{title}\n{lines}").unwrap();
    }
}

/// Describes a rendering: what differs from the default, and what it adds. An addition that an overlay makes, too, is
/// compared with that.
fn describe(defaults: &Objects, overlays: &Objects, case: &Case, rendered: &Objects) -> String {
    let renamed = |(kind, namespace, name): &Key| -> Key {
        let rename = |text: &str| match text.strip_prefix(case.namespace.as_str()) {
            Some(rest) if rest.is_empty() || rest == "-host" => format!("parallax{rest}"),
            _ => text.to_owned(),
        };
        let name = if kind == "Namespace" {
            rename(name)
        } else {
            name.clone()
        };
        (kind.clone(), rename(namespace), name)
    };
    let mut text = String::new();
    let mut kept = Vec::new();
    for (key, object) in rendered {
        let (kind, namespace, name) = renamed(key);
        let title = format!("{kind} {namespace}/{name}");
        let key = (kind, namespace, name);
        match defaults.get(&key) {
            Some(reference) => compare(&title, Some(reference), object, &mut text),
            None => compare(&format!("+ {title}"), overlays.get(&key), object, &mut text),
        }
        kept.push(key);
    }
    for (kind, namespace, name) in defaults.keys().filter(|key| !kept.contains(key)) {
        writeln!(text, "- {kind} {namespace}/{name}").unwrap();
    }
    text
}

#[test]
fn each_value_changes_the_objects_as_committed() {
    let Some(helm) = helm::installed("each_value_changes_the_objects_as_committed") else {
        return;
    };
    let defaults = objects(&with_values_of(&helm, &[]));
    let mut overlays = Objects::new();
    for name in [
        "custom-resources",
        "host-vantage",
        "podmonitor",
        "preflight",
        "responder",
        "volume",
    ] {
        overlays.extend(objects(&with_values_of(&helm, &[name])));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("values.yaml");
    let mut text = String::from("# Generated by `make manifests` from values.yaml; do not edit.\n");
    let cases: Vec<Case> = cases("values");
    assert!(cases.len() >= 60, "{}", cases.len());
    for case in cases.into_iter().chain(platform_cases()) {
        std::fs::write(&path, &case.values).unwrap();
        let release = (case.release.as_str(), case.namespace.as_str());
        let given = ["--values", path.to_str().unwrap()];
        // Helm itself creates the namespace of a release.
        let rendered = objects(&printed(&helm.template(release, &given).unwrap()));
        let with_namespace = [given.as_slice(), &["--set", "createNamespace=true"]].concat();
        let with_namespace = objects(&printed(&helm.template(release, &with_namespace).unwrap()));
        let namespace = ("Namespace".to_owned(), String::new(), case.namespace.clone());
        assert!(with_namespace.contains_key(&namespace), "{}", case.name);
        assert!(!rendered.contains_key(&namespace), "{}", case.name);
        assert_eq!(rendered.len() + 1, with_namespace.len(), "{}", case.name);
        let described = describe(&defaults, &overlays, &case, &with_namespace);
        write!(text, "\n## {}\n{described}", case.name).unwrap();
    }
    assert_committed("cli/tests/fixtures/chart/differences.txt", &text);
}
