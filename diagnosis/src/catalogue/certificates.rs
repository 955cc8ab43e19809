//! TLS that a client does not accept. Classes of failure do not tell these apart; kinds do.

use parallax_model::FailureKind;

use super::{Cause, CauseContext, Claim, Wording, remedy};
use crate::{inference::profiles::KindProfile, regions::RegionKind};

const REGIONS: &[RegionKind] = &[
    RegionKind::Target,
    RegionKind::Vip,
    RegionKind::ProtoVip,
    RegionKind::Backend,
    RegionKind::OutsideAll,
];

const WRONG_NAME: &[FailureKind] = &[FailureKind::CertificateWrongName];
const EXPIRED: &[FailureKind] = &[FailureKind::CertificateExpired];
const NOT_YET: &[FailureKind] = &[FailureKind::CertificateNotYetValid];
const UNTRUSTED: &[FailureKind] = &[FailureKind::CertificateUntrusted];
const INCOMPLETE: &[FailureKind] = &[FailureKind::CertificateChainIncomplete];
const NOT_TLS: &[FailureKind] = &[FailureKind::NotTls];

/// A handshake fails every time, in one way.
const PROFILE: KindProfile = [0.1, 0.1, 0.1, 0.1, 0.1, 8.0, 0.1, 0.1, 0.1, 0.1];

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "P13",
        title: "the server shows a certificate of another name",
        regions: REGIONS,
        profile: |_| PROFILE,
        likelier: |s| share(s, WRONG_NAME),
        mechanism: |s| {
            let host = s
                .tls_server()
                .map_or("the name that was asked for", |(host, _)| host);
            Wording::of(s)
                .say(format!("the server's certificate is not for {host}"))
                .say_if(
                    &[Claim::Routed],
                    ", as where its controller has no certificate for the host and shows its default one",
                )
                .clauses()
        },
        remedies: |s| {
            vec![
                remedy(
                    "have the server show a certificate that names the host: add the host to the certificate, and the \
                     Secret to spec.tls of its Ingress or to the listener of its Gateway",
                    look(s).or_else(|| Some("kubectl get ingress -A -o wide".to_owned())),
                    "a new certificate has to be issued; the other names of the old one must be kept",
                )
                .not_when("the name leads to another server than meant: then its address is wrong"),
            ]
        },
    },
    Cause {
        id: "P14",
        title: "the certificate has expired or is not valid yet",
        regions: REGIONS,
        profile: |_| PROFILE,
        likelier: |s| share(s, EXPIRED) + share(s, NOT_YET),
        mechanism: |s| {
            Wording::of(s)
                .say_first([
                    (
                        &[Claim::Of(EXPIRED)][..],
                        "the server's certificate has expired".to_owned(),
                    ),
                    (
                        &[Claim::Of(NOT_YET)],
                        "the server's certificate is not valid yet, or a clock is wrong".to_owned(),
                    ),
                    (&[], "the server's certificate is out of its time".to_owned()),
                ])
                .clauses()
        },
        remedies: |s| {
            vec![
                remedy(
                    "renew the certificate, and have the server load the new one",
                    look(s).or_else(|| Some("kubectl get certificates -A".to_owned())),
                    "most servers reload it without dropping connections; some restart",
                )
                .not_when(
                    "it is not valid yet: then the clock of the server, of its CA or of the clients is wrong",
                ),
                remedy(
                    "look at why its renewal failed: the issuer, its challenges, its quota",
                    Some("kubectl get certificaterequests,challenges -A".to_owned()),
                    "nothing: reading only",
                )
                .not_when("the certificate was not made by cert-manager"),
            ]
        },
    },
    Cause {
        id: "P15",
        title: "no trusted root issued the certificate: a private CA or a self-signed certificate",
        regions: REGIONS,
        profile: |_| PROFILE,
        // A private CA that issues from its root and says where that is found looks like a chain without intermediate.
        likelier: |s| share(s, UNTRUSTED) + 0.1 * share(s, INCOMPLETE),
        mechanism: |s| {
            Wording::of(s)
                .say(
                    "the server's certificate leads to no root that the probers trust, as with a private CA or a \
                     self-signed certificate",
                )
                .clauses()
        },
        remedies: |s| {
            vec![
                remedy(
                    "have the probers trust the CA: extraRoots in the manifests' values, parallax.dev/extra-roots on the \
                     Ingress or HTTPRoute, or --extra-roots where probers are started by hand",
                    look(s),
                    "probes then accept whatever that CA issues, as clients do that trust it",
                )
                .not_when("clients do not trust the CA either: then they fail as the probes do"),
                remedy(
                    "serve a certificate of a CA that clients trust",
                    None,
                    "the name must be validated by that CA, over HTTP or DNS",
                )
                .not_when("the name is an inside one that no public CA may issue for"),
            ]
        },
    },
    Cause {
        id: "P16",
        title: "the server does not send its intermediate certificate",
        regions: REGIONS,
        profile: |_| PROFILE,
        likelier: |s| share(s, INCOMPLETE) + 0.02 * share(s, UNTRUSTED),
        mechanism: |s| {
            Wording::of(s)
                .say("the server sends its certificate without the intermediate certificate of the CA that issued it")
                .clauses()
        },
        remedies: |s| {
            vec![
                remedy(
                    "serve the whole chain: the server's certificate, and behind it those of the intermediate CAs \
                     (fullchain.pem, or tls.crt of the Secret)",
                    look(s),
                    "nothing but a reload",
                )
                .not_when("a private root issued the certificate itself: then clients need that root (P15)"),
            ]
        },
    },
    Cause {
        id: "P17",
        title: "no TLS where TLS is asked for",
        regions: REGIONS,
        profile: |_| PROFILE,
        likelier: |s| share(s, NOT_TLS),
        mechanism: |s| {
            Wording::of(s)
                .say_first([
                    (
                        &[Claim::Of(NOT_TLS)][..],
                        "the port does not speak TLS: it answers in plain text".to_owned(),
                    ),
                    (&[], "the port does not speak TLS".to_owned()),
                ])
                .clauses()
        },
        remedies: |s| {
            let plain = s
                .tls_server()
                .map(|(host, port)| format!("curl -sSI --max-time 5 http://{}/", at(host, port)));
            vec![
                remedy(
                    "have the port speak TLS, or ask it in plain HTTP",
                    plain,
                    "in plain HTTP everything on the way can read and change what is said",
                )
                .not_when("a balancer in front ends TLS, and the clients inside bypass it (F10)"),
            ]
        },
    },
];

/// Failures of some kinds among all, and nothing where there are none: these causes have a sign of their own.
fn share(s: &CauseContext<'_>, kinds: &[FailureKind]) -> f64 {
    s.kind_share(|kind, _| kinds.contains(kind))
}

/// What shows the certificates that the server sends.
fn look(s: &CauseContext<'_>) -> Option<String> {
    let (host, port) = s.tls_server()?;
    Some(format!(
        "openssl s_client -connect {} -servername {host} -showcerts </dev/null",
        at(host, port)
    ))
}

fn at(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
