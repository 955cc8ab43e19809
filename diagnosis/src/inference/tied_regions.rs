//! The regions that a finding names together, because the evidence does not tell them apart.

use super::{
    judgement::MIN_CLASS_MASS,
    posterior::{Comparison, Posterior, RegionClass},
};
use crate::regions::Region;

/// Probability from which a region is named together with one that is more probable beforehand and no more likely.
const MIN_TIED_MASS: f64 = 0.05;
/// Probability from which a region stays in the verdict that named it together with others. A verdict that drops a region at the
/// probability at which it would not have been added changes its words with every round.
const MIN_KEPT_MASS: f64 = 0.01;
/// A tie of more regions than this is not a verdict.
const MAX_TIED_REGIONS: usize = 4;
/// Failing rounds after which near-tied classes are named together.
const NEAR_TIE_ROUNDS: usize = 3;
/// Failing rounds after which classes with close posterior odds are near ties too. Until then further probes may
/// decide.
const ODDS_TIE_ROUNDS: usize = 5;

/// The regions that a finding names together.
#[derive(Debug)]
pub(super) struct TiedRegions<'p> {
    /// The class of the likeliest region, then the others.
    pub(super) regions: Vec<Region>,
    pub(super) mass: f64,
    /// The near ties that are not named.
    pub(super) near: Vec<&'p RegionClass>,
}

impl<'p> TiedRegions<'p> {
    /// Returns the regions that are named together with a class. `named` are those that the open incidents name together.
    pub(super) fn new(
        problem: &Comparison<'_>,
        given: &'p Posterior,
        class: &RegionClass,
        named: &[Vec<Region>],
        rounds: usize,
    ) -> Self {
        let mut regions = given.regions_of(class);
        // Near ties are named together, so that a verdict does not wait for the evidence that would separate them.
        let mut mass = class.mass;
        let mut near = problem.near_ties(given, class, rounds >= ODDS_TIE_ROUNDS);
        // The fault may have started in the middle of its first round, which then looks like an intermittent cause.
        while rounds >= NEAR_TIE_ROUNDS && regions.len() < MAX_TIED_REGIONS {
            let joins = |near: &&RegionClass| {
                mass < MIN_CLASS_MASS || near.mass >= MIN_TIED_MASS && given.differ_in_prior_only(class, near)
            };
            let Some(next) = near.iter().position(joins) else {
                break;
            };
            let next = near.remove(next);
            mass += next.mass;
            regions.extend(given.regions_of(next));
        }
        for around in given.classes_around_tied_endpoints(class, &regions) {
            mass += around.mass;
            near.retain(|near| near.members != around.members);
            regions.extend(given.regions_of(around));
        }
        let named_together: Vec<Region> = named
            .iter()
            .filter(|named| named.iter().any(|region| regions.contains(region)))
            .flatten()
            .copied()
            .collect();
        for other in &given.classes {
            let others = given.regions_of(other);
            let is_kept = !other.contains_healthy
                && other.mass >= MIN_KEPT_MASS
                && others.iter().any(|region| named_together.contains(region))
                && !others.iter().any(|region| regions.contains(region));
            if is_kept && regions.len() < MAX_TIED_REGIONS {
                mass += other.mass;
                near.retain(|near| near.members != other.members);
                regions.extend(others);
            }
        }
        Self { regions, mass, near }
    }
}
