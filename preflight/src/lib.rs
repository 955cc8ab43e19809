//! Preflight: predicts whether a certificate will be issued over HTTP-01, before an order is placed. Pure: values
//! in, values out.
//!
//! ```text
//! Issuer ─▶ select ─▶ route ─▶ objects ─▶ (the caller creates) ─▶ runs ─▶ judge ─▶ two verdicts
//! Certificate ┘         └ Ingress, HTTPRoute or an edit in place  placement ──┘  (cert-manager's Pod: node, network path)
//! ```
//!
//! cert-manager's self check and the CA's validation differ in both directions, so they are two verdicts that are
//! never merged. The rules are those of cert-manager 1.21.
#![forbid(unsafe_code)]

mod cert_manager;
mod challenge_reason;
mod client_messages;
mod controller;
mod explanation;
mod fetch;
mod ingress_edit;
mod judge;
mod names;
mod objects;
mod owner;
mod placement;
mod request;
mod route;
mod select;

pub use cert_manager::{
    Certificate, CertificateStatus, Challenge, Condition, GatewaySolver, Http01, IngressSolver, Issuer,
    IssuerRef, KeyAuthorization, Meta, Selector, Solver, from_object,
};
pub use challenge_reason::{ChallengeReason, ParsedReason, parse_reason};
pub use client_messages::{ca_message, self_check_message};
pub use controller::{
    CertManagerController, EgressReachability, LeaderEvidence, PodDifference, egress_reachability,
    read_controller,
};
pub use explanation::{SkipSelfCheckAdvice, explain_reason, skip_self_check_advice};
pub use fetch::{DIAGNOSIS_ROUNDS, FetchCollector, FetchOutcome, FetchRequest, FetchResult};
pub use ingress_edit::{NAME_PREFIX, insert_path, preflights_with_path, remove_path};
pub use judge::{
    Cause, CheckInput, CheckKind, FailureGroup, HostVerdict, REQUIRED_FETCHES, UnknownReason, VantageAnswer,
    Verdict, exit_code, judge_check,
};
pub use names::{NameAnswer, NameQuery, QueriedResolvers, caa_identities, judge_names, name_facts};
pub use objects::{
    DEADLINE_ANNOTATION, PREFLIGHT_LABEL, RouteObject, SOLVER_PORT, SolverInputs, SyntheticSolver,
    billable_resource, is_pod_ready, is_route_accepted,
};
pub use owner::{PREFLIGHT_UID_LABEL, PreflightOwner};
pub use placement::{
    CONTROLLER_LABELS, CertManagerPlacement, LEASE_NAME, PlacementReader, PlacementResource,
};
pub use request::{InvalidHost, encode_key_authorization, encode_token, parse_host};
pub use route::{SolverOverrides, SolverRoute, UnsolvableReason};
pub use select::{PickedSolver, select_solver};
