//! What became of one probe, while it is still ours.

use http::{Version, header, response::Parts};
use parallax_model::{
    AnswerPrint, Assignment, AssignmentId, ChallengeSight, Channel, DnsAnswer, EchoIdentity, EventTime,
    Front, NodeName, Observation, Outcome, OwnFault, PhaseTimes, PodName, ReportSeq, ServerProduct, TargetId,
    TtlEvidence, dns::NameSight,
};

use crate::{certificate::TlsFacts, text::tamed};

/// One probe's outcome: everything of an [`Observation`] but its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeResult {
    /// Start of the probe, on the clock of the [`crate::ProbeContext`].
    pub at: EventTime,
    /// The assignment that asked for it.
    pub assignment: AssignmentId,
    /// What was asked for.
    pub target: TargetId,
    /// How it was approached.
    pub channel: Channel,
    /// What was connected to, once an address was chosen.
    pub front: Option<Front>,
    /// The endpoint that answered or was dialled, where known.
    pub entry: Option<PodName>,
    /// The node of the peer or the endpoint, where known.
    pub dst_node: Option<NodeName>,
    /// What became of it.
    pub outcome: Outcome,
    /// How long each phase took.
    pub times: PhaseTimes,
    /// What the name resolved to, and who said so.
    pub dns: Option<DnsAnswer>,
    /// Who answered, where an echo said so.
    pub echo: Option<EchoIdentity>,
    /// Whether the address is answered next door.
    pub ttl: Option<TtlEvidence>,
    /// What the answer looks like, where the probe asks for it.
    pub print: Option<AnswerPrint>,
    /// What the client of a challenge saw on its way.
    pub challenge: Option<Box<ChallengeSight>>,
    /// What servers say of a name.
    pub names: Option<Box<NameSight>>,
    /// What a TLS server showed, also where its certificate is refused. It does not travel.
    pub tls: Option<TlsFacts>,
    /// What the last answer said of itself, where its head came. It does not travel.
    pub answer: Option<AnswerFacts>,
    /// The redirects that were followed, in order. They are evidence, not probes; they do not travel.
    pub hops: Vec<RedirectHop>,
    /// What a library or the kernel said of a failure, for people: bounded, without control characters. It does not
    /// travel.
    pub detail: Option<String>,
}

/// What an HTTP answer said of itself. All text is bounded and without control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerFacts {
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2`.
    pub version: &'static str,
    /// The status.
    pub status: u16,
    /// Where it sends the client (`Location`), as sent; absent where that is no visible ASCII or longer than 2 KiB.
    pub location: Option<String>,
    /// Who says that it answered (`Server`).
    pub server: Option<String>,
    /// What it says its content is (`Content-Type`).
    pub content_type: Option<String>,
    /// Bytes of the content that were read; a probe does not read a large one to its end.
    pub read: u64,
}

/// Longest [`AnswerFacts::location`], in bytes.
const MAX_LOCATION: usize = 2048;

impl AnswerFacts {
    pub(crate) fn of(head: &Parts, read: u64) -> Self {
        let text = |name| {
            head.headers
                .get(name)
                .map(|value| tamed(&String::from_utf8_lossy(value.as_bytes())))
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
            read,
        }
    }
}

/// An answer that sent the probe elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectHop {
    /// What was asked.
    pub url: String,
    /// The status of the answer.
    pub status: u16,
    /// What was connected to.
    pub front: Option<Front>,
}

impl ProbeResult {
    pub(crate) fn begin(assignment: &Assignment, at: EventTime) -> Self {
        let entry = assignment.entry.as_ref();
        Self {
            at,
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
            print: None,
            challenge: None,
            names: None,
            tls: None,
            answer: None,
            hops: Vec::new(),
            detail: None,
        }
    }

    /// A probe that was not made, for a reason of our own.
    #[must_use]
    pub fn not_asked(assignment: &Assignment, at: EventTime, own: OwnFault) -> Self {
        Self {
            outcome: Outcome::NotAsked { own },
            ..Self::begin(assignment, at)
        }
    }

    /// With its number it travels.
    #[must_use]
    pub fn into_observation(self, seq: ReportSeq) -> Observation {
        let server = self.answer.and_then(|answer| answer.server);
        Observation {
            seq,
            at: self.at,
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
            server: server.and_then(|field| ServerProduct::of_field(&field)),
            print: self.print,
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
        let facts = AnswerFacts::of(&head, 7);
        assert_eq!((facts.status, facts.read, facts.version), (302, 7, "HTTP/1.1"));
        assert_eq!(facts.location, None, "a cut URL is another URL");
        assert!(!facts.server.unwrap().contains('\t'));
    }
}
