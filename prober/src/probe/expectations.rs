//! Compares responses and handshakes with the expectations of a probe. Pure, except for the clock that certificate
//! expiry is compared with.

use std::time::{SystemTime, UNIX_EPOCH};

use http::response::Parts;
use parallax_model::{FailureKind, HttpProbe, MustNotAnswer, Phase, TlsExpectation};

use super::EndedProbe;
use crate::{
    certificate::{CertificateFacts, TlsFacts},
    failure::{EarlyEnd, FailureOrigin},
    http::Exchange,
};

const DAY: i64 = 24 * 60 * 60;

/// Checks a complete response against the expectations.
pub(super) fn check_response(spec: &HttpProbe, head: &Parts, exchange: &Exchange) -> Result<(), EarlyEnd> {
    let failed = |kind| EarlyEnd::new(Phase::Check, kind);
    if !spec.expect_status.contains(head.status.as_u16()) {
        return Err(failed(FailureKind::Status));
    }
    for (name, value) in &spec.expect_headers {
        let mut values = head.headers.get_all(name.as_str()).iter();
        let holds = match value {
            None => values.next().is_some(),
            Some(wanted) => values.any(|got| got.as_bytes() == wanted.as_bytes()),
        };
        if !holds {
            return Err(
                failed(FailureKind::WrongHeader).with_detail(format!("the header {name} is not as expected"))
            );
        }
    }
    let contains = |wanted: &String| contains(&exchange.kept, wanted.as_bytes());
    let equals =
        |wanted: &String| exchange.bytes_read == wanted.len() as u64 && exchange.kept == wanted.as_bytes();
    let holds = spec.expect_body_contains.as_ref().is_none_or(contains)
        && spec.expect_body_equals.as_ref().is_none_or(equals)
        && spec
            .expect_body_matches
            .as_ref()
            .is_none_or(|pattern| pattern.is_match(&exchange.kept));
    if holds {
        Ok(())
    } else {
        Err(failed(FailureKind::WrongBody))
    }
}

pub(super) fn contains(body: &[u8], wanted: &[u8]) -> bool {
    wanted.is_empty() || body.windows(wanted.len()).any(|window| window == wanted)
}

/// Checks a verified handshake against the expectations. A mismatch is evidence about the front, not about the
/// response, so it is recorded in the TLS phase.
pub(super) fn check_handshake(expected: &TlsExpectation, facts: &TlsFacts) -> Result<(), EarlyEnd> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
    check_handshake_at(expected, facts, now)
}

fn check_handshake_at(expected: &TlsExpectation, facts: &TlsFacts, now: i64) -> Result<(), EarlyEnd> {
    let failed = |kind, detail: String| Err(EarlyEnd::new(Phase::Tls, kind).with_detail(detail));
    if let (Some(least), Some(agreed)) = (expected.min_version, facts.version)
        && agreed < least
    {
        return failed(
            FailureKind::TlsTooOld,
            format!("TLS {agreed} was negotiated, at least {least} is required"),
        );
    }
    if let Some(name) = &expected.name
        && facts
            .chain
            .first()
            .is_none_or(|leaf| leaf.name_for(name.as_str()).is_none())
    {
        return failed(
            FailureKind::CertificateWrongName,
            format!("the certificate is not for {name}"),
        );
    }
    if let Some(issuer) = &expected.issuer
        && !facts
            .chain
            .iter()
            .any(|certificate| certificate.issuer.contains(issuer.as_str()))
    {
        return failed(
            FailureKind::CertificateWrongIssuer,
            format!("no certificate of the chain is issued by {issuer:?}"),
        );
    }
    if let Some(days) = expected.days_left
        && let Some(first) = facts.chain.iter().min_by_key(|certificate| certificate.not_after)
        && days_left(first, now) < i64::from(days)
    {
        return failed(
            FailureKind::CertificateExpiresSoon,
            format!(
                "{} expires in {} days, {days} are required",
                first.subject,
                days_left(first, now)
            ),
        );
    }
    Ok(())
}

fn days_left(certificate: &CertificateFacts, now: i64) -> i64 {
    (certificate.not_after - now).div_euclid(DAY)
}

/// Inverts the outcome for a target that must not answer.
pub(super) fn invert_outcome(
    wanted: Option<&MustNotAnswer>,
    ended: Result<Option<u16>, EndedProbe>,
) -> Result<Option<u16>, EndedProbe> {
    let Some(wanted) = wanted else {
        return ended;
    };
    let forbidden = |status| {
        Err(EndedProbe {
            failure: EarlyEnd::new(Phase::Check, FailureKind::AnsweredThoughForbidden),
            status,
        })
    };
    match ended {
        Ok(Some(status))
        | Err(EndedProbe {
            status: Some(status), ..
        }) => {
            if wanted.allows_status(status) {
                Ok(Some(status))
            } else {
                forbidden(Some(status))
            }
        }
        Ok(None) => forbidden(None),
        Err(failed) => match &failed.failure.origin {
            FailureOrigin::Target(kind) if wanted.allows(kind) => Ok(None),
            // The target responded in some form. A failure that was not expected stays a failure.
            FailureOrigin::Target(kind) if is_response(kind) => forbidden(None),
            _ => Err(failed),
        },
    }
}

fn is_response(kind: &FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::Malformed
            | FailureKind::InterimStorm
            | FailureKind::GoAway
            | FailureKind::StreamRefused
            | FailureKind::StreamReset
            | FailureKind::WrongBody
            | FailureKind::BodyStalled
            | FailureKind::BodyCut
            | FailureKind::BodyTooLarge
            | FailureKind::NotTls
            | FailureKind::CertificateExpired
            | FailureKind::CertificateNotYetValid
            | FailureKind::CertificateWrongName
            | FailureKind::CertificateUntrusted
            | FailureKind::CertificateChainIncomplete
            | FailureKind::CertificateExpiresSoon
            | FailureKind::CertificateWrongIssuer
            | FailureKind::TlsTooOld
    )
}

#[cfg(test)]
mod tests {
    use parallax_model::TlsVersion;

    use super::*;

    fn facts() -> TlsFacts {
        let certificate = |subject: &str, not_after| CertificateFacts {
            subject: subject.into(),
            issuer: "O=Let's Encrypt, CN=R11".into(),
            names: vec!["*.example.test".into()],
            names_left_out: 0,
            not_before: 0,
            not_after,
            self_signed: false,
            key: String::new(),
        };
        TlsFacts {
            version: Some(TlsVersion::Tls12),
            chain: vec![certificate("CN=leaf", 20 * DAY), certificate("CN=R11", 10 * DAY)],
            ..TlsFacts::default()
        }
    }

    fn held(expected: &str, now: i64) -> Option<FailureKind> {
        let expected = serde_json::from_str(expected).unwrap();
        check_handshake_at(&expected, &facts(), now)
            .err()
            .map(|stop| match stop.origin {
                FailureOrigin::Target(kind) => kind,
                FailureOrigin::Own(own) => panic!("{own}"),
            })
    }

    #[test]
    fn each_expectation_of_a_handshake_has_its_kind() {
        for (expected, kind) in [
            (r#"{"minVersion":"1.2"}"#, None),
            (r#"{"minVersion":"1.3"}"#, Some(FailureKind::TlsTooOld)),
            (r#"{"name":"shop.example.test"}"#, None),
            (
                r#"{"name":"a.shop.example.test"}"#,
                Some(FailureKind::CertificateWrongName),
            ),
            (r#"{"issuer":"R11"}"#, None),
            (r#"{"issuer":"R12"}"#, Some(FailureKind::CertificateWrongIssuer)),
            (r#"{"daysLeft":10}"#, None),
            (r#"{"daysLeft":11}"#, Some(FailureKind::CertificateExpiresSoon)),
        ] {
            assert_eq!(held(expected, 0), kind, "{expected}");
        }
    }

    #[test]
    fn the_first_certificate_of_the_chain_to_expire_decides() {
        let stop = check_handshake_at(&serde_json::from_str(r#"{"daysLeft":11}"#).unwrap(), &facts(), 0)
            .unwrap_err();
        assert!(stop.detail.unwrap().starts_with("CN=R11 expires in 10 days"));
    }

    #[test]
    fn only_the_expected_failure_is_a_success() {
        let wanted: MustNotAnswer = "refused,404".to_owned().try_into().unwrap();
        let failed = |kind| Err(EarlyEnd::new(Phase::Connect, kind).into());
        let judged = |ended| invert_outcome(Some(&wanted), ended).map_err(|ended| ended.failure.origin);
        let forbidden = Err(FailureKind::AnsweredThoughForbidden.into());
        assert_eq!(judged(failed(FailureKind::Refused)), Ok(None));
        assert_eq!(judged(Ok(Some(404))), Ok(Some(404)));
        assert_eq!(judged(Ok(Some(200))), forbidden);
        assert_eq!(judged(Ok(None)), forbidden, "an open TCP connection is an answer");
        assert_eq!(judged(failed(FailureKind::Malformed)), forbidden);
        assert_eq!(judged(failed(FailureKind::CertificateExpired)), forbidden);
        assert_eq!(
            judged(failed(FailureKind::ConnectTimeout)),
            Err(FailureKind::ConnectTimeout.into()),
            "a failure that was not expected"
        );
        let own = parallax_model::OwnFault::NoPort;
        assert_eq!(
            judged(Err(EarlyEnd::new(Phase::Connect, own).into())),
            Err(own.into())
        );
    }
}
