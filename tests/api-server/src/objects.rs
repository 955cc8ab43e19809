//! Objects of the server as a test sets and inspects them.

use std::{collections::BTreeSet, net::SocketAddr};

use serde_json::{Value, json};

use crate::{
    ApiServer,
    store::{CREATION_TIMESTAMP, key},
};

impl ApiServer {
    /// Applies every object of a YAML list; Pods get the labels of probers.
    pub fn apply(&self, yaml: &str) {
        let objects: Vec<Value> = serde_saphyr::from_str(yaml).unwrap();
        for mut object in objects {
            let kind = object["kind"].as_str().unwrap().to_lowercase();
            if kind == "pod" {
                object["metadata"]["labels"] = prober_labels();
            }
            let plural = if kind.ends_with('s') {
                format!("{kind}es")
            } else {
                format!("{kind}s")
            };
            self.put(&plural, object);
        }
    }

    /// Creates or replaces an object, and notifies watches.
    pub fn put(&self, resource: &str, object: Value) {
        self.store().put(resource, object);
        self.shared.changed.send_replace(());
    }

    /// Creates a custom resource or changes its spec, as `kubectl apply` does. A new object gets a UID and generation 1; a
    /// different spec increments the generation, the same one changes nothing.
    pub fn apply_spec(&self, resource: &str, mut object: Value) {
        let mut store = self.store();
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let known = store.objects.get(&key(resource, &namespace, &name)).cloned();
        if let Some(mut known) = known {
            if known["spec"] == object["spec"] {
                return;
            }
            let generation = known["metadata"]["generation"].as_i64().unwrap();
            known["metadata"]["generation"] = (generation + 1).into();
            known["spec"] = object["spec"].take();
            object = known;
        } else {
            object["metadata"]["uid"] = store.new_uid();
            object["metadata"]["generation"] = 1.into();
            object["metadata"]["creationTimestamp"] = CREATION_TIMESTAMP.into();
        }
        store.put(resource, object);
        drop(store);
        self.shared.changed.send_replace(());
    }

    /// Creates a running prober Pod `prober-UID` of a `ServiceAccount` (`NAMESPACE/NAME`) on a node.
    pub fn put_prober_pod(&self, account: &str, uid: &str, node: &str) {
        let (namespace, name) = account.split_once('/').unwrap();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("prober-{uid}"), "namespace": namespace, "uid": uid, "labels": prober_labels()},
            "spec": {"containers": [], "serviceAccountName": name, "nodeName": node},
            "status": {"phase": "Running"},
        });
        self.put("pods", pod);
    }

    /// Deletes an object, and notifies watches.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) {
        self.store().delete(resource, namespace, name);
        self.shared.changed.send_replace(());
    }

    /// Returns the current state of an object.
    #[must_use]
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.store().objects.get(&key(resource, namespace, name)).cloned()
    }

    /// Returns all objects of a resource.
    #[must_use]
    pub fn all(&self, resource: &str) -> Vec<Value> {
        let store = self.store();
        let of_kind = store.objects.iter().filter(|((kind, ..), _)| kind == resource);
        of_kind.map(|(_, object)| object.clone()).collect()
    }

    /// Returns resource and object of each creation by a client, as sent.
    #[must_use]
    pub fn created(&self) -> Vec<(String, Value)> {
        self.store().created.clone()
    }

    /// Returns resource and name (`pods/web`) of every object with this label.
    #[must_use]
    pub fn labelled(&self, label: &str) -> Vec<String> {
        let store = self.store();
        let labelled = store
            .objects
            .iter()
            .filter(|(_, object)| object["metadata"]["labels"][label].is_string());
        labelled
            .map(|((resource, _, name), _)| format!("{resource}/{name}"))
            .collect()
    }

    /// Changes an object as a controller would; a deleted one stays deleted.
    pub fn amend(&self, resource: &str, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) {
        self.store().amend(resource, namespace, name, change);
        self.shared.changed.send_replace(());
    }

    /// Sets the number of objects per page of lists with a limit.
    pub fn set_page_size(&self, page_size: usize) {
        self.store().page_size = page_size;
    }

    /// Forwards the ports of all Pods to this address.
    pub fn forward_ports_to(&self, target: SocketAddr) {
        self.store().forward_target = Some(target);
    }

    /// Returns the ports of Pods that clients have forwarded.
    #[must_use]
    pub fn forwarded_ports(&self) -> BTreeSet<u16> {
        self.store().forwarded_ports.clone()
    }

    /// Returns how often a resource has been listed.
    #[must_use]
    pub fn list_pages(&self, resource: &str) -> u64 {
        self.store().lists.get(resource).copied().unwrap_or(0)
    }

    /// Returns the label selectors with which a resource has been listed or watched.
    #[must_use]
    pub fn label_selectors(&self, resource: &str) -> BTreeSet<String> {
        self.store().selectors.get(resource).cloned().unwrap_or_default()
    }

    /// Returns the credential of the last request (`Authorization`).
    #[must_use]
    pub fn last_credential(&self) -> Option<String> {
        self.store().last_credential.clone()
    }
}

fn prober_labels() -> Value {
    json!({"app.kubernetes.io/name": "parallax", "app.kubernetes.io/component": "prober"})
}
