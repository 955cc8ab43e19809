//! Finds the open incident that already explains the front of a Challenge's host.

use std::collections::BTreeSet;

use parallax_diagnosis::{
    topology::{PlacedTarget, Topology},
    verdict::{Incident, IncidentState},
    view::View,
};
use parallax_model::{ProbeSpec, ServiceKey};

/// Returns the open incident that explains targets of the same host or the same entry; of several, the most
/// probable.
pub(super) fn find_linked_incident<'a>(
    host: &str,
    topology: &Topology,
    view: &'a View,
) -> Option<&'a Incident> {
    let own = |placed: &&PlacedTarget| has_host(placed, host);
    let entries: BTreeSet<&ServiceKey> = topology
        .targets()
        .values()
        .filter(own)
        .filter_map(|placed| Some(&placed.entry.as_ref()?.0))
        .collect();
    let same_front = |placed: &PlacedTarget| {
        has_host(placed, host)
            || placed
                .entry
                .as_ref()
                .is_some_and(|(entry, _)| entries.contains(entry))
    };
    view.incidents
        .iter()
        .filter(|incident| incident.state == IncidentState::Open && !incident.verdict.causes.is_empty())
        .filter(|incident| {
            let mut targets = incident.verdict.targets.iter();
            targets.any(|target| topology.targets().get(target).is_some_and(same_front))
        })
        .max_by(|a, b| a.verdict.probability.cmp(&b.verdict.probability))
}

fn has_host(placed: &PlacedTarget, host: &str) -> bool {
    match &placed.target.probe {
        ProbeSpec::Http(http) => http.host.as_str() == host,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use parallax_diagnosis::topology::TopologySpec;

    use super::*;
    use parallax_fixtures as fixtures;

    /// Two hosts with the same entry, and one elsewhere.
    const TOPOLOGY: &str = r#"
nodes: [{name: n1}]
services:
  - {namespace: ingress, name: nginx, type: LoadBalancer, clusterIPs: [10.96.0.50], loadBalancer: [{ip: 203.0.113.10}], ports: [{name: http, port: 80, targetPort: 8080}]}
ingresses:
  - {namespace: shop, name: shop, service: ingress/nginx, hosts: [HOST, new.example.test]}
targets: [{url: "http://elsewhere.example.test/"}]
"#;

    #[test]
    fn an_incident_of_the_same_host_or_entry_is_linked_and_no_other_nor_one_that_is_over() {
        let mut view = fixtures::outage();
        let target = view.incidents[0].verdict.targets[0].to_string();
        let host = target.trim_start_matches("http://").trim_end_matches('/');
        let spec: TopologySpec = serde_saphyr::from_str(&TOPOLOGY.replace("HOST", host)).unwrap();
        let topology = Topology::try_from(spec).unwrap();
        assert!(
            topology.targets().keys().any(|id| id.as_str() == target),
            "{target}"
        );
        for (host, linked) in [
            (host, true),
            ("new.example.test", true),
            ("elsewhere.example.test", false),
        ] {
            assert_eq!(
                find_linked_incident(host, &topology, &view).is_some(),
                linked,
                "{host}"
            );
        }
        for incident in &mut view.incidents {
            incident.state = IncidentState::Recovering;
        }
        assert_eq!(find_linked_incident(host, &topology, &view), None);
    }
}
