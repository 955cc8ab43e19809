//! Preflight objects, as users write them and a controller watches them and updates their status.

use std::{
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    Api, ApiState,
    wire::{Request, Response, status},
};

/// A watch without events ends after this time, as at a real API server; clients reconnect.
const WATCHED: Duration = Duration::from_millis(200);

/// Ordered list of changes.
#[derive(Debug, Default)]
pub(super) struct Changes {
    all: Vec<(&'static str, Value)>,
    happened: Arc<Condvar>,
}

impl Changes {
    pub(super) fn version(&self) -> usize {
        self.all.len() + 1
    }

    fn add(&mut self, sort: &'static str, object: &Value) {
        self.all.push((sort, object.clone()));
        self.happened.notify_all();
    }
}

impl ApiState {
    pub(super) fn remove(&mut self, key: &(String, String, String)) -> Option<Value> {
        let removed = self.objects.remove(key)?;
        if key.0 == "preflights" {
            self.changed("DELETED", removed.clone());
        }
        Some(removed)
    }

    fn changed(&mut self, sort: &'static str, mut object: Value) {
        object["metadata"]["resourceVersion"] = (self.changes.version() + 1).to_string().into();
        self.changes.add(sort, &object);
        if sort != "DELETED" {
            self.objects.insert(key(&object), object);
        }
    }

    /// Merges a status into the object, if its UID matches the given one.
    pub(super) fn patch(&mut self, key: &(String, String, String), body: &[u8]) -> Response {
        let Some(mut object) = self.objects.get(key).cloned() else {
            return status(404, "not found");
        };
        let patch: Value = serde_json::from_slice(body).unwrap();
        let uid = &patch["metadata"]["uid"];
        if !uid.is_null() && *uid != object["metadata"]["uid"] {
            return status(409, "Precondition failed: UID in precondition: other");
        }
        merge(&mut object["status"], &patch["status"]);
        self.changed("MODIFIED", object.clone());
        (200, object.to_string())
    }

    pub(super) fn count_pods(&mut self) {
        let mut owners: Vec<&str> = self
            .objects
            .iter()
            .filter(|((resource, ..), _)| resource == "pods")
            .filter_map(|(_, pod)| pod["metadata"]["labels"]["parallax.dev/preflight-uid"].as_str())
            .collect();
        owners.sort_unstable();
        let most = owners.chunk_by(|a, b| a == b).map(<[&str]>::len).max();
        self.most_pods = self.most_pods.max(most.unwrap_or_default());
    }
}

fn key(object: &Value) -> (String, String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
    ("preflights".to_owned(), text("namespace"), text("name"))
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

impl Request {
    /// Waits for changes and returns them.
    pub(super) fn watch(&self, held: &Mutex<ApiState>) -> Response {
        let pairs = url::form_urlencoded::parse(self.query.as_bytes());
        let since = pairs
            .into_iter()
            .find(|(name, _)| name == "resourceVersion")
            .and_then(|(_, value)| value.parse::<usize>().ok())
            .unwrap_or_default();
        let held = held.lock().unwrap();
        let happened = Arc::clone(&held.changes.happened);
        let (held, _) = happened
            .wait_timeout_while(held, WATCHED, |held| held.changes.version() <= since)
            .unwrap();
        let namespace = self.place().1;
        let lines = held.changes.all.iter().skip(since.saturating_sub(1));
        let lines = lines.filter(|(_, object)| {
            namespace.is_empty() || object["metadata"]["namespace"] == namespace.as_str()
        });
        let lines: Vec<String> = lines
            .map(|(sort, object)| format!("{}\n", json!({"type": sort, "object": object})))
            .collect();
        (200, lines.concat())
    }
}

impl Api {
    /// Writes an object like `kubectl apply`: the same spec changes nothing, a different one increments the generation.
    pub(crate) fn apply(&self, name: &str, spec: &Value) {
        self.apply_in("shop", name, spec);
    }

    pub(crate) fn apply_in(&self, namespace: &str, name: &str, spec: &Value) {
        let mut held = self.held();
        let place = ("preflights".to_owned(), namespace.to_owned(), name.to_owned());
        if let Some(mut known) = held.objects.get(&place).cloned() {
            if known["spec"] == *spec {
                return;
            }
            known["spec"] = spec.clone();
            let generation = known["metadata"]["generation"].as_i64().unwrap();
            known["metadata"]["generation"] = (generation + 1).into();
            held.changed("MODIFIED", known);
            return;
        }
        let object = json!({"apiVersion": "parallax.dev/v1alpha1", "kind": "Preflight", "spec": spec,
            "metadata": {"namespace": namespace, "name": name, "generation": 1, "creationTimestamp": "2026-11-22T10:00:00Z"}});
        held.put("preflights", object);
        let object = held.objects[&place].clone();
        held.changed("ADDED", object);
    }

    /// Deletes an object like `kubectl delete`. There is no garbage collection of its dependents here.
    pub(crate) fn delete_preflight(&self, name: &str) {
        let place = ("preflights".to_owned(), "shop".to_owned(), name.to_owned());
        self.held().remove(&place).unwrap();
    }

    /// Deletes every Pod, as a drain does.
    pub(crate) fn delete_pods(&self) {
        self.held().objects.retain(|(resource, ..), _| resource != "pods");
    }

    /// Returns the status of an object, or null if it does not exist.
    pub(crate) fn status_in(&self, namespace: &str, name: &str) -> Value {
        let place = ("preflights".to_owned(), namespace.to_owned(), name.to_owned());
        let held = self.held();
        held.objects
            .get(&place)
            .map_or(Value::Null, |object| object["status"].clone())
    }

    /// Reports whether an object exists.
    pub(crate) fn has_preflight(&self, name: &str) -> bool {
        let place = ("preflights".to_owned(), "shop".to_owned(), name.to_owned());
        self.held().objects.contains_key(&place)
    }
}
