//! The share of a cell inside a region: 0 or 1 if the path is known, a fraction if a choice on the path is not
//! observed.

use super::{Region, paths::SubjectPaths, probe_path::ProbePath};
use crate::{
    evidence::cells::{CellKey, Destination, is_through_front},
    ids::{NameIx, NodeIx, PodIx},
};

/// Share of a cell's paths that cross a region, as a reduced fraction, so that equal shares compare equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PathShare {
    num: u32,
    den: u32,
}

impl PathShare {
    pub(crate) const ZERO: Self = Self { num: 0, den: 1 };
    pub(crate) const FULL: Self = Self { num: 1, den: 1 };

    /// Denominator of a share whose reduced denominator is too large.
    const COARSE: u32 = 1_000_000_000;

    pub(crate) fn new(num: usize, den: usize) -> Self {
        let (num, den) = (num as u64, (den as u64).max(1));
        let (mut a, mut b) = (num, den);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        let (num, den) = (num / a.max(1), den / a.max(1));
        if let (Ok(num), Ok(den)) = (u32::try_from(num), u32::try_from(den)) {
            return Self { num, den };
        }
        let coarse = u128::from(num) * u128::from(Self::COARSE) / u128::from(den);
        let num = u32::try_from(coarse).unwrap_or(u32::MAX);
        let den = Self::COARSE;
        Self { num, den }
    }

    /// The share of some independent choices of which at least one crosses the region: 1 − (1 − share)ⁿ.
    fn of_any_of(self, choices: u32) -> Self {
        if self.is_zero() || self.is_full() {
            return self;
        }
        let (den, missed) = (self.den as usize, (self.den - self.num.min(self.den)) as usize);
        let all_missed = (0..choices).fold(Self::FULL, |product, _| {
            Self::new(product.num as usize * missed, product.den as usize * den)
        });
        Self::new(
            (all_missed.den - all_missed.num) as usize,
            all_missed.den as usize,
        )
    }

    pub(crate) const fn is_zero(self) -> bool {
        self.num == 0
    }

    pub(crate) const fn is_full(self) -> bool {
        self.num == self.den
    }

    pub(crate) fn as_f64(self) -> f64 {
        f64::from(self.num) / f64::from(self.den)
    }

    /// The share rounded to a thousandth. Regions that differ by less are treated as inseparable.
    pub(crate) fn permille(self) -> u32 {
        let (num, den) = (u64::from(self.num), u64::from(self.den));
        u32::try_from((num * 2000 + den) / (2 * den)).unwrap_or(1000)
    }
}

/// Returns the share of a cell's paths that cross any of the regions. The union is computed per path and averaged
/// afterwards: the product of two shares would be too small if both depend on the same unobserved choice.
pub(crate) fn alpha(regions: &[Region], key: &CellKey, paths: &SubjectPaths) -> PathShare {
    let client = paths.node_of_client(key.client);
    let path = |backend: Option<PodIx>, node: Option<NodeIx>, name: Option<NameIx>| ProbePath {
        channel: key.channel,
        client,
        backend,
        node,
        receiver: None,
        is_self: backend
            .is_some_and(|pod| client.is_some() && paths.mesh.prober_pods.get(&pod).copied() == client),
        name,
        onward: None,
    };
    let receives = is_through_front(key.channel) && paths.has_receiver_hop(client);
    let is_hidden = |region: &Region| region.depends_on_receiver() || receives && region.is_between_nodes();
    if paths.balancer_pool.len() > 1 && regions.iter().any(is_hidden) {
        return alpha_over_pool(regions, key, paths, path);
    }
    let node_of = |pod: PodIx| paths.mesh.pod_node(pod);
    let share = |ends: &mut dyn Iterator<Item = ProbePath>| {
        let (hits, all) = ends.fold((0, 0), |(hits, all), end| {
            let (hit, ways) = count_crossing(regions, end, paths);
            (hits + hit, all + ways)
        });
        PathShare::new(hits, all)
    };
    let ends_at = |pods: &[PodIx], name: Option<NameIx>| {
        share(&mut pods.iter().map(|pod| path(Some(*pod), node_of(*pod), name)))
    };
    match key.dest {
        Destination::Entry(pod) => ends_at(&[pod], None),
        Destination::Peer(node) => share(&mut [path(None, Some(node), None)].into_iter()),
        Destination::Name(name) | Destination::Lookup(name) if paths.resolver_pods.is_empty() => {
            share(&mut [path(None, None, Some(name))].into_iter())
        }
        Destination::Name(name) => ends_at(&paths.resolver_pods, Some(name)),
        Destination::Lookup(name) => {
            ends_at(&paths.resolver_pods, Some(name)).of_any_of(paths.questions.count())
        }
        Destination::Unknown => {
            let eligible = paths.eligible(key.client);
            if eligible.is_empty() {
                return share(&mut [path(None, None, None)].into_iter());
            }
            // If policy Local is observed (nodes without an endpoint fail), nodes with an endpoint use their own.
            if paths.enforces_local
                && regions.contains(&Region::NoLocal)
                && client.is_some_and(|node| paths.local_nodes.contains(&node))
            {
                let own: Vec<PodIx> = eligible
                    .iter()
                    .copied()
                    .filter(|pod| node_of(*pod) == client)
                    .collect();
                if !own.is_empty() {
                    return ends_at(&own, None);
                }
            }
            ends_at(eligible, None)
        }
    }
}

/// Returns how many continuations of a path cross any of the regions, and how many there are: one for each origin that
/// the entry may select, or one if it answers itself.
fn count_crossing(regions: &[Region], path: ProbePath, paths: &SubjectPaths) -> (usize, usize) {
    let crosses = |path: ProbePath| regions.iter().any(|region| region.contains(path, paths));
    if is_through_front(path.channel)
        && let Some((hits, ways)) = paths.front_origins.count_crossing(regions, path, paths)
    {
        return (if crosses(path) { ways } else { hits }, ways);
    }
    let ways = paths.origin_pods.len().max(1);
    if crosses(path) {
        return (ways, ways);
    }
    let continues = |origin: &&PodIx| {
        let onward = Some(path.onward_to(**origin, paths));
        crosses(ProbePath { onward, ..path })
    };
    (paths.origin_pods.iter().filter(continues).count(), ways)
}

/// Like [`alpha`], if the balancer's choice matters: it is uniform over the pool, independent of the endpoint.
fn alpha_over_pool(
    regions: &[Region],
    key: &CellKey,
    paths: &SubjectPaths,
    path: impl Fn(Option<PodIx>, Option<NodeIx>, Option<NameIx>) -> ProbePath,
) -> PathShare {
    let node_of = |pod: PodIx| paths.mesh.pod_node(pod);
    let ends: Vec<ProbePath> = match key.dest {
        Destination::Entry(pod) => vec![path(Some(pod), node_of(pod), None)],
        Destination::Peer(node) => vec![path(None, Some(node), None)],
        Destination::Name(name) | Destination::Lookup(name) => vec![path(None, None, Some(name))],
        Destination::Unknown => {
            let eligible = paths.eligible(key.client).iter();
            let known: Vec<ProbePath> = eligible
                .map(|pod| path(Some(*pod), node_of(*pod), None))
                .collect();
            if known.is_empty() {
                vec![path(None, None, None)]
            } else {
                known
            }
        }
    };
    // A known endpoint gets the same share: the fewer nodes of the pool lead to an endpoint, the less likely this
    // response was, even though the node that led to it works.
    let mut hits = 0;
    let mut all = 0;
    let named: Vec<NodeIx> = regions
        .iter()
        .flat_map(|region| region.nodes())
        .flatten()
        .collect();
    for end in ends {
        let distinguished: Vec<NodeIx> = named.iter().copied().chain(end.client).chain(end.node).collect();
        for (node, count) in paths.balancer_pool.representatives(&distinguished) {
            let receiver = Some(node);
            let (hit, ways) = count_crossing(regions, ProbePath { receiver, ..end }, paths);
            hits += hit * count;
            all += ways * count;
        }
    }
    PathShare::new(hits, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_several_choices_is_exact_while_its_denominator_is_small() {
        let half = PathShare::new(1, 2);
        assert_eq!(half.of_any_of(1), half);
        assert_eq!(half.of_any_of(2), PathShare::new(3, 4));
        assert_eq!(half.of_any_of(8), PathShare::new(255, 256));
        assert_eq!(PathShare::FULL.of_any_of(8), PathShare::FULL);
        assert_eq!(PathShare::ZERO.of_any_of(8), PathShare::ZERO);
    }

    #[test]
    fn the_share_of_many_choices_among_many_pods_is_close() {
        let one_of_fifty = PathShare::new(1, 50).of_any_of(8).as_f64();
        assert!(
            (one_of_fifty - (1.0 - libm::pow(0.98, 8.0))).abs() < 1e-6,
            "{one_of_fifty}"
        );
    }
}
