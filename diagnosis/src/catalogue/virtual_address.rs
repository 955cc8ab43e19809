//! The address fails for all clients inside the cluster, although the endpoints answer.

use parallax_model::{FailureKind, KindClass};

use super::{
    Cause, CauseContext, Claim, Clause, Wording, certificates::PROFILE as HANDSHAKE_PROFILE, remedy,
};
use crate::{inference::kind_profiles, regions::RegionKind, verdict::Remedy};

const REGIONS: &[RegionKind] = &[RegionKind::Vip, RegionKind::ProtoVip];

const NOT_TLS: &[FailureKind] = &[FailureKind::NotTls];

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "F14",
        title: "a security group, loadBalancerSourceRanges or an allow-list blocks clients",
        regions: &[RegionKind::Vip, RegionKind::OutsideAll],
        // Few pseudo-counts, because a filter drops, rejects or answers 403, but always in the same way. With
        // many, a growing number of timeouts alone would count against it.
        profile: |_| [1.2, 0.045, 0.045, 0.225, 0.045, 0.015, 0.3, 0.015, 0.015, 0.015],
        weight: |s| if s.is_cluster_ip() { 0.1 } else { 1.0 },
        mechanism: blocked_mechanism,
        remedies: |s| {
            vec![
                remedy(
                    "open the port in the security group, loadBalancerSourceRanges or the allow-list",
                    s.service_command(|namespace, name| {
                        format!(
                            "kubectl -n {namespace} get service {name} -o jsonpath='{{.spec.loadBalancerSourceRanges}}'"
                        )
                    }),
                    "exposes the port to clients that were blocked: allow only the sources that need it",
                )
                .with_ineffective_when(
                    "no traffic arrives at the load balancer at all: then a router or the address is the cause (F12)",
                ),
            ]
        },
    },
    Cause {
        id: "F9",
        title: "in-cluster traffic bypasses the load balancer, so the PROXY header is missing",
        regions: REGIONS,
        profile: |_| kind_profiles::PROTO_VIP,
        weight: |s| if s.is_balancer() { 1.0 } else { 0.1 },
        mechanism: |s| {
            let description = if s.is_balancer() {
                "the node bypasses the load balancer, which would add the PROXY header that the endpoints require"
            } else {
                "the endpoints require a PROXY header, and nothing on the path adds one"
            };
            Wording::new(s).add(description).clauses()
        },
        remedies: bypass_remedies,
    },
    Cause {
        id: "F10",
        title: "in-cluster traffic bypasses the load balancer that terminates TLS",
        regions: REGIONS,
        // As concentrated as that of a port without TLS (P17), which the same failures show: otherwise their number
        // alone would decide between the two.
        profile: |_| HANDSHAKE_PROFILE,
        weight: |s| {
            // A server that presents a wrong certificate speaks TLS.
            let tls = s.kind_share(|kind, status| {
                kind.class(status) == KindClass::Tls && !kind.proves_header_accepted(status)
            });
            if s.is_balancer() && tls > 0.5 { 2.0 } else { 0.02 }
        },
        mechanism: |s| {
            Wording::new(s)
                .add("the node bypasses the load balancer that terminates TLS")
                .add_if(
                    &[Claim::MostlyKinds(NOT_TLS)],
                    ", so plain HTTP answers on the TLS port",
                )
                .clauses()
        },
        remedies: bypass_remedies,
    },
    Cause {
        id: "F12",
        title: "the router lacks NAT loopback for the cluster's own public address",
        regions: &[RegionKind::Vip],
        profile: |_| kind_profiles::VIP,
        weight: |s| if s.info.is_none() { 0.5 } else { 0.05 },
        mechanism: |s| {
            Wording::new(s)
                .add("the router does not translate connections from inside the network to its own public address")
                .clauses()
        },
        remedies: |_| {
            vec![
                remedy(
                    "enable NAT loopback on the router, or resolve the name to an internal address inside the network \
                     (split DNS)",
                    None,
                    "with split DNS, clients inside and outside take different paths, and certificates must be checked \
                     from outside",
                )
                .with_ineffective_when("clients use the IP address instead of the name"),
            ]
        },
    },
    Cause {
        id: "F28",
        title: "source NAT port exhaustion on the outbound gateway",
        regions: &[RegionKind::Vip, RegionKind::ZoneVip, RegionKind::ClientVip],
        profile: |_| [8.0, 0.2, 0.3, 0.5, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1],
        weight: |s| {
            if s.region == RegionKind::ClientVip && s.is_forwarded_to_balancer() {
                // One node's connections to a balancer of this cluster: a balancer that returns them is more common.
                0.03
            } else if s.leaves_the_node() && !s.is_cluster_ip() {
                0.15
            } else {
                0.01
            }
        },
        mechanism: |s| {
            Wording::new(s)
                .add("the outbound NAT gateway has no free source port for new connections to this address and port")
                .clauses()
        },
        remedies: |_| {
            vec![
                remedy(
                    "give the outbound gateway more addresses, or more ports per node",
                    None,
                    "each address adds about 64 000 connections to one destination and is billed",
                )
                .with_ineffective_when(
                    "connections also fail without load: then a filter or the load balancer is the cause",
                ),
                remedy(
                    "reuse connections (keep-alive) instead of opening one per request",
                    None,
                    "the clients must be changed",
                )
                .with_ineffective_when("the load comes from many clients with one connection each"),
            ]
        },
    },
    Cause {
        id: "P5",
        title: "nothing serves the address: its load balancer or Service rules are gone",
        regions: &[RegionKind::Vip],
        profile: |_| [1.5, 5.0, 1.0, 2.0, 0.2, 0.3, 0.2, 0.2, 0.1, 0.1],
        weight: |s| if Claim::NoEndpoint.holds(s) { 0.0 } else { 0.7 },
        mechanism: |s| {
            let refused = Claim::MostlyClass(KindClass::Refused);
            Wording::new(s)
                .add_first([
                    (
                        &[Claim::EndpointsPass, Claim::AddressFails, refused][..],
                        "the endpoints answer, but the address in front of them refuses all connections"
                            .to_owned(),
                    ),
                    (
                        &[Claim::EndpointsPass],
                        "the endpoints answer, but the address in front of them does not reach them"
                            .to_owned(),
                    ),
                    (
                        &[],
                        "the load balancer or the Service rules of the address are gone".to_owned(),
                    ),
                ])
                .clauses()
        },
        remedies: |s| {
            vec![remedy(
                "compare the Service's ports and status with the load balancer's listeners",
                Some(
                    s.service_command(|namespace, name| {
                        format!("kubectl -n {namespace} describe service {name}")
                    })
                    .unwrap_or_else(|| "kubectl get services -A -o wide".to_owned()),
                ),
                "none (read-only)",
            )]
        },
    },
];

fn blocked_mechanism(s: &CauseContext<'_>) -> Vec<Clause> {
    if s.main_status().is_some() || s.share(&[KindClass::Http4xx, KindClass::Http5xx]) > 0.5 {
        let status = s
            .main_status()
            .map_or_else(String::new, |status| format!(" ({status})"));
        return Wording::new(s)
            .add_if(
                &[Claim::Answered],
                format!("the response{status} comes from a filter: "),
            )
            .add("an allow-list in front blocks these clients")
            .clauses();
    }
    if s.region == RegionKind::OutsideAll {
        return Wording::new(s)
            .add("something in front filters traffic from outside the cluster")
            .add_if(
                &[Claim::AddressPassesInside],
                ", while the address answers clients inside",
            )
            .clauses();
    }
    Wording::new(s)
        .add_first([
            (
                &[Claim::AddressFails, Claim::EndpointsPass][..],
                "the address answers none of them, although the endpoints behind it do: ".to_owned(),
            ),
            (
                &[Claim::AddressFails, Claim::EveryClient],
                "the address answers none of them: ".to_owned(),
            ),
            (&[], String::new()),
        ])
        .add("something in front filters the traffic")
        .clauses()
}

fn bypass_remedies(s: &CauseContext<'_>) -> Vec<Remedy> {
    vec![
        remedy(
            "have the cloud controller set ipMode: Proxy in the Service's status, or publish a host name instead of \
             an IP address",
            s.service_command(|namespace, name| {
                format!("kubectl -n {namespace} get service {name} -o jsonpath='{{.status.loadBalancer.ingress}}'")
            }),
            "every in-cluster connection takes the detour through the load balancer; without source NAT, the load \
             balancer may send clients back to their own node (F5–F7)",
        )
        .with_ineffective_when("the load balancer does not add the header in the first place, or the two ends disagree on its \
                   version"),
        remedy(
            "call the endpoints through another Service that does not use the load balancer's protocol",
            None,
            "one more Service and name; in-cluster calls no longer test the path that users take",
        )
        .with_ineffective_when("the caller must use the public name, as the self check of an ACME client does"),
    ]
}
