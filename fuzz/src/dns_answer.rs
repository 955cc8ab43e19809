//! Datagrams and TCP data that may arrive in response to a DNS query; TCP is used after a truncated UDP response.

use std::net::SocketAddr;

use parallax_model::{FailureKind, Outcome};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UdpSocket},
};

use crate::probing::{ProbeHarness, assignment, check_result};

struct Server {
    udp: UdpSocket,
    tcp: TcpListener,
    address: SocketAddr,
}

const AAAA: u8 = 1;
const OTHER_ID: u8 = 2;

/// The first byte selects the record type and whether the response has the query's id; the rest is the response (its
/// first two bytes are replaced by the id).
pub fn check(bytes: &[u8]) {
    thread_local! {
        static HARNESS: ProbeHarness<Server> = ProbeHarness::new(|| async {
            let udp = UdpSocket::bind("127.0.0.1:0").await.expect("a free loopback port");
            let address = udp.local_addr().expect("a bound socket has an address");
            let tcp = TcpListener::bind(address).await.expect("the same port is free for TCP");
            Server { udp, tcp, address }
        });
    }
    let Some((mode, answer)) = bytes.split_first() else {
        return;
    };
    HARNESS.with(|rig| {
        let record = if mode & AAAA == 0 { "A" } else { "AAAA" };
        let probe = json!({"kind": "dns", "name": "shop.example.test", "record": record,
                           "resolver": rig.server().address});
        let result = rig.probe(&assignment(&probe, &json!("resolve")), |server| {
            serve(server, *mode, answer)
        });
        let addresses = result.dns.as_ref().map_or(0, |dns| dns.addresses.len());
        match &result.outcome {
            Outcome::Ok { .. } => assert_ne!(addresses, 0),
            Outcome::Failed { kind, .. } => {
                assert_eq!(addresses, 0, "{result:?}");
                if mode & OTHER_ID != 0 {
                    assert_eq!(*kind, FailureKind::NxDomain, "a stranger's datagram decided");
                }
            }
            Outcome::NotProbed { fault } => panic!("fault of the fuzzer itself: {fault}"),
        }
        check_result(result);
    });
}

/// Sends the response and then a valid NXDOMAIN, so that every query ends.
async fn serve(server: &Server, mode: u8, answer: &[u8]) {
    let mut query = [0; 512];
    let (len, client) = server
        .udp
        .recv_from(&mut query)
        .await
        .expect("a query on loopback");
    let query = &query[..len];
    let flip = if mode & OTHER_ID == 0 { 0 } else { 0x55 };
    let mut bytes = answer.to_vec();
    bytes
        .iter_mut()
        .zip(&query[..2])
        .for_each(|(byte, id)| *byte = id ^ flip);
    let mut honest = query.to_vec();
    // A response, recursion available, NXDOMAIN; with the original question.
    honest[2..4].copy_from_slice(&[0x81, 0x83]);
    for datagram in [&bytes, &honest] {
        // The socket may be closed before the second one.
        let _ = server.udp.send_to(datagram, client).await;
    }
    let Ok((mut stream, _)) = server.tcp.accept().await else {
        return;
    };
    let mut again = [0; 514];
    if matches!(stream.read(&mut again).await, Ok(4..)) {
        let mut framed = u16::try_from(bytes.len())
            .unwrap_or(u16::MAX)
            .to_be_bytes()
            .to_vec();
        bytes
            .iter_mut()
            .zip(&again[2..4])
            .for_each(|(byte, id)| *byte = id ^ flip);
        framed.extend(bytes);
        let _ = stream.write_all(&framed).await;
    }
}
