//! kube-proxy in IPVS mode, as rules. Pure: from the cluster to the state of a node's kernel.
//!
//! Sources: kube-proxy's `pkg/proxy/ipvs` before and after kubernetes#97081, and the field reports of incident I1.
//! Virtual addresses are bound to `kube-ipvs0`, a dummy link that stays down; that is enough to make them local.

use std::{collections::BTreeSet, net::Ipv4Addr};

use super::NodeRules;
use crate::{
    cluster::{Cluster, Node, Pod, Service, addresses},
    command::GuestCommand,
    incident::{Dataplane, IpMode, ServicePort, TrafficPolicy},
    net,
};

/// Returns the one-time setup of a node, before any rules.
pub(super) fn prepare(node: &Node) -> Vec<GuestCommand> {
    // As set by kube-proxy. conntrack: IPVS packets are masqueraded. arp_*: the virtual addresses exist on every node
    // and must not be announced by any.
    let sysctls = [
        ("net/ipv4/vs/conntrack", "1"),
        ("net/ipv4/vs/expire_nodest_conn", "1"),
        ("net/ipv4/conf/all/arp_ignore", "1"),
        ("net/ipv4/conf/all/arp_announce", "2"),
    ];
    let links = ["link add kube-ipvs0 type dummy".to_owned()];
    vec![net::configure_namespace(
        Some(node.name.as_str()),
        &sysctls,
        &links,
    )]
}

impl NodeRules {
    pub(super) fn virtual_services(&mut self, cluster: &Cluster, node: &Node) {
        self.resolver(cluster);
        for service in &cluster.services {
            for port in &service.ports {
                self.service(cluster.dataplane, node, service, port);
            }
        }
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
                    .resolver_service
                    .usable_pods()
                    .iter()
                    .map(|pod| format!("{}:53", pod.address))
                    .collect(),
            );
        }
    }

    fn service(&mut self, dataplane: Dataplane, node: &Node, service: &Service, port: &ServicePort) {
        // A headless Service needs no forwarding.
        let Some(cluster_ip) = service.cluster_ip else {
            return;
        };
        let real = |pods: &[&Pod]| -> BTreeSet<String> {
            pods.iter()
                .map(|pod| format!("{}:{}", pod.address, port.target_port))
                .collect()
        };
        let all: Vec<&Pod> = service.usable_pods();
        let local_pods: Vec<&Pod> = service.usable_pods_on(&node.name);
        // kubernetes#97081: a node without a local endpoint uses those of the cluster.
        let fall_back = dataplane == Dataplane::Ipvs && local_pods.is_empty();
        let outside = match service.policy {
            TrafficPolicy::Local if !fall_back => &local_pods,
            TrafficPolicy::Local | TrafficPolicy::Cluster => &all,
        };

        let inside = match service.internal_policy {
            TrafficPolicy::Local => &local_pods,
            TrafficPolicy::Cluster => &all,
        };
        self.addresses.insert(cluster_ip);
        self.services
            .insert(format!("-t {cluster_ip}:{}", port.port), real(inside));
        self.mark(&format!("! -s {}", addresses::POD_CIDR), cluster_ip, port.port);

        // With ipMode Proxy the node does not know the address at all.
        let address = service
            .load_balancer_ip
            .filter(|_| service.ip_mode == IpMode::Vip);
        let balancer = address.map(|address| (address, port.port));
        let node_port = port
            .node_port
            .map(|port| (addresses::underlay_address(node.number), port));
        for (address, port) in balancer.into_iter().chain(node_port) {
            self.services
                .insert(format!("-t {address}:{port}"), real(outside));
            if service.policy == TrafficPolicy::Cluster {
                self.mark("", address, port);
            }
        }
        self.addresses.extend(address);
    }

    /// Masquerades traffic whose replies must return through this node (`KUBE-MARK-MASQ`).
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

    pub(super) fn ipvsadm_from(&self, old: &Self) -> Vec<String> {
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
    use crate::{incident::FaultOperation, incident_file::parse, kernel::Kernel};

    fn i1() -> Cluster {
        let text = include_str!("../../incidents/i1.yaml");
        Cluster::derive(&parse(Path::new("i1.yaml"), text).unwrap()).unwrap()
    }

    fn after_the_fault(mut cluster: Cluster) -> Cluster {
        for pod in ["ingress-3", "ingress-4"] {
            let op = FaultOperation::RemoveEndpoint {
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
                NodeRules::default()
            } else {
                NodeRules::for_node(before, node, Kernel::Uml)
            };
            for command in NodeRules::for_node(after, node, Kernel::Uml).commands_from(&old, after, node) {
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
        NodeRules::for_node(cluster, &cluster.nodes[node], Kernel::Uml).services[service]
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
        let op = FaultOperation::SetPolicy {
            service: "ingress/ingress-nginx".parse().unwrap(),
            external_traffic_policy: TrafficPolicy::Cluster,
        };
        cluster.apply(&op).unwrap();
        assert_eq!(real_servers(&cluster, 3, "-t 192.168.0.4:30080").len(), 2);
        let rules = NodeRules::for_node(&cluster, &cluster.nodes[3], Kernel::Uml);
        assert!(
            rules
                .nat
                .iter()
                .any(|rule| rule.contains("-d 203.0.113.10/32") && rule.contains("MARK"))
        );
    }
}
