//! Whether notifications are delivered.

use parallax_api::notifications::{ReceiverState, ReceiverView};

use super::{Answer, Finding, count};
use crate::commands::verify_install::facts::Facts;

pub(super) fn check(facts: &Facts) -> Answer<Finding> {
    let answer = facts.aggregator()?;
    let status = &answer.notifications;
    if status.receivers.is_empty() {
        return Ok(Finding::not_installed("no receiver is configured"));
    }
    let mut problems: Vec<String> = status.receivers.iter().filter_map(problem).collect();
    let failing = problems.len();
    problems.extend(
        status
            .not_persisted_because
            .as_ref()
            .map(|reason| format!("pending notifications are kept in memory only: {reason}")),
    );
    if !problems.is_empty() {
        return Ok(Finding::not_ok(format!(
            "deliveries to {failing} of {} fail",
            count(status.receivers.len(), "receiver")
        ))
        .with_details(problems)
        .with_action(
            "check URL, secret and CA of the receiver, and that the NetworkPolicy admits its port",
        ));
    }
    let delivered = status
        .receivers
        .iter()
        .filter(|receiver| receiver.last_delivered.is_some())
        .count();
    Ok(Finding::ok(format!(
        "no delivery fails; {delivered} of {} had something to deliver since the start",
        count(status.receivers.len(), "receiver")
    )))
}

fn problem(receiver: &ReceiverView) -> Option<String> {
    if let ReceiverState::Failing { reason, .. } = &receiver.state {
        return Some(format!("{}: {reason}", receiver.name));
    }
    let reason = receiver.rejected_because.as_deref().unwrap_or("no reason");
    (receiver.last_rejected > receiver.last_delivered)
        .then(|| format!("{}: rejected the last notification: {reason}", receiver.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::verify_install::checks::{
        CheckState,
        fixtures::{ago, facts, installed, state},
    };

    #[test]
    fn failing_and_rejecting_receivers_are_named() {
        let mut facts = facts();
        assert_eq!(
            check(&facts).unwrap(),
            Finding::ok("no delivery fails; 0 of 1 receiver had something to deliver since the start")
        );
        let receiver = &mut installed(&mut facts).notifications.receivers[0];
        receiver.last_rejected = Some(ago(5));
        receiver.rejected_because = Some("404".to_owned());
        receiver.last_delivered = Some(ago(9));
        assert_eq!(
            check(&facts).unwrap().details,
            ["oncall: rejected the last notification: 404"]
        );
        let receiver = &mut installed(&mut facts).notifications.receivers[0];
        receiver.last_delivered = Some(ago(1));
        assert_eq!(state(check, &facts), CheckState::Ok, "a later one arrived");
        installed(&mut facts).notifications.receivers[0].state = ReceiverState::Failing {
            since: ago(60),
            reason: "connection refused".to_owned(),
        };
        let finding = check(&facts).unwrap();
        assert_eq!(finding.state, CheckState::NotOk);
        assert_eq!(finding.details, ["oncall: connection refused"]);
    }

    #[test]
    fn notifications_that_a_restart_would_lose_are_not_ok() {
        let mut facts = facts();
        installed(&mut facts).notifications.not_persisted_because = Some("forbidden".to_owned());
        assert_eq!(state(check, &facts), CheckState::NotOk);
    }

    #[test]
    fn without_receivers_nothing_is_delivered() {
        let mut facts = facts();
        installed(&mut facts).notifications.receivers.clear();
        assert_eq!(state(check, &facts), CheckState::NotInstalled);
        facts.aggregator = Err("gone".to_owned());
        assert_eq!(state(check, &facts), CheckState::Unknown);
    }
}
