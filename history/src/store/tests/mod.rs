//! Requirements of every back end, those of SQLite, and that the store never delays the engine task.

mod conformance;
mod crash;
mod measurements;
mod sqlite;
mod worker;

use parallax_diagnosis::verdict::{Incident, IncidentState};
use parallax_fixtures as fixtures;
use parallax_model::{EventTime, Recorded};
use serde_json::json;

use super::{
    stored::{IncidentRow, VerdictRow},
    *,
};

/// A running mesh uses Unix time.
pub(super) const NOW: EventTime = fixtures::NOW;

/// The incident of the fixtures under another id.
pub(super) fn incident(id: &str, state: IncidentState) -> Incident {
    let mut incident = fixtures::outage().incidents.remove(0);
    id.clone_into(&mut incident.id);
    incident.state = state;
    incident
}

pub(super) fn closed(id: &str, at: EventTime) -> Incident {
    incident(id, IncidentState::Closed { closed: at })
}

pub(super) fn with_incidents(incidents: impl IntoIterator<Item = Incident>) -> WriteBatch {
    let mut batch = WriteBatch::default();
    for incident in incidents {
        batch.changes.push_back(VerdictRow {
            incident: incident.id.clone(),
            changed_at: incident.opened,
            verdict: incident.verdict.clone(),
        });
        let row = IncidentRow {
            incident,
            seen_at: NOW,
        };
        batch.incidents.insert(row.incident.id.clone(), row);
    }
    batch
}

pub(super) fn failure(seq: u64, at: EventTime) -> Recorded {
    serde_json::from_value(json!({
        "vantage": "n1/pod", "incarnation": "life-1", "seq": seq, "t_us": at.0,
        "target": "http://a.example.test/", "channel": "vip", "front": "203.0.113.10:80",
        "result": "failed", "phase": "connect", "kind": "refused", "times": {"connect_us": 80, "total_us": 90},
    }))
    .unwrap()
}

pub(super) fn rollup(target: &str, step: RollupStep, start: EventTime, ok: u64) -> (RollupKey, ProbeRollup) {
    let key = RollupKey {
        start: step.start(start),
        step,
        target: target.parse().unwrap(),
        channel: "vip".into(),
        placement: "cross-node".into(),
    };
    let mut rollup = ProbeRollup::default();
    for i in 0..ok {
        rollup.count("ok", Some(parallax_model::Micros(900 + i)));
    }
    rollup.count("refused", None);
    (key, rollup)
}

/// Options of a store in this folder.
pub(super) fn options(folder: &tempfile::TempDir) -> StoreOptions {
    StoreOptions::with_defaults(folder.path().join("history.db"))
}
