//! Pending Challenges of cert-manager, each with its cause and remedy.

use parallax_api::challenges::WaitingChallenge;
use parallax_model::EventTime;

use super::{
    incident::{Remedy, capitalize},
    wording,
};

#[derive(Debug)]
pub(super) struct ChallengeRow {
    pub(super) object: String,
    pub(super) host: String,
    pub(super) since: String,
    /// Reason reported by cert-manager.
    pub(super) reason: String,
    /// Meaning of the reason, or the result of replaying the Challenge.
    pub(super) sentence: String,
    pub(super) cause: Option<String>,
    pub(super) remedy: Option<Remedy>,
    pub(super) incident: Option<String>,
    pub(super) hint: Option<String>,
    /// Why there is no explanation.
    pub(super) unexplained_because: Option<String>,
}

impl ChallengeRow {
    pub(super) fn of(challenge: &WaitingChallenge, now: EventTime) -> Self {
        let explanation = challenge.explanation.as_ref();
        let sentence = explanation.map_or(&challenge.meaning, |explained| &explained.self_check.sentence);
        let cause = challenge.causes.first().map(|cause| {
            let words = if cause.title.is_empty() {
                cause.id.clone()
            } else {
                format!("{} {}", cause.id, cause.title)
            };
            if cause.diagnosed {
                words
            } else {
                format!("typically {words}")
            }
        });
        let besides = match (explanation, &challenge.not_replayed) {
            (None, None) => Some("The explanation is in progress.".to_owned()),
            (None, Some(reason)) => Some(format!("Not replayed: {reason}.")),
            (Some(_), _) => None,
        };
        Self {
            object: format!("{}/{}", challenge.namespace, challenge.name),
            host: challenge.host.clone(),
            since: wording::format_time(challenge.since, now),
            reason: challenge.reason.clone(),
            sentence: capitalize(sentence),
            cause,
            remedy: explanation
                .and_then(|explained| explained.remedies.first())
                .map(Remedy::of),
            incident: explanation.and_then(|explained| explained.incident.clone()),
            hint: explanation.and_then(|explained| explained.wait_instead_of_self_check.clone()),
            unexplained_because: besides,
        }
    }
}
