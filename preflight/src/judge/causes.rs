//! What usually makes a group fail as it does, and what to know besides.
//!
//! Where the diagnosis has named a cause by its evidence, that one stands first; the rest is the catalogue's pointers from
//! the kind of failure.

use std::collections::BTreeSet;

use parallax_api::preflight::Finding;
use parallax_diagnosis::verdict::{Remedy, Verdict as Diagnosed};
use parallax_model::{FailureKind, Outcome, Phase, Placement, Vantage};

use super::{Cause, CheckInput, CheckKind, VantageAnswer};

/// What the catalogue says: id, a few words, a way out, and what that costs.
type CatalogueEntry = (&'static str, &'static str, &'static str, &'static str);

const NO_LOCAL: &[CatalogueEntry] = &[(
    "F1",
    "externalTrafficPolicy: Local refuses clients on nodes without an endpoint",
    "set externalTrafficPolicy: Cluster, or run the ingress pods on every node (DaemonSet)",
    "Cluster hides the client's address unless PROXY protocol carries it; a DaemonSet is a pod a node",
)];
const UNREACHED: &[CatalogueEntry] = &[
    (
        "F12",
        "the router lacks NAT loopback for the cluster's own public address",
        "enable NAT loopback, or resolve the name to an internal address inside the network (split DNS)",
        "a rule on the router, or one more name to keep in step",
    ),
    (
        "F14",
        "a security group, loadBalancerSourceRanges or an allow-list blocks clients",
        "open port 80 for everybody: the CA's addresses are not published",
        "port 80 is open; redirect all but /.well-known/acme-challenge/ to HTTPS",
    ),
];
const KEPT_OUT: &[CatalogueEntry] = &[
    (
        "F14",
        "a security group, loadBalancerSourceRanges or an allow-list blocks clients",
        "open port 80 for everybody: the CA's addresses are not published",
        "port 80 is open; redirect all but /.well-known/acme-challenge/ to HTTPS",
    ),
    (
        "F8",
        "the balancer sends connections to nodes that do not answer them: its health checks are dropped",
        "compare the balancer's own view of the nodes' health with where the ingress pods run; ipMode: Proxy, or health checks from reserved addresses",
        "traffic from inside leaves the node and goes through the balancer; a setting of the provider",
    ),
];
const SOMETIMES_KEPT_OUT: &[CatalogueEntry] = &[(
    "F8",
    "the balancer sends connections to nodes that do not answer them: its health checks are dropped",
    "compare the balancer's own view of the nodes' health with where the ingress pods run; ipMode: Proxy, or health checks from reserved addresses",
    "traffic from inside leaves the node and goes through the balancer; a setting of the provider",
)];
const ONE_NODE: &[CatalogueEntry] = &[(
    "F24",
    "kube-proxy on a node has stale Service rules",
    "restart kube-proxy on that node",
    "rules are rewritten once; connections stay",
)];
const BYPASSED: &[CatalogueEntry] = &[(
    "F9",
    "in-cluster traffic bypasses the load balancer, so the PROXY header is missing",
    "have the cloud controller set ipMode: Proxy in the Service's status, or publish a host name instead of an IP address",
    "traffic from inside leaves the node and goes through the balancer",
)];
const TLS_BYPASSED: &[CatalogueEntry] = &[(
    "F10",
    "in-cluster traffic bypasses the load balancer that terminates TLS",
    "have the cloud controller set ipMode: Proxy in the Service's status, or publish a host name instead of an IP address",
    "traffic from inside leaves the node and goes through the balancer",
)];
const SLOW: &[CatalogueEntry] = &[
    (
        "F13",
        "NetworkPolicy between the controller and the solver's pod",
        "allow the ingress controller's namespace to reach port 8089 of solver pods",
        "one more policy",
    ),
    (
        "F22",
        "the network path drops large packets (MTU mismatch)",
        "lower the Pods' MTU in the CNI configuration to what the path supports",
        "pods start again",
    ),
];
const REDIRECTED: &[CatalogueEntry] = &[(
    "F18",
    "a redirect sends clients to the wrong place",
    "exempt /.well-known/acme-challenge/ from redirects and authentication; redirects may lead to ports 80 and 443 only",
    "that one path stays plain, and shows nothing but tokens",
)];
const NOBODY_SERVES: &[CatalogueEntry] = &[(
    "F19",
    "ingress class, host conflict or path rewrite: the solver's route is not served",
    "compare class, host and path of the solver's Ingress with those of the controller that answers; a second Ingress with this host may win",
    "nothing",
)];
const NO_PODS: &[CatalogueEntry] = &[
    (
        "F20",
        "the pods behind the route do not serve",
        "look at the solver's pod and its Service",
        "nothing",
    ),
    (
        "F21",
        "service mesh with STRICT mTLS refuses the controller's plain request",
        "exempt port 8089 (PeerAuthentication), or inject the side car into the solver pods",
        "one port without mTLS, for tokens that are public anyway",
    ),
];
const POLICY: &[CatalogueEntry] = &[(
    "F13",
    "NetworkPolicy between the controller and the solver's pod",
    "allow the ingress controller's namespace to reach port 8089 of solver pods",
    "one more policy",
)];
const FORBIDDEN: &[CatalogueEntry] = &[
    (
        "F18",
        "authentication or a redirect on the challenge's path",
        "exempt /.well-known/acme-challenge/ from authentication",
        "that one path is open, and shows nothing but tokens",
    ),
    (
        "F31",
        "a CDN, firewall or geo-block filters by client location",
        "allow /.well-known/acme-challenge/ for everybody in the firewall's rules",
        "one rule",
    ),
];
const NAME: &[CatalogueEntry] = &[(
    "F15",
    "one name does not resolve (split-horizon DNS, an override, or its zone)",
    "compare the in-cluster answer with the public one, and check the overrides in the resolver's configuration",
    "nothing",
)];
const RESOLVER: &[CatalogueEntry] = &[(
    "P10",
    "the resolver does not answer",
    "look at the resolver's pods and at the endpoints of its Service (kube-dns in most clusters)",
    "nothing",
)];
const WAY_TO_RESOLVER: &[CatalogueEntry] = &[(
    "P9",
    "the way of some vantages to their resolver is broken",
    "let these nodes reach port 53 of the resolver, over UDP and TCP: compare NetworkPolicies, firewalls and Service rules with those of the nodes that resolve",
    "nothing",
)];
const PRIVATE: &[CatalogueEntry] = &[(
    "F29",
    "public DNS returns a private address",
    "publish a public address for the name, or validate it by DNS-01",
    "DNS-01 needs credentials for the zone",
)];
const UNSERVED_V6: &[CatalogueEntry] = &[(
    "F17",
    "an IPv6 address is published but not served",
    "serve port 80 on the IPv6 address, or remove the AAAA record",
    "clients by IPv6 go by IPv4 until it is served",
)];

/// Causes and ways out for vantages that fail alike.
pub(super) fn of(
    asked: &CheckInput<'_>,
    phase: Phase,
    kind: &FailureKind,
    status: Option<u16>,
    members: &[&VantageAnswer],
) -> (Vec<Cause>, Vec<Remedy>) {
    let mut causes = Vec::new();
    let mut remedies = Vec::new();
    // The diagnosis weighs the network; what a server answers is judged by its answer.
    let of_the_network = matches!(phase, Phase::Resolve | Phase::Connect | Phase::FirstByte);
    // A name that is not found is none of a front's doing, and the other way round.
    let of_names =
        |diagnosed: &&Diagnosed| diagnosed.region.region.starts_with("dns") == (phase == Phase::Resolve);
    if let Some(diagnosed) = asked.diagnosed.filter(|_| of_the_network).filter(of_names) {
        // No run asks with a PROXY header, and a server that wants one closes every connection without it, direct ones as
        // well: that looks like any server that closes.
        let untold = is_bypass(phase, kind) && matches!(diagnosed.region.region.as_str(), "target" | "vip");
        if untold {
            add(BYPASSED, &mut causes, &mut remedies);
        }
        causes.extend(diagnosed.causes.iter().map(|cause| Cause {
            id: cause.id.clone(),
            title: cause.title.clone(),
            diagnosed: !untold,
        }));
        remedies.extend(diagnosed.remedies.iter().cloned());
    }
    if causes.is_empty() {
        add(
            usual(asked, phase, kind, status, members),
            &mut causes,
            &mut remedies,
        );
    }
    if asked.check == CheckKind::SelfCheck && *kind == FailureKind::WrongBody {
        remedies.push(Remedy {
            action: "see whether something adds white space to the answer: the self check compares every byte, the CA does not".to_owned(),
            command: None,
            price: "nothing".to_owned(),
            not_when: None,
        });
    }
    (causes, remedies)
}

/// Adds what the catalogue says.
fn add(entries: &[CatalogueEntry], causes: &mut Vec<Cause>, remedies: &mut Vec<Remedy>) {
    for (id, title, action, price) in entries {
        causes.push(Cause {
            id: (*id).to_owned(),
            title: (*title).to_owned(),
            diagnosed: false,
        });
        remedies.push(Remedy {
            action: (*action).to_owned(),
            command: None,
            price: (*price).to_owned(),
            not_when: None,
        });
    }
}

/// Whether it fails as a server does that is asked without the PROXY header it wants.
fn is_bypass(phase: Phase, kind: &FailureKind) -> bool {
    phase != Phase::Connect
        && matches!(
            kind,
            FailureKind::Malformed | FailureKind::Eof | FailureKind::Reset
        )
}

fn usual(
    asked: &CheckInput<'_>,
    phase: Phase,
    kind: &FailureKind,
    status: Option<u16>,
    members: &[&VantageAnswer],
) -> &'static [CatalogueEntry] {
    match kind {
        FailureKind::NoAddress if members.iter().all(|member| !member.sight.addresses.is_empty()) => PRIVATE,
        FailureKind::NxDomain | FailureKind::NoAddress | FailureKind::ServFail => NAME,
        _ if phase == Phase::Resolve && asked.answers.iter().any(resolved) => WAY_TO_RESOLVER,
        _ if phase == Phase::Resolve => RESOLVER,
        FailureKind::RedirectRefused | FailureKind::RedirectLoop | FailureKind::RedirectTooMany => REDIRECTED,
        FailureKind::NotTls => TLS_BYPASSED,
        _ if is_bypass(phase, kind) => BYPASSED,
        FailureKind::Status => match status {
            Some(504) => POLICY,
            Some(500..) => NO_PODS,
            Some(401 | 403 | 407 | 429 | 451) => FORBIDDEN,
            Some(400) => BYPASSED,
            _ => NOBODY_SERVES,
        },
        FailureKind::WrongBody | FailureKind::BodyTooLarge => NOBODY_SERVES,
        _ if phase == Phase::Tls => REDIRECTED,
        _ if phase == Phase::Connect => unreached(asked, members),
        _ => SLOW,
    }
}

/// Whether a vantage got an address for the name.
fn resolved(answer: &VantageAnswer) -> bool {
    match &answer.outcome {
        Outcome::Ok { .. } => true,
        Outcome::Failed { phase, .. } => *phase != Phase::Resolve,
        Outcome::NotAsked { .. } => false,
    }
}

/// Who does not get through, against who does.
fn unreached(asked: &CheckInput<'_>, members: &[&VantageAnswer]) -> &'static [CatalogueEntry] {
    let six = |answer: &VantageAnswer| {
        let last = answer.sight.dials.iter().rfind(|dial| !dial.overtaken);
        last.is_some_and(|dial| dial.address.is_ipv6())
    };
    if members.iter().all(|member| six(member)) {
        return UNSERVED_V6;
    }
    // Clients outside meet the balancer, and nothing of what a node does to its own.
    if members
        .iter()
        .all(|member| matches!(member.vantage, Vantage::Outside { .. }))
    {
        let sometimes = members.iter().any(|member| member.sight.passes > 0);
        return if sometimes { SOMETIMES_KEPT_OUT } else { KEPT_OUT };
    }
    let passed: Vec<&VantageAnswer> = asked
        .answers
        .iter()
        .filter(|answer| matches!(answer.outcome, Outcome::Ok { .. }))
        .collect();
    let no_local = |answer: &VantageAnswer| answer.placement == Placement::NoLocal;
    if !passed.is_empty() && members.iter().all(|m| no_local(m)) && !passed.iter().any(|p| no_local(p)) {
        return NO_LOCAL;
    }
    if members.len() == 1 && passed.len() > 1 {
        return ONE_NODE;
    }
    UNREACHED
}

/// What passes and is yet worth knowing.
pub(super) fn findings(asked: &CheckInput<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let dead: BTreeSet<String> = asked
        .answers
        .iter()
        .filter(|answer| matches!(answer.outcome, Outcome::Ok { .. }))
        .flat_map(|answer| &answer.sight.dials)
        .filter(|dial| dial.address.is_ipv6() && (dial.failed.is_some() || dial.overtaken))
        .map(|dial| dial.address.ip().to_string())
        .collect();
    if !dead.is_empty() {
        let whose = match asked.check {
            CheckKind::SelfCheck => "the self check races both families and does not see it",
            CheckKind::Ca(_) => "the CA asks there first, and goes by IPv4 only where it cannot connect",
        };
        found.push(Finding {
            id: "F17".into(),
            text: format!(
                "{} does not answer: {whose}",
                dead.into_iter().collect::<Vec<_>>().join(", ")
            ),
        });
    }
    if !asked.with_key {
        let odd: BTreeSet<u16> = asked
            .answers
            .iter()
            .filter_map(|answer| match answer.outcome {
                Outcome::Ok { status } => status,
                _ => None,
            })
            .filter(|status| matches!(status, 401 | 403 | 407 | 429 | 451))
            .collect();
        for status in odd {
            found.push(Finding {
                id: "F18".into(),
                text: format!(
                    "{status} for a path that nobody serves: authentication or a firewall may stand before the solver, too"
                ),
            });
        }
    }
    found
}
