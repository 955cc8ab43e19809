//! The overlays turn the base into the output for the values next to them.
//!
//! The test applies the patches itself, so that it also runs on machines without kustomize; if `kubectl` is available,
//! its kustomize must agree.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use parallax_skip::skip;
use serde_json::Value;

use super::{Key, Objects, blessing, golden, key, objects, printed};
use crate::commands::{repository, text};

fn overlays() -> Vec<PathBuf> {
    let mut folders: Vec<_> = fs::read_dir(repository("deploy/overlays"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.sort();
    assert!(folders.len() >= 3, "{folders:?}");
    folders
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().cloned().unwrap_or_default();
    items
        .iter()
        .map(|item| item.as_str().unwrap().to_owned())
        .collect()
}

/// Builds a kustomization, as far as the overlays use it: resources and patches with a target.
fn kustomize(folder: &Path) -> Objects {
    let kustomization = read(&folder.join("kustomization.yaml"));
    assert_eq!(kustomization["kind"], "Kustomization", "{}", folder.display());
    for field in kustomization.as_object().unwrap().keys() {
        let known = ["apiVersion", "kind", "resources", "patches"];
        assert!(known.contains(&field.as_str()), "this test knows no {field}");
    }
    let mut made = Objects::new();
    for resource in texts(&kustomization["resources"]) {
        let path = folder.join(resource);
        made.extend(if path.is_dir() {
            kustomize(&path)
        } else {
            objects(&fs::read_to_string(path).unwrap())
        });
    }
    for entry in kustomization["patches"].as_array().into_iter().flatten() {
        let target = &entry["target"];
        let field = |name: &str| target[name].as_str().unwrap_or_default().to_owned();
        let object = made
            .get_mut(&(field("kind"), field("namespace"), field("name")))
            .unwrap_or_else(|| panic!("{}: nothing is {target}", folder.display()));
        let group = match field("group") {
            group if group.is_empty() => field("version"),
            group => format!("{group}/{}", field("version")),
        };
        assert_eq!(
            object["apiVersion"],
            group.as_str(),
            "{}: {target}",
            folder.display()
        );
        let patch = read(&folder.join(entry["path"].as_str().unwrap()));
        for step in patch.as_array().expect("a list of operations") {
            apply(object, step).unwrap_or_else(|| panic!("{}: {step} does not fit", folder.display()));
        }
    }
    made
}

/// Applies one operation of RFC 6902.
fn apply(object: &mut Value, step: &Value) -> Option<()> {
    let path = step["path"].as_str()?;
    let (parent, last) = path.rsplit_once('/')?;
    let last = &*last.replace("~1", "/").replace("~0", "~");
    let value = step["value"].clone();
    match (step["op"].as_str()?, object.pointer_mut(parent)?) {
        ("test", parent) => {
            (parent[last] == value || parent.as_array()?[last.parse::<usize>().ok()?] == value).then_some(())
        }
        ("add", Value::Array(items)) if last == "-" => {
            items.push(value);
            Some(())
        }
        ("add", Value::Object(fields)) => {
            fields.insert(last.to_owned(), value);
            Some(())
        }
        ("replace", Value::Array(items)) => {
            *items.get_mut(last.parse::<usize>().ok()?)? = value;
            Some(())
        }
        ("replace", Value::Object(fields)) => {
            *fields.get_mut(last)? = value;
            Some(())
        }
        ("remove", Value::Object(fields)) => fields.remove(last).map(drop),
        _ => None,
    }
}

#[test]
fn what_an_overlay_adds_is_printed_by_the_binary() {
    let base = objects(&printed(None));
    for folder in overlays() {
        let text = printed(Some(&folder.join("values.yaml")));
        let added: Vec<&str> = text
            .split("---\n")
            .skip(1)
            .filter(|document| !base.contains_key(&key(&serde_saphyr::from_str(document).unwrap())))
            .collect();
        let name = folder.file_name().unwrap().to_str().unwrap();
        golden(
            &format!("deploy/overlays/{name}/objects.yaml"),
            &added.join("---\n"),
        );
    }
}

#[test]
fn an_overlay_makes_what_its_values_make() {
    if blessing() {
        return;
    }
    for folder in overlays() {
        let wanted = objects(&printed(Some(&folder.join("values.yaml"))));
        let made = kustomize(&folder);
        assert_eq!(
            made.keys().collect::<Vec<_>>(),
            wanted.keys().collect::<Vec<_>>(),
            "{}",
            folder.display()
        );
        for (key, object) in &wanted {
            assert_eq!(&made[key], object, "{}: {key:?}", folder.display());
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
fn kustomize_itself_makes_the_same() {
    if blessing() {
        return;
    }
    let Ok(found) = Command::new("kubectl").args(["kustomize", "--help"]).output() else {
        skip(
            "kustomize_itself_makes_the_same",
            "kubectl is not installed",
            "cargo test --workspace --locked --test cli kustomize_itself_makes_the_same",
        );
        return;
    };
    assert!(found.status.success(), "{}", text(&found.stderr));
    for folder in overlays() {
        let output = Command::new("kubectl")
            .arg("kustomize")
            .arg(&folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let made: Vec<_> = objects(&text(&output.stdout)).into_iter().map(counted).collect();
        let wanted: Vec<_> = kustomize(&folder).into_iter().map(counted).collect();
        assert!(made == wanted, "{}", folder.display());
    }
}
