//! The system calls that no safe crate offers: `TCP_INFO`, and received TTLs with the socket error queue.
//!
//! This is the only file of the workspace with `unsafe`.
#![expect(
    unsafe_code,
    reason = "getsockopt(TCP_INFO), setsockopt and recvmsg with ancillary data have no safe wrapper"
)]

use std::{
    io,
    mem::{self, MaybeUninit},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
};

use socket2::Socket;
use tokio::io::{Interest, unix::AsyncFd};

/// What the kernel knows of a TCP connection; `tcp(7)`, `TCP_INFO`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// Smoothed round trip in microseconds; right after the handshake it is the handshake's own.
    pub(crate) rtt_us: u32,
    /// Segments sent again since the socket was made; before any data these are SYNs.
    pub(crate) total_retransmits: u32,
}

/// Asks the kernel for [`TcpInfo`]; works in every state of the socket, also after a failed connect.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = socklen(size_of::<libc::tcp_info>());
    // SAFETY: `info` is writable for `len` bytes, `len` is a valid pointer, and the descriptor is borrowed.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: tcp_info is plain integers, for which all zeroes are valid; an older kernel fills only a prefix.
    let info = unsafe { info.assume_init() };
    Ok(TcpInfo {
        rtt_us: info.tcpi_rtt,
        total_retransmits: info.tcpi_total_retrans,
    })
}

/// Asks for the TTL (hop limit) with every datagram, and for ICMP errors on the socket's error queue.
pub(crate) fn want_ttl_and_errors(socket: BorrowedFd<'_>, v6: bool) -> io::Result<()> {
    let options = if v6 {
        [
            (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
        ]
    } else {
        [
            (libc::IPPROTO_IP, libc::IP_RECVTTL),
            (libc::IPPROTO_IP, libc::IP_RECVERR),
        ]
    };
    let on: libc::c_int = 1;
    for (level, option) in options {
        // SAFETY: the value is an int that lives across the call, and its size is passed.
        let done = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                level,
                option,
                (&raw const on).cast(),
                socklen(size_of::<libc::c_int>()),
            )
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Registers a socket with the reactor for data and errors.
pub(crate) fn watch(socket: Socket) -> io::Result<AsyncFd<Socket>> {
    // SAFETY: a Socket owns its descriptor, always returns the same one, and the AsyncFd owns the Socket.
    unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE | Interest::ERROR) }
        .map_err(Into::into)
}

/// Which queue of a socket to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketQueue {
    /// What the peer sent.
    Data,
    /// Errors that came for what we sent.
    Errors,
}

/// One entry of a queue with what came beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Datagram {
    /// Bytes of payload; for an error, of the packet it is about.
    pub(crate) len: usize,
    /// TTL or hop limit of the packet that arrived.
    pub(crate) ttl: Option<u8>,
    /// The host that sent the ICMP error; absent for data and for errors of this machine's own making.
    pub(crate) offender: Option<IpAddr>,
}

/// Room for the TTL and one extended error with its address, aligned as a control message header must be.
#[repr(C, align(8))]
struct ControlBuffer([u8; 256]);

/// Reads one entry of a queue without waiting.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8], queue: SocketQueue) -> io::Result<Datagram> {
    let mut control = ControlBuffer([0; 256]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: msghdr is plain integers and pointers, for which all zeroes are valid.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    // The type of the field differs between gnu and musl.
    message.msg_controllen = control.0.len() as _;
    let flags = match queue {
        SocketQueue::Data => libc::MSG_DONTWAIT,
        SocketQueue::Errors => libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE,
    };
    // SAFETY: all pointers of `message` refer to live buffers of the lengths given beside them.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    let Ok(len) = usize::try_from(got) else {
        return Err(io::Error::last_os_error());
    };
    let mut datagram = Datagram {
        len,
        ttl: None,
        offender: None,
    };
    // SAFETY: the kernel has set msg_controllen to the length of the valid headers in `control`.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return null or a header that lies wholly within `control`.
        let (level, kind, length) =
            unsafe { ((*header).cmsg_level, (*header).cmsg_type, (*header).cmsg_len) };
        // SAFETY: the data of a header follows it within `control`.
        let data = unsafe { libc::CMSG_DATA(header) };
        // SAFETY: CMSG_LEN only computes.
        let payload = size(length).saturating_sub(size(unsafe { libc::CMSG_LEN(0) }));
        match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT)
                if payload >= size_of::<libc::c_int>() =>
            {
                // SAFETY: at least an int lies at `data`; it may be unaligned.
                let ttl = unsafe { ptr::read_unaligned(data.cast::<libc::c_int>()) };
                datagram.ttl = u8::try_from(ttl).ok();
            }
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                // SAFETY: `payload` bytes lie at `data`, inside `control`.
                let bytes = unsafe { std::slice::from_raw_parts(data, payload) };
                datagram.offender = offender(bytes);
            }
            _ => {}
        }
        // SAFETY: `header` came from this message.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    Ok(datagram)
}

/// The address behind a `sock_extended_err`, where a host on the network sent it (`ip(7)`, `IP_RECVERR`).
fn offender(bytes: &[u8]) -> Option<IpAddr> {
    let error = read::<libc::sock_extended_err>(bytes)?;
    let address = bytes.get(size_of::<libc::sock_extended_err>()..)?;
    match error.ee_origin {
        libc::SO_EE_ORIGIN_ICMP => {
            let address = read::<libc::sockaddr_in>(address)?;
            (i32::from(address.sin_family) == libc::AF_INET)
                .then(|| Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::SO_EE_ORIGIN_ICMP6 => {
            let address = read::<libc::sockaddr_in6>(address)?;
            (i32::from(address.sin6_family) == libc::AF_INET6)
                .then(|| Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// The kernel's plain structures, for which any bytes are a valid value.
trait PlainData: Copy {}
impl PlainData for libc::sock_extended_err {}
impl PlainData for libc::sockaddr_in {}
impl PlainData for libc::sockaddr_in6 {}

fn read<T: PlainData>(bytes: &[u8]) -> Option<T> {
    (bytes.len() >= size_of::<T>()).then(|| {
        // SAFETY: the slice holds at least the bytes of `T`, and any bytes are a valid `T`.
        unsafe { ptr::read_unaligned(bytes.as_ptr().cast::<T>()) }
    })
}

/// Lengths in control messages have another type in musl than in glibc.
fn size(length: impl TryInto<usize>) -> usize {
    length.try_into().unwrap_or(0)
}

fn socklen(size: usize) -> libc::socklen_t {
    // Sizes of the kernel's structures: a few hundred bytes at most.
    libc::socklen_t::try_from(size).unwrap_or(libc::socklen_t::MAX)
}

#[cfg(test)]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        os::fd::AsFd,
    };

    use super::*;

    #[test]
    fn a_fresh_connection_has_a_round_trip_and_no_retransmits() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = tcp_info(stream.as_fd()).unwrap();
        assert_eq!(info.total_retransmits, 0);
        assert!(info.rtt_us > 0);
    }

    #[test]
    fn an_extended_error_that_is_cut_short_names_nobody() {
        assert_eq!(offender(&[]), None);
        assert_eq!(offender(&[0; 20]), None);
    }
}
