//! Endpoints of a Service and their ports, from its `EndpointSlice`s.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use parallax_diagnosis::topology::{EndpointSpec, TopologyHints};
use parallax_model::{NodeName, PodName};

use crate::{
    cluster::ClusterState,
    objects::{Endpoint, EndpointHints, EndpointSlice, Key},
};

/// The slices of each Service.
pub(super) type ServiceSlices<'a> = BTreeMap<Key, Vec<&'a EndpointSlice>>;

/// Groups `EndpointSlices` by Service.
pub(super) fn by_service(cluster: &ClusterState) -> ServiceSlices<'_> {
    let mut all: ServiceSlices<'_> = BTreeMap::new();
    for slice in cluster.slices.values() {
        if let Some(service) = slice.metadata.label("kubernetes.io/service-name") {
            let key = Key {
                namespace: slice.metadata.namespace.clone(),
                name: service.to_owned(),
            };
            all.entry(key).or_default().push(slice);
        }
    }
    all
}

/// The endpoints' port number behind a named Service port.
pub(super) fn target_port(slices: &[&EndpointSlice], name: &str) -> Option<u16> {
    slices
        .iter()
        .flat_map(|slice| &slice.ports)
        .filter(|port| port.name == name && is_tcp(&port.protocol))
        .find_map(|port| u16::try_from(port.port?).ok())
}

/// An empty protocol means TCP.
pub(super) fn is_tcp(protocol: &str) -> bool {
    matches!(protocol, "" | "TCP")
}

/// The endpoints of one Service, with each address and each Pod once.
///
/// An address can temporarily be in two slices; a ready entry takes precedence. In a dual-stack Service, a
/// Pod has an address of each family; it becomes one endpoint with the address of the Service's first family.
pub(super) fn endpoints(
    slices: &[&EndpointSlice],
    prefers_v6: Option<bool>,
    nodes: &BTreeSet<&NodeName>,
) -> ServiceEndpoints {
    let mut found: Vec<EndpointSpec> = slices
        .iter()
        .filter(|slice| slice.address_type != "FQDN")
        .flat_map(|slice| &slice.endpoints)
        .flat_map(endpoint_specs)
        .collect();
    // Sort by family, then by readiness; the first entry of each address and Pod is kept.
    let prefers_v6 = prefers_v6.unwrap_or_else(|| found.iter().all(|e| e.address.is_ipv6()));
    found.sort_by_key(|e| {
        (
            e.address.is_ipv6() != prefers_v6,
            !e.ready,
            e.terminating,
            e.address,
            e.pod.clone(),
        )
    });
    let (mut addresses, mut pods) = (BTreeSet::new(), BTreeSet::new());
    found.retain(|e| addresses.insert(e.address) && pods.insert(e.pod.clone()));
    let mut unknown_nodes = BTreeSet::new();
    for endpoint in &mut found {
        if let Some(node) = endpoint.node.take_if(|node| !nodes.contains(node)) {
            unknown_nodes.insert(node);
            // The Pod was removed with its Node. Its endpoint remains until the Pod garbage collector runs,
            // 20 to 40 s later.
            (endpoint.ready, endpoint.serving, endpoint.terminating) = (false, Some(false), true);
        }
    }
    found.sort_by(|a, b| a.pod.cmp(&b.pod));
    ServiceEndpoints {
        endpoints: found,
        unknown_nodes,
    }
}

/// The endpoints of one Service.
#[derive(Debug)]
pub(super) struct ServiceEndpoints {
    pub(super) endpoints: Vec<EndpointSpec>,
    /// Nodes named by endpoints that do not exist (any more). These endpoints are about to be removed.
    pub(super) unknown_nodes: BTreeSet<NodeName>,
}

fn endpoint_specs(endpoint: &Endpoint) -> impl Iterator<Item = EndpointSpec> + '_ {
    let conditions = &endpoint.conditions;
    let terminating = conditions.terminating.unwrap_or(false);
    // A missing `ready` means true, but never while terminating.
    let ready = conditions.ready.unwrap_or(true) && !terminating;
    // The API defines that consumers use only the first address; other addresses were never in use.
    endpoint.addresses.iter().take(1).filter_map(move |text| {
        let address: IpAddr = text.parse().ok()?;
        let pod = Some(endpoint.target_ref.name.as_str())
            .filter(|name| endpoint.target_ref.kind == "Pod" && !name.is_empty())
            .map_or_else(|| PodName::new(address.to_string()), PodName::new)
            .ok()?;
        Some(EndpointSpec {
            pod,
            address,
            node: endpoint.node_name.as_ref().and_then(|name| name.parse().ok()),
            ready,
            serving: conditions.serving,
            terminating,
            hints: hints(&endpoint.hints),
        })
    })
}

fn hints(hints: &EndpointHints) -> TopologyHints {
    TopologyHints {
        for_zones: hints
            .for_zones
            .iter()
            .filter_map(|zone| zone.name.parse().ok())
            .collect(),
        for_nodes: hints
            .for_nodes
            .iter()
            .filter_map(|node| node.name.parse().ok())
            .collect(),
    }
}
