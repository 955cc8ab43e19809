//! The context in which a cause, its facts, its wording and its remedies are evaluated.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use parallax_model::{FailureKind, KindClass, NodeName, ServiceKey, Target};

use super::ContingencyTable;
use crate::{
    evidence::resolvers::ResolverView,
    inference::kind_profiles::KindProfile,
    regions::RegionKind,
    topology::{
        EndpointCondition, FrontInfo, FrontKind, IpMode, ProxyMode, Service, Topology, TrafficPolicy,
    },
    wording::join_names,
};

/// Failure counts by kind and HTTP status, in whole probes.
pub(crate) type FailureCounts = BTreeMap<(FailureKind, Option<u16>), f64>;

/// Whether a controller forwards traffic between the address and the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ControllerPresence {
    /// Present: the host is a route of a controller.
    Present,
    /// Absent: the address or name belongs to the Service itself.
    Absent,
    /// The path to the application is not known.
    #[default]
    Unknown,
}

impl ControllerPresence {
    pub(crate) const fn is_present(self) -> bool {
        matches!(self, Self::Present)
    }
}

/// Numbers of clients (nodes or vantages) whose probes may cross the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CrossingClients {
    pub(crate) probing: usize,
    pub(crate) failing: usize,
}

/// Endpoints that Kubernetes withdrew because their nodes were not ready when probes failed.
#[derive(Debug, Clone)]
pub(crate) struct EndpointWithdrawal<'a> {
    /// The affected Service among those under judgement.
    pub(crate) service: &'a Service,
    pub(crate) nodes: &'a BTreeSet<NodeName>,
    /// Other Services that lost endpoints as well.
    pub(crate) others: Vec<&'a ServiceKey>,
    /// Whether the nodes are still not ready.
    pub(crate) is_ongoing: bool,
    /// Whether at least one endpoint has returned.
    pub(crate) returned: bool,
}

/// The input of a cause's weights, wording and remedies.
#[derive(Debug, Clone)]
pub(crate) struct CauseContext<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) region: RegionKind,
    pub(crate) info: Option<&'a FrontInfo>,
    pub(crate) service: Option<&'a Service>,
    /// The Service whose Pods finally answer, where `service` only forwards to them.
    pub(crate) origin: Option<&'a Service>,
    pub(crate) controller: ControllerPresence,
    /// The target under judgement, or the only target of the subject.
    pub(crate) target: Option<&'a Target>,
    pub(crate) resolver: ResolverView<'a>,
    /// Withdrawn endpoints of one of these Services, whose nodes were not ready.
    pub(crate) withdrawal: Option<EndpointWithdrawal<'a>>,
    /// Members of the named region, as printed.
    pub(crate) members: Vec<String>,
    /// The endpoints of a tie: one of them fails, and the evidence does not tell which. Empty for any other region.
    pub(crate) tied_endpoints: Vec<String>,
    /// Whether the tie contains the ways to every endpoint.
    pub(crate) perhaps_every_endpoint: bool,
    /// Failures inside the region by class, in whole probes.
    pub(crate) failures_by_class: KindProfile,
    /// The same by kind.
    pub(crate) failures_by_kind: FailureCounts,
    /// The table that is printed with the sentence.
    pub(crate) table: ContingencyTable,
    pub(crate) clients: CrossingClients,
    /// Whether the latency of successes is judged instead of failures.
    pub(crate) is_latency: bool,
    /// Whether TTL evidence shows that the failing clients' own nodes answer for the address.
    pub(crate) own_node_answers: bool,
}

impl<'a> CauseContext<'a> {
    /// Creates a context in which only the topology is known.
    pub(crate) fn new(topology: &'a Topology) -> Self {
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
            tied_endpoints: Vec::new(),
            perhaps_every_endpoint: false,
            failures_by_class: KindProfile::default(),
            failures_by_kind: FailureCounts::new(),
            table: ContingencyTable::default(),
            clients: CrossingClients::default(),
            is_latency: false,
            own_node_answers: false,
        }
    }

    pub(crate) fn proxy_mode(&self) -> ProxyMode {
        self.topology.proxy_mode()
    }

    pub(crate) fn has_local_policy(&self) -> bool {
        match (self.service, self.info.map(|i| i.kind)) {
            (Some(service), Some(FrontKind::ClusterIp)) => {
                service.internal_traffic_policy == TrafficPolicy::Local
            }
            // A node's own address is served by that node alone.
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

    /// Reports whether connections to the address leave the node for a balancer, which selects the node that serves them.
    pub(crate) fn is_forwarded_to_balancer(&self) -> bool {
        self.is_balancer() && self.leaves_the_node() && !self.own_node_answers
    }

    /// The region's only or first member.
    pub(crate) fn member(&self) -> Option<&str> {
        self.members.first().map(String::as_str)
    }

    /// The endpoints that may be the failing one: "web-1", or "web-1 or web-2" if the evidence does not tell which.
    pub(crate) fn endpoints_text(&self) -> Option<String> {
        match self.tied_endpoints.split_last() {
            Some((last, others @ [_, ..])) => Some(format!("{} or {last}", others.join(", "))),
            _ => self.member().map(ToOwned::to_owned),
        }
    }

    /// "node n1", or "the node" if the region has no member.
    pub(crate) fn node_text(&self) -> String {
        self.member()
            .map_or_else(|| "the node".to_owned(), |node| format!("node {node}"))
    }

    /// "Service shop/web", or "the Service".
    pub(crate) fn service_text(&self) -> String {
        self.service
            .map_or_else(|| "the Service".to_owned(), |s| format!("Service {}", s.key))
    }

    /// The port that the endpoints listen on, if known.
    pub(crate) fn endpoint_port(&self) -> Option<u16> {
        self.info
            .map(|info| info.target_port)
            .or_else(|| match self.service?.ports.as_slice() {
                [port] => Some(port.target_port),
                _ => None,
            })
    }

    /// Host and port of the TLS server, also behind a proxy.
    pub(crate) fn tls_server(&self) -> Option<(&str, u16)> {
        let probe = &self.target?.probe;
        Some((probe.host()?.as_str(), probe.port()?))
    }

    /// A command for the Service, if the Service is known.
    pub(crate) fn service_command(&self, command: impl Fn(&str, &str) -> String) -> Option<String> {
        let key = &self.service?.key;
        Some(command(key.namespace.as_str(), key.name.as_str()))
    }

    /// A command for the region's node or endpoint, if it has one.
    pub(crate) fn member_command(&self, command: impl Fn(&str) -> String) -> Option<String> {
        self.member().map(command)
    }

    /// An address at the other end of the path: that of the prober on the region's last node, or of any prober.
    pub(crate) fn peer_address(&self) -> Option<IpAddr> {
        let nodes = self.topology.nodes();
        let named = self
            .members
            .last()
            .and_then(|name| nodes.get(&NodeName::new(name.as_str()).ok()?));
        let mut nodes = named.into_iter().chain(nodes.values());
        nodes.find_map(|node| Some(node.prober.as_ref()?.address.ip()))
    }

    /// Reports whether the Service has endpoints and all of them are ready.
    pub(crate) fn pods_are_ready(&self) -> bool {
        self.service.is_some_and(|service| {
            let ready = |condition| condition == EndpointCondition::Ready;
            !service.endpoints.is_empty() && service.endpoints.iter().all(|e| ready(e.condition))
        })
    }

    /// Failures of these classes, as a share of all failures in the region.
    pub(crate) fn share(&self, classes: &[KindClass]) -> f64 {
        let total: f64 = self.failures_by_class.iter().sum();
        let some: f64 = classes
            .iter()
            .map(|c| self.failures_by_class[crate::ids::class_index(*c)])
            .sum();
        if total > 0.0 { some / total } else { 0.0 }
    }

    /// Failures of the listed kinds, as a share of all failures in the region. As a weight, zero rules a cause out that has kinds
    /// of its own.
    pub(crate) fn share_of_kinds(&self, kinds: &[FailureKind]) -> f64 {
        self.kind_share(|kind, _| kinds.contains(kind))
    }

    /// Failures of the wanted kinds, as a share of all failures in the region.
    pub(crate) fn kind_share(&self, wanted: impl Fn(&FailureKind, Option<u16>) -> bool) -> f64 {
        let total: f64 = self.failures_by_kind.values().sum();
        let some = self.failures_by_kind.iter();
        let some: f64 = some
            .filter(|((kind, status), _)| wanted(kind, *status))
            .map(|(_, count)| count)
            .sum();
        if total > 0.0 { some / total } else { 0.0 }
    }

    /// The kind and status of more than half of the failures, if there is one.
    pub(crate) fn main_failure(&self) -> Option<(&FailureKind, Option<u16>)> {
        let total: f64 = self.failures_by_kind.values().sum();
        let ((kind, status), _) = self
            .failures_by_kind
            .iter()
            .find(|(_, count)| **count * 2.0 > total)?;
        Some((kind, *status))
    }

    /// The HTTP status of more than half of the failures, if there is one.
    pub(crate) fn main_status(&self) -> Option<u16> {
        self.main_failure().and_then(|(_, status)| status)
    }

    /// "10.96.0.10:53", "10.96.0.10:53 and 10.96.0.11:53".
    pub(crate) fn resolver_words(&self) -> Option<String> {
        let resolvers: Vec<String> = self.resolver.resolvers.iter().map(ToString::to_string).collect();
        (!resolvers.is_empty()).then(|| join_names(&resolvers))
    }
}
