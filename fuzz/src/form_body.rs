//! Bodies of the page's forms. The aggregator's decoder is private and depends on nothing else of the aggregator, so its file is
//! included here.

use data_encoding::HEXLOWER;
use url::form_urlencoded::Serializer;

use crate::work::bounded;

#[path = "../../aggregator/src/serve/form_body.rs"]
mod decoder;

use decoder::{FormBody, IncidentAction, MaintenanceAction};

/// Bytes allocated for each byte of a body.
const FACTOR: u64 = 32;

/// Parses the bytes as the body of an incident's form and of one for maintenance.
pub fn check(bytes: &[u8]) {
    let Ok(form) = bounded(bytes, FACTOR, FormBody::parse) else {
        return;
    };
    let tag = form.csrf_tag();
    let incident = form.incident_action();
    let maintenance = form.maintenance_action();
    assert!(
        incident.is_none() || maintenance.is_none(),
        "an action of both forms: {form:?}"
    );
    // What was understood, written as the page writes it, is understood alike.
    let action = match (incident, maintenance) {
        (Some(action), _) => incident_value(action),
        (_, Some(action)) => maintenance_value(action),
        (None, None) => return,
    };
    let token = tag.as_deref().map(|tag| HEXLOWER.encode(tag)).unwrap_or_default();
    let written = Serializer::new(String::new())
        .append_pair("csrf_token", &token)
        .append_pair("action", &action)
        .finish();
    let again = FormBody::parse(written.as_bytes()).expect("a serialized form can be parsed");
    assert_eq!(again.csrf_tag().unwrap_or_default(), tag.unwrap_or_default());
    assert_eq!(again.incident_action(), incident);
    assert_eq!(again.maintenance_action(), maintenance);
}

fn incident_value(action: IncidentAction) -> String {
    match action {
        IncidentAction::Acknowledge => "acknowledge".to_owned(),
        IncidentAction::Silence { seconds } => format!("silence-{seconds}"),
        IncidentAction::Unsilence => "unsilence".to_owned(),
        IncidentAction::Verify => "verify".to_owned(),
    }
}

fn maintenance_value(action: MaintenanceAction<'_>) -> String {
    match action {
        MaintenanceAction::Open { seconds } => format!("open-{seconds}"),
        MaintenanceAction::End { window } => format!("end-{window}"),
    }
}
