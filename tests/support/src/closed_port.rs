//! A loopback port that refuses, and on which no other test can listen meanwhile.

use std::{
    io::Result,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
};

/// A port that refuses TCP connections for as long as this value lives: it belongs to the client of a connection.
///
/// A port that is merely bound and released may be given to another test before the probe comes.
#[derive(Debug)]
pub struct ClosedTcpPort {
    client: TcpStream,
    _listener: TcpListener,
}

impl ClosedTcpPort {
    /// Opens a connection on loopback.
    ///
    /// # Errors
    ///
    /// The error of the socket.
    pub fn open() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let client = TcpStream::connect(listener.local_addr()?)?;
        Ok(Self {
            client,
            _listener: listener,
        })
    }

    /// The address that refuses.
    ///
    /// # Errors
    ///
    /// The error of the socket.
    pub fn address(&self) -> Result<SocketAddr> {
        self.client.local_addr()
    }
}

/// A port that refuses datagrams for as long as this value lives: its socket is connected to itself, and the kernel
/// answers the datagrams of anybody else with "port unreachable".
#[derive(Debug)]
pub struct ClosedUdpPort {
    socket: UdpSocket,
}

impl ClosedUdpPort {
    /// Connects a socket of this loopback address to itself.
    ///
    /// # Errors
    ///
    /// The error of the socket.
    pub fn open(address: impl Into<IpAddr>) -> Result<Self> {
        let socket = UdpSocket::bind((address.into(), 0))?;
        socket.connect(socket.local_addr()?)?;
        Ok(Self { socket })
    }

    /// The address that refuses.
    ///
    /// # Errors
    ///
    /// The error of the socket.
    pub fn address(&self) -> Result<SocketAddr> {
        self.socket.local_addr()
    }
}
