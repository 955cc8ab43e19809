//! Finds and queries the authoritative servers of a name: from the nearest enclosing zone down along the referrals.

use std::net::{IpAddr, SocketAddr};

use futures_util::future::join_all;
use hickory_proto::{
    op::Message,
    rr::{Name, RData, RecordType},
};
use parallax_model::{
    FailureKind, Scope,
    dns::{NameView, ServerOwner, caa_names},
};

use super::{
    server_view::{code_kind, failure_kind, query_server},
    wire_name,
};
use crate::{clock::Deadline, dns::query_records};

/// Maximum number of servers queried per zone. More of them would rarely add a difference.
const MAX_SERVERS: usize = 4;

/// Maximum number of referrals followed; each leads at least one label down.
const MAX_REFERRALS: usize = 8;

const PORT: u16 = 53;

#[derive(Debug, Clone, PartialEq, Eq)]
struct ZoneServers {
    name: Name,
    servers: Vec<(Name, IpAddr)>,
}

/// The resolver that is queried to find servers, and the scope of their addresses.
#[derive(Clone, Copy)]
struct AuthorityGuide<'a> {
    resolver: SocketAddr,
    scope: Option<&'a Scope>,
}

impl AuthorityGuide<'_> {
    /// Whether a server may be queried. The owner of a zone chooses the addresses of its servers, so they must be
    /// within the scope of the run.
    fn allows(&self, address: &IpAddr) -> bool {
        self.scope.is_none_or(|scope| scope.refusal(*address).is_none())
    }
}

/// Queries each authoritative server of the name's zone, without recursion.
pub(super) async fn query_authorities(
    name: &str,
    guide: SocketAddr,
    scope: Option<&Scope>,
    deadline: Deadline,
) -> Result<Vec<NameView>, FailureKind> {
    let Some(wire) = wire_name(name) else {
        return Err(FailureKind::NxDomain);
    };
    let guide = AuthorityGuide {
        resolver: guide,
        scope,
    };
    let mut zone = enclosing_zone(name, guide, deadline).await?;
    for _ in 0..MAX_REFERRALS {
        match delegated_zone(&zone, &wire, guide, deadline).await {
            Some(deeper) => zone = deeper,
            None => break,
        }
    }
    let text = |name: &Name| name.to_ascii().trim_end_matches('.').to_owned();
    let views = zone.servers.iter().map(|(server, address)| {
        let by = ServerOwner::Authority {
            zone: text(&zone.name),
            server: text(server),
        };
        query_server(name, by, SocketAddr::new(*address, PORT), false, deadline)
    });
    Ok(join_all(views).await)
}

/// Returns the nearest zone of the name or a parent domain for which the guide knows servers.
async fn enclosing_zone(
    name: &str,
    guide: AuthorityGuide<'_>,
    deadline: Deadline,
) -> Result<ZoneServers, FailureKind> {
    let mut last = FailureKind::NoAddress;
    for above in caa_names(name) {
        let Some(wire) = wire_name(&above) else { continue };
        let message = match query_records(guide.resolver, &wire, RecordType::NS, true, deadline).await {
            Ok(message) => message,
            Err(stop) => return Err(failure_kind(&stop)),
        };
        let servers = ns_names(message.answers.iter(), &wire);
        if servers.is_empty() {
            last = code_kind(message.metadata.response_code);
            continue;
        }
        let servers = server_addresses(servers, &message, guide, deadline).await;
        if servers.is_empty() {
            return Err(FailureKind::NoAddress);
        }
        return Ok(ZoneServers { name: wire, servers });
    }
    Err(last)
}

/// Returns the zone to which the first responding server refers for this name; `None` if that server is authoritative.
async fn delegated_zone(
    zone: &ZoneServers,
    name: &Name,
    guide: AuthorityGuide<'_>,
    deadline: Deadline,
) -> Option<ZoneServers> {
    for (_, address) in &zone.servers {
        let response = query_records(
            SocketAddr::new(*address, PORT),
            name,
            RecordType::A,
            false,
            deadline,
        )
        .await;
        let Ok(message) = response else { continue };
        if message.metadata.authoritative || !message.answers.is_empty() {
            return None;
        }
        let cut = message
            .authorities
            .iter()
            .find(|one| {
                one.record_type() == RecordType::NS && one.name != zone.name && zone.name.zone_of(&one.name)
            })?
            .name
            .clone();
        let servers = ns_names(message.authorities.iter(), &cut);
        let servers = server_addresses(servers, &message, guide, deadline).await;
        return (!servers.is_empty()).then_some(ZoneServers { name: cut, servers });
    }
    None
}

fn ns_names<'a>(records: impl Iterator<Item = &'a hickory_proto::rr::Record>, zone: &Name) -> Vec<Name> {
    let mut servers: Vec<Name> = records
        .filter(|one| one.name == *zone)
        .filter_map(|one| match &one.data {
            RData::NS(server) => Some(server.0.to_lowercase()),
            _ => None,
        })
        .collect();
    servers.sort_unstable();
    servers.truncate(MAX_SERVERS);
    servers
}

/// Returns one address per server: the glue record of the message, or the answer of the guide.
async fn server_addresses(
    servers: Vec<Name>,
    message: &Message,
    guide: AuthorityGuide<'_>,
    deadline: Deadline,
) -> Vec<(Name, IpAddr)> {
    let found = join_all(servers.into_iter().map(async |server| {
        let glue = message.additionals.iter().find_map(|one| match &one.data {
            RData::A(a) if one.name == server => Some(a.0.into()).filter(|address| guide.allows(address)),
            _ => None,
        });
        if let Some(address) = glue {
            return Some((server, address));
        }
        for record in [RecordType::A, RecordType::AAAA] {
            let Ok(message) = query_records(guide.resolver, &server, record, true, deadline).await else {
                continue;
            };
            let address = message.answers.iter().find_map(|one| match &one.data {
                RData::A(a) => Some(a.0.into()).filter(|address| guide.allows(address)),
                RData::AAAA(aaaa) => Some(aaaa.0.into()).filter(|address| guide.allows(address)),
                _ => None,
            });
            if let Some(address) = address {
                return Some((server, address));
            }
        }
        None
    }))
    .await;
    found.into_iter().flatten().collect()
}
