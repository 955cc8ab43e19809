//! Creation, replacement, merge patches with preconditions, and deletion.

use axum::{http::Method, response::Response};
use serde_json::{Value, json};

use crate::{
    responses::{created, failure, object, object_not_found},
    store::{CREATION_TIMESTAMP, ObjectWrite, Shared, key},
};

pub(crate) fn create(shared: &Shared, namespace: &str, resource: &str, body: &[u8]) -> Response {
    let mut new: Value = serde_json::from_slice(body).unwrap();
    if !namespace.is_empty() {
        new["metadata"]["namespace"] = namespace.into();
    }
    let name = new["metadata"]["name"].as_str().unwrap().to_owned();
    let write = ObjectWrite {
        verb: "create",
        resource,
        namespace,
        name: &name,
    };
    let mut store = shared.store();
    store.before_write(&write);
    if store.objects.contains_key(&key(resource, namespace, &name)) {
        return failure(409, "AlreadyExists", "already exists");
    }
    store.created.push((resource.to_owned(), new.clone()));
    new["metadata"]["uid"] = store.new_uid();
    new["metadata"]["creationTimestamp"] = CREATION_TIMESTAMP.into();
    store.put(resource, new);
    let new = store.after_write(&write);
    new.map_or_else(object_not_found, |new| created(&new))
}

pub(crate) fn replace(shared: &Shared, namespace: &str, resource: &str, name: &str, body: &[u8]) -> Response {
    let mut new: Value = serde_json::from_slice(body).unwrap();
    let write = ObjectWrite {
        verb: "update",
        resource,
        namespace,
        name,
    };
    let mut store = shared.store();
    store.before_write(&write);
    let Some(known) = store.objects.get(&key(resource, namespace, name)) else {
        return object_not_found();
    };
    if known["metadata"]["resourceVersion"] != new["metadata"]["resourceVersion"] {
        return object_modified();
    }
    new["metadata"]["uid"] = known["metadata"]["uid"].clone();
    store.put(resource, new);
    let new = store.after_write(&write);
    new.map_or_else(object_not_found, |new| object(&new))
}

/// Patches an object or its status, or deletes an object.
pub(crate) fn change(
    shared: &Shared,
    method: &Method,
    (resource, namespace, name): (&str, &str, &str),
    subresource: Option<&str>,
    body: &[u8],
) -> Response {
    let deletion = *method == Method::DELETE;
    let write = ObjectWrite {
        verb: if deletion { "delete" } else { "patch" },
        resource,
        namespace,
        name,
    };
    let mut store = shared.store();
    store.before_write(&write);
    let Some(mut known) = store.objects.get(&key(resource, namespace, name)).cloned() else {
        return object_not_found();
    };
    let changed = if deletion {
        store.delete(resource, namespace, name);
        store.after_write(&write);
        Some(known)
    } else {
        assert_eq!(method, Method::PATCH);
        let patch: Value = serde_json::from_slice(body).unwrap();
        if let Some(conflict) = conflict(&known, &patch) {
            return conflict;
        }
        if subresource == Some("status") {
            merge(&mut known["status"], &patch["status"]);
        } else {
            merge(&mut known, &patch);
        }
        store.put(resource, known);
        store.after_write(&write)
    };
    changed.map_or_else(object_not_found, |changed| object(&changed))
}

/// Checks the UID and the `resourceVersion` of a patch, if it has them.
fn conflict(known: &Value, patch: &Value) -> Option<Response> {
    let differs = |field: &str| {
        let expected = &patch["metadata"][field];
        expected.is_string() && *expected != known["metadata"][field]
    };
    if differs("uid") {
        let message = "Precondition failed: the UID in the precondition is not the object's";
        return Some(failure(409, "Conflict", message));
    }
    differs("resourceVersion").then(object_modified)
}

fn object_modified() -> Response {
    failure(409, "Conflict", "the object has been modified")
}

/// JSON Merge Patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut target[name], value);
        }
    }
}
