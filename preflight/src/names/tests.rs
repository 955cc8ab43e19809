//! What the DNS facts of a name mean for the CA.

use parallax_api::names::{CaaState, NameCause, NameVerdict};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const HOST: &str = "shop.example.test";

/// One vantage's view: (server owner, A, AAAA), and the CAA records of the name and its parent domains.
fn sight(views: &[(&str, Value, Value)], caa: &[Value]) -> NameSight {
    let names = [HOST, "example.test", "test"];
    let views: Vec<Value> = views
        .iter()
        .enumerate()
        .map(|(n, (by, a, aaaa))| {
            json!({"by": by, "server": format!("192.0.2.{}:53", n + 1), "a": a, "aaaa": aaaa, "caa": "none"})
        })
        .collect();
    let caa: Vec<Value> = names
        .iter()
        .zip(caa)
        .map(|(name, answer)| json!({"name": name, "answer": answer}))
        .collect();
    serde_json::from_value(json!({"views": views, "caa": caa})).unwrap()
}

fn a(addresses: &[&str]) -> Value {
    json!({"addresses": addresses})
}

fn issue(value: &str) -> Value {
    json!({"records": [{"flags": 0, "tag": "issue", "value": value}]})
}

const BOTH: QueriedResolvers = QueriedResolvers {
    public: true,
    authoritative: true,
};

fn of(vantage: &str, sight: NameSight) -> (Vantage, NameSight) {
    (vantage.parse().unwrap(), sight)
}

/// A healthy host whose public view has these CAA records.
fn shop(caa: &[Value]) -> NameFacts {
    let views = [
        ("own", a(&["203.0.113.10"]), json!("none")),
        ("public", a(&["203.0.113.10"]), json!("none")),
    ];
    name_facts(HOST, &[of("n1/pod", sight(&views, caa))], BOTH)
}

fn judged(facts: &NameFacts, identity: &str) -> NameVerdict {
    let identities: Vec<String> = Some(identity)
        .filter(|identity| !identity.is_empty())
        .map(str::to_owned)
        .into_iter()
        .collect();
    judge_names(facts, &identities, None)
}

#[test]
fn caa_records_as_the_public_sees_them_decide_in_both_words() {
    use CaaState::{Allowed, Forbidden, Unknown, Unrestricted};
    let none = || json!("none");
    let table: [(&str, Vec<Value>, CaaState, &str); 9] = [
        (
            "letsencrypt.org",
            vec![none(), none(), none()],
            Unrestricted,
            "any CA",
        ),
        (
            "letsencrypt.org",
            vec![none(), issue("letsencrypt.org"), none()],
            Allowed,
            "allow letsencrypt.org",
        ),
        (
            "letsencrypt.org",
            vec![none(), issue("pki.goog"), none()],
            Forbidden,
            "allow pki.goog only",
        ),
        (
            "letsencrypt.org",
            vec![none(), issue(";"), none()],
            Forbidden,
            "allow no authority to issue",
        ),
        // Without the CA's identity, the records are reported and nothing is decided, unless they forbid every CA.
        (
            "",
            vec![none(), issue("pki.goog"), none()],
            Unknown,
            "whether that is your CA is unknown",
        ),
        (
            "",
            vec![none(), issue(";"), none()],
            Forbidden,
            "allow no authority to issue",
        ),
        ("", vec![none(), none(), none()], Unrestricted, "any CA"),
        (
            "letsencrypt.org",
            vec![
                none(),
                issue("letsencrypt.org; accounturi=https://acme.test/acct/7"),
                none(),
            ],
            Unknown,
            "the requesting account is unknown",
        ),
        (
            "letsencrypt.org",
            vec![none(), json!({"failed": "resolve_timeout"}), none()],
            Unknown,
            "cannot be looked up",
        ),
    ];
    for (identity, caa, state, words) in table {
        let verdict = judged(&shop(&caa), identity);
        assert_eq!(verdict.caa, state, "{identity} {caa:?}: {verdict:?}");
        assert!(verdict.caa_description.contains(words), "{verdict:?}");
        let refused = verdict.problems.iter().any(|problem| {
            problem.cause == NameCause::Caa
                && problem.ca_error
                    == "caa: While processing CAA for shop.example.test: CAA record for example.test prevents issuance"
        });
        assert_eq!(refused, state == Forbidden, "{verdict:?}");
        assert_eq!(verdict.unknown.is_empty(), state != Unknown, "{verdict:?}");
    }
}

#[test]
fn an_account_that_the_records_are_bound_to_may_and_another_may_not() {
    let caa = [
        json!("none"),
        issue("letsencrypt.org; accounturi=https://acme.test/acct/7"),
    ];
    let judge = |account| judge_names(&shop(&caa), &["letsencrypt.org".to_owned()], Some(account)).caa;
    assert_eq!(judge("https://acme.test/acct/7"), CaaState::Allowed);
    assert_eq!(judge("https://acme.test/acct/8"), CaaState::Forbidden);
}

#[test]
fn one_of_an_authoritys_names_is_enough() {
    let caa = [json!("none"), issue("sectigo.com")];
    let identities = ["trust.example".to_owned(), "sectigo.com".to_owned()];
    assert_eq!(judge_names(&shop(&caa), &identities, None).caa, CaaState::Allowed);
}

#[test]
fn servfail_on_the_way_up_is_a_refusal_that_may_pass() {
    let verdict = judged(&shop(&[json!({"failed": "servfail"})]), "letsencrypt.org");
    let [problem] = verdict.problems.as_slice() else {
        panic!("one problem: {verdict:?}")
    };
    assert_eq!(problem.cause, NameCause::CaaLookup);
    assert!(!problem.cause.is_certain());
    assert!(
        problem.ca_error.starts_with("dns: While processing CAA"),
        "{problem:?}"
    );
}

#[test]
fn what_only_the_clusters_resolver_says_forbids_nothing_and_allows_nothing() {
    let own = [("own", a(&["203.0.113.10"]), json!("none"))];
    let facts = |caa: &[Value]| {
        let wanted = QueriedResolvers {
            public: false,
            authoritative: false,
        };
        name_facts(HOST, &[of("n1/pod", sight(&own, caa))], wanted)
    };
    let forbidden = judged(&facts(&[issue(";")]), "letsencrypt.org");
    assert_eq!(forbidden.caa, CaaState::Unknown);
    assert_eq!(forbidden.problems, []);
    assert!(forbidden.unknown[0].contains("resolvers.public"), "{forbidden:?}");
    let free = judged(
        &facts(&[json!("none"), json!("none"), json!("none")]),
        "letsencrypt.org",
    );
    assert_eq!(free.caa, CaaState::NotQueried, "{free:?}");
    assert_eq!(free.unknown, Vec::<String>::new());
    let not_asked = facts(&[]).not_queried;
    assert_eq!(
        not_asked.len(),
        2,
        "public resolvers and the zone's own: {not_asked:?}"
    );
}

#[test]
fn a_vantage_on_the_internet_sees_what_the_public_sees_by_its_own_resolver() {
    let own = [("own", a(&["203.0.113.10"]), json!("none"))];
    let sights = [of("internet:laptop", sight(&own, &[issue("pki.goog")]))];
    let wanted = QueriedResolvers {
        public: false,
        authoritative: false,
    };
    let facts = name_facts(HOST, &sights, wanted);
    assert_eq!(judged(&facts, "letsencrypt.org").caa, CaaState::Forbidden);
    assert!(
        !facts.not_queried.iter().any(|entry| entry.contains("public")),
        "{:?}",
        facts.not_queried
    );
}

#[test]
fn views_of_the_public_that_do_not_agree_on_who_may_issue_prove_nothing() {
    let own = [("own", a(&["203.0.113.10"]), json!("none"))];
    let sights = [
        of("internet:a", sight(&own, &[issue("pki.goog")])),
        of("internet:b", sight(&own, &[issue("letsencrypt.org")])),
    ];
    let verdict = judged(&name_facts(HOST, &sights, BOTH), "letsencrypt.org");
    assert_eq!(verdict.caa, CaaState::Unknown);
    assert!(
        verdict.problems.is_empty() && verdict.unknown[0].contains("disagree"),
        "{verdict:?}"
    );
}

#[test]
fn a_name_that_only_the_inside_knows_fails_the_ca_and_one_public_server_that_knows_it_leaves_it_open() {
    let inside = ("own", a(&["10.0.0.1"]), json!("none"));
    let gone = ("public", json!("no_name"), json!("no_name"));
    let facts = |views: &[(&str, Value, Value)]| name_facts(HOST, &[of("n1/pod", sight(views, &[]))], BOTH);
    let verdict = judged(&facts(&[inside.clone(), gone.clone()]), "");
    assert_eq!(verdict.problems[0].cause, NameCause::Nxdomain);
    assert_eq!(
        verdict.problems[0].ca_error,
        "dns: DNS problem: NXDOMAIN looking up A for shop.example.test - check that a DNS record exists for this domain"
    );
    assert_eq!(verdict.findings[0].id, "F15");
    let known = ("public", a(&["203.0.113.10"]), json!("none"));
    assert_eq!(judged(&facts(&[inside.clone(), gone, known]), "").problems, []);
    let empty = ("public", json!("none"), json!("no_name"));
    assert_eq!(
        judged(&facts(&[inside.clone(), empty]), "").problems[0].cause,
        NameCause::NoAddress
    );
    let broken = (
        "public",
        json!({"failed": "servfail"}),
        json!({"failed": "servfail"}),
    );
    let verdict = judged(&facts(&[inside.clone(), broken]), "");
    assert_eq!(verdict.problems[0].cause, NameCause::Servfail);
    let silent = ("public", json!({"failed": "resolve_timeout"}), json!("no_name"));
    assert_eq!(
        judged(&facts(&[inside, silent]), "").problems,
        [],
        "silence proves nothing"
    );
}

#[test]
fn a_climb_that_stops_before_the_top_allows_nothing() {
    let verdict = judged(&shop(&[json!("none"), json!("none")]), "letsencrypt.org");
    assert_eq!(verdict.caa, CaaState::Unknown);
}

#[test]
fn an_address_that_only_public_resolvers_return_is_reported() {
    let views = [
        ("own", a(&["203.0.113.10"]), json!("none")),
        ("public", a(&["203.0.113.10"]), a(&["2001:db8::10"])),
    ];
    let verdict = judged(&name_facts(HOST, &[of("n1/pod", sight(&views, &[]))], BOTH), "");
    let ids: Vec<_> = verdict
        .findings
        .iter()
        .map(|finding| finding.id.as_ref())
        .collect();
    assert_eq!(ids, ["F15", "F17"]);
    assert!(verdict.findings[1].text.contains("2001:db8::10"), "{verdict:?}");
}

#[test]
fn an_answer_that_two_nodes_share_is_listed_once() {
    let views = [("own", a(&["203.0.113.10"]), json!("none"))];
    let sights = [of("n1/pod", sight(&views, &[])), of("n2/pod", sight(&views, &[]))];
    assert_eq!(name_facts(HOST, &sights, BOTH).views.len(), 1);
}

fn any_answer() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!("none")),
        Just(json!("no_name")),
        Just(json!({"addresses": ["203.0.113.10"]})),
        Just(json!({"failed": "servfail"})),
        Just(json!({"failed": "resolve_timeout"})),
    ]
}

fn any_caa() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!("none")),
        Just(issue("letsencrypt.org")),
        Just(issue("pki.goog")),
        Just(json!({"failed": "servfail"})),
        Just(json!({"failed": "resolve_timeout"})),
    ]
}

fn any_sight() -> impl Strategy<Value = NameSight> {
    let view = (
        prop_oneof![Just("own"), Just("public")],
        any_answer(),
        any_answer(),
    );
    (
        proptest::collection::vec(view, 0..4),
        proptest::collection::vec(any_caa(), 0..4),
    )
        .prop_map(|(views, caa)| sight(&views, &caa))
}

proptest! {
    /// A CA is reported as allowed only if a vantage with the public view saw every name up to the deciding one.
    #[test]
    fn that_an_authority_may_issue_is_never_said_without_the_publics_answer(
        sights in proptest::collection::vec((prop_oneof![Just("n1/pod"), Just("internet:a"), Just("vpc:b")], any_sight()), 0..4)
    ) {
        let sights: Vec<_> = sights.into_iter().map(|(vantage, sight)| of(vantage, sight)).collect();
        let facts = name_facts(HOST, &sights, BOTH);
        let verdict = judged(&facts, "letsencrypt.org");
        if matches!(verdict.caa, CaaState::Unrestricted | CaaState::Allowed) {
            let public: Vec<_> = facts.caa.iter().filter(|chain| chain.public).collect();
            prop_assert!(!public.is_empty());
            for chain in public {
                let deciding = chain.names.iter().position(|at| matches!(at.answer, parallax_model::dns::CaaAnswer::Records(_)));
                let queried = &chain.names[..deciding.unwrap_or(chain.names.len())];
                prop_assert!(queried.iter().all(|at| at.answer == parallax_model::dns::CaaAnswer::None));
            }
        }
    }
}
