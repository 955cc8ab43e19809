//! Forwarded ports of Pods, over a WebSocket as between an API server and the kubelet.

use axum::{
    body::Body,
    extract::Request,
    http::{StatusCode, header},
    response::Response,
};
use futures_util::{SinkExt, StreamExt};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, handshake::derive_accept_key, protocol::Role},
};

use crate::{responses::object_not_found, store::Shared};

/// Forwards a port to the test's target: two channels (data, errors), each starting with the port number.
pub(crate) fn forward(shared: &Shared, mut request: Request) -> Response {
    let ports = request.uri().query().unwrap_or_default().split('&');
    let port: u16 = ports
        .filter_map(|pair| pair.strip_prefix("ports="))
        .find_map(|port| port.parse().ok())
        .unwrap();
    let target = {
        let mut store = shared.store();
        store.forwarded_ports.insert(port);
        store.forward_target
    };
    let Some(target) = target else {
        return object_not_found();
    };
    let key = request.headers()[header::SEC_WEBSOCKET_KEY].clone();
    let upgrading = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let upgraded = TokioIo::new(upgrading.await.unwrap());
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, None).await;
        let (mut to_client, mut from_client) = socket.split();
        let [low, high] = port.to_le_bytes();
        for channel in [0, 1] {
            let start = Message::binary(vec![channel, low, high]);
            to_client.send(start).await.unwrap();
        }
        let (mut reading, mut writing) = TcpStream::connect(target).await.unwrap().into_split();
        let back = async {
            let mut bytes = vec![0; 4_096];
            while let Ok(read @ 1..) = reading.read(&mut bytes).await {
                let mut frame = vec![0];
                frame.extend_from_slice(&bytes[..read]);
                if to_client.send(Message::binary(frame)).await.is_err() {
                    return;
                }
            }
            // The client may already be gone.
            let _ = to_client.send(Message::Close(None)).await;
        };
        let forth = async {
            while let Some(Ok(message)) = from_client.next().await {
                if let Message::Binary(frame) = message {
                    assert_eq!(frame[0], 0);
                    writing.write_all(&frame[1..]).await.unwrap();
                }
            }
        };
        tokio::join!(back, forth);
    });
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::UPGRADE, "websocket")
        .header(header::CONNECTION, "Upgrade")
        .header(header::SEC_WEBSOCKET_ACCEPT, derive_accept_key(key.as_bytes()))
        .header(header::SEC_WEBSOCKET_PROTOCOL, "v4.channel.k8s.io")
        .body(Body::empty())
        .unwrap()
}
