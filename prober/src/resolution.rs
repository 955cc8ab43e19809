//! Complete name resolution for `parallax check` and the preflight: waits for both address families and keeps all
//! answers.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use parallax_model::{FailureKind, OwnFault, SearchManner};

use crate::{
    clock::Deadline,
    context::ProbeContext,
    dns::DnsReply,
    failure::{EarlyEnd, FailureOrigin},
    resolv_conf::ResolvConf,
    resolve::{
        search::{NameSearch, ServerAnswer, no_server},
        without_query,
    },
    sanitize::sanitized,
};

/// The resolvers to query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolverChoice {
    /// The machine's resolv.conf, with its search list.
    Machine,
    /// These servers, one after the other, without a search list.
    Servers(Vec<SocketAddr>),
}

/// The result of a name resolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// Each address with its origin: IPv4 first, each family in the order of the response.
    pub addresses: Vec<FoundAddress>,
    /// The result of the deciding IPv4 query.
    pub a: FamilyAnswer,
    /// The result of the deciding IPv6 query.
    pub aaaa: FamilyAnswer,
    /// The names tried, in order, one entry per name and server. Empty for literal addresses and `localhost`.
    pub tried: Vec<TriedName>,
}

impl Resolution {
    /// The reason why a client gets no address; `None` if it gets one.
    #[must_use]
    pub fn failure(&self) -> Option<&FamilyAnswer> {
        if !self.addresses.is_empty() {
            return None;
        }
        // If the two differ, "no address" says less.
        match &self.a {
            FamilyAnswer::Failed { kind, .. } if *kind == FailureKind::NoAddress => Some(&self.aaaa),
            _ => Some(&self.a),
        }
    }
}

/// One address and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundAddress {
    /// The address.
    pub address: IpAddr,
    /// The resolver that returned it; `None` for a literal address and for `localhost`.
    pub resolver: Option<SocketAddr>,
    /// The name that was queried, after the search list.
    pub name: String,
    /// Smallest TTL between the name and the address, in seconds.
    pub ttl_s: Option<u32>,
    /// Whether the answer arrived over TCP, because it was truncated over UDP.
    pub over_tcp: bool,
}

/// The answer of one server for one address family of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FamilyAnswer {
    /// The number of addresses.
    Addresses(usize),
    /// No address; an existing name without addresses of this family is [`FailureKind::NoAddress`].
    Failed {
        /// The failure kind.
        kind: FailureKind,
        /// The error text of the kernel or a library: bounded, without control characters.
        detail: Option<String>,
    },
    /// The query was not made because of a fault of the prober.
    NotQueried {
        /// The fault.
        own: OwnFault,
        /// The error text of the kernel or a library.
        detail: Option<String>,
    },
    /// No query was needed: a literal address of the other family, or a family that the lookup did not wait for.
    NotNeeded,
}

/// The answers of one server for one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriedName {
    /// The name queried, taken as fully qualified.
    pub name: String,
    /// The resolver queried.
    pub resolver: SocketAddr,
    /// The IPv4 answer.
    pub a: FamilyAnswer,
    /// The IPv6 answer.
    pub aaaa: FamilyAnswer,
}

/// The resolutions of one name by both C libraries on one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibcAnswers {
    /// In an image with glibc.
    pub glibc: Resolution,
    /// In an image with musl.
    pub musl: Resolution,
}

impl LibcAnswers {
    /// Whether images with the two libraries get different sets of addresses.
    #[must_use]
    pub fn differ(&self) -> bool {
        sorted_addresses(&self.glibc) != sorted_addresses(&self.musl)
    }
}

fn sorted_addresses(resolution: &Resolution) -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = resolution.addresses.iter().map(|found| found.address).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Looks up a name for both families within the deadline. Never fails itself: failures are in the result.
pub async fn resolve_all(
    context: &ProbeContext,
    name: &str,
    choice: &ResolverChoice,
    manner: SearchManner,
    deadline: Duration,
) -> Resolution {
    if let Some(literal) = without_query(name) {
        return literal_resolution(name, &literal);
    }
    let (conf, asked_for);
    match choice {
        ResolverChoice::Machine => {
            conf = context.resolver.conf();
            asked_for = name.to_owned();
        }
        ResolverChoice::Servers(servers) => {
            conf = std::sync::Arc::new(ResolvConf::from_servers(servers.clone()));
            asked_for = format!("{}.", name.trim_end_matches('.'));
        }
    }
    let walk = NameSearch {
        conf: &conf,
        libc: manner,
        deadline: Deadline::within(deadline),
        family_delay: None,
    };
    // On the heap: its queries take kilobytes, which every surrounding future would contain.
    let answers = Box::pin(walk.run(&asked_for)).await;
    collect(&answers, manner)
}

/// Looks up a name as glibc and as musl would, with the machine's resolv.conf; each has the whole deadline.
pub async fn libc_answers(context: &ProbeContext, name: &str, deadline: Duration) -> LibcAnswers {
    let machine = &ResolverChoice::Machine;
    let (glibc, musl) = tokio::join!(
        resolve_all(context, name, machine, SearchManner::Glibc, deadline),
        resolve_all(context, name, machine, SearchManner::Musl, deadline),
    );
    LibcAnswers { glibc, musl }
}

fn literal_resolution(name: &str, literal: &[IpAddr]) -> Resolution {
    let count = |v4: bool| literal.iter().filter(|address| address.is_ipv4() == v4).count();
    let answer = |count| match count {
        0 => FamilyAnswer::NotNeeded,
        count => FamilyAnswer::Addresses(count),
    };
    Resolution {
        addresses: literal
            .iter()
            .map(|address| FoundAddress {
                address: *address,
                resolver: None,
                name: name.to_owned(),
                ttl_s: None,
                over_tcp: false,
            })
            .collect(),
        a: answer(count(true)),
        aaaa: answer(count(false)),
        tried: Vec::new(),
    }
}

fn collect(answers: &[ServerAnswer], manner: SearchManner) -> Resolution {
    let Some(last) = answers.last() else {
        let no_answer = family_answer(Some(&Err(no_server())));
        return Resolution {
            addresses: Vec::new(),
            a: no_answer.clone(),
            aaaa: no_answer,
            tried: Vec::new(),
        };
    };
    let mut addresses = Vec::new();
    if last.failure(manner).is_none() {
        for reply in [&last.a, &last.aaaa].into_iter().flatten().flatten() {
            addresses.extend(reply.addresses.iter().map(|address| FoundAddress {
                address: *address,
                resolver: Some(last.server),
                name: last.name.clone(),
                ttl_s: reply.ttl,
                over_tcp: reply.over_tcp,
            }));
        }
    }
    let tried: Vec<TriedName> = answers
        .iter()
        .map(|one| TriedName {
            name: one.name.clone(),
            resolver: one.server,
            a: family_answer(one.a.as_ref()),
            aaaa: family_answer(one.aaaa.as_ref()),
        })
        .collect();
    Resolution {
        addresses,
        a: family_answer(last.a.as_ref()),
        aaaa: family_answer(last.aaaa.as_ref()),
        tried,
    }
}

fn family_answer(reply: Option<&Result<DnsReply, EarlyEnd>>) -> FamilyAnswer {
    match reply {
        None => FamilyAnswer::NotNeeded,
        Some(Ok(DnsReply {
            failure: None,
            addresses,
            ..
        })) => FamilyAnswer::Addresses(addresses.len()),
        Some(Ok(DnsReply {
            failure: Some(kind), ..
        })) => FamilyAnswer::Failed {
            kind: kind.clone(),
            detail: None,
        },
        Some(Err(stop)) => {
            let detail = stop.detail.as_deref().map(sanitized);
            match &stop.origin {
                FailureOrigin::Target(kind) => FamilyAnswer::Failed {
                    kind: kind.clone(),
                    detail,
                },
                FailureOrigin::Own(own) => FamilyAnswer::NotQueried { own: *own, detail },
            }
        }
    }
}
