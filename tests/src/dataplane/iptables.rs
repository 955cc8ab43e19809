//! kube-proxy in iptables mode, as rules. Pure: from the cluster to the contents of a node's tables.
//!
//! Source: kube-proxy's `pkg/proxy/iptables/proxier.go`, with fewer chains: a Service with one port is a single chain
//! here (`SVC-n`).
//!
//! nftables mode has the same effect on packets (its verdict maps are these jumps), and user-mode Linux has no NAT in
//! nftables, so there it is built from the same rules. Its old version differed in one respect (kubernetes#132456):
//! the filter chain of a node's own packets came before NAT, so that packets of the node itself to a balancer address
//! without a local endpoint were dropped.

use std::net::Ipv4Addr;

use crate::{
    cluster::{Cluster, Node, Pod, Service, addresses},
    command::GuestCommand,
    incident::{Dataplane, IpMode, TrafficPolicy},
    net,
};

/// Chain of the `filter` table in which kube-proxy drops and rejects.
const FIREWALL_CHAIN: &str = "KUBE-FIREWALL";

/// Masquerades traffic whose replies must return through this node (`KUBE-MARK-MASQ`).
const MARK_RULE: &str = "-j MARK --set-xmark 0x4000/0x4000";

fn as_share(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Contents of the node's tables.
#[derive(Debug, Default)]
pub(super) struct NodeTables {
    pub(super) nat: Vec<String>,
    pub(super) filter: Vec<String>,
    /// Packets dropped before NAT.
    pub(super) raw: Vec<String>,
    chains: usize,
}

pub(super) fn prepare(cluster: &Cluster, node: &Node) -> Vec<GuestCommand> {
    let rules = [
        format!(":{FIREWALL_CHAIN} - [0:0]"),
        format!("-A INPUT -j {FIREWALL_CHAIN}"),
        format!("-A FORWARD -j {FIREWALL_CHAIN}"),
        format!("-A OUTPUT -j {FIREWALL_CHAIN}"),
    ];
    let name = Some(node.name.as_str());
    let mut commands = vec![net::restore_chains(name, "filter", &rules)];
    if cluster.is_dual_stack() {
        commands.push(net::only_declared(net::restore_six(name, "filter", &rules)));
    }
    commands
}

impl NodeTables {
    pub(super) fn of(cluster: &Cluster, node: &Node) -> Self {
        let mut tables = Self::default();
        tables.filter.push(format!(":{FIREWALL_CHAIN} - [0:0]"));
        let resolvers = cluster.resolver_service.usable_pods();
        let to: Vec<String> = resolvers
            .iter()
            .map(|pod| format!("{}:53", pod.address))
            .collect();
        for protocol in ["udp", "tcp"] {
            let chain = tables.balance_chain(protocol, &to);
            let matched = format!("-d {}/32 -p {protocol} --dport 53", addresses::DNS_SERVICE);
            tables.mark(&format!("! -s {} {matched} {MARK_RULE}", addresses::POD_CIDR));
            tables.jump(&matched, &chain);
        }
        for service in &cluster.services {
            tables.service(cluster.dataplane, node, service);
        }
        tables
    }

    fn service(&mut self, dataplane: Dataplane, node: &Node, service: &Service) {
        // A headless Service needs no forwarding.
        let Some(cluster_ip) = service.cluster_ip else {
            return;
        };
        for port in &service.ports {
            let all: Vec<&Pod> = service.usable_pods();
            let local_pods: Vec<&Pod> = service.usable_pods_on(&node.name);
            let to = |pods: &[&Pod]| -> Vec<String> {
                pods.iter()
                    .map(|pod| format!("{}:{}", pod.address, port.target_port))
                    .collect()
            };
            let match_of = |ip: Ipv4Addr, port: u16| format!("-d {ip}/32 -p tcp --dport {port}");

            let cluster_chain = self.balance_chain("tcp", &to(&all));
            let cluster = match_of(cluster_ip, port.port);
            if service.internal_policy == TrafficPolicy::Local {
                let local = self.balance_chain("tcp", &to(&local_pods));
                self.jump(&cluster, &local);
                self.drop_or_reject(&cluster, local_pods.is_empty(), "DROP");
            } else {
                self.mark(&format!("! -s {} {cluster} {MARK_RULE}", addresses::POD_CIDR));
                self.jump(&cluster, &cluster_chain);
                self.drop_or_reject(&cluster, all.is_empty(), "REJECT");
            }

            let balancer = service
                .load_balancer_ip
                .filter(|_| service.ip_mode == IpMode::Vip);
            let node_port = port
                .node_port
                .map(|port| (addresses::underlay_address(node.number), port));
            for (ip, port) in balancer.map(|ip| (ip, port.port)).into_iter().chain(node_port) {
                let matched = match_of(ip, port);
                self.drop_or_reject(&matched, all.is_empty(), "REJECT");
                if service.policy == TrafficPolicy::Cluster {
                    self.mark(&format!("{matched} {MARK_RULE}"));
                    self.jump(&matched, &cluster_chain);
                    continue;
                }
                // Pods and the node itself reach every endpoint, whatever the policy.
                let pods = format!("-s {} {matched}", addresses::POD_CIDR);
                let own = format!("-m addrtype --src-type LOCAL {matched}");
                self.mark(&format!("{own} {MARK_RULE}"));
                if dataplane.knows_pods() {
                    self.jump(&pods, &cluster_chain);
                }
                self.jump(&own, &cluster_chain);
                let local = self.balance_chain("tcp", &to(&local_pods));
                self.jump(&matched, &local);
                let nobody_here = local_pods.is_empty() && !all.is_empty();
                self.drop_or_reject(&matched, nobody_here, "DROP");
                if dataplane == Dataplane::NftablesOld && nobody_here {
                    self.raw.push(format!("-A OUTPUT {matched} -j DROP"));
                }
            }
        }
    }

    /// Returns a chain that selects one of several destinations with equal probability.
    fn balance_chain(&mut self, protocol: &str, to: &[String]) -> String {
        self.chains += 1;
        let name = format!("SVC-{}", self.chains);
        self.nat.insert(0, format!(":{name} - [0:0]"));
        for (i, destination) in to.iter().enumerate() {
            let share = match to.len() - i {
                1 => String::new(),
                left => format!(
                    "-m statistic --mode random --probability {:.9} ",
                    1.0 / as_share(left)
                ),
            };
            self.nat.push(format!(
                "-A {name} -p {protocol} {share}-j DNAT --to-destination {destination}"
            ));
        }
        name
    }

    fn jump(&mut self, matched: &str, chain: &str) {
        for from in ["PREROUTING", "OUTPUT"] {
            self.nat.push(format!("-A {from} {matched} -j {chain}"));
        }
    }

    fn mark(&mut self, rule: &str) {
        for from in ["PREROUTING", "OUTPUT"] {
            self.nat.push(format!("-A {from} {rule}"));
        }
    }

    /// Drops or rejects packets to a Service without endpoints.
    fn drop_or_reject(&mut self, matched: &str, holds: bool, action: &str) {
        if holds {
            self.filter
                .push(format!("-A {FIREWALL_CHAIN} {matched} -j {action}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Endpoints on n1 and n2; the Service's policy is Local.
    fn cluster(dataplane: Dataplane) -> Cluster {
        let text = include_str!("../../incidents/f2.yaml");
        let incident = crate::incident_file::parse(Path::new("f2.yaml"), text).unwrap();
        let mut cluster = Cluster::derive(&incident).unwrap();
        for op in &incident.faults[0].ops {
            cluster.apply(op).unwrap();
        }
        cluster.dataplane = dataplane;
        cluster
    }

    /// Returns the targets of the nat rules that match a packet, in order.
    fn chains(tables: &NodeTables, matched: &str) -> Vec<String> {
        let rules = tables.nat.iter().filter(|rule| {
            rule.starts_with("-A PREROUTING") && rule.contains(matched) && rule.contains("SVC-")
        });
        rules.cloned().collect()
    }

    #[test]
    fn pods_are_served_by_every_endpoint_whatever_the_policy() {
        let cluster = cluster(Dataplane::Iptables);
        let tables = NodeTables::of(&cluster, &cluster.nodes[3]);
        let rules = chains(&tables, "-d 203.0.113.10/32 -p tcp --dport 80");
        assert!(
            rules[0].starts_with("-A PREROUTING -s 10.244.0.0/16 -d 203.0.113.10/32"),
            "{rules:?}"
        );
    }

    #[test]
    fn without_the_pods_addresses_they_are_held_to_the_policy_and_dropped_where_no_endpoint_is() {
        let cluster = cluster(Dataplane::IptablesNoClusterCidr);
        let tables = NodeTables::of(&cluster, &cluster.nodes[3]);
        let rules = chains(&tables, "-d 203.0.113.10/32 -p tcp --dport 80");
        assert!(
            !rules.iter().any(|rule| rule.contains("-s 10.244.0.0/16")),
            "{rules:?}"
        );
        let dropped = "-A KUBE-FIREWALL -d 203.0.113.10/32 -p tcp --dport 80 -j DROP".to_owned();
        assert!(tables.filter.contains(&dropped), "{:?}", tables.filter);
        let first_node = NodeTables::of(&cluster, &cluster.nodes[0]);
        assert!(!first_node.filter.contains(&dropped));
    }

    #[test]
    fn before_its_fix_nftables_mode_drops_what_a_node_sends_to_the_balancer_where_no_endpoint_is() {
        let cluster = cluster(Dataplane::NftablesOld);
        let of = |node: usize| NodeTables::of(&cluster, &cluster.nodes[node]);
        let raw = of(3).raw;
        let dropped = "-A OUTPUT -d 203.0.113.10/32 -p tcp --dport 80 -j DROP".to_owned();
        assert!(raw.contains(&dropped), "{raw:?}");
        assert!(!raw.iter().any(|rule| rule.contains("PREROUTING")), "{raw:?}");
        assert_eq!(of(0).raw, Vec::<String>::new(), "an endpoint is local there");
        let mut current = cluster.clone();
        current.dataplane = Dataplane::Nftables;
        assert_eq!(
            NodeTables::of(&current, &current.nodes[3]).raw,
            Vec::<String>::new()
        );
    }

    #[test]
    fn each_of_three_endpoints_is_as_likely_as_the_others() {
        let mut tables = NodeTables::default();
        tables.balance_chain("tcp", &["a:1", "b:1", "c:1"].map(str::to_owned));
        let shares: Vec<Option<&str>> = tables
            .nat
            .iter()
            .filter(|rule| rule.starts_with("-A"))
            .map(|rule| rule.split("--probability ").nth(1)?.split(' ').next())
            .collect();
        assert_eq!(shares, [Some("0.333333333"), Some("0.500000000"), None]);
    }
}
