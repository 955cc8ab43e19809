//! Queries a name along search list and servers, as either C library does, and keeps every answer.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use parallax_model::{FailureKind, OwnFault, Phase, RecordType, SearchManner};

use super::recheck::{Recheck, with_recheck};
use crate::{
    clock::Deadline,
    dns::{self, DnsQuestion, DnsReply, DnsTransportKind},
    failure::{EarlyEnd, FailureOrigin},
    resolv_conf::ResolvConf,
};

/// The result of one query.
type QuestionResult = Result<DnsReply, EarlyEnd>;

/// The answers of one server for one name.
#[derive(Debug, Clone)]
pub(crate) struct ServerAnswer {
    pub(crate) name: String,
    pub(crate) server: SocketAddr,
    /// `None` if the lookup did not wait for it.
    pub(crate) a: Option<QuestionResult>,
    /// Like `a`.
    pub(crate) aaaa: Option<QuestionResult>,
    /// The results of the diagnostic repeats.
    pub(crate) recheck: Recheck,
}

impl ServerAnswer {
    fn replies(&self) -> impl Iterator<Item = &Result<DnsReply, EarlyEnd>> {
        self.a.iter().chain(&self.aaaa)
    }

    fn has_address(&self) -> bool {
        self.replies().any(has_addresses)
    }

    /// The reason why a client with this C library gets no address; `None` if it gets one.
    pub(crate) fn failure(&self, manner: SearchManner) -> Option<EarlyEnd> {
        match manner {
            SearchManner::Glibc => self.failure_in_glibc(),
            SearchManner::Musl => self.failure_in_musl(),
        }
    }

    /// glibc: an address of either family is enough. Of two failures, one other than "no address" counts.
    fn failure_in_glibc(&self) -> Option<EarlyEnd> {
        if self.has_address() {
            return None;
        }
        let mut failures = self.replies().filter_map(failure_of);
        let first = failures
            .next()
            .unwrap_or_else(|| EarlyEnd::timeout(Phase::Resolve));
        if first.origin != FailureKind::NoAddress.into() {
            return Some(first);
        }
        Some(failures.next().unwrap_or(first))
    }

    /// musl: a failure of either family fails the lookup, IPv4 first, except "no address".
    fn failure_in_musl(&self) -> Option<EarlyEnd> {
        let mut failures = self.replies().filter_map(failure_of);
        let hard = failures.find(|stop| stop.origin != FailureKind::NoAddress.into());
        match hard {
            None if self.has_address() => None,
            None => Some(EarlyEnd::new(Phase::Resolve, FailureKind::NoAddress)),
            hard => hard,
        }
    }
}

fn has_addresses(reply: &Result<DnsReply, EarlyEnd>) -> bool {
    matches!(reply, Ok(reply) if reply.failure.is_none())
}

fn failure_of(reply: &Result<DnsReply, EarlyEnd>) -> Option<EarlyEnd> {
    match reply {
        Ok(reply) => reply
            .failure
            .clone()
            .map(|kind| EarlyEnd::new(Phase::Resolve, kind)),
        Err(stop) => Some(stop.clone()),
    }
}

/// A lookup along search list and servers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NameSearch<'a> {
    pub(crate) conf: &'a ResolvConf,
    pub(crate) libc: SearchManner,
    pub(crate) deadline: Deadline,
    /// How long to wait for the other family once one has addresses; `None` for the timeout of the server.
    pub(crate) family_delay: Option<Duration>,
}

impl NameSearch<'_> {
    /// Returns the answers to all queries, in order. If the last one has an address, it is the result.
    pub(crate) async fn run(self, name: &str) -> Vec<ServerAnswer> {
        let mut answers = Vec::new();
        for candidate in self.conf.candidates_for(name, self.libc) {
            match self.libc {
                SearchManner::Glibc => self.query_sequentially(&candidate, &mut answers).await,
                SearchManner::Musl => self.query_concurrently(&candidate, &mut answers).await,
            }
            let failure = answers.last().and_then(|last| last.failure(self.libc));
            if !failure.is_some_and(|stop| self.continues_after(&stop.origin)) {
                break;
            }
        }
        answers
    }

    /// Whether the search continues with the next name after this failure.
    pub(crate) fn continues_after(&self, fault: &FailureOrigin) -> bool {
        match (fault, self.libc) {
            (FailureOrigin::Target(FailureKind::NxDomain), _) => true,
            (FailureOrigin::Target(FailureKind::NoAddress | FailureKind::ServFail), manner) => {
                manner == SearchManner::Glibc
            }
            _ => false,
        }
    }

    /// Queries one server after the other, as often as configured, until one answers conclusively.
    async fn query_sequentially(&self, name: &str, answers: &mut Vec<ServerAnswer>) {
        for _ in 0..self.conf.attempts {
            for server in &self.conf.servers {
                let one = self.query_both(*server, name, self.conf.timeout).await;
                let done = one
                    .failure(self.libc)
                    .is_none_or(|stop| is_conclusive(&stop.origin));
                answers.push(one);
                if done || self.deadline.remaining().is_zero() {
                    return;
                }
            }
        }
    }

    /// Queries all servers concurrently; the first conclusive answer counts.
    async fn query_concurrently(&self, name: &str, tried: &mut Vec<ServerAnswer>) {
        let attempts = u32::try_from(self.conf.attempts).unwrap_or(1).max(1);
        for _ in 0..attempts {
            let turn = self.conf.timeout / attempts;
            let mut answers: FuturesUnordered<_> = self
                .conf
                .servers
                .iter()
                .map(|server| self.query_both(*server, name, turn))
                .collect();
            while let Some(one) = answers.next().await {
                let done = one
                    .failure(self.libc)
                    .is_none_or(|stop| is_conclusive(&stop.origin));
                tried.push(one);
                if done {
                    return;
                }
            }
            if self.deadline.remaining().is_zero() {
                return;
            }
        }
    }

    /// Queries one server for both families, each on a separate socket.
    async fn query_both(&self, server: SocketAddr, name: &str, timeout: Duration) -> ServerAnswer {
        let deadline = self.deadline.at_most(timeout);
        let (Ok(a), Ok(aaaa)) = (
            DnsQuestion::new(name, RecordType::A),
            DnsQuestion::new(name, RecordType::Aaaa),
        ) else {
            let no_name = EarlyEnd::new(Phase::Resolve, FailureKind::NxDomain)
                .with_detail(format!("{name:?} is not a domain name"));
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
            let reply = dns::query_addresses(server, &a, DnsTransportKind::Udp, deadline).await;
            a_answered.store(true, Ordering::Relaxed);
            reply
        };
        let second = dns::query_addresses(server, &aaaa, DnsTransportKind::Udp, deadline);
        let both = self.wait_for(first, second, deadline);
        let ((a, aaaa), recheck) = with_recheck(server, deadline, both, open).await;
        ServerAnswer {
            name: name.to_owned(),
            server,
            a,
            aaaa,
            recheck,
        }
    }

    /// Waits for both answers, or for only one if that is enough for the client.
    async fn wait_for(
        &self,
        a: impl Future<Output = QuestionResult>,
        aaaa: impl Future<Output = QuestionResult>,
        deadline: Deadline,
    ) -> (Option<QuestionResult>, Option<QuestionResult>) {
        let (mut a, mut aaaa) = (std::pin::pin!(a), std::pin::pin!(aaaa));
        match self.family_delay {
            None => {
                let (a, aaaa) = tokio::join!(a, aaaa);
                (Some(a), Some(aaaa))
            }
            Some(patience) => tokio::select! {
                biased;
                first = &mut a => {
                    let second = if has_addresses(&first) {
                        deadline.at_most(patience).timeout(aaaa).await.ok()
                    } else {
                        Some(aaaa.await)
                    };
                    (Some(first), second)
                }
                // IPv4 is preferred, so wait for it.
                second = &mut aaaa => {
                    let first = if has_addresses(&second) { deadline.timeout(a).await.ok() } else { Some(a.await) };
                    (first, Some(second))
                }
            },
        }
    }
}

/// Whether this failure is conclusive, so that no other server is queried.
fn is_conclusive(fault: &FailureOrigin) -> bool {
    matches!(
        fault,
        FailureOrigin::Target(FailureKind::NxDomain | FailureKind::NoAddress) | FailureOrigin::Own(_)
    )
}

/// The failure of a lookup without any server.
pub(crate) fn no_server() -> EarlyEnd {
    EarlyEnd::new(Phase::Resolve, OwnFault::NoResolver).with_detail("no nameserver is configured")
}
