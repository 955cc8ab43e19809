//! State of one node's kernel for any data plane. Pure: from the cluster to commands.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use super::{iptables, ipvs, nftables, policy};
use crate::ipv6_rules;
use crate::{
    cluster::{Cluster, Node, addresses},
    command::GuestCommand,
    incident::Dataplane,
    kernel::Kernel,
    net,
};

/// A virtual service as `ipvsadm` names it: `-t 10.96.0.50:80`.
type VirtualService = String;

/// State of one node's kernel for all Services.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeRules {
    /// Addresses on `kube-ipvs0`.
    pub(super) addresses: BTreeSet<Ipv4Addr>,
    /// Virtual services and their real servers.
    pub(super) services: BTreeMap<VirtualService, BTreeSet<String>>,
    /// The `nat` table.
    pub(super) nat: Vec<String>,
    /// The chain of the `filter` table in which kube-proxy drops; for iptables rules only.
    filter: Vec<String>,
    /// Packets to the node's own Pods that the network plugin drops for a `NetworkPolicy`.
    policy: Vec<String>,
    /// Packets that the `raw` table drops; only for nftables mode before its fix, built from iptables rules.
    raw: Vec<String>,
    /// kube-proxy's nftables table.
    nft: Option<nftables::NodeTable>,
    /// Whether all of it is repeated for the IPv6 counterpart of every address.
    dual_stack: bool,
}

/// Implementation of a data plane's rules on a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DataplaneMaker {
    Ipvs,
    Iptables,
    Nftables,
}

impl DataplaneMaker {
    const fn of(dataplane: Dataplane, kernel: Kernel) -> Self {
        match kernel {
            _ if !dataplane.is_iptables() => Self::Ipvs,
            Kernel::Host if dataplane.is_nftables() => Self::Nftables,
            Kernel::Host | Kernel::Uml => Self::Iptables,
        }
    }
}

/// Returns the one-time setup of a node, before any rules.
#[must_use]
pub fn prepare(cluster: &Cluster, node: &Node, kernel: Kernel) -> Vec<GuestCommand> {
    let mut commands = policy::prepare(cluster, node);
    commands.extend(match DataplaneMaker::of(cluster.dataplane, kernel) {
        DataplaneMaker::Ipvs => ipvs::prepare(node),
        DataplaneMaker::Iptables => iptables::prepare(cluster, node),
        DataplaneMaker::Nftables => nftables::prepare(cluster, node),
    });
    commands
}

/// Returns the one-time setup of a node if an external hook implements the Services.
#[must_use]
pub fn prepare_plugin(cluster: &Cluster, node: &Node) -> Vec<GuestCommand> {
    policy::prepare(cluster, node)
}

/// Returns the network plugin's rule: egress from the Pod network is masqueraded.
fn pod_masquerade_rule(node: &Node) -> String {
    format!(
        "-A POSTROUTING -s {} ! -d {} -j MASQUERADE",
        addresses::pod_cidr(node.number),
        addresses::POD_CIDR
    )
}

impl NodeRules {
    /// Returns the state for which the network plugin alone is responsible. Its part of the `nat` table never changes,
    /// so it is written once, and rules of others in it stay.
    #[must_use]
    pub fn for_network_plugin(cluster: &Cluster, node: &Node) -> Self {
        Self {
            dual_stack: cluster.is_dual_stack(),
            nat: vec![pod_masquerade_rule(node)],
            policy: policy::rules(cluster, node),
            ..Self::default()
        }
    }

    /// Returns the required state of the node.
    #[must_use]
    pub fn for_node(cluster: &Cluster, node: &Node, kernel: Kernel) -> Self {
        let mut rules = Self {
            dual_stack: cluster.is_dual_stack(),
            ..Self::default()
        };
        match DataplaneMaker::of(cluster.dataplane, kernel) {
            DataplaneMaker::Nftables => {
                return Self {
                    nft: Some(nftables::NodeTable::of(cluster, node)),
                    ..Self::for_network_plugin(cluster, node)
                };
            }
            DataplaneMaker::Iptables => {
                let tables = iptables::NodeTables::of(cluster, node);
                rules.nat = tables.nat;
                rules.filter = tables.filter;
                rules.raw = tables.raw;
            }
            DataplaneMaker::Ipvs => rules.virtual_services(cluster, node),
        }
        rules.hairpin(cluster, node);
        rules.policy = policy::rules(cluster, node);
        rules.nat.extend([
            "-A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE".to_owned(),
            pod_masquerade_rule(node),
        ]);
        rules
    }

    /// A Pod that reaches itself through a Service must not see its own address as the client (`KUBE-LOOP-BACK`).
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

    /// Returns the commands that change `old` into this state, without a gap for what stays.
    #[must_use]
    pub fn commands_from(&self, old: &Self, cluster: &Cluster, node: &Node) -> Vec<GuestCommand> {
        let name = node.name.as_str();
        let mut commands = Vec::new();
        let links: Vec<String> = (old.addresses.difference(&self.addresses).map(|ip| ("del", ip)))
            .chain(self.addresses.difference(&old.addresses).map(|ip| ("add", ip)))
            .map(|(verb, ip)| format!("addr {verb} {ip}/32 dev kube-ipvs0"))
            .collect();
        if !links.is_empty() {
            commands.push(GuestCommand::new(["ip", "-n", name, "-batch", "-"]).with_stdin(&links));
        }
        if self.dual_stack && !links.is_empty() {
            commands.push(
                GuestCommand::new(["ip", "-n", name, "-batch", "-"]).with_stdin(&ipv6_rules::rules(&links)),
            );
        }
        let changes = self.ipvsadm_from(old);
        if !changes.is_empty() {
            commands.push(GuestCommand::in_namespace(name, ["ipvsadm", "-R"]).with_stdin(&changes));
        }
        if self.dual_stack && !changes.is_empty() {
            commands.push(
                GuestCommand::in_namespace(name, ["ipvsadm", "-R"]).with_stdin(&ipv6_rules::rules(&changes)),
            );
        }
        if self.nat != old.nat {
            commands.push(net::iptables_restore(Some(name), &self.nat));
            if self.dual_stack {
                commands.push(net::restore_six(Some(name), "nat", &ipv6_rules::rules(&self.nat)));
            }
        }
        if self.policy != old.policy {
            commands.push(net::restore_chains(Some(name), "filter", &self.policy));
            if self.dual_stack {
                let rules = net::restore_six(Some(name), "filter", &ipv6_rules::rules(&self.policy));
                commands.push(net::only_declared(rules));
            }
        }
        if self.raw != old.raw {
            commands.push(net::restore(Some(name), "raw", &self.raw));
            if self.dual_stack {
                commands.push(net::restore_six(Some(name), "raw", &ipv6_rules::rules(&self.raw)));
            }
        }
        if self.filter != old.filter {
            commands.push(net::restore_chains(Some(name), "filter", &self.filter));
            if self.dual_stack {
                let rules = net::restore_six(Some(name), "filter", &ipv6_rules::rules(&self.filter));
                commands.push(net::only_declared(rules));
            }
        }
        if let Some(table) = &self.nft {
            let empty = nftables::NodeTable::default();
            let old = old.nft.as_ref().unwrap_or(&empty);
            commands.extend(table.commands_from(old, cluster, node));
        }
        commands
    }
}
