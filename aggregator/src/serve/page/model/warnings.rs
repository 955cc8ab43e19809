//! Warnings at the top of the start page.

use parallax_api::notifications::{ReceiverState, ReceiverStatusList};
use parallax_diagnosis::view::View;
use parallax_history::store::{Status, StoreState};
use parallax_kubernetes::{replicas::ReplicaView, topology_state::TopologyState};
use parallax_model::{EventTime, Micros};

use super::OverviewPage;
use crate::serve::{page::wording, summary::stale_for};

/// How long the page reports that a corrupt store was moved aside.
const NOTICE_PERIOD: Micros = Micros::from_secs(24 * 3_600);

#[derive(Debug)]
pub(super) struct PageWarning {
    pub(super) title: String,
    pub(super) lines: Vec<String>,
}

impl OverviewPage {
    /// Adds a warning for each receiver whose deliveries fail.
    pub(in crate::serve::page) fn with_notifications(
        mut self,
        status: &ReceiverStatusList,
        now: EventTime,
    ) -> Self {
        for receiver in &status.receivers {
            if let ReceiverState::Failing { since, reason } = &receiver.state {
                let pending = receiver.pending;
                self.warnings.push(PageWarning {
                    title: format!(
                        "Notifications to {} have failed for {}; pending: {}",
                        receiver.name,
                        (now - *since).humanize(),
                        wording::format_count(pending, "incident")
                    ),
                    lines: vec![reason.clone()],
                });
            }
        }
        if let (false, Some(not_persisted)) = (status.receivers.is_empty(), &status.not_persisted_because) {
            self.warnings.push(PageWarning {
                title: "Pending notifications are kept in memory only".to_owned(),
                lines: vec![not_persisted.clone()],
            });
        }
        self
    }

    /// Adds warnings if this replica is warming up or on standby; none for a single aggregator.
    pub(in crate::serve::page) fn with_replica(mut self, replica: &ReplicaView, now: EventTime) -> Self {
        let Some(name) = &replica.name else { return self };
        if let Some(until) = replica.warming_until {
            let title = format!("{name} is warming up for another {}", (until - now).humanize());
            let line = "It started recently and does not yet judge failures that only few probes see. It is requesting earlier observations from the probers.";
            self.warnings.insert(
                0,
                PageWarning {
                    title,
                    lines: vec![line.to_owned()],
                },
            );
        }
        if replica.role == "stands_by" {
            let title = match &replica.leader {
                Some(leader) => format!("{name} is on standby; the leader {leader} does not respond"),
                None => format!("{name} is on standby; there is no leader at present"),
            };
            let line = "This page shows what this aggregator observes and diagnoses on its own. Runs and actions on incidents require the leader.";
            self.warnings.insert(
                0,
                PageWarning {
                    title,
                    lines: vec![line.to_owned()],
                },
            );
        }
        self
    }
}

pub(super) fn warnings(
    view: &View,
    topology: &TopologyState,
    store: &StoreState,
    now: EventTime,
) -> Vec<PageWarning> {
    let mut warnings = Vec::new();
    if let Some(error) = &topology.error {
        warnings.push(PageWarning {
            title: format!(
                "Reading the topology has failed for {}; this page uses the last known topology",
                (now - error.since).humanize()
            ),
            lines: error.message.lines().map(ToOwned::to_owned).collect(),
        });
    }
    if let Some(age) = stale_for(view, now) {
        warnings.push(PageWarning {
            title: format!("The diagnosis has not advanced for {}", age.humanize()),
            lines: vec!["This page shows the last known state, not the present one.".to_owned()],
        });
    }
    if let Status::Down { since, reason } = &store.status {
        warnings.push(PageWarning {
            title: format!(
                "History has not been stored for {}; probing and diagnosis continue",
                (now - *since).humanize()
            ),
            lines: vec![reason.clone()],
        });
    }
    let recent = |(at, _): &&(EventTime, String)| now - *at < NOTICE_PERIOD;
    warnings.extend(store.notices.iter().filter(recent).map(|(at, text)| PageWarning {
        title: format!(
            "A new history store was started at {}",
            wording::format_time(*at, now)
        ),
        lines: vec![text.clone()],
    }));
    warnings
}
