//! Phase times: every phase that was reached, none that was not, without gaps.

use std::{io::Write, net::SocketAddr, sync::Arc};

use parallax_model::{Channel, Outcome, Phase, PhaseTimes};
use parallax_prober::{ProbeContext, ProbeResult, run};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use crate::servers::{
    AMPLE, Server, assignment,
    dns::{Dns, DnsScript},
    h2, request,
    tls::{Ca, VALID},
};

/// Asserts the invariants of the times of every probe, whatever its outcome.
#[track_caller]
pub(crate) fn assert_phase_invariants(result: &ProbeResult) {
    let times = result.times;
    let parts = Phase::ALL
        .iter()
        .map(|phase| times.get(*phase))
        .chain([times.second_request]);
    let sum: u64 = parts.flatten().map(|time| time.0).sum();
    assert_eq!(
        Some(sum),
        times.total.map(|total| total.0),
        "the phases add up to the total: {times:?}"
    );
    if let Outcome::Failed { phase, .. } = &result.outcome {
        assert!(times.get(*phase).is_some(), "{phase} took time: {times:?}");
        if result.hops.is_empty() {
            let later: Vec<Phase> = reached(&times).into_iter().filter(|p| p > phase).collect();
            assert!(later.is_empty(), "{later:?} came after {phase}: {times:?}");
        }
    }
    if times.tls.is_some() || times.first_byte.is_some() {
        assert!(times.connect.is_some(), "without a connection: {times:?}");
    }
}

fn reached(times: &PhaseTimes) -> Vec<Phase> {
    let reached = |phase: &Phase| times.get(*phase).is_some();
    Phase::ALL.iter().copied().filter(reached).collect()
}

/// A combination of options of an HTTP probe.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "every combination of them is one way"
)]
struct RequestOptions {
    named: bool,
    proxied: bool,
    tls: bool,
    kept: bool,
}

impl RequestOptions {
    fn all() -> impl Iterator<Item = Self> {
        (0..16_u8).map(|bits| Self {
            named: bits & 1 != 0,
            proxied: bits & 2 != 0,
            tls: bits & 4 != 0,
            kept: bits & 8 != 0,
        })
    }

    fn phases(self) -> Vec<Phase> {
        let mut phases = vec![
            Phase::Connect,
            Phase::Request,
            Phase::FirstByte,
            Phase::Body,
            Phase::Check,
        ];
        phases.extend(self.named.then_some(Phase::Resolve));
        phases.extend(self.proxied.then_some(Phase::ProxyHeader));
        phases.extend(self.tls.then_some(Phase::Tls));
        phases.sort_unstable();
        phases
    }
}

/// A server for a combination of options.
async fn server(way: RequestOptions, ca: &Ca) -> Server {
    let acceptor = TlsAcceptor::from(ca.server("shop.example.test", VALID));
    Server::start(move |mut stream| {
        let acceptor = acceptor.clone();
        async move {
            if way.proxied {
                while stream.read_u8().await.unwrap() != b'\n' {}
            }
            if way.tls {
                answer(acceptor.accept(stream).await.unwrap()).await;
            } else {
                answer(stream).await;
            }
        }
    })
    .await
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    while !request(&mut stream).await.is_empty() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        // The prober closes as soon as it has the last response.
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}

struct World {
    ca: Ca,
    dns: Dns,
    context: ProbeContext,
    _conf: tempfile::NamedTempFile,
}

impl World {
    async fn new() -> Self {
        let ca = Ca::new();
        let dns = Dns::start(|_| DnsScript::Addresses(&["127.0.0.1"])).await;
        let mut conf = tempfile::NamedTempFile::new().unwrap();
        writeln!(conf, "nameserver [127.0.0.1]:{}", dns.addr.port()).unwrap();
        let context = ProbeContext::with_tls(conf.path().to_owned(), ca.trusted());
        Self {
            ca,
            dns,
            context,
            _conf: conf,
        }
    }

    async fn probe(&self, probe: &Value, dial: Option<SocketAddr>, channel: Channel) -> ProbeResult {
        let dial = dial.map_or(json!("resolve"), |address| json!({"address": address}));
        let mut assignment = assignment(probe, &dial, AMPLE);
        assignment.channel = channel;
        let result = run(&assignment, &self.context).await;
        assert_phase_invariants(&result);
        assert!(
            matches!(result.outcome, Outcome::Ok { .. }),
            "{probe}: {result:?}"
        );
        result
    }
}

#[tokio::test]
async fn whatever_way_a_request_takes_its_phases_are_those_of_the_way_and_add_up_to_the_total() {
    let world = World::new().await;
    for way in RequestOptions::all() {
        let server = server(way, &world.ca).await;
        let probe = json!({"kind": "http", "scheme": if way.tls { "https" } else { "http" },
                           "host": "shop.example.test", "port": server.addr.port(), "path": "/",
                           "expect_status": "200", "expect_body_equals": "ok", "keep_alive": way.kept});
        let channel = if way.proxied {
            Channel::Proxied
        } else {
            Channel::Vip
        };
        let result = world
            .probe(&probe, (!way.named).then_some(server.addr), channel)
            .await;
        assert_eq!(reached(&result.times), way.phases(), "{way:?}");
        assert_eq!(result.times.second_request.is_some(), way.kept, "{way:?}");
        server.join().await;
    }
    world.dns.join().await;
}

#[tokio::test]
async fn every_other_kind_of_probe_has_its_own_phases_and_they_add_up_to_the_total() {
    use Phase as P;
    let world = World::new().await;
    let plain = RequestOptions {
        named: false,
        proxied: false,
        tls: false,
        kept: false,
    };
    let talking = server(plain, &world.ca).await;
    let tls = server(RequestOptions { tls: true, ..plain }, &world.ca).await;
    let h2 = h2::answering(&world.ca).await;
    let tcp = |change: Value, server: &Server| {
        let mut probe = json!({"kind": "tcp", "host": "shop.example.test", "port": server.addr.port()});
        for (key, value) in change.as_object().unwrap() {
            probe[key] = value.clone();
        }
        probe
    };
    let talk = json!({"send": r"GET / HTTP/1.1\r\n\r\n", "expect": "200 OK"});
    let dns = |change: Value| {
        let mut probe =
            json!({"kind": "dns", "name": "shop.example.test", "record": "A", "resolver": world.dns.addr});
        for (key, value) in change.as_object().unwrap() {
            probe[key] = value.clone();
        }
        probe
    };
    let over_two = json!({"kind": "http", "scheme": "https", "host": "shop.example.test", "port": 443, "path": "/",
                          "expect_status": "200", "version": "2"});
    for (probe, dial, phases) in [
        (tcp(json!({}), &talking), Some(talking.addr), vec![P::Connect]),
        (tcp(json!({}), &talking), None, vec![P::Resolve, P::Connect]),
        (
            tcp(talk, &talking),
            Some(talking.addr),
            vec![P::Connect, P::Request, P::FirstByte, P::Body, P::Check],
        ),
        (
            tcp(json!({"tls": true}), &tls),
            Some(tls.addr),
            vec![P::Connect, P::Tls],
        ),
        (
            tcp(json!({"proxy_header": "tcp"}), &talking),
            Some(talking.addr),
            vec![P::Connect, P::ProxyHeader],
        ),
        (dns(json!({})), None, vec![P::Resolve]),
        (dns(json!({"transport": "tcp"})), None, vec![P::Resolve]),
        (dns(json!({"search": "musl"})), None, vec![P::Resolve]),
        (
            over_two,
            Some(h2.addr),
            vec![P::Connect, P::Tls, P::Request, P::FirstByte, P::Body, P::Check],
        ),
    ] {
        let result = world.probe(&probe, dial, Channel::Vip).await;
        assert_eq!(reached(&result.times), phases, "{probe}");
    }
    for server in [talking, tls, h2] {
        server.join().await;
    }
    world.dns.join().await;
}

#[tokio::test]
async fn each_answer_of_a_redirect_is_timed_and_the_sum_is_still_the_total() {
    let world = World::new().await;
    let server = Server::start(|mut stream| async move {
        let answer = if request(&mut stream).await.starts_with("GET /end ") {
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        } else {
            "HTTP/1.1 301 Moved\r\nLocation: /end\r\nContent-Length: 0\r\n\r\n"
        };
        stream.write_all(answer.as_bytes()).await.unwrap();
    })
    .await;
    let probe = json!({"kind": "http", "scheme": "http", "host": "shop.example.test", "port": 80, "path": "/",
                       "expect_status": "200", "redirects": {"max": 1}});
    let result = world.probe(&probe, Some(server.addr), Channel::Vip).await;
    assert_eq!(result.hops.len(), 1);
    server.join().await;
    world.dns.join().await;
}

#[tokio::test]
async fn an_answer_that_is_held_back_is_timed_as_long_as_it_was_held_back() {
    let delay = Arc::new(parking_lot::Mutex::new(std::time::Duration::ZERO));
    let server = Server::start({
        let delay = Arc::clone(&delay);
        move |mut stream| {
            let delay = Arc::clone(&delay);
            async move {
                for connection in ["keep-alive", "close"] {
                    request(&mut stream).await;
                    let start = std::time::Instant::now();
                    let answer =
                        format!("HTTP/1.1 200 OK\r\nConnection: {connection}\r\nContent-Length: 2\r\n\r\n");
                    stream.write_all(answer.as_bytes()).await.unwrap();
                    if connection == "close" {
                        // Simulates a server that delays its last segment on a kept connection.
                        tokio::time::sleep(std::time::Duration::from_millis(40)).await;
                        *delay.lock() = start.elapsed();
                    }
                    stream.write_all(b"ok").await.unwrap();
                }
            }
        }
    })
    .await;
    let world = World::new().await;
    let probe = json!({"kind": "http", "scheme": "http", "host": "shop.example.test", "port": 80, "path": "/",
                       "expect_status": "200", "keep_alive": true});
    let result = world.probe(&probe, Some(server.addr), Channel::Vip).await;
    server.join().await;
    let again = std::time::Duration::from(result.times.second_request.unwrap());
    // Rounding may take one microsecond.
    assert!(
        again + std::time::Duration::from_micros(1) >= *delay.lock(),
        "{again:?}"
    );
    world.dns.join().await;
}
