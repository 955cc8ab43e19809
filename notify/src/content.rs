//! The content of a notification, bounded in size and the same for every receiver.

use parallax_api::links::ExternalLinks;
use parallax_diagnosis::{
    topology::Topology,
    verdict::{Incident, Verdict},
};
use parallax_kubernetes::topology_state::TargetPublishers;
use parallax_model::EventTime;
use serde::{Deserialize, Serialize};

use super::objects::{self, ObjectReference};

/// Maximum number of targets by name; the others are counted.
pub(super) const MAX_TARGETS: usize = 10;
/// Maximum length in bytes of a name, a command and a sentence.
const MAX_NAME_BYTES: usize = 200;
const MAX_COMMAND_BYTES: usize = 400;
const MAX_SENTENCE_BYTES: usize = 700;

/// The content of a notification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct NotificationContent {
    /// The incident's current id in page and API.
    pub(super) incident: String,
    /// How many times it has occurred.
    pub(super) occurrence: u32,
    /// The likeliest cause, as in the metric label.
    pub(super) cause: String,
    /// The cause in a few words.
    pub(super) title: String,
    pub(super) subject: String,
    /// Region and members.
    pub(super) region: String,
    /// The cause and the place, in at most 20 words.
    #[serde(default)]
    pub(super) headline: String,
    pub(super) sentence: String,
    /// As printed.
    pub(super) probability: String,
    pub(super) since: EventTime,
    pub(super) opened: EventTime,
    /// The current severity.
    pub(super) severity: parallax_api::severity::IncidentSeverity,
    pub(super) targets: Vec<String>,
    pub(super) targets_total: usize,
    /// What follows from the cause beside failures of targets, such as vantages that it silences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) consequences: Vec<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) consequences_total: usize,
    /// The first remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<NotificationRemedy>,
    /// Kubernetes objects that it affects.
    #[serde(default)]
    pub(super) objects: Vec<ObjectReference>,
    #[serde(default)]
    pub(super) objects_total: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) page: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dashboard: Option<String>,
}

/// A remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NotificationRemedy {
    pub(super) action: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<String>,
    pub(super) trade_off: String,
}

impl NotificationContent {
    pub(super) fn from_incident(
        incident: &Incident,
        severity: parallax_api::severity::IncidentSeverity,
        (topology, publishers): (&Topology, &TargetPublishers),
        links: &ExternalLinks,
    ) -> Self {
        let verdict = &incident.verdict;
        let (objects, objects_total) = objects::affected_objects(verdict, topology, publishers);
        Self {
            incident: incident.id.clone(),
            occurrence: incident.occurrences,
            cause: cause_id(verdict),
            title: truncate(&verdict.title(), MAX_NAME_BYTES),
            subject: subject_text(verdict),
            region: region_text(verdict),
            headline: truncate(&verdict.headline(), MAX_SENTENCE_BYTES),
            sentence: truncate(&verdict.sentence, MAX_SENTENCE_BYTES),
            probability: verdict.probability.to_string(),
            since: incident.since,
            opened: incident.opened,
            severity,
            targets: verdict
                .targets
                .iter()
                .take(MAX_TARGETS)
                .map(|target| truncate(target.as_str(), MAX_NAME_BYTES))
                .collect(),
            targets_total: verdict.targets.len(),
            consequences: incident
                .consequences
                .iter()
                .take(MAX_TARGETS)
                .map(|consequence| truncate(&consequence.to_string(), MAX_SENTENCE_BYTES))
                .collect(),
            consequences_total: incident.consequences.len(),
            remedy: verdict.remedies.first().map(|remedy| NotificationRemedy {
                action: truncate(&remedy.action, MAX_COMMAND_BYTES),
                command: remedy
                    .command
                    .as_deref()
                    .map(|command| truncate(command, MAX_COMMAND_BYTES)),
                trade_off: truncate(&remedy.trade_off, MAX_COMMAND_BYTES),
            }),
            objects,
            objects_total,
            page: links.incident_url(&incident.id),
            dashboard: links.dashboards(incident).into_iter().next().map(|link| link.url),
        }
    }
}

impl NotificationContent {
    /// Counts what belongs to the incident.
    pub(super) const fn member_count(&self) -> usize {
        self.targets_total + self.consequences_total
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The verdict's subject as text.
pub(super) fn subject_text(verdict: &Verdict) -> String {
    truncate(&verdict.subject.to_string(), MAX_NAME_BYTES)
}

/// The verdict's region and members as text.
pub(super) fn region_text(verdict: &Verdict) -> String {
    truncate(&verdict.region.to_string(), MAX_NAME_BYTES)
}

/// The id of the likeliest cause, or the region if the catalogue has no cause for it, as in the metrics.
fn cause_id(verdict: &Verdict) -> String {
    verdict
        .causes
        .first()
        .map_or_else(|| verdict.region.region.clone(), |cause| cause.id.clone())
}

/// The longest prefix within `bytes`, with control characters replaced.
pub(super) fn truncate(text: &str, bytes: usize) -> String {
    let clean: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if clean.len() <= bytes {
        return clean;
    }
    let end = clean.floor_char_boundary(bytes.saturating_sub('…'.len_utf8()));
    format!("{}…", &clean[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_truncated_between_characters_and_says_so() {
        assert_eq!(truncate("short\nand plain", 20), "short and plain");
        let cut = truncate(&"ä".repeat(50), 20);
        assert!(cut.len() <= 20 && cut.ends_with('…'), "{cut}");
    }
}
