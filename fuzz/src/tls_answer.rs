//! Data that a server may send where a TLS handshake is expected. The client's part is random, so coverage varies
//! slightly between runs of one input; that nothing succeeds does not vary.

use std::net::SocketAddr;

use parallax_model::Outcome;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::probing::{ProbeHarness, assignment, check_result};

struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

/// The bytes are sent by the server after the client's hello.
pub fn check(bytes: &[u8]) {
    thread_local! {
        static HARNESS: ProbeHarness<Server> = ProbeHarness::new(|| async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free loopback port");
            let address = listener.local_addr().expect("a bound socket has an address");
            Server { listener, address }
        });
    }
    HARNESS.with(|rig| {
        let probe = json!({"kind": "http", "scheme": "https", "host": "shop.example.test", "port": 443, "path": "/",
                           "expect_status": "<500"});
        let assignment = assignment(&probe, &json!({"address": rig.server().address}));
        let result = rig.probe(&assignment, |server| serve(server, bytes));
        assert!(matches!(result.outcome, Outcome::Failed { .. }), "{result:?}");
        check_result(result);
    });
}

async fn serve(server: &Server, answer: &[u8]) {
    let (mut stream, _) = server.listener.accept().await.expect("a connection on loopback");
    let mut hello = [0; 4096];
    if matches!(stream.read(&mut hello).await, Ok(1..)) {
        // The prober may have closed the connection already.
        let _ = stream.write_all(answer).await;
    }
}
