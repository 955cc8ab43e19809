//! Alerts that fired, with their times.

use std::collections::BTreeMap;

use serde::Serialize;

use super::TimeSpan;
use crate::observe::{Alert, AlertSample};

/// An alert that fired.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FiredAlert {
    /// Its name.
    pub name: String,
    /// Its other labels.
    pub labels: BTreeMap<String, String>,
    /// Time spans in which it fired.
    pub spans: Vec<TimeSpan>,
}

/// Returns alerts that fired between two times and not before. A sample describes the time until the next one.
#[must_use]
pub fn fired_alerts(looks: &[AlertSample], from: f64, until: f64) -> Vec<FiredAlert> {
    let mut fired: BTreeMap<(&str, &BTreeMap<String, String>), Vec<TimeSpan>> = BTreeMap::new();
    let ends = looks.iter().skip(1).map(|look| look.at).chain([f64::MAX]);
    let before: Vec<&Alert> = looks
        .iter()
        .rev()
        .find(|look| look.at <= from)
        .map(|look| look.alerts.iter().filter(|alert| alert.firing).collect())
        .unwrap_or_default();
    for (look, end) in looks.iter().zip(ends) {
        if end <= from || look.at >= until {
            continue;
        }
        let span = TimeSpan {
            from: look.at.max(from),
            until: end.min(until),
        };
        for alert in look.alerts.iter().filter(|alert| alert.firing) {
            let spans = fired.entry((&alert.name, &alert.labels)).or_default();
            match spans.last_mut() {
                Some(last) if (last.until - span.from).abs() < f64::EPSILON => last.until = span.until,
                _ => spans.push(span),
            }
        }
    }
    let known = |name: &str, labels: &BTreeMap<String, String>| {
        before
            .iter()
            .any(|alert| alert.name == name && &alert.labels == labels)
    };
    fired
        .into_iter()
        .filter(|((name, labels), _)| !known(name, labels))
        .map(|((name, labels), spans)| FiredAlert {
            name: name.to_owned(),
            labels: labels.clone(),
            spans,
        })
        .collect()
}

impl FiredAlert {
    /// Describes it briefly, without labels that do not identify the problem.
    #[must_use]
    pub fn describe(&self) -> String {
        let plumbing = ["job", "instance", "endpoint", "container", "namespace", "pod"];
        let labels = self
            .labels
            .iter()
            .filter(|(name, _)| !plumbing.contains(&name.as_str()));
        let labels: Vec<String> = labels.map(|(name, value)| format!("{name} {value}")).collect();
        format!("{} ({})", self.name, labels.join(", "))
    }

    /// Returns when it started to fire.
    #[must_use]
    pub fn began(&self) -> f64 {
        self.spans.first().map_or(f64::MAX, |span| span.from)
    }
}

/// Returns gaps between the spans of all of these alerts, from the first one to a given time.
pub(super) fn gaps(fired: &[&FiredAlert], until: f64) -> Vec<TimeSpan> {
    let mut spans: Vec<TimeSpan> = fired
        .iter()
        .flat_map(|fired| fired.spans.iter().copied())
        .collect();
    spans.sort_by(|a, b| a.from.total_cmp(&b.from));
    let mut gaps = Vec::new();
    let Some(first) = spans.first() else {
        return gaps;
    };
    let mut covered = first.until;
    for span in &spans {
        if span.from > covered && covered < until {
            gaps.push(TimeSpan {
                from: covered,
                until: span.from.min(until),
            });
        }
        covered = covered.max(span.until);
    }
    if covered < until {
        gaps.push(TimeSpan { from: covered, until });
    }
    gaps
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn look(at: f64, firing: &[&str]) -> AlertSample {
        let alerts = firing.iter().map(|name| Alert {
            name: (*name).to_owned(),
            firing: true,
            labels: BTreeMap::new(),
        });
        AlertSample {
            at,
            alerts: alerts.collect::<BTreeSet<_>>(),
        }
    }

    #[test]
    fn what_fires_in_consecutive_looks_is_one_span_and_what_fired_before_is_left_out() {
        let looks = [
            look(0.0, &["old"]),
            look(11.0, &["old", "new"]),
            look(12.0, &["old", "new", "other"]),
            look(20.0, &["old"]),
            look(25.0, &["old", "new"]),
        ];
        let fired = fired_alerts(&looks, 10.0, 30.0);
        let names: Vec<&str> = fired.iter().map(|fired| fired.name.as_str()).collect();
        assert_eq!(names, ["new", "other"]);
        let spans = [
            TimeSpan {
                from: 11.0,
                until: 20.0,
            },
            TimeSpan {
                from: 25.0,
                until: 30.0,
            },
        ];
        assert_eq!(fired[0].spans, spans);
        let new: Vec<&FiredAlert> = fired.iter().collect();
        assert_eq!(
            gaps(&new[..1], 30.0),
            [TimeSpan {
                from: 20.0,
                until: 25.0
            }]
        );
        assert_eq!(
            gaps(&new[1..], 30.0),
            [TimeSpan {
                from: 20.0,
                until: 30.0
            }]
        );
        assert!(gaps(&[], 30.0).is_empty());
    }
}
