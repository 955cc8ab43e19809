//! Probes other than a plain GET, from the plan line through the agent to the report.

use std::{io::Write, net::SocketAddr};

use hickory_proto::op::ResponseCode;
use parallax_model::{Channel, FailureKind, Observation, Outcome, Phase, SIZE_SWEEP};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    agent::{Running, config},
    counts::frequent_assignment,
    servers::{
        Server,
        aggregator::Aggregator,
        answering,
        dns::{Dns, DnsScript},
        request,
    },
};

fn http(change: &Value) -> Value {
    let mut probe = json!({"kind": "http", "scheme": "http", "host": "shop.example.test", "port": 80, "path": "/",
                           "expect_status": "200"});
    for (key, value) in change.as_object().unwrap() {
        probe[key] = value.clone();
    }
    probe
}

/// The first observations of each assignment of a plan, by its id.
async fn of_each(aggregator: &mut Aggregator, ids: &[&str]) -> Vec<Observation> {
    let mut found: Vec<Option<Observation>> = vec![None; ids.len()];
    while found.iter().any(Option::is_none) {
        for observation in aggregator.observations(1).await {
            let id = observation.assignment.as_ref().unwrap().as_str();
            let at = ids.iter().position(|wanted| *wanted == id).unwrap();
            found[at].get_or_insert(observation);
        }
    }
    found.into_iter().flatten().collect()
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn a_kept_connection_of_a_plan_is_asked_twice_and_reported_with_the_second_time() {
    let server = Server::start(|mut stream| async move {
        for _ in 0..2 {
            request(&mut stream).await;
            // The end of the test may abort the last probe.
            let _ = stream.write_all(OK).await;
        }
    })
    .await;
    let dial = json!({"address": server.addr});
    let plan = vec![frequent_assignment(
        "kept",
        "http://shop.example.test/#keep-alive",
        &http(&json!({"keep_alive": true})),
        &dial,
    )];
    let mut aggregator = Aggregator::start(plan, &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    let [kept] = of_each(&mut aggregator, &["kept"]).await.try_into().unwrap();
    assert_eq!(kept.outcome, Outcome::Ok { status: Some(200) });
    assert!(kept.times.second_request.is_some(), "{:?}", kept.times);
    assert_eq!(kept.target.as_str(), "http://shop.example.test/#keep-alive");
    agent.stop().await;
    aggregator.join().await;
    server.join().await;
}

#[tokio::test]
async fn the_channel_proxied_of_a_plan_announces_itself_and_times_the_announcement() {
    let server = Server::start(|mut stream| async move {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            line.push(stream.read_u8().await.unwrap());
        }
        assert!(line.starts_with(b"PROXY TCP4 127.0.0.1 127.0.0.1 "), "{line:?}");
        request(&mut stream).await;
        let _ = stream.write_all(OK).await;
    })
    .await;
    let mut proxied = frequent_assignment(
        "proxied",
        "http://shop.example.test/",
        &http(&json!({})),
        &json!({"address": server.addr}),
    );
    proxied["channel"] = json!("proxied");
    let mut aggregator = Aggregator::start(vec![proxied], &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    let [proxied] = of_each(&mut aggregator, &["proxied"]).await.try_into().unwrap();
    assert_eq!(proxied.outcome, Outcome::Ok { status: Some(200) });
    assert_eq!(proxied.channel, Channel::Proxied);
    assert!(proxied.times.proxy_header.is_some());
    agent.stop().await;
    aggregator.join().await;
    server.join().await;
}

#[tokio::test]
async fn the_sizes_of_a_sweep_are_assignments_beside_each_other_at_a_neighbours_echo() {
    let mut aggregator = Aggregator::start(Vec::new(), &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    let ids: Vec<String> = SIZE_SWEEP.iter().map(|size| format!("mesh|n1|{size}")).collect();
    let sweep = |echo: SocketAddr| {
        let one = |(id, size): (&String, &u32)| {
            let probe = json!({"kind": "echo", "nonce": "secret", "size": size});
            let mut one = frequent_assignment(
                id,
                &format!("echo://n1/{size}"),
                &probe,
                &json!({"address": echo}),
            );
            one["channel"] = json!("mesh");
            one["peer"] = json!("n1");
            one
        };
        ids.iter().zip(&SIZE_SWEEP).map(one).collect()
    };
    aggregator.plan(sweep(agent.echo));
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    for (answer, size) in of_each(&mut aggregator, &ids).await.iter().zip(SIZE_SWEEP) {
        assert_eq!(answer.outcome, Outcome::Ok { status: Some(200) }, "{size}");
        assert_eq!(answer.channel, Channel::Mesh);
        // Every size that is large enough starts with the identity.
        assert!(answer.echo.is_some() || size == SIZE_SWEEP[0], "{size}");
    }
    agent.stop().await;
    aggregator.join().await;
}

#[tokio::test]
async fn the_manner_of_a_search_is_a_part_of_the_plan_for_every_kind_that_has_a_name() {
    let server = answering(OK).await;
    let dns = Dns::start(|query| match query.name().to_ascii().as_str() {
        "cart.svc.test." => DnsScript::Addresses(&["127.0.0.1"]),
        _ => DnsScript::Code(ResponseCode::ServFail),
    })
    .await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let port = dns.addr.port();
    let rest = "search shop.test svc.test\noptions ndots:5 attempts:1";
    writeln!(file, "nameserver [127.0.0.1]:{port}\n{rest}").unwrap();
    let port = server.addr.port();
    let resolve = json!("resolve");
    let named = |change: Value| {
        let mut probe = http(&json!({"host": "cart", "port": port}));
        probe["search"] = change;
        probe
    };
    let plan = vec![
        frequent_assignment("glibc", "http://cart/", &named(json!("glibc")), &resolve),
        frequent_assignment("musl", "http://cart/#musl", &named(json!("musl")), &resolve),
        frequent_assignment(
            "tcp",
            "tcp://cart:1#musl",
            &json!({"kind": "tcp", "host": "cart", "port": port, "search": "musl"}),
            &resolve,
        ),
    ];
    let mut aggregator = Aggregator::start(plan, &[]).await;
    let mut config = config(aggregator.addr());
    config.resolv_conf = file.path().to_owned();
    let agent = Running::start(config).await;
    let [glibc, musl, tcp] = of_each(&mut aggregator, &["glibc", "musl", "tcp"])
        .await
        .try_into()
        .unwrap();
    assert_eq!(glibc.outcome, Outcome::Ok { status: Some(200) });
    for failed in [musl, tcp] {
        assert_eq!(
            failed.outcome,
            Outcome::Failed {
                phase: Phase::Resolve,
                kind: FailureKind::ServFail,
                status: None
            }
        );
    }
    agent.stop().await;
    aggregator.join().await;
    server.join().await;
    dns.join().await;
}
