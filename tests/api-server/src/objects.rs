//! Objects and behaviours of the server as a test sets and inspects them.

use std::{collections::BTreeSet, net::SocketAddr};

use serde_json::{Value, json};

use crate::{
    ApiServer,
    store::{Behaviour, key},
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

    /// Changes an object as a controller would; a deleted one stays deleted.
    pub fn amend(&self, resource: &str, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut store = self.store();
        let Some(mut object) = store.objects.get(&key(resource, namespace, name)).cloned() else {
            return;
        };
        change(&mut object);
        store.put(resource, object);
        drop(store);
        self.shared.changed.send_replace(());
    }

    /// Makes a resource exist from now on.
    pub fn define(&self, resource: &str) {
        self.store().absent.remove(resource);
    }

    /// Makes a resource no longer exist.
    pub fn undefine(&self, resource: &str) {
        let mut store = self.store();
        store.absent.insert(resource.to_owned());
        store.objects.retain(|(kind, ..), _| kind != resource);
        drop(store);
        self.interrupt_watches();
    }

    /// Interrupts every watch.
    pub fn interrupt_watches(&self) {
        self.store().interruptions += 1;
        self.shared.changed.send_replace(());
    }

    /// Compacts the history.
    pub fn compact(&self) {
        let mut store = self.store();
        store.oldest = store.version;
    }

    /// Sets the behaviour for a resource (`pods`) or a subresource (`pods/portforward`) from now on.
    pub fn set_behaviour(&self, resource: &str, behaviour: Behaviour) {
        self.store().behaviours.insert(resource.to_owned(), behaviour);
    }

    /// Starts or ends an outage: every request is answered with 500. Open watches stay open.
    pub fn set_unavailable(&self, unavailable: bool) {
        self.store().unavailable = unavailable;
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

    /// Returns how many writes of a resource were rejected as set with [`Self::set_behaviour`].
    #[must_use]
    pub fn rejected_writes(&self, resource: &str) -> u64 {
        self.store().rejected_writes.get(resource).copied().unwrap_or(0)
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
