//! Preflight: know before the order whether the certificate will be issued. Pure: values in, values out.
//!
//! ```text
//! Issuer ─▶ pick ─▶ approach ─▶ objects ─▶ (the caller creates) ─▶ runs ─▶ judge ─▶ two verdicts
//! Certificate ┘       └ Ingress, HTTPRoute or editing in place      pod ────┘  (where cert-manager sits, and how it differs)
//! ```
//!
//! cert-manager's self check and the CA's validation differ in both directions, so they are two verdicts and are never
//! merged. Semantics of cert-manager 1.21.

mod approach;
mod ask;
mod fetch;
mod in_place;
mod judge;
mod names;
mod objects;
mod owner;
mod pick;
mod pod;
mod reason;
pub mod runs;
mod seat;
mod types;
mod waits;
mod words;

pub use approach::{Approach, Overrides, Unsolvable};
pub use ask::{InvalidHost, key_authorization, preflight_host, token};
pub use fetch::{DEEPER, Fetched, Gathering, Part, Wanted};
pub use in_place::{PREFIX, preflights_in, with_path, without_path};
pub use judge::{
    Asked, Cause, Check, Finding, Group, Judged, NodeAnswer, Standing, Verdict, exit_code, judge,
};
pub use names::{
    CaaStanding, Climbed, For, NameCause, NameFacts, NameProblem, Names, NamesJudged, SeenName, Side,
    Wanted as WantedViews, caa_identities, judge_names,
};
pub use objects::{
    DEADLINE, LISTEN_PORT, Made, Material, OWNER, Solver as SyntheticSolver, billable, ready_pod,
    route_accepted,
};
pub use owner::{Owner, PREFLIGHT_UID};
pub use pick::{Picked, pick};
pub use pod::{Controller, Difference, Leader, Reaches, controller, egress};
pub use reason::{Reason, Waiting, reason};
pub use seat::{CONTROLLER, LEASE, Look, Seat, Sought};
pub use types::{
    Certificate, CertificateStatus, Challenge, Condition, GatewaySolver, Http01, IngressSolver, Issuer,
    IssuerRef, KeyAuthorization, Meta, Selector, Solver, read,
};
pub use waits::{WaitInstead, meaning, wait_instead};
pub use words::{authority_says, self_check_says};
