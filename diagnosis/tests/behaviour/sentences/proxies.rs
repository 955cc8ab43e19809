//! Verdicts about HTTP proxies: a broken proxy is never named as a fault of the target's own front or name.

use parallax_model::TargetId;

use super::*;

const PROXY: &str = "198.51.100.31:3128";

/// Two targets behind one proxy, and the first of them without it.
fn proxied_spec() -> Value {
    let mut spec = healthy_spec();
    let targets = spec["targets"].as_array_mut().unwrap();
    for host in ["partner", "supplier"] {
        let url = format!("https://{host}.example.net/");
        targets.push(json!({"url": url, "httpProxy": "http://proxy.example.test:3128"}));
    }
    targets.push(json!({"url": "https://partner.example.net/"}));
    spec
}

/// Observes both proxied targets and the direct one from each node.
fn observe(cluster: &mut Cluster, round: i64, fails: impl Fn(&str) -> Outcome) {
    for node in NODES {
        for host in ["partner", "supplier"] {
            let target = format!("https://{host}.example.net/#proxy=proxy.example.test:3128");
            let outcome = fails(host);
            let mut line = json!({"channel": "vip", "target": target});
            if outcome.is_none_or(|(phase, _)| phase != "resolve") {
                line["front"] = json!(PROXY);
                line["dns"] =
                    json!({"resolver": DNS, "name": "proxy.example.test", "addresses": ["198.51.100.31"]});
            }
            cluster.probe(round, node, line, outcome);
        }
        let line =
            json!({"channel": "vip", "target": "https://partner.example.net/", "front": "203.0.113.77:443"});
        cluster.probe(round, node, line, None);
    }
}

#[test]
fn a_proxy_that_does_not_work_is_one_incident_that_names_the_proxy() {
    for kind in [
        "proxy_refused",
        "proxy_timeout",
        "proxy_unreachable",
        "proxy_closed",
    ] {
        let mut cluster = Cluster::new(&proxied_spec());
        let view = rounds(&mut cluster, |cluster, round, broken| {
            observe(cluster, round, |_| broken.then_some(("connect", kind)));
        });
        let verdict = only_verdict(&view);
        assert_eq!(verdict.causes[0].id, "P18", "{kind}: {}", verdict.sentence);
        assert!(
            verdict.sentence.contains(PROXY) && verdict.sentence.contains("HTTP proxy"),
            "{kind}: {}",
            verdict.sentence
        );
        assert!(
            !verdict.sentence.contains("203.0.113.77"),
            "{kind}: {}",
            verdict.sentence
        );
        assert_eq!(verdict.targets.len(), 2, "{kind}: {:?}", verdict.targets);
    }
}

#[test]
fn a_proxy_that_refuses_a_tunnel_fails_the_target_and_not_the_front() {
    for (kind, id, words) in [
        ("proxy_denied:403", "P19", "opens no tunnel"),
        ("proxy_denied:503", "P19", "opens no tunnel"),
        ("proxy_authentication:407", "P21", "requires authentication"),
    ] {
        let mut cluster = Cluster::new(&proxied_spec());
        let view = rounds(&mut cluster, |cluster, round, broken| {
            observe(cluster, round, |host| {
                (broken && host == "partner").then_some(("connect", kind))
            });
        });
        let verdict = only_verdict(&view);
        assert_eq!(verdict.causes[0].id, id, "{kind}: {}", verdict.sentence);
        assert!(verdict.sentence.contains(words), "{kind}: {}", verdict.sentence);
        let targets: Vec<&str> = verdict.targets.iter().map(TargetId::as_str).collect();
        assert_eq!(
            targets,
            ["https://partner.example.net/#proxy=proxy.example.test:3128"],
            "{kind}: neither the other target of the proxy nor the direct one"
        );
    }
}

#[test]
fn a_proxy_whose_name_does_not_resolve_counts_against_that_name() {
    let mut cluster = Cluster::new(&proxied_spec());
    let view = rounds(&mut cluster, |cluster, round, broken| {
        cluster.names(round, |_| false);
        observe(cluster, round, |_| {
            broken.then_some(("resolve", "proxy_unresolved"))
        });
    });
    let verdict = only_verdict(&view);
    assert!(
        verdict.sentence.contains("proxy.example.test"),
        "{}",
        verdict.sentence
    );
    assert!(
        !verdict.sentence.contains("partner.example.net"),
        "{}",
        verdict.sentence
    );
}
