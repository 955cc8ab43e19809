//! Resolves names as a client's C library does, with full control over servers and queries.
//!
//! `/etc/hosts` is not consulted: a probe tests the cluster's resolvers, and an entry in the prober's own image would
//! hide their answers. Only `localhost` is answered without a query, as RFC 6761 §6.3 requires.

mod recheck;
pub(crate) mod search;

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use parallax_model::{DnsAnswer, FailureKind, OwnFault, Phase, RecordType, SearchManner};
use parking_lot::Mutex;

use self::{
    recheck::with_recheck,
    search::{NameSearch, ServerAnswer, no_server},
};
use crate::{
    clock::Deadline,
    dns::{self, DnsQuestion, DnsTransportKind},
    failure::{EarlyEnd, FailureOrigin},
    resolv_conf::ResolvConf,
};

/// How long a lookup waits for the other address family once one has answered (RFC 8305 §3, "Resolution Delay").
const FAMILY_DELAY: Duration = Duration::from_millis(50);

/// How often the file is checked for changes; glibc checks it at each lookup.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// A resolved name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvedName {
    /// Addresses in order of preference: IPv4 first, each family in the order of the response.
    pub(crate) addresses: Vec<IpAddr>,
    /// The answer of the resolver; `None` for a literal address and for `localhost`.
    pub(crate) answer: Option<DnsAnswer>,
}

/// A name that could not be resolved, with the answer of the resolver if there was one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnresolvedName {
    pub(crate) stop: EarlyEnd,
    pub(crate) answer: Option<Box<DnsAnswer>>,
}

impl From<EarlyEnd> for UnresolvedName {
    fn from(stop: EarlyEnd) -> Self {
        Self { stop, answer: None }
    }
}

/// The machine's resolvers and search list, reloaded when the file changes.
#[derive(Debug)]
pub(crate) struct Resolver {
    path: PathBuf,
    cached: Mutex<CachedConf>,
}

#[derive(Debug, Clone)]
struct CachedConf {
    checked: Option<Instant>,
    modified: Option<SystemTime>,
    conf: Arc<ResolvConf>,
}

impl Resolver {
    /// Uses a file in the format of `resolv.conf(5)`. Without the file there is no resolver, and a lookup fails with
    /// [`OwnFault::NoResolver`].
    #[must_use]
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            cached: Mutex::new(CachedConf {
                checked: None,
                modified: None,
                conf: Arc::default(),
            }),
        }
    }

    pub(crate) fn conf(&self) -> Arc<ResolvConf> {
        let mut seen = self.cached.lock();
        if seen.checked.is_some_and(|at| at.elapsed() < RELOAD_INTERVAL) {
            return Arc::clone(&seen.conf);
        }
        seen.checked = Some(Instant::now());
        // A small local file: reading it takes less time than handing it to another thread.
        let changed = fs::metadata(&self.path).and_then(|meta| meta.modified()).ok();
        if changed.is_none() || changed != seen.modified {
            let text = fs::read_to_string(&self.path).unwrap_or_default();
            seen.conf = Arc::new(ResolvConf::parse(&text));
            seen.modified = changed;
        }
        Arc::clone(&seen.conf)
    }

    /// The machine's first resolver.
    pub(crate) fn first_server(&self) -> Option<SocketAddr> {
        self.conf().servers.first().copied()
    }

    /// Looks up a name for both families concurrently, with search list and `ndots` as in the given C library. A given
    /// server is queried instead of the machine's, for the name as it is.
    pub(crate) async fn lookup(
        &self,
        name: &str,
        manner: SearchManner,
        server: Option<SocketAddr>,
        deadline: Deadline,
    ) -> Result<ResolvedName, UnresolvedName> {
        if let Some(addresses) = without_query(name) {
            return Ok(ResolvedName {
                addresses,
                answer: None,
            });
        }
        let conf = match server {
            Some(server) => Arc::new(ResolvConf::from_servers(vec![server])),
            None => self.conf(),
        };
        if conf.servers.is_empty() {
            let detail = format!("{} contains no nameserver", self.path.display());
            return Err(EarlyEnd::new(Phase::Resolve, OwnFault::NoResolver)
                .with_detail(detail)
                .into());
        }
        let walk = NameSearch {
            conf: &conf,
            libc: manner,
            deadline,
            family_delay: (manner == SearchManner::Glibc).then_some(FAMILY_DELAY),
        };
        let answers = walk.run(name).await;
        match answers.last() {
            Some(last) if last.failure(manner).is_none() => Ok(resolved_name(last, &answers)),
            _ => Err(search_failure(&answers, name, &walk)),
        }
    }
}

/// Returns the addresses of literal addresses and of `localhost`, which need no query.
pub(crate) fn without_query(name: &str) -> Option<Vec<IpAddr>> {
    if let Ok(address) = name.parse() {
        return Some(vec![address]);
    }
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    (name == "localhost" || name.ends_with(".localhost"))
        .then(|| vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
}

/// Returns the addresses from the server that answered, with its earlier unanswered queries.
fn resolved_name(server_answer: &ServerAnswer, all: &[ServerAnswer]) -> ResolvedName {
    let mut answer = merge_families(server_answer);
    let mut earlier = all.iter().filter(|other| other.server == server_answer.server);
    answer.unanswered = earlier.find_map(ServerAnswer::unanswered);
    let addresses = [&server_answer.a, &server_answer.aaaa]
        .into_iter()
        .flatten()
        .flatten()
        .flat_map(|reply| reply.addresses.iter().copied())
        .collect();
    ResolvedName {
        addresses,
        answer: Some(answer),
    }
}

/// Merges both families of one server into one answer.
fn merge_families(server_answer: &ServerAnswer) -> DnsAnswer {
    let replies = || {
        [&server_answer.a, &server_answer.aaaa]
            .into_iter()
            .flatten()
            .flatten()
    };
    let mut addresses: Vec<IpAddr> = replies().flat_map(|r| r.addresses.iter().copied()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    // If one family has addresses, the TTL of the other family's negative response does not apply to them.
    let decides = |reply: &&dns::DnsReply| addresses.is_empty() || !reply.addresses.is_empty();
    let ttl_s = replies().filter(decides).filter_map(|reply| reply.ttl).min();
    DnsAnswer {
        resolver: server_answer.server,
        name: server_answer.name.clone(),
        addresses,
        ttl_s,
        tcp: replies().any(|reply| reply.over_tcp),
        unanswered: server_answer.unanswered(),
    }
}

/// Picks the failure of a search that the client reports: the one that ended the search; otherwise an existing name
/// without address, a failed resolver, or the failure of the name without a search domain, in this order.
fn search_failure(answers: &[ServerAnswer], name: &str, walk: &NameSearch<'_>) -> UnresolvedName {
    let failed = |one: &ServerAnswer| {
        one.failure(walk.libc).map(|stop| UnresolvedName {
            stop,
            answer: Some(Box::new(merge_families(one))),
        })
    };
    let Some(last) = answers.last().and_then(failed) else {
        return no_server().into();
    };
    if !walk.continues_after(&last.stop.origin) {
        return last;
    }
    let plain = name.trim_end_matches('.');
    let with = |kind: FailureKind| {
        answers
            .iter()
            .rev()
            .filter_map(failed)
            .find(|one| one.stop.origin == FailureOrigin::Target(kind.clone()))
    };
    with(FailureKind::NoAddress)
        .or_else(|| with(FailureKind::ServFail))
        .or_else(|| {
            answers
                .iter()
                .rev()
                .find(|one| one.name == plain)
                .and_then(failed)
        })
        .unwrap_or(last)
}

/// Sends one query to one given server, for the `dns` channel: no search list, no second attempt, no other server.
pub(crate) async fn query(
    server: SocketAddr,
    name: &str,
    record: RecordType,
    transport: DnsTransportKind,
    deadline: Deadline,
) -> Result<DnsAnswer, UnresolvedName> {
    let name = name.trim_end_matches('.');
    let question = DnsQuestion::new(name, record).map_err(|wrong| {
        EarlyEnd::new(Phase::Resolve, FailureKind::NxDomain).with_detail(format!("{name:?}: {wrong}"))
    })?;
    let reply = dns::query_addresses(server, &question, transport, deadline);
    let (reply, recheck) = with_recheck(server, deadline, reply, || question.clone()).await;
    let (a, aaaa) = match record {
        RecordType::A => (Some(reply), None),
        RecordType::Aaaa => (None, Some(reply)),
    };
    let server_answer = ServerAnswer {
        name: name.to_owned(),
        server,
        a,
        aaaa,
        recheck,
    };
    let answer = merge_families(&server_answer);
    match server_answer.failure(SearchManner::Glibc) {
        None => Ok(answer),
        Some(stop) => Err(UnresolvedName {
            stop,
            answer: Some(Box::new(answer)),
        }),
    }
}
