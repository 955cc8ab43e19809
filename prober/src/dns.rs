//! One DNS query to one server, on a separate connected socket.

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use hickory_proto::{
    op::{Message, MessageType, Query, ResponseCode},
    rr::{Name, RData, RecordType as WireType},
};
use parallax_model::{FailureKind, OwnFault, Phase, RecordType};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UdpSocket,
};

use crate::{
    clock::{Deadline, DeadlineExceeded},
    connect,
    failure::{EarlyEnd, FailureOrigin, classify_io},
};

/// Maximum size of a UDP response that is read. Queries have no EDNS, so a conforming server stays within 512 bytes.
const MAX_DATAGRAM: usize = 4096;

/// The name and record type of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DnsQuestion {
    name: Name,
    record: RecordType,
}

impl DnsQuestion {
    /// Creates a question for a name that is taken as fully qualified.
    pub(crate) fn new(name: &str, record: RecordType) -> Result<Self, NotAName> {
        let mut parsed = Name::from_ascii(name).map_err(|_| NotAName)?;
        parsed.set_fqdn(true);
        Ok(Self { name: parsed, record })
    }

    fn wire_type(&self) -> WireType {
        match self.record {
            RecordType::A => WireType::A,
            RecordType::Aaaa => WireType::AAAA,
        }
    }

    fn matches(&self, query: &Query) -> bool {
        query.name() == &self.name && query.query_type() == self.wire_type()
    }
}

/// The text is not a domain name: a label is empty or longer than 63 bytes, or the name is longer than 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a domain name")]
pub(crate) struct NotAName;

/// A message that is not a response to the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAReply {
    /// It cannot be parsed.
    #[error("cannot parse the resolver's response")]
    Unreadable,
    /// It is a response to another query.
    #[error("the resolver's response has a different id or question")]
    Other,
}

/// The response of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DnsReply {
    /// Addresses in the order of the response.
    pub(crate) addresses: Vec<IpAddr>,
    /// Smallest TTL along the aliases from the name to its addresses, in seconds. For a response without addresses, how
    /// long a cache may keep it (RFC 2308 §5).
    pub(crate) ttl: Option<u32>,
    /// The failure that the response code stands for; a response without addresses is [`FailureKind::NoAddress`].
    pub(crate) failure: Option<FailureKind>,
    /// Whether it arrived over TCP, by request or because the first response was truncated.
    pub(crate) over_tcp: bool,
}

/// Parses a response. Only records of the name and of its aliases are used.
///
/// The flag is set if the response was truncated and must be requested over TCP.
pub(crate) fn decode(bytes: &[u8], id: u16, question: &DnsQuestion) -> Result<(DnsReply, bool), NotAReply> {
    let message = Message::from_vec(bytes).map_err(|_| NotAReply::Unreadable)?;
    let meta = &message.metadata;
    let is_reply = meta.id == id && meta.message_type == MessageType::Response;
    if !is_reply || !matches!(message.queries.as_slice(), [query] if question.matches(query)) {
        return Err(NotAReply::Other);
    }
    // Clients ignore the records of a response with a failure code, including codes whose upper bits are in EDNS.
    let (addresses, ttl) = match meta.response_code {
        ResponseCode::NoError => addresses(&message, question),
        _ => (Vec::new(), None),
    };
    let negative =
        addresses.is_empty() && matches!(meta.response_code, ResponseCode::NoError | ResponseCode::NXDomain);
    let ttl = if negative { negative_ttl(&message) } else { ttl };
    let failure = match meta.response_code {
        ResponseCode::NoError if addresses.is_empty() => Some(FailureKind::NoAddress),
        ResponseCode::NoError => None,
        ResponseCode::NXDomain => Some(FailureKind::NxDomain),
        ResponseCode::Refused => Some(FailureKind::DnsRefused),
        _ => Some(FailureKind::ServFail),
    };
    let reply = DnsReply {
        addresses,
        ttl,
        failure,
        over_tcp: false,
    };
    Ok((reply, meta.truncation))
}

fn addresses(message: &Message, question: &DnsQuestion) -> (Vec<IpAddr>, Option<u32>) {
    let mut names = BTreeSet::from([question.name.clone()]);
    let mut ttl = None;
    // Aliases may be in any order. Each pass follows at least one more, or is the last.
    loop {
        let known = names.len();
        for record in &message.answers {
            if let RData::CNAME(alias) = &record.data
                && names.contains(&record.name)
            {
                names.insert(alias.0.clone());
            }
        }
        if names.len() == known {
            break;
        }
    }
    let mut addresses = Vec::new();
    for record in message.answers.iter().filter(|r| names.contains(&r.name)) {
        let address = match (&record.data, question.record) {
            (RData::A(a), RecordType::A) => Some(IpAddr::V4(a.0)),
            (RData::AAAA(aaaa), RecordType::Aaaa) => Some(IpAddr::V6(aaaa.0)),
            (RData::CNAME(_), _) => None,
            _ => continue,
        };
        ttl = Some(ttl.map_or(record.ttl, |least: u32| least.min(record.ttl)));
        addresses.extend(address);
    }
    (addresses, ttl)
}

/// How long a cache may keep a negative response: the smaller of the SOA record's TTL and its MINIMUM field.
fn negative_ttl(message: &Message) -> Option<u32> {
    message.authorities.iter().find_map(|record| match &record.data {
        RData::SOA(soa) => Some(record.ttl.min(soa.minimum)),
        _ => None,
    })
}

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
        let message = Message::from_vec(bytes).map_err(|_| NotAReply::Unreadable)?;
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

#[cfg(test)]
#[path = "dns_tests.rs"]
mod tests;
