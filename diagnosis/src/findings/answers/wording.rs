//! A finding about answers in words, with what to do.

use std::net::{IpAddr, SocketAddr};

use parallax_model::{EventTime, Vantage};

use super::{
    address_character::AddressKind,
    judgement::{AnswerDeviation, NameCase, addresses},
    targets_of,
};
use crate::{
    findings::{Finding, FindingKind, Severity},
    topology::Topology,
    verdict::Remedy,
};

/// Lines of evidence shown.
const LINES: usize = 8;

/// One resolver whose answers to one name are wrong in one way.
pub(super) struct AccusedResolver<'a> {
    pub(super) case: &'a NameCase<'a>,
    pub(super) resolver: SocketAddr,
    pub(super) kind: FindingKind,
    pub(super) severity: Severity,
    pub(super) reads: &'a [AnswerDeviation<'a>],
    pub(super) since: EventTime,
}

impl AccusedResolver<'_> {
    pub(super) fn finding(&self, topology: &Topology) -> Finding {
        let name = self.case.name;
        let mut vantages: Vec<Vantage> = self.reads.iter().map(|(read, _)| read.vantage.clone()).collect();
        vantages.sort();
        let mut evidence: Vec<String> = self.reads.iter().map(|(read, _)| read.says()).collect();
        for (_, lines) in self.reads {
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
        if evidence.len() > LINES {
            let more = evidence.len() - LINES;
            evidence.truncate(LINES);
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
        let who = self.who();
        let resolver = resolver_words(topology, self.resolver);
        let Some((read, evidence)) = self.reads.first() else {
            return String::new();
        };
        let told = if read.union.is_empty() {
            "that it leads nowhere".to_owned()
        } else {
            addresses(&read.union)
        };
        match self.kind {
            FindingKind::MissingOverride => format!(
                "{resolver} tells {who} the outside answer for {name} ({told}), though elsewhere the name leads inside: {}",
                evidence.first().map_or("", String::as_str)
            ),
            FindingKind::StaleAnswer => format!(
                "{resolver} tells {who} an address for {name} that is out of date: {}",
                read.nature
            ),
            FindingKind::ShadowedName => format!(
                "{resolver} tells {who} that {name} is {told}, which shadows what it stands for: {}",
                evidence.first().map_or("", String::as_str)
            ),
            FindingKind::FlappingAnswer => format!(
                "{resolver} gives {who} answers of alternating nature for {name}, now {}: its replicas or upstreams do not \
                 agree",
                read.nature
            ),
            FindingKind::DifferingAnswers => format!(
                "{resolver} tells {who} that {name} is {told}, and elsewhere it is something else: {}",
                evidence.first().map_or("", String::as_str)
            ),
            FindingKind::PrivatePublished => format!(
                "the public answer for {name} is {told}, which nobody outside can reach: an ACME CA cannot validate it \
                 over HTTP"
            ),
            FindingKind::Exposed | FindingKind::CacheWindow | FindingKind::ChangedAnswer => String::new(),
        }
    }

    fn who(&self) -> String {
        let names: Vec<String> = self
            .reads
            .iter()
            .map(|(read, _)| read.vantage.to_string())
            .collect();
        crate::wording::listed(&names)
    }

    fn remedies(&self, topology: &Topology) -> Vec<Remedy> {
        let name = self.case.name;
        let place = ConfigurationSite::of(topology, self.resolver);
        let edit = |action: String, price: &str| {
            Remedy::new(action, Some(place.command()), price).not_when(
                "clients ask another resolver: pods with dnsPolicy Default or hostNetwork, NodeLocal DNS with its own \
                 configuration",
            )
        };
        let rule = self.case.own.services.first().map_or_else(
            || format!("an entry for {name} and its inside address in the plugin hosts, with fallthrough"),
            |service| {
                format!(
                    "rewrite stop name exact {name} {}.{}.svc.cluster.local answer auto",
                    service.name, service.namespace
                )
            },
        );
        let compare = || {
            Remedy::new(
                format!("ask the resolver for {name} by hand"),
                Some(format!("dig +short {name} @{}", self.resolver.ip())),
                "nothing: reading only",
            )
        };
        match self.kind {
            FindingKind::MissingOverride => vec![
                edit(
                    format!("add the override {} ({rule})", place.at()),
                    "inside and outside take different ways from then on; certificates must be checked from outside",
                ),
                Remedy::new(
                    "or take the override away where it is, so that everybody takes the public way",
                    Some("kubectl -n kube-system edit configmap coredns".to_owned()),
                    "clients inside go over the balancer again, with all that can go wrong there (F1–F10)",
                )
                .not_when("the public way does not work from inside, which may be why the override exists"),
            ],
            FindingKind::StaleAnswer => vec![
                edit(
                    format!(
                        "correct or remove the entry for {name} {}: today it {}",
                        place.at(),
                        self.today()
                    ),
                    "CoreDNS reloads within half a minute; caches keep the old answer for its TTL",
                ),
                compare(),
            ],
            FindingKind::ShadowedName => vec![
                edit(
                    format!("narrow the wildcard or override that catches {name} {}", place.at()),
                    "other names that the rule catches are answered as before or no more: list them first",
                ),
                Remedy::new(
                    "ask with a trailing dot, or lower ndots (dnsConfig of the pods), where the search list made it another name",
                    None,
                    "the pods of the Deployment restart; short names of other namespaces stop resolving",
                )
                .not_when("the rule catches the full name, too"),
            ],
            FindingKind::FlappingAnswer => vec![
                Remedy::new(
                    "bring the resolver's replicas to the same configuration",
                    Some("kubectl -n kube-system rollout restart deployment coredns".to_owned()),
                    "names resolve slower for seconds while the replicas restart one by one",
                )
                .not_when("the resolver forwards to several upstreams that differ: then these must agree"),
                compare(),
            ],
            FindingKind::DifferingAnswers => vec![compare()],
            FindingKind::PrivatePublished => vec![
                Remedy::new(
                    format!("publish an address that the internet reaches for {name}, and keep the private one inside"),
                    None,
                    "the name is then reachable from outside: only where that is wanted",
                )
                .not_when("the name is meant for the inside only"),
                Remedy::new(
                    "validate by DNS-01 instead of HTTP-01",
                    None,
                    "the issuer needs credentials for the DNS zone",
                )
                .not_when("the zone cannot be changed by a program"),
            ],
            FindingKind::Exposed | FindingKind::CacheWindow | FindingKind::ChangedAnswer => Vec::new(),
        }
    }

    /// What the name stands for now, as far as the topology says.
    fn today(&self) -> String {
        let now: Vec<String> = self.case.own.all().map(IpAddr::to_string).collect();
        match (now.is_empty(), self.reads.first().map(|(read, _)| &*read.nature)) {
            (false, _) => format!("is {} ({})", crate::wording::listed(&now), self.case.stands_for()),
            (true, Some(AddressKind::Gone(_, service, _))) => format!("was Service {service}'s"),
            (true, _) => "is nothing in this cluster".to_owned(),
        }
    }
}

/// Where a resolver's configuration lives.
enum ConfigurationSite {
    /// Link-local: a cache on each node.
    NodeLocal,
    /// The cluster's own resolver.
    Cluster,
    /// Somewhere else.
    Elsewhere(IpAddr),
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
            Self::Elsewhere(address)
        }
    }

    fn at(&self) -> String {
        match self {
            Self::NodeLocal => "in the configuration of NodeLocal DNS".to_owned(),
            Self::Cluster => "in the configuration of CoreDNS".to_owned(),
            Self::Elsewhere(address) => {
                format!("at the resolver {address} (the cluster's CoreDNS, or outside of it)")
            }
        }
    }

    fn command(&self) -> String {
        let map = match self {
            Self::NodeLocal => "node-local-dns",
            Self::Cluster | Self::Elsewhere(_) => "coredns",
        };
        format!("kubectl -n kube-system edit configmap {map}")
    }
}

fn resolver_words(topology: &Topology, resolver: SocketAddr) -> String {
    match ConfigurationSite::of(topology, resolver) {
        ConfigurationSite::NodeLocal => format!("the node-local resolver {}", resolver.ip()),
        ConfigurationSite::Cluster => format!("the cluster resolver {}", resolver.ip()),
        ConfigurationSite::Elsewhere(_) => format!("the resolver {}", resolver.ip()),
    }
}
