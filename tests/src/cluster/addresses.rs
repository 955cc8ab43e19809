//! The lab's addresses and names: the contract that `docs/contributing/lab.md` documents.

use std::net::{Ipv4Addr, Ipv6Addr};

use parallax_model::NodeName;

/// Maximum number of nodes of a lab: there is one CPU, and a prober on each node.
pub const MAX_NODES: usize = 16;

/// CIDR of all Pods.
pub const POD_CIDR: &str = "10.244.0.0/16";

/// CIDR of all ClusterIPs.
pub const SERVICE_CIDR: &str = "10.96.0.0/12";

/// `ClusterIP` of the cluster's resolver.
pub const DNS_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);

/// The resolver's Service, as CoreDNS's manifests name it.
pub const DNS_SERVICE_KEY: &str = "kube-system/kube-dns";

/// Name of the Pod through which reports reach the aggregator.
pub const AGGREGATOR_POD: &str = "aggregator";

/// Name of the resolver's Pod.
pub const DNS_POD: &str = "dns";

/// Domain of Services.
pub const SERVICE_DOMAIN: &str = "svc.cluster.local";

/// Port of the server behind a caching resolver, on its Pod's loopback.
pub const NAMES_PORT: u16 = 5353;

/// Name of the resolver outside the cluster in incident files, and of its network namespace.
pub const PUBLIC_RESOLVER: &str = "public";

/// Address of the resolver that answers as seen from the internet.
pub const PUBLIC_DNS: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 53);

/// Network of the clients outside.
pub const OUTSIDE_CIDR: &str = "198.51.100.0/24";

/// Their gateway.
pub const OUTSIDE_GATEWAY: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 254);

/// Network of the nodes.
pub const UNDERLAY_CIDR: &str = "192.168.0.0/24";

/// The router between the nodes and to the host: the cloud.
pub const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 254);

/// The machine's address on the link to the host; slirp expects this one.
pub const UPLINK: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);

/// The host's loopback as seen from inside.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// Address of the aggregator's Pod on its own link to the host.
pub const AGGREGATOR_LINK: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 2);

/// The other end of that link.
pub const AGGREGATOR_LINK_GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 1);

/// Port of every prober's echo.
pub const ECHO_PORT: u16 = 9095;

/// Last byte of a resolver Pod's address.
pub const DNS: u8 = 3;

/// Last byte of a prober Pod's address.
pub const PROBER: u8 = 5;

/// Last byte of the address of the aggregator's Pod.
pub const AGGREGATOR: u8 = 6;

/// Last byte of the first workload Pod's address on a node.
pub const FIRST_WORKLOAD: u8 = 10;

/// Returns a node's address on the underlay.
#[must_use]
pub const fn underlay_address(node: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 0, node)
}

/// Returns the address of a client outside.
#[must_use]
pub const fn outside_address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, number)
}

/// Returns a Pod's address.
#[must_use]
pub const fn pod_address(node: u8, last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 244, node, last)
}

/// Returns the address of a node's Pod bridge, the gateway of its Pods.
#[must_use]
pub const fn gateway_address(node: u8) -> Ipv4Addr {
    pod_address(node, 1)
}

/// Returns the IPv6 counterpart of an IPv4 address in a dual-stack cluster: `fd00::` with the IPv4 address in the last
/// four bytes, or `2001:db8::` for addresses outside the lab's own networks (balancers).
#[must_use]
pub fn ipv6_counterpart(address: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = address.octets();
    let (first, second) = if belongs_to_the_lab(address) {
        (0xfd00, 0)
    } else {
        (0x2001, 0xdb8)
    };
    let pair = |high, low| u16::from_be_bytes([high, low]);
    Ipv6Addr::new(first, second, 0, 0, 0, 0, pair(a, b), pair(c, d))
}

/// Returns the network of a node's Pods.
#[must_use]
pub fn pod_cidr(node: u8) -> String {
    format!("{}/24", pod_address(node, 0))
}

/// Returns the name of a node's prober Pod.
#[must_use]
pub fn prober_pod(node: &NodeName) -> String {
    format!("prober-{node}")
}

/// Reports whether a Service may have this `ClusterIP`.
#[must_use]
pub fn is_service_address(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    a == 10 && (96..112).contains(&b) && address != DNS_SERVICE
}

/// Reports whether the address is in a network of the lab itself.
#[must_use]
pub fn belongs_to_the_lab(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    a == 10 || (a, b) == (192, 168) || (a, b, c) == (198, 51, 100)
}
