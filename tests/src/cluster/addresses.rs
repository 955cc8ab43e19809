//! The lab's addresses and names: the contract that `docs/contributing/lab.md` prints.

use std::net::{Ipv4Addr, Ipv6Addr};

use parallax_model::NodeName;

/// Most nodes of a lab: one CPU and a prober on each.
pub const MOST_NODES: usize = 16;

/// All pods.
pub const POD_CIDR: &str = "10.244.0.0/16";

/// All `ClusterIPs`.
pub const SERVICE_CIDR: &str = "10.96.0.0/12";

/// `ClusterIP` of the cluster's resolver.
pub const DNS_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);

/// The resolver's pod.
pub const DNS_POD: &str = "dns";

/// The domain of Services.
pub const SERVICE_DOMAIN: &str = "svc.cluster.local";

/// Port of the names behind a resolver that caches, on its pod's loopback.
pub const NAMES_PORT: u16 = 5353;

/// What the resolver outside the cluster is called in incident files, and its namespace's name.
pub const PUBLIC_RESOLVER: &str = "public";

/// The resolver that answers as the internet sees a name.
pub const PUBLIC_DNS: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 53);

/// Clients outside.
pub const OUTSIDE_CIDR: &str = "198.51.100.0/24";

/// Their gateway.
pub const OUTSIDE_GATEWAY: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 254);

/// The nodes.
pub const UNDERLAY_CIDR: &str = "192.168.0.0/24";

/// The router between the nodes and to the host: the cloud.
pub const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 254);

/// The machine's address towards the host; slirp expects this one.
pub const UPLINK: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);

/// The host's loopback, seen from inside.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// Port of every prober's echo.
pub const ECHO_PORT: u16 = 9095;

/// Last number of a resolver pod's address.
pub const DNS: u8 = 3;

/// Last number of a prober pod's address.
pub const PROBER: u8 = 5;

/// Last number of the first workload pod's address on a node.
pub const FIRST_WORKLOAD: u8 = 10;

/// A node's address on the underlay.
#[must_use]
pub const fn underlay(node: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 0, node)
}

/// The address of a client outside.
#[must_use]
pub const fn outside(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, number)
}

/// A pod's address.
#[must_use]
pub const fn pod(node: u8, last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 244, node, last)
}

/// The address of a node's pod bridge: its pods' gateway.
#[must_use]
pub const fn gateway(node: u8) -> Ipv4Addr {
    pod(node, 1)
}

/// The IPv6 address that goes with an IPv4 address, where the cluster has both families: `fd00::` with the IPv4 address in
/// its last four bytes, and `2001:db8::` for what is not the lab's own (balancers).
#[must_use]
pub fn six(address: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = address.octets();
    let (first, second) = if belongs_to_the_lab(address) {
        (0xfd00, 0)
    } else {
        (0x2001, 0xdb8)
    };
    let pair = |high, low| u16::from_be_bytes([high, low]);
    Ipv6Addr::new(first, second, 0, 0, 0, 0, pair(a, b), pair(c, d))
}

/// The network of a node's pods.
#[must_use]
pub fn pod_cidr(node: u8) -> String {
    format!("{}/24", pod(node, 0))
}

/// The prober pod of a node.
#[must_use]
pub fn prober_pod(node: &NodeName) -> String {
    format!("prober-{node}")
}

/// Whether a Service may have this `ClusterIP`.
#[must_use]
pub fn is_service_address(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    a == 10 && (96..112).contains(&b) && address != DNS_SERVICE
}

/// Whether the lab itself uses the network of this address.
#[must_use]
pub fn belongs_to_the_lab(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    a == 10 || (a, b) == (192, 168) || (a, b, c) == (198, 51, 100)
}
