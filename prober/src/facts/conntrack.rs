//! Fill level of the node's conntrack table.

use std::path::Path;

use parallax_model::Conntrack;

use super::read_number;

pub(super) fn read(root: &Path) -> Option<Conntrack> {
    let folder = root.join("proc/sys/net/netfilter");
    Some(Conntrack {
        count: read_number(&folder.join("nf_conntrack_count"))?,
        max: read_number(&folder.join("nf_conntrack_max"))?,
    })
}
