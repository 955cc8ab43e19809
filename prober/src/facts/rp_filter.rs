//! Reverse path filtering. The kernel uses the larger of the value for all interfaces and the value of the interface
//! (Documentation/networking/ip-sysctl): 1 is strict, 2 is loose.

use std::path::Path;

use super::{names, number};

/// Whether any interface other than the loopback filters strictly.
pub(super) fn strict(root: &Path) -> Option<bool> {
    let folder = root.join("proc/sys/net/ipv4/conf");
    let all: u8 = number(&folder.join("all/rp_filter"))?;
    names(&folder)
        .iter()
        .filter(|path| {
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| !matches!(name, "all" | "default" | "lo"))
        })
        .filter_map(|interface| number::<u8>(&interface.join("rp_filter")))
        .map(|own| own.max(all) == 1)
        .reduce(|any, one| any || one)
}
