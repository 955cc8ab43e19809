//! Addresses on `kube-ipvs0` from netlink, which lists them without privileges (rtnetlink(7), `RTM_GETADDR`).

use std::{
    collections::BTreeSet,
    io::{self, Read},
    net::IpAddr,
    path::Path,
    time::Duration,
};

use parallax_model::MAX_IPVS_ADDRESSES;
use socket2::{Domain, Protocol, Socket, Type};

use super::read_number;

const INTERFACE: &str = "kube-ipvs0";

/// linux/netlink.h and linux/rtnetlink.h.
const NLMSG_DONE: u16 = 3;
const NLMSG_ERROR: u16 = 2;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// Lengths of `nlmsghdr`, `ifaddrmsg` and `rtattr`.
const HEADER: usize = 16;
const BODY: usize = 8;
const ATTRIBUTE: usize = 4;

/// Receive buffer for a dump; the kernel fills at most 32 KiB of it.
const BUFFER: usize = 64 << 10;

/// Returns the addresses in order: empty without such an interface, `None` if the kernel does not list them.
pub(super) fn addresses(root: &Path) -> Option<Vec<IpAddr>> {
    let index = root.join("sys/class/net").join(INTERFACE).join("ifindex");
    if !root.join("sys/class/net").is_dir() {
        return None;
    }
    match read_number::<u32>(&index) {
        None => Some(Vec::new()),
        Some(index) => interface_addresses(index).ok(),
    }
}

/// Returns the addresses on the interface with an index.
pub(super) fn interface_addresses(index: u32) -> io::Result<Vec<IpAddr>> {
    let mut socket = Socket::new(
        Domain::from(libc::AF_NETLINK),
        Type::RAW,
        Some(Protocol::from(libc::NETLINK_ROUTE)),
    )?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    socket.send(&request())?;
    let mut found = BTreeSet::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = socket.read(&mut buffer)?;
        if !parse_messages(&buffer[..length], index, &mut found)? {
            break;
        }
    }
    Ok(found.into_iter().take(MAX_IPVS_ADDRESSES).collect())
}

/// A request for the addresses of all interfaces and families.
fn request() -> [u8; HEADER + BODY] {
    let mut message = [0; HEADER + BODY];
    message[..4].copy_from_slice(&24_u32.to_ne_bytes());
    message[4..6].copy_from_slice(&RTM_GETADDR.to_ne_bytes());
    message[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    message[8..12].copy_from_slice(&1_u32.to_ne_bytes());
    message
}

/// Parses the messages of one read. Returns false at the end of the dump.
pub(super) fn parse_messages(mut bytes: &[u8], index: u32, found: &mut BTreeSet<IpAddr>) -> io::Result<bool> {
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "a netlink message is cut off");
    while !bytes.is_empty() {
        let length = u32_at(bytes, 0).ok_or_else(broken)? as usize;
        let kind = u16_at(bytes, 4).ok_or_else(broken)?;
        let message = bytes.get(HEADER..length).ok_or_else(broken)?;
        match kind {
            NLMSG_DONE => return Ok(false),
            NLMSG_ERROR => return Err(io::Error::other("the kernel refused to list addresses")),
            RTM_NEWADDR if u32_at(message, 4) == Some(index) => {
                found.extend(address(message.get(BODY..).ok_or_else(broken)?));
            }
            _ => {}
        }
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
    }
    Ok(true)
}

/// Returns the address in the attributes: `IFA_LOCAL` if it differs from `IFA_ADDRESS` (on a point-to-point link).
fn address(mut attributes: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let Some(value) = attributes.get(ATTRIBUTE..usize::from(length)) else {
            break;
        };
        if kind == IFA_LOCAL || kind == IFA_ADDRESS && found.is_none() {
            found = ip(value).or(found);
        }
        attributes = attributes.get(aligned(usize::from(length))..).unwrap_or_default();
    }
    found
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Rounds up to the alignment of messages and attributes. The minimum prevents an endless loop over empty ones.
const fn aligned(length: usize) -> usize {
    let length = if length < ATTRIBUTE { ATTRIBUTE } else { length };
    (length + 3) & !3
}
