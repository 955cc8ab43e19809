//! Servers that misbehave on purpose. Each is joined at the end of its test, so that its panic fails the test.

pub(crate) mod aggregator;
pub(crate) mod dns;
pub(crate) mod h2;
pub(crate) mod tls;

use std::{future::Future, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use parallax_model::{Assignment, FailureKind, Outcome, Phase};
use parallax_prober::{ProbeContext, ProbeResult, TlsConfigs};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};
use tokio_util::sync::CancellationToken;

/// A TCP server with one handler per connection.
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    cancel: CancellationToken,
    accepting: JoinHandle<usize>,
}

impl Server {
    pub(crate) async fn start<F, H>(handler: F) -> Self
    where
        F: Fn(TcpStream) -> H + Send + Sync + 'static,
        H: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        let handler = Arc::new(handler);
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            let mut accepted = 0;
            loop {
                tokio::select! {
                    biased;
                    // Connections that the kernel accepted before the end count.
                    got = listener.accept() => {
                        accepted += 1;
                        connections.spawn(handler(got.unwrap().0));
                    }
                    () = stop.cancelled() => break,
                }
            }
            while let Some(ended) = connections.join_next().await {
                ended.unwrap();
            }
            accepted
        });
        Self {
            addr,
            cancel,
            accepting,
        }
    }

    /// Stops the server and returns its number of connections.
    pub(crate) async fn join(self) -> usize {
        self.cancel.cancel();
        self.accepting.await.unwrap()
    }
}

/// A handler that reads one request and writes fixed bytes.
pub(crate) async fn answering(answer: impl Into<Vec<u8>>) -> Server {
    let answer = Arc::new(answer.into());
    Server::start(move |mut stream| {
        let answer = Arc::clone(&answer);
        async move {
            request(&mut stream).await;
            // The prober may close before the last byte.
            let _ = stream.write_all(&answer).await;
        }
    })
    .await
}

/// The heads of the requests that a server received.
pub(crate) type RequestHeads = Arc<Mutex<Vec<String>>>;

/// A server that records the heads of its requests and writes fixed bytes.
pub(crate) async fn recording(answer: impl Into<Vec<u8>>) -> (Server, RequestHeads) {
    let heads = RequestHeads::default();
    let (answer, seen) = (Arc::new(answer.into()), Arc::clone(&heads));
    let server = Server::start(move |mut stream| {
        let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
        async move {
            let head = request(&mut stream).await;
            seen.lock().push(head);
            let _ = stream.write_all(&answer).await;
        }
    })
    .await;
    (server, heads)
}

/// Returns the values of a header in the head of a request.
pub(crate) fn header_values<'h>(head: &'h str, name: &str) -> Vec<&'h str> {
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .filter(|(own, _)| own.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
        .collect()
}

/// Reads the head of a request.
pub(crate) async fn request(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

/// Reads until the client closes the connection.
pub(crate) async fn until_gone(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
}

/// Closes with a reset.
pub(crate) fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}

/// A context without a resolver that trusts only the given roots.
pub(crate) fn context(tls: TlsConfigs) -> ProbeContext {
    ProbeContext::with_tls(PathBuf::from("/nonexistent/resolv.conf"), tls)
}

/// An assignment as in a plan.
pub(crate) fn assignment(
    probe: &serde_json::Value,
    dial: &serde_json::Value,
    timeout: Duration,
) -> Assignment {
    serde_json::from_value(serde_json::json!({
        "id": "a", "target": "http://shop.example.test/", "channel": "vip", "probe": probe, "dial": dial,
        "interval_us": 5_000_000, "timeout_us": u64::try_from(timeout.as_micros()).unwrap(),
    }))
    .unwrap()
}

/// An HTTP probe of a server, with changes.
pub(crate) fn http(addr: SocketAddr, change: &serde_json::Value, timeout: Duration) -> Assignment {
    let mut probe = serde_json::json!({
        "kind": "http", "scheme": "http", "host": "shop.example.test", "port": 80, "path": "/",
        "expect_status": "<500",
    });
    for (key, value) in change.as_object().unwrap() {
        probe[key] = value.clone();
    }
    assignment(&probe, &serde_json::json!({"address": addr}), timeout)
}

/// A timeout that no test reaches unintentionally.
pub(crate) const AMPLE: Duration = Duration::from_secs(20);

/// A timeout for tests that expect it to expire.
pub(crate) const SHORT: Duration = Duration::from_millis(150);

/// The phase and kind of a failure.
#[track_caller]
pub(crate) fn failure(result: &ProbeResult) -> (Phase, FailureKind) {
    match &result.outcome {
        Outcome::Failed { phase, kind, .. } => (*phase, kind.clone()),
        other => panic!("expected a failure, got {other:?} ({:?})", result.detail),
    }
}

/// Asserts that the target answered 200.
#[track_caller]
pub(crate) fn assert_ok(result: &ProbeResult) {
    assert_eq!(
        result.outcome,
        Outcome::Ok { status: Some(200) },
        "{:?}",
        result.detail
    );
}

/// Runs a case `PARALLAX_REPEAT` times, by default once, to find rare failures.
pub(crate) async fn repeated(case: impl AsyncFn()) {
    for _ in 0..times() {
        case().await;
    }
}

/// See [`repeated`].
pub(crate) fn times() -> usize {
    std::env::var("PARALLAX_REPEAT").map_or(1, |times| times.parse().expect("PARALLAX_REPEAT is a number"))
}
