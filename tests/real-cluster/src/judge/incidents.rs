//! History of each incident across all aggregators.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::Serialize;

use crate::{
    observe::{Incident, StateSample},
    step::IncidentPattern,
};

/// A time span.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TimeSpan {
    /// Its beginning.
    pub from: f64,
    /// Its end, as far as observed.
    pub until: f64,
}

/// One incident over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IncidentHistory {
    /// The incident when it was last open.
    pub incident: Incident,
    /// Time spans in which an aggregator listed it as open or recovering.
    pub open: Vec<TimeSpan>,
    /// Each different cause, region or sentence, with its time.
    #[serde(rename = "said")]
    pub sentences: Vec<(f64, String)>,
    /// Whether it was still open at the last observation.
    pub left_open: bool,
}

/// How long an aggregator's last response counts while it does not respond.
const STALE_AFTER_S: f64 = 3.5;

/// Returns incidents that were open between two times, and not open before.
#[must_use]
pub fn incident_histories(looks: &[StateSample], from: f64, until: f64) -> Vec<IncidentHistory> {
    let mut last: BTreeMap<&str, (f64, BTreeSet<&str>)> = BTreeMap::new();
    let mut before: BTreeSet<&str> = BTreeSet::new();
    let mut stories: BTreeMap<&str, IncidentHistory> = BTreeMap::new();
    for look in looks.iter().filter(|look| look.at < until) {
        let Ok(state) = &look.state else { continue };
        let open: BTreeSet<&str> = state.open().map(|incident| incident.id.as_str()).collect();
        last.insert(&look.pod, (look.at, open));
        last.retain(|_, (at, _)| *at > look.at - STALE_AFTER_S);
        let now: BTreeSet<&str> = last.values().flat_map(|(_, open)| open).copied().collect();
        if look.at < from {
            before = now;
            continue;
        }
        before.retain(|id| now.contains(id));
        for incident in state
            .open()
            .filter(|incident| !before.contains(incident.id.as_str()))
        {
            let story = stories.entry(&incident.id).or_insert_with(|| IncidentHistory {
                incident: incident.clone(),
                open: Vec::new(),
                sentences: Vec::new(),
                left_open: false,
            });
            story.see(look.at, incident);
        }
        for (id, story) in &mut stories {
            story.left_open = now.contains(id);
        }
    }
    let mut stories: Vec<IncidentHistory> = stories.into_values().collect();
    stories.sort_by(|a, b| a.began().total_cmp(&b.began()));
    stories
}

impl IncidentHistory {
    fn see(&mut self, at: f64, incident: &Incident) {
        match self.open.last_mut() {
            Some(span) if at - span.until < STALE_AFTER_S => span.until = at,
            _ => self.open.push(TimeSpan { from: at, until: at }),
        }
        let sentence = format!("{} {}: {}", incident.cause, incident.region, incident.sentence);
        if self.sentences.last().is_none_or(|(_, last)| *last != sentence) && self.sentences.len() < 20 {
            self.sentences.push((at, sentence));
        }
        self.incident = incident.clone();
    }

    /// Returns when it was first open.
    #[must_use]
    pub fn began(&self) -> f64 {
        self.open.first().map_or(f64::MAX, |span| span.from)
    }

    /// Returns when it was last open.
    #[must_use]
    pub fn ended(&self) -> f64 {
        self.open.last().map_or(f64::MIN, |span| span.until)
    }

    /// Reports whether it was open at a time.
    #[must_use]
    pub fn is_open_at(&self, time: f64) -> bool {
        self.open
            .iter()
            .any(|span| span.from <= time && time <= span.until + STALE_AFTER_S)
    }
}

impl fmt::Display for IncidentHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Incident {
            id,
            cause,
            region,
            probability,
            sentence,
            ..
        } = &self.incident;
        write!(f, "{id} {cause} ({region}, {probability:.3}): {sentence}")
    }
}

impl IncidentPattern {
    /// Reports whether an incident matches the pattern.
    #[must_use]
    pub fn matches(&self, incident: &Incident) -> bool {
        let region = incident.region.split(' ').next().unwrap_or_default();
        let whole = format!(
            "{} {} {} {} {}",
            incident.sentence,
            incident.title,
            incident.subject,
            incident.region,
            incident.targets.join(" ")
        );
        let one_of = |wanted: &[String], is: &str| wanted.is_empty() || wanted.iter().any(|word| word == is);
        one_of(&self.cause, &incident.cause)
            && one_of(&self.region, region)
            && self.about.iter().all(|word| whole.contains(word.as_str()))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::observe::AggregatorState;

    pub(in crate::judge) fn incident(id: &str, cause: &str, state: &str) -> Incident {
        Incident {
            id: id.to_owned(),
            cause: cause.to_owned(),
            state: state.to_owned(),
            region: "pair n1 → n2".to_owned(),
            sentence: format!("{cause} between n1 and n2"),
            ..Incident::default()
        }
    }

    pub(in crate::judge) fn look(at: f64, pod: &str, incidents: &[Incident]) -> StateSample {
        StateSample {
            at,
            pod: pod.to_owned(),
            state: Ok(AggregatorState {
                incidents: incidents.to_vec(),
                reporting: vec!["n1/pod".to_owned()],
                ..AggregatorState::default()
            }),
        }
    }

    #[test]
    fn an_incident_is_open_while_any_aggregator_says_so_and_what_was_open_before_is_left_out() {
        let old = incident("old", "F1", "open");
        let new = incident("new", "P7", "open");
        let looks = [
            look(1.0, "a", std::slice::from_ref(&old)),
            look(11.0, "a", &[old.clone(), new.clone()]),
            look(12.0, "b", std::slice::from_ref(&new)),
            look(13.0, "a", std::slice::from_ref(&old)),
            look(14.0, "b", std::slice::from_ref(&new)),
            look(15.0, "b", &[incident("new", "P7", "closed")]),
        ];
        let stories = incident_histories(&looks, 10.0, 100.0);
        assert_eq!(stories.len(), 1);
        let spans = [TimeSpan {
            from: 11.0,
            until: 14.0,
        }];
        assert_eq!(
            (stories[0].open.as_slice(), stories[0].left_open),
            (spans.as_slice(), false)
        );
    }

    #[test]
    fn what_comes_back_has_two_spans_and_what_was_open_before_and_comes_back_is_new() {
        let one = incident("one", "P7", "open");
        let looks = [
            look(1.0, "a", std::slice::from_ref(&one)),
            look(11.0, "a", &[]),
            look(12.0, "a", std::slice::from_ref(&one)),
            look(13.0, "a", &[]),
            look(20.0, "a", std::slice::from_ref(&one)),
        ];
        let stories = incident_histories(&looks, 10.0, 100.0);
        assert_eq!(stories[0].open.len(), 2);
        assert!(stories[0].left_open);
        assert_eq!(stories[0].sentences.len(), 1);
    }

    #[test]
    fn a_pattern_matches_by_cause_region_and_words() {
        let pair = incident("one", "P7", "open");
        let saying = |cause: &str, region: &str, about: &str| IncidentPattern {
            cause: vec![cause.to_owned()],
            region: vec![region.to_owned()],
            about: vec![about.to_owned()],
        };
        assert!(saying("P7", "pair", "n2").matches(&pair));
        assert!(!saying("P1", "pair", "n2").matches(&pair));
        assert!(!saying("P7", "zone", "n2").matches(&pair));
        assert!(!saying("P7", "pair", "n9").matches(&pair));
        assert!(IncidentPattern::default().matches(&pair));
    }
}
