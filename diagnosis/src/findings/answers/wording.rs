//! Wording and remedies of findings about DNS answers.

use std::net::{IpAddr, SocketAddr};

use parallax_model::{EventTime, Vantage};

use super::{
    address_kind::AddressKind,
    judgement::{AnswerDeviation, NameCase, addresses},
    targets_of,
};
use crate::{
    findings::{Finding, FindingKind, Severity},
    topology::Topology,
    verdict::Remedy,
};

/// Maximum number of evidence lines.
const MAX_EVIDENCE_LINES: usize = 8;

/// A resolver whose answers for one name are wrong in one way.
pub(super) struct DeviatingResolver<'a> {
    pub(super) case: &'a NameCase<'a>,
    pub(super) resolver: SocketAddr,
    pub(super) kind: FindingKind,
    pub(super) severity: Severity,
    pub(super) deviations: &'a [AnswerDeviation<'a>],
    pub(super) since: EventTime,
}

impl DeviatingResolver<'_> {
    pub(super) fn finding(&self, topology: &Topology) -> Finding {
        let name = self.case.name;
        let mut vantages: Vec<Vantage> = self
            .deviations
            .iter()
            .map(|(read, _)| read.vantage.clone())
            .collect();
        vantages.sort();
        let mut evidence: Vec<String> = self
            .deviations
            .iter()
            .map(|(read, _)| read.evidence_line())
            .collect();
        for (_, lines) in self.deviations {
            for line in lines {
                if !evidence.contains(line) {
                    evidence.push(line.clone());
                }
            }
        }
        if !self.case.public.is_empty() && self.kind != FindingKind::PrivatePublished {
            evidence.push(format!("the public answer is {}", addresses(&self.case.public)));
        }
        evidence.dedup();
        if evidence.len() > MAX_EVIDENCE_LINES {
            let more = evidence.len() - MAX_EVIDENCE_LINES;
            evidence.truncate(MAX_EVIDENCE_LINES);
            evidence.push(format!("and {more} more"));
        }
        Finding {
            id: format!("{}:{name}@{}", self.kind, self.resolver),
            kind: self.kind,
            severity: self.severity,
            subject: format!("{name} at {}", self.resolver),
            sentence: self.sentence(topology),
            vantages,
            evidence,
            remedies: self.remedies(topology),
            targets: targets_of(topology, name),
            since: self.since,
        }
    }

    fn sentence(&self, topology: &Topology) -> String {
        let name = self.case.name;
        let clients = self.clients();
        let resolver = resolver_words(topology, self.resolver);
        let Some((read, evidence)) = self.deviations.first() else {
            return String::new();
        };
        let answer_text = if read.union.is_empty() {
            "no address".to_owned()
        } else {
            addresses(&read.union)
        };
        match self.kind {
            FindingKind::MissingOverride => format!(
                "{resolver} gives {clients} the external answer for {name} ({answer_text}), although the name has an internal \
                 address elsewhere: {}",
                evidence.first().map_or("", String::as_str)
            ),
            FindingKind::StaleAnswer => {
                format!(
                    "{resolver} gives {clients} a stale address for {name}: {}",
                    read.kind
                )
            }
            FindingKind::ShadowedName => format!(
                "{resolver} resolves {name} to {answer_text} for {clients}, which shadows what the name stands for: {}",
                evidence.first().map_or("", String::as_str)
            ),
            FindingKind::FlappingAnswer => format!(
                "{resolver} gives {clients} alternating answers for {name}, currently {}: its replicas or upstreams \
                 disagree",
                read.kind
            ),
            FindingKind::DifferingAnswers => format!(
                "{resolver} resolves {name} to {answer_text} for {clients}, but the name resolves differently elsewhere: {}",
                evidence.first().map_or("", String::as_str)
            ),
            FindingKind::PrivatePublished => format!(
                "public DNS resolves {name} to {answer_text}, which the internet cannot reach: an ACME CA cannot validate it \
                 over HTTP"
            ),
            FindingKind::Exposed | FindingKind::CacheWindow | FindingKind::ChangedAnswer => String::new(),
        }
    }

    fn clients(&self) -> String {
        let names: Vec<String> = self
            .deviations
            .iter()
            .map(|(read, _)| read.vantage.to_string())
            .collect();
        crate::wording::join_names(&names)
    }

    fn remedies(&self, topology: &Topology) -> Vec<Remedy> {
        let name = self.case.name;
        let place = ConfigurationSite::of(topology, self.resolver);
        let edit = |action: String, price: &str| {
            Remedy::new(action, Some(place.command()), price).with_ineffective_when(
                "clients query another resolver: Pods with dnsPolicy: Default or hostNetwork, or NodeLocal DNSCache \
                 with its own configuration",
            )
        };
        let rule = self.case.services.services.first().map_or_else(
            || format!("an entry for {name} with its internal address in the hosts plugin, with fallthrough"),
            |service| {
                format!(
                    "rewrite stop name exact {name} {}.{}.svc.cluster.local answer auto",
                    service.name, service.namespace
                )
            },
        );
        let compare = || {
            Remedy::new(
                format!("query the resolver for {name} manually"),
                Some(format!("dig +short {name} @{}", self.resolver.ip())),
                "none (read-only)",
            )
        };
        match self.kind {
            FindingKind::MissingOverride => vec![
                edit(
                    format!("add the override {} ({rule})", place.at()),
                    "clients inside and outside then take different paths; check certificates from outside",
                ),
                Remedy::new(
                    "remove the override where it exists, so that all clients take the public path",
                    Some("kubectl -n kube-system edit configmap coredns".to_owned()),
                    "in-cluster clients use the load balancer again, with all of its possible failures (F1–F10)",
                )
                .with_ineffective_when("the public path does not work from inside, which may be why the override exists"),
            ],
            FindingKind::StaleAnswer => vec![
                edit(
                    format!(
                        "correct or remove the entry for {name} {}: the name now {}",
                        place.at(),
                        self.current_meaning()
                    ),
                    "CoreDNS reloads within 30 seconds; caches keep the old answer for its TTL",
                ),
                compare(),
            ],
            FindingKind::ShadowedName => vec![
                edit(
                    format!("narrow the wildcard or override that matches {name} {}", place.at()),
                    "other names that the rule matches may stop resolving: list them first",
                ),
                Remedy::new(
                    "use a trailing dot or lower ndots (in the Pods' dnsConfig) if the search list changed the name",
                    None,
                    "the Deployment's Pods restart; short names of other namespaces stop resolving",
                )
                .with_ineffective_when("the rule also matches the full name"),
            ],
            FindingKind::FlappingAnswer => vec![
                Remedy::new(
                    "give all replicas of the resolver the same configuration",
                    Some("kubectl -n kube-system rollout restart deployment coredns".to_owned()),
                    "lookups are slower for some seconds while the replicas restart one by one",
                )
                .with_ineffective_when("the resolver forwards to several upstreams that differ: then fix the upstreams"),
                compare(),
            ],
            FindingKind::DifferingAnswers => vec![compare()],
            FindingKind::PrivatePublished => vec![
                Remedy::new(
                    format!("publish a public address for {name}, and keep the private one internal"),
                    None,
                    "the name is then reachable from the internet: do this only if that is intended",
                )
                .with_ineffective_when("the name is meant for internal use only"),
                Remedy::new(
                    "use DNS-01 validation instead of HTTP-01",
                    None,
                    "the issuer needs credentials for the DNS zone",
                )
                .with_ineffective_when("the zone cannot be changed automatically"),
            ],
            FindingKind::Exposed | FindingKind::CacheWindow | FindingKind::ChangedAnswer => Vec::new(),
        }
    }

    /// What the name stands for now, according to the topology.
    fn current_meaning(&self) -> String {
        let now: Vec<String> = self.case.services.all().map(IpAddr::to_string).collect();
        match (
            now.is_empty(),
            self.deviations.first().map(|(read, _)| &*read.kind),
        ) {
            (false, _) => format!(
                "stands for {} ({})",
                crate::wording::join_names(&now),
                self.case.stands_for()
            ),
            (true, Some(AddressKind::Former(_, service, _))) => {
                format!("stands for nothing; the address belonged to Service {service}")
            }
            (true, _) => "stands for nothing in this cluster".to_owned(),
        }
    }
}

/// Where a resolver is configured.
enum ConfigurationSite {
    /// A cache on each node, at a link-local address.
    NodeLocal,
    /// The cluster's own resolver.
    Cluster,
    /// Another resolver.
    Other(IpAddr),
}

impl ConfigurationSite {
    fn of(topology: &Topology, resolver: SocketAddr) -> Self {
        let address = resolver.ip();
        let link_local = matches!(address, IpAddr::V4(v4) if v4.is_link_local());
        if link_local {
            Self::NodeLocal
        } else if topology
            .fronts()
            .keys()
            .any(|front| front.address.ip() == address)
        {
            Self::Cluster
        } else {
            Self::Other(address)
        }
    }

    fn at(&self) -> String {
        match self {
            Self::NodeLocal => "in the NodeLocal DNSCache configuration".to_owned(),
            Self::Cluster => "in the CoreDNS configuration".to_owned(),
            Self::Other(address) => {
                format!("at the resolver {address} (the cluster's CoreDNS or an external resolver)")
            }
        }
    }

    fn command(&self) -> String {
        let map = match self {
            Self::NodeLocal => "node-local-dns",
            Self::Cluster | Self::Other(_) => "coredns",
        };
        format!("kubectl -n kube-system edit configmap {map}")
    }
}

fn resolver_words(topology: &Topology, resolver: SocketAddr) -> String {
    match ConfigurationSite::of(topology, resolver) {
        ConfigurationSite::NodeLocal => format!("the node-local resolver {}", resolver.ip()),
        ConfigurationSite::Cluster => format!("the cluster resolver {}", resolver.ip()),
        ConfigurationSite::Other(_) => format!("the resolver {}", resolver.ip()),
    }
}
