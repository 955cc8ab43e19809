//! The likely causes of a group of failures with their remedies, and findings that do not affect the verdict.
//!
//! A cause that the diagnosis named from evidence comes first. Otherwise the usual causes of that kind of failure
//! are listed.

use std::collections::BTreeSet;

use parallax_api::preflight::Finding;
use parallax_diagnosis::verdict::{Remedy, Verdict as Diagnosed};
use parallax_model::{FailureKind, Outcome, Phase, Placement, Vantage};

use super::{Cause, CheckInput, CheckKind, VantageAnswer};

/// A usual cause: catalogue id, description, remedy, and the remedy's trade-off.
type UsualCause = (&'static str, &'static str, &'static str, &'static str);

const NO_LOCAL_ENDPOINT: &[UsualCause] = &[(
    "F1",
    "externalTrafficPolicy: Local refuses clients on nodes without an endpoint",
    "set externalTrafficPolicy: Cluster, or run the ingress Pods on every node (DaemonSet)",
    "with Cluster, endpoints no longer see the client's address unless the PROXY protocol carries it; a DaemonSet runs one Pod per node",
)];
const NOT_REACHABLE: &[UsualCause] = &[
    (
        "F12",
        "the router lacks NAT loopback for the cluster's own public address",
        "enable NAT loopback, or resolve the name to an internal address inside the network (split DNS)",
        "a rule on the router, or a second DNS record to keep in sync",
    ),
    (
        "F14",
        "a security group, loadBalancerSourceRanges or an allow-list blocks clients",
        "open port 80 to all clients, because the CA does not publish its addresses",
        "port 80 is open to all clients; redirect everything except /.well-known/acme-challenge/ to HTTPS",
    ),
];
const BLOCKED_OUTSIDE: &[UsualCause] = &[
    (
        "F14",
        "a security group, loadBalancerSourceRanges or an allow-list blocks clients",
        "open port 80 to all clients, because the CA does not publish its addresses",
        "port 80 is open to all clients; redirect everything except /.well-known/acme-challenge/ to HTTPS",
    ),
    (
        "F8",
        "the load balancer sends connections to nodes that do not respond, because its health checks are dropped",
        "compare the health of the nodes as the load balancer sees it with the nodes on which the ingress Pods run; set ipMode: Proxy, or use health checks from reserved addresses",
        "in-cluster traffic leaves the node and passes through the load balancer; the health checks are a setting of the provider",
    ),
];
const INTERMITTENT_OUTSIDE: &[UsualCause] = &[(
    "F8",
    "the load balancer sends connections to nodes that do not respond, because its health checks are dropped",
    "compare the health of the nodes as the load balancer sees it with the nodes on which the ingress Pods run; set ipMode: Proxy, or use health checks from reserved addresses",
    "in-cluster traffic leaves the node and passes through the load balancer; the health checks are a setting of the provider",
)];
const ONE_NODE: &[UsualCause] = &[(
    "F24",
    "kube-proxy on a node has stale Service rules",
    "restart kube-proxy on that node",
    "kube-proxy rewrites its rules once; established connections survive",
)];
const PROXY_HEADER_MISSING: &[UsualCause] = &[(
    "F9",
    "in-cluster traffic bypasses the load balancer, so the PROXY header is missing",
    "have the cloud controller set ipMode: Proxy in the Service's status, or publish a host name instead of an IP address",
    "in-cluster traffic leaves the node and passes through the load balancer",
)];
const TLS_BYPASSED: &[UsualCause] = &[(
    "F10",
    "in-cluster traffic bypasses the load balancer that terminates TLS",
    "have the cloud controller set ipMode: Proxy in the Service's status, or publish a host name instead of an IP address",
    "in-cluster traffic leaves the node and passes through the load balancer",
)];
const SLOW_RESPONSE: &[UsualCause] = &[
    (
        "F13",
        "a NetworkPolicy blocks the ingress controller from the solver's Pod",
        "allow the ingress controller's namespace to reach port 8089 of the solver Pods",
        "one more NetworkPolicy",
    ),
    (
        "F22",
        "the network path drops large packets (MTU mismatch)",
        "lower the Pods' MTU in the CNI configuration to what the path supports",
        "Pods restart",
    ),
];
const REDIRECTED: &[UsualCause] = &[(
    "F18",
    "a redirect sends clients to the wrong place",
    "exempt /.well-known/acme-challenge/ from redirects and authentication; redirects may lead to ports 80 and 443 only",
    "that path is served over plain HTTP without authentication; it contains only tokens",
)];
const ROUTE_NOT_SERVED: &[UsualCause] = &[(
    "F19",
    "no controller serves the solver's route (ingress class, host conflict or path rewrite)",
    "compare the class, host and path of the solver's Ingress with those of the controller that responds; another Ingress with this host may take precedence",
    "none (read-only)",
)];
const BACKEND_FAILS: &[UsualCause] = &[
    (
        "F20",
        "the Pods behind the route fail to serve requests",
        "check the solver's Pod and its Service",
        "none (read-only)",
    ),
    (
        "F21",
        "the service mesh rejects the ingress controller's plaintext request (STRICT mTLS)",
        "exempt port 8089 (PeerAuthentication), or inject the sidecar into the solver Pods",
        "an exempted port accepts plaintext requests, for tokens that are public in any case",
    ),
];
const NETWORK_POLICY: &[UsualCause] = &[(
    "F13",
    "a NetworkPolicy blocks the ingress controller from the solver's Pod",
    "allow the ingress controller's namespace to reach port 8089 of the solver Pods",
    "one more NetworkPolicy",
)];
const ACCESS_DENIED: &[UsualCause] = &[
    (
        "F18",
        "authentication or a redirect applies to the challenge path",
        "exempt /.well-known/acme-challenge/ from authentication",
        "that path is served without authentication; it contains only tokens",
    ),
    (
        "F31",
        "a CDN, firewall or geo-block filters by client location",
        "allow /.well-known/acme-challenge/ for all clients in the rules of the CDN or firewall",
        "one more rule",
    ),
];
const NAME_NOT_RESOLVED: &[UsualCause] = &[(
    "F15",
    "one name does not resolve (split-horizon DNS, an override, or its zone)",
    "compare the in-cluster answer with the public one, and check the overrides in the resolver's configuration",
    "none (read-only)",
)];
const RESOLVER_FAILS: &[UsualCause] = &[(
    "P10",
    "the DNS resolver does not respond",
    "check the resolver's Pods and the endpoints of its Service (kube-dns in most clusters)",
    "none (read-only)",
)];
const RESOLVER_UNREACHABLE: &[UsualCause] = &[(
    "P9",
    "some vantages cannot reach their DNS resolver",
    "allow these nodes to reach port 53 of the resolver over UDP and TCP: compare their NetworkPolicies, firewalls and Service rules with those of nodes that can resolve",
    "none",
)];
const PRIVATE_ADDRESS: &[UsualCause] = &[(
    "F29",
    "public DNS returns a private address",
    "publish a public address for the name, or switch to DNS-01",
    "DNS-01 requires credentials for the zone",
)];
const UNSERVED_V6: &[UsualCause] = &[(
    "F17",
    "an IPv6 address is published but not served",
    "serve port 80 on the IPv6 address, or remove the AAAA record",
    "without the AAAA record, IPv6 clients use IPv4",
)];

/// The causes and remedies for vantages with the same failure.
pub(super) fn causes_and_remedies(
    input: &CheckInput<'_>,
    phase: Phase,
    kind: &FailureKind,
    status: Option<u16>,
    members: &[&VantageAnswer],
) -> (Vec<Cause>, Vec<Remedy>) {
    let mut causes = Vec::new();
    let mut remedies = Vec::new();
    // The diagnosis weighs evidence about the network; a response is judged by its content.
    let of_the_network = matches!(phase, Phase::Resolve | Phase::Connect | Phase::FirstByte);
    // A failed lookup is never caused by a front, and a failure at a front never by the name.
    let of_names =
        |diagnosed: &&Diagnosed| diagnosed.region.region.starts_with("dns") == (phase == Phase::Resolve);
    if let Some(diagnosed) = input.diagnosis.filter(|_| of_the_network).filter(of_names) {
        // Runs never send a PROXY header. A server that requires one closes every connection without it, also on
        // the direct channel, so it looks like any server that closes connections.
        let untold = is_missing_proxy_header(phase, kind)
            && matches!(diagnosed.region.region.as_str(), "target" | "vip");
        if untold {
            add_usual(PROXY_HEADER_MISSING, &mut causes, &mut remedies);
        }
        causes.extend(diagnosed.causes.iter().map(|cause| Cause {
            id: cause.id.clone(),
            title: cause.title.clone(),
            diagnosed: !untold,
        }));
        remedies.extend(diagnosed.remedies.iter().cloned());
    }
    if causes.is_empty() {
        add_usual(
            usual_causes(input, phase, kind, status, members),
            &mut causes,
            &mut remedies,
        );
    }
    if input.check == CheckKind::SelfCheck && *kind == FailureKind::WrongBody {
        remedies.push(Remedy {
            action: "check whether something adds white space to the response: the self check compares every byte, the CA does not".to_owned(),
            command: None,
            trade_off: "none (read-only)".to_owned(),
            ineffective_when: None,
        });
    }
    (causes, remedies)
}

/// Adds usual causes with their remedies.
fn add_usual(entries: &[UsualCause], causes: &mut Vec<Cause>, remedies: &mut Vec<Remedy>) {
    for (id, title, action, price) in entries {
        causes.push(Cause {
            id: (*id).to_owned(),
            title: (*title).to_owned(),
            diagnosed: false,
        });
        remedies.push(Remedy {
            action: (*action).to_owned(),
            command: None,
            trade_off: (*price).to_owned(),
            ineffective_when: None,
        });
    }
}

/// Reports whether the failure is typical of a server that requires a PROXY header and does not receive one.
fn is_missing_proxy_header(phase: Phase, kind: &FailureKind) -> bool {
    phase != Phase::Connect
        && matches!(
            kind,
            FailureKind::Malformed | FailureKind::Eof | FailureKind::Reset
        )
}

fn usual_causes(
    input: &CheckInput<'_>,
    phase: Phase,
    kind: &FailureKind,
    status: Option<u16>,
    members: &[&VantageAnswer],
) -> &'static [UsualCause] {
    match kind {
        FailureKind::NoAddress if members.iter().all(|member| !member.sight.addresses.is_empty()) => {
            PRIVATE_ADDRESS
        }
        FailureKind::NxDomain | FailureKind::NoAddress | FailureKind::ServFail => NAME_NOT_RESOLVED,
        _ if phase == Phase::Resolve && input.answers.iter().any(resolved) => RESOLVER_UNREACHABLE,
        _ if phase == Phase::Resolve => RESOLVER_FAILS,
        FailureKind::RedirectRefused | FailureKind::RedirectLoop | FailureKind::RedirectTooMany => REDIRECTED,
        FailureKind::NotTls => TLS_BYPASSED,
        _ if is_missing_proxy_header(phase, kind) => PROXY_HEADER_MISSING,
        FailureKind::Status => match status {
            Some(504) => NETWORK_POLICY,
            Some(500..) => BACKEND_FAILS,
            Some(401 | 403 | 407 | 429 | 451) => ACCESS_DENIED,
            Some(400) => PROXY_HEADER_MISSING,
            _ => ROUTE_NOT_SERVED,
        },
        FailureKind::WrongBody | FailureKind::BodyTooLarge => ROUTE_NOT_SERVED,
        _ if phase == Phase::Tls => REDIRECTED,
        _ if phase == Phase::Connect => unreachable_causes(input, members),
        _ => SLOW_RESPONSE,
    }
}

/// Reports whether a vantage got an address for the name.
fn resolved(answer: &VantageAnswer) -> bool {
    match &answer.outcome {
        Outcome::Ok { .. } => true,
        Outcome::Failed { phase, .. } => *phase != Phase::Resolve,
        Outcome::NotProbed { .. } => false,
    }
}

/// Compares the vantages that cannot connect with those that can.
fn unreachable_causes(input: &CheckInput<'_>, members: &[&VantageAnswer]) -> &'static [UsualCause] {
    let six = |answer: &VantageAnswer| {
        let last = answer.sight.dials.iter().rfind(|dial| !dial.abandoned);
        last.is_some_and(|dial| dial.address.is_ipv6())
    };
    if members.iter().all(|member| six(member)) {
        return UNSERVED_V6;
    }
    // Clients outside connect to the load balancer; node-local failures do not affect them.
    if members
        .iter()
        .all(|member| matches!(member.vantage, Vantage::Outside { .. }))
    {
        let sometimes = members.iter().any(|member| member.sight.passes > 0);
        return if sometimes {
            INTERMITTENT_OUTSIDE
        } else {
            BLOCKED_OUTSIDE
        };
    }
    let passed: Vec<&VantageAnswer> = input
        .answers
        .iter()
        .filter(|answer| matches!(answer.outcome, Outcome::Ok { .. }))
        .collect();
    let no_local = |answer: &VantageAnswer| answer.placement == Placement::NoLocal;
    if !passed.is_empty() && members.iter().all(|m| no_local(m)) && !passed.iter().any(|p| no_local(p)) {
        return NO_LOCAL_ENDPOINT;
    }
    if members.len() == 1 && passed.len() > 1 {
        return ONE_NODE;
    }
    NOT_REACHABLE
}

/// Observations that do not affect the verdict.
pub(super) fn findings(input: &CheckInput<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let dead: BTreeSet<String> = input
        .answers
        .iter()
        .filter(|answer| matches!(answer.outcome, Outcome::Ok { .. }))
        .flat_map(|answer| &answer.sight.dials)
        .filter(|dial| dial.address.is_ipv6() && (dial.failure.is_some() || dial.abandoned))
        .map(|dial| dial.address.ip().to_string())
        .collect();
    if !dead.is_empty() {
        let consequence = match input.check {
            CheckKind::SelfCheck => "the self check races both address families and does not notice",
            CheckKind::Ca(_) => "the CA tries it first, and falls back to IPv4 only if it cannot connect",
        };
        found.push(Finding {
            id: "F17".into(),
            text: format!(
                "{} does not respond: {consequence}",
                dead.into_iter().collect::<Vec<_>>().join(", ")
            ),
        });
    }
    if !input.key_served {
        let odd: BTreeSet<u16> = input
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
                    "status {status} for a path that no solver serves: authentication or a firewall may block the solver as well"
                ),
            });
        }
    }
    found
}
