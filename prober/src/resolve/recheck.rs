//! What is learnt of a question that gets no answer, while the client still waits for it.
//!
//! Once half of the time has passed, the same server is asked again: over UDP, which takes another port, and over TCP.
//! The client's own question goes on, and the probe's outcome, its duration and the addresses that are used rest on that
//! one alone. A question that is answered in the first half costs nothing.

use std::{future::Future, net::SocketAddr};

use parallax_model::{FailureKind, UnansweredQuestions};

use super::walk::ServerAnswer;
use crate::{
    classify::{EarlyEnd, FailureOrigin},
    clock::Deadline,
    dns::{self, DnsQuestion, DnsReply, DnsTransportKind},
};

/// Whether a server answered a question that it was asked again. Absent where it was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Recheck {
    /// Over UDP, from another port.
    again: Option<bool>,
    tcp: Option<bool>,
}

/// Waits for the answers to a client's questions; where they take longer than half of the time, the server is asked again
/// for what `open` says is not answered then.
pub(super) async fn watched<T>(
    server: SocketAddr,
    deadline: Deadline,
    answers: impl Future<Output = T>,
    open: impl Fn() -> DnsQuestion,
) -> (T, Recheck) {
    // On the heap, or every probe's future would carry all of them.
    let mut answers = Box::pin(answers);
    let half = deadline.left() / 2;
    tokio::select! {
        biased;
        answers = &mut answers => return (answers, Recheck::default()),
        () = tokio::time::sleep(half) => {}
    }
    let question = open();
    let mut again = Box::pin(dns::ask(server, &question, DnsTransportKind::Udp, deadline));
    let mut tcp = Box::pin(dns::ask(server, &question, DnsTransportKind::Tcp, deadline));
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
        again: by_udp.or(Some(false)),
        tcp: by_tcp.or(Some(false)),
    };
    (answers, recheck)
}

/// A question without an answer in time. A wrong or a refusing answer is one.
fn is_lost(reply: Option<&Result<DnsReply, EarlyEnd>>) -> bool {
    let lost = FailureOrigin::Target(FailureKind::ResolveTimeout);
    matches!(reply, Some(Err(stop)) if stop.fault == lost)
}

impl ServerAnswer {
    /// Its questions that got no answer; absent where each got one, or was not waited for.
    pub(super) fn unanswered(&self) -> Option<UnansweredQuestions> {
        let (a, aaaa) = (is_lost(self.a.as_ref()), is_lost(self.aaaa.as_ref()));
        if !a && !aaaa {
            return None;
        }
        let other = if a { &self.aaaa } else { &self.a };
        Some(UnansweredQuestions {
            a,
            aaaa,
            other_answered: other.as_ref().map(Result::is_ok),
            again_answered: self.recheck.again,
            tcp_answered: self.recheck.tcp,
        })
    }
}
