//! The likelihood of the failure kinds, given the broken regions. A failure that two regions may have caused counts for the
//! region with more failures: a part of a broken whole carries no evidence of its own.
//!
//! Each channel group has its own kinds, independent of the cause: a resolver does not reset connections, and a web server
//! does not return NXDOMAIN. In one common sum, the ordinary noise of two channels would look like two faults.

use std::collections::BTreeMap;

use parallax_model::{Channel, KindClass};

use super::{
    comparison_data::{ComparisonData, DataCell},
    kind_profiles::{BACKGROUND, DNS, GATEWAY, GATEWAY_NETWORK, KindProfile, ln_kinds, region_profile},
};
use crate::{
    evidence::weights::to_probes,
    regions::{Region, paths::SubjectPaths},
};

/// Groups of channels with similar failure kinds, independent of the cause.
const CHANNEL_GROUPS: usize = 4;

const DNS_GROUP: usize = 0;
pub(super) const VIP_GROUP: usize = 1;

pub(super) const fn channel_group(channel: Channel) -> usize {
    match channel {
        Channel::Dns => DNS_GROUP,
        Channel::Vip | Channel::Proxied | Channel::NodePort => VIP_GROUP,
        Channel::Direct => 2,
        Channel::Mesh => 3,
    }
}

/// Weights of failures, in the order of [`KindClass::ALL`].
pub(super) type KindWeights = [u64; KindClass::ALL.len()];

/// Weights of failures by channel group.
#[derive(Debug, Clone, Copy, Default)]
struct GroupedWeights([KindWeights; CHANNEL_GROUPS]);

impl GroupedWeights {
    fn add(&mut self, cell: &DataCell) {
        let group = &mut self.0[channel_group(cell.key.channel)];
        for (sum, weight) in group.iter_mut().zip(&cell.kinds) {
            *sum += weight;
        }
    }

    fn remove(&mut self, cell: &DataCell) {
        let group = &mut self.0[channel_group(cell.key.channel)];
        for (sum, weight) in group.iter_mut().zip(&cell.kinds) {
            *sum -= weight;
        }
    }

    fn ln_likelihood(
        &self,
        likelihoods: &mut KindLikelihoods,
        profile_of: impl Fn(usize) -> KindProfile,
    ) -> f64 {
        let groups = self.0.iter().enumerate();
        groups
            .map(|(group, weights)| likelihoods.ln_likelihood(weights, &profile_of(group)))
            .sum()
    }
}

/// Likelihoods of failure kinds that were already computed: most hypotheses of a kind contain the same failures.
#[derive(Debug, Default)]
pub(super) struct KindLikelihoods(BTreeMap<(KindWeights, KindWeights), f64>);

impl KindLikelihoods {
    fn ln_likelihood(&mut self, weights: &KindWeights, profile: &KindProfile) -> f64 {
        if weights.iter().all(|weight| *weight == 0) {
            return 0.0;
        }
        let key = (*weights, profile.map(f64::to_bits));
        let known = self.0.entry(key);
        *known.or_insert_with(|| ln_kinds(&weights.map(to_probes), profile))
    }
}

/// The failures of a comparison, attributed to a set of regions.
#[derive(Debug, Default)]
pub(super) struct KindAttribution {
    /// In descending order of the failures in the regions.
    parts: Vec<AttributedKinds>,
    /// The index of the part to which a failing cell is attributed.
    parts_of_cells: BTreeMap<usize, usize>,
    /// Failures outside of the regions.
    rest: GroupedWeights,
}

#[derive(Debug, Clone)]
struct AttributedKinds {
    region: Region,
    /// Failures in the region, including those that are attributed to another one.
    failures: u64,
    weights: GroupedWeights,
}

impl KindAttribution {
    /// Attributes the failures to regions, each with its failing cells.
    pub(super) fn new(data: &ComparisonData, regions: &[(Region, &[usize])]) -> Self {
        let mut order: Vec<(u64, &(Region, &[usize]))> = regions
            .iter()
            .map(|region| (failures(data, region.1), region))
            .collect();
        order.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.0.cmp(&b.1.0)));
        let mut attribution = Self::default();
        for (part, (failures, (region, cells))) in order.into_iter().enumerate() {
            let mut weights = GroupedWeights::default();
            for cell in *cells {
                attribution.parts_of_cells.entry(*cell).or_insert_with(|| {
                    weights.add(&data.cells[*cell]);
                    part
                });
            }
            attribution.parts.push(AttributedKinds {
                region: *region,
                failures,
                weights,
            });
        }
        for (i, cell) in data.cells.iter().enumerate() {
            if cell.failures > 0 && !attribution.parts_of_cells.contains_key(&i) {
                attribution.rest.add(cell);
            }
        }
        attribution
    }

    /// Returns the ln likelihood of all failure kinds, with a further region and its failing cells if given.
    pub(super) fn ln_likelihood(
        &self,
        data: &ComparisonData,
        added: Option<(Region, &[usize])>,
        paths: &SubjectPaths,
        likelihoods: &mut KindLikelihoods,
    ) -> f64 {
        let mut rest = self.rest;
        let (before, new, after) = match added {
            None => (self.parts.as_slice(), None, Vec::new()),
            Some((region, cells)) => {
                let mut new = AttributedKinds {
                    region,
                    failures: failures(data, cells),
                    weights: GroupedWeights::default(),
                };
                let position = self.parts.partition_point(|part| part.precedes(&new));
                let (before, after) = self.parts.split_at(position);
                let mut after = after.to_vec();
                for i in cells {
                    let cell = &data.cells[*i];
                    match self.parts_of_cells.get(i) {
                        Some(part) if *part < position => continue,
                        Some(part) => after[*part - position].weights.remove(cell),
                        None => rest.remove(cell),
                    }
                    new.weights.add(cell);
                }
                (before, Some(new), after)
            }
        };
        let parts = before.iter().chain(&new).chain(&after);
        let parts: f64 = parts.map(|part| part.ln_likelihood(paths, likelihoods)).sum();
        parts + rest.ln_likelihood(likelihoods, |_| BACKGROUND)
    }
}

impl AttributedKinds {
    /// Reports whether failures that are in both regions are attributed to this one.
    fn precedes(&self, other: &Self) -> bool {
        let order = other.failures.cmp(&self.failures);
        order.then(self.region.cmp(&other.region)).is_lt()
    }

    fn ln_likelihood(&self, paths: &SubjectPaths, likelihoods: &mut KindLikelihoods) -> f64 {
        let profile = |group| profile_of(self.region, group, paths);
        self.weights.ln_likelihood(likelihoods, profile)
    }
}

fn failures(data: &ComparisonData, cells: &[usize]) -> u64 {
    cells.iter().map(|i| data.cells[*i].failures).sum()
}

/// Returns the profile of the kinds that a region produces on a group of channels. A fault on the way to an origin, or of
/// the origin, shows as a failure of the entry, and one of a resolver Pod as a failure of names.
fn profile_of(region: Region, group: usize, paths: &SubjectPaths) -> KindProfile {
    match region {
        Region::Backend(pod) if paths.origin_pods.contains(&pod) || paths.front_origins.is_origin(region) => {
            GATEWAY
        }
        _ if region.is_between_nodes() && !paths.origin_pods.is_empty() => GATEWAY_NETWORK,
        Region::Backend(_) if group == DNS_GROUP => DNS,
        _ => region_profile(region.kind(), paths.mesh.proxy_mode),
    }
}
