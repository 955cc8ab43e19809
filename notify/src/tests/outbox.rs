//! Which changes are worth a message, and which message is due to each receiver.

use std::time::Duration;

use parallax_diagnosis::{verdict::Consequence, view::CellState};
use parallax_model::Micros;
use serde_json::Value;

use super::{
    super::notification::{DueMessage, NotificationEnding, NotificationPhase, ReceiverMode},
    *,
};

const MESSAGES: ReceiverMode = ReceiverMode::Messages;
const FIRING: ReceiverMode = ReceiverMode::Firing(Duration::from_mins(1));
const S: Micros = Micros::from_secs(1);
/// Longer than a fault takes to develop.
const SETTLED: Micros = Micros::from_secs(31);

fn due(outbox: &Outbox, manner: ReceiverMode) -> Option<DueMessage> {
    outbox.notifications.values().next()?.due_message("r", manner)
}

/// Delivers the due message, if any.
fn deliver(outbox: &mut Outbox, manner: ReceiverMode) -> Option<DueMessage> {
    outbox
        .notifications
        .values_mut()
        .for_each(|notification| notification.unpersisted = false);
    let delivery = outbox.next_delivery("r", manner, NOW, |_| Some(0))?;
    outbox.record_delivery("r", &delivery, Value::Null, NOW);
    Some(delivery.message)
}

/// The outbox as another process reads it.
fn restarted(outbox: &Outbox) -> Outbox {
    serde_json::from_str(&outbox.to_json()).unwrap()
}

#[test]
fn an_incident_of_fifty_targets_is_one_notification_that_names_ten_of_them() {
    let mut outbox = Outbox::default();
    update(&mut outbox, &open(), NOW, false, 0);
    update(&mut outbox, &open(), NOW.plus(S), false, 0);
    assert_eq!(outbox.notifications.len(), 1);
    let notification = outbox.notifications.values().next().unwrap();
    assert_eq!(
        (notification.revision, notification.content.targets.len()),
        (1, 10)
    );
    assert_eq!(
        notification.content.targets_total,
        open().incidents[0].verdict.targets.len()
    );
}

#[test]
fn opened_changed_and_recovered_are_each_sent_once_and_in_this_order() {
    let mut outbox = Outbox::default();
    update(&mut outbox, &fixtures::healthy(), NOW, false, 0);
    assert_eq!(deliver(&mut outbox, MESSAGES), None);
    update(&mut outbox, &open(), NOW, false, 0);
    assert_eq!(
        deliver(&mut outbox, MESSAGES),
        Some(DueMessage::Open { first: true })
    );
    assert_eq!(deliver(&mut outbox, MESSAGES), None, "only once");
    let mut renamed = open();
    renamed.incidents[0].verdict.region = fixtures::region("vip", &[]);
    update(&mut outbox, &renamed, NOW.plus(S), false, 0);
    assert_eq!(
        deliver(&mut outbox, MESSAGES),
        None,
        "a developing fault notifies once"
    );
    update(&mut outbox, &renamed, NOW.plus(SETTLED), false, 0);
    assert_eq!(
        deliver(&mut outbox, MESSAGES),
        Some(DueMessage::Open { first: false })
    );
    update(&mut outbox, &closed(), NOW, false, 0);
    assert_eq!(deliver(&mut outbox, MESSAGES), Some(DueMessage::Recovered));
    update(&mut outbox, &closed(), NOW, false, 0);
    assert_eq!(deliver(&mut outbox, MESSAGES), None);
}

#[test]
fn a_change_is_sent_when_the_severity_rises_and_not_when_it_falls() {
    let mut mild = open();
    for cell in mild.matrix.iter_mut().flat_map(|row| &mut row.cells) {
        (cell.state, cell.probes, cell.failures) = (CellState::Flaky, 12, 5);
    }
    let mut outbox = Outbox::default();
    update(&mut outbox, &mild, NOW, false, 0);
    assert_eq!(
        deliver(&mut outbox, MESSAGES),
        Some(DueMessage::Open { first: true })
    );
    update(&mut outbox, &open(), NOW.plus(SETTLED), false, 0);
    assert_eq!(
        deliver(&mut outbox, MESSAGES),
        Some(DueMessage::Open { first: false }),
        "critical now"
    );
    update(&mut outbox, &mild, NOW.plus(SETTLED).plus(SETTLED), false, 0);
    assert_eq!(deliver(&mut outbox, MESSAGES), None);
}

#[test]
fn members_that_join_are_sent_together_after_a_pause_that_doubles_and_members_that_leave_are_not() {
    let grown = |members: usize| {
        let mut view = open();
        view.incidents[0].opened = NOW;
        let late = (0..members).map(|i| format!("http://late-{i}.example.test/").parse().unwrap());
        view.incidents[0].verdict.targets.extend(late);
        view
    };
    let mut outbox = Outbox::default();
    let mut sent = Vec::new();
    // One more target each second for ten minutes.
    for second in 0..600_usize {
        let at = NOW.plus(Micros::from_secs(u64::try_from(second).unwrap()));
        update(&mut outbox, &grown(second), at, false, 0);
        if deliver(&mut outbox, MESSAGES).is_some() {
            sent.push(second);
        }
    }
    assert_eq!(sent, [0, 60, 120, 240, 480]);
    let newest = &outbox.notifications.values().next().unwrap().content;
    assert_eq!(
        newest.targets_total,
        grown(480).incidents[0].verdict.targets.len()
    );
    update(
        &mut outbox,
        &grown(0),
        NOW.plus(Micros::from_secs(6_000)),
        false,
        0,
    );
    assert_eq!(deliver(&mut outbox, MESSAGES), None);
}

#[test]
fn a_vantage_that_falls_silent_because_of_the_incident_joins_it() {
    let mut silencing = open();
    silencing.incidents[0].opened = NOW;
    let mut outbox = Outbox::default();
    update(&mut outbox, &silencing, NOW, false, 0);
    assert!(deliver(&mut outbox, MESSAGES).is_some());
    silencing.incidents[0].consequences = vec![Consequence::SilentVantage {
        vantage: "n1/pod".parse().unwrap(),
    }];
    update(&mut outbox, &silencing, NOW.plus(Micros::from_secs(60)), false, 0);
    assert_eq!(
        deliver(&mut outbox, MESSAGES),
        Some(DueMessage::Open { first: false })
    );
    let content = &outbox.notifications.values().next().unwrap().content;
    assert_eq!(
        content.consequences,
        ["n1/pod does not report: its way to the aggregator crosses what fails"]
    );
}

#[test]
fn an_undelivered_message_is_superseded_and_opening_and_end_are_one_message() {
    let mut outbox = Outbox::default();
    update(&mut outbox, &open(), NOW, false, 0);
    update(&mut outbox, &closed(), NOW, false, 0);
    assert_eq!(
        outbox.pending("r", MESSAGES).0,
        1,
        "one message is pending, whatever has happened"
    );
    assert_eq!(
        due(&outbox, FIRING),
        None,
        "an alert that never fired need not resolve"
    );
    assert_eq!(deliver(&mut outbox, MESSAGES), Some(DueMessage::Recovered));
    assert_eq!(deliver(&mut outbox, MESSAGES), None);
}

#[test]
fn a_handled_incident_is_not_notified_and_its_end_goes_to_receivers_of_the_opening() {
    let mut outbox = Outbox::default();
    update(&mut outbox, &open(), NOW, true, 0);
    assert_eq!(
        due(&outbox, MESSAGES),
        None,
        "announced before the incident began"
    );
    let mut never = restarted(&outbox);
    update(&mut never, &closed(), NOW, true, 0);
    assert_eq!(due(&never, MESSAGES), None, "no opening was sent, so no end is");
    update(&mut outbox, &open(), NOW, false, 0);
    assert_eq!(
        deliver(&mut outbox, MESSAGES),
        Some(DueMessage::Open { first: true }),
        "the silence has ended"
    );
    let mut renamed = open();
    renamed.incidents[0].verdict.region = fixtures::region("vip", &[]);
    update(&mut outbox, &renamed, NOW.plus(SETTLED), true, 0);
    assert_eq!(due(&outbox, MESSAGES), None, "acknowledged: changes send nothing");
    update(&mut outbox, &closed(), NOW, true, 0);
    assert_eq!(
        deliver(&mut outbox, MESSAGES),
        Some(DueMessage::Recovered),
        "but the recovery is sent, to close tickets"
    );
}

#[test]
fn a_firing_alert_resolves_when_handled_and_fires_again_after_the_silence() {
    let mut outbox = Outbox::default();
    update(&mut outbox, &open(), NOW, false, 0);
    assert_eq!(
        deliver(&mut outbox, FIRING),
        Some(DueMessage::Open { first: true })
    );
    update(&mut outbox, &open(), NOW, true, 0);
    assert_eq!(
        deliver(&mut outbox, FIRING),
        Some(DueMessage::Recovered),
        "as with the alert rules"
    );
    assert_eq!(deliver(&mut outbox, FIRING), None);
    update(&mut outbox, &open(), NOW, false, 0);
    assert_eq!(
        deliver(&mut outbox, FIRING),
        Some(DueMessage::Open { first: true })
    );
    update(&mut outbox, &closed(), NOW, false, 0);
    assert_eq!(deliver(&mut outbox, FIRING), Some(DueMessage::Recovered));
    assert_eq!(deliver(&mut outbox, FIRING), None);
}

#[test]
fn a_firing_alert_is_repeated_and_a_message_is_not() {
    let mut outbox = Outbox::default();
    update(&mut outbox, &open(), NOW, false, 0);
    deliver(&mut outbox, FIRING);
    let due = outbox.next_reminder("r", FIRING).unwrap();
    assert_eq!(due, NOW.plus(Micros::from_secs(60)));
    assert_eq!(outbox.next_delivery("r", FIRING, NOW, |_| Some(0)), None);
    assert_eq!(
        outbox
            .next_delivery("r", FIRING, due, |_| Some(0))
            .unwrap()
            .message,
        DueMessage::Reminder
    );
    assert_eq!(outbox.next_reminder("r", MESSAGES), None);
}

#[test]
fn a_restart_neither_repeats_a_message_nor_omits_the_recovery() {
    let mut outbox = Outbox::default();
    update(&mut outbox, &open(), NOW, false, 0);
    deliver(&mut outbox, MESSAGES);
    let mut again = restarted(&outbox);
    // An aggregator that knows nothing yet reports no recovery.
    update(&mut again, &fixtures::waiting(), NOW.plus(S), false, 0);
    update(&mut again, &open(), NOW.plus(S), false, 0);
    assert_eq!(due(&again, MESSAGES), None);
    update(&mut again, &closed(), NOW.plus(S), false, 0);
    assert_eq!(due(&again, MESSAGES), Some(DueMessage::Recovered));
}

#[test]
fn an_incident_with_another_id_after_a_restart_continues_its_thread() {
    let mut outbox = Outbox::default();
    update(&mut outbox, &open(), NOW, false, 0);
    deliver(&mut outbox, MESSAGES);
    let mut again = restarted(&outbox);
    let mut renamed = open();
    renamed.incidents[0].id = "another".to_owned();
    update(&mut again, &renamed, NOW.plus(S), false, 0);
    assert_eq!((again.notifications.len(), due(&again, MESSAGES)), (1, None));
    let notification = again.notifications.values().next().unwrap();
    assert_eq!(
        (notification.content.incident.as_str(), &notification.thread),
        ("another", &open().incidents[0].id)
    );
    // Also if the evidence names another region meanwhile.
    let mut other_region = restarted(&outbox);
    let mut anew = renamed.clone();
    anew.incidents[0].verdict.region = fixtures::region("vip", &[]);
    update(&mut other_region, &anew, NOW.plus(S), false, 0);
    assert_eq!(
        (other_region.notifications.len(), due(&other_region, MESSAGES)),
        (1, None)
    );
    // In the same process it is another incident.
    renamed.incidents[0].id = "a third".to_owned();
    update(&mut again, &renamed, NOW.plus(S), false, 0);
    assert_eq!(again.notifications.len(), 2);
}

#[test]
fn an_unobserved_end_is_sent_once_the_targets_are_observed_and_work() {
    let mut outbox = Outbox::default();
    update(&mut outbox, &open(), NOW, false, 0);
    deliver(&mut outbox, MESSAGES);
    let mut again = restarted(&outbox);
    let mut silent = open();
    silent.incidents.clear();
    let mut healthy = silent.clone();
    make_healthy(&mut healthy);
    update(&mut again, &healthy, NOW, false, 599);
    assert_eq!(
        due(&again, MESSAGES),
        None,
        "the incident may still be found again"
    );
    update(&mut again, &silent, NOW, false, 601);
    assert_eq!(due(&again, MESSAGES), None, "its targets fail");
    let mut unseen = silent.clone();
    for cell in unseen.matrix.iter_mut().flat_map(|row| &mut row.cells) {
        cell.state = CellState::Unknown;
    }
    update(&mut again, &unseen, NOW, false, 601);
    assert_eq!(due(&again, MESSAGES), None, "its targets are not observed");
    update(&mut again, &healthy, NOW, false, 601);
    assert_eq!(due(&again, MESSAGES), Some(DueMessage::Recovered));
    let notification = again.notifications.values().next().unwrap();
    assert_eq!(
        notification.phase,
        NotificationPhase::Ended {
            at: NOW,
            ending: NotificationEnding::Unobserved
        }
    );
}

#[test]
fn replayed_observations_reopen_nothing_and_a_new_failure_does() {
    let mut outbox = Outbox::default();
    update(&mut outbox, &open(), NOW, false, 0);
    deliver(&mut outbox, MESSAGES);
    update(&mut outbox, &closed(), NOW, false, 0);
    deliver(&mut outbox, MESSAGES);
    let mut again = restarted(&outbox);
    update(&mut again, &open(), NOW.plus(S), false, 0);
    assert_eq!(due(&again, MESSAGES), None);
    let mut back = open();
    back.incidents[0].since = NOW.plus(S);
    back.incidents[0].occurrences = 2;
    update(&mut again, &back, NOW.plus(S), false, 0);
    let message = again.notifications.values().next().unwrap().message_id();
    assert_eq!(
        deliver(&mut again, MESSAGES),
        Some(DueMessage::Open { first: true })
    );
    assert!(
        message.ends_with("_2_3"),
        "another id than the first time: {message}"
    );
}

#[test]
fn a_delivered_end_is_pruned_after_a_while_and_a_pending_one_is_not() {
    let receivers = [("r".to_owned(), MESSAGES)].into();
    let mut outbox = Outbox::default();
    update(&mut outbox, &open(), NOW, false, 0);
    update(&mut outbox, &closed(), NOW, false, 0);
    let later = NOW.plus(Micros::from_secs(7_200));
    assert!(outbox.prune(&receivers, later).is_empty());
    assert_eq!(outbox.notifications.len(), 1, "it was not delivered");
    deliver(&mut outbox, MESSAGES);
    assert!(outbox.prune(&receivers, NOW).is_empty());
    assert_eq!(outbox.notifications.len(), 1, "kept for a restart");
    outbox.prune(&receivers, later);
    assert!(outbox.notifications.is_empty());
}

#[test]
fn beyond_the_limits_closed_notifications_are_dropped_first_and_losses_are_counted_per_receiver() {
    let receivers = [("r".to_owned(), MESSAGES)].into();
    let mut outbox = Outbox::default();
    for i in 0..super::super::outbox::MAX_NOTIFICATIONS + 20 {
        let mut view = open();
        view.incidents[0].id = format!("i-{i}");
        let at = NOW.plus(Micros::from_secs(i as u64));
        update(&mut outbox, &view, at, false, 0);
        if i < 5 {
            view.incidents[0].state = IncidentState::Closed { closed: at };
            update(&mut outbox, &view, at, false, 0);
        }
        // Each incident is in a view of its own; undo the ends of those that the current view lacks.
        outbox.notifications.values_mut().for_each(|notification| {
            notification.phase = match notification.phase {
                NotificationPhase::Ended {
                    ending: NotificationEnding::Unobserved,
                    ..
                } => NotificationPhase::Open,
                other => other,
            }
        });
    }
    let lost = outbox.prune(&receivers, NOW);
    assert_eq!(lost.len(), 20);
    assert_eq!(
        outbox.notifications.len(),
        super::super::outbox::MAX_NOTIFICATIONS
    );
    assert!(outbox.to_json().len() < super::super::outbox::MAX_BYTES);
    assert!(!outbox.notifications.contains_key("i-0") && !outbox.notifications.contains_key("i-10"));
    assert!(outbox.notifications.contains_key("i-169"), "the newest is kept");
}

#[test]
fn merging_keeps_the_deliveries_of_both_writers() {
    let mut first = Outbox::default();
    update(&mut first, &open(), NOW, false, 0);
    let mut second = restarted(&first);
    deliver(&mut second, MESSAGES);
    first.merge(second);
    assert_eq!(due(&first, MESSAGES), None);
}
