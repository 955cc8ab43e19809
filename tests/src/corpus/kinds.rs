//! Failure kinds: their names in the recording, their outcomes on the wire, and the mix that each fault produces.

use parallax_model::{FailureKind, Outcome, Phase};

use super::{
    region::{ProbeApproach, RegionShape},
    rng::Rng,
    world::StaticFacts,
};

/// Failure of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrawnFailure {
    /// Refused at once.
    Refused,
    /// No response.
    Timeout,
    /// No route.
    Unreachable,
    /// Reset.
    Reset,
    /// Closed without a response.
    Eof,
    /// TLS handshake.
    Tls,
    /// Connected, then no progress.
    Stall,
    /// A response with this status.
    Status(u16),
    /// The name does not exist.
    NxDomain,
    /// The resolver failed.
    ServFail,
    /// The wrong answer.
    WrongBody,
}

/// Failures with their weights.
pub type FailureMix = Vec<(DrawnFailure, f64)>;

impl DrawnFailure {
    /// Returns the name in the recording.
    #[must_use]
    pub fn word(self) -> String {
        match self {
            Self::Refused => "refused".to_owned(),
            Self::Timeout => "timeout".to_owned(),
            Self::Unreachable => "unreachable".to_owned(),
            Self::Reset => "reset".to_owned(),
            Self::Eof => "eof".to_owned(),
            Self::Tls => "tls".to_owned(),
            Self::Stall => "stall".to_owned(),
            Self::Status(status) => format!("http_{status}"),
            Self::NxDomain => "nxdomain".to_owned(),
            Self::ServFail => "servfail".to_owned(),
            Self::WrongBody => "wrong_body".to_owned(),
        }
    }

    /// Returns the outcome as a prober reports it, with the phase that fails.
    #[must_use]
    pub fn outcome(self, way: ProbeApproach) -> Outcome {
        let failed = |phase, kind| Outcome::Failed {
            phase,
            kind,
            status: None,
        };
        if way == ProbeApproach::Dns {
            let kind = match self {
                Self::NxDomain => FailureKind::NxDomain,
                Self::ServFail => FailureKind::ServFail,
                Self::Unreachable | Self::Refused => FailureKind::ResolverUnreachable,
                _ => FailureKind::ResolveTimeout,
            };
            return failed(Phase::Resolve, kind);
        }
        match self {
            Self::Refused => failed(Phase::Connect, FailureKind::Refused),
            Self::Timeout => failed(Phase::Connect, FailureKind::ConnectTimeout),
            Self::Unreachable => failed(Phase::Connect, FailureKind::Unreachable),
            Self::Reset => failed(Phase::FirstByte, FailureKind::Reset),
            Self::Eof => failed(Phase::FirstByte, FailureKind::Eof),
            Self::Tls => failed(Phase::Tls, FailureKind::TlsAlert),
            Self::Stall => failed(Phase::Body, FailureKind::BodyStalled),
            Self::Status(status) => Outcome::Failed {
                phase: Phase::Check,
                kind: FailureKind::Status,
                status: Some(status),
            },
            Self::WrongBody => failed(Phase::Check, FailureKind::WrongBody),
            Self::NxDomain => failed(Phase::Resolve, FailureKind::NxDomain),
            Self::ServFail => failed(Phase::Resolve, FailureKind::ServFail),
        }
    }

    /// Reports whether the probe runs into its timeout.
    #[must_use]
    pub const fn runs_into_timeout(self) -> bool {
        matches!(self, Self::Timeout | Self::Stall)
    }

    /// Returns the equivalent failure on another channel: a resolver sends no HTTP status, an echo no SERVFAIL.
    #[must_use]
    pub const fn on_channel(self, way: ProbeApproach) -> Self {
        match (way, self) {
            (ProbeApproach::Dns, Self::NxDomain | Self::ServFail) => self,
            (ProbeApproach::Dns, _) => Self::Timeout,
            (ProbeApproach::Mesh, Self::Status(_) | Self::WrongBody | Self::Tls) => Self::Reset,
            _ => self,
        }
    }
}

/// Returns failures without any fault.
#[must_use]
pub fn background(way: ProbeApproach) -> &'static [(DrawnFailure, f64)] {
    match way {
        ProbeApproach::Dns => &[(DrawnFailure::Timeout, 0.6), (DrawnFailure::ServFail, 0.4)],
        ProbeApproach::Mesh => &[
            (DrawnFailure::Timeout, 0.75),
            (DrawnFailure::Reset, 0.15),
            (DrawnFailure::Refused, 0.1),
        ],
        ProbeApproach::Vip | ProbeApproach::Direct | ProbeApproach::Proxied => &[
            (DrawnFailure::Timeout, 0.5),
            (DrawnFailure::Reset, 0.15),
            (DrawnFailure::Status(503), 0.15),
            (DrawnFailure::Refused, 0.08),
            (DrawnFailure::Eof, 0.07),
            (DrawnFailure::Unreachable, 0.05),
        ],
    }
}

/// Draws the failures of a fault: one of a few typical mixes of its cause. They are derived from the catalogue's
/// descriptions, not from the engine's pseudo-counts. A fault of `one_host` of a front appears after the connection,
/// which all hosts share.
pub fn draw(kind: RegionShape, one_host: bool, facts: &StaticFacts, rng: &mut Rng) -> FailureMix {
    use DrawnFailure::{
        Eof, NxDomain, Refused, Reset, ServFail, Stall, Status, Timeout, Tls, Unreachable, WrongBody,
    };
    let mixes: &[&[(DrawnFailure, f64)]] = match kind {
        RegionShape::Target => &[
            &[(Refused, 1.0)],
            &[(Status(503), 1.0)],
            &[(Status(502), 0.7), (Status(504), 0.3)],
            &[(Timeout, 1.0)],
            &[(WrongBody, 1.0)],
            &[(Tls, 1.0)],
        ],
        RegionShape::Vip | RegionShape::OutsideAll => &[
            &[(Timeout, 1.0)],
            &[(Refused, 1.0)],
            &[(Unreachable, 1.0)],
            &[(Timeout, 0.8), (Reset, 0.2)],
        ],
        RegionShape::Backend => &[
            &[(Refused, 1.0)],
            &[(Status(503), 1.0)],
            &[(Timeout, 1.0)],
            &[(Status(500), 0.7), (Status(503), 0.3)],
            &[(Reset, 0.8), (Eof, 0.2)],
        ],
        RegionShape::Bnode | RegionShape::BnodeRemote | RegionShape::Pair | RegionShape::Zone => &[
            &[(Timeout, 1.0)],
            &[(Timeout, 0.8), (Unreachable, 0.2)],
            &[(Unreachable, 1.0)],
        ],
        RegionShape::Cross => &[&[(Timeout, 1.0)], &[(Stall, 0.7), (Timeout, 0.3)]],
        RegionShape::Client => &[
            &[(Timeout, 1.0)],
            &[(Unreachable, 1.0)],
            &[(Timeout, 0.6), (Unreachable, 0.4)],
        ],
        RegionShape::ClientVip => &[
            &[(Timeout, 1.0)],
            &[(Refused, 1.0)],
            &[(Timeout, 0.9), (Reset, 0.1)],
        ],
        RegionShape::NoLocal => match facts.proxy_mode {
            "ipvs" => &[&[(Refused, 1.0)]],
            "cilium" => &[&[(Refused, 1.0)], &[(Timeout, 1.0)]],
            _ => &[&[(Timeout, 1.0)]],
        },
        RegionShape::Same | RegionShape::SameVip | RegionShape::SelfPod | RegionShape::SelfVip => {
            &[&[(Timeout, 1.0)], &[(Timeout, 0.7), (Reset, 0.3)]]
        }
        RegionShape::ProtoVip => &[&[(Eof, 1.0)], &[(Reset, 0.5), (Eof, 0.5)], &[(Status(400), 1.0)]],
        RegionShape::DnsClient | RegionShape::DnsAll => &[
            &[(Timeout, 1.0)],
            &[(ServFail, 1.0)],
            &[(Timeout, 0.5), (ServFail, 0.5)],
        ],
        RegionShape::DnsName => &[&[(NxDomain, 1.0)], &[(ServFail, 1.0)]],
    };
    let mut mix = rng.pick(mixes).to_vec();
    if one_host {
        for (failure, _) in &mut mix {
            *failure = match *failure {
                Refused | Unreachable => Status(503),
                Timeout => Stall,
                behind => behind,
            };
        }
    }
    mix
}
