//! Prober sessions: clock offset, sequence numbers and self-reported state per incarnation.

use std::collections::BTreeMap;

use parallax_model::{EventTime, Incarnation, Micros, ReportHeader, Vantage};
use serde::Serialize;

use super::{offset::ClockOffset, sequence_set::SequenceSet};

/// Maximum number of incarnations per vantage: the current one, and earlier ones whose reports may still be resent.
const MAX_SESSIONS_PER_VANTAGE: usize = 4;

/// One incarnation of a prober.
#[derive(Debug)]
pub(crate) struct ProberSession {
    pub(crate) offset: ClockOffset,
    pub(crate) sequences: SequenceSet,
    last_report: EventTime,
    dropped: u64,
    assignments: Option<u64>,
}

/// One incarnation of a prober in the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ProberView {
    pub(crate) vantage: Vantage,
    pub(crate) incarnation: Incarnation,
    /// When its latest report arrived.
    #[serde(rename = "heard_us")]
    pub(crate) last_report: EventTime,
    /// Event time minus its monotonic clock.
    pub(crate) offset_us: i64,
    /// Delay of its latest report over the minimum delay.
    #[serde(rename = "delay_us")]
    pub(crate) delay: Micros,
    /// Observations that it dropped because its buffer was full.
    pub(crate) dropped: u64,
    /// Number of its assignments, if it reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) assignments: Option<u64>,
}

/// All incarnations by vantage.
#[derive(Debug, Default)]
pub(crate) struct ProberSessions {
    by_vantage: BTreeMap<Vantage, BTreeMap<Incarnation, ProberSession>>,
}

impl ProberSessions {
    /// Returns the session of a report, updated from its header.
    pub(crate) fn update(&mut self, header: &ReportHeader, received: EventTime) -> &mut ProberSession {
        let sessions = self.by_vantage.entry(header.vantage.clone()).or_default();
        if !sessions.contains_key(&header.incarnation) && sessions.len() >= MAX_SESSIONS_PER_VANTAGE {
            let oldest = sessions
                .iter()
                .min_by_key(|(_, session)| session.last_report)
                .map(|(name, _)| name.clone());
            if let Some(oldest) = oldest {
                sessions.remove(&oldest);
            }
        }
        let session = sessions
            .entry(header.incarnation.clone())
            .or_insert_with(|| ProberSession {
                offset: ClockOffset::default(),
                sequences: SequenceSet::default(),
                last_report: received,
                dropped: 0,
                assignments: None,
            });
        session.offset.add_sample(header.sent_at, received);
        session.last_report = received;
        session.dropped = header.dropped;
        session.assignments = header.assignments;
        session
    }

    /// Drops vantages that are no longer in the topology.
    pub(crate) fn retain(&mut self, expected: &[Vantage]) {
        self.by_vantage.retain(|vantage, _| expected.contains(vantage));
    }

    /// Returns all incarnations, latest first within a vantage.
    pub(crate) fn views(&self) -> Vec<ProberView> {
        let mut views: Vec<_> = self
            .by_vantage
            .iter()
            .flat_map(|(vantage, sessions)| {
                sessions
                    .iter()
                    .map(move |(incarnation, session)| (vantage, incarnation, session))
            })
            .map(|(vantage, incarnation, session)| ProberView {
                vantage: vantage.clone(),
                incarnation: incarnation.clone(),
                last_report: session.last_report,
                offset_us: session.offset.offset_micros(),
                delay: session.offset.delay(),
                dropped: session.dropped,
                assignments: session.assignments,
            })
            .collect();
        views.sort_by(|a, b| a.vantage.cmp(&b.vantage).then(b.last_report.cmp(&a.last_report)));
        views
    }
}
