//! On-demand runs: made immediately in addition to the plan, within their scope, and reported immediately.

use std::{io::Write, sync::Arc};

use parallax_model::{Observation, Outcome, OwnFault};
use parallax_prober::{TlsConfigs, run};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::{
    agent::{Running, config},
    servers::{
        AMPLE, Server,
        aggregator::Aggregator,
        answering, assignment, context,
        dns::{Dns, DnsScript},
        http, request,
    },
};

fn order(id: &str, rounds: u32, assignments: &[Value]) -> Value {
    json!({"id": id, "rounds": rounds, "assignments": assignments})
}

/// A TCP probe of a run.
fn run_assignment(run: &str, addr: std::net::SocketAddr, scope: &Value) -> Value {
    json!({"id": format!("run|{run}|vip|tcp://{addr}"), "target": format!("tcp://{addr}"), "channel": "vip",
           "probe": {"kind": "tcp", "host": addr.ip(), "port": addr.port(), "scope": scope},
           "dial": "resolve", "interval_us": 100_000, "timeout_us": 2_000_000})
}

fn of<'a>(run: &'a str, observations: &'a [Observation]) -> impl Iterator<Item = &'a Observation> {
    observations
        .iter()
        .filter(move |o| o.assignment.as_ref().and_then(|id| id.run_id()) == Some(run))
}

#[tokio::test]
async fn a_run_is_made_as_often_as_it_says_and_not_again_when_a_new_stream_tells_it_again() {
    let target = answering("").await;
    let mut aggregator = Aggregator::start(Vec::new(), &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    let anywhere = json!({"allow": ["127.0.0.0/8"]});
    aggregator.order(order("r-1", 3, &[run_assignment("r-1", target.addr, &anywhere)]));
    let mut seen = aggregator.observations(3).await;
    // A new stream repeats the order after its snapshot. The next order shows that the repetition had no effect.
    aggregator.plan(Vec::new());
    aggregator.order(order("r-2", 1, &[run_assignment("r-2", target.addr, &anywhere)]));
    while of("r-2", &seen).next().is_none() {
        seen.extend(aggregator.observations(1).await);
    }
    assert_eq!(of("r-1", &seen).count(), 3);
    for observation in of("r-1", &seen) {
        assert_eq!(observation.outcome, Outcome::Ok { status: None });
    }
    agent.stop().await;
    aggregator.join().await;
    target.join().await;
}

#[tokio::test]
async fn what_is_out_of_scope_is_not_connected_to_however_the_way_leads_there() {
    let target = answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let strict = json!({});
    let context = context(TlsConfigs::with_roots([]));
    let own = Outcome::NotProbed {
        fault: OwnFault::OutOfScope,
    };
    // A literal address.
    let literal = json!({"kind": "tcp", "host": "127.0.0.1", "port": target.addr.port(), "scope": strict});
    let result = run(&assignment(&literal, &json!("resolve"), AMPLE), &context).await;
    assert_eq!((result.outcome, result.front), (own.clone(), None));
    // A forced address with another Host. An expectation of silence does not turn it into a success.
    let change = json!({"scope": strict, "must_not_answer": "refused,timeout"});
    let result = run(&http(target.addr, &change, AMPLE), &context).await;
    assert_eq!((result.outcome, result.front), (own.clone(), None));
    assert!(result.detail.unwrap().contains("loopback"));
    // An IPv4-mapped IPv6 address.
    let mapped = json!({"address": format!("[::ffff:127.0.0.1]:{}", target.addr.port())});
    let result = run(&assignment(&literal, &mapped, AMPLE), &context).await;
    assert_eq!(result.outcome, own);
    assert_eq!(target.join().await, 0, "no connection was made");
}

#[tokio::test]
async fn a_name_that_resolves_out_of_scope_is_not_connected_to() {
    let target = answering("").await;
    let dns = Dns::start(|_| DnsScript::Addresses(&["127.0.0.1"])).await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "nameserver [127.0.0.1]:{}", dns.addr.port()).unwrap();
    let context = parallax_prober::ProbeContext::with_tls(file.path().to_owned(), TlsConfigs::with_roots([]));
    let probe =
        json!({"kind": "tcp", "host": "rebound.example.test", "port": target.addr.port(), "scope": {}});
    let result = run(&assignment(&probe, &json!("resolve"), AMPLE), &context).await;
    assert_eq!(
        result.outcome,
        Outcome::NotProbed {
            fault: OwnFault::OutOfScope
        },
        "{:?}",
        result.detail
    );
    assert_eq!(target.join().await, 0, "no connection was made");
    dns.join().await;
}

#[tokio::test]
async fn a_redirect_out_of_scope_is_not_followed() {
    let secret = answering("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret").await;
    let request_count = Arc::new(Mutex::new(0));
    let to = secret.addr;
    let front = Server::start({
        let request_count = Arc::clone(&request_count);
        move |mut stream| {
            let request_count = Arc::clone(&request_count);
            async move {
                request(&mut stream).await;
                *request_count.lock() += 1;
                let answer = format!(
                    "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.2:{}/latest\r\nContent-Length: 0\r\n\r\n",
                    to.port()
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    // The front is allowed, but the target of its redirect is not, although the redirect policy would follow it.
    let change = json!({
        "redirects": {"max": 5, "hosts": ["127.0.0.2"], "ports": [to.port()]},
        "scope": {"allow": ["127.0.0.1"]},
    });
    let result = run(
        &http(front.addr, &change, AMPLE),
        &context(TlsConfigs::with_roots([])),
    )
    .await;
    assert_eq!(
        result.outcome,
        Outcome::NotProbed {
            fault: OwnFault::OutOfScope
        },
        "{:?}",
        result.detail
    );
    assert_eq!((*request_count.lock(), result.hops.len()), (1, 1));
    front.join().await;
    assert_eq!(secret.join().await, 0, "the redirect was not followed");
}

#[tokio::test]
async fn a_challenge_tells_what_its_client_saw_and_stays_within_its_scope() {
    let key = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nt0ken.thumb";
    let target = answering(key).await;
    let dns = Dns::start(|query| {
        if query.query_type() == hickory_proto::rr::RecordType::A {
            DnsScript::Addresses(&["127.0.0.1"])
        } else {
            DnsScript::Code(hickory_proto::op::ResponseCode::NoError)
        }
    })
    .await;
    let probe = |client: &str, expected: Option<&str>, scope: Value| {
        json!({"kind": "challenge", "client": client, "host": "shop.example.test", "port": target.addr.port(),
               "path": "/.well-known/acme-challenge/t0ken", "expected": expected, "nameservers": [dns.addr],
               "scope": scope})
    };
    let context = context(TlsConfigs::with_roots([]));
    let ask = async |probe: &Value| run(&assignment(probe, &json!("resolve"), AMPLE), &context).await;
    let local_scope = json!({"allow": ["127.0.0.0/8"]});
    let seen = ask(&probe("cert-manager", Some("t0ken.thumb"), local_scope.clone())).await;
    assert_eq!(
        seen.outcome,
        Outcome::Ok { status: Some(200) },
        "{:?}",
        seen.detail
    );
    assert_eq!(seen.front, Some(parallax_model::Front::tcp(target.addr)));
    let sight = seen.challenge.unwrap();
    assert_eq!((sight.passes, sight.dials.len()), (1, 1));
    assert_eq!(sight.addresses, [target.addr.ip()]);
    assert!(seen.times.total.unwrap().0 > 0 && seen.times.connect.is_none());
    // An authority fetches as often as requested.
    let mut often = probe("pebble", Some("t0ken.thumb"), local_scope.clone());
    often["passes"] = json!(3);
    let seen = ask(&often).await;
    assert_eq!(
        seen.outcome,
        Outcome::Ok { status: Some(200) },
        "{:?}",
        seen.detail
    );
    assert_eq!(seen.challenge.unwrap().passes, 3);
    let wrong = ask(&probe("cert-manager", Some("t0ken.other"), local_scope.clone())).await;
    assert!(matches!(
        wrong.outcome,
        Outcome::Failed {
            kind: parallax_model::FailureKind::WrongBody,
            ..
        }
    ));
    let no_key = ask(&probe("cert-manager", None, local_scope.clone())).await;
    assert_eq!(
        no_key.outcome,
        Outcome::Ok { status: Some(200) },
        "no content was expected"
    );
    // A route without a key is fetched as often as one with a key.
    let mut route_only = probe("pebble", None, local_scope.clone());
    route_only["passes"] = json!(44);
    let seen = ask(&route_only).await;
    assert_eq!(seen.challenge.unwrap().passes, 44);
    // The authority does not use private addresses, even if the scope allows them.
    let authority = ask(&probe("boulder", Some("t0ken.thumb"), local_scope)).await;
    assert!(matches!(
        authority.outcome,
        Outcome::Failed {
            kind: parallax_model::FailureKind::NoAddress,
            ..
        }
    ));
    let strict = ask(&probe("cert-manager", Some("t0ken.thumb"), json!({}))).await;
    assert_eq!(
        strict.outcome,
        Outcome::NotProbed {
            fault: OwnFault::OutOfScope
        }
    );
    assert_eq!(
        strict.challenge.unwrap().dials,
        [],
        "an address that was not dialled is not reported"
    );
    dns.join().await;
    assert_eq!(target.join().await, 50);
}
