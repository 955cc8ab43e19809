//! The prober: makes the probes of its plan from where it stands, and reports what came of them.
//!
//! ```text
//! plan_client ─▶ schedule ─▶ governor ─▶ probe (resolve ─▶ connect ─▶ PROXY header ─▶ tls ─▶ http) ─▶ spool ─▶ report
//!                              facts (the node, now and then) ─────────────────────────────────────────────▶ report
//!                                          └── ttl (who answers next door)    echo (answers the other probers)
//! ```
//!
//! [`Agent`] is all of it; [`run`] makes a single probe without any plan or aggregator. [`resolve_all`], [`ask_ttl`] and
//! [`validate`] are for people and the preflight: what a name leads to, who answers next door, and what cert-manager and
//! the certificate authorities would make of a challenge; [`names`] collects what is said of a name, CAA records included.

mod agent;
mod aggregator_client;
mod certificate;
mod classify;
mod clock;
mod connect;
mod context;
mod dns;
mod echo;
mod evidence;
mod facts;
mod family;
mod governor;
mod history;
mod http;
mod jitter;
mod logged_reason;
mod metrics;
pub mod names;
mod on_demand;
mod phase_timer;
mod plan_client;
mod probe;
mod profile;
mod proxy_header;
mod redirect;
mod replica_key;
mod replicas;
mod report;
mod report_log;
mod resolution;
mod resolv_conf;
mod resolve;
mod result;
mod role;
mod runner;
mod schedule;
mod spool;
mod spools;
mod status;
mod sys;
mod text;
mod timestamped_stream;
mod tls;
mod ttl;

pub use agent::{Agent, AgentConfig, AgentError, SPOOL_CAPACITY, run_agent};
pub use aggregator_client::{AggregatorRoots, ProberCredential};
pub use certificate::{CertificateFacts, TlsFacts};
pub use clock::Clock;
pub use context::ProbeContext;
pub use facts::FactSources;
pub use probe::{SERVED_BY_HEADERS, run};
pub use profile::{
    AcmeProblem, AddressRule, BodyRule, BodyTrim, ChallengeRequest, ClientProfile, DialOutcome, DialTried,
    LookupRule, ProblemClass, Profile, RedirectRules, ValidationResult, validate,
};
pub use resolution::{
    FamilyAnswer, FoundAddress, LibcAnswers, Resolution, ResolverChoice, TriedName, libc_answers, resolve_all,
};
pub use result::{AnswerFacts, ProbeResult, RedirectHop};
pub use role::Role;
pub use tls::TlsConfigs;
pub use ttl::{NoEvidence, ask_ttl};
