//! The origins behind a front with several hosts, and the known causes that reach it over them.

use std::collections::BTreeSet;

use super::{Region, paths::SubjectPaths, probe_path::ProbePath};
use crate::ids::PodIx;

/// Parts into which the share of an origin is divided: every number of Pods up to ten divides it.
const PARTS: usize = 2520;

/// Pods to which the entry forwards the requests of the hosts of a front. A front is affected by them, and by the network on the way
/// to them, only if another subject names the cause: as hypotheses they would compete with faults of the front itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct FrontOrigins {
    /// The Pods of each origin, with the number of its hosts.
    origins: Vec<(usize, Vec<PodIx>)>,
    /// Number of hosts, those without a known origin included.
    hosts: usize,
    /// Causes between nodes that other subjects name.
    named: BTreeSet<Region>,
}

impl FrontOrigins {
    pub(crate) fn new(origins: Vec<(usize, Vec<PodIx>)>, hosts: usize, named: BTreeSet<Region>) -> Self {
        Self {
            origins,
            hosts,
            named,
        }
    }

    /// Reports whether a region is a Pod to which the entry forwards requests.
    pub(crate) fn is_origin(&self, region: Region) -> bool {
        let mut origins = self.origins.iter();
        matches!(region, Region::Backend(pod) if origins.any(|(_, pods)| pods.contains(&pod)))
    }

    /// Reports whether a region may affect what the entry forwards.
    pub(crate) fn is_affected_by(&self, region: Region) -> bool {
        self.is_origin(region) || !self.origins.is_empty() && self.named.contains(&region)
    }

    /// Returns how many continuations of a connection to the entry cross any of the regions, and how many there are; `None` if none
    /// of the regions may affect them.
    pub(super) fn count_crossing(
        &self,
        regions: &[Region],
        path: ProbePath,
        paths: &SubjectPaths,
    ) -> Option<(usize, usize)> {
        let affecting: Vec<Region> = regions
            .iter()
            .copied()
            .filter(|region| self.is_affected_by(*region))
            .collect();
        if affecting.is_empty() {
            return None;
        }
        let crosses = |origin: &&PodIx| {
            let onward = path.onward_to(**origin, paths);
            affecting.iter().any(|region| onward.is_in(*region, paths))
        };
        let hits = self.origins.iter().map(|(hosts, pods)| {
            let crossing = pods.iter().filter(crosses).count();
            hosts * (PARTS * crossing / pods.len().max(1))
        });
        Some((hits.sum(), PARTS * self.hosts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::NodeIx;
    use parallax_model::Channel;

    const ENTRY_NODE: NodeIx = NodeIx(0);

    fn share(origins: Vec<(usize, Vec<PodIx>)>, hosts: usize, region: Region) -> Option<(usize, usize)> {
        let path = ProbePath {
            channel: Channel::Vip,
            client: Some(NodeIx(3)),
            backend: Some(PodIx(9)),
            node: Some(ENTRY_NODE),
            receiver: None,
            is_self: false,
            name: None,
            onward: None,
        };
        let mut mesh = crate::regions::paths::MeshNodes::default();
        for (pod, node) in [(1, 0), (2, 1), (3, 2)] {
            mesh.pod_nodes.insert(PodIx(pod), NodeIx(node));
        }
        let paths = SubjectPaths::of_mesh(&std::sync::Arc::new(mesh));
        let named = BTreeSet::from([Region::Client(ENTRY_NODE)]);
        FrontOrigins::new(origins, hosts, named).count_crossing(&[region], path, &paths)
    }

    /// Three of four hosts have an origin with a Pod on the entry's node and one elsewhere; that of the fourth is unknown.
    #[test]
    fn each_host_counts_as_much_whatever_the_number_of_its_pods() {
        let origins = vec![(2, vec![PodIx(1), PodIx(2)]), (1, vec![PodIx(3)])];
        let of = |region| share(origins.clone(), 4, region);
        assert_eq!(of(Region::Backend(PodIx(2))), Some((2 * PARTS / 2, 4 * PARTS)));
        assert_eq!(of(Region::Backend(PodIx(3))), Some((PARTS, 4 * PARTS)));
        let (crossing, all) = of(Region::Client(ENTRY_NODE)).unwrap();
        assert_eq!(
            (crossing, all),
            (2 * PARTS / 2 + PARTS, 4 * PARTS),
            "not within the node"
        );
    }

    #[test]
    fn a_cause_that_no_other_subject_names_leaves_the_origins_out() {
        let origins = vec![(1, vec![PodIx(2)])];
        assert_eq!(share(origins.clone(), 1, Region::Client(NodeIx(7))), None);
        assert_eq!(share(origins, 1, Region::Backend(PodIx(9))), None);
    }
}
