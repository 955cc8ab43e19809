//! The target fails whichever way it is approached: its endpoints are missing, kept from their clients, or fail themselves.

use parallax_model::{FailureKind, KindClass};

use super::{Cause, CauseContext, Claim, Clause, Wording, is_redirect, remedy};
use crate::{
    inference::profiles,
    regions::RegionKind,
    topology::Service,
    verdict::{Fact, Remedy},
};

const REGIONS: &[RegionKind] = &[RegionKind::Target];

const ANSWERS: &[KindClass] = &[KindClass::Http4xx, KindClass::Http5xx];

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "F26",
        title: "no usable endpoint",
        // Without endpoints nothing is dialled directly, so the evidence is of the address alone.
        regions: &[RegionKind::Target, RegionKind::Vip],
        // A headless Service without endpoints has a name without addresses. Behind a route it is the controller that answers.
        profile: |s| {
            let headless = s.service.is_some_and(|service| service.headless);
            match (Claim::NoEndpoint.holds(s), headless) {
                (false, _) => [0.3, 0.3, 0.1, 0.1, 0.1, 0.1, 5.0, 5.0, 0.1, 0.1],
                (true, true) => [1.0, 10.0, 0.1, 1.0, 0.1, 0.1, 0.1, 1.0, 10.0, 0.1],
                (true, false) => [1.0, 10.0, 0.1, 1.0, 0.1, 0.1, 0.1, 1.0, 0.1, 0.1],
            }
        },
        likelier: |s| {
            if Claim::NoEndpoint.holds(s) || (Claim::NoOrigin.holds(s) && s.share(ANSWERS) > 0.5) {
                50.0
            } else {
                0.0
            }
        },
        mechanism: no_endpoint,
        remedies: |s| {
            let service = s
                .service
                .filter(|service| service.usable().is_empty())
                .or(s.origin);
            vec![remedy(
                "bring an endpoint up: compare the Service's selector with its pods and their readiness",
                service.map(slices),
                "nothing: reading only",
            )]
        },
    },
    Cause {
        id: "F19",
        title: "ingress class, host conflict or path rewrite: no controller serves this host",
        regions: REGIONS,
        profile: |_| [0.1, 0.1, 0.2, 0.1, 0.1, 0.5, 8.0, 0.3, 0.1, 0.1],
        likelier: |s| {
            let wrong = s.share(&[KindClass::Http4xx]) - s.kind_share(is_redirect);
            let may = s.controller.is_there() || s.service.is_none();
            match (may && !Claim::NoOrigin.holds(s), wrong > 0.0) {
                (false, _) => 0.0,
                (true, true) => 1.0,
                (true, false) => 0.02,
            }
        },
        mechanism: |s| {
            let status = s.main_status();
            Wording::of(s)
                .say_first([
                    (
                        &[Claim::Routed, Claim::Answered][..],
                        match status {
                            None | Some(404) => {
                                "the controller answers and has no route for the host, or another's".to_owned()
                            }
                            Some(status) => format!(
                                "the controller answers {status}: another route, a rewrite or a filter than the target expects"
                            ),
                        },
                    ),
                    (&[], "the server has no route for the host, or another's".to_owned()),
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
        title: "the application's pods do not serve",
        regions: REGIONS,
        profile: |_| [0.5, 0.3, 0.5, 0.1, 0.5, 0.1, 0.5, 8.0, 0.1, 0.1],
        likelier: |s| {
            if Claim::NoOrigin.holds(s) || Claim::NoEndpoint.holds(s) {
                0.0
            } else if s.share(&[KindClass::Http5xx]) > 0.0 {
                1.0
            } else {
                0.02
            }
        },
        mechanism: |s| {
            let errors = Claim::Mostly(KindClass::Http5xx);
            Wording::of(s)
                .say_first([
                    (
                        &[Claim::Routed, errors, Claim::AllFail][..],
                        "the controller answers for the host and finds no application pod that serves".to_owned(),
                    ),
                    (
                        &[Claim::Routed, errors],
                        "the controller answers for the host, and some of the application's pods do not serve"
                            .to_owned(),
                    ),
                    (
                        &[errors],
                        format!("{} server errors", match s.service {
                            Some(service) => format!("the pods of Service {} answer with", service.key),
                            None => "the application answers with".to_owned(),
                        }),
                    ),
                    (&[], "the application's pods do not serve".to_owned()),
                ])
                .clauses()
        },
        remedies: |s| {
            let command = s.origin.or(s.service).map_or_else(
                || "kubectl get pods -A --field-selector status.phase!=Running".to_owned(),
                pods,
            );
            vec![remedy(
                "look at the application's pods: their log, their readiness, their latest roll-out",
                Some(command),
                "nothing: reading only",
            )]
        },
    },
    Cause {
        id: "F18",
        title: "a redirect leads astray",
        regions: REGIONS,
        profile: |_| [0.3, 0.3, 0.2, 0.1, 0.1, 0.2, 8.0, 0.2, 0.1, 0.1],
        // Only where an answer did send the client elsewhere.
        likelier: |s| 4.0 * s.kind_share(is_redirect),
        mechanism: |s| {
            let said = match s.main_failure() {
                Some((FailureKind::RedirectLoop, _)) => "the redirects run in a circle".to_owned(),
                Some((FailureKind::RedirectTooMany, _)) => {
                    "there are more redirects than a client follows".to_owned()
                }
                Some((FailureKind::Status, Some(status))) => {
                    format!("the answer is a redirect ({status}) where another one is expected")
                }
                _ => "the answer sends clients to another scheme, port or host than the target allows"
                    .to_owned(),
            };
            Wording::of(s).say_if(&[Claim::Redirected], said).clauses()
        },
        remedies: |s| {
            let url = s.target.map(|target| target.id.as_str());
            let url = url
                .filter(|url| url.starts_with("http"))
                .map(|url| url.split('#').next().unwrap_or(url));
            vec![
                remedy(
                    "look at where the answer leads",
                    url.map(|url| format!("curl -sSI --max-redirs 0 {url}")),
                    "nothing: reading only",
                ),
                remedy(
                    "exempt /.well-known/acme-challenge/ from redirects and from authentication",
                    Some("kubectl get ingress -A -o yaml".to_owned()),
                    "that path then answers in plain HTTP; only tokens lie there",
                )
                .not_when("the redirect comes from the balancer or a CDN in front of the cluster"),
            ]
        },
    },
    Cause {
        id: "F13",
        title: "a filter before the pods: NetworkPolicy, security group or host firewall",
        regions: REGIONS,
        // How long a controller waits for the pods is one setting: its clients see its 504s or give up before. Where none
        // gives up, server errors alone must not speak for F20 the longer they last.
        profile: |s| match (is_filtered(s), s.share(&[KindClass::Timeout]) > 0.0) {
            (true, _) => [8.0, 0.5, 0.1, 1.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1],
            (false, true) => [2.0, 0.3, 0.2, 0.3, 0.3, 0.1, 0.1, 7.0, 0.1, 0.1],
            (false, false) => [1.2, 0.3, 0.2, 0.3, 0.3, 0.1, 0.1, 8.0, 0.1, 0.1],
        },
        likelier: |s| {
            if is_filtered(s) {
                2.0
            } else if s.share(&[KindClass::Http5xx]) > 0.0 && s.controller != super::ControllerPresence::Not {
                0.4
            } else {
                0.01
            }
        },
        mechanism: filtered,
        remedies: |s| {
            let command = match guards(s) {
                Intermediaries::Named(service, _) => {
                    format!("kubectl -n {} describe networkpolicies", service.key.namespace)
                }
                Intermediaries::Unknown | Intermediaries::None(_) => {
                    "kubectl get networkpolicies -A".to_owned()
                }
            };
            let (action, cost) = if is_filtered(s) {
                (
                    "find what drops packets to the pods' port: NetworkPolicies, security groups, host firewalls; and let in \
                     those clients that need it",
                    "whoever the filter kept out gets in: name the sources, not everybody",
                )
            } else {
                (
                    "allow the ingress controller's namespace to reach the pods (port 8089 for ACME solvers)",
                    "whatever runs in the controller's namespace may then call these pods",
                )
            };
            vec![
                remedy(action, Some(command), cost).not_when(
                    "the policy is the provider's or the mesh's own, outside of NetworkPolicy objects",
                ),
            ]
        },
    },
    Cause {
        id: "F21",
        title: "service mesh with STRICT mTLS refuses plain requests",
        regions: REGIONS,
        profile: |_| [0.3, 0.3, 4.0, 0.1, 0.1, 0.5, 0.1, 6.0, 0.1, 0.1],
        likelier: |s| {
            let fits = match s.controller {
                super::ControllerPresence::Not => &[KindClass::Reset][..],
                _ => &[KindClass::Http5xx, KindClass::Reset],
            };
            if s.share(fits) > 0.0 { 0.2 } else { 0.01 }
        },
        mechanism: |s| {
            Wording::of(s)
                .say_first([
                    (
                        &[Claim::Routed][..],
                        "the application's sidecar refuses plain requests, and the controller makes them"
                            .to_owned(),
                    ),
                    (&[], "the application's sidecar refuses plain requests".to_owned()),
                ])
                .clauses()
        },
        remedies: |_| {
            vec![
                remedy(
                    "inject the sidecar into the controller or solver pods, or exempt the port (PeerAuthentication)",
                    Some("kubectl get peerauthentication -A".to_owned()),
                    "the pods restart; an exempted port takes plain requests from everything inside",
                )
                .not_when("the mesh does not run in the namespace of the application"),
            ]
        },
    },
    Cause {
        id: "P6",
        title: "the workload behind the address fails",
        regions: REGIONS,
        profile: |_| profiles::TARGET,
        likelier: |s| if Claim::NoEndpoint.holds(s) { 0.0 } else { 0.5 },
        mechanism: |s| {
            Wording::of(s)
                .say_first([
                    (
                        &[Claim::AddressFails, Claim::EndpointsFail][..],
                        "address and endpoints fail alike".to_owned(),
                    ),
                    (&[], reason(s).to_owned()),
                ])
                .say_if(
                    &[Claim::Ready],
                    ", though Kubernetes says that the pods are ready",
                )
                .clauses()
        },
        remedies: workload,
    },
];

/// The Service without an endpoint, what of it there is, and what clients meet instead.
fn no_endpoint(s: &CauseContext<'_>) -> Vec<Clause> {
    let what_is = |service: &Service| match service.endpoints.len() {
        0 => "none exists".to_owned(),
        1 => "the only one is not ready".to_owned(),
        count => format!("none of {count} is ready"),
    };
    let own = s.service.filter(|service| service.usable().is_empty());
    if let Some(service) = own {
        return Wording::of(s)
            .say_if(
                &[Claim::NoEndpoint],
                format!(
                    "Service {} has no usable endpoint ({})",
                    service.key,
                    what_is(service)
                ),
            )
            .say_if(
                &[Claim::NoEndpoint, Claim::Mostly(KindClass::Refused)],
                ", so connections are refused",
            )
            .say_if(
                &[Claim::NoEndpoint, Claim::Mostly(KindClass::NxDomain)],
                ", so its name has no address",
            )
            .clauses();
    }
    let Some(origin) = s.origin else {
        return Vec::new();
    };
    let answers = s
        .main_status()
        .map_or_else(|| "an error".to_owned(), |status| status.to_string());
    Wording::of(s)
        .say_if(
            &[Claim::NoOrigin],
            format!(
                "Service {} behind the route has no usable endpoint ({})",
                origin.key,
                what_is(origin)
            ),
        )
        .say_if(
            &[Claim::NoOrigin, Claim::Routed, Claim::Answered],
            format!(", so the controller answers {answers}"),
        )
        .clauses()
}

/// Everything that leads to ready pods times out while connecting: packets are dropped, and by more than one of them.
fn is_filtered(s: &CauseContext<'_>) -> bool {
    let silent = s.kind_share(|kind, _| *kind == FailureKind::ConnectTimeout) > 0.9;
    silent && s.pods_are_ready() && !s.controller.is_there()
}

fn filtered(s: &CauseContext<'_>) -> Vec<Clause> {
    if is_filtered(s) {
        let port = s
            .endpoint_port()
            .map_or_else(String::new, |port| format!(" on port {port}"));
        let service = s.service_words();
        let which = match guards(s) {
            Intermediaries::Named(_, names) => format!(" (the NetworkPolicy {names} selects the pods)"),
            Intermediaries::Unknown | Intermediaries::None(_) => String::new(),
        };
        return Wording::of(s)
            .say_first([
                (
                    &[Claim::Ready, Claim::AddressFails, Claim::EndpointsFail][..],
                    format!("no way to the ready pods of {service} gets an answer{port}: "),
                ),
                (&[Claim::Ready], format!("the pods of {service} are ready, and silent{port}: ")),
            ])
            .say(format!(
                "a filter drops the packets, such as a NetworkPolicy, a security group or a host firewall{which}"
            ))
            .clauses();
    }
    let which = match guards(s) {
        Intermediaries::Named(_, names) => {
            format!(": the NetworkPolicy {names} selects them and may not name it")
        }
        Intermediaries::Unknown | Intermediaries::None(_) => {
            ", as behind a NetworkPolicy that does not name it".to_owned()
        }
    };
    Wording::of(s)
        .say_first([
            (
                &[Claim::Routed, Claim::Answered][..],
                format!(
                    "the controller answers for the host and does not get through to the application's pods{which}"
                ),
            ),
            (
                &[Claim::Routed],
                format!("the controller does not get through to the application's pods{which}"),
            ),
            (
                &[],
                "a filter keeps clients from the pods, such as a NetworkPolicy, a security group or a host firewall"
                    .to_owned(),
            ),
        ])
        .clauses()
}

/// What a failure of its kind usually is, where nothing of the pods is known.
fn reason(s: &CauseContext<'_>) -> &'static str {
    let Some((kind, status)) = s.main_failure() else {
        return "the workload behind the address fails";
    };
    match kind.class(status) {
        KindClass::Refused => "nothing listens on the port, or a firewall rejects the connection",
        KindClass::Timeout => "the host is away or hangs, or a firewall drops the packets",
        KindClass::Unreachable => "there is no route to the host, or a firewall rejects the connection",
        KindClass::Reset => "what listens on the port ends the connections",
        KindClass::Stall => "the answers stop in their middle",
        KindClass::Tls => "the server and the probers do not agree in the TLS handshake",
        KindClass::Http4xx => "the answers are not those that the target expects",
        KindClass::Http5xx => "the answers are server errors",
        KindClass::NxDomain | KindClass::ServFail => "the name does not lead there",
    }
}

fn workload(s: &CauseContext<'_>) -> Vec<Remedy> {
    let action = "look at the workload behind it, its latest roll-out first";
    let cost = "rolling back loses what the roll-out brought";
    vec![remedy(action, s.origin.or(s.service).map(pods), cost)]
}

fn slices(service: &Service) -> String {
    let key = &service.key;
    format!(
        "kubectl -n {} get endpointslices -l kubernetes.io/service-name={} -o yaml",
        key.namespace, key.name
    )
}

fn pods(service: &Service) -> String {
    let key = &service.key;
    format!(
        "kubectl -n {} get endpointslices,pods -l kubernetes.io/service-name={} -o wide",
        key.namespace, key.name
    )
}

/// What stands before the pods that answer in the end.
enum Intermediaries<'a> {
    Unknown,
    None(&'a Service),
    /// `namespace/name`, with commas between them.
    Named(&'a Service, String),
}

fn guards<'a>(s: &CauseContext<'a>) -> Intermediaries<'a> {
    let service = s.origin.or(s.service);
    let Some((service, policies)) = service.and_then(|service| Some((service, service.guarded_by.as_ref()?)))
    else {
        return Intermediaries::Unknown;
    };
    let names: Vec<String> = policies
        .iter()
        .map(|name| format!("{}/{name}", service.key.namespace))
        .collect();
    if names.is_empty() {
        Intermediaries::None(service)
    } else {
        Intermediaries::Named(service, names.join(", "))
    }
}

/// What is known of the policies before these pods, as it moves F13 among the causes of its region. That there is one is
/// no proof that it is in the way, and what a provider keeps outside of these objects is not seen.
pub(super) fn policies(s: &CauseContext<'_>) -> Option<Fact> {
    let (text, multiplier) = match guards(s) {
        Intermediaries::Unknown => return None,
        Intermediaries::None(service) => (
            format!("no NetworkPolicy selects the pods of Service {}", service.key),
            0.2,
        ),
        Intermediaries::Named(service, names) => (
            format!(
                "the NetworkPolicy {names} lets only some in to the pods of Service {}",
                service.key
            ),
            3.0,
        ),
    };
    Some(Fact {
        text,
        multiplier,
        cause: Some("F13".to_owned()),
    })
}
