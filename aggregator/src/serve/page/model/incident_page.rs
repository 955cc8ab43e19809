//! The page of one incident.

use askama::Template;
use parallax_api::links::ExternalLinks;
use parallax_diagnosis::{verdict::Incident, view::View};
use parallax_model::TargetId;

use crate::serve::page::{actions::ActionsSection, incident::IncidentCard};

/// Page of one incident.
#[derive(Debug, Template)]
#[template(path = "one.html")]
pub(in crate::serve::page) struct IncidentPage {
    pub(in crate::serve::page) card: Option<IncidentCard>,
    pub(in crate::serve::page) actions: Option<ActionsSection>,
    /// Affected targets.
    pub(in crate::serve::page) targets: Vec<TargetId>,
    pub(super) id: String,
    /// Why there is no such incident.
    missing_because: String,
}

impl IncidentPage {
    pub(in crate::serve::page) fn of(incident: &Incident, view: &View) -> Self {
        Self {
            card: Some(IncidentCard::of(incident, view)),
            actions: None,
            targets: incident.verdict.targets.clone(),
            id: incident.id.clone(),
            missing_because: String::new(),
        }
    }

    /// Adds links to its dashboards.
    pub(in crate::serve::page) fn with_links(mut self, incident: &Incident, links: &ExternalLinks) -> Self {
        if let Some(card) = &mut self.card {
            card.add_dashboards(incident, links);
        }
        self
    }

    pub(in crate::serve::page) fn missing(id: &str, reason: String) -> Self {
        Self {
            card: None,
            actions: None,
            targets: Vec::new(),
            id: id.to_owned(),
            missing_because: reason,
        }
    }
}
