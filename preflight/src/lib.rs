//! Preflight: predicts whether a certificate will be issued over HTTP-01, before an order is placed. Pure: values
//! in, values out.
//!
//! ```text
//! Issuer ─▶ pick ─▶ approach ─▶ objects ─▶ (the caller creates) ─▶ runs ─▶ judge ─▶ two verdicts
//! Certificate ┘       └ Ingress, HTTPRoute or an edit in place      pod ────┘  (cert-manager's Pod: node, network path)
//! ```
//!
//! cert-manager's self check and the CA's validation differ in both directions, so they are two verdicts that are
//! never merged. The rules are those of cert-manager 1.21.
#![forbid(unsafe_code)]

mod approach;
mod fetch;
mod in_place;
mod judge;
mod names;
mod objects;
mod owner;
mod pick;
mod placement;
mod pod;
mod reason;
mod request;
mod types;
mod wait_reason;
mod wording;

pub use approach::{SolverOverrides, SolverRoute, UnsolvableReason};
pub use fetch::{DEEPER, FetchCollector, FetchPart, FetchRequest, FetchResult};
pub use in_place::{PREFIX, preflights_in, with_path, without_path};
pub use judge::{
    Cause, CheckInput, CheckKind, FailureGroup, HostVerdict, VantageAnswer, Verdict, exit_code, judge,
};
pub use names::{NameAnswer, NameQuery, QueriedResolvers, caa_identities, judge_names, name_facts};
pub use objects::{
    DEADLINE, LISTEN_PORT, OWNER, SolverInputs, SolverRouting, SyntheticSolver, billable, ready_pod,
    route_accepted,
};
pub use owner::{PREFLIGHT_UID, PreflightOwner};
pub use pick::{PickedSolver, pick};
pub use placement::{CONTROLLER, CertManagerPlacement, LEASE, PlacementReader, PlacementResource};
pub use pod::{CertManagerController, EgressReachability, LeaderEvidence, PodDifference, controller, egress};
pub use reason::{ParsedReason, SelfCheckFailure, reason};
pub use request::{InvalidHost, key_authorization, preflight_host, token};
pub use types::{
    Certificate, CertificateStatus, Challenge, Condition, GatewaySolver, Http01, IngressSolver, Issuer,
    IssuerRef, KeyAuthorization, Meta, Selector, Solver, read,
};
pub use wait_reason::{SkipSelfCheck, meaning, wait_instead};
pub use wording::{authority_says, self_check_says};
