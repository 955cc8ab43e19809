//! The prober's side of a kept connection never waits for a delayed ACK: every request is one write on a socket with
//! `TCP_NODELAY`. With two small writes and without `TCP_NODELAY`, the second would wait for the ACK of the first,
//! which the server's kernel delays by 40 ms.

use std::{
    io::IoSlice,
    os::fd::AsFd,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use parallax_model::Method;
use socket2::Socket;
use tokio::{
    io::{self, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadBuf},
    net::{TcpListener, TcpStream},
};

use super::{ExchangeOptions, RequestContent, exchange};
use crate::{clock::Deadline, connect::connect, phase_timer::PhaseTimer};

const AMPLE: Duration = Duration::from_secs(20);

/// Counts the writes and asserts at each of them that the socket has `TCP_NODELAY`.
struct CountingStream {
    stream: TcpStream,
    writes: Arc<AtomicU32>,
}

impl CountingStream {
    fn wrote(&self) {
        assert!(self.stream.nodelay().unwrap(), "the socket lacks TCP_NODELAY");
        self.writes.fetch_add(1, Ordering::Relaxed);
    }
}

impl AsyncRead for CountingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for CountingStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.wrote();
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.wrote();
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Responds to two requests that have a body each.
async fn answer_twice(listener: TcpListener, body: usize) {
    let mut stream = BufReader::new(listener.accept().await.unwrap().0);
    for _ in 0..2 {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            assert_ne!(
                stream.read_line(&mut line).await.unwrap(),
                0,
                "the head is complete"
            );
        }
        stream.read_exact(&mut vec![0; body]).await.unwrap();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        stream.write_all(answer).await.unwrap();
    }
}

#[tokio::test]
async fn each_request_of_a_kept_connection_is_one_write_on_a_socket_that_sends_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let body = "x".repeat(16 * 1024);
    let server = tokio::spawn(answer_twice(listener, body.len()));
    let deadline = Deadline::within(AMPLE);
    let stream = connect(address, deadline).await.result.unwrap();
    let kernels = Socket::from(stream.as_fd().try_clone_to_owned().unwrap());
    let writes = Arc::new(AtomicU32::new(0));
    let watched = CountingStream {
        stream,
        writes: Arc::clone(&writes),
    };
    let asking = RequestContent {
        method: Method::Post,
        body: Some(("text/plain", &body)),
        close: false,
        ..RequestContent::get("shop.example.test", "/")
    };
    let manner = ExchangeOptions {
        max_body: None,
        repeat: Some(asking.request().unwrap()),
        reading: None,
    };
    let exchange = exchange(
        watched,
        asking.request().unwrap(),
        manner,
        deadline,
        &mut PhaseTimer::start(),
    )
    .await;
    assert_eq!(exchange.failure, None);
    assert_eq!(writes.load(Ordering::Relaxed), 2, "head and body are one write");
    // The same socket through a duplicated file descriptor.
    assert!(kernels.tcp_nodelay().unwrap());
    server.await.unwrap();
}
