//! What must not answer: hosts of one ingress class at the fronts of another, now and then, by few; and what targets say
//! themselves, as often as the target is asked for.

use std::net::SocketAddr;

use parallax_model::{Channel, DialAddress, Micros, NodeName, ProbeSpec, Vantage, Whence, hash};

use super::Planner;
use crate::topology::{PlacedTarget, Topology, is_private};

/// Nodes that ask for one host, at its own front and at the others, so that what they get can be compared.
const ASKING: usize = 2;

/// Least time between two questions about one pair. Nothing here changes within seconds, and a host that is asked for
/// at a stranger's address looks like an attack if it is asked for often.
const SELDOM: Micros = Micros::from_secs(60);

/// Pairs that may be asked for that often; with more, each is asked for less often.
const PAIRS: usize = 200;

/// Longest time between two questions about one pair.
const SELDOMMEST: Micros = Micros::from_secs(3600);

/// Time between two questions about one pair.
pub(crate) fn interval(topology: &Topology, round: Micros) -> Micros {
    let times = topology.exposures().len().div_ceil(PAIRS).max(1);
    let times = u64::try_from(times).unwrap_or(u64::MAX);
    Micros(SELDOM.0.saturating_mul(times)).min(SELDOMMEST).max(round)
}

impl Planner<'_> {
    /// The pairs this vantage asks for. Every outside vantage asks for all: what the internet gets is the question.
    pub(super) fn exposures(&mut self) {
        let interval = interval(self.topology, self.config.interval);
        let timeout = self.config.timeout;
        for (id, exposure) in self.topology.exposures() {
            if is_beyond_reach(self.vantage, exposure.front.address)
                || !asks(self.topology, exposure.host.as_str(), self.vantage)
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

    /// The questions about a target that must stay without an answer.
    pub(super) fn forbidden(&mut self, placed: &PlacedTarget) {
        let config = self.config;
        for question in &placed.target.forbidden {
            let reached = question.at.is_none_or(|at| !is_beyond_reach(self.vantage, at));
            if !reached || !question.is_asked_from(self.vantage) {
                continue;
            }
            self.add(&format!("forbidden|{}", question.id), |name| {
                parallax_model::Assignment {
                    id: name,
                    target: question.id.clone(),
                    channel: Channel::Vip,
                    probe: question.probe.clone(),
                    dial: question
                        .at
                        .or(placed.dial)
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

/// Nobody on the internet can ask at a private address.
fn is_beyond_reach(vantage: &Vantage, address: SocketAddr) -> bool {
    Whence::of(vantage) == Whence::Internet && is_private(address.ip())
}

fn asks(topology: &Topology, host: &str, vantage: &Vantage) -> bool {
    let Some(node) = vantage.node() else { return true };
    let mut order: Vec<(u64, &NodeName)> = topology
        .nodes()
        .values()
        .filter(|n| n.prober.is_some())
        .map(|n| (hash::stable(&["exposure", host, n.name.as_str()]), &n.name))
        .collect();
    // A single prober without a cluster around it asks for everything.
    if order.is_empty() {
        return true;
    }
    order.sort();
    order.iter().take(ASKING).any(|(_, name)| *name == node)
}
