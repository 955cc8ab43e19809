//! Announced maintenance windows: failures within one trigger no notifications.

use parallax_api::incident_actions::MaintenanceWindow;
use parallax_model::EventTime;

use super::wording;

/// Subject that the CSRF token of the maintenance forms is bound to.
pub(in crate::serve) const CSRF_SUBJECT: &str = "maintenance";

#[derive(Debug, Default)]
pub(super) struct MaintenanceSection {
    pub(super) windows: Vec<AnnouncedWindow>,
    /// CSRF token of the forms; `None` if a browser cannot authenticate.
    pub(super) csrf_token: Option<String>,
}

#[derive(Debug)]
pub(super) struct AnnouncedWindow {
    pub(super) id: String,
    pub(super) text: String,
}

impl MaintenanceSection {
    pub(super) fn new(windows: &[MaintenanceWindow], proof: Option<String>, now: EventTime) -> Self {
        let rows = windows.iter().map(|window| {
            let until = wording::format_time(window.until, now);
            let when = if window.from <= now {
                format!("until {until}")
            } else {
                format!("from {} until {until}", wording::format_time(window.from, now))
            };
            let meant = window.targets.as_ref().map_or_else(
                || "all targets".to_owned(),
                |text| format!("targets containing {text:?}"),
            );
            let note = window
                .author
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
                text: format!("{meant} {when}, by {}{note}{lost}", window.author.by),
            }
        });
        Self {
            windows: rows.collect(),
            csrf_token: proof,
        }
    }
}
