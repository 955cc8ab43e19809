//! Announced maintenance windows: failures within one trigger no notifications.

use parallax_api::incident_actions::MaintenanceWindow;
use parallax_model::EventTime;

use super::wording;

/// Subject that the CSRF token of the maintenance forms is bound to.
pub(in crate::serve) const FORMS: &str = "maintenance";

#[derive(Debug, Default)]
pub(super) struct MaintenanceSection {
    pub(super) rows: Vec<AnnouncedWindow>,
    /// CSRF token of the forms; `None` if a browser cannot authenticate.
    pub(super) proof: Option<String>,
}

#[derive(Debug)]
pub(super) struct AnnouncedWindow {
    pub(super) id: String,
    pub(super) text: String,
}

impl MaintenanceSection {
    pub(super) fn of(windows: &[MaintenanceWindow], proof: Option<String>, now: EventTime) -> Self {
        let rows = windows.iter().map(|window| {
            let until = wording::clock(window.until, now);
            let when = if window.from <= now {
                format!("until {until}")
            } else {
                format!("from {} until {until}", wording::clock(window.from, now))
            };
            let meant = window.targets.as_ref().map_or_else(
                || "all targets".to_owned(),
                |text| format!("targets containing {text:?}"),
            );
            let note = window
                .mark
                .note
                .as_ref()
                .map_or_else(String::new, |note| format!(": {note}"));
            let lost = if window.persisted {
                ""
            } else {
                " (kept in memory only and lost if the aggregator restarts)"
            };
            AnnouncedWindow {
                id: window.id.clone(),
                text: format!("{meant} {when}, by {}{note}{lost}", window.mark.by),
            }
        });
        Self {
            rows: rows.collect(),
            proof,
        }
    }
}
