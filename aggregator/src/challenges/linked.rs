//! The incident that already says what is behind the front of a Challenge's host.

use std::collections::BTreeSet;

use parallax_diagnosis::{
    topology::{PlacedTarget, Topology},
    verdict::{Incident, IncidentState},
    view::View,
};
use parallax_model::{ProbeSpec, ServiceKey};

/// The open incident that explains targets of the same host, or of the same entry; of several the likeliest.
pub(super) fn incident<'a>(host: &str, topology: &Topology, view: &'a View) -> Option<&'a Incident> {
    let own = |placed: &&PlacedTarget| named(placed, host);
    let entries: BTreeSet<&ServiceKey> = topology
        .targets()
        .values()
        .filter(own)
        .filter_map(|placed| Some(&placed.entry.as_ref()?.0))
        .collect();
    let same_front = |placed: &PlacedTarget| {
        named(placed, host)
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

fn named(placed: &PlacedTarget, host: &str) -> bool {
    match &placed.target.probe {
        ProbeSpec::Http(http) => http.host.as_str() == host,
        _ => false,
    }
}
