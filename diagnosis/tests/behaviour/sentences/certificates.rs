//! Verdicts about certificates and redirects.

use super::*;

#[test]
fn each_thing_wrong_with_a_certificate_has_its_own_cause_sentence_and_remedy() {
    for (kind, id, words, remedy) in [
        (
            "certificate_wrong_name",
            "P13",
            "the server's certificate is not valid for shop.example.test",
            "names the host",
        ),
        (
            "certificate_expired",
            "P14",
            "the server's certificate has expired",
            "renew",
        ),
        ("certificate_not_yet_valid", "P14", "is not valid yet", "renew"),
        (
            "certificate_untrusted",
            "P15",
            "does not chain to a root that the probers trust",
            "trust",
        ),
        (
            "certificate_chain_incomplete",
            "P16",
            "without the intermediate certificate",
            "whole chain",
        ),
        ("not_tls", "P17", "does not speak TLS", "enable TLS"),
    ] {
        let mut cluster = Cluster::new(&healthy_spec());
        let view = rounds(&mut cluster, |cluster, round, broken| {
            cluster.host(round, "https", |_| broken.then_some(("tls", kind)));
        });
        let verdict = only_verdict(&view);
        assert_eq!(verdict.causes[0].id, id, "{kind}: {}", verdict.sentence);
        assert!(verdict.sentence.contains(words), "{kind}: {}", verdict.sentence);
        assert!(
            !verdict.sentence.contains("redirect"),
            "{kind}: {}",
            verdict.sentence
        );
        assert!(verdict.causes.iter().all(|cause| cause.id != "F18"), "{kind}");
        assert!(
            verdict.remedies[0].action.contains(remedy),
            "{kind}: {:?}",
            verdict.remedies[0]
        );
    }
}

#[test]
fn a_redirect_that_was_seen_is_named() {
    let mut cluster = Cluster::new(&healthy_spec());
    let view = rounds(&mut cluster, |cluster, round, broken| {
        cluster.host(round, "http", |_| {
            broken.then_some(("check", "redirect_loop:301"))
        });
    });
    let verdict = only_verdict(&view);
    assert_eq!(verdict.causes[0].id, "F18", "{}", verdict.sentence);
    assert!(
        verdict.sentence.contains("the redirects form a loop"),
        "{}",
        verdict.sentence
    );
    let command = verdict.remedies[0].command.as_deref();
    assert_eq!(
        command,
        Some("curl -sSI --max-redirs 0 http://shop.example.test/")
    );
}
