//! A table of servers that misbehave, each with the phase and failure kind that a probe must always report. With
//! `PARALLAX_REPEAT=1000` each is probed that often, all concurrently.

mod cases;

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use hickory_proto::op::ResponseCode;
use parallax_model::{FailureKind, Phase};
use parallax_prober::{ProbeContext, TlsConfigs, run};
use parallax_test_support::closed_port::ClosedUdpPort;
use serde_json::json;
use tokio::{io::AsyncWriteExt, task::JoinSet};

use self::cases::{Behaviour, Case, HOST, OK, Trusted, cases};
use crate::{
    phases::assert_phase_invariants,
    servers::{
        AMPLE, SHORT, Server, answering, assignment, context,
        dns::{Dns, DnsScript},
        failure, http, request, times,
        tls::{Ca, https},
        until_gone,
    },
};

async fn start(does: Behaviour, trusted_ca: &Ca, other_ca: &Ca) -> (std::net::SocketAddr, Option<Server>) {
    let server = match does {
        Behaviour::Refuse => {
            let gone = answering("").await;
            let addr = gone.addr;
            gone.join().await;
            return (addr, None);
        }
        Behaviour::Respond(answer) => answering(answer).await,
        Behaviour::Stall(answer) => {
            Server::start(move |mut stream| async move {
                request(&mut stream).await;
                let _ = stream.write_all(answer.as_bytes()).await;
                until_gone(&mut stream).await;
            })
            .await
        }
        Behaviour::Handler(act) => Server::start(act).await,
        Behaviour::Certificate(name, years, Trusted::Yes) => https(trusted_ca.server(name, years), OK).await,
        Behaviour::Certificate(name, years, Trusted::No) => https(other_ca.server(name, years), OK).await,
        Behaviour::RequireClientCertificate => https(trusted_ca.demanding(HOST), OK).await,
    };
    (server.addr, Some(server))
}

async fn met(case: Case, trusted_ca: Arc<Ca>, other_ca: Arc<Ca>, context: Arc<ProbeContext>) {
    let mut change = case.change.clone();
    if case.tls {
        change["scheme"] = json!("https");
        change["port"] = json!(443);
    }
    let (addr, server) = start(case.does, &trusted_ca, &other_ca).await;
    for time in 0..times() {
        let result = run(&http(addr, &change, case.timeout), &context).await;
        let got = failure(&result);
        assert_phase_invariants(&result);
        assert!(
            case.kinds.contains(&got),
            "{}, time {time}: {got:?} ({:?})",
            case.name,
            result.detail
        );
    }
    if let Some(server) = server {
        assert_eq!(
            server.join().await,
            times(),
            "{}: one connection a probe",
            case.name
        );
    }
}

#[tokio::test]
async fn every_misbehaving_server_always_shows_the_same_phase_and_kind() {
    let (trusted_ca, other_ca) = (Arc::new(Ca::new()), Arc::new(Ca::new()));
    let context = Arc::new(context(trusted_ca.trusted()));
    let mut meetings = JoinSet::new();
    for case in cases() {
        meetings.spawn(met(
            case,
            Arc::clone(&trusted_ca),
            Arc::clone(&other_ca),
            Arc::clone(&context),
        ));
    }
    while let Some(met) = meetings.join_next().await {
        met.unwrap();
    }
}

async fn assert_query_failure(
    script: DnsScript,
    kind: FailureKind,
    timeout: Duration,
    context: Arc<ProbeContext>,
) {
    let dns = Dns::start(move |_| script).await;
    let probe = json!({"kind": "dns", "name": HOST, "record": "A", "resolver": dns.addr});
    for time in 0..times() {
        let result = run(&assignment(&probe, &json!("resolve"), timeout), &context).await;
        assert_eq!(failure(&result), (Phase::Resolve, kind.clone()), "time {time}");
        assert_phase_invariants(&result);
    }
    dns.join().await;
}

#[tokio::test]
async fn every_misbehaving_resolver_always_shows_the_same_kind() {
    let context = Arc::new(context(TlsConfigs::with_roots([])));
    let mut meetings = JoinSet::new();
    for (script, kind, timeout) in [
        (
            DnsScript::Code(ResponseCode::ServFail),
            FailureKind::ServFail,
            AMPLE,
        ),
        (
            DnsScript::Code(ResponseCode::Refused),
            FailureKind::DnsRefused,
            AMPLE,
        ),
        (
            DnsScript::Code(ResponseCode::NXDomain),
            FailureKind::NxDomain,
            AMPLE,
        ),
        (
            DnsScript::Code(ResponseCode::NoError),
            FailureKind::NoAddress,
            AMPLE,
        ),
        (DnsScript::WrongId, FailureKind::DnsMalformed, SHORT),
        (DnsScript::Garbage, FailureKind::DnsMalformed, SHORT),
        (DnsScript::Loop, FailureKind::DnsMalformed, SHORT),
        (DnsScript::Nothing, FailureKind::ResolveTimeout, SHORT),
    ] {
        meetings.spawn(assert_query_failure(script, kind, timeout, Arc::clone(&context)));
    }
    while let Some(met) = meetings.join_next().await {
        met.unwrap();
    }
    let port = ClosedUdpPort::open(Ipv4Addr::LOCALHOST).unwrap();
    let closed = port.address().unwrap();
    let probe = json!({"kind": "dns", "name": HOST, "record": "A", "resolver": closed});
    let result = run(&assignment(&probe, &json!("resolve"), AMPLE), &context).await;
    assert_eq!(
        failure(&result),
        (Phase::Resolve, FailureKind::ResolverUnreachable)
    );
}
