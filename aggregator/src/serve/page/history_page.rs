//! Closed incidents, from memory and from the store, and whether they are persisted.

use parallax_diagnosis::{verdict::IncidentState, view::View};
pub(super) use parallax_history::store::{IncidentEnding, IncidentSummary, Status, StoreState};
use parallax_model::EventTime;

use super::{incident::capitalize, wording};
use crate::serve::summary::is_open;

/// Maximum number of incidents listed.
const MAX_LISTED: usize = 100;

#[derive(Debug)]
pub(super) struct PastIncident {
    pub(super) id: String,
    pub(super) sentence: String,
    /// When it ended and how long it lasted, or that its end was missed.
    pub(super) end: String,
}

/// The list, and where it is stored.
#[derive(Debug)]
pub(super) struct HistoryPage {
    pub(super) rows: Vec<PastIncident>,
    pub(super) note: String,
}

impl HistoryPage {
    pub(super) fn new(view: &View, store: &StoreState, now: EventTime) -> Self {
        let in_memory: Vec<IncidentSummary> = view
            .incidents
            .iter()
            .filter(|incident| !is_open(incident))
            .map(|incident| {
                let seen = match incident.state {
                    IncidentState::Closed { closed } => closed,
                    IncidentState::Open | IncidentState::Recovering => view.at,
                };
                IncidentSummary::from_incident(incident, seen)
            })
            .collect();
        let held_ids: Vec<&str> = view
            .incidents
            .iter()
            .map(|incident| incident.id.as_str())
            .collect();
        let mut all: Vec<&IncidentSummary> = in_memory.iter().collect();
        all.extend(
            store
                .history
                .iter()
                .filter(|kept| !held_ids.contains(&kept.id.as_str())),
        );
        let time = |one: &IncidentSummary| one.end.as_ref().map_or(one.seen, |end| end.ended_at);
        all.sort_by(|a, b| time(b).cmp(&time(a)).then_with(|| a.id.cmp(&b.id)));
        all.truncate(MAX_LISTED);
        Self {
            rows: all.into_iter().map(|one| PastIncident::of(one, now)).collect(),
            note: storage_note(store),
        }
    }
}

impl PastIncident {
    fn of(one: &IncidentSummary, now: EventTime) -> Self {
        let end = match &one.end {
            Some(end) => {
                let (at, lasted) = (
                    wording::format_time(end.ended_at, now),
                    (end.ended_at - one.since).humanize(),
                );
                match &end.ending {
                    IncidentEnding::Judged => format!("closed {at}, after {lasted}"),
                    IncidentEnding::Restart => {
                        format!(
                            "last seen {at}, after {lasted}; its end was missed because the aggregator restarted"
                        )
                    }
                    IncidentEnding::Continued { by } => {
                        format!(
                            "last seen {at}, after {lasted}; continued as #{by} after the aggregator restarted"
                        )
                    }
                }
            }
            None => format!(
                "open when the aggregator stopped, last seen {}; not detected again so far",
                wording::format_time(one.seen, now)
            ),
        };
        Self {
            id: one.id.clone(),
            sentence: capitalize(&one.sentence),
            end,
        }
    }
}

fn storage_note(store: &StoreState) -> String {
    match &store.status {
        Status::Off => {
            "History is kept in memory only and lost at a restart. To persist it, set store.path in the configuration."
                .to_owned()
        }
        Status::Opening => format!("Opening the history store {}.", store.location),
        Status::Up => format!(
            "History is stored in {} ({:.1} MiB).",
            store.location,
            mebibytes(store.bytes)
        ),
        Status::Down { .. } => format!(
            "History is not stored at present: {} cannot be used (see above). This list comes from memory.",
            store.location
        ),
    }
}

#[expect(clippy::cast_precision_loss, reason = "one digit of a file's size")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
