//! The walk of a name through search list and servers, in the manner of either C library; every answer is kept.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use parallax_model::{FailureKind, OwnFault, Phase, RecordType, SearchManner};

use super::recheck::{Recheck, watched};
use crate::{
    classify::{EarlyEnd, FailureOrigin},
    clock::Deadline,
    dns::{self, DnsQuestion, DnsReply, DnsTransportKind},
    resolv_conf::ResolvConf,
};

/// What became of one question.
type QuestionResult = Result<DnsReply, EarlyEnd>;

/// What was said of one name by one server.
#[derive(Debug, Clone)]
pub(crate) struct ServerAnswer {
    pub(crate) name: String,
    pub(crate) server: SocketAddr,
    /// Absent where it was not waited for.
    pub(crate) a: Option<QuestionResult>,
    /// As `a`.
    pub(crate) aaaa: Option<QuestionResult>,
    /// What was learnt of a question that was waited for in vain.
    pub(crate) recheck: Recheck,
}

impl ServerAnswer {
    fn replies(&self) -> impl Iterator<Item = &Result<DnsReply, EarlyEnd>> {
        self.a.iter().chain(&self.aaaa)
    }

    fn found(&self) -> bool {
        self.replies().any(useful)
    }

    /// Why a client of this manner gets no address out of it; absent where it gets one.
    pub(crate) fn failure(&self, manner: SearchManner) -> Option<EarlyEnd> {
        match manner {
            SearchManner::Glibc => self.failure_in_glibc(),
            SearchManner::Musl => self.failure_in_musl(),
        }
    }

    /// Addresses of either family are enough; of two failures the one that says more than "no address" counts.
    fn failure_in_glibc(&self) -> Option<EarlyEnd> {
        if self.found() {
            return None;
        }
        let mut failures = self.replies().filter_map(stop_of);
        let first = failures
            .next()
            .unwrap_or_else(|| EarlyEnd::timeout(Phase::Resolve));
        if first.fault != FailureKind::NoAddress.into() {
            return Some(first);
        }
        Some(failures.next().unwrap_or(first))
    }

    /// Whatever fails one family fails the name, the IPv4 question first; only "no address" leaves it to the other.
    fn failure_in_musl(&self) -> Option<EarlyEnd> {
        let mut failures = self.replies().filter_map(stop_of);
        let hard = failures.find(|stop| stop.fault != FailureKind::NoAddress.into());
        match hard {
            None if self.found() => None,
            None => Some(EarlyEnd::new(Phase::Resolve, FailureKind::NoAddress)),
            hard => hard,
        }
    }
}

fn useful(reply: &Result<DnsReply, EarlyEnd>) -> bool {
    matches!(reply, Ok(reply) if reply.failure.is_none())
}

fn stop_of(reply: &Result<DnsReply, EarlyEnd>) -> Option<EarlyEnd> {
    match reply {
        Ok(reply) => reply
            .failure
            .clone()
            .map(|kind| EarlyEnd::new(Phase::Resolve, kind)),
        Err(stop) => Some(stop.clone()),
    }
}

/// How a walk is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResolverWalk<'a> {
    pub(crate) conf: &'a ResolvConf,
    pub(crate) manner: SearchManner,
    pub(crate) deadline: Deadline,
    /// How long addresses of the one family wait for the other's; absent: to the server's own time-out.
    pub(crate) patience: Option<Duration>,
}

impl ResolverWalk<'_> {
    /// Everything that was asked, in order. Where the last one has an address, that is the result.
    pub(crate) async fn walk(self, name: &str) -> Vec<ServerAnswer> {
        let mut asked = Vec::new();
        for candidate in self.conf.candidates_of(name, self.manner) {
            match self.manner {
                SearchManner::Glibc => self.in_turn(&candidate, &mut asked).await,
                SearchManner::Musl => self.at_once(&candidate, &mut asked).await,
            }
            let failure = asked.last().and_then(|last| last.failure(self.manner));
            if !failure.is_some_and(|stop| self.goes_on(&stop.fault)) {
                break;
            }
        }
        asked
    }

    /// Whether the search goes on to the next name after this failure.
    pub(crate) fn goes_on(&self, fault: &FailureOrigin) -> bool {
        match (fault, self.manner) {
            (FailureOrigin::Target(FailureKind::NxDomain), _) => true,
            (FailureOrigin::Target(FailureKind::NoAddress | FailureKind::ServFail), manner) => {
                manner == SearchManner::Glibc
            }
            _ => false,
        }
    }

    /// One server after the other, as often as configured, until one says something final.
    async fn in_turn(&self, name: &str, asked: &mut Vec<ServerAnswer>) {
        for _ in 0..self.conf.attempts {
            for server in &self.conf.servers {
                let one = self.both_families(*server, name, self.conf.timeout).await;
                let done = one
                    .failure(self.manner)
                    .is_none_or(|stop| final_word(&stop.fault));
                asked.push(one);
                if done || self.deadline.left().is_zero() {
                    return;
                }
            }
        }
    }

    /// All servers at once; the first final word counts.
    async fn at_once(&self, name: &str, asked: &mut Vec<ServerAnswer>) {
        let attempts = u32::try_from(self.conf.attempts).unwrap_or(1).max(1);
        for _ in 0..attempts {
            let turn = self.conf.timeout / attempts;
            let mut answers: FuturesUnordered<_> = self
                .conf
                .servers
                .iter()
                .map(|server| self.both_families(*server, name, turn))
                .collect();
            while let Some(one) = answers.next().await {
                let done = one
                    .failure(self.manner)
                    .is_none_or(|stop| final_word(&stop.fault));
                asked.push(one);
                if done {
                    return;
                }
            }
            if self.deadline.left().is_zero() {
                return;
            }
        }
    }

    /// Asks one server for both families on a socket each.
    async fn both_families(&self, server: SocketAddr, name: &str, timeout: Duration) -> ServerAnswer {
        let deadline = self.deadline.at_most(timeout);
        let (Ok(a), Ok(aaaa)) = (
            DnsQuestion::new(name, RecordType::A),
            DnsQuestion::new(name, RecordType::Aaaa),
        ) else {
            let no_name = EarlyEnd::new(Phase::Resolve, FailureKind::NxDomain)
                .because(format!("{name:?} is no domain name"));
            return ServerAnswer {
                name: name.to_owned(),
                server,
                a: Some(Err(no_name)),
                aaaa: None,
                recheck: Recheck::default(),
            };
        };
        let a_answered = AtomicBool::new(false);
        let open = || {
            let question = if a_answered.load(Ordering::Relaxed) {
                &aaaa
            } else {
                &a
            };
            question.clone()
        };
        let first = async {
            let reply = dns::ask(server, &a, DnsTransportKind::Udp, deadline).await;
            a_answered.store(true, Ordering::Relaxed);
            reply
        };
        let second = dns::ask(server, &aaaa, DnsTransportKind::Udp, deadline);
        let both = self.wait_for(first, second, deadline);
        let ((a, aaaa), recheck) = watched(server, deadline, both, open).await;
        ServerAnswer {
            name: name.to_owned(),
            server,
            a,
            aaaa,
            recheck,
        }
    }

    /// Waits for both answers, or for one alone where that is enough for the client.
    async fn wait_for(
        &self,
        a: impl Future<Output = QuestionResult>,
        aaaa: impl Future<Output = QuestionResult>,
        deadline: Deadline,
    ) -> (Option<QuestionResult>, Option<QuestionResult>) {
        let (mut a, mut aaaa) = (std::pin::pin!(a), std::pin::pin!(aaaa));
        match self.patience {
            None => {
                let (a, aaaa) = tokio::join!(a, aaaa);
                (Some(a), Some(aaaa))
            }
            Some(patience) => tokio::select! {
                biased;
                first = &mut a => {
                    let second = if useful(&first) {
                        deadline.at_most(patience).bound(aaaa).await.ok()
                    } else {
                        Some(aaaa.await)
                    };
                    (Some(first), second)
                }
                // IPv4 is preferred, so it is waited for.
                second = &mut aaaa => {
                    let first = if useful(&second) { deadline.bound(a).await.ok() } else { Some(a.await) };
                    (first, Some(second))
                }
            },
        }
    }
}

/// Whether no other server is asked after this failure.
fn final_word(fault: &FailureOrigin) -> bool {
    matches!(
        fault,
        FailureOrigin::Target(FailureKind::NxDomain | FailureKind::NoAddress) | FailureOrigin::Own(_)
    )
}

/// A walk without a single server.
pub(crate) fn no_server() -> EarlyEnd {
    EarlyEnd::new(Phase::Resolve, OwnFault::NoResolver).because("no nameserver is configured")
}
