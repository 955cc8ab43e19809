//! What each client probes in each round, and when.

use super::{
    super::rng::Rng,
    draw::WholePlan,
    hops::{ScheduledProbe, endpoints},
    layout::{ClusterTarget, NodeIx},
    lookup::random_us,
};

/// Direct probes of a client in a round: of hosts at an entry, and of other targets at an endpoint.
const DIRECT: usize = 4;
/// Probes of a round start within this time of its beginning.
const SPREAD_US: i64 = 4_500_000;

/// The start of each probe within its round. A prober keeps the offset of an assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    offsets: Vec<Vec<i64>>,
}

impl Schedule {
    /// Draws the offsets of a trial.
    pub fn draw(plan: &WholePlan, rng: &mut Rng) -> Self {
        let slots = plan.cluster.targets().len() + 1 + DIRECT + plan.peers;
        let offsets = (0..plan.cluster.nodes())
            .map(|_| (0..slots).map(|_| random_us(rng, SPREAD_US)).collect())
            .collect();
        Self { offsets }
    }

    /// Returns the probes of a client in a round with their offsets, in order of their start.
    #[must_use]
    pub fn probes(&self, plan: &WholePlan, client: NodeIx, round: i64) -> Vec<(ScheduledProbe, i64)> {
        let cluster = &plan.cluster;
        let targets = cluster.targets();
        let turn = usize::try_from(round).unwrap_or(0);
        let mut probes: Vec<ScheduledProbe> = targets.iter().copied().map(ScheduledProbe::Vip).collect();
        probes.push(ScheduledProbe::Name);
        let (hosts, others): (Vec<ClusterTarget>, Vec<ClusterTarget>) = targets
            .into_iter()
            .partition(|target| matches!(target, ClusterTarget::Host(_)));
        for slot in 0..DIRECT {
            let kind = if slot % 2 == 0 { &hosts } else { &others };
            // Every client works through all pairs of target and endpoint, each from another place of the list.
            let pairs: Vec<ScheduledProbe> = kind
                .iter()
                .flat_map(|target| {
                    endpoints(cluster, *target)
                        .iter()
                        .map(|pod| ScheduledProbe::Direct(*target, *pod))
                })
                .collect();
            probes.push(pairs[(client * 5 + turn * (DIRECT / 2) + slot / 2) % pairs.len()]);
        }
        let nodes = cluster.nodes();
        for slot in 0..plan.peers {
            let step = (turn * plan.peers + slot) % (nodes - 1);
            probes.push(ScheduledProbe::Mesh((client + 1 + step) % nodes));
        }
        let mut timed: Vec<(ScheduledProbe, i64)> = probes
            .into_iter()
            .zip(self.offsets[client].iter().copied())
            .collect();
        timed.sort_by_key(|(probe, offset)| (*offset, *probe));
        timed
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{
        super::{draw, sets::WholeSet},
        *,
    };

    #[test]
    fn every_endpoint_and_every_peer_gets_its_turn() {
        let rng = &mut Rng::from_words(&[4]);
        let plan = draw::plan(WholeSet::named("hops-12").unwrap(), 0, rng);
        let schedule = Schedule::draw(&plan, rng);
        let probed: BTreeSet<ScheduledProbe> = (0..20)
            .flat_map(|round| schedule.probes(&plan, 2, round))
            .map(|(probe, _)| probe)
            .collect();
        let peers = probed
            .iter()
            .filter(|probe| matches!(probe, ScheduledProbe::Mesh(_)));
        assert_eq!(peers.count(), 11);
        for target in plan.cluster.targets() {
            assert!(probed.contains(&ScheduledProbe::Vip(target)));
            for pod in endpoints(&plan.cluster, target) {
                assert!(
                    probed.contains(&ScheduledProbe::Direct(target, *pod)),
                    "{target:?} {pod}"
                );
            }
        }
    }
}
