//! All notifications, as a value without clock or tasks: which changes are worth a message, what was delivered, what
//! is due.

use std::collections::BTreeMap;

use parallax_api::severity::IncidentSeverity;
use parallax_diagnosis::{
    verdict::{Incident, IncidentState},
    view::{CellState, VantageState, View},
};
use parallax_model::{EventTime, Micros};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    content::NotificationContent,
    notification::{
        DeliveredState, DueMessage, Notification, NotificationEnding, NotificationPhase, ReceiverMode,
    },
};

/// Maximum number of notifications. An incident is one cause, so there are rarely more than a handful.
pub(super) const MOST: usize = 150;
/// Maximum size as JSON, in bytes: the API server limits a `ConfigMap` to 1 MiB.
pub(super) const BYTES: usize = 768 << 10;
/// How long a notification stays after every receiver got its end: longer than the past that a restarted aggregator
/// replays.
const KEPT: Micros = Micros::from_secs(30 * 60);
/// After a message, changes of cause or severity wait this long, so that a developing fault notifies once.
const SETTLES: Micros = Micros::from_secs(30);
/// How long after the start an incident can still continue a notification of the previous process.
const ADOPTION: Micros = Micros::from_secs(600);

/// Receivers by name.
pub(super) type ReceiverMap = BTreeMap<String, ReceiverMode>;

/// All notifications, by thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Outbox {
    pub(super) letters: BTreeMap<String, Notification>,
}

/// The engine's current view, and what is needed to compare the outbox with it.
pub(super) struct EngineIncidents<'a> {
    pub(super) view: &'a View,
    pub(super) now: EventTime,
    /// When this aggregator started.
    pub(super) start: EventTime,
    /// Whether an incident is acknowledged, silenced or in a maintenance window.
    pub(super) quiet: &'a dyn Fn(&str, &[parallax_model::TargetId]) -> bool,
    /// Renders the content of a notification.
    pub(super) content: &'a dyn Fn(&Incident, IncidentSeverity) -> NotificationContent,
}

/// A message to deliver to one receiver.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Delivery {
    pub(super) letter: Notification,
    pub(super) what: DueMessage,
    /// What was delivered to the receiver before.
    pub(super) heard: Option<DeliveredState>,
}

impl Outbox {
    /// Updates the outbox from the current view. Returns whether the result must be persisted.
    pub(super) fn look(&mut self, seen: &EngineIncidents<'_>) -> bool {
        let mut changed = false;
        for incident in &seen.view.incidents {
            changed |= match incident.state {
                IncidentState::Open | IncidentState::Recovering => self.open(incident, seen),
                IncidentState::Closed { closed } => self.closed(incident, closed, seen),
            };
        }
        changed | self.missing(seen)
    }

    fn by_incident(&mut self, id: &str) -> Option<&mut Notification> {
        self.letters
            .values_mut()
            .find(|letter| letter.content.incident == id)
    }

    fn open(&mut self, incident: &Incident, seen: &EngineIncidents<'_>) -> bool {
        let grade = IncidentSeverity::of(incident, seen.view);
        let quiet = (seen.quiet)(&incident.id, &incident.verdict.targets);
        if self.by_incident(&incident.id).is_none() && !self.continued(incident, seen.view) {
            let letter = Notification {
                thread: incident.id.clone(),
                number: 1,
                changed: seen.now,
                state: NotificationPhase::Open,
                worst: grade,
                quiet,
                reminders: 0,
                content: (seen.content)(incident, grade),
                heard: BTreeMap::new(),
                refused: BTreeMap::new(),
                confirmed: true,
                held: true,
            };
            self.letters.insert(incident.id.clone(), letter);
            return true;
        }
        let Some(letter) = self.by_incident(&incident.id) else {
            return false;
        };
        letter.confirmed = true;
        let again = match letter.state {
            NotificationPhase::Open => false,
            // A restarted aggregator replays past observations: a failure from before the end does not reopen the
            // notification.
            NotificationPhase::Over { at, .. } if incident.since > at => true,
            NotificationPhase::Over { .. } => return false,
        };
        let content = (seen.content)(incident, grade);
        let renamed = content.cause != letter.content.cause || content.region != letter.content.region;
        let occurrence = if again {
            incident.occurrences.max(letter.content.occurrence + 1)
        } else {
            letter.content.occurrence.max(incident.occurrences)
        };
        let mut changed = letter.quiet != quiet || letter.content.grade != grade;
        letter.quiet = quiet;
        let settled = seen.now - letter.changed >= SETTLES;
        if again || settled && (renamed || grade > letter.worst) {
            letter.worst = if again { grade } else { letter.worst.max(grade) };
            letter.number += 1;
            letter.changed = seen.now;
            letter.state = NotificationPhase::Open;
            letter.content = NotificationContent {
                occurrence,
                ..content
            };
            letter.held = true;
            changed = true;
        }
        letter.content.grade = grade;
        changed
    }

    /// Whether an incident continues a notification that the previous process, or another leader, sent under another
    /// id; if so, the notification takes the new id. A notification of the same region is preferred, otherwise one of
    /// the same subject is taken: evidence often renames the region, while two faults of one subject rarely follow
    /// each other unobserved.
    fn continued(&mut self, incident: &Incident, view: &View) -> bool {
        let subject = super::content::subject(&incident.verdict);
        let region = super::content::region(&incident.verdict);
        let stands = |letter: &Notification| {
            let id = &letter.content.incident;
            view.incidents.iter().any(|incident| incident.id == *id)
        };
        let mut alike: Vec<&mut Notification> = self
            .letters
            .values_mut()
            .filter(|letter| !letter.confirmed && letter.is_open() && letter.content.subject == subject)
            .filter(|letter| !stands(letter))
            .collect();
        alike.sort_by_key(|letter| letter.content.region != region);
        let Some(letter) = alike.into_iter().next() else {
            return false;
        };
        letter.content.incident.clone_from(&incident.id);
        true
    }

    fn closed(&mut self, incident: &Incident, at: EventTime, seen: &EngineIncidents<'_>) -> bool {
        let quiet = (seen.quiet)(&incident.id, &incident.verdict.targets);
        match self.by_incident(&incident.id) {
            Some(letter) if letter.is_open() => {
                letter.confirmed = true;
                letter.quiet = quiet;
                letter.end(at, NotificationEnding::Judged, seen.now);
                true
            }
            // It was never worth a message, or its end is recorded already.
            _ => false,
        }
    }

    /// Ends open notifications whose incident is gone.
    fn missing(&mut self, seen: &EngineIncidents<'_>) -> bool {
        let mut changed = false;
        let view = seen.view;
        for letter in self.letters.values_mut().filter(|letter| letter.is_open()) {
            if view
                .incidents
                .iter()
                .any(|incident| incident.id == letter.content.incident)
            {
                continue;
            }
            // An incident of this process is not forgotten while it is open. One of the previous process may be found
            // again within `ADOPTION`. Neither ends while its targets are not observed.
            let may_end = letter.confirmed || seen.now - seen.start >= ADOPTION;
            if may_end && is_well(&letter.content.targets, view) {
                letter.end(seen.now, NotificationEnding::Unseen, seen.now);
                changed = true;
            }
        }
        changed
    }

    /// Forgets notifications whose end every receiver got, then the oldest beyond the limits, closed ones first.
    /// Returns, by receiver, the messages lost with them.
    pub(super) fn tidy(&mut self, receivers: &ReceiverMap, now: EventTime) -> Vec<String> {
        let owed = |letter: &Notification| {
            let all = receivers.iter();
            all.filter(|(name, manner)| letter.owed(name, **manner).is_some())
                .map(|(name, _)| name.clone())
                .collect::<Vec<_>>()
        };
        self.letters.retain(|_, letter| match letter.state {
            NotificationPhase::Over { at, .. } => {
                now < at.plus(KEPT) || now < letter.changed.plus(KEPT) || !owed(letter).is_empty()
            }
            NotificationPhase::Open => true,
        });
        let mut order: Vec<(bool, EventTime, String)> = self
            .letters
            .values()
            .map(|letter| (letter.is_open(), letter.changed, letter.thread.clone()))
            .collect();
        order.sort();
        let mut lost = Vec::new();
        let mut order = order.into_iter();
        while (self.letters.len() > MOST || self.written().len() > BYTES)
            && let Some((_, _, thread)) = order.next()
        {
            lost.extend(self.letters.remove(&thread).iter().flat_map(&owed));
        }
        lost
    }

    /// The JSON that is persisted.
    pub(super) fn written(&self) -> String {
        // Strings, numbers and string keys only: serialization cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Merges the outbox of another writer: what receivers got, and notifications that are unknown here.
    pub(super) fn join(&mut self, other: Self) {
        for (thread, theirs) in other.letters {
            match self.letters.get_mut(&thread) {
                None => drop(self.letters.insert(thread, theirs)),
                Some(ours) => ours.join(theirs),
            }
        }
    }

    /// Returns the message to send to a receiver now: the one that failed least often, then the one due for longest.
    /// `turn` returns how often a notification has failed, or `None` while it is backing off.
    pub(super) fn errand(
        &self,
        receiver: &str,
        manner: ReceiverMode,
        now: EventTime,
        turn: impl Fn(&str) -> Option<u32>,
    ) -> Option<Delivery> {
        let free = self.letters.values().filter(|letter| !letter.held);
        let mut ready: Vec<(u32, &Notification)> = free
            .filter_map(|letter| Some((turn(&letter.thread)?, letter)))
            .collect();
        ready.sort_by_key(|(failures, letter)| (*failures, letter.since(), &letter.thread));
        let ready: Vec<&Notification> = ready.into_iter().map(|(_, letter)| letter).collect();
        let owed = ready
            .iter()
            .find_map(|letter| Some((*letter, letter.owed(receiver, manner)?)));
        let again = || {
            let due = ready.iter().filter_map(|letter| {
                let at = letter.again(receiver, manner)?;
                (at <= now).then_some((at, *letter))
            });
            due.min_by_key(|(at, _)| *at)
                .map(|(_, letter)| (letter, DueMessage::Again))
        };
        let (letter, what) = owed.or_else(again)?;
        Some(Delivery {
            letter: letter.clone(),
            what,
            heard: letter.heard.get(receiver).cloned(),
        })
    }

    /// Returns when the next reminder to a receiver is due.
    pub(super) fn reminder(&self, receiver: &str, manner: ReceiverMode) -> Option<EventTime> {
        self.letters
            .values()
            .filter_map(|letter| letter.again(receiver, manner))
            .min()
    }

    /// Records a delivery. Returns whether the result must be persisted.
    pub(super) fn heard(&mut self, receiver: &str, errand: &Delivery, mark: Value, now: EventTime) -> bool {
        let Some(letter) = self.letters.get_mut(&errand.letter.thread) else {
            return false;
        };
        let over = errand.what == DueMessage::Over;
        let heard = DeliveredState {
            number: errand.letter.number,
            over,
            at: now,
            mark,
        };
        let before = letter.heard.insert(receiver.to_owned(), heard);
        if errand.what == DueMessage::Again {
            letter.reminders = letter.reminders.saturating_add(1);
        }
        let same = |before: &DeliveredState| {
            let heard = &letter.heard[receiver];
            before.number == heard.number && before.over == heard.over && before.mark == heard.mark
        };
        !before.as_ref().is_some_and(same)
    }

    /// Records a permanent rejection.
    pub(super) fn refused(&mut self, receiver: &str, errand: &Delivery) {
        if let Some(letter) = self.letters.get_mut(&errand.letter.thread) {
            letter.refused.insert(receiver.to_owned(), errand.letter.number);
        }
    }

    /// The number of pending notifications of a receiver, and when the oldest became due.
    pub(super) fn pending(&self, receiver: &str, manner: ReceiverMode) -> (usize, Option<EventTime>) {
        let owed = self
            .letters
            .values()
            .filter(|letter| letter.owed(receiver, manner).is_some());
        owed.fold((0, None), |(count, oldest), letter| {
            let oldest = oldest.map_or(letter.since(), |oldest: EventTime| oldest.min(letter.since()));
            (count + 1, Some(oldest))
        })
    }
}

impl Notification {
    fn end(&mut self, at: EventTime, how: NotificationEnding, now: EventTime) {
        self.state = NotificationPhase::Over { at, how };
        self.number += 1;
        self.changed = now;
        self.held = true;
    }

    fn join(&mut self, theirs: Self) {
        for (receiver, heard) in theirs.heard {
            let older = self
                .heard
                .get(&receiver)
                .is_none_or(|own| own.number < heard.number);
            if older {
                self.heard.insert(receiver, heard);
            }
        }
        for (receiver, number) in theirs.refused {
            let own = self.refused.entry(receiver).or_default();
            *own = (*own).max(number);
        }
        self.number = self.number.max(theirs.number);
    }
}

/// Whether the targets of an incident are observed and none fails. Targets that are no longer probed do not count.
fn is_well(targets: &[String], view: &View) -> bool {
    let reporting = view
        .vantages
        .iter()
        .any(|vantage| vantage.state == VantageState::Reporting);
    let rows = view
        .matrix
        .iter()
        .filter(|row| targets.iter().any(|target| target == row.target.as_str()));
    let mut known = rows.map(|row| {
        let seen = row.cells.iter().any(|cell| cell.state != CellState::Unknown);
        seen && row.cells.iter().all(|cell| cell.state != CellState::Failing)
    });
    view.judged.is_some() && reporting && known.all(|well| well)
}
