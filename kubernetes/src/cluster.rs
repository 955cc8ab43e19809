//! The observed objects of a cluster by kind and key. Cheap to clone: the topology is built from a copy while
//! events continue to arrive.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    objects::resource::{ResourceKind, WatchSource},
    objects::{
        ClusterObject, EndpointSlice, Gateway, HttpRoute, Ingress, IngressClass, Job, Key, NamespaceMeta,
        NetworkPolicy, Node, Pod, Service,
    },
};

/// Objects of one kind.
pub(super) type ObjectMap<T> = BTreeMap<Key, Arc<T>>;

/// The last observed state of a cluster.
#[derive(Debug, Clone, Default)]
pub struct ClusterState {
    pub(super) nodes: ObjectMap<Node>,
    pub(super) namespaces: ObjectMap<NamespaceMeta>,
    pub(super) services: ObjectMap<Service>,
    pub(super) slices: ObjectMap<EndpointSlice>,
    pub(super) ingresses: ObjectMap<Ingress>,
    pub(super) classes: ObjectMap<IngressClass>,
    pub(super) policies: ObjectMap<NetworkPolicy>,
    pub(super) jobs: ObjectMap<Job>,
    pub(super) pods: ObjectMap<Pod>,
    pub(super) gateways: ObjectMap<Gateway>,
    pub(super) routes: ObjectMap<HttpRoute>,
    /// Kinds whose first list is complete. For other kinds, an empty map does not mean that there are no
    /// objects.
    pub(super) listed: BTreeSet<ResourceKind>,
}

impl ClusterState {
    /// Adds or replaces an object. Returns whether a relevant field changed.
    pub fn put(&mut self, object: ClusterObject) -> bool {
        let key = object.key();
        match object {
            // A solver of an ACME challenge exists for minutes and serves one path, so it is neither a target
            // nor an entry.
            ClusterObject::Service(object) if object.metadata.is_solver() => {
                self.remove(ResourceKind::Services, &key)
            }
            ClusterObject::Ingress(object) if object.metadata.is_solver() => {
                self.remove(ResourceKind::Ingresses, &key)
            }
            ClusterObject::HttpRoute(object) if object.metadata.is_solver() => {
                self.remove(ResourceKind::HttpRoutes, &key)
            }
            ClusterObject::Node(object) => put(&mut self.nodes, key, object),
            ClusterObject::Namespace(object) => put(&mut self.namespaces, key, object),
            ClusterObject::Service(object) => put(&mut self.services, key, object),
            ClusterObject::EndpointSlice(object) => put(&mut self.slices, key, object),
            ClusterObject::Ingress(object) => put(&mut self.ingresses, key, object),
            ClusterObject::IngressClass(object) => put(&mut self.classes, key, object),
            ClusterObject::NetworkPolicy(object) => put(&mut self.policies, key, object),
            ClusterObject::Job(object) => put(&mut self.jobs, key, object),
            ClusterObject::Pod(object) => put(&mut self.pods, key, object),
            ClusterObject::Gateway(object) => put(&mut self.gateways, key, object),
            ClusterObject::HttpRoute(object) => put(&mut self.routes, key, object),
        }
    }

    /// Removes an object. Returns whether it was known.
    pub fn remove(&mut self, resource: ResourceKind, key: &Key) -> bool {
        match resource {
            ResourceKind::Nodes => self.nodes.remove(key).is_some(),
            ResourceKind::Namespaces => self.namespaces.remove(key).is_some(),
            ResourceKind::Services => self.services.remove(key).is_some(),
            ResourceKind::EndpointSlices => self.slices.remove(key).is_some(),
            ResourceKind::Ingresses => self.ingresses.remove(key).is_some(),
            ResourceKind::IngressClasses => self.classes.remove(key).is_some(),
            ResourceKind::NetworkPolicies => self.policies.remove(key).is_some(),
            ResourceKind::Jobs => self.jobs.remove(key).is_some(),
            ResourceKind::Pods => self.pods.remove(key).is_some(),
            ResourceKind::Gateways => self.gateways.remove(key).is_some(),
            ResourceKind::HttpRoutes => self.routes.remove(key).is_some(),
        }
    }

    /// Applies a complete list, removing objects that it does not contain. Returns whether a relevant field
    /// changed.
    pub fn replace(&mut self, source: &WatchSource, objects: Vec<ClusterObject>) -> bool {
        self.listed.insert(source.resource);
        let listed: BTreeSet<Key> = objects.iter().map(ClusterObject::key).collect();
        let gone: Vec<Key> = self.keys(source).filter(|key| !listed.contains(key)).collect();
        let mut changed = false;
        for key in gone {
            changed |= self.remove(source.resource, &key);
        }
        for object in objects {
            changed |= self.put(object);
        }
        changed
    }

    /// Returns the number of known objects of a watch.
    #[must_use]
    pub fn count(&self, source: &WatchSource) -> usize {
        self.keys(source).count()
    }

    fn keys(&self, source: &WatchSource) -> impl Iterator<Item = Key> {
        let keys: Vec<Key> = match source.resource {
            ResourceKind::Nodes => self.nodes.keys().cloned().collect(),
            ResourceKind::Namespaces => self.namespaces.keys().cloned().collect(),
            ResourceKind::Services => self.services.keys().cloned().collect(),
            ResourceKind::EndpointSlices => self.slices.keys().cloned().collect(),
            ResourceKind::Ingresses => self.ingresses.keys().cloned().collect(),
            ResourceKind::IngressClasses => self.classes.keys().cloned().collect(),
            ResourceKind::NetworkPolicies => self.policies.keys().cloned().collect(),
            ResourceKind::Jobs => self.jobs.keys().cloned().collect(),
            ResourceKind::Pods => self.pods.keys().cloned().collect(),
            ResourceKind::Gateways => self.gateways.keys().cloned().collect(),
            ResourceKind::HttpRoutes => self.routes.keys().cloned().collect(),
        };
        keys.into_iter().filter(|key| source.covers(&key.namespace))
    }
}

fn put<T: PartialEq>(objects: &mut ObjectMap<T>, key: Key, object: T) -> bool {
    match objects.get(&key) {
        Some(known) if **known == object => false,
        _ => {
            objects.insert(key, Arc::new(object));
            true
        }
    }
}
