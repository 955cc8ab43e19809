//! Creation, replacement with `resourceVersion` conflicts, merge patches, and deletion.

use axum::{http::Method, response::Response};
use serde_json::{Value, json};

use crate::{
    responses::{created, failure, object, object_not_found},
    store::{Shared, key},
};

pub(crate) fn create(shared: &Shared, namespace: &str, resource: &str, body: &[u8]) -> Response {
    let mut new: Value = serde_json::from_slice(body).unwrap();
    if !namespace.is_empty() {
        new["metadata"]["namespace"] = namespace.into();
    }
    let key = key(resource, namespace, new["metadata"]["name"].as_str().unwrap());
    let mut store = shared.store();
    if store.objects.contains_key(&key) {
        return failure(409, "AlreadyExists", "already exists");
    }
    new["metadata"]["uid"] = format!("uid-{}", store.version).into();
    // Younger than the initial objects.
    new["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    store.put(resource, new);
    let new = store.objects[&key].clone();
    drop(store);
    shared.changed.send_replace(());
    created(&new)
}

pub(crate) fn replace(shared: &Shared, namespace: &str, resource: &str, name: &str, body: &[u8]) -> Response {
    let mut new: Value = serde_json::from_slice(body).unwrap();
    let key = key(resource, namespace, name);
    let mut store = shared.store();
    let Some(known) = store.objects.get(&key) else {
        return object_not_found();
    };
    if known["metadata"]["resourceVersion"] != new["metadata"]["resourceVersion"] {
        return failure(409, "Conflict", "the object has been modified");
    }
    new["metadata"]["uid"] = known["metadata"]["uid"].clone();
    store.put(resource, new);
    let new = store.objects[&key].clone();
    drop(store);
    shared.changed.send_replace(());
    object(&new)
}

/// Patches an object or its status, or deletes an object.
pub(crate) fn change(
    shared: &Shared,
    method: &Method,
    (resource, namespace, name): (&str, &str, &str),
    subresource: Option<&str>,
    body: &[u8],
) -> Response {
    let mut store = shared.store();
    let Some(mut known) = store.objects.get(&key(resource, namespace, name)).cloned() else {
        return object_not_found();
    };
    if *method == Method::DELETE {
        store.delete(resource, namespace, name);
    } else {
        assert_eq!(method, Method::PATCH);
        let patch: Value = serde_json::from_slice(body).unwrap();
        if subresource == Some("status") {
            for (field, value) in patch["status"].as_object().unwrap() {
                known["status"][field] = value.clone();
            }
        } else {
            merge(&mut known, &patch);
        }
        store.put(resource, known.clone());
    }
    drop(store);
    shared.changed.send_replace(());
    object(&known)
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
