//! HTTP proxies, and the choice of a resolver.

use std::{io::Write, sync::Arc};

use hickory_proto::{op::ResponseCode, rr::RecordType};
use parallax_model::{FailureKind, Outcome, OwnFault, Phase};
use parallax_prober::{ProbeContext, ProbeResult, TlsConfigs, run};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    access::{credential, mounted},
    phases::assert_phase_invariants,
    servers::{
        AMPLE, RequestHeads, SHORT, Server, answering, assert_ok, assignment, context,
        dns::{Dns, DnsScript},
        failure, header_values, recording, request,
        tls::{Ca, VALID, recording_https},
        until_gone,
    },
};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const HOST: &str = "shop.example.test";

/// A proxy that opens a tunnel to one server, whatever it is asked for.
async fn tunnel(to: std::net::SocketAddr) -> (Server, RequestHeads) {
    let heads = RequestHeads::default();
    let seen = Arc::clone(&heads);
    let server = Server::start(move |mut stream| {
        let seen = Arc::clone(&seen);
        async move {
            let head = request(&mut stream).await;
            seen.lock().push(head);
            let mut other = TcpStream::connect(to).await.unwrap();
            stream
                .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
                .await
                .unwrap();
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut other).await;
        }
    })
    .await;
    (server, heads)
}

/// A probe through a proxy at an address.
fn through(proxy: std::net::SocketAddr, scheme: &str, change: &Value) -> Value {
    let mut probe = json!({
        "kind": "http", "scheme": scheme, "host": HOST, "port": if scheme == "https" { 443 } else { 80 },
        "path": "/health?full=1", "expect_status": "<500", "proxy": {"url": format!("http://{proxy}")},
    });
    for (key, value) in change.as_object().unwrap() {
        probe[key] = value.clone();
    }
    probe
}

async fn resolved(probe: &Value, timeout: std::time::Duration, context: &ProbeContext) -> ProbeResult {
    let result = run(&assignment(probe, &json!("resolve"), timeout), context).await;
    assert_phase_invariants(&result);
    result
}

#[tokio::test]
async fn plain_http_is_sent_to_the_proxy_in_absolute_form() {
    let folder = mounted(&[("username", "u"), ("password", "p")]);
    let (proxy, heads) = recording(OK).await;
    let host = proxy.addr.ip().to_string();
    let context =
        context(TlsConfigs::with_roots([])).with_credentials(credential(folder.path(), &host, true));
    let change = json!({"proxy": {"url": format!("http://{}", proxy.addr), "credential": "shop"}});
    let result = resolved(&through(proxy.addr, "http", &change), AMPLE, &context).await;
    assert_ok(&result);
    assert_eq!(
        result.front.unwrap().address,
        proxy.addr,
        "the front is the proxy's address"
    );
    let heads = heads.lock().clone();
    assert!(
        heads[0].starts_with("GET http://shop.example.test/health?full=1 HTTP/1.1\r\n"),
        "{heads:?}"
    );
    assert_eq!(header_values(&heads[0], "host"), [HOST]);
    assert_eq!(header_values(&heads[0], "proxy-authorization"), ["Basic dTpw"]);
    proxy.join().await;
}

#[tokio::test]
async fn https_goes_through_a_tunnel_in_which_the_proxys_credential_does_not_appear() {
    let (ca, folder) = (Ca::new(), mounted(&[("token", "t0ken")]));
    let (server, requests) = recording_https(ca.server(HOST, VALID), OK.to_owned()).await;
    let (proxy, heads) = tunnel(server.addr).await;
    let host = proxy.addr.ip().to_string();
    let context = context(ca.trusted()).with_credentials(credential(folder.path(), &host, true));
    let change = json!({"proxy": {"url": format!("http://{}", proxy.addr), "credential": "shop"},
        "request_headers": {"x-team": "shop"}});
    let result = resolved(&through(proxy.addr, "https", &change), AMPLE, &context).await;
    assert_ok(&result);
    assert_eq!(result.front.unwrap().address, proxy.addr);
    assert!(result.times.tls.is_some());
    let head = heads.lock()[0].clone();
    assert!(
        head.starts_with("CONNECT shop.example.test:443 HTTP/1.1\r\n"),
        "{head}"
    );
    assert_eq!(header_values(&head, "host"), ["shop.example.test:443"]);
    assert_eq!(header_values(&head, "proxy-authorization"), ["Bearer t0ken"]);
    assert_eq!(header_values(&head, "x-team"), [""; 0]);
    let inner = requests.lock()[0].clone();
    assert!(inner.starts_with("GET /health?full=1 HTTP/1.1\r\n"), "{inner}");
    assert_eq!(header_values(&inner, "proxy-authorization"), [""; 0]);
    assert_eq!(header_values(&inner, "x-team"), ["shop"]);
    proxy.join().await;
    server.join().await;
}

#[tokio::test]
async fn a_proxys_credential_is_not_sent_to_a_proxy_that_it_is_not_for() {
    let folder = mounted(&[("token", "t0ken")]);
    let (proxy, _) = recording(OK).await;
    let own = proxy.addr.ip().to_string();
    for (host, allow) in [("proxy.example.test", true), (own.as_str(), false)] {
        let credentials = credential(folder.path(), host, allow);
        let context = context(TlsConfigs::with_roots([])).with_credentials(credentials);
        let change = json!({"proxy": {"url": format!("http://{}", proxy.addr), "credential": "shop"}});
        let result = resolved(&through(proxy.addr, "https", &change), AMPLE, &context).await;
        let fault = OwnFault::CredentialRefused;
        assert_eq!(
            result.outcome,
            Outcome::NotProbed { fault },
            "{:?}",
            result.detail
        );
    }
    assert_eq!(proxy.join().await, 0);
}

#[tokio::test]
async fn each_failure_of_a_proxy_has_its_own_kind() {
    let denied = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
    let unreached = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    let unauthorised = "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n";
    for (answer, scheme, phase, kind, status) in [
        (
            denied,
            "https",
            Phase::Connect,
            FailureKind::ProxyDenied,
            Some(403),
        ),
        (
            unreached,
            "https",
            Phase::Connect,
            FailureKind::ProxyDenied,
            Some(503),
        ),
        (
            unauthorised,
            "https",
            Phase::Connect,
            FailureKind::ProxyAuthentication,
            Some(407),
        ),
        (
            unauthorised,
            "http",
            Phase::Check,
            FailureKind::ProxyAuthentication,
            Some(407),
        ),
        ("", "https", Phase::Connect, FailureKind::ProxyClosed, None),
        (
            "SSH-2.0-OpenSSH_9.6\r\n",
            "https",
            Phase::Connect,
            FailureKind::ProxyClosed,
            None,
        ),
        (
            "HTTP/1.1 200 OK\r\n\r\nmore than a tunnel",
            "https",
            Phase::Connect,
            FailureKind::ProxyClosed,
            None,
        ),
    ] {
        let proxy = answering(answer).await;
        let context = context(TlsConfigs::with_roots([]));
        let result = resolved(&through(proxy.addr, scheme, &json!({})), AMPLE, &context).await;
        let expected = Outcome::Failed { phase, kind, status };
        assert_eq!(result.outcome, expected, "{answer:?}: {:?}", result.detail);
        proxy.join().await;
    }
}

#[tokio::test]
async fn a_proxy_that_refuses_or_does_not_answer_is_told_from_the_target() {
    let context = context(TlsConfigs::with_roots([]));
    let gone = answering("").await;
    let closed = gone.addr;
    gone.join().await;
    for scheme in ["http", "https"] {
        let result = resolved(&through(closed, scheme, &json!({})), AMPLE, &context).await;
        assert_eq!(failure(&result), (Phase::Connect, FailureKind::ProxyRefused));
    }
    let silent = Server::start(|mut stream| async move { until_gone(&mut stream).await }).await;
    let result = resolved(&through(silent.addr, "https", &json!({})), SHORT, &context).await;
    assert_eq!(failure(&result), (Phase::Connect, FailureKind::ProxyTimeout));
    silent.join().await;
}

#[tokio::test]
async fn the_name_of_the_proxy_is_resolved_and_that_of_the_target_is_not() {
    let dns = Dns::start(
        |query| match (query.name().to_ascii().as_str(), query.query_type()) {
            ("proxy.example.test.", RecordType::A) => DnsScript::Addresses(&["127.0.0.1"]),
            _ => DnsScript::Code(ResponseCode::NXDomain),
        },
    )
    .await;
    let (proxy, _) = recording(OK).await;
    let (context, _file) = machine(&dns);
    for (name, expected) in [
        ("proxy.example.test", None),
        (
            "gone.example.test",
            Some((Phase::Resolve, FailureKind::ProxyUnresolved)),
        ),
    ] {
        let change = json!({"proxy": {"url": format!("http://{name}:{}", proxy.addr.port())}});
        let result = resolved(&through(proxy.addr, "http", &change), AMPLE, &context).await;
        match expected {
            None => assert_ok(&result),
            Some(expected) => assert_eq!(failure(&result), expected),
        }
    }
    let queries = dns.queries.lock().clone();
    assert!(!queries.iter().any(|query| query.contains(HOST)), "{queries:?}");
    proxy.join().await;
    dns.join().await;
}

/// A context whose resolv.conf contains this server and a search list.
fn machine(dns: &Dns) -> (ProbeContext, tempfile::NamedTempFile) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(
        file,
        "nameserver [127.0.0.1]:{}\nsearch svc.test\noptions ndots:5\n",
        dns.addr.port()
    )
    .unwrap();
    let context = ProbeContext::with_tls(file.path().to_owned(), TlsConfigs::with_roots([]));
    (context, file)
}

#[tokio::test]
async fn a_chosen_resolver_is_asked_instead_of_the_machines_for_the_name_as_it_is() {
    let own = Dns::start(|_| DnsScript::Code(ResponseCode::NXDomain)).await;
    let chosen = Dns::start(|query| match query.query_type() {
        RecordType::A => DnsScript::Addresses(&["127.0.0.1"]),
        _ => DnsScript::Code(ResponseCode::NoError),
    })
    .await;
    let (context, _file) = machine(&own);
    let server = answering(OK).await;
    let port = server.addr.port();
    let http = json!({"kind": "http", "scheme": "http", "host": HOST, "port": port, "path": "/",
        "expect_status": "<500", "resolver": chosen.addr});
    let tcp = json!({"kind": "tcp", "host": HOST, "port": port, "resolver": chosen.addr});
    for probe in [http, tcp] {
        let result = resolved(&probe, AMPLE, &context).await;
        assert!(
            matches!(result.outcome, Outcome::Ok { .. }),
            "{:?} {:?}",
            result.outcome,
            result.detail
        );
        let answer = result.dns.unwrap();
        assert_eq!((answer.resolver, answer.name.as_str()), (chosen.addr, HOST));
    }
    assert_eq!(own.queries.lock().len(), 0, "the machine's resolver is not asked");
    assert!(
        chosen
            .queries
            .lock()
            .iter()
            .all(|query| query.starts_with("shop.example.test "))
    );
    server.join().await;
    own.join().await;
    chosen.join().await;
}
