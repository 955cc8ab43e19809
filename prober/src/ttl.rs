//! Collects TTL evidence: how far away the responder of an address is, from the TTL of its reply.
//!
//! Uses an unprivileged ping socket if the machine permits it (`net.ipv4.ping_group_range`), otherwise a datagram to an
//! unused UDP port, whose ICMP error the kernel puts on the socket's error queue. The result is evidence in addition to
//! a probe, never a probe: a silent address proves nothing.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::AsFd,
    time::{Duration, Instant},
};

use parallax_model::TtlEvidence;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{Interest, unix::AsyncFd};

use crate::{
    clock::{Deadline, DeadlineExceeded},
    sys::{self, Datagram, SocketQueue},
};

/// The first port of traceroute's range, which is unused by convention.
const UNUSED_PORT: u16 = 33434;

/// The reason why there is no evidence. Never a failure of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoEvidence {
    /// This machine permits neither method, or has no route for the address family.
    #[error("this machine permits no unprivileged method to learn a TTL")]
    Unsupported,
    /// No reply arrived in time.
    #[error("no reply in time")]
    Silent,
}

/// Collects TTL evidence for an address within the deadline: with an unprivileged ping if the machine permits it,
/// otherwise with a datagram to an unused port.
pub async fn ttl_evidence(address: IpAddr, deadline: Duration) -> Result<TtlEvidence, NoEvidence> {
    collect(address, Deadline::within(deadline)).await
}

/// Collects evidence until the deadline: half of the time with a ping, if permitted, and the rest with UDP.
pub(crate) async fn collect(address: IpAddr, deadline: Deadline) -> Result<TtlEvidence, NoEvidence> {
    match ping(address, deadline.at_most(deadline.remaining() / 2)).await {
        Ok(evidence) => Ok(evidence),
        Err(ping) => udp_error(SocketAddr::new(address, UNUSED_PORT), deadline)
            .await
            // If either method was permitted, the address is silent: it had the chance to reply.
            .map_err(|udp| if ping == NoEvidence::Silent { ping } else { udp }),
    }
}

async fn ping(address: IpAddr, deadline: Deadline) -> Result<TtlEvidence, NoEvidence> {
    let (protocol, request, reply) = match address {
        IpAddr::V4(_) => (Protocol::ICMPV4, 8, 0),
        IpAddr::V6(_) => (Protocol::ICMPV6, 128, 129),
    };
    // Type, code, checksum, identifier, sequence. The kernel writes checksum and identifier (icmp(7)).
    let packet = [
        request, 0, 0, 0, 0, 0, 0, 1, b'p', b'a', b'r', b'a', b'l', b'l', b'a', b'x',
    ];
    let socket = open(SocketAddr::new(address, 0), protocol).map_err(|_| NoEvidence::Unsupported)?;
    send_and_wait(&socket, address, &packet, deadline, |answer| {
        answer.first() == Some(&reply)
    })
    .await
}

async fn udp_error(address: SocketAddr, deadline: Deadline) -> Result<TtlEvidence, NoEvidence> {
    let socket = open(address, Protocol::UDP).map_err(|_| NoEvidence::Unsupported)?;
    // A reply from a process that does listen there is evidence too.
    send_and_wait(&socket, address.ip(), b"parallax", deadline, |_| true).await
}

fn open(address: SocketAddr, protocol: Protocol) -> io::Result<AsyncFd<Socket>> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM.nonblocking().cloexec(),
        Some(protocol),
    )?;
    sys::enable_ttl_and_errors(socket.as_fd(), address.is_ipv6())?;
    // Connected, so that the kernel delivers only packets that concern this address.
    socket.connect(&address.into())?;
    sys::register(socket)
}

async fn send_and_wait(
    socket: &AsyncFd<Socket>,
    address: IpAddr,
    packet: &[u8],
    deadline: Deadline,
    expected: impl Fn(&[u8]) -> bool,
) -> Result<TtlEvidence, NoEvidence> {
    let sent = Instant::now();
    socket
        .get_ref()
        .send(packet)
        .map_err(|_| NoEvidence::Unsupported)?;
    let waiting = async {
        loop {
            let mut ready = socket.ready(Interest::READABLE | Interest::ERROR).await?;
            if let Some((datagram, from)) = next_evidence(socket.get_ref(), address, &expected)
                && let (Some(ttl), Some(from)) = (datagram.ttl, from)
            {
                return io::Result::Ok(TtlEvidence {
                    address,
                    sender: Some(from),
                    ttl,
                    rtt: Some(sent.elapsed().into()),
                });
            }
            ready.clear_ready();
        }
    };
    match deadline.timeout(waiting).await {
        Ok(Ok(evidence)) => Ok(evidence),
        Ok(Err(_)) => Err(NoEvidence::Unsupported),
        Err(DeadlineExceeded) => Err(NoEvidence::Silent),
    }
}

/// Reads both queues until it finds an ICMP error with its sender or the expected reply.
fn next_evidence(
    socket: &Socket,
    address: IpAddr,
    expected: &impl Fn(&[u8]) -> bool,
) -> Option<(Datagram, Option<IpAddr>)> {
    let mut buffer = [0; 256];
    while let Ok(error) = sys::receive(socket.as_fd(), &mut buffer, SocketQueue::Errors) {
        if error.offender.is_some() {
            return Some((error, error.offender));
        }
    }
    loop {
        match sys::receive(socket.as_fd(), &mut buffer, SocketQueue::Data) {
            Ok(data) if expected(&buffer[..data.len.min(buffer.len())]) => {
                return Some((data, Some(address)));
            }
            Ok(_) => {}
            // The error of an entry that was already read from the other queue is reported here again.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};

    use parallax_test_support::closed_port::ClosedUdpPort;

    use super::*;

    fn soon() -> Deadline {
        Deadline::within(Duration::from_secs(5))
    }

    #[tokio::test]
    async fn this_machine_answers_for_its_own_address_with_an_untouched_ttl() {
        let port = ClosedUdpPort::open(Ipv4Addr::LOCALHOST).unwrap();
        let evidence = udp_error(port.address().unwrap(), soon()).await.unwrap();
        assert_eq!(evidence.sender, Some([127, 0, 0, 1].into()));
        assert!(evidence.crossed_no_router(), "{evidence:?}");
        assert!(evidence.rtt.is_some());
    }

    #[tokio::test]
    async fn an_ipv6_error_carries_its_hop_limit_and_its_sender() {
        let port = ClosedUdpPort::open(Ipv6Addr::LOCALHOST).unwrap();
        let evidence = udp_error(port.address().unwrap(), soon()).await.unwrap();
        assert_eq!(evidence.sender, Some("::1".parse().unwrap()));
        assert!(evidence.crossed_no_router(), "{evidence:?}");
    }

    #[tokio::test]
    async fn a_ping_is_evidence_where_pings_are_permitted_and_quietly_unsupported_where_not() {
        for (address, protocol) in [("127.0.0.1", Protocol::ICMPV4), ("::1", Protocol::ICMPV6)] {
            let address: IpAddr = address.parse().unwrap();
            let permitted = open(SocketAddr::new(address, 0), protocol).is_ok();
            match ping(address, soon()).await {
                Ok(evidence) => assert!(permitted && evidence.crossed_no_router(), "{evidence:?}"),
                Err(reason) => assert!(!permitted && reason == NoEvidence::Unsupported, "{reason}"),
            }
        }
    }

    #[tokio::test]
    async fn evidence_is_found_whether_or_not_pings_are_permitted() {
        let evidence = collect([127, 0, 0, 1].into(), soon()).await.unwrap();
        assert!(evidence.crossed_no_router(), "{evidence:?}");
    }

    #[tokio::test]
    async fn a_socket_that_stays_silent_is_silent_and_no_failure() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let deadline = Deadline::within(Duration::from_millis(50));
        let error = udp_error(silent.local_addr().unwrap(), deadline).await;
        assert_eq!(error, Err(NoEvidence::Silent));
    }
}
