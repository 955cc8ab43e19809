//! Alerts of Prometheus during the run, compared with what should have fired.

use std::time::Duration;

use anyhow::Context;
use tokio::time::Instant;

use super::{IncidentRun, Report, report::rounded};
use crate::{
    incident::{Incident, Outcome},
    prometheus::{INTERVAL, LabAlert, LabPrometheus, firing},
};

/// The alert of a named cause; it has no `for`.
const INCIDENT_ALERT: &str = "ParallaxIncident";

/// Timeout from a verdict to its alert: one scrape and one evaluation, doubled for a busy machine.
const ALERT_TIMEOUT: Duration = Duration::from_secs(4 * INTERVAL.as_secs());

impl IncidentRun {
    /// Adds the pending and firing alerts to the report. In a quiet incident no alert must fire; a named cause must
    /// fire one.
    pub(super) async fn report_alerts(&self, incident: &Incident, report: &mut Report) -> anyhow::Result<()> {
        let Some(alarms) = &self.alarms else {
            return Ok(());
        };
        let problem = match &incident.expected.outcome {
            Outcome::Quiet { .. } => {
                let seen = alarms.seen_alerts().await?;
                let problem = unexpected_alerts(&incident.expected.alerts, &seen);
                report.alarms = Some(seen);
                problem
            }
            Outcome::Verdict(_) if report.ok => self.called(alarms, report).await?,
            _ => {
                report.alarms = Some(alarms.seen_alerts().await?);
                None
            }
        };
        if let (true, Some(problem)) = (report.ok, problem) {
            report.ok = false;
            report.problem = Some(problem);
        }
        Ok(())
    }

    async fn called(&self, alarms: &LabPrometheus, report: &mut Report) -> anyhow::Result<Option<String>> {
        let named = Instant::now();
        let called = alarms.wait_until_firing(INCIDENT_ALERT, ALERT_TIMEOUT).await?;
        report.seconds_to_alert = called.then(|| rounded(named.elapsed()));
        report.alarms = Some(alarms.seen_alerts().await?);
        Ok((!called).then(|| {
            format!(
                "{INCIDENT_ALERT} does not fire within {} s of the verdict",
                ALERT_TIMEOUT.as_secs()
            )
        }))
    }

    pub(super) async fn watch_alarms(&mut self) -> anyhow::Result<()> {
        let run = self.lab.as_ref().context("the lab is not running")?.run();
        let alarms = LabPrometheus::start(run, self.aggregator()?.address()).await?;
        self.alarms = Some(alarms);
        Ok(())
    }
}

/// Returns alerts that fired although nothing is wrong, except those that the file allows.
fn unexpected_alerts(right: &[String], seen: &[LabAlert]) -> Option<String> {
    let called: Vec<_> = firing(seen)
        .filter(|alarm| !right.contains(&alarm.alert))
        .map(LabAlert::to_string)
        .collect();
    (!called.is_empty()).then(|| format!("unexpected alerts fired: {}", called.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prometheus::AlertState;

    #[test]
    fn only_what_fires_and_is_not_said_to_be_right_was_uncalled_for() {
        let alarm = |alert: &str, stage| LabAlert {
            alert: alert.to_owned(),
            stage,
            labels: [("vantage".to_owned(), "n1/pod".to_owned())].into(),
        };
        let right = ["ParallaxTopologyStale".to_owned()];
        let pending = alarm("ParallaxVantageSilent", AlertState::Pending);
        let expected = alarm("ParallaxTopologyStale", AlertState::Firing);
        assert_eq!(
            unexpected_alerts(&right, &[pending.clone(), expected.clone()]),
            None
        );
        let wrong = alarm("ParallaxVantageSilent", AlertState::Firing);
        assert_eq!(
            unexpected_alerts(&right, &[expected, wrong]).unwrap(),
            "unexpected alerts fired: ParallaxVantageSilent (vantage n1/pod)"
        );
    }
}
