//! What a configuration says of runs.

use parallax_model::AddressRange;

/// `runs`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Whether a run may ask for what is no target.
    pub any_target: bool,
    /// Addresses that a run may ask for whatever else says no.
    pub allow: Vec<AddressRange>,
    /// Addresses that no run may ask for, besides those of the API server and of the own machine.
    pub refuse: Vec<AddressRange>,
}
