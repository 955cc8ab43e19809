//! The target fails on every channel: its endpoints are missing, blocked from their clients, or failing.

mod endpoints;
mod network_policies;

use parallax_model::{FailureKind, KindClass};

use super::{Cause, CauseContext, Claim, Wording, is_redirect, remedy};
use crate::{inference::kind_profiles, regions::RegionKind, verdict::Remedy};
use endpoints::{endpoint_slices_command, no_endpoint_mechanism, pods_command};
pub(super) use network_policies::network_policy_fact;
use network_policies::{SelectingPolicies, filtered_mechanism, is_filtered, selecting_policies};

const REGIONS: &[RegionKind] = &[RegionKind::Target];

const RESPONSES: &[KindClass] = &[KindClass::Http4xx, KindClass::Http5xx];

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "F26",
        title: "the Service has no usable endpoint",
        // Without endpoints there are no direct probes, so the evidence covers only the address.
        regions: &[RegionKind::Target, RegionKind::Vip],
        // The name of a headless Service without endpoints has no addresses. Behind a route the controller
        // responds.
        profile: |s| {
            let headless = s.service.is_some_and(|service| service.headless);
            match (Claim::NoEndpoint.holds(s), headless) {
                (false, _) => [0.3, 0.3, 0.1, 0.1, 0.1, 0.1, 5.0, 5.0, 0.1, 0.1],
                (true, true) => [1.0, 10.0, 0.1, 1.0, 0.1, 0.1, 0.1, 1.0, 10.0, 0.1],
                (true, false) => [1.0, 10.0, 0.1, 1.0, 0.1, 0.1, 0.1, 1.0, 0.1, 0.1],
            }
        },
        weight: |s| {
            if Claim::NoEndpoint.holds(s) || (Claim::NoOrigin.holds(s) && s.share(RESPONSES) > 0.5) {
                50.0
            } else {
                0.0
            }
        },
        mechanism: no_endpoint_mechanism,
        remedies: |s| {
            let service = s
                .service
                .filter(|service| service.usable().is_empty())
                .or(s.origin);
            vec![remedy(
                "restore an endpoint: compare the Service's selector with its Pods and check their readiness",
                service.map(endpoint_slices_command),
                "none (read-only)",
            )]
        },
    },
    Cause {
        id: "F19",
        title: "no controller serves this host (ingress class, host conflict or path rewrite)",
        regions: REGIONS,
        profile: |_| [0.1, 0.1, 0.2, 0.1, 0.1, 0.5, 8.0, 0.3, 0.1, 0.1],
        weight: |s| {
            let wrong = s.share(&[KindClass::Http4xx]) - s.kind_share(is_redirect);
            let may = s.controller.is_present() || s.service.is_none();
            match (may && !Claim::NoOrigin.holds(s), wrong > 0.0) {
                (false, _) => 0.0,
                (true, true) => 1.0,
                (true, false) => 0.02,
            }
        },
        mechanism: |s| {
            let status = s.main_status();
            Wording::new(s)
                .add_first([
                    (
                        &[Claim::Routed, Claim::Answered][..],
                        match status {
                            None | Some(404) => {
                                "the controller answers, but has no route for the host or uses the route of another \
                                 host".to_owned()
                            }
                            Some(status) => format!(
                                "the controller answers {status}: the route, rewrite or filter is not the one that \
                                 the target expects"
                            ),
                        },
                    ),
                    (&[], "the server has no route for the host or uses the route of another host".to_owned()),
                ])
                .clauses()
        },
        remedies: |_| {
            vec![remedy(
                "compare the class, host and path of the Ingress with those of the controller that answers",
                Some("kubectl get ingress -A -o wide".to_owned()),
                "moving a host to another class moves all of its paths at once",
            )]
        },
    },
    Cause {
        id: "F20",
        title: "the application's Pods fail to serve requests",
        regions: REGIONS,
        profile: |_| [0.5, 0.3, 0.5, 0.1, 0.5, 0.1, 0.5, 8.0, 0.1, 0.1],
        weight: |s| {
            if Claim::NoOrigin.holds(s) || Claim::NoEndpoint.holds(s) {
                0.0
            } else if s.share(&[KindClass::Http5xx]) > 0.0 {
                1.0
            } else {
                0.02
            }
        },
        mechanism: |s| {
            let errors = Claim::MostlyClass(KindClass::Http5xx);
            Wording::new(s)
                .add_first([
                    (
                        &[Claim::Routed, errors, Claim::AllFail][..],
                        "the controller answers for the host, but finds no application Pod that serves requests".to_owned(),
                    ),
                    (
                        &[Claim::Routed, errors],
                        "the controller answers for the host, but some of the application's Pods fail to serve requests"
                            .to_owned(),
                    ),
                    (
                        &[errors],
                        format!("{} server errors", match s.service {
                            Some(service) => format!("the Pods of Service {} return", service.key),
                            None => "the application returns".to_owned(),
                        }),
                    ),
                    (&[], "the application's Pods fail to serve requests".to_owned()),
                ])
                .clauses()
        },
        remedies: |s| {
            let command = s.origin.or(s.service).map_or_else(
                || "kubectl get pods -A --field-selector status.phase!=Running".to_owned(),
                pods_command,
            );
            vec![remedy(
                "check the application's Pods: logs, readiness and latest rollout",
                Some(command),
                "none (read-only)",
            )]
        },
    },
    Cause {
        id: "F18",
        title: "a redirect sends clients to the wrong place",
        regions: REGIONS,
        profile: |_| [0.3, 0.3, 0.2, 0.1, 0.1, 0.2, 8.0, 0.2, 0.1, 0.1],
        // Only if a response redirected the client.
        weight: |s| 4.0 * s.kind_share(is_redirect),
        mechanism: |s| {
            let description = match s.main_failure() {
                Some((FailureKind::RedirectLoop, _)) => "the redirects form a loop".to_owned(),
                Some((FailureKind::RedirectTooMany, _)) => {
                    "there are more redirects than a client follows".to_owned()
                }
                Some((FailureKind::Status, Some(status))) => {
                    format!("the response is a redirect ({status}) where the target expects another status")
                }
                _ => {
                    "the response redirects clients to a scheme, port or host that the target does not allow"
                        .to_owned()
                }
            };
            Wording::new(s)
                .add_if(&[Claim::Redirected], description)
                .clauses()
        },
        remedies: |s| {
            let url = s.target.map(|target| target.id.as_str());
            let url = url
                .filter(|url| url.starts_with("http"))
                .map(|url| url.split('#').next().unwrap_or(url));
            vec![
                remedy(
                    "check where the redirect leads",
                    url.map(|url| format!("curl -sSI --max-redirs 0 {url}")),
                    "none (read-only)",
                ),
                remedy(
                    "exempt /.well-known/acme-challenge/ from redirects and authentication",
                    Some("kubectl get ingress -A -o yaml".to_owned()),
                    "that path is then served over plain HTTP; it contains only tokens",
                )
                .with_ineffective_when(
                    "the redirect comes from the load balancer or a CDN in front of the cluster",
                ),
            ]
        },
    },
    Cause {
        id: "F13",
        title: "a NetworkPolicy, security group or host firewall blocks traffic to the Pods",
        regions: REGIONS,
        // Whether clients see the controller's 504 or time out first depends on its timeout. If no client times
        // out, more and more server errors alone must not favour F20.
        profile: |s| match (is_filtered(s), s.share(&[KindClass::Timeout]) > 0.0) {
            (true, _) => [8.0, 0.5, 0.1, 1.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1],
            (false, true) => [2.0, 0.3, 0.2, 0.3, 0.3, 0.1, 0.1, 7.0, 0.1, 0.1],
            (false, false) => [1.2, 0.3, 0.2, 0.3, 0.3, 0.1, 0.1, 8.0, 0.1, 0.1],
        },
        weight: |s| {
            if is_filtered(s) {
                2.0
            } else if s.share(&[KindClass::Http5xx]) > 0.0
                && s.controller != super::ControllerPresence::Absent
            {
                0.4
            } else {
                0.01
            }
        },
        mechanism: filtered_mechanism,
        remedies: |s| {
            let command = match selecting_policies(s) {
                SelectingPolicies::Named(service, _) => {
                    format!("kubectl -n {} describe networkpolicies", service.key.namespace)
                }
                SelectingPolicies::Unknown | SelectingPolicies::None(_) => {
                    "kubectl get networkpolicies -A".to_owned()
                }
            };
            let (action, cost) = if is_filtered(s) {
                (
                    "find what drops packets to the Pods' port (NetworkPolicies, security groups, host firewalls) and \
                     allow the clients that need access",
                    "opens the port to clients that were blocked: allow specific sources, not everyone",
                )
            } else {
                (
                    "allow the ingress controller's namespace to reach the Pods (port 8089 for ACME solvers)",
                    "everything in the controller's namespace may then connect to these Pods",
                )
            };
            vec![remedy(action, Some(command), cost).with_ineffective_when(
                "the policy belongs to the cloud provider or service mesh and is not a NetworkPolicy object",
            )]
        },
    },
    Cause {
        id: "F21",
        title: "the service mesh rejects plaintext requests (STRICT mTLS)",
        regions: REGIONS,
        profile: |_| [0.3, 0.3, 4.0, 0.1, 0.1, 0.5, 0.1, 6.0, 0.1, 0.1],
        weight: |s| {
            let fits = match s.controller {
                super::ControllerPresence::Absent => &[KindClass::Reset][..],
                _ => &[KindClass::Http5xx, KindClass::Reset],
            };
            if s.share(fits) > 0.0 { 0.2 } else { 0.01 }
        },
        mechanism: |s| {
            Wording::new(s)
                .add_first([
                    (
                        &[Claim::Routed][..],
                        "the application's sidecar rejects plaintext requests, and the controller sends them"
                            .to_owned(),
                    ),
                    (
                        &[],
                        "the application's sidecar rejects plaintext requests".to_owned(),
                    ),
                ])
                .clauses()
        },
        remedies: |_| {
            vec![
                remedy(
                    "inject the sidecar into the controller or solver Pods, or exempt the port (PeerAuthentication)",
                    Some("kubectl get peerauthentication -A".to_owned()),
                    "the Pods restart; an exempted port accepts plaintext requests from the whole cluster",
                )
                .with_ineffective_when("the service mesh does not cover the application's namespace"),
            ]
        },
    },
    Cause {
        id: "P6",
        title: "the workload behind the address fails",
        regions: REGIONS,
        profile: |_| kind_profiles::TARGET,
        weight: |s| if Claim::NoEndpoint.holds(s) { 0.0 } else { 0.5 },
        mechanism: |s| {
            Wording::new(s)
                .add_first([
                    (
                        &[Claim::AddressFails, Claim::EndpointsFail][..],
                        "the address and the endpoints fail alike".to_owned(),
                    ),
                    (&[], usual_reason(s).to_owned()),
                ])
                .add_if(&[Claim::Ready], ", although Kubernetes reports the Pods as ready")
                .clauses()
        },
        remedies: workload_remedies,
    },
];

/// The usual reason for a kind of failure, where nothing is known about the Pods.
fn usual_reason(s: &CauseContext<'_>) -> &'static str {
    let Some((kind, status)) = s.main_failure() else {
        return "the workload behind the address fails";
    };
    match kind.class(status) {
        KindClass::Refused => "nothing listens on the port, or a firewall rejects the connection",
        KindClass::Timeout => "the host is offline or hangs, or a firewall drops the packets",
        KindClass::Unreachable => "there is no route to the host, or a firewall rejects the connection",
        KindClass::Reset => "the server on the port closes the connections",
        KindClass::Stall => "responses stop before they are complete",
        KindClass::Tls => "the server and the probers cannot complete a TLS handshake",
        KindClass::Http4xx => "the responses are not the ones that the target expects",
        KindClass::Http5xx => "the responses are server errors",
        KindClass::NxDomain | KindClass::ServFail => "the name does not resolve to the target",
    }
}

fn workload_remedies(s: &CauseContext<'_>) -> Vec<Remedy> {
    let action = "check the workload behind the target, starting with its latest rollout";
    let cost = "a rollback also reverts the rollout's other changes";
    vec![remedy(action, s.origin.or(s.service).map(pods_command), cost)]
}
