//! Objects of the API server, one per line, and the topology that is derived from them. Tenants write most of their fields.

use parallax_diagnosis::topology::{Topology, TopologySpec};
use parallax_kubernetes::{
    cluster::ClusterState,
    discovery::{JobServices, NoteCollector, discover},
    objects::{ClusterObject, resource::ResourceKind},
    watch::TargetDefaults,
};
use serde_json::Value;

use crate::work::bounded;

/// Bytes allocated for each byte of an object.
const FACTOR: u64 = 2_048;

fn resource(kind: &str) -> Option<ResourceKind> {
    Some(match kind {
        "Node" => ResourceKind::Nodes,
        "Namespace" => ResourceKind::Namespaces,
        "Service" => ResourceKind::Services,
        "EndpointSlice" => ResourceKind::EndpointSlices,
        "Ingress" => ResourceKind::Ingresses,
        "IngressClass" => ResourceKind::IngressClasses,
        "NetworkPolicy" => ResourceKind::NetworkPolicies,
        "Job" => ResourceKind::Jobs,
        "Pod" => ResourceKind::Pods,
        "Gateway" => ResourceKind::Gateways,
        "HTTPRoute" => ResourceKind::HttpRoutes,
        _ => return None,
    })
}

/// Reads the bytes as lines of JSON.
pub fn check(bytes: &[u8]) {
    let spec = bounded(bytes, FACTOR, |bytes| {
        let mut cluster = ClusterState::default();
        let lines = bytes.split(|byte| *byte == b'\n');
        for value in lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok()) {
            let kind = value["kind"].as_str().and_then(resource);
            if let Some(Ok(object)) = kind.map(|kind| ClusterObject::parse(kind, value)) {
                cluster.put(object);
            }
        }
        let mut notes = NoteCollector::default();
        discover(
            &cluster,
            TargetDefaults::Published,
            &mut JobServices::default(),
            &mut notes,
        )
    });
    let written = serde_json::to_value(&spec).expect("a topology can be serialized");
    let read: TopologySpec = serde_json::from_value(written).expect("a serialized topology can be parsed");
    assert_eq!(read, spec);
    // Contradictions between objects are problems with a path.
    if let Err(problems) = Topology::try_from(spec) {
        assert!(!problems.is_empty());
    }
}
