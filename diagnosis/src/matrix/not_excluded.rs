//! Causes that the reporting vantages together cannot rule out, even if the matrix is green.

use parallax_model::Vantage;

use crate::{
    catalogue::unobservable,
    findings::{FindingKind, HazardKind},
    topology::Topology,
    verdict::NotExcluded,
    view::{VantageState, VantageView},
};

/// Returns the causes that the reporting vantages together cannot rule out.
pub(crate) fn not_excluded_by_mesh(topology: &Topology, vantages: &[VantageView]) -> Vec<NotExcluded> {
    let outside = vantages
        .iter()
        .filter(|v| v.state == VantageState::Reporting && matches!(v.vantage, Vantage::Outside { .. }))
        .count();
    let mut all = Vec::new();
    if outside == 0 {
        all.push(NotExcluded {
            id: "I7".to_owned(),
            title: "faults seen only from outside the cluster: a success inside is not one outside"
                .to_owned(),
            requirement: "a vantage outside the cluster that reports".to_owned(),
        });
        all.extend(unobservable::only_outside());
    }
    if topology.public_resolvers().is_empty() {
        for (id, title) in [
            (
                FindingKind::PrivatePublished.catalogue(),
                FindingKind::PrivatePublished.title(),
            ),
            (
                HazardKind::UnservedIpv6.catalogue(),
                HazardKind::UnservedIpv6.title(),
            ),
        ] {
            all.push(NotExcluded {
                id: id.to_owned(),
                title: title.to_owned(),
                requirement: "a resolver under resolvers.public, and dns targets that query it".to_owned(),
            });
        }
    }
    all.extend(unobservable::with_outside_vantages(outside));
    all
}

#[cfg(test)]
mod tests {
    use parallax_model::EventTime;

    use super::*;

    fn views(names: &[(&str, VantageState)]) -> Vec<VantageView> {
        names
            .iter()
            .map(|(name, state)| VantageView {
                vantage: name.parse::<Vantage>().unwrap(),
                last_seen: Some(EventTime(0)),
                state: *state,
                explained_by: None,
                discarded: 0,
                is_discarding: false,
            })
            .collect()
    }

    fn open(names: &[(&str, VantageState)]) -> Vec<String> {
        not_excluded_by_mesh(&Topology::default(), &views(names))
            .into_iter()
            .map(|open| open.id)
            .collect()
    }

    /// I7 and F8 stay on the list, whatever passes inside.
    #[test]
    fn a_pass_inside_never_implies_a_pass_outside() {
        use VantageState::{Reporting, Silent};
        let inside = open(&[("n1/pod", Reporting)]);
        for id in ["I7", "F8", "F29", "F17", "F31"] {
            assert!(inside.contains(&id.to_owned()), "{id} is not among {inside:?}");
        }
        let silent = open(&[("n1/pod", Reporting), ("internet:laptop", Silent)]);
        assert!(
            silent.contains(&"I7".to_owned()),
            "a silent vantage excludes nothing"
        );
        let outside = open(&[("n1/pod", Reporting), ("internet:laptop", Reporting)]);
        assert!(!outside.contains(&"I7".to_owned()) && !outside.contains(&"F8".to_owned()));
        assert!(
            outside.contains(&"F31".to_owned()),
            "a vantage in one network cannot show a geo-block"
        );
    }
}
