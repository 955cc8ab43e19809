//! Requests that anyone in the cluster may send to a prober's echo. The echo belongs to a complete agent with plan and
//! nonce.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use parallax_model::ECHO_NONCE_HEADER;
use parallax_prober::{Agent, AgentConfig, AggregatorRoots, Role};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
    time,
};
use tokio_util::sync::CancellationToken;

/// Known only to the mesh.
const NONCE: &str = "n-73a1";

/// More than the total of all responses that an input can cause.
const MAX_RESPONSE_BYTES: u64 = 64 * 1024 * 1024;

struct EchoHarness {
    runtime: Runtime,
    echo: SocketAddr,
}

/// The first byte selects the number of pieces in which the rest is sent.
pub fn check(bytes: &[u8]) {
    thread_local! {
        static HARNESS: EchoHarness = EchoHarness::new();
    }
    let Some((mode, request)) = bytes.split_first() else {
        return;
    };
    HARNESS.with(|rig| {
        let pieces = usize::from(mode % 4) + 1;
        let answer = rig.runtime.block_on(send_request(rig.echo, request, pieces));
        assert!(
            (answer.len() as u64) < MAX_RESPONSE_BYTES,
            "{} bytes",
            answer.len()
        );
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1."),
            "{:?}",
            String::from_utf8_lossy(&answer[..answer.len().min(80)])
        );
        let has_nonce = contains(request, NONCE.as_bytes());
        assert!(
            has_nonce || !contains(&answer, b"\"instance\""),
            "the identity was disclosed to a stranger"
        );
    });
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

impl EchoHarness {
    fn new() -> Self {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a Tokio runtime");
        let echo = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0")
                .await
                .expect("a free loopback port");
            let aggregator = listener.local_addr().expect("a bound socket has an address");
            tokio::spawn(serve_plan(listener));
            let agent = Agent::bind(config(aggregator))
                .await
                .expect("an agent on a free port");
            let echo = agent.echo_addr();
            tokio::spawn(agent.run(CancellationToken::new()));
            let greeting = format!(
                "GET {} HTTP/1.1\r\nHost: e\r\nConnection: close\r\n{ECHO_NONCE_HEADER}: {NONCE}\r\n\r\n",
                parallax_model::ECHO_PATH
            );
            // It answers with its identity as soon as it has its plan.
            while !contains(&send_request(echo, greeting.as_bytes(), 1).await, b"\"instance\"") {
                time::sleep(Duration::from_millis(10)).await;
            }
            echo
        });
        Self { runtime, echo }
    }
}

fn config(aggregator: SocketAddr) -> AgentConfig {
    AgentConfig {
        vantage: "n1/pod".parse().expect("a vantage"),
        pod: "prober-n1".parse().expect("a pod"),
        aggregator: format!("http://{aggregator}").parse().expect("a URL"),
        credential: None,
        aggregator_roots: AggregatorRoots::SameAsProbes,
        role: Role::Prober,
        echo_listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        resolv_conf: PathBuf::from("/nonexistent/resolv.conf"),
        extra_roots: Vec::new(),
        credentials: Vec::new(),
        spool_capacity: 16,
        facts: parallax_prober::FactSources::default(),
    }
}

/// Sends a request, shuts down the sending side, and reads the response to the end.
async fn send_request(echo: SocketAddr, request: &[u8], pieces: usize) -> Vec<u8> {
    let mut stream = TcpStream::connect(echo).await.expect("the echo listens");
    for piece in request.chunks((request.len() / pieces).max(1)) {
        // The echo may have closed the connection already.
        if stream.write_all(piece).await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    // A reset also ends the response.
    let _ = stream.take(MAX_RESPONSE_BYTES).read_to_end(&mut answer).await;
    answer
}

/// Acts as an aggregator that streams one empty plan.
async fn serve_plan(listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        tokio::spawn(serve(stream));
    }
}

async fn serve(mut stream: TcpStream) {
    let mut request = [0; 4096];
    let Ok(read) = stream.read(&mut request).await else {
        return;
    };
    if !request[..read].starts_with(b"GET /v1/plan") {
        let taken = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
        let _ = stream.write_all(taken).await;
        return;
    }
    let line = json!({"type": "snapshot", "revision": {"epoch": 1, "n": 1}, "assignments": [],
                      "settings": {"echo_nonce": NONCE, "heartbeat_us": 600_000_000}});
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n";
    if stream
        .write_all(format!("{head}{line}\n").as_bytes())
        .await
        .is_ok()
    {
        // The stream stays open until the agent disconnects.
        let _ = stream.read(&mut request).await;
    }
}
