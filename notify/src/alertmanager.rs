//! Alerts pushed to an Alertmanager: firing alerts are pushed again at an interval, others are resolved.
//!
//! The labels are those of the alert rule `ParallaxIncident`, so that routes and inhibition rules apply to both
//! sources.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use jiff::{Timestamp, ToSpan as _};
use parallax_model::EventTime;
use reqwest::Client;
use serde_json::{Value, json};
use url::Url;

use super::{
    AlertmanagerOptions,
    http::{self, DeliveryOutcome},
    notification::{DueMessage, NotificationPhase},
    outbox::Delivery,
    webhook::format_time,
};

/// Number of consecutive pushes that may be lost before Alertmanager resolves a firing alert.
const MAX_LOST_PUSHES: u32 = 4;

type AlertLabels = BTreeMap<String, String>;

/// Pushes alerts to one Alertmanager.
#[derive(Debug)]
pub(super) struct AlertmanagerClient {
    options: AlertmanagerOptions,
    alerts_url: Url,
    http: Client,
}

impl AlertmanagerClient {
    pub(super) fn new(options: AlertmanagerOptions) -> Result<Self, String> {
        let http = http::build_client(options.ca_file.as_deref())?;
        let mut push = options.url.clone();
        push.path_segments_mut()
            .map_err(|()| "expected an address like http://alertmanager:9093/".to_owned())?
            .pop_if_empty()
            .extend(["api", "v2", "alerts"]);
        Ok(Self {
            options,
            alerts_url: push,
            http,
        })
    }

    pub(super) const fn resend(&self) -> Duration {
        self.options.resend_interval
    }

    pub(super) async fn send(&self, delivery: &Delivery) -> DeliveryOutcome {
        let labels = self.labels(delivery);
        let fires = delivery.message != DueMessage::Recovered;
        let before: Option<AlertLabels> = delivery
            .previous
            .as_ref()
            .filter(|delivered| !delivered.recovered)
            .and_then(|delivered| serde_json::from_value(delivered.transport_state.clone()).ok());
        let mut alerts = Vec::new();
        // Changed labels are another alert; the previous one would fire until it times out.
        if let Some(before) = before.filter(|before| !fires || *before != labels) {
            alerts.push(self.alert_json(delivery, &before, false));
        }
        if fires {
            alerts.push(self.alert_json(delivery, &labels, true));
        } else if alerts.is_empty() {
            alerts.push(self.alert_json(delivery, &labels, false));
        }
        match self.push(&Value::from(alerts)).await {
            DeliveryOutcome::Delivered(_) => DeliveryOutcome::Delivered(json!(labels)),
            other => other,
        }
    }

    /// Pushes an alert that is marked as a test and resolves by itself.
    pub(super) async fn send_test(&self) -> DeliveryOutcome {
        let mut labels = self.options.labels.clone();
        labels.extend([
            ("alertname".to_owned(), "ParallaxNotificationTest".to_owned()),
            ("job".to_owned(), self.options.job.clone()),
            ("severity".to_owned(), "none".to_owned()),
        ]);
        let now = Timestamp::now();
        let end = now.checked_add(1.minute()).unwrap_or(now);
        let annotations = json!({"summary": "test alert from `parallax notify test`", "description": "Nothing is wrong. The alert resolves by itself within a minute."});
        let alert = json!([{"labels": labels, "annotations": annotations, "startsAt": now.to_string(), "endsAt": end.to_string()}]);
        self.push(&alert).await
    }

    async fn push(&self, alerts: &Value) -> DeliveryOutcome {
        let request = self.http.post(self.alerts_url.clone()).json(alerts);
        let request = match self.options.token_file.as_deref().map(http::read_trimmed) {
            None => request,
            Some(Ok(token)) => request.bearer_auth(token),
            Some(Err(reason)) => return DeliveryOutcome::retry(reason),
        };
        http::send(request).await
    }

    fn labels(&self, delivery: &Delivery) -> AlertLabels {
        let content = &delivery.notification.content;
        let mut labels = self.options.labels.clone();
        labels.extend([
            ("alertname".to_owned(), "ParallaxIncident".to_owned()),
            ("job".to_owned(), self.options.job.clone()),
            ("incident".to_owned(), content.incident.clone()),
            ("cause".to_owned(), content.cause.clone()),
            ("severity".to_owned(), content.severity.label().to_owned()),
            ("subject".to_owned(), content.subject.clone()),
        ]);
        labels
    }

    fn alert_json(&self, delivery: &Delivery, labels: &AlertLabels, firing: bool) -> Value {
        let notification = &delivery.notification;
        let content = &notification.content;
        let now = Timestamp::now();
        let end = if firing {
            // An explicit end, so that `resolve_timeout` of the Alertmanager cannot resolve the alert between two
            // pushes.
            let ahead = self.options.resend_interval * MAX_LOST_PUSHES;
            now.checked_add(ahead).unwrap_or(now).to_string()
        } else {
            let at = match notification.phase {
                NotificationPhase::Ended { at, .. } => at,
                NotificationPhase::Open => notification.changed_at,
            };
            let wall = EventTime(now.as_microsecond());
            format_time(at.max(content.opened).min(wall.max(content.opened)))
        };
        let mut annotations = json!({
            "summary": content.headline,
            "description": content.sentence,
            "targets": format_targets(&content.targets, content.targets_total),
            "runbook": "docs/runbooks/ParallaxIncident.md",
        });
        if !content.consequences.is_empty() {
            annotations["consequences"] = content.consequences.join("\n").into();
        }
        if let Some(remedy) = &content.remedy {
            annotations["remedy"] = remedy.action.as_str().into();
            if let Some(command) = &remedy.command {
                annotations["command"] = command.as_str().into();
            }
        }
        if let Some(dashboard) = &content.dashboard {
            annotations["dashboard"] = dashboard.as_str().into();
        }
        let mut alert = json!({"labels": labels, "annotations": annotations, "startsAt": format_time(content.opened), "endsAt": end});
        if let Some(page) = &content.page {
            alert["generatorURL"] = page.as_str().into();
        }
        alert
    }
}

/// Formats the listed targets and the number of the others.
pub(super) fn format_targets(named: &[String], total: usize) -> String {
    let mut text = named.join(", ");
    let more = total.saturating_sub(named.len());
    if more > 0 {
        // Writing to a string cannot fail.
        let _ = write!(text, " and {more} more");
    }
    text
}
