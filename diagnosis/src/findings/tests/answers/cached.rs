//! Former addresses in answers, and how long a cache may keep them.

use super::*;

/// The cluster, after its Service has got another address.
fn moved() -> Value {
    let mut cluster = cluster();
    cluster["services"][0]["clusterIPs"] = json!(["10.96.0.51"]);
    cluster
}

#[test]
fn an_address_that_a_service_had_before_it_moved_is_stale_once_its_ttl_is_over() {
    let mut stage = FindingsFixture::new(&cluster());
    let script = |round: i64, vantage: &str, stage: &mut FindingsFixture| {
        stage.tell(round, vantage, "a.example.test", DNS, &[CLUSTER_IP]);
    };
    rounds(&mut stage, 0..3, script);
    stage.change(&moved(), 3);
    // The TTL is 30 s, six rounds, and the resolver may learn of the change two rounds later. Until then, the cache
    // is not at fault.
    let view = rounds(&mut stage, 3..11, script);
    assert_eq!(kinds(&view), ["cache-window"]);
    assert_eq!(view.findings[0].severity, crate::findings::Severity::Notice);
    assert!(
        view.findings[0]
            .sentence
            .contains("for up to 40.0 s after the Service lost them (TTL 30 s)"),
        "{}",
        view.findings[0].sentence
    );
    let view = rounds(&mut stage, 11..14, script);
    assert_eq!(kinds(&view), ["stale-answer"]);
    let finding = &view.findings[0];
    assert!(
        finding
            .sentence
            .contains("10.96.0.50 belonged to Service ingress/nginx"),
        "{}",
        finding.sentence
    );
    assert!(
        finding.remedies[0].action.contains("10.96.0.51"),
        "{}",
        finding.remedies[0].action
    );
}

/// Seen after a rollback: a prober started while the cache of its resolver had the old answer for a few more seconds.
#[test]
fn the_rest_of_a_ttl_is_not_the_time_for_which_a_cache_may_keep_an_answer() {
    let mut stage = FindingsFixture::new(&cluster());
    rounds(&mut stage, 0..3, |round, vantage, stage| {
        stage.tell(round, vantage, "a.example.test", DNS, &[CLUSTER_IP]);
    });
    stage.change(&moved(), 3);
    stage.close(6);
    // The first answers that the prober on n1 gets from this resolver; the cache drops them 30 s after the change.
    for (round, rest) in [(7, 8), (8, 3)] {
        let mut answer = told("a.example.test", NODE_LOCAL, &[CLUSTER_IP]);
        answer["dns"]["ttl_s"] = json!(rest);
        stage.observe(round, "n1/pod", answer);
        let view = stage.close(round);
        assert!(!kinds(&view).contains(&"stale-answer"), "{:?}", view.findings);
    }
}

#[test]
fn a_long_ttl_is_remembered_while_its_rest_becomes_shorter() {
    let mut stage = FindingsFixture::new(&cluster());
    let mut stale_since = None;
    for round in 0..100 {
        if round == 20 {
            stage.change(&moved(), round);
        }
        let mut answer = told("a.example.test", DNS, &[CLUSTER_IP]);
        answer["dns"]["ttl_s"] = json!(300 - round * 5 % 300);
        stage.observe(round, "n1/pod", answer);
        if kinds(&stage.close(round)).contains(&"stale-answer") {
            stale_since = stale_since.or(Some(round));
        }
    }
    // 100 s, the TTL of 300 s, and two rounds.
    assert_eq!(stale_since, Some(83));
}

#[test]
fn a_private_address_that_nothing_in_the_cluster_has_is_stale_for_a_host_of_the_cluster() {
    let mut stage = FindingsFixture::new(&cluster());
    let script = |round: i64, vantage: &str, stage: &mut FindingsFixture| {
        stage.tell(round, vantage, "a.example.test", DNS, &["10.96.7.7"]);
        // The topology does not know the owner of this name: a database outside the cluster.
        stage.tell(round, vantage, "db.example.test", DNS, &["10.20.30.40"]);
    };
    // Until the TTL is over, a Service may have had the address before this process started.
    let view = rounds(&mut stage, 0..9, script);
    assert_eq!(view.findings, []);
    let view = rounds(&mut stage, 9..12, script);
    assert_eq!(kinds(&view), ["stale-answer"]);
    assert!(view.findings[0].subject.starts_with("a.example.test"));
}

/// Seen at every upgrade of Parallax: three Services select the probers, and the window named another one than the name.
#[test]
fn a_former_address_that_several_services_had_is_of_the_one_that_the_name_stands_for() {
    let with_endpoint = |address: &str| {
        let mut cluster = cluster();
        cluster["services"][0]["endpoints"][0]["address"] = json!(address);
        let mut second = cluster["services"][0].clone();
        second["namespace"] = json!("zone");
        second["clusterIPs"] = json!(["10.96.0.70"]);
        second["loadBalancer"] = json!([]);
        cluster["services"].as_array_mut().unwrap().push(second);
        cluster
    };
    let mut stage = FindingsFixture::new(&with_endpoint("10.244.1.10"));
    let script = |round: i64, vantage: &str, stage: &mut FindingsFixture| {
        stage.tell(round, vantage, "a.example.test", DNS, &["10.244.1.10"]);
    };
    rounds(&mut stage, 0..3, script);
    stage.change(&with_endpoint("10.244.1.11"), 3);
    let view = rounds(&mut stage, 3..7, script);
    assert_eq!(kinds(&view), ["cache-window"]);
    let sentence = &view.findings[0].sentence;
    assert!(sentence.contains("of Service ingress/nginx for"), "{sentence}");
}

/// Seen after a rollback: a new aggregator does not know the prober Pods that had just left, and a cache still had one of them.
#[test]
fn a_cached_address_from_before_the_start_is_no_finding_while_it_is_cached_or_later() {
    let mut stage = FindingsFixture::new(&cluster());
    for last in 1..20 {
        let view = rounds(&mut stage, last - 1..last, |round, vantage, stage| {
            let cached = vantage == "n3/pod" && round < 6;
            let answer: &[&str] = if cached {
                &[CLUSTER_IP, "10.244.1.16"]
            } else {
                &[CLUSTER_IP]
            };
            stage.tell(round, vantage, "a.example.test", DNS, answer);
        });
        assert_eq!(view.findings, [], "round {last}");
    }
}
