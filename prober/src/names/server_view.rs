//! The records of a name at one server.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
};

use hickory_proto::{
    op::{Message, ResponseCode},
    rr::{Name, RData, RecordType},
};
use parallax_model::{
    FailureKind,
    dns::{CaaAnswer, CaaRecord, NameView, RecordAnswer, ServerOwner},
};

use super::wire_name;
use crate::{
    clock::Deadline,
    dns::query_records,
    failure::{EarlyEnd, FailureOrigin},
    sanitize::sanitized,
};

/// Maximum number of addresses, aliases and records kept per answer; names in ordinary use have fewer.
const MAX_RECORDS: usize = 32;

/// Queries a server for all record types concurrently.
pub(super) async fn query_server(
    name: &str,
    by: ServerOwner,
    server: SocketAddr,
    recursion: bool,
    deadline: Deadline,
) -> NameView {
    let (a, aaaa, caa) = tokio::join!(
        query_addresses(name, RecordType::A, server, recursion, deadline),
        query_addresses(name, RecordType::AAAA, server, recursion, deadline),
        query_caa(name, server, recursion, deadline),
    );
    let (a, of_a) = a;
    let (aaaa, of_aaaa) = aaaa;
    NameView {
        owner: by,
        server,
        a,
        aaaa,
        aliases: if of_a.is_empty() { of_aaaa } else { of_a },
        caa,
    }
}

async fn query_addresses(
    name: &str,
    record: RecordType,
    server: SocketAddr,
    recursion: bool,
    deadline: Deadline,
) -> (RecordAnswer, Vec<String>) {
    let Some(wire) = wire_name(name) else {
        return (RecordAnswer::NoSuchName, Vec::new());
    };
    let message = match query_records(server, &wire, record, recursion, deadline).await {
        Ok(message) => message,
        Err(stop) => return (RecordAnswer::Failed(failure_kind(&stop)), Vec::new()),
    };
    let (owners, aliases) = alias_chain(&message, &wire);
    let mut addresses: Vec<IpAddr> = message
        .answers
        .iter()
        .filter(|one| owners.contains(&one.name.to_lowercase()))
        .filter_map(|one| match &one.data {
            RData::A(a) => Some(a.0.into()),
            RData::AAAA(aaaa) => Some(aaaa.0.into()),
            _ => None,
        })
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.truncate(MAX_RECORDS);
    let answer = match message.metadata.response_code {
        ResponseCode::NoError if addresses.is_empty() => RecordAnswer::None,
        ResponseCode::NoError => RecordAnswer::Addresses(addresses),
        ResponseCode::NXDomain => RecordAnswer::NoSuchName,
        code => RecordAnswer::Failed(code_kind(code)),
    };
    (answer, aliases)
}

/// Queries the CAA records of one name. Records of a name that it is an alias of count as its own.
pub(super) async fn query_caa(
    name: &str,
    server: SocketAddr,
    recursion: bool,
    deadline: Deadline,
) -> CaaAnswer {
    let Some(wire) = wire_name(name) else {
        return CaaAnswer::None;
    };
    let message = match query_records(server, &wire, RecordType::CAA, recursion, deadline).await {
        Ok(message) => message,
        Err(stop) => return CaaAnswer::Failed(failure_kind(&stop)),
    };
    let (owners, _) = alias_chain(&message, &wire);
    let records: Vec<CaaRecord> = message
        .answers
        .iter()
        .filter(|one| owners.contains(&one.name.to_lowercase()))
        .filter_map(|one| match &one.data {
            RData::CAA(caa) => Some(CaaRecord {
                flags: caa.flags(),
                tag: sanitized(&caa.tag),
                value: sanitized(&String::from_utf8_lossy(&caa.value)),
            }),
            _ => None,
        })
        .take(MAX_RECORDS)
        .collect();
    match message.metadata.response_code {
        ResponseCode::NoError if records.is_empty() => CaaAnswer::None,
        ResponseCode::NoError => CaaAnswer::Records(records),
        // A name that does not exist has no records; a top-level domain that does not exist is a failure.
        ResponseCode::NXDomain if wire.num_labels() > 1 => CaaAnswer::None,
        code => CaaAnswer::Failed(code_kind(code)),
    }
}

/// Returns the name with everything it is an alias of, and the aliases in order.
fn alias_chain(message: &Message, name: &Name) -> (BTreeSet<Name>, Vec<String>) {
    let links: BTreeMap<Name, Name> = message
        .answers
        .iter()
        .filter_map(|one| match &one.data {
            RData::CNAME(alias) => Some((one.name.to_lowercase(), alias.0.to_lowercase())),
            _ => None,
        })
        .collect();
    let mut at = name.to_lowercase();
    let mut owners = BTreeSet::from([at.clone()]);
    let mut aliases = Vec::new();
    while let Some(next) = links.get(&at) {
        if aliases.len() >= MAX_RECORDS || !owners.insert(next.clone()) {
            break;
        }
        aliases.push(next.to_ascii().trim_end_matches('.').to_owned());
        at = next.clone();
    }
    (owners, aliases)
}

pub(super) fn code_kind(code: ResponseCode) -> FailureKind {
    match code {
        ResponseCode::NXDomain => FailureKind::NxDomain,
        ResponseCode::Refused => FailureKind::DnsRefused,
        _ => FailureKind::ServFail,
    }
}

/// The failure kind of a query. A fault of this machine is reported as an unreachable resolver: in both cases nothing
/// is known about the name.
pub(super) fn failure_kind(stop: &EarlyEnd) -> FailureKind {
    match &stop.origin {
        FailureOrigin::Target(kind) => kind.clone(),
        FailureOrigin::Own(_) => FailureKind::ResolverUnreachable,
    }
}
