//! Reverse path filtering. The kernel uses the larger of the value for all interfaces and the value of the interface
//! (Documentation/networking/ip-sysctl): 1 is strict, 2 is loose.

use std::path::Path;

use super::{list_directory, read_number};

/// Whether any interface other than the loopback filters strictly.
pub(super) fn is_strict(root: &Path) -> Option<bool> {
    let folder = root.join("proc/sys/net/ipv4/conf");
    let all: u8 = read_number(&folder.join("all/rp_filter"))?;
    list_directory(&folder)
        .iter()
        .filter(|path| {
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| !matches!(name, "all" | "default" | "lo"))
        })
        .filter_map(|interface| read_number::<u8>(&interface.join("rp_filter")))
        .map(|own| own.max(all) == 1)
        .reduce(|any, one| any || one)
}
