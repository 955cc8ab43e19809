//! What people did about an incident, and the buttons to do it.

use parallax_api::{
    incident_actions::{Acknowledgement, IncidentActions},
    runs::RunOutcome,
};
use parallax_model::{EventTime, Micros};

use super::wording;

/// No run takes longer: one without an outcome after that was made by a former leader, or has been forgotten.
const FORGOTTEN: Micros = Micros::from_secs(300);

#[derive(Debug)]
pub(super) struct ActionsSection {
    pub(super) id: String,
    /// What was done, oldest sort first, each in a sentence.
    pub(super) done: Vec<String>,
    /// Proves that a form is of this page; none where a browser cannot show who it is.
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
                    "a run repeated the probes that decided; what it came to is not known here any more"
                }
                None => "a run repeats the probes that decided",
                Some(RunOutcome::Passed) => {
                    "a run of the probes that decided passed; the incident closes as soon as the mesh's own probes agree"
                }
                Some(RunOutcome::Failed) => "a run of the probes that decided failed: it is not fixed",
                Some(RunOutcome::Unknown) => "a run of the probes that decided could not tell",
            };
            done.push(format!(
                "{} (run {})",
                said(what, &verified.mark, now),
                verified.run
            ));
        }
        if !done.is_empty() && !handling.persisted {
            done.push("this is kept in memory only, and forgotten at a restart".to_owned());
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
