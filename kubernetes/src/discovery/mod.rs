//! Derives the topology and its targets from the objects of a cluster. Pure: values in, values out.
//!
//! ```text
//! nodes + pods ─▶ nodes        services + slices ─▶ services ─▶ entries (class → Service)
//!                                                        │              │
//!                          ingresses, routes ─▶ claims ─▶ hosts ─▶ published targets
//!                                              balancers, headless, kubernetes.default ─┘
//! ```

mod annotations;
mod endpoints;
mod entries;
mod gateway;
mod hosts;
mod ingress;
mod jobs;
mod nodes;
mod notes;
mod policies;
mod prune;
mod service_targets;
mod services;
mod source_ranges;

use std::collections::{BTreeMap, BTreeSet};

use parallax_diagnosis::topology::{Platform, TopologySpec};
use parallax_model::{ObjectName, ServiceKey};

pub use jobs::JobServices;
pub use notes::NoteCollector;
pub use prune::prune;

use self::{annotations::ProbeAnnotations, entries::IngressEntries, services::ServiceIndex};
use super::cluster::ClusterState;
use crate::watch::TargetDefaults;

/// Derives a topology from the cluster. `job_services` is carried over from one call to the next.
pub fn discover(
    cluster: &ClusterState,
    defaults: TargetDefaults,
    job_services: &mut JobServices,
    notes: &mut NoteCollector,
) -> TopologySpec {
    let machines = nodes::nodes(cluster, notes);
    let vantages = nodes::host_vantages(cluster, &machines);
    let slices = endpoints::by_service(cluster);
    let mut services = ServiceIndex::new(cluster, &slices, &machines, notes);
    job_services.update(cluster, &mut services);
    let wanted = ProbeSelection::new(cluster, defaults, notes);
    let entries = IngressEntries::new(cluster, &services);
    let mut claims = ingress::claims(cluster, &services, &entries, &wanted, notes);
    claims.extend(gateway::claims(cluster, &services, &wanted, notes));
    let mut used: BTreeSet<ServiceKey> = claims.iter().filter_map(|claim| claim.entry.clone()).collect();
    let hosts = hosts::targets(claims, &services, notes);
    for (key, classes) in entries.classes_of() {
        used.insert(key.clone());
        // A Service that serves several classes does not identify any of them.
        if let ([class], Some(found)) = (classes.as_slice(), services.all.get_mut(key)) {
            found.spec.ingress_class = ObjectName::new(*class).ok();
        }
    }
    let mut published = hosts.published;
    published.extend(service_targets::targets(&mut services, &used, &wanted, notes));
    let mut targets = hosts.external;
    targets.extend(service_targets::api_server(&services));
    TopologySpec {
        platform: Platform::Kubernetes,
        nodes: machines,
        services: services.all.into_values().map(|found| found.spec).collect(),
        published,
        targets,
        vantages,
        ..TopologySpec::default()
    }
}

/// Which objects to probe: the object's annotation decides, then that of its namespace, then the defaults.
#[derive(Debug)]
pub(super) struct ProbeSelection<'a> {
    by_default: bool,
    namespaces: BTreeMap<&'a str, bool>,
    /// Namespaces that are being deleted: their Pods are deleted first, while Services and Ingresses remain
    /// for a while.
    terminating: BTreeSet<&'a str>,
}

impl<'a> ProbeSelection<'a> {
    fn new(cluster: &'a ClusterState, defaults: TargetDefaults, notes: &mut NoteCollector) -> Self {
        let namespaces = cluster
            .namespaces
            .values()
            .filter_map(|namespace| {
                let name = namespace.metadata.name.as_str();
                let label = format!("Namespace {name}");
                let wish = annotations::parse_annotations(&label, &namespace.metadata, notes);
                let probe = ProbeAnnotations {
                    probe: wish.probe,
                    ..ProbeAnnotations::default()
                };
                if wish != probe {
                    notes.add(
                        label,
                        "only the annotation parallax.dev/probe is supported on a Namespace",
                    );
                }
                Some((name, wish.probe?))
            })
            .collect();
        let leaving: BTreeSet<&str> = cluster
            .namespaces
            .values()
            .filter(|namespace| namespace.metadata.deletion_timestamp.is_some())
            .map(|namespace| namespace.metadata.name.as_str())
            .collect();
        for namespace in &leaving {
            notes.add(
                format_args!("Namespace {namespace}"),
                "it is being deleted; its objects are not probed",
            );
        }
        Self {
            by_default: defaults == TargetDefaults::Published,
            namespaces,
            terminating: leaving,
        }
    }

    /// The explicit choice for an object, if there is one.
    fn explicit_choice(&self, wish: &ProbeAnnotations, namespace: &str) -> Option<bool> {
        if self.terminating.contains(namespace) {
            return Some(false);
        }
        wish.probe.or_else(|| self.namespaces.get(namespace).copied())
    }

    /// Whether to probe an object that is a target by default.
    fn is_target(&self, wish: &ProbeAnnotations, namespace: &str) -> bool {
        self.explicit_choice(wish, namespace).unwrap_or(self.by_default)
    }
}

#[cfg(test)]
mod tests;
