//! The target fails whichever way it is approached.

use parallax_model::KindClass;

use super::{Cause, Situation, remedy};
use crate::{kinds, region::RegionKind, topology::Service, verdict::Fact};

const REGIONS: &[RegionKind] = &[RegionKind::Target];

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "F26",
        title: "no endpoints at all",
        // Without endpoints nothing is dialled directly, so the evidence is of the address alone.
        regions: &[RegionKind::Target, RegionKind::Vip],
        // A headless Service without endpoints has a name without addresses.
        profile: |s| {
            let absent = if s.service.is_some_and(|service| service.headless) {
                10.0
            } else {
                0.1
            };
            [1.0, 10.0, 0.1, 1.0, 0.1, 0.1, 0.1, 1.0, absent, 0.1]
        },
        likelier: |s| {
            if s.service.is_some_and(|service| service.usable().is_empty()) {
                50.0
            } else {
                0.0
            }
        },
        mechanism: |s| {
            format!(
                "{} has no usable endpoint, so every node refuses",
                s.service_name()
            )
        },
        remedies: |s| {
            let (namespace, name) = s.service_args();
            vec![remedy(
                "bring an endpoint up: compare the Service's selector with its pods and their readiness",
                Some(format!(
                    "kubectl -n {namespace} get endpointslices -l kubernetes.io/service-name={name} -o yaml"
                )),
                "nothing: reading only",
            )]
        },
    },
    Cause {
        id: "F19",
        title: "ingress class, host conflict or path rewrite: nobody serves this host",
        regions: REGIONS,
        profile: |_| [0.1, 0.1, 0.2, 0.1, 0.1, 0.5, 8.0, 0.3, 0.1, 0.1],
        likelier: |s| {
            if s.share(&[KindClass::Http4xx]) > 0.0 {
                1.0
            } else {
                0.02
            }
        },
        mechanism: |_| "the controller answers and has no route for the host, or another's".to_owned(),
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
        title: "the pods behind the route do not serve",
        regions: REGIONS,
        profile: |_| [0.5, 0.3, 0.5, 0.1, 0.5, 0.1, 0.5, 8.0, 0.1, 0.1],
        likelier: |s| {
            let empty = s.origin.is_some_and(|origin| origin.usable().is_empty());
            match s.share(&[KindClass::Http5xx]) > 0.0 {
                true if empty => 8.0,
                true => 1.0,
                false => 0.02,
            }
        },
        mechanism: |s| match s.origin {
            Some(origin) if origin.usable().is_empty() => format!(
                "the controller answers for the host, and Service {} behind it has no usable endpoint",
                origin.key
            ),
            _ => "the controller answers for the host and finds no application pod that serves".to_owned(),
        },
        remedies: |s| {
            let command = s.origin.map_or_else(
                || "kubectl get pods -A --field-selector status.phase!=Running".to_owned(),
                |origin| {
                    format!(
                        "kubectl -n {} get endpointslices,pods -l kubernetes.io/service-name={} -o wide",
                        origin.key.namespace, origin.key.name
                    )
                },
            );
            vec![remedy(
                "look at the pods of the Service that the route leads to",
                Some(command),
                "nothing: reading only",
            )]
        },
    },
    Cause {
        id: "F18",
        title: "a redirect leads astray",
        regions: REGIONS,
        profile: |_| [0.3, 0.3, 0.2, 0.1, 0.1, 3.0, 5.0, 0.2, 0.1, 0.1],
        likelier: |s| {
            let redirects = s.share(&[KindClass::Http4xx, KindClass::Tls]);
            if redirects > 0.0 { 0.3 } else { 0.01 }
        },
        mechanism: |_| {
            "the answer sends clients to another scheme, port or host than the one that works".to_owned()
        },
        remedies: |_| {
            vec![
                remedy(
                    "look at where the answer leads",
                    Some("curl -sSI --max-redirs 0 URL".to_owned()),
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
        title: "NetworkPolicy between the controller and the application's pods",
        regions: REGIONS,
        // How long a controller waits for the pods is one setting: its clients see its 504s or give up before. Where none
        // gives up, server errors alone must not speak for F20 the longer they last.
        profile: |s| {
            if s.share(&[KindClass::Timeout]) > 0.0 {
                [2.0, 0.3, 0.2, 0.3, 0.3, 0.1, 0.1, 7.0, 0.1, 0.1]
            } else {
                [1.2, 0.3, 0.2, 0.3, 0.3, 0.1, 0.1, 8.0, 0.1, 0.1]
            }
        },
        likelier: |s| {
            if s.share(&[KindClass::Http5xx]) > 0.0 {
                0.4
            } else {
                0.01
            }
        },
        mechanism: |s| {
            let which = match guards(s) {
                Guards::Named(_, names) => {
                    format!(": the NetworkPolicy {names} selects them and may not name it")
                }
                Guards::Unknown | Guards::Nobody(_) => {
                    ", as behind a NetworkPolicy that does not name it".to_owned()
                }
            };
            format!(
                "the controller answers for the host and does not get through to the application's pods{which}"
            )
        },
        remedies: |s| {
            let command = match guards(s) {
                Guards::Named(service, _) => {
                    format!("kubectl -n {} describe networkpolicies", service.key.namespace)
                }
                Guards::Unknown | Guards::Nobody(_) => "kubectl get networkpolicies -A".to_owned(),
            };
            vec![
                remedy(
                    "allow the ingress controller's namespace to reach the pods (port 8089 for ACME solvers)",
                    Some(command),
                    "whatever runs in the controller's namespace may then call these pods",
                )
                .not_when("the policy is the provider's or the mesh's own, outside of NetworkPolicy objects"),
            ]
        },
    },
    Cause {
        id: "F21",
        title: "service mesh with STRICT mTLS refuses the controller's plain request",
        regions: REGIONS,
        profile: |_| [0.3, 0.3, 4.0, 0.1, 0.1, 0.5, 0.1, 6.0, 0.1, 0.1],
        likelier: |s| {
            let fits = s.share(&[KindClass::Http5xx, KindClass::Reset]);
            if fits > 0.0 { 0.2 } else { 0.01 }
        },
        mechanism: |_| {
            "the application's side car refuses plain requests, and the controller makes them".to_owned()
        },
        remedies: |_| {
            vec![
                remedy(
                    "inject the side car into the controller or solver pods, or exempt the port (PeerAuthentication)",
                    Some("kubectl get peerauthentication -A".to_owned()),
                    "the pods restart; an exempted port takes plain requests from everybody inside",
                )
                .not_when("the mesh does not run in the namespace of the application"),
            ]
        },
    },
    Cause {
        id: "P6",
        title: "every endpoint fails",
        regions: REGIONS,
        profile: |_| kinds::TARGET,
        likelier: |_| 0.5,
        mechanism: |_| "address and endpoints fail alike: the workload itself is down".to_owned(),
        remedies: |s| {
            let (namespace, name) = s.service_args();
            vec![remedy(
                "look at the workload behind the Service, its latest roll-out first",
                Some(format!(
                    "kubectl -n {namespace} get endpointslices,pods -l kubernetes.io/service-name={name} -o wide"
                )),
                "rolling back loses what the roll-out brought",
            )]
        },
    },
];

/// What stands before the pods that answer in the end.
enum Guards<'a> {
    Unknown,
    Nobody(&'a Service),
    /// `namespace/name`, with commas between them.
    Named(&'a Service, String),
}

fn guards<'a>(s: &Situation<'a>) -> Guards<'a> {
    let service = s.origin.or(s.service);
    let Some((service, policies)) = service.and_then(|service| Some((service, service.guarded_by.as_ref()?)))
    else {
        return Guards::Unknown;
    };
    let names: Vec<String> = policies
        .iter()
        .map(|name| format!("{}/{name}", service.key.namespace))
        .collect();
    if names.is_empty() {
        Guards::Nobody(service)
    } else {
        Guards::Named(service, names.join(", "))
    }
}

/// What is known of the policies before these pods, as it moves F13 among the causes of its region. That there is one is
/// no proof that it is in the way, and what a provider keeps outside of these objects nobody sees.
pub(super) fn policies(s: &Situation<'_>) -> Option<Fact> {
    let (text, multiplier) = match guards(s) {
        Guards::Unknown => return None,
        Guards::Nobody(service) => (
            format!("no NetworkPolicy selects the pods of Service {}", service.key),
            0.2,
        ),
        Guards::Named(service, names) => (
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
