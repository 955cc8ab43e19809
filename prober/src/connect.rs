//! A TCP connect that keeps the file descriptor, so that the number of SYN retransmits is known even after a timeout.

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
    clock::Deadline,
    failure::{EarlyEnd, FailureOrigin},
    route_check,
    sys::{self, TcpInfo},
};

/// A connection, with or without TLS.
pub(crate) type Stream = Either<TcpStream, TlsStream<TcpStream>>;

/// The result of a connect, with what the kernel measured.
#[derive(Debug)]
pub(crate) struct ConnectAttempt {
    /// The connection, or the failure.
    pub(crate) result: Result<TcpStream, EarlyEnd>,
    /// When the attempt ended.
    pub(crate) ended: Instant,
    info: Option<TcpInfo>,
}

impl ConnectAttempt {
    /// The round trip of the handshake as measured by the kernel; `None` without a connection.
    pub(crate) fn kernel_rtt(&self) -> Option<Micros> {
        let info = self.info.filter(|_| self.result.is_ok())?;
        Some(Micros(info.rtt_us.into()))
    }

    /// Number of SYN retransmits; known after success, failure and timeout.
    pub(crate) fn syn_retransmits(&self) -> Option<u32> {
        self.info.map(|info| info.total_retransmits)
    }
}

/// Connects to one address, once.
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
            .timeout(wait_established(&socket))
            .await
            .unwrap_or_else(|_| Err(EarlyEnd::timeout(Phase::Connect))),
        Err(error) => Err(classify_immediate(&error, address.ip())),
    };
    let ended = Instant::now();
    let info = sys::tcp_info(socket.as_fd()).ok();
    ConnectAttempt {
        result: outcome.map(|()| socket),
        ended,
        info,
    }
}

/// Creates the socket and starts the handshake. The inner error is an immediate, final error of `connect`.
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

/// Waits for the end of the handshake.
async fn wait_established(stream: &TcpStream) -> Result<(), EarlyEnd> {
    let failed = |error: io::Error| EarlyEnd::io(Phase::Connect, &error);
    loop {
        stream.writable().await.map_err(failed)?;
        if let Some(error) = stream.take_error().map_err(failed)? {
            return Err(failed(error));
        }
        match stream.peer_addr() {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                // A spurious wake-up: `WouldBlock` clears the readiness, so that the next `writable` waits.
                let _ = stream.try_io(Interest::WRITABLE, || {
                    Err::<(), _>(io::ErrorKind::WouldBlock.into())
                });
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Classifies an immediate error of `connect`. "Network unreachable" is a fault of this machine if it has no route of
/// that address family at all.
fn classify_immediate(error: &io::Error, address: IpAddr) -> EarlyEnd {
    let stop = EarlyEnd::io(Phase::Connect, error);
    if error.raw_os_error() == Some(libc::ENETUNREACH) && !route_check::has_route(address) {
        return EarlyEnd {
            origin: FailureOrigin::Own(OwnFault::NoFamily),
            ..stop
        };
    }
    stop
}
