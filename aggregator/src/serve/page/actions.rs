//! User actions on an incident, and the buttons for them.

use parallax_api::{
    incident_actions::{Acknowledgement, IncidentActions},
    runs::RunOutcome,
};
use parallax_model::{EventTime, Micros};

use super::wording;

/// No run takes longer: a run without an outcome after this time belongs to a former leader or has been evicted.
const FORGOTTEN: Micros = Micros::from_secs(300);

#[derive(Debug)]
pub(super) struct ActionsSection {
    pub(super) id: String,
    /// Actions taken, one sentence each.
    pub(super) done: Vec<String>,
    /// CSRF token of the forms; `None` if a browser cannot authenticate.
    pub(super) proof: Option<String>,
    pub(super) open: bool,
    pub(super) silenced: bool,
}

impl ActionsSection {
    pub(super) fn of(
        id: &str,
        handling: Option<IncidentActions>,
        open: bool,
        proof: Option<String>,
        now: EventTime,
    ) -> Self {
        let handling = handling.unwrap_or_default();
        let mut done = Vec::new();
        if let Some(mark) = &handling.acknowledged {
            done.push(said("acknowledged", mark, now));
        }
        let silenced = handling
            .silenced
            .as_ref()
            .is_some_and(|silence| now < silence.until);
        if let Some(silence) = &handling.silenced {
            let until = wording::clock(silence.until, now);
            let what = if silenced {
                format!("silenced until {until}")
            } else {
                format!("was silenced until {until}")
            };
            done.push(said(&what, &silence.mark, now));
        }
        if let Some(verified) = &handling.verified {
            let what = match verified.outcome {
                None if now - verified.mark.at > FORGOTTEN => {
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
                said(what, &verified.mark, now),
                verified.run
            ));
        }
        if !done.is_empty() && !handling.persisted {
            done.push("kept in memory only and lost if the aggregator restarts".to_owned());
        }
        Self {
            id: id.to_owned(),
            done,
            proof,
            open,
            silenced,
        }
    }
}

fn said(what: &str, mark: &Acknowledgement, now: EventTime) -> String {
    let note = mark
        .note
        .as_ref()
        .map_or_else(String::new, |note| format!(": {note}"));
    format!("{what}, by {} at {}{note}", mark.by, wording::clock(mark.at, now))
}
