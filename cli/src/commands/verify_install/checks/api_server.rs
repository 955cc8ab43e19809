//! Whether the aggregator reads the cluster.

use parallax_api::installation::WatchProgress;

use super::{Answer, Finding, count};
use crate::commands::verify_install::facts::Facts;

pub(super) fn check(facts: &Facts) -> Answer<Finding> {
    let answer = facts.aggregator()?;
    if !answer.in_cluster {
        return Ok(Finding::not_installed("the aggregator watches no cluster"));
    }
    let topology = &answer.topology;
    let watches = |progress| {
        let all = topology.watches.iter();
        all.filter(|watch| watch.state == progress)
            .map(|watch| watch.resource.as_str())
            .collect::<Vec<_>>()
    };
    let starting = watches(WatchProgress::Starting);
    let failing = watches(WatchProgress::Failing).len() + watches(WatchProgress::Forbidden).len();
    if let Some(error) = &topology.error {
        if failing == 0 && !starting.is_empty() {
            return Ok(Finding::unknown(format!(
                "the topology has not been read yet: {} not listed",
                starting.join(", ")
            )));
        }
        return Ok(Finding::not_ok(format!(
            "the topology has not been current for {}",
            topology.age.humanize()
        ))
        .with_details(error.lines().map(ToOwned::to_owned).collect())
        .with_action("check that the API server responds, and the value apiServerPorts, which the NetworkPolicy admits"));
    }
    let absent = watches(WatchProgress::Absent);
    let absent = if absent.is_empty() {
        String::new()
    } else {
        format!("; not in this cluster: {}", absent.join(", "))
    };
    Ok(Finding::ok(format!(
        "reachable; the topology is current ({} watched{absent})",
        count(watches(WatchProgress::Live).len(), "resource")
    )))
}

#[cfg(test)]
mod tests {
    use parallax_model::Micros;

    use super::*;
    use crate::commands::verify_install::checks::{
        CheckState,
        fixtures::{facts, installed, state, watch},
    };

    #[test]
    fn a_topology_that_cannot_be_read_is_not_ok_and_one_not_read_yet_is_unknown() {
        let mut facts = facts();
        let finding = check(&facts).unwrap();
        assert_eq!(finding.state, CheckState::Ok);
        assert_eq!(
            finding.evidence,
            "reachable; the topology is current (2 resources watched; not in this cluster: gateways)"
        );
        let topology = &mut installed(&mut facts).topology;
        topology.error = Some("nodes: connection refused\nservices: connection refused".to_owned());
        topology.age = Micros::from_secs(240);
        topology.watches = vec![watch("nodes", WatchProgress::Failing)];
        let finding = check(&facts).unwrap();
        assert_eq!((finding.state, finding.details.len()), (CheckState::NotOk, 2));
        installed(&mut facts).topology.watches = vec![watch("nodes", WatchProgress::Starting)];
        assert_eq!(state(check, &facts), CheckState::Unknown);
        facts.aggregator = Err("gone".to_owned());
        assert_eq!(state(check, &facts), CheckState::Unknown);
    }

    #[test]
    fn an_invalid_configuration_is_not_ok_although_every_watch_is_live() {
        let mut facts = facts();
        installed(&mut facts).topology.error = Some("parallax.yaml: unknown field".to_owned());
        assert_eq!(state(check, &facts), CheckState::NotOk);
    }

    #[test]
    fn without_a_cluster_there_is_nothing_to_read() {
        let mut facts = facts();
        installed(&mut facts).in_cluster = false;
        assert_eq!(state(check, &facts), CheckState::NotInstalled);
    }
}
