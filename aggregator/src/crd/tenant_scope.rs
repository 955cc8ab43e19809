//! The addresses that the Targets of a namespace may connect to.

use std::net::IpAddr;

use parallax_diagnosis::topology::{ServiceSpec, Topology};
use parallax_model::{AddressRange, Scope};

use super::tenant_options::TenantOptions;

/// The shortest prefixes that are taken for a Service network. With several `ServiceCIDR` objects (KEP-1880), a prefix
/// that covers all of them could cover the internet.
const MIN_SERVICE_PREFIX: (u32, u32) = (8, 32);

/// Returns the scope of the Targets of a namespace: that of a run, without the nodes, whose addresses also serve the
/// kubelet, and without the cluster addresses of other namespaces' Services.
pub(super) fn tenant_scope(
    topology: &Topology,
    of_runs: &Scope,
    options: &TenantOptions,
    namespace: &str,
) -> Scope {
    let services = &topology.spec().services;
    let is_api = |service: &ServiceSpec| {
        service.namespace.as_str() == "default" && service.name.as_str() == "kubernetes"
    };
    let is_own = |service: &&ServiceSpec| service.namespace.as_str() == namespace && !is_api(service);
    let addresses = |service: &ServiceSpec| service.cluster_ips.clone();
    let all: Vec<IpAddr> = services.iter().flat_map(addresses).collect();
    let own: Vec<IpAddr> = services.iter().filter(is_own).flat_map(addresses).collect();
    let nodes = topology.nodes().values().flat_map(|node| node.addresses.clone());

    let mut refuse = of_runs.refuse.clone();
    refuse.extend(nodes.map(AddressRange::from_address));
    refuse.extend(service_ranges(&all, &own));
    let mut allow = of_runs.allow.clone();
    allow.extend(own.into_iter().map(AddressRange::from_address));
    allow.extend_from_slice(options.allowed_addresses(namespace));
    for ranges in [&mut refuse, &mut allow] {
        ranges.sort_unstable();
        ranges.dedup();
    }
    Scope { refuse, allow }
}

/// The ranges that contain the cluster addresses: one per family, so that the rule of a target stays small in a cluster
/// with thousands of Services.
fn service_ranges(all: &[IpAddr], own: &[IpAddr]) -> Vec<AddressRange> {
    let mut ranges = Vec::new();
    for v4 in [true, false] {
        let (shortest, width) = if v4 {
            (MIN_SERVICE_PREFIX.0, 32)
        } else {
            (MIN_SERVICE_PREFIX.1, 128)
        };
        let family: Vec<IpAddr> = all.iter().copied().filter(|a| a.is_ipv4() == v4).collect();
        let Some(first) = family.first() else { continue };
        let differing = family
            .iter()
            .fold(0, |bits, address| bits | (to_bits(*address) ^ to_bits(*first)));
        let prefix = width - (u128::BITS - differing.leading_zeros());
        let range = format!("{first}/{prefix}").parse();
        match range {
            Ok(range) if prefix >= shortest => ranges.push(range),
            _ => ranges.extend(
                family
                    .iter()
                    .filter(|address| !own.contains(address))
                    .map(|address| AddressRange::from_address(*address)),
            ),
        }
    }
    ranges
}

fn to_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

#[cfg(test)]
mod tests {
    use parallax_model::ReservedRange;
    use serde_json::json;

    use super::*;
    use crate::crd::NamespaceException;

    fn topology() -> Topology {
        let service = |namespace: &str, name: &str, address: &str| {
            json!({"namespace": namespace, "name": name, "type": "ClusterIP", "clusterIPs": [address],
                   "ports": [{"port": 80, "targetPort": 8080}]})
        };
        let spec = json!({
            "nodes": [{"name": "n1", "addresses": ["192.168.1.11", "fd00:1::11"]}],
            "services": [
                service("default", "kubernetes", "10.96.0.1"),
                service("shop", "web", "10.96.0.50"),
                service("bank", "vault", "10.97.4.3"),
            ],
        });
        Topology::try_from(
            serde_json::from_value::<parallax_diagnosis::topology::TopologySpec>(spec).unwrap(),
        )
        .unwrap()
    }

    fn refused(namespace: &str, options: &TenantOptions, address: &str) -> bool {
        let scope = tenant_scope(&topology(), &Scope::default(), options, namespace);
        scope.refusal(address.parse().unwrap()).is_some()
    }

    #[test]
    fn a_namespace_reaches_its_own_services_and_no_node_no_other_service_and_no_api_server() {
        let options = TenantOptions::default();
        for (address, expected) in [
            ("10.96.0.50", false),
            ("10.97.4.3", true),
            ("10.96.0.1", true),
            // Of the Service network, but of no Service that is known yet.
            ("10.96.7.7", true),
            ("192.168.1.11", true),
            ("fd00:1::11", true),
            ("::ffff:192.168.1.11", true),
            ("169.254.169.254", true),
            // A balancer on a private address of the same network as the nodes.
            ("192.168.1.240", false),
            ("203.0.113.10", false),
        ] {
            assert_eq!(refused("shop", &options, address), expected, "{address}");
        }
        assert!(
            refused("default", &options, "10.96.0.1"),
            "the API server is no Service of a tenant"
        );
    }

    #[test]
    fn the_operator_allows_addresses_by_namespace() {
        let mut options = TenantOptions::default();
        options.namespaces.insert(
            "monitoring".to_owned(),
            NamespaceException {
                allow: vec!["10.96.0.0/12".parse().unwrap(), "192.168.1.0/24".parse().unwrap()],
                ..NamespaceException::default()
            },
        );
        assert!(
            !refused("monitoring", &options, "10.97.4.3") && !refused("monitoring", &options, "192.168.1.11")
        );
        assert!(
            refused("shop", &options, "10.97.4.3"),
            "the exception is of one namespace"
        );
    }

    #[test]
    fn service_networks_too_far_apart_are_refused_address_by_address() {
        let all: Vec<IpAddr> = ["10.96.0.1", "203.0.113.7"].map(|a| a.parse().unwrap()).to_vec();
        let scope = Scope {
            refuse: service_ranges(&all, &[]),
            allow: Vec::new(),
        };
        assert_eq!(scope.refusal(all[1]), Some(ReservedRange::Listed));
        assert_eq!(scope.refusal("198.51.100.1".parse().unwrap()), None);
    }
}
