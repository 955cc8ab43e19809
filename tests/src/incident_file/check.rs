//! Checks of incidents that the types cannot express.

use std::{
    collections::BTreeSet,
    fmt::{self, Display},
    net::{IpAddr, SocketAddr},
};

use parallax_model::ServiceKey;

use super::check_service::{check_dual_stack, check_server, check_service};
use crate::{
    cluster::{Cluster, addresses},
    incident::{AddressFamilies, FaultOperation, Incident, PublishedBy, ResolverSoftware, ServerSoftware},
};

/// A contradiction: the field, and the expected value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidIncident {
    field: String,
    expected: String,
}

impl InvalidIncident {
    pub(crate) fn new(field: impl Into<String>, expected: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            expected: expected.into(),
        }
    }

    pub(super) fn field(&self) -> &str {
        &self.field
    }
}

impl Display for InvalidIncident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.expected)
    }
}

impl std::error::Error for InvalidIncident {}

pub(super) type CheckResult = Result<(), InvalidIncident>;

pub(super) fn invalid(field: impl Into<String>, expected: impl Into<String>) -> CheckResult {
    Err(InvalidIncident::new(field, expected))
}

impl Incident {
    /// Checks everything that the types cannot express. Applies the faults once, so that a step that refers to a
    /// missing Pod is found before anything boots.
    pub fn check(&self) -> CheckResult {
        self.check_times()?;
        self.check_names()?;
        for (i, service) in self.topology.services.iter().enumerate() {
            let field = format!("topology.services[{i}]");
            check_service(&field, service)?;
            if self.topology.families == AddressFamilies::DualStack {
                check_dual_stack(&field, service)?;
            }
        }
        self.check_ingresses()?;
        self.check_faults()?;
        self.check_expected()?;
        self.check_preflights()
    }

    fn check_times(&self) -> CheckResult {
        if self.interval_ms < 200 {
            return invalid(
                "intervalMs",
                format!("expected at least 200, got {}", self.interval_ms),
            );
        }
        if self.timeout_ms == 0 || self.timeout_ms > self.interval_ms {
            return invalid(
                "timeoutMs",
                format!(
                    "expected 1 to intervalMs ({}), got {}",
                    self.interval_ms, self.timeout_ms
                ),
            );
        }
        Ok(())
    }

    fn check_names(&self) -> CheckResult {
        let nodes = &self.topology.nodes;
        if !(1..=addresses::MAX_NODES).contains(&nodes.len()) {
            return invalid(
                "topology.nodes",
                format!(
                    "expected 1 to {} nodes, got {}",
                    addresses::MAX_NODES,
                    nodes.len()
                ),
            );
        }
        let mut taken = BTreeSet::from([
            addresses::PUBLIC_RESOLVER.to_owned(),
            addresses::AGGREGATOR_POD.to_owned(),
            "cloud".to_owned(),
        ]);
        self.check_report_path()?;
        if self.topology.resolvers.is_empty() {
            taken.insert(addresses::DNS_POD.to_owned());
        }
        for (i, resolver) in self.topology.resolvers.iter().enumerate() {
            let field = format!("topology.resolvers[{i}].pod");
            namespace_name(&field, resolver.pod.as_str())?;
            let cached = resolver.cache_seconds;
            if cached.is_some_and(|seconds| seconds == 0 || resolver.software != ResolverSoftware::Dnsmasq) {
                return invalid(
                    format!("topology.resolvers[{i}].cacheSeconds"),
                    "expected at least 1, with software dnsmasq only",
                );
            }
            if !taken.insert(resolver.pod.to_string()) {
                return invalid(
                    field,
                    format!("the name {:?} is already in use", resolver.pod.as_str()),
                );
            }
        }
        for (i, node) in nodes.iter().enumerate() {
            let field = format!("topology.nodes[{i}].name");
            namespace_name(&field, node.name.as_str())?;
            for name in [node.name.to_string(), addresses::prober_pod(&node.name)] {
                if !taken.insert(name.clone()) {
                    return invalid(field, format!("the name {name:?} is already in use"));
                }
            }
        }
        for (i, service) in self.topology.services.iter().enumerate() {
            for (j, endpoint) in service.endpoints.iter().enumerate() {
                let field = format!("topology.services[{i}].endpoints[{j}]");
                namespace_name(&format!("{field}.pod"), endpoint.pod.as_str())?;
                if !nodes.iter().any(|node| node.name == endpoint.node) {
                    return invalid(format!("{field}.node"), format!("unknown node {}", endpoint.node));
                }
                if !taken.insert(endpoint.pod.to_string()) {
                    return invalid(
                        format!("{field}.pod"),
                        format!("the name {:?} is already in use", endpoint.pod.as_str()),
                    );
                }
            }
        }
        Ok(())
    }

    /// Checks that every prober has a way to the aggregator, and every node one to a resolver.
    fn check_report_path(&self) -> CheckResult {
        let topology = &self.topology;
        if topology.aggregator.is_some() && !topology.vantages.is_empty() {
            return invalid(
                "topology.aggregator",
                "expected no `vantages` with it: clients outside cannot reach a Pod's address",
            );
        }
        let mut resolvers = topology.resolvers.iter();
        if !topology.resolvers.is_empty() && resolvers.all(|resolver| !resolver.serves.is_empty()) {
            return invalid(
                "topology.resolvers",
                "expected at least one without `serves`, behind the resolver's Service",
            );
        }
        Ok(())
    }

    fn check_ingresses(&self) -> CheckResult {
        let mut hosts = BTreeSet::new();
        for (i, ingress) in self.topology.ingresses.iter().enumerate() {
            let field = format!("topology.ingresses[{i}]");
            let entry = self
                .topology
                .services
                .iter()
                .find(|s| s.service == ingress.service);
            if entry.is_none_or(|service| service.load_balancer_ip.is_none()) {
                return invalid(
                    format!("{field}.service"),
                    format!(
                        "expected a Service of type LoadBalancer, which {} is not",
                        ingress.service
                    ),
                );
            }
            let more = ingress.origin.is_some() || ingress.expect_status.is_some();
            if more && self.topology.published_by == PublishedBy::ApiServer {
                return invalid(
                    field,
                    "expected topology.publishedBy: file with an origin or a status",
                );
            }
            if let Some(origin) = &ingress.origin {
                let known = self.topology.services.iter().any(|s| s.service == *origin);
                if !known || entry.is_none_or(|entry| entry.server.software != ServerSoftware::Nginx) {
                    return invalid(
                        format!("{field}.origin"),
                        format!(
                            "expected a Service of this file ({origin}) and a controller of software nginx"
                        ),
                    );
                }
            }
            for host in ingress.hosts.names() {
                if !hosts.insert(host) {
                    return invalid(format!("{field}.hosts"), format!("{host} is listed twice"));
                }
            }
        }
        Ok(())
    }

    fn check_faults(&self) -> CheckResult {
        let mut cluster =
            Cluster::derive(self).map_err(|error| InvalidIncident::new("topology", error.to_string()))?;
        let mut reachable = true;
        for (i, fault) in self.steps().iter().enumerate() {
            let field = if i < self.faults.len() {
                format!("faults[{i}]")
            } else {
                "repair".to_owned()
            };
            if fault.ops.is_empty() {
                return invalid(format!("{field}.ops"), "expected at least one change");
            }
            for (j, op) in fault.ops.iter().enumerate() {
                let field = format!("{field}.ops[{j}]");
                if let FaultOperation::SetServer { service, server, .. } = op
                    && let Some(written) = self.topology.services.iter().find(|s| s.service == *service)
                {
                    check_server(&format!("{field}.server"), written, server)?;
                }
                self.check_api_server(&field, op, &mut reachable)?;
                if self.dataplane.is_nftables()
                    && let Some(needs) = op.needs_own_kernel()
                {
                    return invalid(
                        field,
                        format!(
                            "{needs}, which requires the lab's own kernel: expected a data plane other \
                             than those of nftables"
                        ),
                    );
                }
                cluster
                    .apply(op)
                    .map_err(|error| InvalidIncident::new(field, error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Checks an operation on the API server, and that nothing is published that its objects cannot express.
    fn check_api_server(&self, field: &str, op: &FaultOperation, reachable: &mut bool) -> CheckResult {
        let by_objects = self.topology.published_by == PublishedBy::ApiServer;
        match op {
            FaultOperation::ApiServerAway {} | FaultOperation::ApiServerBack {} if !by_objects => invalid(
                field,
                "expected topology.publishedBy: api-server for this operation",
            ),
            FaultOperation::ApiServerAway {} | FaultOperation::ApiServerBack {} => {
                let comes = *op == FaultOperation::ApiServerBack {};
                if *reachable == comes {
                    return invalid(field, "expected api-server-away first, then api-server-back");
                }
                *reachable = comes;
                Ok(())
            }
            FaultOperation::NetworkPolicy { .. } if by_objects => {
                invalid(field, "expected topology.publishedBy: file for a NetworkPolicy")
            }
            _ => Ok(()),
        }
    }

    /// Returns every address and port of a Service.
    pub fn fronts_of(&self, key: &ServiceKey) -> impl Iterator<Item = SocketAddr> {
        let services = self.topology.services.iter();
        services
            .filter(move |service| service.service == *key)
            .flat_map(|service| {
                let four = [service.cluster_ip, service.load_balancer_ip];
                let six = four.map(|ip| ip.filter(|_| self.topology.families == AddressFamilies::DualStack));
                let addresses = [
                    four.map(|ip| ip.map(IpAddr::V4)),
                    six.map(|ip| ip.map(|ip| IpAddr::V6(addresses::ipv6_counterpart(ip)))),
                ];
                let ports = service.ports.iter().map(|port| port.port);
                ports.flat_map(move |port| {
                    let ips = addresses.into_iter().flatten().flatten();
                    ips.map(move |ip| SocketAddr::new(ip, port))
                })
            })
    }

    /// Returns all host names, in the order of the file.
    pub fn hosts(&self) -> impl Iterator<Item = &parallax_model::HostName> {
        self.topology
            .ingresses
            .iter()
            .flat_map(|ingress| ingress.hosts.names())
    }
}

/// Checks a name that becomes a network namespace, and so a file name and an argument of `ip`.
fn namespace_name(field: &str, name: &str) -> CheckResult {
    let fits = name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if fits {
        return Ok(());
    }
    invalid(
        field,
        format!(
            "expected at most 63 lower-case letters, digits and dashes, starting with a letter, got {name:?}"
        ),
    )
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
