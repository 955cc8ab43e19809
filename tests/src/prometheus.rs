//! A Prometheus that scrapes a run's aggregator with the committed rules: which alerts would have fired, and when.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
    net::SocketAddr,
    path::Path,
    time::Duration,
};

use anyhow::{Context, bail};
use parallax_test_support::prometheus::{PrometheusProcess, RULES, rules_file};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout};

use crate::{api_client, lab::tail, run_dir::RunDir, tools};

/// Scrape and evaluation interval; the default of Prometheus is a minute.
pub const INTERVAL: Duration = Duration::from_secs(5);

/// Timeout until Prometheus has scraped the aggregator.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// Delay between two queries.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Every alert that was pending or firing at any time of the run.
const ALERTS_QUERY: &str = "/api/v1/query?query=max_over_time(ALERTS%5B1d%5D)";

/// Labels that do not identify the problem.
const TECHNICAL_LABELS: [&str; 4] = ["alertname", "alertstate", "job", "instance"];

/// A running Prometheus; stopped on drop.
#[derive(Debug)]
pub struct LabPrometheus {
    process: PrometheusProcess,
}

/// Most advanced state that an alert reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AlertState {
    /// Its condition held for less than its `for`.
    Pending,
    /// It fired, and would have notified somebody.
    Firing,
}

/// One alert of the run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LabAlert {
    /// The alert's name.
    pub alert: String,
    /// The state it reached.
    pub stage: AlertState,
    /// Labels that identify the subject.
    pub labels: BTreeMap<String, String>,
}

impl Display for LabAlert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.alert)?;
        for (i, (name, value)) in self.labels.iter().enumerate() {
            f.write_str(if i == 0 { " (" } else { ", " })?;
            write!(f, "{name} {value}")?;
        }
        f.write_str(if self.labels.is_empty() { "" } else { ")" })
    }
}

impl LabPrometheus {
    /// Starts Prometheus in the run's directory and waits until it has scraped the aggregator once.
    pub async fn start(run: &RunDir, aggregator: SocketAddr) -> anyhow::Result<Self> {
        let program = tools::find("prometheus")
            .context("there is no prometheus; install it with: tests/install-tools alerts")?;
        let config = settings(&rules_file(run.path()), aggregator);
        let process = PrometheusProcess::start(program.as_os_str(), run.path(), &config)?;
        let mut alarms = Self { process };
        let start = Instant::now();
        while !alarms.has_scraped().await? {
            if start.elapsed() > START_TIMEOUT {
                bail!(
                    "Prometheus has not scraped the aggregator:\n{}",
                    tail(alarms.process.log())
                );
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(alarms)
    }

    /// Reports whether it has scraped the aggregator; an error if it has exited.
    async fn has_scraped(&mut self) -> anyhow::Result<bool> {
        if let Some(status) = self
            .process
            .exit_status()
            .context("checking whether prometheus still runs")?
        {
            bail!("prometheus exited with {status}:\n{}", tail(self.process.log()));
        }
        // It may not be listening yet.
        let up = self.query("/api/v1/query?query=up%20%3D%3D%201").await;
        Ok(up.is_ok_and(|up| !up.is_empty()))
    }

    async fn query(&self, query: &str) -> anyhow::Result<Vec<QuerySample>> {
        let body = timeout(START_TIMEOUT, api_client::get(self.process.address(), query))
            .await
            .with_context(|| format!("no response from Prometheus within {} s", START_TIMEOUT.as_secs()))??;
        let answer: QueryAnswer =
            serde_json::from_slice(&body).context("parsing a response of Prometheus")?;
        Ok(answer.data.result)
    }

    /// Returns everything that was pending or firing since the start.
    pub async fn seen_alerts(&self) -> anyhow::Result<Vec<LabAlert>> {
        let samples = self
            .query(ALERTS_QUERY)
            .await
            .context("querying Prometheus for its alerts")?;
        parse_alerts(samples)
    }

    /// Waits at most `longest` until an alert of this name fires.
    pub async fn wait_until_firing(&self, alert: &str, longest: Duration) -> anyhow::Result<bool> {
        let start = Instant::now();
        loop {
            let seen = self.seen_alerts().await?;
            if firing(&seen).any(|alarm| alarm.alert == alert) {
                return Ok(true);
            }
            if start.elapsed() >= longest {
                return Ok(false);
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Stops it.
    pub async fn stop(self) {
        self.process.stop().await;
    }
}

/// Returns the names of the shipped alerts.
pub fn alert_names() -> impl Iterator<Item = &'static str> {
    RULES
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
}

/// Returns the alerts that fired.
pub fn firing(seen: &[LabAlert]) -> impl Iterator<Item = &LabAlert> {
    seen.iter().filter(|alarm| alarm.stage == AlertState::Firing)
}

fn settings(rules: &Path, aggregator: SocketAddr) -> String {
    let every = format!("{}s", INTERVAL.as_secs());
    format!(
        "global: {{scrape_interval: {every}, scrape_timeout: {every}, evaluation_interval: {every}}}\n\
         rule_files: [\"{}\"]\n\
         scrape_configs:\n\
         - {{job_name: parallax/parallax-aggregator, static_configs: [{{targets: [\"{aggregator}\"]}}]}}\n",
        rules.display()
    )
}

/// The part of a query response that is needed.
#[derive(Debug, Deserialize)]
struct QueryAnswer {
    data: QueryData,
}

#[derive(Debug, Deserialize)]
struct QueryData {
    result: Vec<QuerySample>,
}

#[derive(Debug, Deserialize)]
struct QuerySample {
    metric: BTreeMap<String, String>,
}

/// Parses the alerts of a response; an alert that was pending and then fired is returned once.
fn parse_alerts(samples: Vec<QuerySample>) -> anyhow::Result<Vec<LabAlert>> {
    let mut furthest: BTreeMap<(String, BTreeMap<String, String>), AlertState> = BTreeMap::new();
    for QuerySample { metric } in samples {
        let stage = match metric.get("alertstate").map(String::as_str) {
            Some("firing") => AlertState::Firing,
            Some("pending") => AlertState::Pending,
            other => bail!("unexpected alert state of Prometheus: {other:?}"),
        };
        let alert = metric.get("alertname").cloned().unwrap_or_default();
        let labels = metric
            .into_iter()
            .filter(|(name, _)| !TECHNICAL_LABELS.contains(&name.as_str()))
            .collect();
        let known = furthest.entry((alert, labels)).or_insert(stage);
        *known = stage.max(*known);
    }
    Ok(furthest
        .into_iter()
        .map(|((alert, labels), stage)| LabAlert { alert, stage, labels })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_that_was_pending_and_then_fired_is_listed_once_as_firing_with_its_subject() {
        let answer = r#"{"status": "success", "data": {"resultType": "vector", "result": [
            {"metric": {"alertname": "ParallaxVantageSilent", "alertstate": "pending", "job": "j", "vantage": "n3/pod"}, "value": [1, "1"]},
            {"metric": {"alertname": "ParallaxVantageSilent", "alertstate": "firing", "job": "j", "vantage": "n3/pod"}, "value": [1, "1"]},
            {"metric": {"alertname": "ParallaxHazard", "alertstate": "pending"}, "value": [1, "1"]}
        ]}}"#;
        let answer: QueryAnswer = serde_json::from_str(answer).unwrap();
        let seen = parse_alerts(answer.data.result).unwrap();
        let alerts: Vec<_> = seen
            .iter()
            .map(|alarm| (alarm.to_string(), alarm.stage))
            .collect();
        assert_eq!(
            alerts,
            [
                ("ParallaxHazard".to_owned(), AlertState::Pending),
                (
                    "ParallaxVantageSilent (vantage n3/pod)".to_owned(),
                    AlertState::Firing
                ),
            ]
        );
        assert_eq!(firing(&seen).count(), 1);
    }

    #[test]
    fn the_alerts_are_those_of_the_shipped_rules() {
        let names: Vec<_> = alert_names().collect();
        assert!(names.contains(&"ParallaxIncident"), "{names:?}");
        assert!(names.iter().all(|name| name.starts_with("Parallax")), "{names:?}");
    }
}
