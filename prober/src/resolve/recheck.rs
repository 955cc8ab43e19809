//! Diagnostic repeats of a query that gets no response, while the client is still waiting for it.
//!
//! After half of the time the same server is queried again, over UDP from another port and over TCP. The client's own
//! query continues, and only that query determines the outcome, the duration and the addresses. A query that is
//! answered in the first half is not repeated.

use std::{future::Future, net::SocketAddr};

use parallax_model::{FailureKind, UnansweredQuestions};

use super::search::ServerAnswer;
use crate::{
    clock::Deadline,
    dns::{self, DnsQuestion, DnsReply, DnsTransportKind},
    failure::{EarlyEnd, FailureOrigin},
};

/// Whether a server answered the repeated query; `None` if it was not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Recheck {
    /// Over UDP, from a new port.
    udp: Option<bool>,
    tcp: Option<bool>,
}

/// Waits for the answers to a client's queries. After half of the time it repeats the query that `open` returns, which
/// has no answer at that time.
pub(super) async fn with_recheck<T>(
    server: SocketAddr,
    deadline: Deadline,
    answers: impl Future<Output = T>,
    open: impl Fn() -> DnsQuestion,
) -> (T, Recheck) {
    // On the heap: otherwise the future of every probe would contain them.
    let mut answers = Box::pin(answers);
    let half = deadline.remaining() / 2;
    tokio::select! {
        biased;
        answers = &mut answers => return (answers, Recheck::default()),
        () = tokio::time::sleep(half) => {}
    }
    let question = open();
    let mut again = Box::pin(dns::query_addresses(
        server,
        &question,
        DnsTransportKind::Udp,
        deadline,
    ));
    let mut tcp = Box::pin(dns::query_addresses(
        server,
        &question,
        DnsTransportKind::Tcp,
        deadline,
    ));
    let (mut by_udp, mut by_tcp) = (None, None);
    let answers = loop {
        tokio::select! {
            biased;
            reply = &mut again, if by_udp.is_none() => by_udp = Some(reply.is_ok()),
            reply = &mut tcp, if by_tcp.is_none() => by_tcp = Some(reply.is_ok()),
            answers = &mut answers => break answers,
        }
    };
    let recheck = Recheck {
        udp: by_udp.or(Some(false)),
        tcp: by_tcp.or(Some(false)),
    };
    (answers, recheck)
}

/// Whether a query got no answer in time. A wrong answer or a refusal is an answer.
fn is_unanswered(reply: Option<&Result<DnsReply, EarlyEnd>>) -> bool {
    let lost = FailureOrigin::Target(FailureKind::ResolveTimeout);
    matches!(reply, Some(Err(stop)) if stop.origin == lost)
}

impl ServerAnswer {
    /// The queries without an answer; `None` if each got one, or was not waited for.
    pub(super) fn unanswered(&self) -> Option<UnansweredQuestions> {
        let (a, aaaa) = (is_unanswered(self.a.as_ref()), is_unanswered(self.aaaa.as_ref()));
        if !a && !aaaa {
            return None;
        }
        let other = if a { &self.aaaa } else { &self.a };
        Some(UnansweredQuestions {
            a,
            aaaa,
            other_answered: other.as_ref().map(Result::is_ok),
            retry_answered: self.recheck.udp,
            tcp_answered: self.recheck.tcp,
        })
    }
}
