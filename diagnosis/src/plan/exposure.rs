//! Probes that must not succeed: hosts of one ingress class at the fronts of another (rarely, and from few nodes),
//! and the forbidden probes of targets at the target's own interval.

use std::net::SocketAddr;

use parallax_model::{Channel, DialAddress, Micros, NodeName, ProbeSpec, Vantage, Whence, hash};

use super::Planner;
use crate::topology::{PlacedTarget, Topology, is_private};

/// Number of nodes that probe a host, both at its own front and at the others, so that the responses can be
/// compared.
const NODES_PER_HOST: usize = 2;

/// Minimum interval per pair of host and front. Exposure does not change within seconds, and frequent requests for
/// a host at a foreign address look like an attack.
const MIN_INTERVAL: Micros = Micros::from_secs(60);

/// Number of pairs probed at [`MIN_INTERVAL`]; with more pairs, the interval grows in proportion.
const PAIRS_AT_MIN_INTERVAL: usize = 200;

/// Maximum interval per pair.
const MAX_INTERVAL: Micros = Micros::from_secs(3600);

/// Returns the interval between two probes of one pair.
pub(crate) fn interval(topology: &Topology, round: Micros) -> Micros {
    let times = topology.exposures().len().div_ceil(PAIRS_AT_MIN_INTERVAL).max(1);
    let times = u64::try_from(times).unwrap_or(u64::MAX);
    Micros(MIN_INTERVAL.0.saturating_mul(times))
        .min(MAX_INTERVAL)
        .max(round)
}

impl Planner<'_> {
    /// Plans the pairs that this vantage probes. Outside vantages probe all pairs they can reach, because exposure
    /// to the internet is what matters.
    pub(super) fn exposures(&mut self) {
        let interval = interval(self.topology, self.config.interval);
        let timeout = self.config.timeout;
        for (id, exposure) in self.topology.exposures() {
            if is_unreachable(self.vantage, exposure.front.address)
                || !is_selected(self.topology, exposure.host.as_str(), self.vantage)
            {
                continue;
            }
            self.add(&format!("exposure|{id}"), |name| parallax_model::Assignment {
                id: name,
                target: id.clone(),
                channel: Channel::Vip,
                probe: ProbeSpec::Http(exposure.probe.clone()),
                dial: DialAddress::Address(exposure.front.address),
                entry: None,
                peer: None,
                interval,
                timeout,
            });
        }
    }

    /// Plans the forbidden probes of a target.
    pub(super) fn forbidden(&mut self, placed: &PlacedTarget) {
        let config = self.config;
        for question in &placed.target.forbidden_probes {
            let reached = question
                .address
                .is_none_or(|at| !is_unreachable(self.vantage, at));
            if !reached || !question.applies_to(self.vantage) {
                continue;
            }
            self.add(&format!("forbidden|{}", question.id), |name| {
                parallax_model::Assignment {
                    id: name,
                    target: question.id.clone(),
                    channel: Channel::Vip,
                    probe: question.probe.clone(),
                    dial: question
                        .address
                        .or(placed.dial_address)
                        .map_or(DialAddress::Resolve, DialAddress::Address),
                    entry: None,
                    peer: None,
                    interval: placed.target.interval.unwrap_or(config.interval),
                    timeout: placed.target.timeout.unwrap_or(config.timeout),
                }
            });
        }
    }
}

/// Private addresses are unreachable from the internet.
fn is_unreachable(vantage: &Vantage, address: SocketAddr) -> bool {
    Whence::of(vantage) == Whence::Internet && is_private(address.ip())
}

fn is_selected(topology: &Topology, host: &str, vantage: &Vantage) -> bool {
    let Some(node) = vantage.node() else { return true };
    let mut order: Vec<(u64, &NodeName)> = topology
        .nodes()
        .values()
        .filter(|n| n.prober.is_some())
        .map(|n| (hash::fnv1a(&["exposure", host, n.name.as_str()]), &n.name))
        .collect();
    // A standalone prober without a cluster probes everything.
    if order.is_empty() {
        return true;
    }
    order.sort();
    order.iter().take(NODES_PER_HOST).any(|(_, name)| *name == node)
}
