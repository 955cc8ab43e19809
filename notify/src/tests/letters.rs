//! Which changes are worth a message, and which message is due to each receiver.

use std::time::Duration;

use parallax_diagnosis::view::CellState;
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
const WHILE: Micros = Micros::from_secs(31);

fn owed(outbox: &Outbox, manner: ReceiverMode) -> Option<DueMessage> {
    outbox.letters.values().next()?.owed("r", manner)
}

/// Delivers the due message, if any.
fn hear(outbox: &mut Outbox, manner: ReceiverMode) -> Option<DueMessage> {
    outbox.letters.values_mut().for_each(|letter| letter.held = false);
    let errand = outbox.errand("r", manner, NOW, |_| Some(0))?;
    outbox.heard("r", &errand, Value::Null, NOW);
    Some(errand.what)
}

/// The outbox as another process reads it.
fn restarted(outbox: &Outbox) -> Outbox {
    serde_json::from_str(&outbox.written()).unwrap()
}

#[test]
fn an_incident_of_fifty_targets_is_one_letter_that_names_ten_of_them() {
    let mut outbox = Outbox::default();
    look_at(&mut outbox, &open(), NOW, false, 0);
    look_at(&mut outbox, &open(), NOW.plus(S), false, 0);
    assert_eq!(outbox.letters.len(), 1);
    let letter = outbox.letters.values().next().unwrap();
    assert_eq!((letter.number, letter.content.targets.len()), (1, 10));
    assert_eq!(
        letter.content.targets_total,
        open().incidents[0].verdict.targets.len()
    );
}

#[test]
fn opened_changed_and_recovered_are_each_told_once_and_in_this_order() {
    let mut outbox = Outbox::default();
    look_at(&mut outbox, &fixtures::healthy(), NOW, false, 0);
    assert_eq!(hear(&mut outbox, MESSAGES), None);
    look_at(&mut outbox, &open(), NOW, false, 0);
    assert_eq!(
        hear(&mut outbox, MESSAGES),
        Some(DueMessage::Open { first: true })
    );
    assert_eq!(hear(&mut outbox, MESSAGES), None, "only once");
    let mut renamed = open();
    renamed.incidents[0].verdict.region = fixtures::region("vip", &[]);
    look_at(&mut outbox, &renamed, NOW.plus(S), false, 0);
    assert_eq!(
        hear(&mut outbox, MESSAGES),
        None,
        "a developing fault notifies once"
    );
    look_at(&mut outbox, &renamed, NOW.plus(WHILE), false, 0);
    assert_eq!(
        hear(&mut outbox, MESSAGES),
        Some(DueMessage::Open { first: false })
    );
    look_at(&mut outbox, &over(), NOW, false, 0);
    assert_eq!(hear(&mut outbox, MESSAGES), Some(DueMessage::Over));
    look_at(&mut outbox, &over(), NOW, false, 0);
    assert_eq!(hear(&mut outbox, MESSAGES), None);
}

#[test]
fn it_is_told_again_when_it_gets_worse_and_not_when_it_gets_better_or_grows() {
    let mut mild = open();
    for cell in mild.matrix.iter_mut().flat_map(|row| &mut row.cells) {
        cell.state = CellState::Flaky;
    }
    let mut outbox = Outbox::default();
    look_at(&mut outbox, &mild, NOW, false, 0);
    assert_eq!(
        hear(&mut outbox, MESSAGES),
        Some(DueMessage::Open { first: true })
    );
    look_at(&mut outbox, &open(), NOW.plus(WHILE), false, 0);
    assert_eq!(
        hear(&mut outbox, MESSAGES),
        Some(DueMessage::Open { first: false }),
        "critical now"
    );
    look_at(&mut outbox, &mild, NOW.plus(WHILE).plus(WHILE), false, 0);
    let mut grown = open();
    grown.incidents[0]
        .verdict
        .targets
        .push("http://late.example.test/".parse().unwrap());
    look_at(&mut outbox, &grown, NOW.plus(WHILE).plus(WHILE), false, 0);
    assert_eq!(hear(&mut outbox, MESSAGES), None);
}

#[test]
fn what_was_not_delivered_is_superseded_by_the_newest_and_both_ends_are_told_as_one() {
    let mut outbox = Outbox::default();
    look_at(&mut outbox, &open(), NOW, false, 0);
    look_at(&mut outbox, &over(), NOW, false, 0);
    assert_eq!(
        outbox.pending("r", MESSAGES).0,
        1,
        "one message is pending, whatever has happened"
    );
    assert_eq!(
        owed(&outbox, FIRING),
        None,
        "an alert that never fired need not resolve"
    );
    assert_eq!(hear(&mut outbox, MESSAGES), Some(DueMessage::Over));
    assert_eq!(hear(&mut outbox, MESSAGES), None);
}

#[test]
fn what_somebody_has_dealt_with_calls_nobody_and_its_end_is_told_to_those_who_were_called() {
    let mut outbox = Outbox::default();
    look_at(&mut outbox, &open(), NOW, true, 0);
    assert_eq!(
        owed(&outbox, MESSAGES),
        None,
        "announced before the incident began"
    );
    let mut never = restarted(&outbox);
    look_at(&mut never, &over(), NOW, true, 0);
    assert_eq!(owed(&never, MESSAGES), None, "no opening was sent, so no end is");
    look_at(&mut outbox, &open(), NOW, false, 0);
    assert_eq!(
        hear(&mut outbox, MESSAGES),
        Some(DueMessage::Open { first: true }),
        "the silence has ended"
    );
    let mut renamed = open();
    renamed.incidents[0].verdict.region = fixtures::region("vip", &[]);
    look_at(&mut outbox, &renamed, NOW.plus(WHILE), true, 0);
    assert_eq!(
        owed(&outbox, MESSAGES),
        None,
        "acknowledged: changes send nothing"
    );
    look_at(&mut outbox, &over(), NOW, true, 0);
    assert_eq!(
        hear(&mut outbox, MESSAGES),
        Some(DueMessage::Over),
        "but the recovery is sent, to close tickets"
    );
}

#[test]
fn what_fires_ends_when_somebody_deals_with_it_and_fires_again_when_the_silence_is_over() {
    let mut outbox = Outbox::default();
    look_at(&mut outbox, &open(), NOW, false, 0);
    assert_eq!(hear(&mut outbox, FIRING), Some(DueMessage::Open { first: true }));
    look_at(&mut outbox, &open(), NOW, true, 0);
    assert_eq!(
        hear(&mut outbox, FIRING),
        Some(DueMessage::Over),
        "as with the alert rules"
    );
    assert_eq!(hear(&mut outbox, FIRING), None);
    look_at(&mut outbox, &open(), NOW, false, 0);
    assert_eq!(hear(&mut outbox, FIRING), Some(DueMessage::Open { first: true }));
    look_at(&mut outbox, &over(), NOW, false, 0);
    assert_eq!(hear(&mut outbox, FIRING), Some(DueMessage::Over));
    assert_eq!(hear(&mut outbox, FIRING), None);
}

#[test]
fn what_fires_is_said_again_and_again_and_a_message_never() {
    let mut outbox = Outbox::default();
    look_at(&mut outbox, &open(), NOW, false, 0);
    hear(&mut outbox, FIRING);
    let due = outbox.reminder("r", FIRING).unwrap();
    assert_eq!(due, NOW.plus(Micros::from_secs(60)));
    assert_eq!(outbox.errand("r", FIRING, NOW, |_| Some(0)), None);
    assert_eq!(
        outbox.errand("r", FIRING, due, |_| Some(0)).unwrap().what,
        DueMessage::Again
    );
    assert_eq!(outbox.reminder("r", MESSAGES), None);
}

#[test]
fn a_restart_neither_tells_again_nor_forgets_the_end() {
    let mut outbox = Outbox::default();
    look_at(&mut outbox, &open(), NOW, false, 0);
    hear(&mut outbox, MESSAGES);
    let mut again = restarted(&outbox);
    // An aggregator that knows nothing yet reports no recovery.
    look_at(&mut again, &fixtures::waiting(), NOW.plus(S), false, 0);
    look_at(&mut again, &open(), NOW.plus(S), false, 0);
    assert_eq!(owed(&again, MESSAGES), None);
    look_at(&mut again, &over(), NOW.plus(S), false, 0);
    assert_eq!(owed(&again, MESSAGES), Some(DueMessage::Over));
}

#[test]
fn what_goes_on_under_another_id_after_a_restart_goes_on_in_its_thread() {
    let mut outbox = Outbox::default();
    look_at(&mut outbox, &open(), NOW, false, 0);
    hear(&mut outbox, MESSAGES);
    let mut again = restarted(&outbox);
    let mut renamed = open();
    renamed.incidents[0].id = "another".to_owned();
    look_at(&mut again, &renamed, NOW.plus(S), false, 0);
    assert_eq!((again.letters.len(), owed(&again, MESSAGES)), (1, None));
    let letter = again.letters.values().next().unwrap();
    assert_eq!(
        (letter.content.incident.as_str(), &letter.thread),
        ("another", &open().incidents[0].id)
    );
    // Also if the evidence names another region meanwhile.
    let mut elsewhere = restarted(&outbox);
    let mut anew = renamed.clone();
    anew.incidents[0].verdict.region = fixtures::region("vip", &[]);
    look_at(&mut elsewhere, &anew, NOW.plus(S), false, 0);
    assert_eq!((elsewhere.letters.len(), owed(&elsewhere, MESSAGES)), (1, None));
    // In the same process it is another incident.
    renamed.incidents[0].id = "a third".to_owned();
    look_at(&mut again, &renamed, NOW.plus(S), false, 0);
    assert_eq!(again.letters.len(), 2);
}

#[test]
fn an_end_that_nobody_saw_is_told_once_what_it_was_about_is_seen_and_well() {
    let mut outbox = Outbox::default();
    look_at(&mut outbox, &open(), NOW, false, 0);
    hear(&mut outbox, MESSAGES);
    let mut again = restarted(&outbox);
    let mut silent = open();
    silent.incidents.clear();
    let mut healthy = silent.clone();
    well(&mut healthy);
    look_at(&mut again, &healthy, NOW, false, 599);
    assert_eq!(
        owed(&again, MESSAGES),
        None,
        "the incident may still be found again"
    );
    look_at(&mut again, &silent, NOW, false, 601);
    assert_eq!(owed(&again, MESSAGES), None, "its targets fail");
    let mut unseen = silent.clone();
    for cell in unseen.matrix.iter_mut().flat_map(|row| &mut row.cells) {
        cell.state = CellState::Unknown;
    }
    look_at(&mut again, &unseen, NOW, false, 601);
    assert_eq!(owed(&again, MESSAGES), None, "its targets are not observed");
    look_at(&mut again, &healthy, NOW, false, 601);
    assert_eq!(owed(&again, MESSAGES), Some(DueMessage::Over));
    let letter = again.letters.values().next().unwrap();
    assert_eq!(
        letter.state,
        NotificationPhase::Over {
            at: NOW,
            how: NotificationEnding::Unseen
        }
    );
}

#[test]
fn the_past_that_passes_by_after_a_restart_opens_nothing_that_is_over_and_a_new_failure_does() {
    let mut outbox = Outbox::default();
    look_at(&mut outbox, &open(), NOW, false, 0);
    hear(&mut outbox, MESSAGES);
    look_at(&mut outbox, &over(), NOW, false, 0);
    hear(&mut outbox, MESSAGES);
    let mut again = restarted(&outbox);
    look_at(&mut again, &open(), NOW.plus(S), false, 0);
    assert_eq!(owed(&again, MESSAGES), None);
    let mut back = open();
    back.incidents[0].since = NOW.plus(S);
    back.incidents[0].occurrences = 2;
    look_at(&mut again, &back, NOW.plus(S), false, 0);
    let message = again.letters.values().next().unwrap().message();
    assert_eq!(hear(&mut again, MESSAGES), Some(DueMessage::Open { first: true }));
    assert!(
        message.ends_with("_2_3"),
        "another id than the first time: {message}"
    );
}

#[test]
fn what_is_over_and_told_is_forgotten_after_a_while_and_what_is_owed_is_not() {
    let receivers = [("r".to_owned(), MESSAGES)].into();
    let mut outbox = Outbox::default();
    look_at(&mut outbox, &open(), NOW, false, 0);
    look_at(&mut outbox, &over(), NOW, false, 0);
    let later = NOW.plus(Micros::from_secs(7_200));
    assert!(outbox.tidy(&receivers, later).is_empty());
    assert_eq!(outbox.letters.len(), 1, "it was not delivered");
    hear(&mut outbox, MESSAGES);
    assert!(outbox.tidy(&receivers, NOW).is_empty());
    assert_eq!(outbox.letters.len(), 1, "kept for a restart");
    outbox.tidy(&receivers, later);
    assert!(outbox.letters.is_empty());
}

#[test]
fn beyond_the_bounds_what_is_over_goes_first_and_what_is_lost_is_said_of_whom() {
    let receivers = [("r".to_owned(), MESSAGES)].into();
    let mut outbox = Outbox::default();
    for i in 0..super::super::outbox::MOST + 20 {
        let mut view = open();
        view.incidents[0].id = format!("i-{i}");
        let at = NOW.plus(Micros::from_secs(i as u64));
        look_at(&mut outbox, &view, at, false, 0);
        if i < 5 {
            view.incidents[0].state = IncidentState::Closed { closed: at };
            look_at(&mut outbox, &view, at, false, 0);
        }
        // Each incident is in a view of its own; undo the ends of those that the current view lacks.
        outbox.letters.values_mut().for_each(|letter| {
            letter.state = match letter.state {
                NotificationPhase::Over {
                    how: NotificationEnding::Unseen,
                    ..
                } => NotificationPhase::Open,
                other => other,
            }
        });
    }
    let lost = outbox.tidy(&receivers, NOW);
    assert_eq!(lost.len(), 20);
    assert_eq!(outbox.letters.len(), super::super::outbox::MOST);
    assert!(outbox.written().len() < super::super::outbox::BYTES);
    assert!(!outbox.letters.contains_key("i-0") && !outbox.letters.contains_key("i-10"));
    assert!(outbox.letters.contains_key("i-169"), "the newest is kept");
}

#[test]
fn of_two_writers_each_keeps_what_the_other_has_told() {
    let mut first = Outbox::default();
    look_at(&mut first, &open(), NOW, false, 0);
    let mut second = restarted(&first);
    hear(&mut second, MESSAGES);
    first.join(second);
    assert_eq!(owed(&first, MESSAGES), None);
}
