//! Configuration of runs.

use parallax_model::AddressRange;

/// The `runs` section of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Whether runs may probe anything in addition to known targets.
    pub allow_any_target: bool,
    /// Addresses that runs may probe even if another rule refuses them.
    pub allow: Vec<AddressRange>,
    /// Addresses that no run may probe, in addition to the API server's and those local to the machine.
    pub refuse: Vec<AddressRange>,
}
