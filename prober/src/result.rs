//! The result of one probe, before it becomes an observation.

use http::{Version, header, response::Parts};
use parallax_model::{
    AnswerPrint, Assignment, AssignmentId, ChallengeSight, Channel, DnsAnswer, EchoIdentity, EventTime,
    Front, NodeName, Observation, Outcome, OwnFault, PhaseTimes, PodName, ReportSeq, ServerProduct, TargetId,
    TtlEvidence, dns::NameSight,
};

use crate::{certificate::TlsFacts, sanitize::sanitized};

/// The result of one probe: the contents of an [`Observation`] except its sequence number, and facts that are not
/// reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeResult {
    /// Start of the probe, on the clock of the [`crate::ProbeContext`].
    pub started: EventTime,
    /// The assignment of the probe.
    pub assignment: AssignmentId,
    /// The target.
    pub target: TargetId,
    /// The channel.
    pub channel: Channel,
    /// The front, once an address was chosen.
    pub front: Option<Front>,
    /// The endpoint that responded or was dialled, if known.
    pub entry: Option<PodName>,
    /// The node of the peer or the endpoint, if known.
    pub dst_node: Option<NodeName>,
    /// The outcome.
    pub outcome: Outcome,
    /// The duration of each phase.
    pub times: PhaseTimes,
    /// The answer to the DNS lookup of the target's name.
    pub dns: Option<DnsAnswer>,
    /// The identity that an echo returned.
    pub echo: Option<EchoIdentity>,
    /// Evidence of how far away the responder is.
    pub ttl: Option<TtlEvidence>,
    /// The fingerprint of the response, if the probe requests it.
    pub fingerprint: Option<AnswerPrint>,
    /// What the client of a challenge saw.
    pub challenge: Option<Box<ChallengeSight>>,
    /// The DNS records of a name at several servers.
    pub names: Option<Box<NameSight>>,
    /// Facts about the TLS handshake, also if the certificate was rejected. Not reported.
    pub tls: Option<TlsFacts>,
    /// Facts about the last response, if its head arrived. Only the server product is reported.
    pub answer: Option<AnswerFacts>,
    /// The followed redirects, in order. They are evidence, not probes. Not reported.
    pub hops: Vec<RedirectHop>,
    /// The error text of a library or the kernel, for people: bounded, without control characters. Not reported.
    pub detail: Option<String>,
}

/// Facts from the head of an HTTP response. All text is bounded and without control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerFacts {
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2`.
    pub version: &'static str,
    /// The status.
    pub status: u16,
    /// `Location` as sent; `None` if it is not visible ASCII or longer than 2 KiB.
    pub location: Option<String>,
    /// `Server`.
    pub server: Option<String>,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// Bytes of the body that were read; a probe does not read a large body to its end.
    pub bytes_read: u64,
}

/// Maximum length of [`AnswerFacts::location`] in bytes.
const MAX_LOCATION: usize = 2048;

impl AnswerFacts {
    pub(crate) fn from_head(head: &Parts, read: u64) -> Self {
        let text = |name| {
            head.headers
                .get(name)
                .map(|value| sanitized(&String::from_utf8_lossy(value.as_bytes())))
        };
        Self {
            version: match head.version {
                Version::HTTP_10 => "HTTP/1.0",
                Version::HTTP_11 => "HTTP/1.1",
                Version::HTTP_2 => "HTTP/2",
                _ => "HTTP",
            },
            status: head.status.as_u16(),
            location: head
                .headers
                .get(header::LOCATION)
                .and_then(|location| location.to_str().ok())
                .filter(|location| location.len() <= MAX_LOCATION)
                .map(str::to_owned),
            server: text(header::SERVER),
            content_type: text(header::CONTENT_TYPE),
            bytes_read: read,
        }
    }
}

/// A followed redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectHop {
    /// The requested URL.
    pub url: String,
    /// The status of the response.
    pub status: u16,
    /// The front of the request.
    pub front: Option<Front>,
}

impl ProbeResult {
    pub(crate) fn new(assignment: &Assignment, at: EventTime) -> Self {
        let entry = assignment.entry.as_ref();
        Self {
            started: at,
            assignment: assignment.id.clone(),
            target: assignment.target.clone(),
            channel: assignment.channel,
            front: None,
            entry: entry.map(|entry| entry.pod.clone()),
            dst_node: entry
                .and_then(|entry| entry.node.clone())
                .or_else(|| assignment.peer.clone()),
            outcome: Outcome::Ok { status: None },
            times: PhaseTimes::default(),
            dns: None,
            echo: None,
            ttl: None,
            fingerprint: None,
            challenge: None,
            names: None,
            tls: None,
            answer: None,
            hops: Vec::new(),
            detail: None,
        }
    }

    /// Returns the result of a probe that was not made because of a fault of the prober.
    #[must_use]
    pub fn not_made(assignment: &Assignment, at: EventTime, own: OwnFault) -> Self {
        Self {
            outcome: Outcome::NotProbed { fault: own },
            ..Self::new(assignment, at)
        }
    }

    /// Converts the result to an observation with a sequence number.
    #[must_use]
    pub fn into_observation(self, seq: ReportSeq) -> Observation {
        let server = self.answer.and_then(|answer| answer.server);
        Observation {
            seq,
            started: self.started,
            assignment: Some(self.assignment),
            target: self.target,
            channel: self.channel,
            front: self.front,
            entry: self.entry,
            dst_node: self.dst_node,
            outcome: self.outcome,
            times: self.times,
            dns: self.dns,
            echo: self.echo,
            ttl: self.ttl,
            server: server.and_then(|field| ServerProduct::from_field(&field)),
            fingerprint: self.fingerprint,
            challenge: self.challenge,
            names: self.names,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_says_of_itself_is_bounded_and_without_control_characters() {
        let (head, ()) = http::Response::builder()
            .status(302)
            .header("server", &b"\xff\xfe\tx"[..])
            .header("location", "/".repeat(MAX_LOCATION + 1))
            .body(())
            .unwrap()
            .into_parts();
        let facts = AnswerFacts::from_head(&head, 7);
        assert_eq!(
            (facts.status, facts.bytes_read, facts.version),
            (302, 7, "HTTP/1.1")
        );
        assert_eq!(facts.location, None, "a truncated URL would be another URL");
        assert!(!facts.server.unwrap().contains('\t'));
    }
}
