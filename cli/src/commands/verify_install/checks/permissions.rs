//! Whether the API server grants the aggregator what it needs.

use parallax_api::installation::WatchProgress;

use super::{Answer, Finding, count};
use crate::commands::verify_install::facts::Facts;

pub(super) fn check(facts: &Facts) -> Answer<Finding> {
    let answer = facts.aggregator()?;
    let review = &answer.permissions;
    if !answer.in_cluster && review.required == 0 {
        return Ok(Finding::not_installed("the aggregator needs no permission"));
    }
    let watches = &answer.topology.watches;
    let forbidden = watches
        .iter()
        .filter(|watch| watch.state == WatchProgress::Forbidden);
    let denied = forbidden.map(|watch| {
        let reason = watch.reason.as_deref().unwrap_or("denied");
        format!("list and watch {}: {reason}", watch.resource)
    });
    let missing: Vec<String> = denied.chain(review.missing.iter().cloned()).collect();
    if !missing.is_empty() {
        return Ok(Finding::not_ok(format!(
            "{} of the aggregator missing",
            count(missing.len(), "permission")
        ))
        .with_details(missing)
        .with_action(format!(
            "apply the Roles and bindings of the manifests again; test one with: kubectl auth can-i VERB RESOURCE -n {namespace} --as system:serviceaccount:{namespace}:parallax-aggregator",
            namespace = facts.namespace
        )));
    }
    if let Some(reason) = &review.unknown_because {
        return Ok(Finding::unknown(reason.clone()));
    }
    let undecided = watches
        .iter()
        .find(|watch| matches!(watch.state, WatchProgress::Starting | WatchProgress::Failing));
    if let Some(watch) = undecided {
        return Ok(Finding::unknown(format!(
            "{} could not be listed yet, so their permission is not known",
            watch.resource
        )));
    }
    Ok(Finding::ok(format!(
        "the lists of {} and {} are granted",
        count(watches.len(), "resource"),
        count(review.required, "further permission")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::verify_install::checks::{
        CheckState,
        fixtures::{facts, installed, state, watch},
    };

    #[test]
    fn every_missing_permission_is_listed() {
        let mut facts = facts();
        assert_eq!(state(check, &facts), CheckState::Ok);
        let answer = installed(&mut facts);
        answer.topology.watches = vec![watch("nodes", WatchProgress::Forbidden)];
        answer.permissions.missing = vec!["create tokenreviews.authentication.k8s.io".to_owned()];
        let finding = check(&facts).unwrap();
        assert_eq!(finding.state, CheckState::NotOk);
        assert_eq!(finding.evidence, "2 permissions of the aggregator missing");
        assert_eq!(
            finding.details,
            [
                "list and watch nodes: because the test says so",
                "create tokenreviews.authentication.k8s.io"
            ]
        );
    }

    #[test]
    fn a_review_without_an_answer_is_unknown() {
        let mut facts = facts();
        installed(&mut facts).permissions.unknown_because = Some("no response".to_owned());
        assert_eq!(check(&facts).unwrap(), Finding::unknown("no response"));
        for progress in [WatchProgress::Starting, WatchProgress::Failing] {
            let answer = installed(&mut facts);
            answer.permissions.unknown_because = None;
            answer.topology.watches = vec![watch("nodes", progress)];
            assert_eq!(state(check, &facts), CheckState::Unknown, "{progress:?}");
        }
        facts.aggregator = Err("gone".to_owned());
        assert_eq!(state(check, &facts), CheckState::Unknown);
    }

    #[test]
    fn without_a_cluster_no_permission_is_needed() {
        let mut facts = facts();
        let answer = installed(&mut facts);
        answer.in_cluster = false;
        answer.permissions.required = 0;
        assert_eq!(state(check, &facts), CheckState::NotInstalled);
    }
}
