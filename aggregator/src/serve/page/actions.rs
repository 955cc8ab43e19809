//! User actions on an incident, and the buttons for them.

use parallax_api::{
    incident_actions::{Acknowledgement, IncidentActions},
    runs::RunOutcome,
};
use parallax_model::{EventTime, Micros};

use super::wording;

/// No run takes longer: a run without an outcome after this time belongs to a former leader or has been evicted.
const OUTCOME_TIMEOUT: Micros = Micros::from_secs(300);

#[derive(Debug)]
pub(super) struct ActionsSection {
    pub(super) id: String,
    /// Actions taken, one sentence each.
    pub(super) entries: Vec<String>,
    /// CSRF token of the forms; `None` if a browser cannot authenticate.
    pub(super) csrf_token: Option<String>,
    pub(super) is_open: bool,
    pub(super) is_silenced: bool,
}

impl ActionsSection {
    pub(super) fn new(
        id: &str,
        handling: Option<IncidentActions>,
        open: bool,
        proof: Option<String>,
        now: EventTime,
    ) -> Self {
        let handling = handling.unwrap_or_default();
        let mut done = Vec::new();
        if let Some(mark) = &handling.acknowledged {
            done.push(action_sentence("acknowledged", mark, now));
        }
        let silenced = handling
            .silenced
            .as_ref()
            .is_some_and(|silence| now < silence.until);
        if let Some(silence) = &handling.silenced {
            let until = wording::format_time(silence.until, now);
            let description = if silenced {
                format!("silenced until {until}")
            } else {
                format!("was silenced until {until}")
            };
            done.push(action_sentence(&description, &silence.author, now));
        }
        if let Some(verified) = &handling.verified {
            let description = match verified.outcome {
                None if now - verified.author.at > OUTCOME_TIMEOUT => {
                    "a run repeated the deciding probes; its outcome is no longer available here"
                }
                None => "a run is repeating the deciding probes",
                Some(RunOutcome::Passed) => {
                    "a run of the deciding probes passed; the incident closes once the mesh's own probes confirm it"
                }
                Some(RunOutcome::Failed) => "a run of the deciding probes failed: the fault is not fixed",
                Some(RunOutcome::Unknown) => "a run of the deciding probes was inconclusive",
            };
            done.push(format!(
                "{} (run {})",
                action_sentence(description, &verified.author, now),
                verified.run
            ));
        }
        if !done.is_empty() && !handling.persisted {
            done.push("kept in memory only and lost if the aggregator restarts".to_owned());
        }
        Self {
            id: id.to_owned(),
            entries: done,
            csrf_token: proof,
            is_open: open,
            is_silenced: silenced,
        }
    }
}

fn action_sentence(description: &str, mark: &Acknowledgement, now: EventTime) -> String {
    let note = mark
        .note
        .as_ref()
        .map_or_else(String::new, |note| format!(": {note}"));
    format!(
        "{description}, by {} at {}{note}",
        mark.by,
        wording::format_time(mark.at, now)
    )
}
