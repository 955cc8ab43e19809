//! When probers of one zone last reached an echo in another.

use std::collections::{BTreeMap, BTreeSet};

use parallax_api::installation::ZoneEcho;
use parallax_diagnosis::{plan::mesh_peers, topology::Topology};
use parallax_model::{Channel, EventTime, NodeName, Observation, Outcome, Recorded, ZoneName};

/// Maximum number of pairs of zones. Cloud regions have a handful of zones; a label with a value per node must not take
/// memory for each pair of nodes.
const MAX_PAIRS: usize = 1_024;

/// A node's zone; `None` for nodes without one.
type Zone = Option<ZoneName>;

/// Latest results of the echo probes from one zone to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct EchoTimes {
    reached: Option<EventTime>,
    failed: Option<EventTime>,
}

/// Latest results of echo probes by the zones of client and echo.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ZoneEchoes {
    by_client: BTreeMap<Zone, BTreeMap<Zone, EchoTimes>>,
}

impl ZoneEchoes {
    /// Records an observation if it is an echo probe between nodes of the topology.
    pub(crate) fn record(&mut self, recorded: &Recorded, topology: &Topology) {
        let Observation {
            channel: Channel::Mesh,
            dst_node: Some(peer),
            outcome,
            started,
            ..
        } = &recorded.observation
        else {
            return;
        };
        let zone = |node: &NodeName| topology.nodes().get(node).map(|node| &node.zone);
        let (Some(from), Some(to)) = (recorded.vantage.node().and_then(zone), zone(peer)) else {
            return;
        };
        let Some(times) = self.times_mut(from, to) else {
            return;
        };
        let latest = match outcome {
            Outcome::Ok { .. } => &mut times.reached,
            Outcome::Failed { .. } => &mut times.failed,
            Outcome::NotProbed { .. } => return,
        };
        *latest = (*latest).max(Some(*started));
    }

    /// Returns the entry of a pair; `None` if there are too many. Names are copied only for a new pair.
    fn times_mut(&mut self, from: &Zone, to: &Zone) -> Option<&mut EchoTimes> {
        let known = self
            .by_client
            .get(from)
            .is_some_and(|peers| peers.contains_key(to));
        if !known {
            let pairs: usize = self.by_client.values().map(BTreeMap::len).sum();
            if pairs >= MAX_PAIRS {
                return None;
            }
            let peers = self.by_client.entry(from.clone()).or_default();
            peers.insert(to.clone(), EchoTimes::default());
        }
        self.by_client.get_mut(from)?.get_mut(to)
    }

    /// Drops zones that have no node in the topology any more.
    pub(crate) fn retain(&mut self, topology: &Topology) {
        let zones: BTreeSet<&Zone> = topology.nodes().values().map(|node| &node.zone).collect();
        self.by_client.retain(|from, peers| {
            peers.retain(|to, _| zones.contains(to));
            !peers.is_empty() && zones.contains(from)
        });
    }

    /// Returns each pair of zones between which the plan probes echoes, with its latest results.
    pub(crate) fn planned_pairs(&self, topology: &Topology) -> Vec<ZoneEcho> {
        let mut pairs: BTreeMap<(&Zone, &Zone), EchoTimes> = BTreeMap::new();
        for node in topology.nodes().values().filter(|node| node.prober.is_some()) {
            let times = self.by_client.get(&node.zone);
            let peers = mesh_peers(topology, &node.name).into_iter();
            for peer in peers.filter_map(|peer| topology.nodes().get(peer)) {
                let times = times.and_then(|peers| peers.get(&peer.zone));
                pairs.insert((&node.zone, &peer.zone), times.copied().unwrap_or_default());
            }
        }
        let name = |zone: &Zone| zone.as_ref().map(ToString::to_string);
        let echo = |((from, to), times): ((&Zone, &Zone), EchoTimes)| ZoneEcho {
            from: name(from),
            to: name(to),
            last_reached: times.reached,
            last_failed: times.failed,
        };
        pairs.into_iter().map(echo).collect()
    }
}

#[cfg(test)]
mod tests {
    use parallax_diagnosis::topology::TopologySpec;
    use parallax_fixtures::NOW;
    use parallax_model::Micros;
    use serde_json::{Value, json};

    use super::*;

    /// Creates nodes `n0`, `n1`, … in these zones, each with a prober.
    fn topology(zones: &[Option<&str>]) -> Topology {
        let nodes = zones.iter().enumerate().map(|(number, zone)| {
            let address = format!("10.244.{number}.5:9095");
            json!({"name": format!("n{number}"), "zone": zone,
                "prober": {"pod": format!("prober-{number}"), "address": address}})
        });
        let nodes: Vec<Value> = nodes.collect();
        let spec: TopologySpec = serde_json::from_value(json!({"nodes": nodes})).unwrap();
        Topology::try_from(spec).unwrap()
    }

    /// Builds an echo probe of a node's prober, which failed unless its `result` is ok.
    fn echo(from: &str, to: &str, seconds: u64, result: &Value) -> Recorded {
        let mut observation = json!({"seq": 1, "t_us": NOW.plus(Micros::from_secs(seconds)), "channel": "mesh",
            "target": format!("echo://{to}"), "dst_node": to});
        let fields = result.as_object().unwrap().clone();
        observation.as_object_mut().unwrap().extend(fields);
        Recorded {
            vantage: format!("{from}/pod").parse().unwrap(),
            incarnation: "life-1".parse().unwrap(),
            observation: serde_json::from_value(observation).unwrap(),
        }
    }

    #[test]
    fn every_planned_pair_is_listed_with_its_latest_success_and_failure() {
        let topology = topology(&[Some("a"), Some("b"), None]);
        let mut echoes = ZoneEchoes::default();
        let (ok, failed) = (
            json!({"result": "ok"}),
            json!({"result": "failed", "phase": "connect", "kind": "timeout"}),
        );
        for recorded in [
            echo("n0", "n1", 1, &ok),
            echo("n0", "n1", 3, &ok),
            echo("n0", "n1", 2, &ok),
            echo("n1", "n0", 4, &failed),
            echo("n0", "elsewhere", 5, &ok),
        ] {
            echoes.record(&recorded, &topology);
        }
        let pairs = echoes.planned_pairs(&topology);
        assert_eq!(pairs.len(), 6, "no zone reaches itself with one node: {pairs:?}");
        let pair = |from: Option<&str>, to: Option<&str>| {
            pairs
                .iter()
                .find(|pair| pair.from.as_deref() == from && pair.to.as_deref() == to)
                .map(|pair| (pair.last_reached, pair.last_failed))
                .unwrap()
        };
        let at = |seconds| Some(NOW.plus(Micros::from_secs(seconds)));
        assert_eq!(pair(Some("a"), Some("b")), (at(3), None));
        assert_eq!(pair(Some("b"), Some("a")), (None, at(4)));
        assert_eq!(pair(None, Some("a")), (None, None));
    }

    #[test]
    fn zones_without_nodes_are_forgotten_and_their_number_is_bounded() {
        let names: Vec<String> = (0..40).map(|zone| format!("z{zone}")).collect();
        let zones: Vec<Option<&str>> = names.iter().map(|zone| Some(zone.as_str())).collect();
        let many = topology(&zones);
        let mut echoes = ZoneEchoes::default();
        for from in 0..zones.len() {
            for to in 0..zones.len() {
                let ok = json!({"result": "ok"});
                echoes.record(&echo(&format!("n{from}"), &format!("n{to}"), 1, &ok), &many);
            }
        }
        let pairs = |echoes: &ZoneEchoes| echoes.by_client.values().map(BTreeMap::len).sum::<usize>();
        assert_eq!(pairs(&echoes), MAX_PAIRS);
        echoes.retain(&topology(&[Some("z0"), Some("z1")]));
        assert_eq!(pairs(&echoes), 4);
    }
}
