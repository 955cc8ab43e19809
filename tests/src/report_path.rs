//! The way of reports to an aggregator on a node. Pure.
//!
//! The aggregator's process runs on the host. Its Pod stands for it on the node, so that whatever cuts off the node or its
//! links cuts off the reports, too.

use crate::{
    cluster::{Pod, addresses},
    command::GuestCommand,
    net,
};

/// Makes a Pod forward everything that it receives to the host, where the aggregator runs: reports cross the network of
/// the nodes to this Pod and back. The Pod has a link of its own to the host, because the aggregator in it would need none.
#[must_use]
pub fn commands(pod: &Pod) -> Vec<GuestCommand> {
    let name = Some(pod.name.as_str());
    let (address, host) = (pod.address, addresses::HOST);
    let (near, far) = (addresses::AGGREGATOR_LINK, addresses::AGGREGATOR_LINK_GATEWAY);
    let outside = [
        format!("link add reports type veth peer name host netns {}", pod.name),
        format!("addr add {far}/30 dev reports"),
        "link set reports up".to_owned(),
    ];
    let masquerade = [
        "iptables",
        "-t",
        "nat",
        "-A",
        "POSTROUTING",
        "-s",
        &format!("{near}/32"),
        "-o",
        "eth0",
        "-j",
        "MASQUERADE",
    ];
    let inside = [
        format!("addr add {near}/30 dev host"),
        "link set host up".to_owned(),
        format!("route add {host}/32 via {far}"),
    ];
    let rules = [
        format!("-A PREROUTING -d {address}/32 -p tcp -j DNAT --to-destination {host}"),
        "-A POSTROUTING -o host -j MASQUERADE".to_owned(),
    ];
    vec![
        net::configure_namespace(None, &[], &outside),
        GuestCommand::new(masquerade),
        net::configure_namespace(name, &[("net/ipv4/ip_forward", "1")], &inside),
        net::iptables_restore(name, &rules),
    ]
}
