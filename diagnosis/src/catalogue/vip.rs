//! The address itself fails for all clients inside, while the endpoints answer.

use parallax_model::{FailureKind, KindClass};

use super::{Cause, CauseContext, Claim, Clause, Wording, remedy};
use crate::{inference::profiles, regions::RegionKind, verdict::Remedy};

const REGIONS: &[RegionKind] = &[RegionKind::Vip, RegionKind::ProtoVip];

const NOT_TLS: &[FailureKind] = &[FailureKind::NotTls];

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "F14",
        title: "blocked: security group, source ranges or an allow-list",
        regions: &[RegionKind::Vip, RegionKind::OutsideAll],
        // Few counts: a filter drops, rejects or answers 403, but what it does it does every time. With many, timeouts and
        // nothing else would count against it the more of them there are.
        profile: |_| [1.2, 0.045, 0.045, 0.225, 0.045, 0.015, 0.3, 0.015, 0.015, 0.015],
        likelier: |s| if s.is_cluster_ip() { 0.1 } else { 1.0 },
        mechanism: blocked,
        remedies: |s| {
            vec![
                remedy(
                    "open the port in the security group, in loadBalancerSourceRanges or in the allow-list",
                    s.about_service(|namespace, name| {
                        format!(
                            "kubectl -n {namespace} get service {name} -o jsonpath='{{.spec.loadBalancerSourceRanges}}'"
                        )
                    }),
                    "whoever the filter kept out gets in: widen it to the sources that need it, not to all",
                )
                .not_when(
                    "nothing arrives at the balancer at all: then a router or the address itself is the cause (F12)",
                ),
            ]
        },
    },
    Cause {
        id: "F9",
        title: "PROXY protocol bypassed inside the cluster",
        regions: REGIONS,
        profile: |_| profiles::PROTO_VIP,
        likelier: |s| if s.is_balancer() { 1.0 } else { 0.1 },
        mechanism: |s| {
            let said = if s.is_balancer() {
                "the node short-cuts the balancer, which would have added the PROXY header that the endpoints insist on"
            } else {
                "the endpoints insist on a PROXY header, and nothing on the way adds one"
            };
            Wording::of(s).say(said).clauses()
        },
        remedies: short_cut,
    },
    Cause {
        id: "F10",
        title: "TLS termination at the balancer bypassed inside the cluster",
        regions: REGIONS,
        profile: |_| [0.3, 0.1, 1.0, 0.1, 0.1, 8.0, 1.0, 0.1, 0.1, 0.1],
        likelier: |s| {
            // A certificate that is wrong was shown: TLS is spoken.
            let tls = s.kind_share(|kind, status| {
                kind.class(status) == KindClass::Tls && !profiles::was_understood(kind, status)
            });
            if s.is_balancer() && tls > 0.5 { 2.0 } else { 0.02 }
        },
        mechanism: |s| {
            Wording::of(s)
                .say("the node short-cuts the balancer that would have ended TLS")
                .say_if(&[Claim::Of(NOT_TLS)], ", so plain HTTP answers on the TLS port")
                .clauses()
        },
        remedies: short_cut,
    },
    Cause {
        id: "F12",
        title: "the way back to our own public address is missing (no NAT loopback)",
        regions: &[RegionKind::Vip],
        profile: |_| profiles::VIP,
        likelier: |s| if s.info.is_none() { 0.5 } else { 0.05 },
        mechanism: |s| {
            Wording::of(s)
                .say("the router does not translate connections from inside to its own outside address")
                .clauses()
        },
        remedies: |_| {
            vec![
                remedy(
                    "enable NAT loopback on the router, or answer the name inside with an inside address",
                    None,
                    "with a split answer inside and outside differ from then on, and certificates must be checked from \
                     outside",
                )
                .not_when("clients use the address itself instead of the name"),
            ]
        },
    },
    Cause {
        id: "F28",
        title: "source ports for translation are used up on the way out",
        regions: &[RegionKind::Vip, RegionKind::ClientVip],
        profile: |_| [8.0, 0.2, 0.3, 0.5, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1],
        likelier: |s| {
            if s.leaves_the_node() && !s.is_cluster_ip() {
                0.15
            } else {
                0.01
            }
        },
        mechanism: |s| {
            Wording::of(s)
                .say("new connections to one address and port find no free source port at the gateway that translates them")
                .clauses()
        },
        remedies: |_| {
            vec![
                remedy(
                    "give the outbound gateway more addresses or ports per node",
                    None,
                    "each address adds about 64 000 connections to one destination, and is billed",
                )
                .not_when("connections fail without load: then a filter or the balancer is the cause"),
                remedy(
                    "reuse connections (keep-alive) instead of opening one a request",
                    None,
                    "a change of the clients",
                )
                .not_when("many clients with one connection each are the load"),
            ]
        },
    },
    Cause {
        id: "P5",
        title: "nothing serves the address: its balancer or its Service rules are gone",
        regions: &[RegionKind::Vip],
        profile: |_| [1.5, 5.0, 1.0, 2.0, 0.2, 0.3, 0.2, 0.2, 0.1, 0.1],
        likelier: |s| if Claim::NoEndpoint.holds(s) { 0.0 } else { 0.7 },
        mechanism: |s| {
            let refused = Claim::Mostly(KindClass::Refused);
            Wording::of(s)
                .say_first([
                    (
                        &[Claim::EndpointsPass, Claim::AddressFails, refused][..],
                        "the endpoints answer, and the address in front of them refuses all connections"
                            .to_owned(),
                    ),
                    (
                        &[Claim::EndpointsPass],
                        "the endpoints answer, and the address in front of them does not lead there"
                            .to_owned(),
                    ),
                    (
                        &[],
                        "the balancer of the address or its Service rules are gone".to_owned(),
                    ),
                ])
                .clauses()
        },
        remedies: |s| {
            vec![remedy(
                "compare the Service's ports and status with what the balancer listens on",
                Some(
                    s.about_service(|namespace, name| {
                        format!("kubectl -n {namespace} describe service {name}")
                    })
                    .unwrap_or_else(|| "kubectl get services -A -o wide".to_owned()),
                ),
                "nothing: reading only",
            )]
        },
    },
];

fn blocked(s: &CauseContext<'_>) -> Vec<Clause> {
    if s.main_status().is_some() || s.share(&[KindClass::Http4xx, KindClass::Http5xx]) > 0.5 {
        let status = s
            .main_status()
            .map_or_else(String::new, |status| format!(" ({status})"));
        return Wording::of(s)
            .say_if(
                &[Claim::Answered],
                format!("the answer{status} is that of a filter: "),
            )
            .say("an allow-list in front keeps these clients out")
            .clauses();
    }
    if s.region == RegionKind::OutsideAll {
        return Wording::of(s)
            .say("something in front filters what comes from outside the cluster")
            .say_if(
                &[Claim::AddressPassesInside],
                ", while the address answers clients inside",
            )
            .clauses();
    }
    Wording::of(s)
        .say_first([
            (
                &[Claim::AddressFails, Claim::EndpointsPass][..],
                "the address answers none of them while the endpoints behind it do: ".to_owned(),
            ),
            (
                &[Claim::AddressFails, Claim::EveryClient],
                "the address answers none of them: ".to_owned(),
            ),
            (&[], String::new()),
        ])
        .say("something in front filters")
        .clauses()
}

fn short_cut(s: &CauseContext<'_>) -> Vec<Remedy> {
    vec![
        remedy(
            "let the cloud controller set ipMode: Proxy in the Service's status, or publish a host name instead of an address",
            s.about_service(|namespace, name| {
                format!("kubectl -n {namespace} get service {name} -o jsonpath='{{.status.loadBalancer.ingress}}'")
            }),
            "every connection from inside makes the detour over the balancer; a balancer without source translation may \
             loop back (F5–F7)",
        )
        .not_when("the balancer does not add the header in the first place, or the two ends disagree on its version"),
        remedy(
            "call the endpoints through another Service without the balancer's protocol",
            None,
            "one more Service and name; the path that users take is no longer the one that is called",
        )
        .not_when("the caller must use the public name, as the self check of an ACME client does"),
    ]
}
