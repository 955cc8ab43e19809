//! Objects by name, paginated lists, and the discovery of API groups.

use std::collections::BTreeMap;

use axum::response::Response;
use serde_json::{Value, json};

use crate::{
    responses::{object, object_not_found, resource_not_found},
    store::{Shared, key},
};

/// Reports whether an object is in a namespace (or any, if none is given) and has the labels (`a=b,c`); set
/// requirements (`a in (b,c)`) are ignored.
pub(crate) fn selected(object: &Value, namespace: Option<&str>, labels: &str) -> bool {
    let meta = &object["metadata"];
    let here = namespace.is_none_or(|namespace| meta["namespace"] == namespace);
    // Text in parentheses is a set, which contains commas itself.
    let outside: String = labels
        .split(')')
        .filter_map(|part| part.split('(').next())
        .collect();
    let mut labels = outside
        .split(',')
        .filter(|label| !label.is_empty() && !label.contains(' '));
    here && labels.all(|label| match label.split_once('=') {
        Some((name, value)) => meta["labels"][name] == value,
        None => meta["labels"][label].is_string(),
    })
}

/// Lists the resources of an optional API group. Every account may request that.
pub(crate) fn discovery(shared: &Shared, group: &str) -> Response {
    let kinds: &[&str] = match group {
        "cert-manager.io" => &["certificates", "issuers", "clusterissuers"],
        "acme.cert-manager.io" => &["challenges"],
        "gateway.networking.k8s.io" => &["gateways", "httproutes"],
        _ => &[],
    };
    let store = shared.store();
    let there = kinds.iter().filter(|kind| !store.absent.contains(**kind));
    let resources: Vec<Value> = there
        .map(|kind| json!({"name": kind, "singularName": "", "namespaced": true, "kind": "Kind", "verbs": ["list", "watch"]}))
        .collect();
    if resources.is_empty() {
        return resource_not_found();
    }
    object(
        &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/v1"), "resources": resources}),
    )
}

pub(crate) fn object_by_name(shared: &Shared, resource: &str, namespace: &str, name: &str) -> Response {
    let store = shared.store();
    store
        .objects
        .get(&key(resource, namespace, name))
        .map_or_else(object_not_found, object)
}

pub(crate) fn list(
    shared: &Shared,
    resource: &str,
    namespace: Option<&str>,
    query: &BTreeMap<String, String>,
) -> Response {
    let labels = query.get("labelSelector").map_or("", String::as_str);
    let from: usize = query.get("continue").map_or(0, |token| token.parse().unwrap());
    let mut store = shared.store();
    let size = if query.contains_key("limit") {
        store.page_size
    } else {
        usize::MAX
    };
    if from == 0 {
        *store.lists.entry(resource.to_owned()).or_default() += 1;
        let selectors = store.selectors.entry(resource.to_owned()).or_default();
        selectors.insert(labels.to_owned());
    }
    let all: Vec<&Value> = store
        .objects
        .iter()
        .filter(|((kind, ..), object)| kind == resource && selected(object, namespace, labels))
        .map(|(_, object)| object)
        .collect();
    let next = from.saturating_add(size);
    let more = (next < all.len()).then(|| next.to_string());
    let page: Vec<&Value> = all.into_iter().skip(from).take(size).collect();
    // Go serializes some empty lists as null.
    let items = if page.is_empty() { Value::Null } else { json!(page) };
    object(&json!({
        "kind": "List", "apiVersion": "v1",
        "metadata": {"resourceVersion": store.version.to_string(), "continue": more},
        "items": items,
    }))
}
