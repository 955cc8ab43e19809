//! Pending and firing alerts.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::Value;

use super::{Alert, AlertSample, Clock, Prometheus, Timeline};

/// Queries Prometheus once. While it does not respond, its last response is kept.
pub(super) async fn take(prometheus: &Prometheus, clock: Clock, timeline: &RefCell<Timeline>) {
    let Ok(answer) = prometheus.get("/api/v1/alerts").await else {
        return;
    };
    let alerts = read(&answer);
    let mut timeline = timeline.borrow_mut();
    if timeline.alerts.last().is_none_or(|last| last.alerts != alerts) {
        timeline.alerts.push(AlertSample {
            at: clock.now(),
            alerts,
        });
    }
}

fn read(answer: &Value) -> BTreeSet<Alert> {
    let alerts = answer["data"]["alerts"].as_array().into_iter().flatten();
    alerts
        .filter_map(|alert| {
            let labels = alert["labels"].as_object()?;
            let mut labels: BTreeMap<String, String> = labels
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect();
            Some(Alert {
                name: labels.remove("alertname")?,
                firing: alert["state"] == "firing",
                labels,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn alerts_are_read_with_their_labels() {
        let answer = json!({"data": {"alerts": [
            {"labels": {"alertname": "ParallaxIncident", "incident": "0a"}, "state": "firing"},
            {"labels": {"alertname": "ParallaxHazard"}, "state": "pending"},
        ]}});
        let alerts = read(&answer);
        assert_eq!(alerts.len(), 2);
        let incident = alerts
            .iter()
            .find(|alert| alert.name == "ParallaxIncident")
            .unwrap();
        assert!(incident.firing);
        assert_eq!(incident.labels["incident"], "0a");
    }
}
