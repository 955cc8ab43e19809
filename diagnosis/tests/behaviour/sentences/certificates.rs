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

/// On a real cluster, the front was named as well, because connections to it fail at its only host; and the network between nodes
/// was named, because the loss of large packets was believed to fail handshakes with every kind of failure.
#[test]
fn a_certificate_is_the_fault_of_its_only_host_and_of_nothing_else() {
    for kind in [
        "certificate_expired",
        "certificate_untrusted",
        "certificate_wrong_name",
    ] {
        let mut cluster = Cluster::new(&healthy_spec());
        let mut named = BTreeSet::new();
        for round in 0..20 {
            let outcome = (round >= 6).then_some(("tls", kind));
            cluster.mesh(round);
            cluster.host(round, "http", |_| None);
            cluster.host(round, "https", |_| outcome);
            for node in NODES {
                for pod in 1..=2 {
                    let line = json!({"channel": "direct", "target": "https://shop.example.test/",
                        "entry": format!("ingress-{pod}"), "front": format!("10.244.{pod}.20:8443"),
                        "dst_node": format!("n{pod}")});
                    cluster.probe(round, node, line, outcome);
                }
            }
            let view = cluster.close(round);
            for incident in &view.incidents {
                let verdict = &incident.verdict;
                named.insert((verdict.region.to_string(), verdict.causes[0].id.clone()));
            }
            assert_eq!(
                view.incidents.len(),
                usize::from(round >= 7),
                "{kind}: round {round}"
            );
        }
        assert_eq!(named.len(), 1, "{kind}: {named:?}");
        assert!(
            named.iter().all(|(region, _)| region == "target"),
            "{kind}: {named:?}"
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
