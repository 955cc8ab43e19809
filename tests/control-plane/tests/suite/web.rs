//! A server that answers every request with 200.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";

/// Answers until dropped.
pub(crate) struct WebServer {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl WebServer {
    pub(crate) async fn at(address: Ipv4Addr) -> Self {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            // Stops with the listener.
            let mut clients = JoinSet::new();
            loop {
                tokio::select! {
                    client = listener.accept() => drop(clients.spawn(answer(client.unwrap().0))),
                    Some(_) = clients.join_next() => {}
                }
            }
        });
        Self { address, task }
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Answers any request. Errors of clients that disconnect are ignored.
async fn answer(mut client: TcpStream) {
    let (mut request, mut part) = (Vec::<u8>::new(), [0; 1024]);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match client.read(&mut part).await {
            Ok(0) | Err(_) => return,
            Ok(length) => request.extend(&part[..length]),
        }
    }
    let _ = client.write_all(ANSWER).await;
    let _ = client.shutdown().await;
}
