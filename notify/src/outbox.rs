//! All letters: what is worth telling of what is seen, what was heard of it, and what is owed. A value without clock or tasks.

use std::collections::BTreeMap;

use parallax_api::severity::Severity;
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
        AlertSeverity, DeliveredState, DueMessage, Notification, NotificationEnding, NotificationPhase,
        ReceiverMode,
    },
};

/// Letters at one time. An incident is one cause, so there are rarely more than a handful.
pub(super) const MOST: usize = 150;
/// Bytes of all of it as written: an object of the API server holds a mebibyte.
pub(super) const BYTES: usize = 768 << 10;
/// How long one that everybody has heard the end of is remembered: longer than an aggregator that starts again is told of.
const KEPT: Micros = Micros::from_secs(30 * 60);
/// For so long after something was worth telling, another cause or a higher severity is no news: a fault that unfolds calls once.
const SETTLES: Micros = Micros::from_secs(30);
/// How long after the start what a former life left open may still be found again.
const ADOPTION: Micros = Micros::from_secs(600);

/// Those that are told, by name.
pub(super) type ReceiverMap = BTreeMap<String, ReceiverMode>;

/// All letters, by thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Outbox {
    pub(super) letters: BTreeMap<String, Notification>,
}

/// What is seen, for the outbox to compare with.
pub(super) struct EngineIncidents<'a> {
    pub(super) view: &'a View,
    pub(super) now: EventTime,
    /// When this aggregator started.
    pub(super) start: EventTime,
    /// Whether somebody has dealt with an incident.
    pub(super) quiet: &'a dyn Fn(&str, &[parallax_model::TargetId]) -> bool,
    /// The words for it.
    pub(super) content: &'a dyn Fn(&Incident, AlertSeverity) -> NotificationContent,
}

/// What is to be done for a receiver.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Delivery {
    pub(super) letter: Notification,
    pub(super) what: DueMessage,
    /// What the receiver has heard before.
    pub(super) heard: Option<DeliveredState>,
}

impl Outbox {
    /// Takes over what is seen now; whether anything is worth keeping.
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
        let grade = grade(incident, seen.view);
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
            // An aggregator that starts again sees the past pass by; what failed before the end is not a new beginning.
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

    /// Whether an incident is what a former life, or another leader, told of under another id; then it goes on as that. What was
    /// named with the same region first, otherwise what was about the same: evidence names a region anew more often than two
    /// troubles of one subject follow each other while nobody looks.
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
            // Its beginning was never worth telling, or its end was told.
            _ => false,
        }
    }

    /// Letters that are open and that no incident stands for.
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
            // What was ours is not forgotten while it is open. What a former life left may be found again for a while; and
            // nobody says that it is over while nobody sees what it was about.
            let may_end = letter.confirmed || seen.now - seen.start >= ADOPTION;
            if may_end && is_well(&letter.content.targets, view) {
                letter.end(seen.now, NotificationEnding::Unseen, seen.now);
                changed = true;
            }
        }
        changed
    }

    /// Forgets what everybody has heard the end of, and what is beyond the bounds: what is over first, the oldest first.
    /// What somebody was still owed of that, by receiver.
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

    /// As the vault keeps it.
    pub(super) fn written(&self) -> String {
        // Strings, numbers and string keys only, which JSON can always write.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Takes over what another writer of the vault knows: what receivers have heard, and letters of which nothing is known here.
    pub(super) fn join(&mut self, other: Self) {
        for (thread, theirs) in other.letters {
            match self.letters.get_mut(&thread) {
                None => drop(self.letters.insert(thread, theirs)),
                Some(ours) => ours.join(theirs),
            }
        }
    }

    /// What a receiver is to be told now: what failed less often first, then what is owed for longest. `turn` says how often a
    /// letter has failed, and nothing of one that rests.
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

    /// When a receiver is to be reminded next.
    pub(super) fn reminder(&self, receiver: &str, manner: ReceiverMode) -> Option<EventTime> {
        self.letters
            .values()
            .filter_map(|letter| letter.again(receiver, manner))
            .min()
    }

    /// A receiver has heard an errand. Whether that is worth keeping.
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

    /// A receiver will never hear it.
    pub(super) fn refused(&mut self, receiver: &str, errand: &Delivery) {
        if let Some(letter) = self.letters.get_mut(&errand.letter.thread) {
            letter.refused.insert(receiver.to_owned(), errand.letter.number);
        }
    }

    /// How many letters a receiver is owed, and since when the longest.
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

fn grade(incident: &Incident, view: &View) -> AlertSeverity {
    match Severity::of(incident, view) {
        Severity::Critical => AlertSeverity::Critical,
        Severity::Warning => AlertSeverity::Warning,
    }
}

/// Whether what an incident was about is seen and does not fail. What is not probed any more is well.
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
