//! The vocabulary of Parallax as types.
//!
//! | term | type |
//! |---|---|
//! | target | [`TargetSpec`] as written, [`Target`] once validated |
//! | front | [`Front`] |
//! | vantage | [`Vantage`] |
//! | channel | [`Channel`] |
//! | placement | [`Placement`] |
//! | observation | [`Observation`] |
//! | failure | [`FailureKind`] of a [`Phase`] |
//! | plan | [`Assignment`], sent as [`PlanLine`]s |
//!
//! The crate does no I/O and reads no clock. The wire, recordings, replay and test fixtures share the one
//! serialized form that it defines. `tests/wire/v1/` holds the fixtures; they are append-only.
//!
//! ```
//! use parallax_model::{Channel, FailureKind, Observation, Outcome, Phase, Vantage};
//!
//! let line = r#"{"seq":7,"t_us":8123456,"target":"http://shop.example.test/","channel":"vip",
//!     "front":"203.0.113.10:80","result":"failed","phase":"connect","kind":"refused"}"#;
//! let observation: Observation = serde_json::from_str(line).unwrap();
//! assert_eq!(observation.channel, Channel::Vip);
//! assert_eq!(
//!     observation.outcome,
//!     Outcome::Failed { phase: Phase::Connect, kind: FailureKind::Refused, status: None }
//! );
//! # let _: Vantage = "n1/pod".parse().unwrap();
//! ```
#![forbid(unsafe_code)]

mod backoff;
mod channel;
mod digest;
pub mod dns;
mod facts;
mod failure;
mod front;
mod go_proxy;
pub mod hash;
mod identifiers;
mod observation;
mod plan;
mod probability;
mod probe;
mod scope;
mod server;
mod target;
mod time;
pub mod units;
mod vantage;
mod wire;

pub use backoff::backoff;
pub use channel::{Channel, Placement};
pub use digest::{Digest, InvalidDigest};
pub use facts::{Conntrack, FactQuestions, HealthCheck, HostFacts, MAX_IPVS_ADDRESSES};
pub use failure::{FailureKind, KindClass, Outcome, OwnFault, Phase};
pub use front::{Front, InvalidFront, Transport};
pub use go_proxy::proxy_for;
pub use identifiers::{
    AssignmentId, HostName, Incarnation, InvalidName, Namespace, NodeName, ObjectName, PodName, RunId,
    ServiceKey, TargetId, VantageName, ZoneName,
};
pub use observation::{
    AnswerPrint, DnsAnswer, EchoIdentity, Observation, PhaseTimes, TtlEvidence, UnansweredQuestions,
};
pub use plan::{Assignment, DialAddress, EntryRef, PlanLine, PlanRevision, PlanSettings, RunOrder};
pub use probability::{InvalidProbability, Probability};
pub use probe::{
    BodyPattern, CHALLENGE_PATH, ChallengeClient, ChallengeProbe, ChallengeSight, CredentialName, DialSight,
    DnsProbe, DnsTransport, EscapedBytes, ExpectedStatus, HopSight, HttpProbe, HttpProxy, HttpProxyUrl,
    HttpVersion, InvalidBytes, InvalidCredentialName, InvalidMustNotAnswer, InvalidPattern, InvalidProxyUrl,
    InvalidRoots, InvalidStatuses, MAX_CHALLENGE_FETCHES, Method, MustNotAnswer, ProbeKind, ProbeSpec,
    ProxyHeader, RecordType, RedirectPolicy, RootCertificates, SIZE_SWEEP, Scheme, SearchManner, Silence,
    TcpProbe, TlsExpectation, TlsVersion,
};
pub use scope::{AddressRange, InvalidRange, ReservedRange, Scope};
pub use server::ServerProduct;
pub use target::{
    Forbidden, InvalidTarget, Target, TargetSpec, Whence, reserved_header_reason, reserved_headers,
};
pub use time::{EventTime, Micros, ReportSeq, Round};
pub use vantage::{InvalidVantage, Network, Reach, Vantage};
pub use wire::{Recorded, ReportAnswer, ReportHeader, Resend, WIRE_VERSION};

/// Path of the echo endpoint of every prober. It responds only to nonces of the mesh.
pub const ECHO_PATH: &str = "/.well-known/parallax/echo";

/// Maximum response size of an echo in bytes (`?size=`).
pub const ECHO_MAX_SIZE: u32 = 256 * 1024;

/// Request header that carries the nonce of a mesh probe.
pub const ECHO_NONCE_HEADER: &str = "parallax-nonce";
