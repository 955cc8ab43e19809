//! Builds kustomizations without kustomize, as far as the overlays use it: resources, components and JSON patches.

use std::{fs, path::Path};

use serde_json::Value;

use super::{Objects, objects};

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn texts(list: &Value) -> Vec<&str> {
    let items = list.as_array().map_or(&[][..], Vec::as_slice);
    items.iter().map(|item| item.as_str().unwrap()).collect()
}

/// Builds the kustomization in a folder.
pub(super) fn build(folder: &Path) -> Objects {
    let mut made = Objects::new();
    add(folder, "Kustomization", &mut made);
    made
}

/// Adds a kustomization, or a component that patches what is there already.
fn add(folder: &Path, kind: &str, made: &mut Objects) {
    let kustomization = read(&folder.join("kustomization.yaml"));
    assert_eq!(kustomization["kind"], kind, "{}", folder.display());
    for field in kustomization.as_object().unwrap().keys() {
        let known = ["apiVersion", "kind", "resources", "components", "patches"];
        assert!(known.contains(&field.as_str()), "this test knows no {field}");
    }
    for resource in texts(&kustomization["resources"]) {
        let path = folder.join(resource);
        let more = if path.is_dir() {
            build(&path)
        } else {
            objects(&fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
        };
        for (key, object) in more {
            let former = made.insert(key.clone(), object);
            assert!(former.is_none(), "{}: {key:?} is there twice", folder.display());
        }
    }
    for component in texts(&kustomization["components"]) {
        add(&folder.join(component), "Component", made);
    }
    for entry in kustomization["patches"].as_array().into_iter().flatten() {
        patch(folder, entry, made);
    }
}

fn patch(folder: &Path, entry: &Value, made: &mut Objects) {
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
