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
        said: Vec::new(),
        what: CheckAction::Http(HttpProbe::get(
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

const UNASKED: Outcome = Outcome::NotAsked {
    own: OwnFault::NoFamily,
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
                local: false,
                ttl: None,
                legs: Vec::new(),
                outcome: outcome.clone(),
                detail: None,
                at: "http://a.test/".to_owned(),
                otherwise: None,
            })
            .collect(),
        ..CheckRound::default()
    }
}

fn verdict(outcomes: &[Outcome], rules: JudgementRules) -> Verdict {
    rounds(&subject(), &[round(outcomes)], rules).verdict
}

#[test]
fn a_client_goes_on_after_a_failed_connect_and_only_then() {
    use Verdict as V;
    for (outcomes, lenient, strict) in [
        (&[ok(), ok()][..], V::Works, V::Works),
        (&[dead(), ok()], V::Warned, V::Fails),
        (&[broken(), ok()], V::Fails, V::Fails),
        (&[dead(), dead()], V::Fails, V::Fails),
        (&[UNASKED, ok()], V::Works, V::Unknown),
        (&[UNASKED, dead()], V::Fails, V::Fails),
        (&[UNASKED], V::Unknown, V::Unknown),
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
    look.reached[0].at = "http://b.test/".to_owned();
    assert_eq!(rounds(&subject(), &[look], LENIENT).verdict, Verdict::Fails);
}

#[test]
fn where_no_used_address_is_looked_at_the_others_decide() {
    let mut look = round(&[dead()]);
    look.lookup = NameLookup::forced(std::iter::once([198, 51, 100, 1].into()));
    assert_eq!(rounds(&subject(), &[look], LENIENT).verdict, Verdict::Fails);
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
fn without_a_single_look_nothing_is_known() {
    assert_eq!(rounds(&subject(), &[], LENIENT).verdict, Verdict::Unknown);
}

#[test]
fn what_several_addresses_share_is_one_finding_and_what_several_looks_show_is_counted() {
    let looks = [
        round(&[dead(), dead()]),
        round(&[ok(), ok()]),
        round(&[dead(), dead()]),
    ];
    let judged = rounds(&subject(), &looks, LENIENT);
    assert_eq!(
        (judged.verdict, judged.good, judged.looks),
        (Verdict::Fails, 1, 3)
    );
    let [finding] = judged.findings.as_slice() else {
        panic!("{:?}", judged.findings)
    };
    assert_eq!((finding.addresses.len(), finding.times), (2, 2));
}

#[test]
fn the_gravest_finding_comes_first() {
    let judged = rounds(&subject(), &[round(&[dead(), ok(), broken()])], LENIENT);
    let levels: Vec<_> = judged.findings.iter().map(|finding| finding.level).collect();
    assert_eq!(levels, [FindingLevel::Failure, FindingLevel::Warning]);
}
