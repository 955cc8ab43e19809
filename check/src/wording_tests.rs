use parallax_model::{FailureKind, Phase, PhaseTimes, TtlEvidence};
use parallax_prober::{CertificateFacts, TlsFacts};

use super::*;

fn ttl(ttl: u8) -> TtlEvidence {
    TtlEvidence {
        address: [203, 0, 113, 10].into(),
        sender: None,
        ttl,
        rtt: None,
    }
}

fn refused(local: bool, ttl: Option<&TtlEvidence>) -> FailureFacts<'_> {
    FailureFacts {
        address: Some("203.0.113.10:80".parse().unwrap()),
        is_local: local,
        ttl,
        ..FailureFacts::default()
    }
}

fn certificate(names: &[&str], self_signed: bool) -> CertificateFacts {
    CertificateFacts {
        subject: "CN=leaf".into(),
        issuer: "CN=Some CA".into(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        names_left_out: 0,
        not_before: 0,
        not_after: 864_000,
        self_signed,
        key: "ECDSA 256".into(),
    }
}

fn tls(chain: Vec<CertificateFacts>) -> TlsFacts {
    TlsFacts {
        chain,
        ..TlsFacts::default()
    }
}

/// The explanations of a kind in each phase and with each status that a probe can end with.
fn all_explanations(kind: &FailureKind) -> Vec<Explanation> {
    let far = ttl(61);
    let mut all = Vec::new();
    for phase in Phase::ALL {
        for status in [None, Some(301), Some(404), Some(503)] {
            for evidence in [None, Some(&far)] {
                all.push(explain(
                    kind,
                    &FailureFacts {
                        phase: Some(*phase),
                        status,
                        ttl: evidence,
                        host: "a.test",
                        ..FailureFacts::default()
                    },
                ));
            }
        }
    }
    all
}

#[test]
fn every_kind_has_a_sentence_whatever_else_is_known() {
    for kind in FailureKind::ALL {
        for explained in all_explanations(kind) {
            assert!(explained.summary.len() > 8, "{kind}: {explained:?}");
            assert!(!explained.summary.ends_with('.'), "{kind}: {explained:?}");
            assert!(
                explained.likely_reasons.iter().all(|reason| reason.len() > 8),
                "{kind}: {explained:?}"
            );
        }
    }
}

#[test]
fn every_kind_of_a_probe_has_a_likely_reason() {
    for kind in FailureKind::ALL
        .iter()
        .filter(|kind| !matches!(kind, FailureKind::CertificateUntrusted))
    {
        let explained = explain(
            kind,
            &FailureFacts {
                status: Some(404),
                ..FailureFacts::default()
            },
        );
        assert!(!explained.likely_reasons.is_empty(), "{kind}");
    }
    let untrusted = tls(vec![certificate(&["a.test"], false)]);
    let explained = explain(
        &FailureKind::CertificateUntrusted,
        &FailureFacts {
            tls: Some(&untrusted),
            ..FailureFacts::default()
        },
    );
    assert!(!explained.likely_reasons.is_empty());
}

#[test]
fn every_own_fault_has_advice() {
    for own in OwnFault::ALL {
        let explained = explain_own_fault(*own, None);
        assert!(
            !explained.summary.is_empty() && explained.likely_reasons.len() == 1,
            "{own}"
        );
    }
}

#[test]
fn a_refusal_that_crossed_no_router_points_at_the_own_node() {
    let (near, far) = (ttl(64), ttl(61));
    let first = |facts: &FailureFacts<'_>| explain(&FailureKind::Refused, facts).likely_reasons[0].clone();
    assert!(first(&refused(false, Some(&near))).contains("externalTrafficPolicy: Local"));
    assert!(first(&refused(true, None)).contains("this machine has the address itself"));
    let router = TtlEvidence {
        sender: Some([10, 0, 0, 1].into()),
        ..near
    };
    for facts in [
        refused(false, Some(&far)),
        refused(false, Some(&router)),
        refused(false, None),
    ] {
        assert!(
            !first(&facts).contains("externalTrafficPolicy"),
            "no evidence, no such claim"
        );
    }
}

#[test]
fn loopback_refusal_names_the_process_not_kubernetes() {
    let near = ttl(64);
    let facts = FailureFacts {
        address: Some("127.0.0.1:80".parse().unwrap()),
        is_local: true,
        ttl: Some(&near),
        ..FailureFacts::default()
    };
    let likely = explain(&FailureKind::Refused, &facts).likely_reasons;
    assert_eq!(likely.len(), 1);
    assert!(likely[0].contains("port 80 of this machine"), "{likely:?}");
}

#[test]
fn confirmed_reason_is_the_only_one() {
    for (kind, phase, otherwise, words) in [
        (
            FailureKind::Eof,
            Phase::FirstByte,
            AlternativeAnswer::WithProxyHeader,
            "PROXY header",
        ),
        (
            FailureKind::Reset,
            Phase::Tls,
            AlternativeAnswer::WithProxyHeader,
            "PROXY header",
        ),
        (
            FailureKind::Eof,
            Phase::FirstByte,
            AlternativeAnswer::Tls,
            "https://",
        ),
        (
            FailureKind::NotTls,
            Phase::Tls,
            AlternativeAnswer::PlainHttp(200),
            "answered 200",
        ),
        (
            FailureKind::Malformed,
            Phase::FirstByte,
            AlternativeAnswer::Tls,
            "https://",
        ),
    ] {
        let explained = explain(
            &kind,
            &FailureFacts {
                phase: Some(phase),
                alternative: Some(otherwise),
                ..FailureFacts::default()
            },
        );
        assert_eq!(explained.likely_reasons.len(), 1, "{kind}");
        assert!(
            explained.likely_reasons[0].contains(words),
            "{kind}: {explained:?}"
        );
    }
}

#[test]
fn wrong_name_lists_certificate_names_and_expired_shows_date() {
    let shown = tls(vec![certificate(&["*.example.test", "\u{1b}[31mred"], false)]);
    let facts = FailureFacts {
        host: "shop.test",
        tls: Some(&shown),
        now: 864_000 * 2,
        ..FailureFacts::default()
    };
    let wrong = explain(&FailureKind::CertificateWrongName, &facts).summary;
    assert!(
        wrong.contains("*.example.test") && !wrong.contains('\u{1b}'),
        "{wrong}"
    );
    let expired = explain(&FailureKind::CertificateExpired, &facts).summary;
    assert!(expired.contains("1970-01-11, 10 days ago"), "{expired}");
}

#[test]
fn untrusted_chain_is_self_signed_or_lacks_intermediate() {
    for (chain, words) in [
        (vec![certificate(&[], true)], "self-signed"),
        (
            vec![certificate(&[], false)],
            "not signed by a root that this machine trusts (CN=Some CA)",
        ),
    ] {
        let shown = tls(chain);
        let summary = explain(
            &FailureKind::CertificateUntrusted,
            &FailureFacts {
                tls: Some(&shown),
                ..FailureFacts::default()
            },
        )
        .summary;
        assert!(summary.contains(words), "{summary}");
    }
    let authority = tls(vec![certificate(&["a.test"], true)]);
    let facts = FailureFacts {
        tls: Some(&authority),
        detail: Some("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))"),
        ..FailureFacts::default()
    };
    let explained = explain(&FailureKind::CertificateUntrusted, &facts);
    assert!(
        explained.likely_reasons[0].contains("CA:TRUE"),
        "--extra-roots does not help there"
    );
    let alone = tls(vec![certificate(&[], false)]);
    let facts = FailureFacts {
        tls: Some(&alone),
        ..FailureFacts::default()
    };
    assert!(explain(&FailureKind::CertificateUntrusted, &facts).likely_reasons[0].contains("intermediate"));
}

#[test]
fn repeated_syns_are_counted_and_an_answer_to_a_ping_narrows_a_silence_down() {
    let times = PhaseTimes {
        syn_retransmits: Some(2),
        ..PhaseTimes::default()
    };
    let far = ttl(61);
    let facts = FailureFacts {
        times: Some(&times),
        ttl: Some(&far),
        ..refused(false, None)
    };
    let explained = explain(&FailureKind::ConnectTimeout, &facts);
    assert!(explained.summary.contains("sent 3 times"));
    assert!(explained.likely_reasons[0].contains("responds to other packets"));
}
