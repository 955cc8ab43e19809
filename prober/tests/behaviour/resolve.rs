//! Name resolution by address family, and by both C libraries with the same resolv.conf.

use std::{io::Write, net::IpAddr};

use hickory_proto::{op::ResponseCode, rr::RecordType};
use parallax_model::{FailureKind, OwnFault, SearchManner};
use parallax_prober::{
    FamilyAnswer, ProbeContext, Resolution, ResolverChoice, TlsConfigs, libc_answers, resolve_all,
};

use crate::servers::{
    AMPLE, SHORT, context,
    dns::{Dns, DnsScript},
};

/// A context whose resolv.conf contains this server and additional lines.
fn machine(dns: &Dns, rest: &str) -> (ProbeContext, tempfile::NamedTempFile) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "nameserver [127.0.0.1]:{}\n{rest}\n", dns.addr.port()).unwrap();
    let context = ProbeContext::with_tls(file.path().to_owned(), TlsConfigs::with_roots([]));
    (context, file)
}

async fn all(context: &ProbeContext, name: &str) -> Resolution {
    resolve_all(
        context,
        name,
        &ResolverChoice::Machine,
        SearchManner::Glibc,
        AMPLE,
    )
    .await
}

fn failed(kind: FailureKind) -> FamilyAnswer {
    FamilyAnswer::Failed { kind, detail: None }
}

#[tokio::test]
async fn both_families_are_waited_for_and_each_address_says_where_it_came_from() {
    let dns = Dns::start(|query| match query.query_type() {
        RecordType::A => DnsScript::Addresses(&["203.0.113.20", "203.0.113.10"]),
        _ => DnsScript::Addresses(&["2001:db8::1"]),
    })
    .await;
    let (context, _file) = machine(&dns, "");
    let found = all(&context, "shop.example.test").await;
    let addresses: Vec<String> = found.addresses.iter().map(|f| f.address.to_string()).collect();
    assert_eq!(
        addresses,
        ["203.0.113.20", "203.0.113.10", "2001:db8::1"],
        "in the order of the response"
    );
    assert!(
        found
            .addresses
            .iter()
            .all(|f| f.resolver == Some(dns.addr) && f.ttl_s == Some(30))
    );
    assert_eq!(
        (found.a, found.aaaa),
        (FamilyAnswer::Addresses(2), FamilyAnswer::Addresses(1))
    );
    dns.join().await;
}

#[tokio::test]
async fn a_family_without_addresses_and_a_silent_one_are_told_apart_beside_a_live_one() {
    for (script, answer) in [
        (
            DnsScript::Code(ResponseCode::NoError),
            failed(FailureKind::NoAddress),
        ),
        (
            DnsScript::Code(ResponseCode::ServFail),
            failed(FailureKind::ServFail),
        ),
        (DnsScript::Nothing, failed(FailureKind::ResolveTimeout)),
    ] {
        let dns = Dns::start(move |query| match query.query_type() {
            RecordType::A => DnsScript::Addresses(&["203.0.113.10"]),
            _ => script,
        })
        .await;
        let context = context(TlsConfigs::with_roots([]));
        let choice = ResolverChoice::Servers(vec![dns.addr]);
        let found = resolve_all(&context, "shop.test", &choice, SearchManner::Glibc, SHORT).await;
        assert_eq!(found.addresses.len(), 1);
        assert_eq!((found.a, found.aaaa), (FamilyAnswer::Addresses(1), answer));
        dns.join().await;
    }
}

#[tokio::test]
async fn every_name_of_the_search_list_that_was_tried_is_reported() {
    let dns = Dns::start(|query| match query.name().to_ascii().as_str() {
        "cart.svc.test." => DnsScript::Addresses(&["127.0.0.1"]),
        _ => DnsScript::Code(ResponseCode::NXDomain),
    })
    .await;
    let (context, _file) = machine(&dns, "search shop.test svc.test\noptions ndots:5");
    let found = all(&context, "cart").await;
    let tried: Vec<&str> = found.tried.iter().map(|tried| tried.name.as_str()).collect();
    assert_eq!(tried, ["cart.shop.test", "cart.svc.test"]);
    assert_eq!(found.tried[0].a, failed(FailureKind::NxDomain));
    assert_eq!(found.addresses[0].name, "cart.svc.test");
    dns.join().await;
}

#[tokio::test]
async fn glibc_goes_on_after_servfail_where_musl_stops() {
    let dns = Dns::start(|query| match query.name().to_ascii().as_str() {
        "cart.shop.test." => DnsScript::Code(ResponseCode::ServFail),
        "cart.svc.test." => DnsScript::Addresses(&["127.0.0.1"]),
        _ => DnsScript::Code(ResponseCode::NXDomain),
    })
    .await;
    let (context, _file) = machine(&dns, "search shop.test svc.test\noptions ndots:5 attempts:1");
    let answers = libc_answers(&context, "cart", AMPLE).await;
    assert_eq!(answers.glibc.addresses.len(), 1);
    assert_eq!(answers.musl.failure(), Some(&failed(FailureKind::ServFail)));
    assert!(answers.differ());
    dns.join().await;
}

#[tokio::test]
async fn a_name_whose_ipv6_query_fails_resolves_in_glibc_and_fails_in_musl() {
    let dns = Dns::start(|query| match query.query_type() {
        RecordType::A => DnsScript::Addresses(&["203.0.113.10"]),
        _ => DnsScript::Code(ResponseCode::ServFail),
    })
    .await;
    let (context, _file) = machine(&dns, "options attempts:1");
    let answers = libc_answers(&context, "shop.test", AMPLE).await;
    assert_eq!(answers.glibc.addresses.len(), 1);
    assert!(answers.musl.addresses.is_empty() && answers.differ());
    dns.join().await;
}

#[tokio::test]
async fn musl_never_searches_a_name_with_enough_dots() {
    let dns = Dns::start(|query| match query.name().to_ascii().as_str() {
        "api.shop.svc.test." => DnsScript::Addresses(&["127.0.0.1"]),
        _ => DnsScript::Code(ResponseCode::NXDomain),
    })
    .await;
    let (context, _file) = machine(&dns, "search svc.test");
    let answers = libc_answers(&context, "api.shop", AMPLE).await;
    assert_eq!(answers.glibc.addresses.len(), 1);
    assert_eq!(answers.musl.failure(), Some(&failed(FailureKind::NxDomain)));
    dns.join().await;
}

#[tokio::test]
async fn a_healthy_name_is_the_same_in_both() {
    let dns = Dns::start(|query| match query.query_type() {
        RecordType::A => DnsScript::Addresses(&["203.0.113.10"]),
        _ => DnsScript::Code(ResponseCode::NoError),
    })
    .await;
    let (context, _file) = machine(&dns, "search a.test");
    let answers = libc_answers(&context, "shop.test", AMPLE).await;
    assert!(!answers.differ(), "{answers:?}");
    dns.join().await;
}

#[tokio::test]
async fn a_literal_address_asks_nobody_and_no_nameserver_is_our_own_fault() {
    let context = context(TlsConfigs::with_roots([]));
    let found = all(&context, "192.0.2.7").await;
    assert_eq!(found.addresses[0].address, "192.0.2.7".parse::<IpAddr>().unwrap());
    assert_eq!((found.tried.len(), found.aaaa), (0, FamilyAnswer::NotNeeded));
    let unresolved = all(&context, "shop.test").await;
    assert!(matches!(
        unresolved.failure(),
        Some(FamilyAnswer::NotQueried {
            own: OwnFault::NoResolver,
            ..
        })
    ));
}
