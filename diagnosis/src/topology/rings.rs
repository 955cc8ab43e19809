//! The probers on rings, each ordered by another hash: who are whose peers, and which nodes a target is asked from.
//!
//! Worked out once per topology. Each of thousands of vantages asks for its own plan at every change, and none of them
//! may look at every other node for every target.

use parallax_model::{NodeName, hash};

/// Rings in the mesh; each gives two peers.
pub(crate) const MESH: usize = 4;

/// One order of the probers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ProberRing {
    /// Hashes in order, with the prober's number.
    order: Vec<(u64, usize)>,
    /// Place of each prober in that order.
    place: Vec<usize>,
}

impl ProberRing {
    fn new(name: &str, probers: &[NodeName]) -> Self {
        let mut order: Vec<(u64, usize)> = probers
            .iter()
            .enumerate()
            .map(|(number, node)| (hash::scattered(&[name, node.as_str()]), number))
            .collect();
        order.sort_unstable();
        let mut place = vec![0; order.len()];
        for (at, (_, number)) in order.iter().enumerate() {
            place[*number] = at;
        }
        Self { order, place }
    }
}

/// Every node with a prober, on all rings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProberRings {
    /// Sorted by name; a prober's number is its index.
    probers: Vec<NodeName>,
    mesh: Vec<ProberRing>,
    sample: ProberRing,
}

impl ProberRings {
    /// The rings of the nodes that hold a prober, in the order of their names.
    pub(crate) fn new(probers: Vec<NodeName>) -> Self {
        Self {
            mesh: (0..MESH)
                .map(|ring| ProberRing::new(&ring.to_string(), &probers))
                .collect(),
            sample: ProberRing::new("sample", &probers),
            probers,
        }
    }

    pub(crate) fn probers(&self) -> &[NodeName] {
        &self.probers
    }

    pub(crate) fn number(&self, node: &NodeName) -> Option<usize> {
        self.probers.binary_search(node).ok()
    }

    /// Neighbours of a prober on each ring of the mesh. Mutual: if a is b's, b is a's.
    pub(crate) fn neighbours(&self, number: usize) -> impl Iterator<Item = &NodeName> {
        self.mesh.iter().flat_map(move |ring| {
            let (at, n) = (ring.place[number], ring.order.len());
            [(at + 1) % n, (at + n - 1) % n].map(|next| &self.probers[ring.order[next].1])
        })
    }

    /// Where on the sampling ring a key stands.
    pub(crate) fn start(&self, key: &str) -> usize {
        let key = hash::scattered(&[key]);
        self.sample.order.partition_point(|(hash, _)| *hash < key)
    }

    /// The first of some probers on the ring from a key's place on; sorted by number.
    pub(crate) fn nearest(&self, start: usize, of: &[usize], most: usize) -> Vec<usize> {
        let ProberRing { order, place } = &self.sample;
        let mut nearest = of.to_vec();
        if nearest.len() > most {
            nearest.sort_by_key(|number| (place[*number] + order.len() - start) % order.len());
            nearest.truncate(most);
            nearest.sort_unstable();
        }
        nearest
    }

    /// The probers of which [`Self::samples`] says so, in the order of the ring.
    pub(crate) fn sample<'a>(
        &'a self,
        start: usize,
        wanted: usize,
        left_out: &'a [usize],
    ) -> impl Iterator<Item = usize> {
        let (late, early) = self.sample.order.split_at(start.min(self.sample.order.len()));
        let around = early.iter().chain(late).map(|(_, number)| *number);
        around.filter(|number| !left_out.contains(number)).take(wanted)
    }

    /// Whether a prober is among the first `wanted` on the ring from a key's place on, those left out not counted. One
    /// prober more or less moves at most one other in or out of each key's sample.
    pub(crate) fn samples(&self, start: usize, wanted: usize, number: usize, left_out: &[usize]) -> bool {
        let ProberRing { order, place } = &self.sample;
        let distance = |number: usize| (place[number] + order.len() - start) % order.len();
        let own = distance(number);
        let before = left_out.iter().filter(|other| distance(**other) < own).count();
        !left_out.contains(&number) && own - before < wanted
    }
}
