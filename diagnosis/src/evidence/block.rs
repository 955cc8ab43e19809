//! Cells that belong together: the smallest thing that a change of endpoints can touch.

use parallax_model::Front;

use crate::ids::{ServiceIx, TargetIx};

/// What probes are evidence of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EvidenceKind {
    /// Resolvers.
    Dns,
    /// The control group.
    Mesh,
    /// Connections through a front.
    Vip(Front),
    /// Connections to the endpoints of a Service's port.
    Direct(ServiceIx, u16),
    /// Answers of a target, through its front and directly.
    Target(TargetIx),
}

/// Cells of one such thing, of failures or of slowness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CellBlock {
    /// How long the successes took, instead of how often there was none.
    pub(crate) slow: bool,
    pub(crate) of: EvidenceKind,
}

impl CellBlock {
    /// Failures.
    pub(crate) const fn plain(of: EvidenceKind) -> Self {
        Self { slow: false, of }
    }

    /// Slowness.
    pub(crate) const fn slow(of: EvidenceKind) -> Self {
        Self { slow: true, of }
    }
}
