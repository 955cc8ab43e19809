//! One probe's outcome: what travels from prober to aggregator, what is recorded, and what replay reads.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{
    AssignmentId, ChallengeSight, Channel, Digest, EventTime, Front, Micros, NodeName, Outcome, Phase,
    PodName, ReportSeq, ServerProduct, TargetId, dns::NameSight,
};

/// One probe's outcome. Unknown fields from a newer prober are ignored; absent ones are unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// Number within the incarnation.
    pub seq: ReportSeq,
    /// Start of the probe. On the wire the prober's monotonic clock; ingest shifts it to event time.
    #[serde(rename = "t_us")]
    pub at: EventTime,
    /// The assignment that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<AssignmentId>,
    /// What was asked for.
    pub target: TargetId,
    /// How it was approached.
    pub channel: Channel,
    /// What was connected to, once an address was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front: Option<Front>,
    /// The endpoint that answered or was dialled, where known. A failure through a virtual address rarely knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<PodName>,
    /// The node of the peer (`mesh`), or of the endpoint where only the node is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_node: Option<NodeName>,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How long each phase took.
    #[serde(default, skip_serializing_if = "PhaseTimes::is_empty")]
    pub times: PhaseTimes,
    /// What the name resolved to, and who said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<DnsAnswer>,
    /// Who answered, where an echo said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo: Option<EchoIdentity>,
    /// Whether the address is answered next door.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<TtlEvidence>,
    /// The product that the answer's `Server` field names, without its version. Older senders do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerProduct>,
    /// What the answer looks like, where the assignment asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub print: Option<AnswerPrint>,
    /// What the client of a challenge saw on its way. Only probes of runs have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<Box<ChallengeSight>>,
    /// What servers say of a name. Only probes of runs have it; older receivers do not read it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "NameSight::lenient"
    )]
    pub names: Option<Box<NameSight>>,
}

/// Time of each phase that was reached; the phase that failed carries the time until it did. Each phase begins where the
/// one before ended, so all of them and `again` are exactly the total; over redirects they add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PhaseTimes {
    /// Name to addresses.
    #[serde(default, rename = "resolve_us", skip_serializing_if = "Option::is_none")]
    pub resolve: Option<Micros>,
    /// TCP handshake.
    #[serde(default, rename = "connect_us", skip_serializing_if = "Option::is_none")]
    pub connect: Option<Micros>,
    /// Sending the PROXY header.
    #[serde(default, rename = "proxy_header_us", skip_serializing_if = "Option::is_none")]
    pub proxy_header: Option<Micros>,
    /// TLS handshake.
    #[serde(default, rename = "tls_us", skip_serializing_if = "Option::is_none")]
    pub tls: Option<Micros>,
    /// Preparing and sending the request: until its last byte was handed to the kernel.
    #[serde(default, rename = "request_us", skip_serializing_if = "Option::is_none")]
    pub request: Option<Micros>,
    /// From the last byte of the request to the first of the answer.
    #[serde(default, rename = "first_byte_us", skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<Micros>,
    /// From the first to the last byte of the answer.
    #[serde(default, rename = "body_us", skip_serializing_if = "Option::is_none")]
    pub body: Option<Micros>,
    /// Holding the answer against what was expected.
    #[serde(default, rename = "check_us", skip_serializing_if = "Option::is_none")]
    pub check: Option<Micros>,
    /// The second request on the same connection, from its last byte to the end of its answer. Only a keep-alive probe
    /// has one; it is never part of the other phases.
    #[serde(default, rename = "again_us", skip_serializing_if = "Option::is_none")]
    pub again: Option<Micros>,
    /// The whole probe.
    #[serde(default, rename = "total_us", skip_serializing_if = "Option::is_none")]
    pub total: Option<Micros>,
    /// Round trip of the handshake as the kernel measured it (`tcpi_rtt`), free of our own scheduling delay.
    #[serde(default, rename = "kernel_rtt_us", skip_serializing_if = "Option::is_none")]
    pub kernel_rtt: Option<Micros>,
    /// Repeated SYNs (`tcpi_total_retrans` after connect).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syn_retransmits: Option<u32>,
    /// How late the probe started against its schedule.
    #[serde(default, rename = "late_us", skip_serializing_if = "Option::is_none")]
    pub late: Option<Micros>,
}

impl PhaseTimes {
    /// The time of one phase.
    #[must_use]
    pub const fn of(&self, phase: Phase) -> Option<Micros> {
        match phase {
            Phase::Resolve => self.resolve,
            Phase::Connect => self.connect,
            Phase::ProxyHeader => self.proxy_header,
            Phase::Tls => self.tls,
            Phase::Request => self.request,
            Phase::FirstByte => self.first_byte,
            Phase::Body => self.body,
            Phase::Check => self.check,
        }
    }

    /// Adds to the time of one phase, which is thereby reached.
    pub fn add(&mut self, phase: Phase, time: Micros) {
        let slot = match phase {
            Phase::Resolve => &mut self.resolve,
            Phase::Connect => &mut self.connect,
            Phase::ProxyHeader => &mut self.proxy_header,
            Phase::Tls => &mut self.tls,
            Phase::Request => &mut self.request,
            Phase::FirstByte => &mut self.first_byte,
            Phase::Body => &mut self.body,
            Phase::Check => &mut self.check,
        };
        *slot = Some(Micros(slot.unwrap_or_default().0.saturating_add(time.0)));
    }

    /// Nothing was measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The answer of one resolver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsAnswer {
    /// Who was asked.
    pub resolver: std::net::SocketAddr,
    /// The name that was finally asked for, after the search list.
    pub name: String,
    /// Addresses, sorted.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    /// Smallest TTL of the answer, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_s: Option<u32>,
    /// The answer was truncated and asked for again over TCP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tcp: bool,
    /// Questions that got no answer. Absent where each got one, and from older probers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<UnansweredQuestions>,
}

/// Questions to a resolver that got no answer in time, and what was learnt of them. The outcome of the probe does not
/// depend on it: a client asks no more than it asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UnansweredQuestions {
    /// The question for the IPv4 addresses was lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub a: bool,
    /// The question for the IPv6 addresses was lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aaaa: bool,
    /// Of two questions that were asked at once, whether the other one was answered. Absent where only one was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_answered: Option<bool>,
    /// Whether the same server answered the question when it was asked again, from another port. Absent where it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_answered: Option<bool>,
    /// Whether the same server answered the question over TCP. Absent where it was not asked so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_answered: Option<bool>,
}

/// What an answer looks like: enough to say whether two fronts serve the same thing, and nothing of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct AnswerPrint {
    /// The server's own certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Digest>,
    /// The first 64 KiB of the answer; absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Digest>,
    /// Status of the answer, whether or not it was the expected one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// What an echo says of itself and of the client it saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EchoIdentity {
    /// The answering pod.
    pub pod: PodName,
    /// Its node.
    pub node: NodeName,
    /// Incarnation of the answering process.
    pub instance: String,
    /// The client address the echo saw; differs from the client's own where something translated it.
    pub peer: std::net::SocketAddr,
}

/// A reply to an unprivileged echo request, or an ICMP error to a connected UDP socket, and the TTL it arrived with.
///
/// A reply that arrives with an untouched initial TTL crossed no router: the client's own node answered for the
/// address. Time alone proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TtlEvidence {
    /// The address asked.
    pub address: IpAddr,
    /// Who sent the reply or the error, where the kernel says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<IpAddr>,
    /// TTL (or hop limit) of the reply as it arrived.
    pub ttl: u8,
    /// Round trip.
    #[serde(default, rename = "rtt_us", skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Micros>,
}

impl TtlEvidence {
    /// Initial TTLs in common use: 64 (Linux, BSD, macOS), 128 (Windows), 255 (network gear, Solaris).
    const INITIAL: [u8; 3] = [64, 128, 255];

    /// The reply crossed no router.
    #[must_use]
    pub fn untouched(&self) -> bool {
        Self::INITIAL.contains(&self.ttl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FailureKind;

    fn refused() -> &'static str {
        r#"{"seq":3,"t_us":10,"target":"http://a/","channel":"vip","result":"failed","phase":"connect","kind":"refused"}"#
    }

    #[test]
    fn an_observation_reads_back_as_written() {
        let observation: Observation = serde_json::from_str(refused()).unwrap();
        assert!(observation.outcome.is_failure());
        assert_eq!(serde_json::to_string(&observation).unwrap(), refused());
    }

    #[test]
    fn fields_and_kinds_of_a_newer_prober_do_not_refuse_the_line() {
        let newer = refused().replace("\"refused\"}", "\"quic_blocked\",\"h3_us\":12}");
        let observation: Observation = serde_json::from_str(&newer).unwrap();
        let Outcome::Failed { kind, .. } = observation.outcome else {
            panic!("still a failure")
        };
        assert_eq!(kind, FailureKind::Other("quic_blocked".into()));
    }

    #[test]
    fn only_an_initial_ttl_says_that_no_router_was_crossed() {
        let evidence = |ttl| TtlEvidence {
            address: [203, 0, 113, 10].into(),
            from: None,
            ttl,
            rtt: None,
        };
        assert!(evidence(64).untouched());
        assert!(!evidence(63).untouched());
        assert!(!evidence(91).untouched());
    }
}
