//! Workloads: Services that select the same Pods are one workload, named by the first of them.

use parallax_model::{PodName, ServiceKey};

use super::Engine;
use crate::topology::Service;

impl Engine {
    /// Returns the first Service, by name, of those that share a Pod or the selector with a Service, itself included. The
    /// selector keeps the workload together while it has no Pods.
    pub(super) fn workload(&self, service: &ServiceKey) -> ServiceKey {
        let services = self.cluster.topology.services();
        let Some(own) = services.get(service) else {
            return service.clone();
        };
        let shares_pod = |other: &Service| {
            let mut pods = other.endpoints.iter().map(|endpoint| &endpoint.pod);
            pods.any(|pod| own.endpoints.iter().any(|endpoint| endpoint.pod == *pod))
        };
        let selects_same = |other: &Service| !own.selector.is_empty() && other.selector == own.selector;
        // Services select Pods of their own namespace.
        let mut beside = services
            .iter()
            .filter(|(key, _)| key.namespace == service.namespace && *key < service);
        let first = beside.find(|(_, other)| selects_same(other) || shares_pod(other));
        first.map_or(service, |(key, _)| key).clone()
    }

    /// Returns the first Service, by name, that selects a Pod.
    pub(super) fn workload_of_pod(&self, pod: &PodName) -> Option<ServiceKey> {
        let services = self.cluster.topology.services().iter();
        let mut selecting =
            services.filter(|(_, service)| service.endpoints.iter().any(|endpoint| endpoint.pod == *pod));
        selecting.next().map(|(key, _)| key.clone())
    }

    /// Reports whether the endpoints of a Service port forward requests for host names to other Pods.
    pub(super) fn forwards_requests(&self, entry: &(ServiceKey, u16)) -> bool {
        let hosts = self.cluster.hosts.get(entry).into_iter().flatten();
        let mut placed = hosts.filter_map(|host| self.cluster.topology.targets().get(host));
        placed.any(|placed| placed.routed)
    }
}
