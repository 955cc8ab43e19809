//! The role of a prober.

/// What a prober is there for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// To probe, report and answer.
    #[default]
    Prober,
    /// To answer only: a second pod of a node, which others ask through a Service. It reports nothing.
    Responder,
}
