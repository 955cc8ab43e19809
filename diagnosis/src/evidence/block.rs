//! Blocks of cells: the smallest unit that a change of endpoints restarts.

use parallax_model::Front;

use crate::ids::{ServiceIx, TargetIx};

/// The object that probes are evidence about.
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

/// A block of cells about one such object, counting either failures or slow successes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CellBlock {
    /// Counts slow successes instead of failures.
    pub(crate) slow: bool,
    pub(crate) kind: EvidenceKind,
}

impl CellBlock {
    /// Returns the block that counts failures.
    pub(crate) const fn failures(of: EvidenceKind) -> Self {
        Self {
            slow: false,
            kind: of,
        }
    }

    /// Returns the block that counts slow successes.
    pub(crate) const fn slowness(of: EvidenceKind) -> Self {
        Self { slow: true, kind: of }
    }
}
