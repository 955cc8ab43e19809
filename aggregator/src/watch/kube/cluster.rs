//! Everything that was read of a cluster, by kind and key. Cheap to clone: a build works on a copy while events go on.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    objects::{
        EndpointSlice, Gateway, HttpRoute, Ingress, IngressClass, Job, Key, NamespaceMeta, NetworkPolicy,
        Node, Pod, Service, Thing,
    },
    resource::{Resource, Source},
};

/// Objects of one kind.
pub(super) type Shelf<T> = BTreeMap<Key, Arc<T>>;

/// The cluster as last read.
#[derive(Debug, Clone, Default)]
pub(super) struct Cluster {
    pub(super) nodes: Shelf<Node>,
    pub(super) namespaces: Shelf<NamespaceMeta>,
    pub(super) services: Shelf<Service>,
    pub(super) slices: Shelf<EndpointSlice>,
    pub(super) ingresses: Shelf<Ingress>,
    pub(super) classes: Shelf<IngressClass>,
    pub(super) policies: Shelf<NetworkPolicy>,
    pub(super) jobs: Shelf<Job>,
    pub(super) pods: Shelf<Pod>,
    pub(super) gateways: Shelf<Gateway>,
    pub(super) routes: Shelf<HttpRoute>,
    /// Kinds that were listed once: of the others that there are none is not known.
    pub(super) listed: BTreeSet<Resource>,
}

impl Cluster {
    /// Adds or replaces an object; whether that changed anything of use.
    pub(super) fn put(&mut self, thing: Thing) -> bool {
        let key = thing.key();
        match thing {
            // A solver of a challenge lives for minutes and answers for one path: it is no target, and no way to one.
            Thing::Service(object) if object.metadata.is_solver() => self.remove(Resource::Services, &key),
            Thing::Ingress(object) if object.metadata.is_solver() => self.remove(Resource::Ingresses, &key),
            Thing::HttpRoute(object) if object.metadata.is_solver() => {
                self.remove(Resource::HttpRoutes, &key)
            }
            Thing::Node(object) => put(&mut self.nodes, key, object),
            Thing::Namespace(object) => put(&mut self.namespaces, key, object),
            Thing::Service(object) => put(&mut self.services, key, object),
            Thing::EndpointSlice(object) => put(&mut self.slices, key, object),
            Thing::Ingress(object) => put(&mut self.ingresses, key, object),
            Thing::IngressClass(object) => put(&mut self.classes, key, object),
            Thing::NetworkPolicy(object) => put(&mut self.policies, key, object),
            Thing::Job(object) => put(&mut self.jobs, key, object),
            Thing::Pod(object) => put(&mut self.pods, key, object),
            Thing::Gateway(object) => put(&mut self.gateways, key, object),
            Thing::HttpRoute(object) => put(&mut self.routes, key, object),
        }
    }

    /// Forgets an object; whether it was known.
    pub(super) fn remove(&mut self, resource: Resource, key: &Key) -> bool {
        match resource {
            Resource::Nodes => self.nodes.remove(key).is_some(),
            Resource::Namespaces => self.namespaces.remove(key).is_some(),
            Resource::Services => self.services.remove(key).is_some(),
            Resource::EndpointSlices => self.slices.remove(key).is_some(),
            Resource::Ingresses => self.ingresses.remove(key).is_some(),
            Resource::IngressClasses => self.classes.remove(key).is_some(),
            Resource::NetworkPolicies => self.policies.remove(key).is_some(),
            Resource::Jobs => self.jobs.remove(key).is_some(),
            Resource::Pods => self.pods.remove(key).is_some(),
            Resource::Gateways => self.gateways.remove(key).is_some(),
            Resource::HttpRoutes => self.routes.remove(key).is_some(),
        }
    }

    /// Takes a complete list: what is not in it is gone. Whether that changed anything of use.
    pub(super) fn replace(&mut self, source: &Source, things: Vec<Thing>) -> bool {
        self.listed.insert(source.resource);
        let listed: BTreeSet<Key> = things.iter().map(Thing::key).collect();
        let gone: Vec<Key> = self.keys(source).filter(|key| !listed.contains(key)).collect();
        let mut changed = false;
        for key in gone {
            changed |= self.remove(source.resource, &key);
        }
        for thing in things {
            changed |= self.put(thing);
        }
        changed
    }

    /// How many objects of a watch are known.
    pub(super) fn count(&self, source: &Source) -> usize {
        self.keys(source).count()
    }

    fn keys(&self, source: &Source) -> impl Iterator<Item = Key> {
        let keys: Vec<Key> = match source.resource {
            Resource::Nodes => self.nodes.keys().cloned().collect(),
            Resource::Namespaces => self.namespaces.keys().cloned().collect(),
            Resource::Services => self.services.keys().cloned().collect(),
            Resource::EndpointSlices => self.slices.keys().cloned().collect(),
            Resource::Ingresses => self.ingresses.keys().cloned().collect(),
            Resource::IngressClasses => self.classes.keys().cloned().collect(),
            Resource::NetworkPolicies => self.policies.keys().cloned().collect(),
            Resource::Jobs => self.jobs.keys().cloned().collect(),
            Resource::Pods => self.pods.keys().cloned().collect(),
            Resource::Gateways => self.gateways.keys().cloned().collect(),
            Resource::HttpRoutes => self.routes.keys().cloned().collect(),
        };
        keys.into_iter().filter(|key| source.covers(&key.namespace))
    }
}

fn put<T: PartialEq>(shelf: &mut Shelf<T>, key: Key, object: T) -> bool {
    match shelf.get(&key) {
        Some(known) if **known == object => false,
        _ => {
            shelf.insert(key, Arc::new(object));
            true
        }
    }
}
