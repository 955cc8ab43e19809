//! Outgoing traffic of a machine on this machine's kernel: 10.0.2.2 inside is the loopback outside, as with slirp for
//! user-mode Linux.
//!
//! There is no link to the outside. A listening socket inside belongs to the lab's process outside: a thread enters
//! the network namespace, opens it and exits. Inside, every port of the address is translated to that socket's, and
//! the kernel returns the original port.

use std::{
    fs::File,
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener as StdListener},
    os::fd::AsFd,
    thread,
    time::Duration,
};

use anyhow::{Context, bail};
use rustix::{
    process::Pid,
    thread::{LinkNameSpaceType, move_into_link_name_space},
};
use socket2::SockRef;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

use crate::cluster::addresses;

/// Port on which the lab listens inside.
pub(crate) const LISTEN_PORT: u16 = 1;

/// Maximum number of concurrent connections; further ones wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 512;

/// A running proxy. Stops on drop, with its connections.
#[derive(Debug)]
pub struct OutsideProxy(JoinHandle<()>);

impl OutsideProxy {
    /// Starts a proxy in the network namespace of a process.
    pub fn open(of: Pid) -> anyhow::Result<Self> {
        let listener = thread::spawn(move || listen_inside(of))
            .join()
            .map_err(|_| anyhow::anyhow!("the thread that enters the namespace panicked"))?
            .with_context(|| format!("listening at {}:{LISTEN_PORT} inside", addresses::HOST))?;
        let listener = TcpListener::from_std(listener).context("listening inside")?;
        Ok(Self(tokio::spawn(serve(listener))))
    }
}

impl Drop for OutsideProxy {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Must run on a separate thread, because it cannot return to the original namespace.
fn listen_inside(of: Pid) -> io::Result<StdListener> {
    let namespace = File::open(format!("/proc/{}/ns/net", of.as_raw_nonzero()))?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
    let listener = StdListener::bind((addresses::HOST, LISTEN_PORT))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

async fn serve(listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= MAX_CONNECTIONS {
            connections.join_next().await;
        }
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((inside, _)) => {
                // Errors of a connection are ignored: its two ends notice.
                connections.spawn(async move { forward(inside).await.ok() });
            }
            // Temporarily out of file descriptors: wait until connections close.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Forwards a connection. If nothing listens outside, it is reset inside, because it has been accepted already.
async fn forward(mut inside: TcpStream) -> anyhow::Result<()> {
    let port = SockRef::from(&inside)
        .original_dst_v4()
        .context("reading the original destination")?
        .as_socket()
        .map(|meant| meant.port());
    let Some(port) = port else {
        bail!("the original destination has no port")
    };
    let outside = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match TcpStream::connect(outside).await {
        Ok(mut outside) => {
            inside.set_nodelay(true)?;
            outside.set_nodelay(true)?;
            copy_bidirectional(&mut inside, &mut outside).await?;
            Ok(())
        }
        Err(error) => {
            SockRef::from(&inside).set_linger(Some(Duration::ZERO))?;
            Err(error.into())
        }
    }
}
