//! Verdicts about Services and their endpoints.

use super::*;

#[test]
fn nothing_is_said_of_a_controller_where_a_service_is_asked_at_its_own_address() {
    let mut cluster = Cluster::new(&healthy_spec());
    let errors = Some(("check", "status:503"));
    let view = rounds(&mut cluster, |cluster, round, broken| {
        let outcome = errors.filter(|_| broken);
        cluster.web(round, 3, outcome, |_| outcome);
    });
    let verdict = only_verdict(&view);
    assert_eq!(verdict.causes[0].id, "F20");
    assert!(!verdict.sentence.contains("controller"), "{}", verdict.sentence);
    assert!(
        verdict
            .sentence
            .contains("the Pods of Service shop/web return server errors"),
        "{}",
        verdict.sentence
    );
    assert_eq!(
        verdict.remedies[0].command.as_deref(),
        Some("kubectl -n shop get endpointslices,pods -l kubernetes.io/service-name=web -o wide")
    );
}

/// On a real cluster, a Service was named as a host without a route (F19) once its selector was repaired: the controller needs a
/// second to follow, and the topology has the endpoints already.
#[test]
fn the_last_failures_after_a_repair_do_not_rename_the_cause() {
    let empty = spec(&[], HEALTHY, "Ready");
    let mut cluster = Cluster::new(&healthy_spec());
    let mut causes = BTreeSet::new();
    for round in 0..16 {
        match round {
            3 => cluster.change(&empty, round),
            13 => cluster.change(&healthy_spec(), round),
            _ => {}
        }
        cluster.mesh(round);
        let fails = (3..14).contains(&round);
        cluster.host(round, "http", |_| fails.then_some(("check", "status:404")));
        let view = cluster.close(round);
        causes.extend(
            view.incidents
                .iter()
                .map(|incident| incident.verdict.causes[0].id.clone()),
        );
        assert!(round != 12 || view.incidents.len() == 1, "{causes:?}");
    }
    assert_eq!(causes.into_iter().collect::<Vec<_>>(), ["F26"]);
}

#[test]
fn where_some_pods_serve_the_sentence_says_so() {
    let mut cluster = Cluster::new(&healthy_spec());
    let view = rounds(&mut cluster, |cluster, round, broken| {
        // Every second response comes from the failing Pod.
        cluster.host(round, "http", |node| {
            let hit = (round + i64::from(node == "n2")) % 2 == 0;
            (broken && hit).then_some(("check", "status:503"))
        });
    });
    let sentences = view
        .incidents
        .iter()
        .map(|i| i.verdict.sentence.as_str())
        .chain(view.investigations.iter().map(|i| i.sentence.as_str()));
    for sentence in sentences {
        assert!(!sentence.contains("no application Pod"), "{sentence}");
    }
}

#[test]
fn a_target_that_no_service_is_known_of_is_said_to_fail_and_nothing_is_said_of_its_endpoints() {
    let mut cluster = Cluster::new(&json!({"targets": [{"url": "tcp://db.example.test:5432"}],
        "vantages": ["vpc:laptop"]}));
    let laptop = |cluster: &mut Cluster, round: i64, outcome: Outcome| {
        let mut line = json!({"channel": "vip", "target": "tcp://db.example.test:5432", "front": "192.0.2.7:5432",
            "vantage": "vpc:laptop", "incarnation": "laptop-1", "seq": round + 1, "t_us": round * INTERVAL});
        line = with_outcome(line, outcome);
        let recorded: Recorded = serde_json::from_value(line).unwrap();
        cluster.engine.observe(&recorded);
        let end = EventTime((round + 1) * INTERVAL).shifted(3_500_000);
        cluster
            .engine
            .record_progress(&"vpc:laptop".parse().unwrap(), EventTime((round + 1) * INTERVAL));
        cluster.engine.advance(end);
        cluster.engine.view(end)
    };
    let mut view = None;
    for round in 0..10 {
        view = Some(laptop(
            &mut cluster,
            round,
            (round >= 3).then_some(("connect", "refused")),
        ));
    }
    let view = view.unwrap();
    let verdict = only_verdict(&view);
    for words in ["endpoint", "workload", "down", "every node", "controller"] {
        assert!(!verdict.sentence.contains(words), "{words}: {}", verdict.sentence);
    }
    assert!(
        verdict.sentence.contains("nothing listens on the port"),
        "{}",
        verdict.sentence
    );
    for remedy in &verdict.remedies {
        let command = remedy.command.as_deref().unwrap_or_default();
        assert!(!command.contains("kubectl"), "{command}");
    }
}

#[test]
fn a_service_without_a_usable_endpoint_says_whether_any_exists() {
    for (web, words) in [
        (
            &[][..],
            "Service shop/web has no usable endpoint (none exists), so connections are refused",
        ),
        (
            &[false, false, false],
            "Service shop/web has no usable endpoint (none of 3 is ready), so connections are refused",
        ),
    ] {
        let mut cluster = Cluster::new(&healthy_spec());
        let view = rounds(&mut cluster, |cluster, round, broken| {
            if round == 3 {
                cluster.change(&spec(web, HEALTHY, "Ready"), round);
            }
            let pods = if broken { 0 } else { 3 };
            cluster.web(round, pods, broken.then_some(("connect", "refused")), |_| None);
        });
        let verdict = only_verdict(&view);
        assert_eq!(verdict.causes[0].id, "F26", "{}", verdict.sentence);
        assert!(verdict.sentence.contains(words), "{}", verdict.sentence);
        assert!(
            !verdict.sentence.contains("endpoints answer"),
            "{}",
            verdict.sentence
        );
    }
}

#[test]
fn an_origin_without_a_usable_endpoint_is_named_whatever_the_controller_answers() {
    for status in ["status:503", "status:404"] {
        let mut cluster = Cluster::new(&healthy_spec());
        let view = rounds(&mut cluster, |cluster, round, broken| {
            if round == 3 {
                cluster.change(&spec(&[], HEALTHY, "Ready"), round);
            }
            cluster.host(round, "http", |_| broken.then_some(("check", status)));
        });
        let verdict = only_verdict(&view);
        assert_eq!(verdict.causes[0].id, "F26", "{}", verdict.sentence);
        let answers = status.trim_start_matches("status:");
        let words = format!(
            "Service shop/web behind the route has no usable endpoint (none exists), so the controller answers {answers}"
        );
        assert!(verdict.sentence.contains(&words), "{}", verdict.sentence);
    }
}

/// kube-proxy sends connections to Pods that serve while they terminate if there are no others; ingress controllers do not.
#[test]
fn an_origin_whose_pods_all_terminate_has_no_endpoint_for_the_controller() {
    let mut terminating = healthy_spec();
    for endpoint in terminating["services"][1]["endpoints"].as_array_mut().unwrap() {
        endpoint["ready"] = json!(false);
        endpoint["serving"] = json!(true);
        endpoint["terminating"] = json!(true);
    }
    let mut cluster = Cluster::new(&healthy_spec());
    let view = rounds(&mut cluster, |cluster, round, broken| {
        if round == 3 {
            cluster.change(&terminating, round);
        }
        cluster.host(round, "http", |_| broken.then_some(("check", "status:503")));
    });
    let verdict = only_verdict(&view);
    assert_eq!(verdict.causes[0].id, "F26", "{}", verdict.sentence);
    assert!(
        verdict
            .sentence
            .contains("Service shop/web behind the route has no usable endpoint (none of 3 is ready)"),
        "{}",
        verdict.sentence
    );
}

#[test]
fn ready_pods_that_are_silent_on_every_way_are_filtered_and_not_down() {
    let mut cluster = Cluster::new(&healthy_spec());
    let view = rounds(&mut cluster, |cluster, round, broken| {
        let outcome = broken.then_some(("connect", "connect_timeout"));
        cluster.web(round, 3, outcome, |_| outcome);
    });
    let verdict = only_verdict(&view);
    assert_eq!(verdict.causes[0].id, "F13", "{}", verdict.sentence);
    assert!(
        verdict.sentence.contains("no connection to the ready Pods of Service shop/web on port 8080 succeeds: a filter such as a NetworkPolicy, security group or host firewall drops the packets"),
        "{}",
        verdict.sentence
    );
    assert!(!verdict.sentence.contains("down"), "{}", verdict.sentence);
}

#[test]
fn an_entry_whose_only_origin_is_filtered_has_no_fault_of_its_own() {
    // At its cluster address the entry answers a name that it does not serve.
    let mut spec = healthy_spec();
    spec["services"][0]["ports"][0]["name"] = json!("http");
    let other = json!({"target": {"url": "http://other.example.test/"}, "service": "ingress/nginx", "port": 80,
        "class": "nginx", "origin": "shop/web"});
    spec["published"].as_array_mut().unwrap().push(other);
    let mut cluster = Cluster::new(&spec);
    let view = rounds(&mut cluster, |cluster, round, broken| {
        for (node, (scheme, host, port)) in NODES.into_iter().flat_map(|node| {
            [
                ("http", "shop", 80),
                ("http", "other", 80),
                ("https", "shop", 443),
            ]
            .map(|host| (node, host))
        }) {
            let unanswered = broken.then_some(("first-byte", "first_byte_timeout"));
            let target = format!("{scheme}://{host}.example.test/");
            let vip = json!({"channel": "vip", "target": target, "front": format!("203.0.113.10:{port}")});
            cluster.probe(round, node, vip, unanswered);
            for pod in 1..=2 {
                let direct = json!({"channel": "direct", "target": target, "entry": format!("ingress-{pod}"),
                    "front": format!("10.244.{pod}.20:{}", 8_000 + port), "dst_node": format!("n{pod}")});
                cluster.probe(round, node, direct, unanswered);
            }
        }
        for node in NODES {
            let line = json!({"channel": "vip", "target": "http://10.96.0.50:80/", "front": "10.96.0.50:80"});
            cluster.probe(round, node, line, None);
        }
        let dropped = broken.then_some(("connect", "connect_timeout"));
        cluster.web(round, 3, dropped, |_| dropped);
    });
    let verdict = only_verdict(&view);
    assert_eq!(verdict.causes[0].id, "F13", "{}", verdict.sentence);
    let targets: Vec<String> = verdict.targets.iter().map(ToString::to_string).collect();
    assert_eq!(
        targets,
        [
            "http://10.96.0.60:80/",
            "http://other.example.test/",
            "http://shop.example.test/",
            "https://shop.example.test/"
        ]
    );
}

#[test]
fn an_address_that_nobody_reaches_is_a_fault_beside_an_origin_that_is_filtered() {
    let mut cluster = Cluster::new(&healthy_spec());
    let view = rounds(&mut cluster, |cluster, round, broken| {
        let dropped = broken.then_some(("connect", "connect_timeout"));
        cluster.host(round, "http", |_| dropped);
        cluster.host(round, "https", |_| dropped);
        cluster.web(round, 3, dropped, |_| dropped);
    });
    let subjects: Vec<String> = view
        .incidents
        .iter()
        .map(|incident| incident.verdict.subject.to_string())
        .collect();
    assert_eq!(subjects.len(), 2, "{subjects:?}");
}
