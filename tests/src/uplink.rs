//! The way out of a machine on this machine's kernel: 10.0.2.2 inside is the loopback outside, as it is for user-mode
//! Linux by way of slirp.
//!
//! No wire leads out. A socket that listens inside belongs to the lab's process, outside: a thread enters the namespace,
//! opens it and ends. Inside, every port of the address is translated to that socket's, and the kernel says which one was
//! asked for.

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

/// The port at which the lab listens, inside.
pub(crate) const PORT: u16 = 1;

/// Most connections at once; one more waits in the kernel's queue.
const MOST: usize = 512;

/// Ends when dropped, with its connections.
#[derive(Debug)]
pub struct OutsideProxy(JoinHandle<()>);

impl OutsideProxy {
    /// Opens the way out of the network namespace of a process.
    pub fn open(of: Pid) -> anyhow::Result<Self> {
        let listener = thread::spawn(move || listen_inside(of))
            .join()
            .map_err(|_| anyhow::anyhow!("the thread that enters the namespace has panicked"))?
            .with_context(|| format!("listening at {}:{PORT} inside", addresses::HOST))?;
        let listener = TcpListener::from_std(listener).context("listening inside")?;
        Ok(Self(tokio::spawn(serve(listener))))
    }
}

impl Drop for OutsideProxy {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// For a thread of its own, as it never comes back to where it was.
fn listen_inside(of: Pid) -> io::Result<StdListener> {
    let namespace = File::open(format!("/proc/{}/ns/net", of.as_raw_nonzero()))?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
    let listener = StdListener::bind((addresses::HOST, PORT))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

async fn serve(listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= MOST {
            connections.join_next().await;
        }
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((inside, _)) => {
                // How a connection ends is between those who use it.
                connections.spawn(async move { pass_on(inside).await.ok() });
            }
            // Out of descriptors, for a moment: those who have some give them back.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// What nobody listens for outside is reset inside, too late to be a refusal.
async fn pass_on(mut inside: TcpStream) -> anyhow::Result<()> {
    let port = SockRef::from(&inside)
        .original_dst_v4()
        .context("asking which port was meant")?
        .as_socket()
        .map(|meant| meant.port());
    let Some(port) = port else {
        bail!("an address without a port was meant")
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
