//! What a cause, its facts, its words and its remedies are decided on.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use parallax_model::{FailureKind, KindClass, NodeName, ServiceKey, Target};

use super::ContingencyTable;
use crate::{
    evidence::resolvers::ResolverView,
    inference::profiles::KindProfile,
    regions::RegionKind,
    topology::{
        EndpointCondition, FrontInfo, FrontKind, IpMode, ProxyMode, Service, Topology, TrafficPolicy,
    },
    wording::listed,
};

/// Failures by kind and status, as whole probes.
pub(crate) type FailureCounts = BTreeMap<(FailureKind, Option<u16>), f64>;

/// Whether a controller stands between the address and the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ControllerPresence {
    /// It does: the host is a route of it.
    There,
    /// The address or name is the Service's own.
    Not,
    /// The way in is not known.
    #[default]
    Unknown,
}

impl ControllerPresence {
    pub(crate) const fn is_there(self) -> bool {
        matches!(self, Self::There)
    }
}

/// Clients whose probes may cross the region, by node or vantage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CrossingClients {
    pub(crate) asked: usize,
    pub(crate) failing: usize,
}

/// Endpoints that Kubernetes withdrew from nodes that were not ready when probes failed.
#[derive(Debug, Clone)]
pub(crate) struct EndpointWithdrawal<'a> {
    /// Of those that are judged.
    pub(crate) service: &'a Service,
    pub(crate) nodes: &'a BTreeSet<NodeName>,
    /// Other Services that lost theirs as well.
    pub(crate) others: Vec<&'a ServiceKey>,
    /// The nodes are not ready now.
    pub(crate) lasts: bool,
    /// At least one endpoint is back.
    pub(crate) returned: bool,
}

/// What a cause, its facts and its remedies are decided on.
#[derive(Debug, Clone)]
pub(crate) struct CauseContext<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) region: RegionKind,
    pub(crate) info: Option<&'a FrontInfo>,
    pub(crate) service: Option<&'a Service>,
    /// The Service whose pods answer in the end, where the one above only passes on to them.
    pub(crate) origin: Option<&'a Service>,
    pub(crate) controller: ControllerPresence,
    /// The one target that is judged, or the only one that the subject concerns.
    pub(crate) target: Option<&'a Target>,
    pub(crate) resolver: ResolverView<'a>,
    /// A Service of these that Kubernetes took its endpoints from, as nodes were not ready.
    pub(crate) withdrawal: Option<EndpointWithdrawal<'a>>,
    /// Members of the named region, as printed.
    pub(crate) members: Vec<String>,
    /// Failures inside the region by class, as whole probes.
    pub(crate) kinds: KindProfile,
    /// The same by kind.
    pub(crate) failures: FailureCounts,
    /// What people read beside the sentence.
    pub(crate) table: ContingencyTable,
    pub(crate) clients: CrossingClients,
    /// Successes are judged by how long they take.
    pub(crate) slow: bool,
    /// The failing clients' own nodes are seen to answer for the address.
    pub(crate) own_node_answers: bool,
}

impl<'a> CauseContext<'a> {
    /// Nothing is known but the topology.
    pub(crate) fn of(topology: &'a Topology) -> Self {
        Self {
            topology,
            region: RegionKind::Healthy,
            info: None,
            service: None,
            origin: None,
            controller: ControllerPresence::Unknown,
            target: None,
            resolver: ResolverView::default(),
            withdrawal: None,
            members: Vec::new(),
            kinds: KindProfile::default(),
            failures: FailureCounts::new(),
            table: ContingencyTable::default(),
            clients: CrossingClients::default(),
            slow: false,
            own_node_answers: false,
        }
    }

    pub(crate) fn mode(&self) -> ProxyMode {
        self.topology.proxy_mode()
    }

    pub(crate) fn is_local(&self) -> bool {
        match (self.service, self.info.map(|i| i.kind)) {
            (Some(service), Some(FrontKind::ClusterIp)) => {
                service.internal_traffic_policy == TrafficPolicy::Local
            }
            // At an address of its own only that node decides.
            (None, _) | (_, Some(FrontKind::NodePort | FrontKind::Host)) => false,
            (Some(service), _) => service.external_traffic_policy == TrafficPolicy::Local,
        }
    }

    pub(crate) fn is_balancer(&self) -> bool {
        matches!(self.info.map(|i| i.kind), Some(FrontKind::LoadBalancer(_)))
    }

    pub(crate) fn is_cluster_ip(&self) -> bool {
        matches!(self.info.map(|i| i.kind), Some(FrontKind::ClusterIp))
    }

    pub(crate) fn leaves_the_node(&self) -> bool {
        matches!(
            self.info.map(|i| i.kind),
            Some(FrontKind::LoadBalancer(IpMode::Proxy)) | None
        )
    }

    /// The region's only or first member.
    pub(crate) fn member(&self) -> Option<&str> {
        self.members.first().map(String::as_str)
    }

    /// "node n1", or "the node" where the region names none.
    pub(crate) fn node_words(&self) -> String {
        self.member()
            .map_or_else(|| "the node".to_owned(), |node| format!("node {node}"))
    }

    /// "Service shop/web", or "the Service".
    pub(crate) fn service_words(&self) -> String {
        self.service
            .map_or_else(|| "the Service".to_owned(), |s| format!("Service {}", s.key))
    }

    /// The port that the endpoints listen on, where known.
    pub(crate) fn endpoint_port(&self) -> Option<u16> {
        self.info
            .map(|info| info.target_port)
            .or_else(|| match self.service?.ports.as_slice() {
                [port] => Some(port.target_port),
                _ => None,
            })
    }

    /// Host and port that TLS is asked of.
    pub(crate) fn tls_server(&self) -> Option<(&str, u16)> {
        let (host, port) = self.target?.probe.server()?;
        Some((host.as_str(), port))
    }

    /// A command about the Service, where it is known.
    pub(crate) fn about_service(&self, command: impl Fn(&str, &str) -> String) -> Option<String> {
        let key = &self.service?.key;
        Some(command(key.namespace.as_str(), key.name.as_str()))
    }

    /// A command about the region's node or endpoint, where it has one.
    pub(crate) fn about_member(&self, command: impl Fn(&str) -> String) -> Option<String> {
        self.member().map(command)
    }

    /// An address at the other end of the path: that of the prober on the region's last node, or on any.
    pub(crate) fn peer_address(&self) -> Option<IpAddr> {
        let nodes = self.topology.nodes();
        let named = self
            .members
            .last()
            .and_then(|name| nodes.get(&NodeName::new(name.as_str()).ok()?));
        let mut nodes = named.into_iter().chain(nodes.values());
        nodes.find_map(|node| Some(node.prober.as_ref()?.address.ip()))
    }

    /// The Service has endpoints, and Kubernetes says that all of them are ready.
    pub(crate) fn pods_are_ready(&self) -> bool {
        self.service.is_some_and(|service| {
            let ready = |condition| condition == EndpointCondition::Ready;
            !service.endpoints.is_empty() && service.endpoints.iter().all(|e| ready(e.condition))
        })
    }

    /// Failures of a class, as a share of all in the region.
    pub(crate) fn share(&self, classes: &[KindClass]) -> f64 {
        let total: f64 = self.kinds.iter().sum();
        let some: f64 = classes
            .iter()
            .map(|c| self.kinds[crate::ids::class_position(*c)])
            .sum();
        if total > 0.0 { some / total } else { 0.0 }
    }

    /// Failures of some kinds, as a share of all in the region.
    pub(crate) fn kind_share(&self, wanted: impl Fn(&FailureKind, Option<u16>) -> bool) -> f64 {
        let total: f64 = self.failures.values().sum();
        let some = self.failures.iter();
        let some: f64 = some
            .filter(|((kind, status), _)| wanted(kind, *status))
            .map(|(_, count)| count)
            .sum();
        if total > 0.0 { some / total } else { 0.0 }
    }

    /// The most frequent failure, where it makes up more than half of them.
    pub(crate) fn main_failure(&self) -> Option<(&FailureKind, Option<u16>)> {
        let total: f64 = self.failures.values().sum();
        let ((kind, status), _) = self.failures.iter().find(|(_, count)| **count * 2.0 > total)?;
        Some((kind, *status))
    }

    /// The most frequent status of HTTP, where more than half of the failures have it.
    pub(crate) fn main_status(&self) -> Option<u16> {
        self.main_failure().and_then(|(_, status)| status)
    }

    /// "10.96.0.10:53", "10.96.0.10:53 and 10.96.0.11:53".
    pub(crate) fn resolver_words(&self) -> Option<String> {
        let asked: Vec<String> = self.resolver.asked.iter().map(ToString::to_string).collect();
        (!asked.is_empty()).then(|| listed(&asked))
    }
}
