//! Converts node facts reported by probers to facts of the topology.
//!
//! A changed fact produces a new topology for the engine, which is recorded, so that a replay has it too. Therefore
//! continuous measurements are quantised, and facts that are not reported again expire.

use std::collections::BTreeMap;

use parallax_diagnosis::topology::{FrontKind, NodeFacts, ProxyMode, Service, Topology};
use parallax_model::{Conntrack, EventTime, HostFacts, Micros, NodeName, Vantage};

/// TTL of reported facts. Probers repeat all of them every minute.
const FACT_TTL: Micros = Micros::from_secs(300);

/// How long a counter is considered rising after an increase; balancers run health checks every few seconds.
const RISING_WINDOW: Micros = Micros::from_secs(120);

/// Minimum time between two topologies that differ only in facts.
const CHECK_INTERVAL: Micros = Micros::from_secs(5);

/// How long kube-proxy's endpoint count may differ from the `EndpointSlices` before it is reported. Each of them
/// receives a change at its own time, and a prober checks every 15 seconds.
const SETTLE_TIME: Micros = Micros::from_secs(60);

/// Quantisation steps for the fill level of a conntrack table, in percent.
const CONNTRACK_STEPS: [u8; 5] = [50, 80, 90, 95, 100];

/// Latest facts of one prober.
#[derive(Debug)]
struct ProberFacts {
    facts: HostFacts,
    received: EventTime,
    /// When `martian_sources` last rose.
    last_rise: Option<EventTime>,
}

/// Facts of all probers.
#[derive(Debug, Default)]
pub(crate) struct FactCollector {
    by_vantage: BTreeMap<Vantage, ProberFacts>,
    last_check: Option<EventTime>,
    /// Health check ports by node whose endpoint count differs from the topology, and since when.
    differing_since: BTreeMap<(NodeName, u16), EventTime>,
    /// Facts in the engine's topology.
    applied_facts: BTreeMap<NodeName, NodeFacts>,
}

impl FactCollector {
    /// Records the facts that a prober reports about its own node.
    pub(crate) fn record(&mut self, vantage: &Vantage, facts: &HostFacts, at: EventTime) {
        if vantage.node().is_none() {
            return;
        }
        let before = self.by_vantage.get(vantage);
        let rises = before
            .and_then(|prober_facts| prober_facts.facts.martian_sources)
            .zip(facts.martian_sources)
            .is_some_and(|(old, new)| new > old);
        let rose = if rises {
            Some(at)
        } else {
            before.and_then(|prober_facts| prober_facts.last_rise)
        };
        let prober_facts = ProberFacts {
            facts: facts.clone(),
            received: at,
            last_rise: rose,
        };
        self.by_vantage.insert(vantage.clone(), prober_facts);
    }

    /// Drops vantages that are no longer in the topology.
    pub(crate) fn retain(&mut self, expected: &[Vantage]) {
        self.by_vantage.retain(|vantage, _| expected.contains(vantage));
    }

    /// Reports whether facts have changed, so that the topology must be rebuilt. Checks at most once per [`CHECK_INTERVAL`].
    pub(crate) fn update(&mut self, topology: &Topology, now: EventTime) -> bool {
        if self
            .last_check
            .is_some_and(|looked| now - looked < CHECK_INTERVAL)
        {
            return false;
        }
        self.last_check = Some(now);
        self.compare_endpoint_counts(topology, now);
        let facts = self.node_facts(topology, now);
        let changed = facts != self.applied_facts;
        self.applied_facts = facts;
        changed
    }

    /// Returns the topology with the facts of its nodes; `None` without facts.
    pub(crate) fn join(&mut self, topology: &Topology, now: EventTime) -> Option<Topology> {
        self.compare_endpoint_counts(topology, now);
        self.applied_facts = self.node_facts(topology, now);
        (!self.applied_facts.is_empty()).then(|| topology.with_facts(&self.applied_facts))
    }

    /// Records whose kube-proxy counts differ from the topology.
    fn compare_endpoint_counts(&mut self, topology: &Topology, now: EventTime) {
        let by_port: BTreeMap<u16, &Service> = topology
            .services()
            .values()
            .filter_map(|service| Some((service.health_check_node_port?, service)))
            .collect();
        let mut differing = BTreeMap::new();
        for (vantage, prober_facts) in &self.by_vantage {
            let Some(node) = vantage.node() else { continue };
            for check in &prober_facts.facts.health_checks {
                let published = by_port
                    .get(&check.port)
                    .map(|service| service.ready_count_on(node));
                if published.is_some_and(|published| usize::try_from(check.local_endpoints) != Ok(published))
                {
                    let place = (node.clone(), check.port);
                    let since = self.differing_since.get(&place).copied().unwrap_or(now);
                    differing.insert(place, since);
                }
            }
        }
        self.differing_since = differing;
    }

    /// Reports whether a count of kube-proxy is stable rather than part of an ongoing change.
    fn is_stable(&self, node: &NodeName, port: u16, now: EventTime) -> bool {
        let since = self.differing_since.get(&(node.clone(), port));
        since.is_none_or(|since| now - *since >= SETTLE_TIME)
    }

    fn node_facts(&self, topology: &Topology, now: EventTime) -> BTreeMap<NodeName, NodeFacts> {
        let mut nodes: BTreeMap<NodeName, NodeFacts> = BTreeMap::new();
        for (vantage, prober_facts) in &self.by_vantage {
            let Some(node) = vantage.node().filter(|_| now - prober_facts.received <= FACT_TTL) else {
                continue;
            };
            let facts = convert_facts(topology, prober_facts, now, |port| {
                self.is_stable(node, port, now)
            });
            // The probers on Pod and host network report different facts.
            let joined = nodes
                .get(node)
                .map_or_else(|| facts.clone(), |known| known.or_else_from(&facts));
            if !joined.is_empty() {
                nodes.insert(node.clone(), joined);
            }
        }
        nodes
    }
}

fn convert_facts(
    topology: &Topology,
    prober_facts: &ProberFacts,
    now: EventTime,
    settled: impl Fn(u16) -> bool,
) -> NodeFacts {
    let facts = &prober_facts.facts;
    let port_of = |port: u16| {
        topology
            .services()
            .values()
            .find(|service| service.health_check_node_port == Some(port))
            .map(|service| service.key.clone())
    };
    NodeFacts {
        hairpin: facts.hairpin,
        bridge_nf_call_iptables: facts.bridge_nf_call_iptables,
        kube_proxy_version: None,
        proxy_mode: facts.proxy_mode.as_deref().and_then(parse_proxy_mode),
        ipvs_addresses: facts.ipvs_addresses.as_ref().map(|addresses| {
            // ClusterIPs are bound on every node and carry no information.
            let balancers = topology
                .fronts()
                .iter()
                .filter(|(_, info)| matches!(info.kind, FrontKind::LoadBalancer(_)));
            balancers
                .map(|(front, _)| front.address.ip())
                .filter(|address| addresses.contains(address))
                .collect()
        }),
        strict_rp_filter: facts.strict_rp_filter,
        conntrack_percent: facts.conntrack.and_then(Conntrack::percent).map(quantize),
        drops_own_source_addresses: facts.martian_sources.map(|_| {
            prober_facts
                .last_rise
                .is_some_and(|rose| now - rose <= RISING_WINDOW)
        }),
        proxy_healthy: facts.proxy_healthy,
        local_endpoints: facts
            .health_checks
            .iter()
            .filter(|check| settled(check.port))
            .filter_map(|check| Some((port_of(check.port)?, check.local_endpoints)))
            .collect(),
    }
}

fn parse_proxy_mode(word: &str) -> Option<ProxyMode> {
    match word {
        "iptables" => Some(ProxyMode::Iptables),
        "ipvs" => Some(ProxyMode::Ipvs),
        "nftables" => Some(ProxyMode::Nftables),
        _ => None,
    }
}

fn quantize(percent: u8) -> u8 {
    CONNTRACK_STEPS
        .into_iter()
        .rev()
        .find(|step| percent >= *step)
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use parallax_diagnosis::topology::TopologySpec;
    use serde_json::{Value, json};

    use super::*;
    use parallax_fixtures::NOW;

    fn topology() -> Topology {
        let spec: TopologySpec = serde_json::from_value(json!({
            "nodes": [{"name": "n1"}, {"name": "n2"}],
            "services": [{"namespace": "ingress", "name": "nginx", "type": "LoadBalancer", "clusterIPs": ["10.96.0.50"],
                "loadBalancer": [{"ip": "203.0.113.10"}], "healthCheckNodePort": 30123,
                "ports": [{"port": 80, "targetPort": 8080}]}],
        }))
        .unwrap();
        Topology::try_from(spec).unwrap()
    }

    fn at(seconds: u64) -> EventTime {
        NOW.plus(Micros::from_secs(seconds))
    }

    fn hear(reported: &mut FactCollector, vantage: &str, facts: Value, seconds: u64) {
        let facts: HostFacts = serde_json::from_value(facts).unwrap();
        reported.record(&vantage.parse().unwrap(), &facts, at(seconds));
    }

    fn n1(reported: &FactCollector, seconds: u64) -> NodeFacts {
        reported
            .node_facts(&topology(), at(seconds))
            .remove(&"n1".parse().unwrap())
            .unwrap_or_default()
    }

    #[test]
    fn facts_of_pod_and_host_network_are_joined_per_node() {
        let mut reported = FactCollector::default();
        hear(
            &mut reported,
            "n1/host",
            json!({"proxy_mode": "ipvs", "ipvs_addresses": ["10.96.0.50", "203.0.113.10"],
            "conntrack": {"count": 93, "max": 100}, "hairpin": false}),
            0,
        );
        hear(
            &mut reported,
            "n1/pod",
            json!({"proxy_healthy": true, "health_checks": [
            {"port": 30123, "local_endpoints": 2}, {"port": 1, "local_endpoints": 9}]}),
            0,
        );
        hear(&mut reported, "internet:laptop", json!({"hairpin": true}), 0);
        let facts = n1(&reported, 1);
        assert_eq!(facts.proxy_mode, Some(ProxyMode::Ipvs));
        assert_eq!(facts.ipvs_addresses.unwrap().len(), 1, "of balancers only");
        assert_eq!(
            (facts.conntrack_percent, facts.hairpin, facts.proxy_healthy),
            (Some(90), Some(false), Some(true))
        );
        let counts: Vec<_> = facts
            .local_endpoints
            .into_iter()
            .map(|(key, n)| (key.to_string(), n))
            .collect();
        assert_eq!(
            counts,
            [("ingress/nginx".to_owned(), 2)],
            "a port without a Service is ignored"
        );
        assert_eq!(reported.node_facts(&topology(), at(1)).len(), 1);
    }

    #[test]
    fn facts_expire_unless_repeated() {
        let mut reported = FactCollector::default();
        hear(&mut reported, "n1/host", json!({"hairpin": false}), 0);
        assert_eq!(n1(&reported, 300).hairpin, Some(false));
        assert_eq!(n1(&reported, 301), NodeFacts::default());
    }

    #[test]
    fn a_counter_is_rising_only_after_a_recent_increase() {
        let mut reported = FactCollector::default();
        let count = |reported: &mut FactCollector, n: u64, seconds| {
            hear(reported, "n1/host", json!({"martian_sources": n}), seconds);
            n1(reported, seconds).drops_own_source_addresses
        };
        assert_eq!(count(&mut reported, 500, 0), Some(false));
        assert_eq!(count(&mut reported, 501, 15), Some(true));
        assert_eq!(count(&mut reported, 501, 135), Some(true));
        assert_eq!(count(&mut reported, 501, 136), Some(false));
        assert_eq!(count(&mut reported, 3, 150), Some(false), "the node restarted");
    }

    #[test]
    fn a_differing_endpoint_count_is_reported_after_a_minute() {
        let mut reported = FactCollector::default();
        let counts = |reported: &mut FactCollector, n: u32, seconds| {
            let checks = json!({"health_checks": [{"port": 30123, "local_endpoints": n}]});
            hear(reported, "n1/pod", checks, seconds);
            let _ = reported.update(&topology(), at(seconds));
            n1(reported, seconds).local_endpoints.into_values().next()
        };
        assert_eq!(counts(&mut reported, 0, 0), Some(0), "as in the EndpointSlices");
        assert_eq!(counts(&mut reported, 2, 10), None);
        assert_eq!(counts(&mut reported, 0, 40), Some(0), "it has caught up");
        assert_eq!(counts(&mut reported, 1, 50), None);
        assert_eq!(counts(&mut reported, 1, 109), None);
        assert_eq!(counts(&mut reported, 1, 115), Some(1), "still differs");
    }

    #[test]
    fn a_table_that_fills_makes_few_topologies() {
        let mut reported = FactCollector::default();
        let mut renewed = 0;
        for percent in 0..=100_u64 {
            hear(
                &mut reported,
                "n1/host",
                json!({"conntrack": {"count": percent, "max": 100}}),
                percent * 15,
            );
            renewed += u32::from(reported.update(&topology(), at(percent * 15)));
            assert!(
                !reported.update(&topology(), at(percent * 15 + 1)),
                "checked only once per interval"
            );
        }
        assert_eq!(renewed, 6, "0, 50, 80, 90, 95 and 100");
    }
}
