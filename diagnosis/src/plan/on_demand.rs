//! Assignments of a run: one target as a user would reach it, its endpoints, and the mesh as control group.

use parallax_model::{Assignment, TargetId, Vantage};

use super::{PlanConfig, Planner, may_probe, prober_index};
use crate::topology::Topology;

/// Returns the assignments of one vantage in a run of one target, independent of the sampling of the base plan.
/// `endpoints` adds each usable endpoint by its own address. A vantage that must not reach the target gets only
/// the forbidden probes and the mesh. Empty if the vantage cannot probe the target: outside vantages do not probe
/// cluster addresses.
#[must_use]
pub fn run_assignments(
    topology: &Topology,
    config: &PlanConfig,
    vantage: &Vantage,
    target: &TargetId,
    endpoints: bool,
) -> Vec<Assignment> {
    let Some(placed) = topology.targets().get(target) else {
        return Vec::new();
    };
    if !may_probe(vantage, placed) {
        return Vec::new();
    }
    let mut planner = Planner::new(topology, config, vantage);
    planner.forbidden(placed);
    let answers = placed.target.must_answer(vantage);
    if answers {
        planner.user_path(target, placed);
    }
    if answers && endpoints && vantage.node().is_some() {
        let index = topology.plan_index();
        let mut sampled = topology.targets().keys().zip(index.targets());
        let sampled = sampled.find_map(|(id, sampled)| (id == target).then_some(sampled));
        let own = prober_index(topology, vantage);
        planner.direct(target, placed, |endpoints| {
            sampled.map_or((0, endpoints), |sampled| {
                sampled.endpoint_slice(own, &vantage.to_string(), endpoints)
            })
        });
    }
    planner.mesh();
    planner.planned.into_values().collect()
}

/// Returns the assignments of one vantage in a run of the mesh: the echo of every peer. Empty outside the cluster.
#[must_use]
pub fn mesh_run_assignments(topology: &Topology, config: &PlanConfig, vantage: &Vantage) -> Vec<Assignment> {
    let mut planner = Planner::new(topology, config, vantage);
    planner.mesh();
    planner.planned.into_values().collect()
}
