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

use super::wire;
use crate::{
    classify::{EarlyEnd, FailureOrigin},
    clock::Deadline,
    dns::ask_for,
    text::tamed,
};

/// Maximum number of addresses, aliases and records kept per answer; names in ordinary use have fewer.
const MOST: usize = 32;

/// Queries a server for all record types concurrently.
pub(super) async fn view(
    name: &str,
    by: ServerOwner,
    server: SocketAddr,
    recursion: bool,
    deadline: Deadline,
) -> NameView {
    let (a, aaaa, caa) = tokio::join!(
        addresses(name, RecordType::A, server, recursion, deadline),
        addresses(name, RecordType::AAAA, server, recursion, deadline),
        caa(name, server, recursion, deadline),
    );
    let (a, of_a) = a;
    let (aaaa, of_aaaa) = aaaa;
    NameView {
        by,
        server,
        a,
        aaaa,
        aliases: if of_a.is_empty() { of_aaaa } else { of_a },
        caa,
    }
}

async fn addresses(
    name: &str,
    record: RecordType,
    server: SocketAddr,
    recursion: bool,
    deadline: Deadline,
) -> (RecordAnswer, Vec<String>) {
    let Some(wire) = wire(name) else {
        return (RecordAnswer::NoName, Vec::new());
    };
    let message = match ask_for(server, &wire, record, recursion, deadline).await {
        Ok(message) => message,
        Err(stop) => return (RecordAnswer::Failed(kind(&stop)), Vec::new()),
    };
    let (owners, aliases) = followed(&message, &wire);
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
    addresses.truncate(MOST);
    let answer = match message.metadata.response_code {
        ResponseCode::NoError if addresses.is_empty() => RecordAnswer::None,
        ResponseCode::NoError => RecordAnswer::Addresses(addresses),
        ResponseCode::NXDomain => RecordAnswer::NoName,
        code => RecordAnswer::Failed(of_code(code)),
    };
    (answer, aliases)
}

/// Queries the CAA records of one name. Records of a name that it is an alias of count as its own.
pub(super) async fn caa(name: &str, server: SocketAddr, recursion: bool, deadline: Deadline) -> CaaAnswer {
    let Some(wire) = wire(name) else {
        return CaaAnswer::None;
    };
    let message = match ask_for(server, &wire, RecordType::CAA, recursion, deadline).await {
        Ok(message) => message,
        Err(stop) => return CaaAnswer::Failed(kind(&stop)),
    };
    let (owners, _) = followed(&message, &wire);
    let records: Vec<CaaRecord> = message
        .answers
        .iter()
        .filter(|one| owners.contains(&one.name.to_lowercase()))
        .filter_map(|one| match &one.data {
            RData::CAA(caa) => Some(CaaRecord {
                flags: caa.flags(),
                tag: tamed(&caa.tag),
                value: tamed(&String::from_utf8_lossy(&caa.value)),
            }),
            _ => None,
        })
        .take(MOST)
        .collect();
    match message.metadata.response_code {
        ResponseCode::NoError if records.is_empty() => CaaAnswer::None,
        ResponseCode::NoError => CaaAnswer::Records(records),
        // A name that does not exist has no records; a top-level domain that does not exist is a failure.
        ResponseCode::NXDomain if wire.num_labels() > 1 => CaaAnswer::None,
        code => CaaAnswer::Failed(of_code(code)),
    }
}

/// Returns the name with everything it is an alias of, and the aliases in order.
fn followed(message: &Message, name: &Name) -> (BTreeSet<Name>, Vec<String>) {
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
        if aliases.len() >= MOST || !owners.insert(next.clone()) {
            break;
        }
        aliases.push(next.to_ascii().trim_end_matches('.').to_owned());
        at = next.clone();
    }
    (owners, aliases)
}

pub(super) fn of_code(code: ResponseCode) -> FailureKind {
    match code {
        ResponseCode::NXDomain => FailureKind::NxDomain,
        ResponseCode::Refused => FailureKind::DnsRefused,
        _ => FailureKind::ServFail,
    }
}

/// The failure kind of a query. A fault of this machine is reported as an unreachable resolver: in both cases nothing
/// is known about the name.
pub(super) fn kind(stop: &EarlyEnd) -> FailureKind {
    match &stop.fault {
        FailureOrigin::Target(kind) => kind.clone(),
        FailureOrigin::Own(_) => FailureKind::ResolverUnreachable,
    }
}
