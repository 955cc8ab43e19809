//! Bridge ports: whether they reflect, and whether what crosses the bridge passes iptables.

use std::path::Path;

use super::{names, number};

/// Whether every bridge port reflects; none where there is no bridge port (a routed network).
pub(super) fn hairpin(root: &Path) -> Option<bool> {
    names(&root.join("sys/class/net"))
        .iter()
        .filter_map(|interface| number::<u8>(&interface.join("brport/hairpin_mode")))
        .map(|mode| mode == 1)
        .reduce(|all, one| all && one)
}

/// `net.bridge.bridge-nf-call-iptables`; none without the module.
pub(super) fn calls_iptables(root: &Path) -> Option<bool> {
    number::<u8>(&root.join("proc/sys/net/bridge/bridge-nf-call-iptables")).map(|value| value == 1)
}
