//! The processes of the pods. Pure: commands, and what their files contain.

use std::fmt::Write;

use crate::{
    cluster::{Cluster, Node, Pod, addresses},
    command::Cmd,
    incident::ServicePort,
};

/// Where the probers find their resolver's address.
pub const RESOLV_CONF: &str = "/run/resolv.conf";

/// Where the resolver finds its names.
pub const DNSMASQ_CONF: &str = "/run/dnsmasq.conf";

/// What a pod of the namespace `default` has as `/etc/resolv.conf`.
#[must_use]
pub fn resolv_conf() -> String {
    format!(
        "nameserver {}\nsearch default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n",
        addresses::DNS_SERVICE
    )
}

/// The resolver's configuration: the hosts of the Ingresses, and no other name exists.
#[must_use]
pub fn dnsmasq_conf(cluster: &Cluster) -> String {
    let mut text =
        "port=53\nuser=root\nno-resolv\nno-hosts\nno-daemon\npid-file=\nlocal-ttl=5\nlocal=/#/\n".to_owned();
    for (host, address) in cluster.names() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "host-record={host},{address}");
    }
    text
}

/// The cluster's resolver.
#[must_use]
pub fn resolver(cluster: &Cluster) -> Cmd {
    let conf = format!("--conf-file={DNSMASQ_CONF}");
    Cmd::within(
        cluster.dns.name.as_str(),
        ["dnsmasq", "--keep-in-foreground", &conf],
    )
}

/// A pod behind a Service.
#[must_use]
pub fn origin(lab: &str, pod: &Pod, ports: &[ServicePort]) -> Cmd {
    let mut argv = vec![lab.to_owned(), "origin".to_owned()];
    let mut targets: Vec<u16> = ports.iter().map(|port| port.target_port).collect();
    targets.sort_unstable();
    targets.dedup();
    for port in targets {
        argv.extend(["--listen".to_owned(), format!("{}:{port}", pod.address)]);
    }
    argv.extend(["--pod", pod.name.as_str(), "--node", pod.node.as_str()].map(str::to_owned));
    Cmd::within(pod.name.as_str(), argv)
}

/// The prober of a node.
#[must_use]
pub fn prober(parallax: &str, node: &Node, aggregator: &str) -> Cmd {
    let vantage = format!("{}/pod", node.name);
    let echo = format!("{}:{}", node.prober.address, addresses::ECHO_PORT);
    let pod = node.prober.name.as_str();
    Cmd::within(
        pod,
        [
            parallax,
            "prober",
            "--aggregator",
            aggregator,
            "--vantage",
            &vantage,
            "--pod",
            pod,
            "--echo-listen",
            &echo,
            "--resolv-conf",
            RESOLV_CONF,
        ],
    )
}

/// An ordinary client in a node's prober pod; reads what to ask, writes what it saw.
#[must_use]
pub fn client(lab: &str, node: &Node) -> Cmd {
    Cmd::within(node.prober.name.as_str(), [lab, "client"])
}
