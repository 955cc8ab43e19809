//! Bridge facts: hairpin mode of the ports, and whether bridged packets pass iptables.

use std::path::Path;

use super::{list_directory, read_number};

/// Whether every bridge port has hairpin mode; `None` without bridge ports (a routed network).
pub(super) fn hairpin(root: &Path) -> Option<bool> {
    list_directory(&root.join("sys/class/net"))
        .iter()
        .filter_map(|interface| read_number::<u8>(&interface.join("brport/hairpin_mode")))
        .map(|mode| mode == 1)
        .reduce(|all, one| all && one)
}

/// `net.bridge.bridge-nf-call-iptables`; `None` without the kernel module.
pub(super) fn calls_iptables(root: &Path) -> Option<bool> {
    read_number::<u8>(&root.join("proc/sys/net/bridge/bridge-nf-call-iptables")).map(|value| value == 1)
}
