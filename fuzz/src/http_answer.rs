//! Responses of a probed HTTP server: parsed by hyper, then by the prober's checks, or as an echo's identity.

use std::net::SocketAddr;

use parallax_model::{Assignment, ExpectedStatus, Outcome};
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

/// The first byte selects the probe and how the server closes the connection; the rest is the response.
pub fn check(bytes: &[u8]) {
    thread_local! {
        static HARNESS: ProbeHarness<Server> = ProbeHarness::new(|| async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free loopback port");
            let address = listener.local_addr().expect("a bound socket has an address");
            Server { listener, address }
        });
    }
    let Some((mode, answer)) = bytes.split_first() else {
        return;
    };
    HARNESS.with(|rig| {
        let assignment = request(*mode, rig.server().address);
        let result = rig.probe(&assignment, |server| serve(server, *mode, answer));
        let expected = ExpectedStatus::try_from(EXPECTED.to_owned()).expect("a set of statuses");
        match &result.outcome {
            Outcome::Ok { status: Some(status) } if mode & ECHO != 0 => assert_eq!(*status, 200),
            Outcome::Ok { status: Some(status) } => assert!(expected.contains(*status), "{status}"),
            Outcome::Ok { status: None } => panic!("a success without a status"),
            Outcome::Failed { .. } => {}
            Outcome::NotProbed { fault } => panic!("fault of the fuzzer itself: {fault}"),
        }
        check_result(result);
    });
}

const EXPECTED: &str = "200-299,404";
const ECHO: u8 = 1;
const RESET: u8 = 2;
const PIECES: u8 = 4;

fn request(mode: u8, address: SocketAddr) -> Assignment {
    let probe = if mode & ECHO == 0 {
        json!({"kind": "http", "scheme": "http", "host": "shop.example.test", "port": 80, "path": "/",
               "expect_status": EXPECTED, "expect_body_contains": "ok"})
    } else {
        json!({"kind": "echo", "nonce": "n"})
    };
    assignment(&probe, &json!({"address": address}))
}

/// Answers one connection and closes it.
async fn serve(server: &Server, mode: u8, answer: &[u8]) {
    let (mut stream, _) = server.listener.accept().await.expect("a connection on loopback");
    let mut request = [0; 1024];
    // The request is a few hundred bytes and arrives in one piece.
    if !matches!(stream.read(&mut request).await, Ok(1..)) {
        return;
    }
    let piece = if mode & PIECES == 0 {
        answer.len().max(1)
    } else {
        answer.len() / 3 + 1
    };
    for piece in answer.chunks(piece) {
        // The prober may have closed the connection already.
        if stream.write_all(piece).await.is_err() {
            return;
        }
        tokio::task::yield_now().await;
    }
    if mode & RESET != 0 {
        let _ = stream.set_zero_linger();
    }
}
