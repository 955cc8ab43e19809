//! Probers on consistent-hash rings: selects mesh peers and the sample of probers per target.
//!
//! Computed once per topology. Thousands of vantages request their plan at every change, and a plan must not visit
//! every other node for every target.

use parallax_model::{NodeName, hash};

/// Rings in the mesh; each gives two peers.
pub(crate) const MESH_RINGS: usize = 4;

/// One order of the probers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ProberRing {
    /// Hashes in order, with the prober's index.
    order: Vec<(u64, usize)>,
    /// Position of each prober in that order.
    position: Vec<usize>,
}

impl ProberRing {
    fn new(name: &str, probers: &[NodeName]) -> Self {
        let mut order: Vec<(u64, usize)> = probers
            .iter()
            .enumerate()
            .map(|(number, node)| (hash::fnv1a_mixed(&[name, node.as_str()]), number))
            .collect();
        order.sort_unstable();
        let mut place = vec![0; order.len()];
        for (at, (_, number)) in order.iter().enumerate() {
            place[*number] = at;
        }
        Self {
            order,
            position: place,
        }
    }
}

/// All nodes with a prober, on all rings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProberRings {
    /// Sorted by name; a prober is identified by its index.
    probers: Vec<NodeName>,
    mesh: Vec<ProberRing>,
    sampling_ring: ProberRing,
}

impl ProberRings {
    /// Creates the rings. The nodes must be sorted by name.
    pub(crate) fn new(probers: Vec<NodeName>) -> Self {
        Self {
            mesh: (0..MESH_RINGS)
                .map(|ring| ProberRing::new(&ring.to_string(), &probers))
                .collect(),
            sampling_ring: ProberRing::new("sample", &probers),
            probers,
        }
    }

    pub(crate) fn probers(&self) -> &[NodeName] {
        &self.probers
    }

    pub(crate) fn index_of(&self, node: &NodeName) -> Option<usize> {
        self.probers.binary_search(node).ok()
    }

    /// Returns the neighbours of a prober on each ring of the mesh. The relation is symmetric.
    pub(crate) fn neighbours(&self, number: usize) -> impl Iterator<Item = &NodeName> {
        self.mesh.iter().flat_map(move |ring| {
            let (at, n) = (ring.position[number], ring.order.len());
            [(at + 1) % n, (at + n - 1) % n].map(|next| &self.probers[ring.order[next].1])
        })
    }

    /// Returns the position of a key on the sampling ring.
    pub(crate) fn position_of(&self, key: &str) -> usize {
        let key = hash::fnv1a_mixed(&[key]);
        self.sampling_ring.order.partition_point(|(hash, _)| *hash < key)
    }

    /// Returns the first `most` of the given probers on the ring from a key's position, sorted by index.
    pub(crate) fn first_from(&self, start: usize, of: &[usize], most: usize) -> Vec<usize> {
        let ProberRing {
            order,
            position: place,
        } = &self.sampling_ring;
        let mut nearest = of.to_vec();
        if nearest.len() > most {
            nearest.sort_by_key(|number| (place[*number] + order.len() - start) % order.len());
            nearest.truncate(most);
            nearest.sort_unstable();
        }
        nearest
    }

    /// Returns all probers for which [`Self::samples`] holds, in ring order.
    pub(crate) fn sample_from<'a>(
        &'a self,
        start: usize,
        wanted: usize,
        left_out: &'a [usize],
    ) -> impl Iterator<Item = usize> {
        let (late, early) = self
            .sampling_ring
            .order
            .split_at(start.min(self.sampling_ring.order.len()));
        let around = early.iter().chain(late).map(|(_, number)| *number);
        around.filter(|number| !left_out.contains(number)).take(wanted)
    }

    /// Reports whether a prober is among the first `wanted` on the ring from a key's position, excluding
    /// `left_out`. Adding or removing a prober moves at most one other in or out of each key's sample.
    pub(crate) fn is_in_sample(
        &self,
        start: usize,
        wanted: usize,
        number: usize,
        left_out: &[usize],
    ) -> bool {
        let ProberRing {
            order,
            position: place,
        } = &self.sampling_ring;
        let distance = |number: usize| (place[number] + order.len() - start) % order.len();
        let own = distance(number);
        let before = left_out.iter().filter(|other| distance(**other) < own).count();
        !left_out.contains(&number) && own - before < wanted
    }
}
