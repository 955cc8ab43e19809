//! TLS that a client does not accept. Failure classes do not distinguish these causes; failure kinds do.

use parallax_model::FailureKind;

use super::{
    Cause, CauseContext, Claim, SERVER_REGIONS, Wording, host_and_port, remedy,
    table::{PredictedFailure, RowKey, TablePart},
};
use crate::{evidence::cells::is_through_front, inference::kind_profiles::KindProfile, regions::RegionKind};

const WRONG_NAME: &[FailureKind] = &[FailureKind::CertificateWrongName];
const EXPIRED: &[FailureKind] = &[FailureKind::CertificateExpired];
const NOT_YET: &[FailureKind] = &[FailureKind::CertificateNotYetValid];
const UNTRUSTED: &[FailureKind] = &[FailureKind::CertificateUntrusted];
const INCOMPLETE: &[FailureKind] = &[FailureKind::CertificateChainIncomplete];
const NOT_TLS: &[FailureKind] = &[FailureKind::NotTls];

/// A handshake fails every time, in one way.
pub(super) const PROFILE: KindProfile = [0.1, 0.1, 0.1, 0.1, 0.1, 8.0, 0.1, 0.1, 0.1, 0.1];

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "P13",
        title: "the certificate is not valid for the host name",
        regions: SERVER_REGIONS,
        profile: |_| PROFILE,
        weight: |s| s.share_of_kinds(WRONG_NAME),
        mechanism: |s| {
            let host = s.tls_server().map_or("the requested name", |(host, _)| host);
            Wording::new(s)
                .add(format!("the server's certificate is not valid for {host}"))
                .add_if(
                    &[Claim::Routed],
                    ", as happens when its controller has no certificate for the host and serves its default one",
                )
                .clauses()
        },
        remedies: |s| {
            vec![
                remedy(
                    "serve a certificate that names the host: add the host to the certificate, and the Secret to \
                     spec.tls of its Ingress or to the listener of its Gateway",
                    show_certificates_command(s).or_else(|| Some("kubectl get ingress -A -o wide".to_owned())),
                    "a new certificate must be issued; keep the other names of the old one",
                )
                .with_ineffective_when("the name resolves to the wrong server: then its address is the problem"),
            ]
        },
    },
    Cause {
        id: "P14",
        title: "the certificate has expired or is not valid yet",
        regions: SERVER_REGIONS,
        profile: |_| PROFILE,
        weight: |s| s.share_of_kinds(EXPIRED) + s.share_of_kinds(NOT_YET),
        mechanism: |s| {
            Wording::new(s)
                .add_first([
                    (
                        &[Claim::MostlyKinds(EXPIRED)][..],
                        "the server's certificate has expired".to_owned(),
                    ),
                    (
                        &[Claim::MostlyKinds(NOT_YET)],
                        "the server's certificate is not valid yet, or a clock is wrong".to_owned(),
                    ),
                    (
                        &[],
                        "the server's certificate is outside its validity period".to_owned(),
                    ),
                ])
                .clauses()
        },
        remedies: |s| {
            vec![
                remedy(
                    "renew the certificate and make the server load the new one",
                    show_certificates_command(s).or_else(|| Some("kubectl get certificates -A".to_owned())),
                    "most servers reload it without dropping connections; some restart",
                )
                .with_ineffective_when(
                    "it is not valid yet: then the clock of the server, its CA or the clients is wrong",
                ),
                remedy(
                    "find out why the renewal failed: the issuer, its challenges, its rate limits",
                    Some("kubectl get certificaterequests,challenges -A".to_owned()),
                    "none (read-only)",
                )
                .with_ineffective_when("cert-manager did not issue the certificate"),
            ]
        },
    },
    Cause {
        id: "P15",
        title: "the certificate is self-signed or issued by an untrusted CA",
        regions: SERVER_REGIONS,
        profile: |_| PROFILE,
        // A private CA that issues directly from its root, with a caIssuers URL, looks like a chain without its
        // intermediate.
        weight: |s| s.share_of_kinds(UNTRUSTED) + 0.1 * s.share_of_kinds(INCOMPLETE),
        mechanism: |s| {
            Wording::new(s)
                .add(
                    "the server's certificate does not chain to a root that the probers trust, as with a private CA \
                     or a self-signed certificate",
                )
                .clauses()
        },
        remedies: |s| {
            vec![
                remedy(
                    "make the probers trust the CA: extraRoots in the manifests' values, parallax.dev/extra-roots on \
                     the Ingress or HTTPRoute, or --extra-roots for probers that are started by hand",
                    show_certificates_command(s),
                    "probes then accept every certificate from that CA, as clients that trust it do",
                )
                .with_ineffective_when("clients do not trust the CA either: then they fail like the probes"),
                remedy(
                    "serve a certificate from a CA that clients trust",
                    None,
                    "that CA must validate the name, over HTTP or DNS",
                )
                .with_ineffective_when("the name is internal and no public CA may issue for it"),
            ]
        },
    },
    Cause {
        id: "P16",
        title: "the server does not send its intermediate certificate",
        regions: SERVER_REGIONS,
        profile: |_| PROFILE,
        weight: |s| s.share_of_kinds(INCOMPLETE) + 0.02 * s.share_of_kinds(UNTRUSTED),
        mechanism: |s| {
            Wording::new(s)
                .add(
                    "the server sends its certificate without the intermediate certificate of the issuing CA",
                )
                .clauses()
        },
        remedies: |s| {
            vec![
                remedy(
                    "serve the whole chain: the server's certificate followed by the intermediate CA certificates \
                     (fullchain.pem, or tls.crt of the Secret)",
                    show_certificates_command(s),
                    "a reload of the server",
                )
                .with_ineffective_when("a private root CA issued the certificate directly: then clients need that root (P15)"),
            ]
        },
    },
    Cause {
        id: "P17",
        title: "the port does not speak TLS",
        regions: SERVER_REGIONS,
        profile: |_| PROFILE,
        weight: |s| {
            if speaks_tls_with_other_clients(s) {
                0.0
            } else {
                s.share_of_kinds(NOT_TLS)
            }
        },
        mechanism: |s| {
            Wording::new(s)
                .add_first([
                    (
                        &[Claim::MostlyKinds(NOT_TLS)][..],
                        "the port does not speak TLS: it answers in plaintext".to_owned(),
                    ),
                    (&[], "the port does not speak TLS".to_owned()),
                ])
                .clauses()
        },
        remedies: |s| {
            let plain = s
                .tls_server()
                .map(|(host, port)| format!("curl -sSI --max-time 5 http://{}/", host_and_port(host, port)));
            vec![
                remedy(
                    "enable TLS on the port, or use plain HTTP for it",
                    plain,
                    "with plain HTTP, anyone on the path can read and modify the traffic",
                )
                .with_ineffective_when(
                    "a load balancer in front terminates TLS and in-cluster clients bypass it (F10)",
                ),
            ]
        },
    },
];

/// Reports whether clients outside the region complete handshakes with the same address and port, or clients inside do
/// with a PROXY header. The port of an endpoint or of a whole target is not the one that they reach.
fn speaks_tls_with_other_clients(s: &CauseContext<'_>) -> bool {
    let others = |key: &RowKey| {
        key.part == TablePart::Own
            && is_through_front(key.channel)
            && key.prediction == PredictedFailure::Outside
    };
    matches!(s.region, RegionKind::Vip | RegionKind::ProtoVip) && s.table.sum(others).pass()
}

/// A command that shows the certificates that the server sends.
fn show_certificates_command(s: &CauseContext<'_>) -> Option<String> {
    let (host, port) = s.tls_server()?;
    Some(format!(
        "openssl s_client -connect {} -servername {host} -showcerts </dev/null",
        host_and_port(host, port)
    ))
}
