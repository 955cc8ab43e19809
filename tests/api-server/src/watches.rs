//! Watches: the changes of a resource since a version, each batch followed by a bookmark.

use std::{collections::BTreeMap, convert::Infallible};

use axum::{
    body::{Body, Bytes},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use serde_json::json;

use crate::{lists::selected, store::Shared};

pub(crate) fn watch(
    shared: Shared,
    resource: String,
    namespace: Option<String>,
    query: &BTreeMap<String, String>,
) -> Response {
    let labels = query.get("labelSelector").cloned().unwrap_or_default();
    let from: u64 = query["resourceVersion"].parse().unwrap();
    let (interruptions, oldest) = {
        let mut store = shared.store();
        let selectors = store.selectors.entry(resource.clone()).or_default();
        selectors.insert(labels.clone());
        (store.interruptions, store.oldest)
    };
    if from < oldest {
        let gone = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version", "reason": "Expired", "status": "Failure"}});
        return format!("{gone}\n").into_response();
    }
    let changed = shared.changed.subscribe();
    let lines = stream::unfold((shared, changed, from), move |(shared, mut changed, from)| {
        let (resource, namespace, labels) = (resource.clone(), namespace.clone(), labels.clone());
        async move {
            loop {
                changed.borrow_and_update();
                let (lines, seen) = {
                    let store = shared.store();
                    if store.interruptions > interruptions {
                        return None;
                    }
                    let new = store
                        .log
                        .iter()
                        .filter(|(version, kind, _, object)| {
                            *version > from
                                && *kind == resource
                                && selected(object, namespace.as_deref(), &labels)
                        })
                        .map(|(_, _, what, object)| format!("{}\n", json!({"type": what, "object": object})));
                    (new.collect::<String>(), store.version)
                };
                if seen > from {
                    // A bookmark after any change, also of other resources.
                    let mark = json!({"type": "BOOKMARK", "object": {"kind": "Any", "apiVersion": "v1", "metadata": {"resourceVersion": seen.to_string()}}});
                    let bytes = Bytes::from(format!("{lines}{mark}\n"));
                    return Some((Ok::<_, Infallible>(bytes), (shared, changed, seen)));
                }
                changed.changed().await.ok()?;
            }
        }
    });
    Body::from_stream(lines).into_response()
}
