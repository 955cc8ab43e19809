//! Pods in the namespaces of the suite. While the API server is unavailable, the last known state is kept.

use std::{cell::RefCell, collections::BTreeMap, net::IpAddr, time::Duration};

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::{Api, Client, ResourceExt, api::ListParams};
use tokio::time::timeout;

/// Timeout of one list request.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);

/// The properties of a Pod that the suite uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodView {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its node, once it is bound.
    pub node: String,
    /// Its address, once it has one.
    pub address: Option<IpAddr>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Whether its readiness probes pass.
    pub ready: bool,
    /// Whether it is terminating.
    pub terminating: bool,
    /// Whether it is running.
    pub running: bool,
    /// Id of its first container in the runtime, without the runtime's name.
    pub container: String,
    /// Restarts of its first container.
    pub restarts: i32,
    /// `Running`, `Pending`, `Failed` …
    pub phase: String,
    /// Ports that its containers declare.
    pub ports: Vec<Port>,
}

/// A port that a container declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The container.
    pub container: String,
    /// The port's name.
    pub name: String,
    /// The port.
    pub number: i32,
}

impl PodView {
    /// Reports whether it has all of these labels, as `a=b,c=d`.
    #[must_use]
    pub fn matches_labels(&self, selector: &str) -> bool {
        selector.split(',').filter(|part| !part.is_empty()).all(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            self.labels.get(key).is_some_and(|actual| actual == value)
        })
    }
}

/// A list of pods, renewed by [`Pods::refresh`].
pub struct Pods {
    client: Client,
    namespaces: RefCell<Vec<String>>,
    known: RefCell<Vec<PodView>>,
}

impl Pods {
    pub(super) const fn new(client: Client) -> Self {
        Self {
            client,
            namespaces: RefCell::new(Vec::new()),
            known: RefCell::new(Vec::new()),
        }
    }

    /// Includes a namespace from now on.
    pub fn include_namespace(&self, namespace: &str) {
        let mut namespaces = self.namespaces.borrow_mut();
        if !namespaces.iter().any(|known| known == namespace) {
            namespaces.push(namespace.to_owned());
        }
    }

    /// Lists the Pods once; returns false if the API server does not respond.
    pub async fn refresh(&self) -> bool {
        let namespaces = self.namespaces.borrow().clone();
        let mut found = Vec::new();
        for namespace in namespaces {
            let api = Api::<Pod>::namespaced(self.client.clone(), &namespace);
            match timeout(LIST_TIMEOUT, api.list(&ListParams::default())).await {
                Ok(Ok(list)) => found.extend(list.items.iter().map(view)),
                _ => return false,
            }
        }
        *self.known.borrow_mut() = found;
        true
    }

    /// Returns all known Pods.
    #[must_use]
    pub fn all(&self) -> Vec<PodView> {
        self.known.borrow().clone()
    }

    /// Returns the running Pods of a namespace with these labels, by node and name.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str, selector: &str) -> Vec<PodView> {
        let known = self.known.borrow();
        let mut found: Vec<PodView> = known
            .iter()
            .filter(|pod| pod.namespace == namespace && pod.matches_labels(selector))
            .filter(|pod| pod.running || pod.address.is_none())
            .cloned()
            .collect();
        found.sort_by(|a, b| (&a.node, &a.name).cmp(&(&b.node, &b.name)));
        found
    }

    /// Returns the Pod with an address, if known.
    #[must_use]
    pub fn with_address(&self, address: IpAddr) -> Option<PodView> {
        let known = self.known.borrow();
        known
            .iter()
            .find(|pod| pod.address == Some(address) && pod.running)
            .cloned()
    }
}

fn view(pod: &Pod) -> PodView {
    let status = pod.status.as_ref();
    let conditions = status
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    let containers = status
        .and_then(|status| status.container_statuses.as_deref())
        .unwrap_or_default();
    let first = containers.first();
    let container = first
        .and_then(|first| first.container_id.as_deref())
        .unwrap_or_default();
    let phase = status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default();
    PodView {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        node: pod
            .spec
            .as_ref()
            .and_then(|spec| spec.node_name.clone())
            .unwrap_or_default(),
        address: status.and_then(|status| status.pod_ip.as_deref()?.parse().ok()),
        labels: pod.labels().clone(),
        ready: conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True"),
        terminating: pod.metadata.deletion_timestamp.is_some(),
        running: phase == "Running",
        container: container
            .rsplit_once("://")
            .map_or(container, |(_, id)| id)
            .to_owned(),
        restarts: first.map_or(0, |first| first.restart_count),
        phase: phase.to_owned(),
        ports: pod
            .spec
            .iter()
            .flat_map(|spec| &spec.containers)
            .flat_map(ports)
            .collect(),
    }
}

fn ports(container: &Container) -> impl Iterator<Item = Port> {
    let declared = container.ports.iter().flatten();
    declared.map(|port| Port {
        container: container.name.clone(),
        name: port.name.clone().unwrap_or_default(),
        number: port.container_port,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_read_and_selected_by_all_of_its_labels() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "shop-1", "namespace": "shop", "labels": {"app": "shop", "tier": "web"}},
            "spec": {"nodeName": "n1", "containers": [{"name": "app", "ports": [{"name": "http", "containerPort": 8080}]}]},
            "status": {"phase": "Running", "podIP": "10.244.1.7",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "app", "ready": true, "restartCount": 2, "image": "", "imageID": "",
                    "containerID": "containerd://0a1b"}]},
        }))
        .unwrap();
        let view = view(&pod);
        assert!(view.ready && view.running && !view.terminating);
        assert_eq!((view.container.as_str(), view.restarts), ("0a1b", 2));
        assert_eq!(
            (view.ports[0].name.as_str(), view.ports[0].number),
            ("http", 8080)
        );
        assert!(view.matches_labels("app=shop,tier=web"));
        assert!(!view.matches_labels("app=shop,tier=db"));
    }
}
