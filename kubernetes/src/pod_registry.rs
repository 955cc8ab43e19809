//! Index of prober Pods by UID, used to resolve token owners. It is fed by the same watch as the topology, so
//! both know the same Pods.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parallax_model::Network;
use parking_lot::RwLock;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    objects::resource::WatchSource,
    objects::{ClusterObject, Key, Pod},
};
use crate::{
    api_client::ApiClient,
    prober_pods::{PodLookup, ProberPod, ProberPods},
    watch::{PROBER_SELECTOR, QUEUE_CAPACITY, Reflector, WatchTiming, WatchUpdate},
};

/// Index of prober Pods by UID. Lookups happen on every request and are answered from memory.
#[derive(Debug)]
pub struct PodRegistry {
    namespaces: Vec<Arc<str>>,
    index: RwLock<PodIndex>,
}

#[derive(Debug, Default)]
struct PodIndex {
    by_uid: BTreeMap<String, ProberPod>,
    uids: BTreeMap<Key, String>,
    /// Namespaces whose first list is complete.
    listed: BTreeSet<Arc<str>>,
}

impl PodRegistry {
    /// Creates an empty index of the Pods in these namespaces.
    pub fn new<'a>(namespaces: impl IntoIterator<Item = &'a str>) -> Self {
        let namespaces: BTreeSet<Arc<str>> = namespaces.into_iter().map(Arc::from).collect();
        Self {
            namespaces: namespaces.into_iter().collect(),
            index: RwLock::default(),
        }
    }

    /// Applies an update of a watch.
    pub fn apply(&self, source: &WatchSource, update: &WatchUpdate<ClusterObject>) {
        match update {
            WatchUpdate::Listed(objects, _) => {
                let mut known = self.index.write();
                let mut gone = known.uids.clone();
                gone.retain(|key, _| source.covers(&key.namespace));
                for object in objects {
                    if let ClusterObject::Pod(pod) = object {
                        known.put(pod);
                        gone.remove(&pod.metadata.key());
                    }
                }
                for key in gone.keys() {
                    known.remove(key);
                }
                known.listed.extend(source.namespace.clone());
            }
            WatchUpdate::Applied(object) => {
                if let ClusterObject::Pod(pod) = &**object {
                    self.index.write().put(pod);
                }
            }
            WatchUpdate::Deleted(key) => self.index.write().remove(key),
            // The known Pods stay.
            WatchUpdate::Unreadable | WatchUpdate::Live | WatchUpdate::Absent | WatchUpdate::Failed(_) => {}
        }
    }
}

impl PodIndex {
    fn put(&mut self, pod: &Pod) {
        let key = pod.metadata.key();
        self.remove(&key);
        if let Some(prober) = running_prober(pod).filter(|_| !pod.metadata.uid.is_empty()) {
            self.uids.insert(key, pod.metadata.uid.clone());
            self.by_uid.insert(pod.metadata.uid.clone(), prober);
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(uid) = self.uids.remove(key) {
            self.by_uid.remove(&uid);
        }
    }
}

impl ProberPods for PodRegistry {
    fn find(&self, uid: &str) -> PodLookup {
        let known = self.index.read();
        match known.by_uid.get(uid) {
            Some(pod) => PodLookup::Known(pod.clone()),
            None if known.listed.len() < self.namespaces.len() => PodLookup::NotSynced,
            None => PodLookup::Unknown,
        }
    }
}

/// Converts a Pod that is scheduled and has not ended.
fn running_prober(pod: &Pod) -> Option<ProberPod> {
    if matches!(pod.status.phase.as_str(), "Succeeded" | "Failed") {
        return None;
    }
    Some(ProberPod {
        name: pod.metadata.name.parse().ok()?,
        node: pod.spec.node_name.parse().ok()?,
        network: if pod.spec.host_network {
            Network::Host
        } else {
            Network::Pod
        },
    })
}

/// Maintains the index with watches of its own, until cancelled. Used if the topology does not come from the
/// cluster.
pub async fn follow_pods(client: ApiClient, registry: Arc<PodRegistry>, cancelled: CancellationToken) {
    let (out, mut updates) = mpsc::channel(QUEUE_CAPACITY);
    let mut reflectors = JoinSet::new();
    for namespace in &registry.namespaces {
        let reflector = Reflector {
            client: client.0.clone(),
            source: WatchSource::pods(namespace),
            label_selector: Some(PROBER_SELECTOR.to_owned()),
            timing: WatchTiming::default(),
            updates: out.clone(),
        };
        reflectors.spawn(reflector.run());
    }
    drop(out);
    let keeping = async {
        while let Some((source, update)) = updates.recv().await {
            registry.apply(&source, &update);
        }
    };
    cancelled.run_until_cancelled(keeping).await;
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::objects::resource::ResourceKind;

    fn pod(namespace: &str, uid: &str, more: &Value) -> ClusterObject {
        let mut pod = json!({
            "metadata": {"namespace": namespace, "name": format!("prober-{uid}"), "uid": uid},
            "spec": {"nodeName": "n1"},
            "status": {"phase": "Running"},
        });
        let sections = pod.as_object_mut().unwrap();
        for (section, fields) in more.as_object().unwrap() {
            sections[section]
                .as_object_mut()
                .unwrap()
                .extend(fields.as_object().unwrap().clone());
        }
        ClusterObject::parse(ResourceKind::Pods, pod).unwrap()
    }

    fn known(registry: &PodRegistry, uid: &str) -> Option<Network> {
        match registry.find(uid) {
            PodLookup::Known(pod) => Some(pod.network),
            PodLookup::Unknown | PodLookup::NotSynced => None,
        }
    }

    #[test]
    fn a_pod_counts_from_its_node_to_its_end_in_the_network_it_is_in() {
        let registry = PodRegistry::new(["a"]);
        let source = WatchSource::pods(&"a".into());
        let put =
            |more: Value| registry.apply(&source, &WatchUpdate::Applied(Box::new(pod("a", "x", &more))));
        put(json!({"spec": {"nodeName": ""}, "status": {"phase": "Pending"}}));
        assert_eq!(known(&registry, "x"), None);
        put(json!({"status": {"phase": "Pending"}}));
        assert_eq!(known(&registry, "x"), Some(Network::Pod));
        put(json!({"spec": {"hostNetwork": true}}));
        assert_eq!(known(&registry, "x"), Some(Network::Host));
        put(json!({"status": {"phase": "Failed"}}));
        assert_eq!(known(&registry, "x"), None);
    }

    #[test]
    fn a_pod_of_the_same_name_is_another_one() {
        let registry = PodRegistry::new(["a"]);
        let source = WatchSource::pods(&"a".into());
        for uid in ["old", "new"] {
            let named = pod("a", uid, &json!({"metadata": {"name": "prober"}}));
            registry.apply(&source, &WatchUpdate::Applied(Box::new(named)));
        }
        assert_eq!(
            (known(&registry, "old"), known(&registry, "new")),
            (None, Some(Network::Pod))
        );
    }

    #[test]
    fn a_uid_is_unknown_only_after_every_namespace_was_listed() {
        let registry = PodRegistry::new(["a", "b"]);
        let list = |namespace: &str, objects| {
            registry.apply(
                &WatchSource::pods(&namespace.into()),
                &WatchUpdate::Listed(objects, 0),
            );
        };
        list("a", vec![pod("a", "x", &json!({}))]);
        assert_eq!(known(&registry, "x"), Some(Network::Pod));
        assert_eq!(registry.find("z"), PodLookup::NotSynced);
        list("b", Vec::new());
        assert_eq!(registry.find("z"), PodLookup::Unknown);
        assert_eq!(known(&registry, "x"), Some(Network::Pod));
        list("a", Vec::new());
        assert_eq!(registry.find("x"), PodLookup::Unknown);
    }
}
