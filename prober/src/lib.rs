//! The prober: makes the probes of its plan from its vantage and reports the results.
//!
//! ```text
//! plan_client ─▶ schedule ─▶ rate_limiter ─▶ probe (resolve ─▶ connect ─▶ PROXY header ─▶ tls ─▶ http) ─▶ spool ─▶ report
//!                              facts (of the node, periodically) ──────────────────────────────────────────────▶ report
//!                                              └── ttl (distance of the responder)    echo (responds to other probers)
//! ```
//!
//! [`Agent`] is the whole prober; [`run`] makes a single probe without a plan or an aggregator. [`resolve_all`],
//! [`ttl_evidence`] and [`validate`] serve `parallax check` and the preflight: they resolve a name, find out how far away
//! the responder is, and fetch a challenge as cert-manager or a certificate authority does. [`names`] collects the DNS
//! records of a name from several servers, CAA records included.

mod agent;
mod aggregator_client;
mod certificate;
mod clock;
mod connect;
mod context;
mod credentials;
mod dns;
mod echo;
mod facts;
mod failure;
mod http;
mod jitter;
mod logged_reason;
mod metrics;
pub mod names;
mod phase_timer;
mod plan_client;
mod probe;
mod profile;
mod proxy_header;
mod rate_limiter;
mod recent_observations;
mod redirect;
mod replica_key;
mod replica_spools;
mod replicas;
mod report;
mod report_log;
mod resolution;
mod resolv_conf;
mod resolve;
mod result;
mod role;
mod route_check;
mod run_queue;
mod runner;
mod sanitize;
mod schedule;
mod scheduling_lag;
mod shared_state;
mod spool;
mod sys;
mod timestamped_stream;
mod tls;
mod ttl;
mod ttl_schedule;

pub use agent::{Agent, AgentConfig, AgentError, SPOOL_CAPACITY, run_agent};
pub use aggregator_client::{AggregatorRoots, ProberCredential};
pub use certificate::{CertificateFacts, TlsFacts};
pub use clock::Clock;
pub use context::ProbeContext;
pub use credentials::{
    CredentialFiles, CredentialHeader, CredentialSource, CredentialStore, HostRule, InvalidCredentialHeader,
    InvalidCredentials, InvalidHostRule,
};
pub use facts::FactSources;
pub use probe::{SERVED_BY_HEADERS, run};
pub use profile::{
    AcmeProblem, AddressRule, BodyRule, BodyTrim, ChallengeRequest, ClientProfile, DialAttempt, DialOutcome,
    LookupRule, ProblemClass, Profile, RedirectRules, ValidationResult, validate,
};
pub use resolution::{
    FamilyAnswer, FoundAddress, LibcAnswers, Resolution, ResolverChoice, TriedName, libc_answers, resolve_all,
};
pub use result::{AnswerFacts, ProbeResult, RedirectHop};
pub use role::Role;
pub use tls::TlsConfigs;
pub use ttl::{NoEvidence, ttl_evidence};
