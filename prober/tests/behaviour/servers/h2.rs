//! HTTP/2 servers: a complete one, and one that sends the frames of a test (RFC 9113 §4.1, §6).

use std::sync::Arc;

use http_body_util::Full;
use hyper::{Response, body::Bytes, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{
    Server,
    tls::{Ca, VALID},
};

pub(crate) const SETTINGS: u8 = 4;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const DATA: u8 = 0;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const GOAWAY: u8 = 7;
/// Flags `END_HEADERS` and `END_STREAM`.
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const END_STREAM: u8 = 1;

/// `:status: 200` of HPACK's static table (RFC 7541, appendix A).
pub(crate) const STATUS_200: &[u8] = &[0x88];

fn acceptor(ca: &Ca) -> TlsAcceptor {
    let mut config = (*ca.server("shop.example.test", VALID)).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// A server that speaks only HTTP/2 and always responds "over two".
pub(crate) async fn answering(ca: &Ca) -> Server {
    let acceptor = acceptor(ca);
    Server::start(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let tls = acceptor.accept(stream).await.unwrap();
            let service = service_fn(|request: hyper::Request<hyper::body::Incoming>| async move {
                assert_eq!(request.uri().authority().unwrap().as_str(), "shop.example.test");
                Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from_static(b"over two"))))
            });
            // The prober closes without GOAWAY.
            let _ = http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(tls), service)
                .await;
        }
    })
    .await
}

/// A frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

pub(crate) fn goaway(last: u32, code: u32) -> Vec<u8> {
    let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
    frame(GOAWAY, 0, 0, &payload)
}

pub(crate) fn rst_stream(code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, 1, &code.to_be_bytes())
}

/// When the bytes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// After the TLS handshake, instead of settings.
    Handshake,
    /// After the settings, before any request.
    Settings,
    /// After the settings and the client's request.
    Request,
}

/// A server that sends these bytes at this point and then closes, or waits until the prober closes the connection.
pub(crate) async fn sending(ca: &Ca, after: After, bytes: Vec<u8>, closes: bool) -> Server {
    let acceptor = acceptor(ca);
    let bytes = Arc::new(bytes);
    Server::start(move |stream| {
        let (acceptor, bytes) = (acceptor.clone(), Arc::clone(&bytes));
        async move {
            let mut tls = acceptor.accept(stream).await.unwrap();
            if after != After::Handshake {
                tls.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
            }
            if after == After::Request {
                until_request(&mut tls).await;
            }
            // The prober may close at any of these.
            let _ = tls.write_all(&bytes).await;
            let _ = tls.flush().await;
            if closes {
                let _ = tls.shutdown().await;
            }
            let mut rest = Vec::new();
            let _ = tls.read_to_end(&mut rest).await;
        }
    })
    .await
}

/// Reads the preface and the frames up to the client's headers.
async fn until_request(tls: &mut TlsStream<TcpStream>) {
    let mut preface = [0; 24];
    tls.read_exact(&mut preface).await.unwrap();
    assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    loop {
        let mut head = [0; 9];
        tls.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        tls.read_exact(&mut payload).await.unwrap();
        if head[3] == HEADERS {
            return;
        }
    }
}
