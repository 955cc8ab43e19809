//! Custom resources: a `Target` declares what must be reachable, a `Run` probes a target at once.
//!
//! ```text
//! Target ─▶ validation (fields, scope, duplicates) ─▶ added to the topology, with the scope of its namespace ─▶ plan
//!               └▶ status: Accepted, with the reason
//! Run ─▶ run manager ─▶ status: Accepted, Complete, Passed, some results; deleted after its TTL
//! ```
//!
//! A separate controller with its own permissions reconciles `Preflight` objects (`parallax preflight controller`);
//! only the types are defined here.
//!
//! Each object is validated on its own: an invalid object never affects another one.

mod judgement;
pub mod objects;
pub mod preflights;
mod resource;
mod runs;
mod targets;
mod tenant_options;
mod tenant_rules;
mod tenant_scope;
mod types;

#[cfg(test)]
mod definitions;
#[cfg(test)]
mod tests;

pub(crate) use judgement::{TargetObjects, TargetReview, TargetRules, validate};
pub use resource::CustomResourceKind;
pub(crate) use runs::watch_runs as follow_runs;
pub(crate) use targets::TargetController;
pub(crate) use tenant_options::{MAX_TARGETS, NamespaceException, TenantOptions};
pub use types::Condition;
