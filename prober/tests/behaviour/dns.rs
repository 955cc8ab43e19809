//! Results for resolvers that misbehave, and the names that are queried.

use std::{
    io::Write,
    net::Ipv4Addr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use crate::servers::{
    AMPLE, SHORT, answering, assignment, context,
    dns::{Dns, DnsScript},
    failure,
};
use hickory_proto::{op::ResponseCode, rr::RecordType};
use parallax_model::{FailureKind, Outcome, OwnFault, Phase, UnansweredQuestions};
use parallax_prober::{ProbeContext, ProbeResult, TlsConfigs, run};
use parallax_test_support::closed_port::ClosedUdpPort;
use serde_json::json;

/// Sends one query directly to the server.
async fn question(dns: &Dns, timeout: Duration) -> ProbeResult {
    let probe = json!({"kind": "dns", "name": "shop.example.test", "record": "A", "resolver": dns.addr});
    run(
        &assignment(&probe, &json!("resolve"), timeout),
        &context(TlsConfigs::with_roots([])),
    )
    .await
}

#[tokio::test]
async fn an_answer_is_sorted_with_its_smallest_ttl_and_who_said_so() {
    let dns = Dns::start(|_| DnsScript::Addresses(&["203.0.113.20", "203.0.113.10"])).await;
    let result = question(&dns, AMPLE).await;
    assert_eq!(result.outcome, Outcome::Ok { status: None });
    assert!(result.times.resolve.is_some());
    let answer = result.dns.unwrap();
    assert_eq!(answer.resolver, dns.addr);
    assert_eq!(answer.name, "shop.example.test");
    let addresses: Vec<String> = answer.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["203.0.113.10", "203.0.113.20"]);
    assert_eq!((answer.ttl_s, answer.tcp), (Some(30), false));
    dns.join().await;
}

#[tokio::test]
async fn each_refusal_of_a_resolver_has_its_own_kind() {
    for (script, kind) in [
        (DnsScript::Code(ResponseCode::ServFail), FailureKind::ServFail),
        (DnsScript::Code(ResponseCode::NXDomain), FailureKind::NxDomain),
        (DnsScript::Code(ResponseCode::NoError), FailureKind::NoAddress),
        (DnsScript::Code(ResponseCode::Refused), FailureKind::DnsRefused),
    ] {
        let dns = Dns::start(move |_| script).await;
        let result = question(&dns, AMPLE).await;
        assert_eq!(failure(&result), (Phase::Resolve, kind));
        assert_eq!(result.dns.unwrap().resolver, dns.addr, "the resolver is known");
        dns.join().await;
    }
}

#[tokio::test]
async fn silence_is_a_timeout_and_nonsense_is_malformed() {
    for (script, kind) in [
        (DnsScript::Nothing, FailureKind::ResolveTimeout),
        (DnsScript::WrongId, FailureKind::DnsMalformed),
        (DnsScript::Garbage, FailureKind::DnsMalformed),
    ] {
        let dns = Dns::start(move |_| script).await;
        assert_eq!(failure(&question(&dns, SHORT).await), (Phase::Resolve, kind));
        dns.join().await;
    }
}

#[tokio::test]
async fn a_wrong_id_does_not_hide_the_right_answer_behind_it() {
    let dns = Dns::start(|_| DnsScript::WrongIdFirst(&["203.0.113.10"])).await;
    let result = question(&dns, AMPLE).await;
    let answer = result.dns.unwrap();
    assert_eq!(
        answer.addresses,
        ["203.0.113.10".parse::<std::net::IpAddr>().unwrap()]
    );
    dns.join().await;
}

#[tokio::test]
async fn a_truncated_answer_is_asked_for_again_over_tcp() {
    let dns = Dns::start(|_| DnsScript::Truncated(&["203.0.113.10"])).await;
    let result = question(&dns, AMPLE).await;
    assert_eq!(
        result.outcome,
        Outcome::Ok { status: None },
        "{:?}",
        result.detail
    );
    let answer = result.dns.unwrap();
    assert!(answer.tcp);
    assert_eq!(answer.addresses.len(), 1);
    dns.join().await;
}

#[tokio::test]
async fn a_resolver_whose_port_is_closed_is_unreachable_at_once() {
    let closed = ClosedUdpPort::open(Ipv4Addr::LOCALHOST).unwrap();
    let addr = closed.address().unwrap();
    let probe = json!({"kind": "dns", "name": "a.test", "record": "AAAA", "resolver": addr});
    let result = run(
        &assignment(&probe, &json!("resolve"), AMPLE),
        &context(TlsConfigs::with_roots([])),
    )
    .await;
    assert_eq!(
        failure(&result),
        (Phase::Resolve, FailureKind::ResolverUnreachable)
    );
}

/// Makes a TCP probe of a name with this resolv.conf.
async fn connect(conf: &str, host: &str, port: u16, timeout: Duration) -> ProbeResult {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(conf.as_bytes()).unwrap();
    let probe = json!({"kind": "tcp", "host": host, "port": port});
    let context = ProbeContext::with_tls(file.path().to_owned(), TlsConfigs::with_roots([]));
    run(&assignment(&probe, &json!("resolve"), timeout), &context).await
}

fn conf(dns: &Dns, rest: &str) -> String {
    format!("nameserver [127.0.0.1]:{}\n{rest}\n", dns.addr.port())
}

#[tokio::test]
async fn a_short_name_walks_the_search_list_and_takes_ipv4_first() {
    let server = answering("").await;
    let dns = Dns::start(
        |query| match (query.name().to_ascii().as_str(), query.query_type()) {
            ("cart.svc.test.", RecordType::A) => DnsScript::Addresses(&["127.0.0.1"]),
            ("cart.svc.test.", _) => DnsScript::Addresses(&["::1"]),
            _ => DnsScript::Code(ResponseCode::NXDomain),
        },
    )
    .await;
    let conf = conf(&dns, "search shop.test svc.test\noptions ndots:5");
    let result = connect(&conf, "cart", server.addr.port(), AMPLE).await;
    assert_eq!(
        result.outcome,
        Outcome::Ok { status: None },
        "{:?}",
        result.detail
    );
    assert_eq!(result.front.unwrap().address, server.addr);
    let answer = result.dns.unwrap();
    assert_eq!(answer.name, "cart.svc.test");
    assert_eq!(answer.addresses.len(), 2, "both families are known");
    let mut queries = dns.queries.lock().clone();
    queries.sort();
    assert_eq!(
        queries,
        [
            "cart.shop.test A",
            "cart.shop.test AAAA",
            "cart.svc.test A",
            "cart.svc.test AAAA"
        ]
    );
    server.join().await;
    dns.join().await;
}

#[tokio::test]
async fn the_search_goes_on_after_servfail_as_glibc_does() {
    let server = answering("").await;
    let dns = Dns::start(|query| match query.name().to_ascii().as_str() {
        "cart.svc.test." => DnsScript::Addresses(&["127.0.0.1"]),
        _ => DnsScript::Code(ResponseCode::ServFail),
    })
    .await;
    let conf = conf(&dns, "search shop.test svc.test\noptions ndots:5 attempts:1");
    let result = connect(&conf, "cart", server.addr.port(), AMPLE).await;
    assert_eq!(result.outcome, Outcome::Ok { status: None });
    server.join().await;
    dns.join().await;
}

#[tokio::test]
async fn a_name_that_exists_nowhere_is_nxdomain_and_one_that_exists_without_address_is_not() {
    for (script, kind) in [
        (DnsScript::Code(ResponseCode::NXDomain), FailureKind::NxDomain),
        (DnsScript::Code(ResponseCode::NoError), FailureKind::NoAddress),
    ] {
        let dns = Dns::start(move |query| {
            if query.name().to_ascii().starts_with("cart.shop") {
                script
            } else {
                DnsScript::Code(ResponseCode::NXDomain)
            }
        })
        .await;
        let result = connect(&conf(&dns, "search shop.test"), "cart", 1, AMPLE).await;
        assert_eq!(failure(&result), (Phase::Resolve, kind));
        assert_eq!(result.front, None, "connect was not reached");
        dns.join().await;
    }
}

#[tokio::test]
async fn a_silent_ipv6_question_does_not_fail_a_name_with_ipv4() {
    let server = answering("").await;
    let dns = Dns::start(|query| match query.query_type() {
        RecordType::A => DnsScript::Addresses(&["127.0.0.1"]),
        _ => DnsScript::Nothing,
    })
    .await;
    let result = connect(&conf(&dns, ""), "shop.test", server.addr.port(), AMPLE).await;
    assert_eq!(result.outcome, Outcome::Ok { status: None });
    server.join().await;
    dns.join().await;
}

#[tokio::test]
async fn a_silent_resolver_ends_with_the_probes_own_deadline() {
    let dns = Dns::start(|_| DnsScript::Nothing).await;
    let result = connect(&conf(&dns, "search a.test b.test"), "cart", 1, SHORT).await;
    assert_eq!(failure(&result), (Phase::Resolve, FailureKind::ResolveTimeout));
    let mut queries = dns.queries.lock().clone();
    queries.sort();
    // Both families and a repeat over either transport, for the first name only.
    let expected = ["A", "A", "AAAA", "tcp"].map(|kind| format!("cart.a.test {kind}"));
    assert_eq!(queries, expected, "the search stops at a silent resolver");
    dns.join().await;
}

#[tokio::test]
async fn the_second_server_is_asked_when_the_first_is_dead() {
    let server = answering("").await;
    let dead = ClosedUdpPort::open(Ipv4Addr::LOCALHOST).unwrap();
    let dns = Dns::start(|_| DnsScript::Addresses(&["127.0.0.1"])).await;
    let conf = format!(
        "nameserver [127.0.0.1]:{}\n{}",
        dead.address().unwrap().port(),
        conf(&dns, "")
    );
    let result = connect(&conf, "shop.test", server.addr.port(), AMPLE).await;
    assert_eq!(result.outcome, Outcome::Ok { status: None });
    assert_eq!(result.dns.unwrap().resolver, dns.addr);
    server.join().await;
    dns.join().await;
}

#[tokio::test]
async fn localhost_asks_nobody_and_no_nameserver_is_our_own_fault() {
    let server = answering("").await;
    let result = connect("", "localhost", server.addr.port(), AMPLE).await;
    assert_eq!(result.outcome, Outcome::Ok { status: None });
    server.join().await;
    let result = connect("", "shop.test", 1, AMPLE).await;
    assert_eq!(
        result.outcome,
        Outcome::NotProbed {
            fault: OwnFault::NoResolver
        }
    );
}

/// Looks up both families as glibc does.
async fn lookup(dns: &Dns, timeout: Duration) -> ProbeResult {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "nameserver [127.0.0.1]:{}", dns.addr.port()).unwrap();
    let probe = json!({"kind": "dns", "name": "shop.example.test", "record": "A", "search": "glibc"});
    let context = ProbeContext::with_tls(file.path().to_owned(), TlsConfigs::with_roots([]));
    run(&assignment(&probe, &json!("resolve"), timeout), &context).await
}

#[tokio::test]
async fn a_resolver_that_answers_nothing_is_silent_to_every_further_question() {
    let dns = Dns::start(|_| DnsScript::Nothing).await;
    let result = lookup(&dns, SHORT).await;
    assert_eq!(failure(&result), (Phase::Resolve, FailureKind::ResolveTimeout));
    let unanswered = UnansweredQuestions {
        a: true,
        aaaa: true,
        other_answered: Some(false),
        retry_answered: Some(false),
        tcp_answered: Some(false),
    };
    assert_eq!(result.dns.unwrap().unanswered, Some(unanswered));
    dns.join().await;
}

#[tokio::test]
async fn one_lost_question_of_two_is_asked_again_from_another_port_and_over_tcp_and_the_outcome_stays() {
    let first = AtomicBool::new(true);
    let dns = Dns::start(move |query| match query.query_type() {
        RecordType::A if first.swap(false, Ordering::SeqCst) => DnsScript::Nothing,
        RecordType::A => DnsScript::Addresses(&["203.0.113.10"]),
        _ => DnsScript::Code(ResponseCode::NoError),
    })
    .await;
    // Half of the timeout is ample for an answer on loopback.
    let result = lookup(&dns, Duration::from_secs(2)).await;
    assert_eq!(failure(&result), (Phase::Resolve, FailureKind::ResolveTimeout));
    let answer = result.dns.unwrap();
    assert!(answer.addresses.is_empty(), "a client would not have got them");
    let unanswered = UnansweredQuestions {
        a: true,
        aaaa: false,
        other_answered: Some(true),
        retry_answered: Some(true),
        tcp_answered: Some(true),
    };
    assert_eq!(answer.unanswered, Some(unanswered));
    let mut queries = dns.queries.lock().clone();
    queries.sort();
    let name = "shop.example.test";
    assert_eq!(
        queries,
        ["A", "A", "AAAA", "tcp"].map(|kind| format!("{name} {kind}"))
    );
    dns.join().await;
}

#[tokio::test]
async fn a_question_that_is_answered_is_asked_once() {
    let dns = Dns::start(|query| match query.query_type() {
        RecordType::A => DnsScript::Addresses(&["203.0.113.10"]),
        _ => DnsScript::Code(ResponseCode::NoError),
    })
    .await;
    let result = lookup(&dns, AMPLE).await;
    assert_eq!(result.dns.unwrap().unanswered, None);
    assert_eq!(dns.queries.lock().len(), 2);
    dns.join().await;
}
