//! Observations: the outcome of one probe, as sent by probers, recorded, and read by replay.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{
    AssignmentId, ChallengeSight, Channel, Digest, EventTime, Front, Micros, NodeName, Outcome, Phase,
    PodName, ReportSeq, ServerProduct, TargetId, dns::NameSight,
};

/// The outcome of one probe. Unknown fields from a newer prober are ignored; absent fields are unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// Sequence number within the incarnation.
    pub seq: ReportSeq,
    /// Start of the probe. On the wire, the prober's monotonic clock; ingest shifts it to event time.
    #[serde(rename = "t_us")]
    pub started: EventTime,
    /// The assignment that requested the probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<AssignmentId>,
    /// The target that was probed.
    pub target: TargetId,
    /// The channel.
    pub channel: Channel,
    /// The front that the probe connected to, once an address was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front: Option<Front>,
    /// The endpoint that responded or was dialled, if known. It is rarely known for a failure through a
    /// virtual address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<PodName>,
    /// The node of the peer (`mesh`), or of the endpoint if only the node is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_node: Option<NodeName>,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Duration of each phase.
    #[serde(default, skip_serializing_if = "PhaseTimes::is_empty")]
    pub times: PhaseTimes,
    /// The resolver's answer for the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<DnsAnswer>,
    /// The identity of the echo that responded, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo: Option<EchoIdentity>,
    /// Evidence of whether the client's own node answers for the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<TtlEvidence>,
    /// The product in the response's `Server` field, without its version. Absent from older senders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerProduct>,
    /// Fingerprint of the response, if the assignment requests one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "print")]
    pub fingerprint: Option<AnswerPrint>,
    /// What the ACME client observed while fetching a challenge. Only probes of runs have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<Box<ChallengeSight>>,
    /// The answers of servers for a name. Only probes of runs have it; older receivers ignore it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "NameSight::deserialize_lenient"
    )]
    pub names: Option<Box<NameSight>>,
}

/// Duration of each phase that was reached; for the phase that failed, the time until the failure. Each phase
/// begins where the previous one ended, so all phases plus `again` add up to the total exactly. Phases
/// accumulate over redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PhaseTimes {
    /// Resolving the name to addresses.
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
    /// Preparing and sending the request, until its last byte was passed to the kernel.
    #[serde(default, rename = "request_us", skip_serializing_if = "Option::is_none")]
    pub request: Option<Micros>,
    /// From the last byte of the request to the first byte of the response.
    #[serde(default, rename = "first_byte_us", skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<Micros>,
    /// From the first to the last byte of the response.
    #[serde(default, rename = "body_us", skip_serializing_if = "Option::is_none")]
    pub body: Option<Micros>,
    /// Comparing the response with the expectation.
    #[serde(default, rename = "check_us", skip_serializing_if = "Option::is_none")]
    pub check: Option<Micros>,
    /// The second request on the same connection, from its last byte to the end of its response. Only a
    /// keep-alive probe has one; it is never part of the other phases.
    #[serde(default, rename = "again_us", skip_serializing_if = "Option::is_none")]
    pub second_request: Option<Micros>,
    /// The whole probe.
    #[serde(default, rename = "total_us", skip_serializing_if = "Option::is_none")]
    pub total: Option<Micros>,
    /// Round trip of the handshake as measured by the kernel (`tcpi_rtt`), free of the prober's own
    /// scheduling delay.
    #[serde(default, rename = "kernel_rtt_us", skip_serializing_if = "Option::is_none")]
    pub kernel_rtt: Option<Micros>,
    /// Retransmitted SYNs (`tcpi_total_retrans` after connect).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syn_retransmits: Option<u32>,
    /// Delay of the probe's start against its schedule.
    #[serde(default, rename = "late_us", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Micros>,
}

impl PhaseTimes {
    /// The duration of one phase.
    #[must_use]
    pub const fn get(&self, phase: Phase) -> Option<Micros> {
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

    /// Adds to the duration of one phase and marks it as reached.
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

    /// Whether nothing was measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The answer of one resolver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsAnswer {
    /// The resolver.
    pub resolver: std::net::SocketAddr,
    /// The name that was finally queried, after the search list.
    pub name: String,
    /// Addresses, sorted.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    /// Smallest TTL of the answer, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_s: Option<u32>,
    /// The answer was truncated and the query repeated over TCP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tcp: bool,
    /// Queries that were not answered. Absent if each was answered, and from older probers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<UnansweredQuestions>,
}

/// Queries to a resolver that were not answered in time, and the results of diagnostic repeats. They do not
/// affect the probe's outcome, because a real client sends no such repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UnansweredQuestions {
    /// The query for IPv4 addresses was lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub a: bool,
    /// The query for IPv6 addresses was lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aaaa: bool,
    /// If two queries were sent at once, whether the other one was answered. Absent if only one was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_answered: Option<bool>,
    /// Whether the same server answered a repeated query from another port. Absent if it was not repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "again_answered")]
    pub retry_answered: Option<bool>,
    /// Whether the same server answered the query over TCP. Absent if TCP was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_answered: Option<bool>,
}

/// Fingerprint of a response: enough to compare what two fronts serve, without any content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct AnswerPrint {
    /// The server's own certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Digest>,
    /// The first 64 KiB of the body; absent if there is no body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Digest>,
    /// Status of the response, expected or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// What an echo reports about itself and about the client it saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EchoIdentity {
    /// The responding Pod.
    pub pod: PodName,
    /// Its node.
    pub node: NodeName,
    /// Incarnation of the responding process.
    pub instance: String,
    /// The client address that the echo saw; differs from the client's own address behind NAT.
    pub peer: std::net::SocketAddr,
}

/// A reply to an unprivileged echo request, or an ICMP error to a connected UDP socket, with the TTL on
/// arrival.
///
/// A reply that arrives with an untouched initial TTL crossed no router: the client's own node answered for
/// the address. The round-trip time alone proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TtlEvidence {
    /// The address that was probed.
    pub address: IpAddr,
    /// The sender of the reply or error, if the kernel reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "from")]
    pub sender: Option<IpAddr>,
    /// TTL (or hop limit) of the reply on arrival.
    pub ttl: u8,
    /// Round-trip time.
    #[serde(default, rename = "rtt_us", skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Micros>,
}

impl TtlEvidence {
    /// Initial TTLs in common use: 64 (Linux, BSD, macOS), 128 (Windows), 255 (network gear, Solaris).
    const INITIAL: [u8; 3] = [64, 128, 255];

    /// Whether the reply crossed no router.
    #[must_use]
    pub fn crossed_no_router(&self) -> bool {
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
            sender: None,
            ttl,
            rtt: None,
        };
        assert!(evidence(64).crossed_no_router());
        assert!(!evidence(63).crossed_no_router());
        assert!(!evidence(91).crossed_no_router());
    }
}
