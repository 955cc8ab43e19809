//! Everything a name leads to, family by family, for people and for the preflight: nothing is raced or hidden.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use parallax_model::{FailureKind, OwnFault, SearchManner};

use crate::{
    classify::{EarlyEnd, FailureOrigin},
    clock::Deadline,
    context::ProbeContext,
    dns::DnsReply,
    resolv_conf::ResolvConf,
    resolve::{
        walk::{ResolverWalk, ServerAnswer, no_server},
        without_question,
    },
    text::tamed,
};

/// Who is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolverChoice {
    /// The machine's resolv.conf, with its search list.
    Machine,
    /// These servers one after the other, the name as it is.
    Servers(Vec<SocketAddr>),
}

/// What a name led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// Each address with where it came from: IPv4 first, each family as its server ordered it.
    pub addresses: Vec<FoundAddress>,
    /// What became of the IPv4 question that decided.
    pub a: FamilyAnswer,
    /// What became of the IPv6 question that decided.
    pub aaaa: FamilyAnswer,
    /// The names tried, in order, one entry a name and server. Empty for literal addresses and `localhost`.
    pub tried: Vec<TriedName>,
}

impl Resolution {
    /// Why a client of this manner gets no address; absent where it gets one.
    #[must_use]
    pub fn failure(&self) -> Option<&FamilyAnswer> {
        if !self.addresses.is_empty() {
            return None;
        }
        // "No address" is the weaker word where the two differ.
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
    /// Who said so; absent for a literal address and for `localhost`.
    pub resolver: Option<SocketAddr>,
    /// The name that was asked for, after the search list.
    pub name: String,
    /// Smallest TTL between the name and the address, in seconds.
    pub ttl_s: Option<u32>,
    /// The answer came over TCP, because it was truncated over UDP.
    pub tcp: bool,
}

/// What one server said of one family of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FamilyAnswer {
    /// It has so many addresses.
    Addresses(usize),
    /// It has none, and why; an existing name without addresses of this family is [`FailureKind::NoAddress`].
    Failed {
        /// Why.
        kind: FailureKind,
        /// What the kernel or a library said of it: bounded, without control characters.
        detail: Option<String>,
    },
    /// It was not asked, for a reason of our own.
    NotAsked {
        /// Why.
        own: OwnFault,
        /// What the kernel or a library said of it.
        detail: Option<String>,
    },
    /// It was not asked because there was no need: a literal address of the other family.
    Unneeded,
}

/// One name at one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriedName {
    /// The name asked for, taken as fully qualified.
    pub name: String,
    /// Who was asked.
    pub resolver: SocketAddr,
    /// Of IPv4.
    pub a: FamilyAnswer,
    /// Of IPv6.
    pub aaaa: FamilyAnswer,
}

/// The answers of both C libraries for one name on one machine (R20).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibcAnswers {
    /// As a glibc image sees it.
    pub glibc: Resolution,
    /// As a musl image sees it.
    pub musl: Resolution,
}

impl LibcAnswers {
    /// Whether an image of the one library reaches another set of addresses than one of the other.
    #[must_use]
    pub fn differ(&self) -> bool {
        addresses(&self.glibc) != addresses(&self.musl)
    }
}

fn addresses(resolution: &Resolution) -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = resolution.addresses.iter().map(|found| found.address).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Looks a name up, both families to their end, within the deadline. Never fails itself: what became of each family
/// is in the result.
pub async fn resolve_all(
    context: &ProbeContext,
    name: &str,
    choice: &ResolverChoice,
    manner: SearchManner,
    deadline: Duration,
) -> Resolution {
    if let Some(literal) = without_question(name) {
        return without_server(name, &literal);
    }
    let (conf, asked_for);
    match choice {
        ResolverChoice::Machine => {
            conf = context.resolver.conf();
            asked_for = name.to_owned();
        }
        ResolverChoice::Servers(servers) => {
            conf = std::sync::Arc::new(ResolvConf::of_servers(servers.clone()));
            asked_for = format!("{}.", name.trim_end_matches('.'));
        }
    }
    let walk = ResolverWalk {
        conf: &conf,
        manner,
        deadline: Deadline::within(deadline),
        patience: None,
    };
    // On the heap: its questions take kilobytes, and every future around it would hold them.
    let asked = Box::pin(walk.walk(&asked_for)).await;
    collect(&asked, manner)
}

/// Looks a name up as glibc and as musl would, with the machine's resolv.conf; each has the whole deadline.
pub async fn libc_answers(context: &ProbeContext, name: &str, deadline: Duration) -> LibcAnswers {
    let machine = &ResolverChoice::Machine;
    let (glibc, musl) = tokio::join!(
        resolve_all(context, name, machine, SearchManner::Glibc, deadline),
        resolve_all(context, name, machine, SearchManner::Musl, deadline),
    );
    LibcAnswers { glibc, musl }
}

fn without_server(name: &str, literal: &[IpAddr]) -> Resolution {
    let count = |v4: bool| literal.iter().filter(|address| address.is_ipv4() == v4).count();
    let answer = |count| match count {
        0 => FamilyAnswer::Unneeded,
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
                tcp: false,
            })
            .collect(),
        a: answer(count(true)),
        aaaa: answer(count(false)),
        tried: Vec::new(),
    }
}

fn collect(asked: &[ServerAnswer], manner: SearchManner) -> Resolution {
    let Some(last) = asked.last() else {
        let nobody = family(Some(&Err(no_server())));
        return Resolution {
            addresses: Vec::new(),
            a: nobody.clone(),
            aaaa: nobody,
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
                tcp: reply.tcp,
            }));
        }
    }
    let tried: Vec<TriedName> = asked
        .iter()
        .map(|one| TriedName {
            name: one.name.clone(),
            resolver: one.server,
            a: family(one.a.as_ref()),
            aaaa: family(one.aaaa.as_ref()),
        })
        .collect();
    Resolution {
        addresses,
        a: family(last.a.as_ref()),
        aaaa: family(last.aaaa.as_ref()),
        tried,
    }
}

fn family(reply: Option<&Result<DnsReply, EarlyEnd>>) -> FamilyAnswer {
    match reply {
        None => FamilyAnswer::Unneeded,
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
            let detail = stop.detail.as_deref().map(tamed);
            match &stop.fault {
                FailureOrigin::Target(kind) => FamilyAnswer::Failed {
                    kind: kind.clone(),
                    detail,
                },
                FailureOrigin::Own(own) => FamilyAnswer::NotAsked { own: *own, detail },
            }
        }
    }
}
