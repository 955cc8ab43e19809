//! Names to addresses as a client of glibc sees them, with every server and question under our own control.
//!
//! `/etc/hosts` is not consulted: a probe asks what the cluster's resolvers say, and an entry of the prober's own image
//! would hide that. `localhost` alone is answered without a question, as RFC 6761 §6.3 demands.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use parallax_model::{DnsAnswer, FailureKind, OwnFault, Phase, RecordType};
use parking_lot::Mutex;

use crate::{
    classify::{Fault, Stop},
    clock::Deadline,
    dns::{self, Question, Reply},
    resolv_conf::ResolvConf,
};

/// How long addresses of the one family wait for the other one's (RFC 8305 §3, "Resolution Delay").
const OTHER_FAMILY: Duration = Duration::from_millis(50);

/// How often the file is looked at again; glibc looks at each lookup.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What a name led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Addresses in order of preference: IPv4 first, each family as the server ordered it.
    pub(crate) addresses: Vec<IpAddr>,
    /// Who said so; absent for a literal address and for `localhost`.
    pub(crate) answer: Option<DnsAnswer>,
}

/// A name that led nowhere, and what was learnt of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unresolved {
    pub(crate) stop: Stop,
    pub(crate) answer: Option<Box<DnsAnswer>>,
}

impl Unresolved {
    fn new(fault: impl Into<Fault>, detail: impl Into<String>) -> Self {
        Self {
            stop: Stop::new(Phase::Resolve, fault).because(detail),
            answer: None,
        }
    }
}

/// The machine's resolvers and search list, followed as the file changes.
#[derive(Debug)]
pub(crate) struct Resolver {
    path: PathBuf,
    seen: Mutex<Seen>,
}

#[derive(Debug, Clone)]
struct Seen {
    looked: Option<Instant>,
    changed: Option<SystemTime>,
    conf: Arc<ResolvConf>,
}

impl Resolver {
    /// Follows a file in the form of `resolv.conf(5)`. Without the file there is no resolver, and asking is
    /// [`OwnFault::NoResolver`].
    #[must_use]
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            seen: Mutex::new(Seen {
                looked: None,
                changed: None,
                conf: Arc::default(),
            }),
        }
    }

    fn conf(&self) -> Arc<ResolvConf> {
        let mut seen = self.seen.lock();
        if seen.looked.is_some_and(|at| at.elapsed() < LOOK_AGAIN) {
            return Arc::clone(&seen.conf);
        }
        seen.looked = Some(Instant::now());
        // A small local file: reading it takes less than handing it to another thread.
        let changed = fs::metadata(&self.path).and_then(|meta| meta.modified()).ok();
        if changed.is_none() || changed != seen.changed {
            let text = fs::read_to_string(&self.path).unwrap_or_default();
            seen.conf = Arc::new(ResolvConf::parse(&text));
            seen.changed = changed;
        }
        Arc::clone(&seen.conf)
    }

    /// The machine's own first resolver.
    pub(crate) fn first(&self) -> Option<SocketAddr> {
        self.conf().servers.first().copied()
    }

    /// Looks a name up: both families at once, search list and `ndots` in the manner of glibc's `res_search`.
    pub(crate) async fn lookup(&self, name: &str, deadline: Deadline) -> Result<Resolved, Unresolved> {
        if let Some(addresses) = without_question(name) {
            return Ok(Resolved {
                addresses,
                answer: None,
            });
        }
        let conf = self.conf();
        if conf.servers.is_empty() {
            let detail = format!("{} names no nameserver", self.path.display());
            return Err(Unresolved::new(OwnFault::NoResolver, detail));
        }
        let plain = name.trim_end_matches('.');
        let mut verdict = Verdict::default();
        for candidate in conf.candidates(name) {
            match ask_servers(&conf, &candidate, deadline).await {
                Ok(resolved) => return Ok(resolved),
                Err(failed) => {
                    let on = goes_on(&failed.stop.fault);
                    verdict.add(failed, candidate == plain);
                    if !on {
                        break;
                    }
                }
            }
        }
        Err(verdict.sum(name))
    }
}

/// Literal addresses and `localhost` need no resolver.
fn without_question(name: &str) -> Option<Vec<IpAddr>> {
    if let Ok(address) = name.parse() {
        return Some(vec![address]);
    }
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    (name == "localhost" || name.ends_with(".localhost"))
        .then(|| vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
}

/// Whether the search goes on after this failure. glibc goes on after "no such name", "no address" and SERVFAIL and
/// stops where a resolver is silent, refuses or cannot be reached.
fn goes_on(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Target(FailureKind::NxDomain | FailureKind::NoAddress | FailureKind::ServFail)
    )
}

/// The failures of a search, of which the client sees one.
#[derive(Debug, Default)]
struct Verdict {
    as_it_is: Option<Unresolved>,
    no_address: Option<Unresolved>,
    servfail: Option<Unresolved>,
    last: Option<Unresolved>,
}

impl Verdict {
    fn add(&mut self, failed: Unresolved, as_it_is: bool) {
        match failed.stop.fault {
            Fault::Target(FailureKind::NoAddress) => self.no_address = Some(failed.clone()),
            Fault::Target(FailureKind::ServFail) => self.servfail = Some(failed.clone()),
            _ => {}
        }
        if as_it_is {
            self.as_it_is = Some(failed.clone());
        }
        self.last = Some(failed);
    }

    /// What ended the search tells most; else an existing name without address, else a failed resolver, else what was
    /// said of the name as it is.
    fn sum(self, name: &str) -> Unresolved {
        let ended = self.last.as_ref().is_some_and(|last| !goes_on(&last.stop.fault));
        let last = self.last.clone();
        ended
            .then_some(self.last)
            .flatten()
            .or(self.no_address)
            .or(self.servfail)
            .or(self.as_it_is)
            .or(last)
            .unwrap_or_else(|| Unresolved::new(FailureKind::NxDomain, format!("{name:?} is no domain name")))
    }
}

/// Goes through the servers as often as configured until one says something final.
async fn ask_servers(conf: &ResolvConf, name: &str, deadline: Deadline) -> Result<Resolved, Unresolved> {
    let mut last = None;
    for _ in 0..conf.attempts {
        for server in &conf.servers {
            let turn = deadline.at_most(conf.timeout);
            match both_families(*server, name, turn).await {
                Ok(resolved) => return Ok(resolved),
                Err(failed) => {
                    let decided = matches!(
                        failed.stop.fault,
                        Fault::Target(FailureKind::NxDomain | FailureKind::NoAddress) | Fault::Own(_)
                    );
                    if decided || deadline.left().is_zero() {
                        return Err(failed);
                    }
                    last = Some(failed);
                }
            }
        }
    }
    Err(last.unwrap_or_else(|| Unresolved::new(OwnFault::NoResolver, "no nameserver is configured")))
}

/// Asks one server for both families on a socket each.
async fn both_families(server: SocketAddr, name: &str, deadline: Deadline) -> Result<Resolved, Unresolved> {
    let (Ok(a), Ok(aaaa)) = (
        Question::new(name, RecordType::A),
        Question::new(name, RecordType::Aaaa),
    ) else {
        return Err(Unresolved::new(
            FailureKind::NxDomain,
            format!("{name:?} is no domain name"),
        ));
    };
    let mut a = std::pin::pin!(dns::ask(server, &a, deadline));
    let mut aaaa = std::pin::pin!(dns::ask(server, &aaaa, deadline));
    let (a, aaaa) = tokio::select! {
        biased;
        first = &mut a => {
            let second = if useful(&first) { deadline.at_most(OTHER_FAMILY).bound(aaaa).await.ok() } else { Some(aaaa.await) };
            (Some(first), second)
        }
        // IPv4 is preferred, so it is waited for.
        second = &mut aaaa => {
            let first = if useful(&second) { deadline.bound(a).await.ok() } else { Some(a.await) };
            (first, Some(second))
        }
    };
    merge(server, name, a, aaaa)
}

fn useful(answer: &Result<Reply, Stop>) -> bool {
    matches!(answer, Ok(reply) if reply.failure.is_none())
}

/// One answer of two questions. Addresses of either family make it a success; among two failures the one that says
/// more than "no address of this family" counts.
fn merge(
    server: SocketAddr,
    name: &str,
    a: Option<Result<Reply, Stop>>,
    aaaa: Option<Result<Reply, Stop>>,
) -> Result<Resolved, Unresolved> {
    let mut answer = DnsAnswer {
        resolver: server,
        name: name.to_owned(),
        addresses: Vec::new(),
        ttl_s: None,
        tcp: false,
    };
    let mut addresses = Vec::new();
    let mut stop: Option<Stop> = None;
    for reply in [a, aaaa].into_iter().flatten() {
        let failed = match reply {
            Ok(reply) => {
                answer.ttl_s = [answer.ttl_s, reply.ttl].into_iter().flatten().min();
                answer.tcp |= reply.tcp;
                addresses.extend(reply.addresses);
                reply.failure.map(|kind| Stop::new(Phase::Resolve, kind))
            }
            Err(stop) => Some(stop),
        };
        if let Some(failed) = failed
            && stop
                .as_ref()
                .is_none_or(|known| known.fault == FailureKind::NoAddress.into())
        {
            stop = Some(failed);
        }
    }
    if addresses.is_empty() {
        let stop = stop.unwrap_or_else(|| Stop::timeout(Phase::Resolve));
        return Err(Unresolved {
            stop,
            answer: Some(Box::new(answer)),
        });
    }
    answer.addresses.clone_from(&addresses);
    answer.addresses.sort_unstable();
    answer.addresses.dedup();
    Ok(Resolved {
        addresses,
        answer: Some(answer),
    })
}

/// One question to one named server, for the `dns` channel: no search list, no second attempt, no other server.
pub(crate) async fn question(
    server: SocketAddr,
    name: &str,
    record: RecordType,
    deadline: Deadline,
) -> Result<DnsAnswer, Unresolved> {
    let name = name.trim_end_matches('.');
    let question = Question::new(name, record)
        .map_err(|wrong| Unresolved::new(FailureKind::NxDomain, format!("{name:?}: {wrong}")))?;
    let reply = dns::ask(server, &question, deadline).await;
    match merge(server, name, Some(reply), None) {
        Ok(Resolved {
            answer: Some(answer), ..
        }) => Ok(answer),
        Ok(_) => Err(Unresolved::new(FailureKind::NoAddress, "no answer")),
        Err(failed) => Err(failed),
    }
}
