//! A TCP connect that keeps the descriptor, so that also a timeout can say how often the SYN was repeated (R7).

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpStream as StdStream},
    os::fd::AsFd,
    time::Instant,
};

use parallax_model::{Micros, OwnFault, Phase};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{io::Interest, net::TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use crate::{
    classify::{EarlyEnd, FailureOrigin},
    clock::Deadline,
    family,
    sys::{self, TcpInfo},
};

/// A connection, over TLS or not.
pub(crate) type Stream = Either<TcpStream, TlsStream<TcpStream>>;

/// How an attempt to connect ended, with what was learnt either way.
#[derive(Debug)]
pub(crate) struct ConnectAttempt {
    /// The connection, or where it failed.
    pub(crate) result: Result<TcpStream, EarlyEnd>,
    /// When that was.
    pub(crate) ended: Instant,
    info: Option<TcpInfo>,
}

impl ConnectAttempt {
    /// The handshake's round trip as the kernel saw it; only a connection has one.
    pub(crate) fn kernel_rtt(&self) -> Option<Micros> {
        let info = self.info.filter(|_| self.result.is_ok())?;
        Some(Micros(info.rtt_us.into()))
    }

    /// SYNs sent again; known after success, failure and timeout.
    pub(crate) fn syn_retransmits(&self) -> Option<u32> {
        self.info.map(|info| info.total_retransmits)
    }
}

/// Connects to one address. Never tries another one, never twice.
pub(crate) async fn connect(address: SocketAddr, deadline: Deadline) -> ConnectAttempt {
    let (socket, called) = match start(address) {
        Ok(started) => started,
        Err(error) => {
            return ConnectAttempt {
                result: Err(EarlyEnd::io(Phase::Connect, &error)),
                ended: Instant::now(),
                info: None,
            };
        }
    };
    let outcome = match called {
        Ok(()) => deadline
            .bound(established(&socket))
            .await
            .unwrap_or_else(|_| Err(EarlyEnd::timeout(Phase::Connect))),
        Err(error) => Err(refusal(&error, address.ip())),
    };
    let ended = Instant::now();
    let info = sys::tcp_info(socket.as_fd()).ok();
    ConnectAttempt {
        result: outcome.map(|()| socket),
        ended,
        info,
    }
}

/// Makes the socket and begins the handshake. The inner error is the immediate and final one of connect itself.
fn start(address: SocketAddr) -> io::Result<(TcpStream, io::Result<()>)> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking().cloexec(),
        Some(Protocol::TCP),
    )?;
    socket.set_tcp_nodelay(true)?;
    let called = match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
        other => other,
    };
    Ok((TcpStream::from_std(StdStream::from(socket))?, called))
}

/// Waits until the handshake is over.
async fn established(stream: &TcpStream) -> Result<(), EarlyEnd> {
    let failed = |error: io::Error| EarlyEnd::io(Phase::Connect, &error);
    loop {
        stream.writable().await.map_err(failed)?;
        if let Some(error) = stream.take_error().map_err(failed)? {
            return Err(failed(error));
        }
        match stream.peer_addr() {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                // A spurious wake-up: "would block" clears the readiness, so that the next wait is a wait.
                let _ = stream.try_io(Interest::WRITABLE, || {
                    Err::<(), _>(io::ErrorKind::WouldBlock.into())
                });
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// An immediate error of connect. "No route" is the machine's own affair where it lacks the whole family.
fn refusal(error: &io::Error, address: IpAddr) -> EarlyEnd {
    let stop = EarlyEnd::io(Phase::Connect, error);
    if error.raw_os_error() == Some(libc::ENETUNREACH) && !family::present(address) {
        return EarlyEnd {
            fault: FailureOrigin::Own(OwnFault::NoFamily),
            ..stop
        };
    }
    stop
}
