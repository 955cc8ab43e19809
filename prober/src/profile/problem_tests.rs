//! Each failure with the problem document of each authority.

use super::*;
use crate::resolution::Resolution;

const AT: &str = "http://shop.example.org/.well-known/acme-challenge/t";

fn stage() -> FetchStage {
    FetchStage {
        first_url: AT.to_owned(),
        url: AT.to_owned(),
        address: Some("192.0.2.7:80".parse().unwrap()),
        host: "shop.example.org".to_owned(),
        expected: "t.key".to_owned(),
        content: b"other\n".to_vec(),
        ..FetchStage::default()
    }
}

fn boulder_problem(
    client: ClientProfile,
    stop: &EarlyEnd,
    status: Option<u16>,
    stage: &FetchStage,
) -> (ProblemClass, String) {
    let problem = problem_for(client, stop, status, None, stage).unwrap();
    (problem.class, problem.detail)
}

#[test]
fn failed_fetch_has_boulders_problem() {
    use FailureKind as K;
    use Phase as P;
    use ProblemClass::{Connection, Tls, Unauthorized};
    let fetching = |text: &str| format!("192.0.2.7: Fetching {AT}: {text}");
    for (phase, kind, detail, class, expected) in [
        (
            P::Connect,
            K::ConnectTimeout,
            "",
            Connection,
            fetching("Timeout during connect (likely firewall problem)"),
        ),
        (P::Connect, K::Refused, "", Connection, fetching("Connection refused")),
        (
            P::Connect,
            K::Unreachable,
            "Network is unreachable (os error 101)",
            Connection,
            fetching("Network unreachable"),
        ),
        (
            P::Connect,
            K::Unreachable,
            "No route to host (os error 113)",
            Connection,
            fetching("Error getting validation data"),
        ),
        (
            P::FirstByte,
            K::FirstByteTimeout,
            "",
            Connection,
            fetching("Timeout after connect (your server may be slow or overloaded)"),
        ),
        (
            P::Tls,
            K::TlsTimeout,
            "",
            Connection,
            fetching("Timeout after connect (your server may be slow or overloaded)"),
        ),
        (P::FirstByte, K::Reset, "", Connection, fetching("Connection reset by peer")),
        (P::FirstByte, K::Eof, "", Connection, fetching("Error getting validation data")),
        (P::FirstByte, K::Malformed, "", Connection, fetching("Error getting validation data")),
        // `va.detailedError` has a text for it, but Go's client replaces the error that it tests for: the text occurs
        // only for tls-alpn-01.
        (P::Tls, K::NotTls, "", Connection, fetching("Error getting validation data")),
        (
            P::Tls,
            K::TlsAlert,
            "received fatal alert: UnrecognisedName",
            Tls,
            fetching("remote error: tls: unrecognized name"),
        ),
        (
            P::Body,
            K::BodyCut,
            "",
            Unauthorized,
            "192.0.2.7: Error reading HTTP response body: unexpected EOF".to_owned(),
        ),
        (
            P::Body,
            K::BodyStalled,
            "",
            Unauthorized,
            "192.0.2.7: Error reading HTTP response body: context deadline exceeded".to_owned(),
        ),
        (
            P::Check,
            K::Status,
            "",
            Unauthorized,
            format!("192.0.2.7: Invalid response from {AT}: 404"),
        ),
        (
            P::Check,
            K::BodyTooLarge,
            "",
            Unauthorized,
            format!("192.0.2.7: Invalid response from {AT}: \"other\\n\""),
        ),
        (
            P::Check,
            K::WrongBody,
            "",
            Unauthorized,
            "The key authorization file from the server did not match this challenge. Expected \"t.key\" (got \"other\")"
                .to_owned(),
        ),
    ] {
        let stop = EarlyEnd::new(phase, kind).with_detail(detail);
        let got = boulder_problem(ClientProfile::Boulder, &stop, Some(404), &stage());
        assert_eq!(got, (class, expected));
    }
}

#[test]
fn refused_redirect_has_boulders_problem_with_written_location() {
    for (refusal, expected) in [
        (RedirectRefusal::TooMany(11), "Too many redirects"),
        (
            RedirectRefusal::Status,
            "received disallowed redirect status code",
        ),
        (
            RedirectRefusal::Scheme("ftp".to_owned()),
            "Invalid protocol scheme in redirect target. Only \"http\" and \"https\" protocol schemes are supported, not \"ftp\"",
        ),
        (
            RedirectRefusal::Port(8080),
            "Invalid port in redirect target. Only ports 80 and 443 are supported, not 8080",
        ),
        (RedirectRefusal::NoHost, "Invalid empty host in redirect target"),
        (
            RedirectRefusal::MissingSlash("a.test.well-known".to_owned()),
            "Invalid host in redirect target \"a.test.well-known\". Check webserver config for missing '/' in redirect target.",
        ),
        (
            RedirectRefusal::NotPublic("shop".to_owned()),
            "Invalid host in redirect target, must end in IANA registered TLD",
        ),
        (RedirectRefusal::TooLong, "Redirect target too long"),
        (RedirectRefusal::Loop(AT.to_owned()), "Redirect loop detected"),
    ] {
        let fetch_stage = FetchStage {
            location: Some("/there".to_owned()),
            ..stage()
        };
        let stop = EarlyEnd::new(Phase::Check, FailureKind::RedirectRefused);
        let problem = problem_for(
            ClientProfile::Boulder,
            &stop,
            Some(301),
            Some(&refusal),
            &fetch_stage,
        )
        .unwrap();
        assert_eq!(
            (problem.class, problem.detail),
            (
                ProblemClass::Connection,
                format!("192.0.2.7: Fetching /there: {expected}")
            )
        );
    }
}

#[test]
fn failed_lookup_names_both_families() {
    let failed = |kind| FamilyAnswer::Failed { kind, detail: None };
    for (a, aaaa, expected) in [
        (
            failed(FailureKind::NxDomain),
            failed(FailureKind::NxDomain),
            "DNS problem: NXDOMAIN looking up A for shop.example.org - check that a DNS record exists for this domain; \
             DNS problem: NXDOMAIN looking up AAAA for shop.example.org - check that a DNS record exists for this domain",
        ),
        (
            FamilyAnswer::Addresses(1),
            failed(FailureKind::NoAddress),
            "no valid A records found for shop.example.org; no valid AAAA records found for shop.example.org",
        ),
        (
            failed(FailureKind::ServFail),
            failed(FailureKind::ResolveTimeout),
            "DNS problem: SERVFAIL looking up A for shop.example.org - the domain's nameservers may be malfunctioning; \
             DNS problem: query timed out looking up AAAA for shop.example.org",
        ),
    ] {
        let fetch_stage = FetchStage {
            resolution: Some(Resolution {
                addresses: Vec::new(),
                a,
                aaaa,
                tried: Vec::new(),
            }),
            ..stage()
        };
        let stop = EarlyEnd::new(Phase::Resolve, FailureKind::NoAddress);
        let got = boulder_problem(ClientProfile::Boulder, &stop, None, &fetch_stage);
        assert_eq!(got, (ProblemClass::Dns, expected.to_owned()), "of the first name");
        let fetch_stage = FetchStage {
            location: Some("http://shop.example.org/x".to_owned()),
            ..fetch_stage
        };
        let got = boulder_problem(ClientProfile::Boulder, &stop, Some(301), &fetch_stage);
        let fetching = format!("192.0.2.7: Fetching http://shop.example.org/x: {expected}");
        assert_eq!(got, (ProblemClass::Dns, fetching), "of one a redirect leads to");
    }
}

#[test]
fn http2_without_tls_is_recognised_by_its_first_frame() {
    for (first, is) in [
        ([0, 0, 0x12, 4, 0, 0, 0, 0, 0], true),
        ([0, 0, 0, 4, 0, 0, 0, 0, 0], true),
        // Go quotes these lengths as `$` and `\f`, which Boulder does not test for.
        ([0, 0, 0x24, 4, 0, 0, 0, 0, 0], false),
        ([0, 0, 0x0c, 4, 0, 0, 0, 0, 0], false),
        (*b"SSH-2.0-O", false),
    ] {
        let fetch_stage = FetchStage {
            first_bytes: first,
            ..stage()
        };
        let stop = EarlyEnd::new(Phase::FirstByte, FailureKind::Malformed);
        let (_, detail) = boulder_problem(ClientProfile::Boulder, &stop, None, &fetch_stage);
        assert_eq!(
            detail.ends_with("Server is speaking HTTP/2 over HTTP"),
            is,
            "{first:?}"
        );
    }
}

#[test]
fn clients_that_are_no_authority_and_faults_of_our_own_have_no_problem() {
    let refused = EarlyEnd::new(Phase::Connect, FailureKind::Refused);
    assert_eq!(
        problem_for(ClientProfile::CertManager, &refused, None, None, &stage()),
        None
    );
    let own = EarlyEnd::new(Phase::Connect, parallax_model::OwnFault::NoFamily);
    assert_eq!(
        problem_for(ClientProfile::Boulder, &own, None, None, &stage()),
        None
    );
}
