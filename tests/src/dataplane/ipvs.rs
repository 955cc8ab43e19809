//! kube-proxy in IPVS mode, as rules: pure, from the cluster to what a node's kernel must hold.
//!
//! Sources: kube-proxy's `pkg/proxy/ipvs` before and after kubernetes#97081, and the field reports of incident I1.
//! Virtual addresses are bound on `kube-ipvs0`, a dummy link that stays down; that is enough to make them local.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use super::six;
use crate::{
    cluster::{Cluster, Node, Pod, Service, addresses},
    command::Cmd,
    incident::{Dataplane, IpMode, ServicePort, TrafficPolicy},
    net,
};

/// A virtual service as `ipvsadm` names it: `-t 10.96.0.50:80`.
type Virtual = String;

/// What one node's kernel holds for all Services.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// Addresses on `kube-ipvs0`.
    addresses: BTreeSet<Ipv4Addr>,
    /// Virtual services and their real servers.
    services: BTreeMap<Virtual, BTreeSet<String>>,
    /// The `nat` table.
    nat: Vec<String>,
    /// The chain of the `filter` table in which kube-proxy drops; iptables mode only.
    filter: Vec<String>,
    /// What the network plugin drops for a `NetworkPolicy`: packets for the node's own pods.
    policy: Vec<String>,
    /// What the `raw` table drops; nftables mode before its fix only.
    raw: Vec<String>,
    /// The same for the IPv6 counterpart of every address.
    dual_stack: bool,
}

/// What a node needs once, before any rules.
#[must_use]
pub fn prepare(cluster: &Cluster, node: &Node) -> Vec<Cmd> {
    let mut commands = super::policy::prepare(cluster, node);
    if cluster.dataplane.is_iptables() {
        commands.extend(super::iptables::prepare(cluster, node));
        return commands;
    }
    // As kube-proxy sets them. conntrack: IPVS packets take part in masquerading. arp_*: the virtual addresses are on
    // every node and must not be announced by any.
    let sysctls = [
        ("net/ipv4/vs/conntrack", "1"),
        ("net/ipv4/vs/expire_nodest_conn", "1"),
        ("net/ipv4/conf/all/arp_ignore", "1"),
        ("net/ipv4/conf/all/arp_announce", "2"),
    ];
    let links = ["link add kube-ipvs0 type dummy".to_owned()];
    commands.push(net::set_up(Some(node.name.as_str()), &sysctls, &links));
    commands
}

/// What a node needs once where somebody else makes the Services work.
#[must_use]
pub fn prepare_plugin(cluster: &Cluster, node: &Node) -> Vec<Cmd> {
    super::policy::prepare(cluster, node)
}

/// The network plugin's part: what leaves the pod network takes the node's address.
fn leaving_the_pods(node: &Node) -> String {
    format!(
        "-A POSTROUTING -s {} ! -d {} -j MASQUERADE",
        addresses::pod_cidr(node.number),
        addresses::POD_CIDR
    )
}

impl Rules {
    /// What the network plugin alone makes the node hold. Its part of the `nat` table never changes, so it is written once
    /// and rules of others beside it stay.
    #[must_use]
    pub fn of_plugin(cluster: &Cluster, node: &Node) -> Self {
        Self {
            dual_stack: cluster.is_dual_stack(),
            nat: vec![leaving_the_pods(node)],
            policy: super::policy::rules(cluster, node),
            ..Self::default()
        }
    }

    /// What the node must hold.
    #[must_use]
    pub fn of(cluster: &Cluster, node: &Node) -> Self {
        let mut rules = Self {
            dual_stack: cluster.is_dual_stack(),
            ..Self::default()
        };
        if cluster.dataplane.is_iptables() {
            let tables = super::iptables::Tables::of(cluster, node);
            rules.nat = tables.nat;
            rules.filter = tables.filter;
            rules.raw = tables.raw;
        } else {
            rules.resolver(cluster);
            for service in &cluster.services {
                for port in &service.ports {
                    rules.service(cluster.dataplane, node, service, port);
                }
            }
        }
        rules.hairpin(cluster, node);
        rules.policy = super::policy::rules(cluster, node);
        rules.nat.extend([
            "-A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE".to_owned(),
            leaving_the_pods(node),
        ]);
        rules
    }

    fn resolver(&mut self, cluster: &Cluster) {
        self.addresses.insert(addresses::DNS_SERVICE);
        for (protocol, name) in [("-u", "udp"), ("-t", "tcp")] {
            for chain in ["PREROUTING", "OUTPUT"] {
                self.nat.push(format!(
                    "-A {chain} ! -s {} -d {}/32 -p {name} --dport 53 -j MARK --set-xmark 0x4000/0x4000",
                    addresses::POD_CIDR,
                    addresses::DNS_SERVICE
                ));
            }
            self.services.insert(
                format!("{protocol} {}:53", addresses::DNS_SERVICE),
                cluster
                    .resolvers
                    .first()
                    .map(|resolver| format!("{}:53", resolver.pod.address))
                    .into_iter()
                    .collect(),
            );
        }
    }

    fn service(&mut self, dataplane: Dataplane, node: &Node, service: &Service, port: &ServicePort) {
        let real = |pods: &[&Pod]| -> BTreeSet<String> {
            pods.iter()
                .map(|pod| format!("{}:{}", pod.address, port.target_port))
                .collect()
        };
        let all: Vec<&Pod> = service.endpoints.iter().collect();
        let here: Vec<&Pod> = all.iter().copied().filter(|pod| pod.node == node.name).collect();
        // kubernetes#97081: a node without an endpoint of its own takes the cluster's.
        let fall_back = dataplane == Dataplane::Ipvs && here.is_empty();
        let outside = match service.policy {
            TrafficPolicy::Local if !fall_back => &here,
            TrafficPolicy::Local | TrafficPolicy::Cluster => &all,
        };

        let inside = match service.internal_policy {
            TrafficPolicy::Local => &here,
            TrafficPolicy::Cluster => &all,
        };
        self.addresses.insert(service.cluster_ip);
        self.services
            .insert(format!("-t {}:{}", service.cluster_ip, port.port), real(inside));
        self.mark(
            &format!("! -s {}", addresses::POD_CIDR),
            service.cluster_ip,
            port.port,
        );

        // With ipMode Proxy the node does not know the address at all.
        let address = service
            .load_balancer_ip
            .filter(|_| service.ip_mode == IpMode::Vip);
        let balancer = address.map(|address| (address, port.port));
        let node_port = port
            .node_port
            .map(|port| (addresses::underlay(node.number), port));
        for (address, port) in balancer.into_iter().chain(node_port) {
            self.services
                .insert(format!("-t {address}:{port}"), real(outside));
            if service.policy == TrafficPolicy::Cluster {
                self.mark("", address, port);
            }
        }
        self.addresses.extend(address);
    }

    /// Traffic that must come back to this node takes its address (`KUBE-MARK-MASQ`).
    fn mark(&mut self, from: &str, address: Ipv4Addr, port: u16) {
        for chain in ["PREROUTING", "OUTPUT"] {
            let from = if from.is_empty() {
                String::new()
            } else {
                format!("{from} ")
            };
            self.nat.push(format!(
                "-A {chain} {from}-d {address}/32 -p tcp --dport {port} -j MARK --set-xmark 0x4000/0x4000"
            ));
        }
    }

    /// A pod that reaches itself through a Service must not see its own address as the client (`KUBE-LOOP-BACK`).
    fn hairpin(&mut self, cluster: &Cluster, node: &Node) {
        for service in &cluster.services {
            for pod in service.endpoints.iter().filter(|pod| pod.node == node.name) {
                self.nat.push(format!(
                    "-A POSTROUTING -s {address}/32 -d {address}/32 -j MASQUERADE",
                    address = pod.address
                ));
            }
        }
    }

    /// The commands that lead from what a node holds to this, without a gap for what stays.
    #[must_use]
    pub fn commands_from(&self, old: &Self, node: &Node) -> Vec<Cmd> {
        let name = node.name.as_str();
        let mut commands = Vec::new();
        let links: Vec<String> = (old.addresses.difference(&self.addresses).map(|ip| ("del", ip)))
            .chain(self.addresses.difference(&old.addresses).map(|ip| ("add", ip)))
            .map(|(verb, ip)| format!("addr {verb} {ip}/32 dev kube-ipvs0"))
            .collect();
        if !links.is_empty() {
            commands.push(Cmd::new(["ip", "-n", name, "-batch", "-"]).reading(&links));
        }
        if self.dual_stack && !links.is_empty() {
            commands.push(Cmd::new(["ip", "-n", name, "-batch", "-"]).reading(&six::rules(&links)));
        }
        let changes = self.ipvsadm_from(old);
        if !changes.is_empty() {
            commands.push(Cmd::within(name, ["ipvsadm", "-R"]).reading(&changes));
        }
        if self.dual_stack && !changes.is_empty() {
            commands.push(Cmd::within(name, ["ipvsadm", "-R"]).reading(&six::rules(&changes)));
        }
        if self.nat != old.nat {
            commands.push(net::iptables_restore(Some(name), &self.nat));
            if self.dual_stack {
                commands.push(net::restore_six(Some(name), "nat", &six::rules(&self.nat)));
            }
        }
        if self.policy != old.policy {
            commands.push(net::restore_chains(Some(name), "filter", &self.policy));
            if self.dual_stack {
                let rules = net::restore_six(Some(name), "filter", &six::rules(&self.policy));
                commands.push(net::only_declared(rules));
            }
        }
        if self.raw != old.raw {
            commands.push(net::restore(Some(name), "raw", &self.raw));
            if self.dual_stack {
                commands.push(net::restore_six(Some(name), "raw", &six::rules(&self.raw)));
            }
        }
        if self.filter != old.filter {
            commands.push(net::restore_chains(Some(name), "filter", &self.filter));
            if self.dual_stack {
                let rules = net::restore_six(Some(name), "filter", &six::rules(&self.filter));
                commands.push(net::only_declared(rules));
            }
        }
        commands
    }

    fn ipvsadm_from(&self, old: &Self) -> Vec<String> {
        let none = BTreeSet::new();
        let mut lines = Vec::new();
        for gone in old
            .services
            .keys()
            .filter(|name| !self.services.contains_key(*name))
        {
            lines.push(format!("-D {gone}"));
        }
        for (service, real) in &self.services {
            let before = old.services.get(service);
            if before.is_none() {
                lines.push(format!("-A {service} -s rr"));
            }
            let before = before.unwrap_or(&none);
            lines.extend(
                before
                    .difference(real)
                    .map(|gone| format!("-d {service} -r {gone}")),
            );
            lines.extend(
                real.difference(before)
                    .map(|new| format!("-a {service} -r {new} -m -w 1")),
            );
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::{fmt::Write, path::Path};

    use super::*;
    use crate::incident::{Op, parse};

    fn i1() -> Cluster {
        let text = include_str!("../../incidents/i1.yaml");
        Cluster::derive(&parse(Path::new("i1.yaml"), text).unwrap()).unwrap()
    }

    fn after_the_fault(mut cluster: Cluster) -> Cluster {
        for pod in ["ingress-3", "ingress-4"] {
            let op = Op::RemoveEndpoint {
                service: "ingress/ingress-nginx".parse().unwrap(),
                pod: pod.parse().unwrap(),
            };
            cluster.apply(&op).unwrap();
        }
        cluster
    }

    fn shown(before: &Cluster, after: &Cluster) -> String {
        let mut text = String::new();
        for node in &after.nodes {
            let old = if before == after {
                Rules::default()
            } else {
                Rules::of(before, node)
            };
            for command in Rules::of(after, node).commands_from(&old, node) {
                writeln!(text, "{command}").unwrap();
                for line in command.stdin.lines() {
                    writeln!(text, "    {line}").unwrap();
                }
            }
        }
        text
    }

    #[test]
    fn rules_of_i1_while_healthy() {
        insta::assert_snapshot!(shown(&i1(), &i1()));
    }

    #[test]
    fn rules_of_i1_that_the_fault_changes() {
        let healthy = i1();
        insta::assert_snapshot!(shown(&healthy, &after_the_fault(healthy.clone())));
    }

    fn real_servers(cluster: &Cluster, node: usize, service: &str) -> Vec<String> {
        Rules::of(cluster, &cluster.nodes[node]).services[service]
            .iter()
            .cloned()
            .collect()
    }

    #[test]
    fn old_kube_proxy_leaves_the_balancer_address_without_destination_where_no_endpoint_is_local() {
        let faulty = after_the_fault(i1());
        assert_eq!(
            real_servers(&faulty, 0, "-t 203.0.113.10:80"),
            ["10.244.1.10:8080"]
        );
        assert!(real_servers(&faulty, 2, "-t 203.0.113.10:80").is_empty());
        assert_eq!(
            real_servers(&faulty, 2, "-t 10.96.0.50:80"),
            ["10.244.1.10:8080", "10.244.2.10:8080"]
        );
    }

    #[test]
    fn a_current_kube_proxy_takes_the_clusters_endpoints_there() {
        let mut faulty = after_the_fault(i1());
        faulty.dataplane = Dataplane::Ipvs;
        assert_eq!(
            real_servers(&faulty, 0, "-t 203.0.113.10:80"),
            ["10.244.1.10:8080"]
        );
        assert_eq!(
            real_servers(&faulty, 2, "-t 203.0.113.10:80"),
            ["10.244.1.10:8080", "10.244.2.10:8080"]
        );
    }

    #[test]
    fn policy_cluster_gives_every_node_every_endpoint_and_masquerades() {
        let mut cluster = after_the_fault(i1());
        let op = Op::SetPolicy {
            service: "ingress/ingress-nginx".parse().unwrap(),
            external_traffic_policy: TrafficPolicy::Cluster,
        };
        cluster.apply(&op).unwrap();
        assert_eq!(real_servers(&cluster, 3, "-t 192.168.0.4:30080").len(), 2);
        let rules = Rules::of(&cluster, &cluster.nodes[3]);
        assert!(
            rules
                .nat
                .iter()
                .any(|rule| rule.contains("-d 203.0.113.10/32") && rule.contains("MARK"))
        );
    }
}
