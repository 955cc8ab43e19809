//! The outcome of a probe, with everything known about the address, as an explanation.

use parallax_model::Outcome;

use super::{
    explanation::{Explanation, explain, explain_own_fault},
    facts::FailureFacts,
    round::AddressResult,
    subject::CheckSubject,
};

/// Explains the outcome of a finished probe.
pub(super) fn in_words(outcome: &Outcome, facts: FailureFacts<'_>) -> Explanation {
    match outcome {
        Outcome::Ok { .. } => Explanation {
            summary: "ok".to_owned(),
            likely_reasons: Vec::new(),
        },
        Outcome::Failed { phase, kind, status } => explain(
            kind,
            &FailureFacts {
                phase: Some(*phase),
                status: *status,
                ..facts
            },
        ),
        Outcome::NotProbed { fault: own } => explain_own_fault(*own, facts.detail),
    }
}

/// Returns all facts known about an address.
pub(super) fn of_reached<'a>(
    subject: &'a CheckSubject,
    one: &'a AddressResult,
    now: i64,
) -> FailureFacts<'a> {
    let last = one.requests.last().map(|leg| &leg.result);
    // After a redirect, certificate and address belong to the last request, not to the probed address.
    let first_leg = one.requests.len() <= 1;
    FailureFacts {
        host: host_of(&one.final_url).unwrap_or_else(|| subject.host()),
        address: if first_leg {
            Some(one.address)
        } else {
            last.and_then(|last| last.front).map(|front| front.address)
        },
        detail: one.detail.as_deref(),
        is_local: first_leg && one.is_local,
        ttl: one
            .ttl
            .as_ref()
            .and_then(|ttl| ttl.as_ref().ok())
            .filter(|_| first_leg),
        tls: last.and_then(|last| last.tls.as_ref()),
        times: last.map(|last| &last.times),
        server: last.and_then(|last| last.answer.as_ref()?.server.as_deref()),
        alternative: one.alternative,
        ..of_subject(subject, now)
    }
}

/// Returns the host of a URL that the URL library has serialized.
pub(super) fn host_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = &rest[..end];
    match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next(),
        None => authority.split(':').next(),
    }
}

/// The facts known from the URL alone.
pub(super) fn of_subject(subject: &CheckSubject, now: i64) -> FailureFacts<'_> {
    FailureFacts {
        host: subject.host(),
        port: subject.port(),
        now,
        ..FailureFacts::default()
    }
}
