//! Sends a query and waits for its response, over UDP or TCP.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use hickory_proto::{
    op::{Message, MessageType, Query},
    rr::{Name, RecordType as WireType},
};
use parallax_model::{FailureKind, OwnFault, Phase};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UdpSocket,
};

use super::{
    message::decode_message,
    question::DnsQuestion,
    reply::{DnsReply, NotAReply, decode},
};
use crate::{
    clock::{Deadline, DeadlineExceeded},
    connect,
    failure::{EarlyEnd, FailureOrigin, classify_io},
};

/// Maximum size of a UDP response that is read. Queries have no EDNS, so a conforming server stays within 512 bytes.
const MAX_DATAGRAM: usize = 4096;

/// The transport of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DnsTransportKind {
    /// UDP, and then TCP if the response is truncated.
    Udp,
    /// TCP.
    Tcp,
}

/// Queries one server once for addresses.
pub(crate) async fn query_addresses(
    server: SocketAddr,
    question: &DnsQuestion,
    transport: DnsTransportKind,
    deadline: Deadline,
) -> Result<DnsReply, EarlyEnd> {
    let query = query(&question.name, question.wire_type(), true);
    let id = query.metadata.id;
    let read = |bytes: &[u8]| decode(bytes, id, question);
    let (reply, tcp) = exchange(server, &query, transport, deadline, read).await?;
    Ok(DnsReply {
        over_tcp: tcp,
        ..reply
    })
}

/// Queries one server once for records of any type and returns the whole message. Without recursion the server answers
/// from its own zones.
pub(crate) async fn query_records(
    server: SocketAddr,
    name: &Name,
    record: WireType,
    recursion: bool,
    deadline: Deadline,
) -> Result<Message, EarlyEnd> {
    let query = query(name, record, recursion);
    let id = query.metadata.id;
    let read = |bytes: &[u8]| {
        let message = decode_message(bytes)?;
        let is_reply = message.metadata.id == id && message.metadata.message_type == MessageType::Response;
        match message.queries.as_slice() {
            [echoed] if is_reply && echoed.name() == name && echoed.query_type() == record => {
                let truncated = message.metadata.truncation;
                Ok((message, truncated))
            }
            _ => Err(NotAReply::Other),
        }
    };
    let (message, _) = exchange(server, &query, DnsTransportKind::Udp, deadline, read).await?;
    Ok(message)
}

fn query(name: &Name, record: WireType, recursion: bool) -> Message {
    let mut query = Message::query();
    query.metadata.recursion_desired = recursion;
    query.add_query(Query::query(name.clone(), record));
    query
}

/// Sends a query and reads the response, over TCP if the one over UDP is truncated. The flag says whether it was TCP.
async fn exchange<T>(
    server: SocketAddr,
    query: &Message,
    transport: DnsTransportKind,
    deadline: Deadline,
    read: impl Fn(&[u8]) -> Result<(T, bool), NotAReply>,
) -> Result<(T, bool), EarlyEnd> {
    // The encoder fails only on names beyond 255 bytes, which a `Name` cannot contain.
    let bytes = query.to_vec().map_err(|error| {
        EarlyEnd::new(Phase::Resolve, OwnFault::NoResources).with_detail(error.to_string())
    })?;
    if transport == DnsTransportKind::Udp {
        let (reply, truncated) = query_udp(server, &bytes, deadline, &read).await?;
        if !truncated {
            return Ok((reply, false));
        }
    }
    let (reply, _) = query_tcp(server, &bytes, deadline, &read).await?;
    Ok((reply, true))
}

async fn query_udp<T>(
    server: SocketAddr,
    query: &[u8],
    deadline: Deadline,
    read: impl Fn(&[u8]) -> Result<(T, bool), NotAReply>,
) -> Result<(T, bool), EarlyEnd> {
    let failed = |error: io::Error| EarlyEnd::io(Phase::Resolve, &error);
    let local: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((local, 0)).await.map_err(failed)?;
    socket.connect(server).await.map_err(failed)?;
    socket.send(query).await.map_err(failed)?;
    // On the heap: otherwise the future of every probe would contain it.
    let mut buffer = vec![0; MAX_DATAGRAM];
    let mut foreign_reply = None;
    loop {
        let len = match deadline.timeout(socket.recv(&mut buffer)).await {
            Ok(got) => got.map_err(failed)?,
            Err(DeadlineExceeded) => return Err(no_response(foreign_reply)),
        };
        match read(&buffer[..len]) {
            Ok(answer) => return Ok(answer),
            // Any host can send a spoofed datagram; the real response may still arrive.
            Err(wrong) => foreign_reply = Some(wrong),
        }
    }
}

/// The failure of a query without a usable response: malformed if an unusable one arrived, otherwise a timeout.
fn no_response(foreign_reply: Option<NotAReply>) -> EarlyEnd {
    match foreign_reply {
        Some(wrong) => {
            EarlyEnd::new(Phase::Resolve, FailureKind::DnsMalformed).with_detail(wrong.to_string())
        }
        None => EarlyEnd::timeout(Phase::Resolve),
    }
}

async fn query_tcp<T>(
    server: SocketAddr,
    query: &[u8],
    deadline: Deadline,
    read: impl Fn(&[u8]) -> Result<(T, bool), NotAReply>,
) -> Result<(T, bool), EarlyEnd> {
    let exchange = async {
        let mut stream = connect::connect(server, deadline)
            .await
            .result
            .map_err(connect_failure)?;
        let failed = |error: io::Error| EarlyEnd::io(Phase::Resolve, &error);
        let mut framed = Vec::with_capacity(query.len() + 2);
        // A query is a name and a few bytes.
        framed.extend(u16::try_from(query.len()).unwrap_or(u16::MAX).to_be_bytes());
        framed.extend_from_slice(query);
        stream.write_all(&framed).await.map_err(failed)?;
        let len = stream.read_u16().await.map_err(failed)?;
        let mut answer = vec![0; len.into()];
        stream.read_exact(&mut answer).await.map_err(failed)?;
        read(&answer).map_err(|wrong| no_response(Some(wrong)))
    };
    deadline
        .timeout(exchange)
        .await
        .unwrap_or_else(|DeadlineExceeded| Err(EarlyEnd::timeout(Phase::Resolve)))
}

/// Converts a failed connect to a resolver: it belongs to the resolve phase, with the failure kinds of resolvers.
fn connect_failure(stop: EarlyEnd) -> EarlyEnd {
    let fault = match stop.origin {
        FailureOrigin::Target(FailureKind::ConnectTimeout) => {
            classify_io(&io::ErrorKind::TimedOut.into(), Phase::Resolve)
        }
        FailureOrigin::Target(_) => FailureKind::ResolverUnreachable.into(),
        own @ FailureOrigin::Own(_) => own,
    };
    EarlyEnd {
        phase: Phase::Resolve,
        origin: fault,
        ..stop
    }
}
