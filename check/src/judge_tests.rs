use std::net::SocketAddr;

use parallax_model::OwnFault;

use super::*;
use crate::names::NameLookup;

const LENIENT: JudgementRules = JudgementRules {
    every_address: false,
    now: 0,
};

fn subject() -> CheckSubject {
    use parallax_model::{HttpProbe, Scheme};
    CheckSubject {
        given: "http://a.test/".to_owned(),
        url: "http://a.test/".to_owned(),
        assumptions: Vec::new(),
        action: CheckAction::Http(HttpProbe::get(
            Scheme::Http,
            "a.test".parse().unwrap(),
            80,
            "/".to_owned(),
        )),
    }
}

fn ok() -> Outcome {
    Outcome::Ok { status: Some(200) }
}

fn in_phase(phase: Phase, kind: FailureKind) -> Outcome {
    Outcome::Failed {
        phase,
        kind,
        status: None,
    }
}

fn dead() -> Outcome {
    in_phase(Phase::Connect, FailureKind::ConnectTimeout)
}

fn broken() -> Outcome {
    in_phase(Phase::FirstByte, FailureKind::Eof)
}

const NOT_PROBED: Outcome = Outcome::NotProbed {
    fault: OwnFault::NoFamily,
};

/// A pass with one address per outcome.
fn round(outcomes: &[Outcome]) -> CheckRound {
    let address = |n: usize| SocketAddr::from(([192, 0, 2, u8::try_from(n).unwrap()], 80));
    CheckRound {
        lookup: NameLookup::forced((0..outcomes.len()).map(|n| address(n).ip())),
        reached: outcomes
            .iter()
            .enumerate()
            .map(|(n, outcome)| AddressResult {
                address: address(n),
                is_local: false,
                ttl: None,
                requests: Vec::new(),
                outcome: outcome.clone(),
                detail: None,
                final_url: "http://a.test/".to_owned(),
                alternative: None,
            })
            .collect(),
        ..CheckRound::default()
    }
}

fn verdict(outcomes: &[Outcome], rules: JudgementRules) -> Verdict {
    judge_rounds(&subject(), &[round(outcomes)], rules).verdict
}

#[test]
fn a_client_goes_on_after_a_failed_connect_and_only_then() {
    use Verdict as V;
    for (outcomes, lenient, strict) in [
        (&[ok(), ok()][..], V::Works, V::Works),
        (&[dead(), ok()], V::WorksWithWarning, V::Fails),
        (&[broken(), ok()], V::Fails, V::Fails),
        (&[dead(), dead()], V::Fails, V::Fails),
        (&[NOT_PROBED, ok()], V::Works, V::Unknown),
        (&[NOT_PROBED, dead()], V::Fails, V::Fails),
        (&[NOT_PROBED], V::Unknown, V::Unknown),
    ] {
        assert_eq!(verdict(outcomes, LENIENT), lenient, "{outcomes:?}");
        let every = JudgementRules {
            every_address: true,
            ..LENIENT
        };
        assert_eq!(verdict(outcomes, every), strict, "every address of {outcomes:?}");
    }
}

#[test]
fn behind_a_redirect_to_another_host_no_other_address_of_ours_helps() {
    let mut look = round(&[dead(), ok()]);
    look.reached[0].final_url = "http://b.test/".to_owned();
    assert_eq!(judge_rounds(&subject(), &[look], LENIENT).verdict, Verdict::Fails);
}

#[test]
fn where_no_used_address_is_looked_at_the_others_decide() {
    let mut look = round(&[dead()]);
    look.lookup = NameLookup::forced(std::iter::once([198, 51, 100, 1].into()));
    assert_eq!(judge_rounds(&subject(), &[look], LENIENT).verdict, Verdict::Fails);
}

#[test]
fn the_host_of_a_url_is_found_with_and_without_brackets_and_port() {
    for (url, host) in [
        ("http://a.test/x?y", "a.test"),
        ("https://a.test:8443/", "a.test"),
        ("tcp://[2001:db8::1]:80", "2001:db8::1"),
        ("dns://a.test", "a.test"),
    ] {
        assert_eq!(host_of(url), Some(host));
    }
}

#[test]
fn without_any_pass_the_verdict_is_unknown() {
    assert_eq!(judge_rounds(&subject(), &[], LENIENT).verdict, Verdict::Unknown);
}

#[test]
fn findings_merge_across_addresses_and_count_passes() {
    let looks = [
        round(&[dead(), dead()]),
        round(&[ok(), ok()]),
        round(&[dead(), dead()]),
    ];
    let judged = judge_rounds(&subject(), &looks, LENIENT);
    assert_eq!(
        (judged.verdict, judged.successful_passes, judged.looks),
        (Verdict::Fails, 1, 3)
    );
    let [finding] = judged.findings.as_slice() else {
        panic!("{:?}", judged.findings)
    };
    assert_eq!((finding.addresses.len(), finding.times), (2, 2));
}

#[test]
fn the_gravest_finding_comes_first() {
    let judged = judge_rounds(&subject(), &[round(&[dead(), ok(), broken()])], LENIENT);
    let levels: Vec<_> = judged.findings.iter().map(|finding| finding.level).collect();
    assert_eq!(levels, [FindingLevel::Failure, FindingLevel::Warning]);
}
