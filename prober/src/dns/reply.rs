//! What a response says about the addresses of a name.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use hickory_proto::{
    op::{Message, MessageType, ResponseCode},
    rr::{Name, RData},
};
use parallax_model::{FailureKind, RecordType};

use super::{
    message::{UnreadableMessage, decode_message},
    question::DnsQuestion,
};

/// Maximum number of aliases between a name and its addresses. Resolvers follow fewer: unbound 11, BIND 16.
pub(crate) const MAX_ALIASES: usize = 16;

/// A message that is not a response to the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAReply {
    /// It is not decoded.
    #[error(transparent)]
    Unreadable(#[from] UnreadableMessage),
    /// A chain of aliases is longer than [`MAX_ALIASES`].
    #[error("the name is an alias of more than {MAX_ALIASES} others")]
    TooManyAliases,
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
    let message = decode_message(bytes)?;
    let meta = &message.metadata;
    let is_reply = meta.id == id && meta.message_type == MessageType::Response;
    if !is_reply || !matches!(message.queries.as_slice(), [query] if question.matches(query)) {
        return Err(NotAReply::Other);
    }
    // Clients ignore the records of a response with a failure code, including codes whose upper bits are in EDNS.
    let (addresses, ttl) = match meta.response_code {
        ResponseCode::NoError => addresses(&message, question)?,
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

/// Returns the addresses of a name and of its aliases, and the smallest TTL along the way.
fn addresses(message: &Message, question: &DnsQuestion) -> Result<(Vec<IpAddr>, Option<u32>), NotAReply> {
    let names = with_aliases(message, &question.name)?;
    let mut ttl = None;
    let mut addresses = Vec::new();
    for record in message
        .answers
        .iter()
        .filter(|record| names.contains(&record.name))
    {
        let address = match (&record.data, question.record) {
            (RData::A(a), RecordType::A) => Some(IpAddr::V4(a.0)),
            (RData::AAAA(aaaa), RecordType::Aaaa) => Some(IpAddr::V6(aaaa.0)),
            (RData::CNAME(_), _) => None,
            _ => continue,
        };
        ttl = Some(ttl.map_or(record.ttl, |least: u32| least.min(record.ttl)));
        addresses.extend(address);
    }
    Ok((addresses, ttl))
}

/// Returns a name and everything that it is an alias of. Aliases may be in any order.
fn with_aliases<'a>(message: &'a Message, name: &'a Name) -> Result<BTreeSet<&'a Name>, NotAReply> {
    let mut aliases: BTreeMap<&Name, Vec<&Name>> = BTreeMap::new();
    for record in &message.answers {
        if let RData::CNAME(alias) = &record.data {
            aliases.entry(&record.name).or_default().push(&alias.0);
        }
    }
    let mut names = BTreeSet::from([name]);
    let mut open = vec![name];
    while let Some(owner) = open.pop() {
        for alias in aliases.remove(owner).into_iter().flatten() {
            if names.insert(alias) {
                open.push(alias);
            }
        }
        if names.len() > 1 + MAX_ALIASES {
            return Err(NotAReply::TooManyAliases);
        }
    }
    Ok(names)
}

/// How long a cache may keep a negative response: the smaller of the SOA record's TTL and its MINIMUM field.
fn negative_ttl(message: &Message) -> Option<u32> {
    message.authorities.iter().find_map(|record| match &record.data {
        RData::SOA(soa) => Some(record.ttl.min(soa.minimum)),
        _ => None,
    })
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
