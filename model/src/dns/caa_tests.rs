//! Examples from RFC 8659 and RFC 8657, and properties of all record sets.

use proptest::prelude::*;

use super::*;

const LE: CaaAsk<'static> = CaaAsk {
    issuer: "letsencrypt.org",
    wildcard: false,
    method: "http-01",
    account_uri: None,
};

fn record(flags: u8, tag: &str, value: &str) -> CaaRecord {
    CaaRecord {
        flags,
        tag: tag.to_owned(),
        value: value.to_owned(),
    }
}

fn climbed(sets: Vec<CaaAnswer>) -> Vec<CaaAt> {
    caa_names("shop.example.org")
        .into_iter()
        .zip(sets)
        .map(|(name, answer)| CaaAt { name, answer })
        .collect()
}

/// Whether issuance is allowed with these records at the name itself.
fn allows(records: &[CaaRecord], ask: CaaAsk<'_>) -> bool {
    let chain = climbed(vec![CaaAnswer::Records(records.to_vec())]);
    matches!(
        evaluate_caa(&chain, ask),
        CaaVerdict::Allowed { .. } | CaaVerdict::Unrestricted
    )
}

#[test]
fn the_climb_goes_from_the_name_to_its_top_level_domain() {
    assert_eq!(
        caa_names("*.Shop.example.org."),
        ["shop.example.org", "example.org", "org"]
    );
    assert_eq!(caa_names("org"), ["org"]);
    assert_eq!(caa_names("."), [""; 0]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_set_of_records_allows_or_forbids_as_the_rfcs_say() {
    let wild = CaaAsk { wildcard: true, ..LE };
    let account = CaaAsk {
        account_uri: Some("https://acme.example/acct/1"),
        ..LE
    };
    let issue = |value: &str| record(0, "issue", value);
    for (case, records, ask, allowed) in [
        ("the authority", vec![issue("letsencrypt.org")], LE, true),
        (
            "a tag in capitals",
            vec![record(0, "ISSUE", "letsencrypt.org")],
            LE,
            true,
        ),
        ("another authority", vec![issue("ca.example.net")], LE, false),
        (
            "both authorities",
            vec![issue("ca.example.net"), issue("letsencrypt.org")],
            LE,
            true,
        ),
        ("no issuer", vec![issue(";")], LE, false),
        ("no issuer, written as an empty value", vec![issue("")], LE, false),
        (
            "no issuer in one record, the authority in another",
            vec![issue(";"), issue("letsencrypt.org")],
            LE,
            true,
        ),
        (
            "white space around the issuer",
            vec![issue("  letsencrypt.org\t;")],
            LE,
            true,
        ),
        (
            "a parameter without a value",
            vec![issue("letsencrypt.org; policy")],
            LE,
            false,
        ),
        (
            "only a mail address",
            vec![record(0, "iodef", "mailto:a@example.org")],
            LE,
            true,
        ),
        (
            "a critical mail address",
            vec![record(128, "iodef", "mailto:a@example.org")],
            LE,
            true,
        ),
        ("an unknown tag", vec![record(0, "tbs", "x")], LE, true),
        (
            "a critical unknown tag",
            vec![record(128, "tbs", "x"), issue("letsencrypt.org")],
            LE,
            false,
        ),
        (
            "the bit that many configurations use for critical",
            vec![record(1, "tbs", "x")],
            LE,
            false,
        ),
        ("another reserved bit", vec![record(64, "tbs", "x")], LE, true),
        (
            "mail certificates",
            vec![record(128, "issuemail", "ca.example.net")],
            LE,
            true,
        ),
        (
            "wildcards of another authority",
            vec![record(0, "issuewild", "ca.example.net")],
            LE,
            true,
        ),
        (
            "wildcards of another authority, for a wildcard",
            vec![record(0, "issuewild", "ca.example.net")],
            wild,
            false,
        ),
        (
            "no record about wildcards",
            vec![issue("letsencrypt.org")],
            wild,
            true,
        ),
        (
            "wildcard records take precedence",
            vec![issue("letsencrypt.org"), record(0, "issuewild", ";")],
            wild,
            false,
        ),
        (
            "another account",
            vec![issue("letsencrypt.org; accounturi=https://acme.example/acct/2")],
            account,
            false,
        ),
        (
            "the requesting account",
            vec![issue("letsencrypt.org; accounturi=https://acme.example/acct/1")],
            account,
            true,
        ),
        (
            "two accounts in one record",
            vec![issue(
                "letsencrypt.org; accounturi=https://acme.example/acct/1; accounturi=https://acme.example/acct/1",
            )],
            account,
            false,
        ),
        (
            "the requested method",
            vec![issue("letsencrypt.org; validationmethods=dns-01,http-01")],
            LE,
            true,
        ),
        (
            "another method",
            vec![issue("letsencrypt.org;validationmethods=dns-01")],
            LE,
            false,
        ),
        (
            "an empty list of methods",
            vec![issue("letsencrypt.org;validationmethods=")],
            LE,
            false,
        ),
        (
            "an invalid method before it",
            vec![issue("letsencrypt.org;validationmethods=a_b,http-01")],
            LE,
            false,
        ),
        (
            "two lists of methods",
            vec![issue(
                "letsencrypt.org;validationmethods=http-01;validationmethods=http-01",
            )],
            LE,
            false,
        ),
    ] {
        assert_eq!(allows(&records, ask), allowed, "{case}");
    }
}

#[test]
fn the_nearest_name_that_has_records_decides_and_a_silence_before_it_forbids() {
    let other = CaaAnswer::Records(vec![record(0, "issue", "ca.example.net")]);
    let own = CaaAnswer::Records(vec![record(0, "issue", "letsencrypt.org")]);
    let silent = CaaAnswer::Failed(FailureKind::ServFail);
    let none = CaaAnswer::None;
    assert_eq!(
        evaluate_caa(&climbed(vec![none.clone(), none.clone(), none.clone()]), LE),
        CaaVerdict::Unrestricted
    );
    for (sets, expected) in [
        (vec![own.clone(), other.clone(), none.clone()], None),
        (
            vec![none.clone(), other.clone(), own.clone()],
            Some("While processing CAA for shop.example.org: CAA record for example.org prevents issuance"),
        ),
        (vec![none.clone(), own.clone(), silent.clone()], None),
        (
            vec![silent, own, none],
            Some(
                "While processing CAA for shop.example.org: DNS problem: SERVFAIL looking up CAA for \
                 shop.example.org - the domain's nameservers may be malfunctioning",
            ),
        ),
    ] {
        let verdict = evaluate_caa(&climbed(sets), LE);
        let problem = verdict.problem("shop.example.org").map(|(_, detail)| detail);
        assert_eq!(problem.as_deref(), expected, "{verdict:?}");
    }
}

#[test]
fn an_account_that_is_not_known_is_a_condition_and_no_refusal() {
    let bound = record(
        0,
        "issue",
        "letsencrypt.org; accounturi=https://acme.example/acct/1",
    );
    let chain = climbed(vec![CaaAnswer::Records(vec![bound])]);
    assert_eq!(
        evaluate_caa(&chain, LE),
        CaaVerdict::Allowed {
            name: "shop.example.org".to_owned(),
            accounts: vec!["https://acme.example/acct/1".to_owned()]
        }
    );
}

fn any_record() -> impl Strategy<Value = CaaRecord> {
    let tag = prop::sample::select(vec!["issue", "issuewild", "iodef", "issuemail", "tbs", "Issue"]);
    let value = prop_oneof![
        Just("letsencrypt.org".to_owned()),
        Just(";".to_owned()),
        Just("ca.example.net".to_owned()),
        Just("letsencrypt.org; validationmethods=dns-01".to_owned()),
        Just("letsencrypt.org; accounturi=https://acme.example/acct/1".to_owned()),
        "[ -~]{0,30}",
        "\\PC{0,20}",
    ];
    (prop::sample::select(vec![0_u8, 1, 64, 128, 255]), tag, value)
        .prop_map(|(flags, tag, value)| record(flags, tag, &value))
}

proptest! {
    #[test]
    fn the_order_of_records_is_of_no_account(
        records in prop::collection::vec(any_record(), 1..6),
        turn in any::<prop::sample::Index>(),
        wildcard in any::<bool>(),
    ) {
        let ask = CaaAsk { wildcard, ..LE };
        let mut turned = records.clone();
        turned.rotate_left(turn.index(records.len()));
        prop_assert_eq!(allows(&records, ask), allows(&turned, ask));
    }

    #[test]
    fn what_stands_above_the_nearest_set_is_of_no_account(
        records in prop::collection::vec(any_record(), 1..4),
        above in prop::collection::vec(any_record(), 0..4),
    ) {
        let alone = evaluate_caa(&climbed(vec![CaaAnswer::Records(records.clone())]), LE);
        let under = evaluate_caa(&climbed(vec![CaaAnswer::Records(records), CaaAnswer::Records(above)]), LE);
        prop_assert_eq!(alone, under);
    }

    #[test]
    fn a_record_for_the_authority_allows_unless_a_critical_one_is_unknown(
        mut records in prop::collection::vec(any_record(), 0..5),
    ) {
        let unknown = records.iter().any(is_unsupported_critical);
        records.push(record(0, "issue", "letsencrypt.org"));
        prop_assert_eq!(allows(&records, LE), !unknown);
    }

    #[test]
    fn records_about_wildcards_say_nothing_of_other_names(
        records in prop::collection::vec(any_record(), 1..5),
        value in "[ -~]{0,30}",
    ) {
        let mut more = records.clone();
        more.push(record(0, "issuewild", &value));
        prop_assert_eq!(allows(&records, LE), allows(&more, LE));
    }

    #[test]
    fn a_known_account_allows_no_more_than_an_unknown_one(
        records in prop::collection::vec(any_record(), 1..5),
    ) {
        let known = CaaAsk { account_uri: Some("https://acme.example/acct/9"), ..LE };
        prop_assert!(!allows(&records, known) || allows(&records, LE));
    }
}
