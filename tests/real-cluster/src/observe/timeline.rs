//! All observations in order. Times are seconds since the run began.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{AggregatorState, VantageSample};

/// All observations.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    /// States of the aggregators, each second.
    pub samples: Vec<StateSample>,
    /// Results of `parallax status`.
    pub statuses: Vec<StatusResult>,
    /// Alerts that were pending or firing, each second.
    pub alerts: Vec<AlertSample>,
    /// Requests of the control clients.
    pub requests: Vec<Request>,
    /// What each vantage has probed, each second.
    pub vantages: Vec<VantageSample>,
    /// Memory and CPU of Parallax's Pods.
    pub usage: Vec<PodUsage>,
    /// Whether the API server responded.
    pub api_server: Vec<(f64, bool)>,
}

/// State of one aggregator.
#[derive(Debug, Clone)]
pub struct StateSample {
    /// The time.
    pub at: f64,
    /// Its pod.
    pub pod: String,
    /// Its state, or the error.
    pub state: Result<AggregatorState, String>,
}

/// Exit code of `parallax status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ExitCode(pub Option<i32>);

/// One run of `parallax status`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatusResult {
    /// Its start.
    pub at: f64,
    /// Its end.
    pub until: f64,
    /// Its exit code; absent if it was killed by a signal.
    pub code: ExitCode,
    /// The first line of its output.
    pub line: String,
}

/// Alerts at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct AlertSample {
    /// The time.
    pub at: f64,
    /// Pending and firing alerts.
    pub alerts: BTreeSet<Alert>,
}

/// A pending or firing alert.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Alert {
    /// Its name.
    pub name: String,
    /// Whether it fires.
    pub firing: bool,
    /// Its other labels.
    pub labels: BTreeMap<String, String>,
}

/// A request of a control client.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Request {
    /// Its start.
    pub at: f64,
    /// Duration in milliseconds.
    pub ms: u64,
    /// The client's node.
    pub node: String,
    /// Name of the destination.
    pub to: String,
    /// The error, if it failed.
    pub error: Option<String>,
}

/// Resource usage of a Pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PodUsage {
    /// The time.
    pub at: f64,
    /// The pod.
    pub pod: String,
    /// Working set in bytes.
    pub memory: u64,
    /// CPU in billionths.
    pub cpu: u64,
}

impl Timeline {
    /// Drops everything before a time.
    pub fn forget_before(&mut self, time: f64) {
        self.samples.retain(|look| look.at >= time);
        self.statuses.retain(|look| look.at >= time);
        self.requests.retain(|request| request.at >= time);
        self.vantages.retain(|look| look.at >= time);
        self.usage.retain(|usage| usage.at >= time);
        self.api_server.retain(|(at, _)| *at >= time);
        // The last one before still describes that time.
        let kept = self
            .alerts
            .iter()
            .rposition(|look| look.at < time)
            .unwrap_or_default();
        self.alerts.drain(..kept);
    }

    /// Returns the newest state of each aggregator within the last seconds.
    #[must_use]
    pub fn newest(&self, now: f64, seconds: f64) -> BTreeMap<&str, &AggregatorState> {
        let mut newest = BTreeMap::new();
        for look in self
            .samples
            .iter()
            .rev()
            .take_while(|look| look.at > now - seconds)
        {
            if let Ok(state) = &look.state {
                newest.entry(look.pod.as_str()).or_insert(state);
            }
        }
        newest
    }

    /// Returns the most recently observed alerts.
    #[must_use]
    pub fn alerts_now(&self) -> BTreeSet<Alert> {
        self.alerts
            .last()
            .map(|look| look.alerts.clone())
            .unwrap_or_default()
    }
}
