//! Cells: counts of outcomes by channel, client and destination.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use parallax_model::Channel;

use crate::ids::{KindIx, NameIx, NodeIx, PodIx, VantageIx};

/// Reports whether probes of a channel go through a Service address, which selects the endpoint.
pub(crate) const fn is_through_front(channel: Channel) -> bool {
    matches!(channel, Channel::Vip | Channel::Proxied | Channel::NodePort)
}

/// Destination of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Destination {
    /// Through a virtual address, with the selected endpoint unknown.
    Unknown,
    /// An endpoint.
    Entry(PodIx),
    /// The prober on a node.
    Peer(NodeIx),
    /// A single question to the resolver, for a DNS name.
    Name(NameIx),
    /// A lookup of a DNS name as a client makes it: both address families, along the search list.
    Lookup(NameIx),
}

impl Destination {
    /// Returns the DNS name, if it is one.
    pub(crate) const fn name(self) -> Option<NameIx> {
        match self {
            Self::Name(name) | Self::Lookup(name) => Some(name),
            Self::Unknown | Self::Entry(_) | Self::Peer(_) => None,
        }
    }
}

/// Key of a cell within its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CellKey {
    pub(crate) channel: Channel,
    pub(crate) client: VantageIx,
    pub(crate) dest: Destination,
}

/// Counts of a cell, as weights in units of [`crate::evidence::weights::ONE`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CellCounts {
    /// Probes and failures as judged: with shares of a front and the stall weight.
    pub(crate) probes: u64,
    pub(crate) failures: u64,
    /// The same without the stall weight, as shown to people.
    pub(crate) unweighted_probes: u64,
    pub(crate) unweighted_failures: u64,
    /// Failures by kind and status: judged weight, seen weight.
    pub(crate) kinds: BTreeMap<(KindIx, Option<u16>), (u64, u64)>,
}

impl CellCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.probes += other.probes;
        self.failures += other.failures;
        self.unweighted_probes += other.unweighted_probes;
        self.unweighted_failures += other.unweighted_failures;
        for (kind, (judged, seen)) in &other.kinds {
            let sum = self.kinds.entry(*kind).or_default();
            sum.0 += judged;
            sum.1 += seen;
        }
    }
}

/// Cells of one subject: of one round as it is judged, or summed over several.
pub(crate) type RoundCells = BTreeMap<CellKey, CellCounts>;

/// The cells of one subject in a closed round, sorted. A vector, because a large mesh creates hundreds of thousands
/// of cells per round and rarely looks one up.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClosedCells {
    cells: Vec<(CellKey, CellCounts)>,
    /// Index of the cells by destination, built only if there are very many.
    index: Option<DestinationIndex>,
}

/// Number of cells in a round above which the index pays off: a mesh of 250 nodes.
pub(crate) const MANY_CELLS: usize = 2_000;

/// Clients and destinations that select a few of very many cells.
#[derive(Debug, Default)]
pub(crate) struct CellSelection {
    pub(crate) clients: BTreeSet<VantageIx>,
    pub(crate) dests: BTreeSet<Destination>,
}

/// Destinations and positions of cells, sorted, so that selecting a few cells does not scan all.
#[derive(Debug, Clone)]
struct DestinationIndex(Vec<(Destination, usize)>);

impl ClosedCells {
    pub(super) fn new(mut cells: Vec<(CellKey, CellCounts)>) -> Self {
        cells.sort_unstable_by_key(|(key, _)| *key);
        let index = (cells.len() > MANY_CELLS).then(|| DestinationIndex::of(&cells));
        Self { cells, index }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&CellKey, &CellCounts)> {
        self.cells.iter().map(|(key, counts)| (key, counts))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &CellKey> {
        self.cells.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &CellCounts> {
        self.cells.iter().map(|(_, counts)| counts)
    }

    pub(crate) const fn len(&self) -> usize {
        self.cells.len()
    }

    /// Reports whether a client's probes went there.
    pub(crate) fn contains(&self, key: &CellKey) -> bool {
        self.cells.binary_search_by_key(key, |(known, _)| *known).is_ok()
    }

    /// Reports whether a client sent any probes on a channel.
    pub(crate) fn has_probes_of(&self, channel: Channel, client: VantageIx) -> bool {
        !self.positions_of(channel, client).is_empty()
    }

    /// Returns the positions of the cells of a client on a channel.
    fn positions_of(&self, channel: Channel, client: VantageIx) -> Range<usize> {
        let way = |(key, _): &(CellKey, CellCounts)| (key.channel, key.client);
        let begin = self.cells.partition_point(|cell| way(cell) < (channel, client));
        let rest = &self.cells[begin..];
        begin..begin + rest.partition_point(|cell| way(cell) == (channel, client))
    }

    /// Returns the channels of all cells.
    fn channels(&self) -> Vec<Channel> {
        let mut channels = Vec::new();
        let mut rest = self.cells.as_slice();
        while let Some((key, _)) = rest.first() {
            channels.push(key.channel);
            rest = &rest[rest.partition_point(|(other, _)| other.channel == key.channel)..];
        }
        channels
    }

    /// Restores the full weight of the failures of some clients.
    pub(crate) fn restore_weights(&mut self, of: impl Fn(VantageIx) -> bool) {
        for (_, counts) in self.cells.iter_mut().filter(|(key, _)| of(key.client)) {
            counts.probes = counts.unweighted_probes;
            counts.failures = counts.unweighted_failures;
            for (judged, seen) in counts.kinds.values_mut() {
                *judged = *seen;
            }
        }
    }

    pub(crate) fn retain(&mut self, kept: impl Fn(&CellKey, &CellCounts) -> bool) {
        let before = self.cells.len();
        self.cells.retain(|(key, counts)| kept(key, counts));
        if self.cells.len() < before && self.index.is_some() {
            self.index = Some(DestinationIndex::of(&self.cells));
        }
    }

    /// Adds cells that are not in the round yet.
    pub(super) fn add(&mut self, cells: Vec<(CellKey, CellCounts)>) {
        let mut all = std::mem::take(&mut self.cells);
        all.extend(cells);
        *self = Self::new(all);
    }

    /// Returns a copy with the cells of some clients replaced.
    pub(crate) fn with_clients_replaced(&self, clients: &BTreeSet<VantageIx>, instead: Self) -> Self {
        let others = self
            .cells
            .iter()
            .filter(|(key, _)| !clients.contains(&key.client));
        let mut cells = instead.cells;
        cells.extend(others.cloned());
        Self::new(cells)
    }

    /// Adds all cells to a sum.
    pub(crate) fn add_to(&self, sums: &mut RoundCells) {
        add_sorted(sums, &self.cells.iter().collect::<Vec<_>>());
    }

    /// Adds the cells of the given clients or destinations to a sum.
    pub(crate) fn add_selected_to(&self, sums: &mut RoundCells, near: &CellSelection) {
        let found: BTreeSet<usize> = if let Some(index) = &self.index {
            let channels = self.channels();
            let from = near.clients.iter().flat_map(|client| {
                let channels = channels.iter();
                channels.flat_map(|channel| self.positions_of(*channel, *client))
            });
            let into = near.dests.iter().flat_map(|dest| index.positions_of(*dest));
            from.chain(into).collect()
        } else {
            let keys = self.keys().enumerate();
            let near = |key: &CellKey| near.clients.contains(&key.client) || near.dests.contains(&key.dest);
            keys.filter(|(_, key)| near(key)).map(|(at, _)| at).collect()
        };
        let found: Vec<_> = found.into_iter().map(|at| &self.cells[at]).collect();
        add_sorted(sums, &found);
    }
}

/// A sum this many times larger than what is added is searched rather than traversed.
const MUCH_LARGER: usize = 8;

/// Adds cells in ascending order of their keys to a sum. Most rounds have the same cells, and traversing two sorted lists
/// side by side is several times faster than a search for every cell.
fn add_sorted(sums: &mut RoundCells, cells: &[&(CellKey, CellCounts)]) {
    if sums.is_empty() {
        *sums = cells.iter().map(|cell| (*cell).clone()).collect();
        return;
    }
    if sums.len() > MUCH_LARGER * cells.len() {
        for (key, counts) in cells {
            sums.entry(*key).or_default().add(counts);
        }
        return;
    }
    let mut missing = Vec::new();
    let mut known = sums.iter_mut().peekable();
    for (key, counts) in cells {
        while known.next_if(|(other, _)| *other < key).is_some() {}
        match known.peek_mut() {
            Some((other, sum)) if *other == key => sum.add(counts),
            _ => missing.push((*key, counts)),
        }
    }
    for (key, counts) in missing {
        sums.insert(key, counts.clone());
    }
}

impl DestinationIndex {
    fn of(cells: &[(CellKey, CellCounts)]) -> Self {
        let positions = cells.iter().enumerate();
        let mut positions: Vec<_> = positions.map(|(at, (key, _))| (key.dest, at)).collect();
        positions.sort_unstable();
        Self(positions)
    }

    /// Returns the positions of the cells to a destination.
    fn positions_of(&self, dest: Destination) -> impl Iterator<Item = usize> {
        let begin = self.0.partition_point(|(other, _)| *other < dest);
        let cells = self.0[begin..]
            .iter()
            .take_while(move |(other, _)| *other == dest);
        cells.map(|(_, at)| *at)
    }
}

/// Cells of an open round, client by client.
#[derive(Debug, Default)]
pub(crate) struct OpenCells(Vec<(CellKey, CellCounts)>);

impl OpenCells {
    /// Returns the start index of the next client's cells.
    pub(crate) const fn next_start(&self) -> usize {
        self.0.len()
    }

    /// Returns a cell of the client whose cells start at `begin`.
    pub(crate) fn cell(&mut self, begin: usize, key: CellKey) -> &mut CellCounts {
        // A client has few cells of one subject and mostly returns to the last of them.
        let known = self.0[begin..].iter().rposition(|(known, _)| *known == key);
        let at = known.map_or(self.0.len(), |at| begin + at);
        if at == self.0.len() {
            self.0.push((key, CellCounts::default()));
        }
        &mut self.0[at].1
    }

    pub(crate) fn close(self) -> ClosedCells {
        ClosedCells::new(self.0)
    }
}
