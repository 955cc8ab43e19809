//! Everything that was seen, in the order in which it was seen. Times are seconds since the run began.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::AggregatorState;

/// Everything that was seen.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    /// Answers of aggregators, each second.
    pub looks: Vec<StateSample>,
    /// Ends of `parallax status`.
    pub statuses: Vec<StatusLook>,
    /// Alerts that were pending or firing, each second.
    pub alerts: Vec<AlertLook>,
    /// Requests of the control clients.
    pub requests: Vec<Request>,
    /// Memory and CPU of Parallax' pods.
    pub usage: Vec<PodUsage>,
    /// Whether the API server answered.
    pub api_server: Vec<(f64, bool)>,
}

/// What one aggregator answered.
#[derive(Debug, Clone)]
pub struct StateSample {
    /// When.
    pub at: f64,
    /// Its pod.
    pub pod: String,
    /// Its answer, or why there is none.
    pub state: Result<AggregatorState, String>,
}

/// How `parallax status` ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ExitCode(pub Option<i32>);

/// One run of `parallax status`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatusLook {
    /// When it was started.
    pub at: f64,
    /// When it had ended.
    pub until: f64,
    /// Its exit code; none where a signal ended it.
    pub code: ExitCode,
    /// The first line of what it printed.
    pub line: String,
}

/// Alerts at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct AlertLook {
    /// When.
    pub at: f64,
    /// What was pending or firing.
    pub alerts: BTreeSet<Alert>,
}

/// An alert that is pending or fires.
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
    /// When it began.
    pub at: f64,
    /// Milliseconds that it took.
    pub ms: u64,
    /// The client's node.
    pub node: String,
    /// Name of the destination.
    pub to: String,
    /// Why it failed.
    pub error: Option<String>,
}

/// What a pod uses.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PodUsage {
    /// When.
    pub at: f64,
    /// The pod.
    pub pod: String,
    /// Bytes of its working set.
    pub memory: u64,
    /// Billionths of a CPU.
    pub cpu: u64,
}

impl Timeline {
    /// Forgets what was before a time.
    pub fn forget_before(&mut self, time: f64) {
        self.looks.retain(|look| look.at >= time);
        self.statuses.retain(|look| look.at >= time);
        self.requests.retain(|request| request.at >= time);
        self.usage.retain(|usage| usage.at >= time);
        self.api_server.retain(|(at, _)| *at >= time);
        // The last one before still describes the time.
        let kept = self
            .alerts
            .iter()
            .rposition(|look| look.at < time)
            .unwrap_or_default();
        self.alerts.drain(..kept);
    }

    /// The newest answer of each aggregator within the last seconds.
    #[must_use]
    pub fn newest(&self, now: f64, seconds: f64) -> BTreeMap<&str, &AggregatorState> {
        let mut newest = BTreeMap::new();
        for look in self.looks.iter().rev().take_while(|look| look.at > now - seconds) {
            if let Ok(state) = &look.state {
                newest.entry(look.pod.as_str()).or_insert(state);
            }
        }
        newest
    }

    /// Alerts as last seen.
    #[must_use]
    pub fn alerts_now(&self) -> BTreeSet<Alert> {
        self.alerts
            .last()
            .map(|look| look.alerts.clone())
            .unwrap_or_default()
    }
}
