//! Records of a step for the reports.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::{
    judge::{Outcome, StepTimes, Verdict},
    observe::{Measurement, PodUsage},
    step::{Installation, Kind, Step},
};

/// A whole run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Version of the API server.
    pub version: String,
    /// The nodes.
    pub nodes: Vec<String>,
    /// Its start, in milliseconds since 1970.
    pub began_unix_ms: u64,
    /// Its duration.
    pub seconds: f64,
    /// All steps, in their order.
    pub records: Vec<StepRecord>,
}

/// One step.
#[derive(Debug, Clone, Serialize)]
pub struct StepRecord {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// What happens and why it matters.
    pub description: String,
    /// Whether it is a fault.
    pub kind: Kind,
    /// The installation.
    pub installation: Installation,
    /// Why Parallax was reinstalled before it.
    pub installed_because: Option<String>,
    /// Times of the step; absent if the event did not happen.
    #[serde(rename = "marks")]
    pub times: Option<StepTimes>,
    /// Executed actions and measured times.
    #[serde(flatten)]
    pub log: ActionLog,
    /// Its verdict.
    pub verdict: Verdict,
    /// Explanation of each incident when it was new.
    pub explained: Vec<ExplainedIncident>,
    /// Screenshots of the page.
    #[serde(skip)]
    pub pictures: Vec<PageScreenshot>,
    /// Resource usage of Parallax's Pods.
    #[serde(rename = "took")]
    pub resources: Vec<PodResources>,
    /// Number of users' requests during the step.
    pub requests: usize,
    /// Duration in seconds, including everything before and after the event.
    pub seconds: f64,
}

/// Executed actions of a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ActionLog {
    /// The actions with their times.
    #[serde(rename = "done")]
    pub actions: Vec<(f64, String)>,
    /// How long measured actions took.
    pub measured: Vec<Measurement>,
}

/// Explanation of an incident.
#[derive(Debug, Clone, Serialize)]
pub struct ExplainedIncident {
    /// The time.
    pub at: f64,
    /// The incident.
    pub id: String,
    /// The API's response.
    pub explanation: Value,
}

/// A screenshot of the page.
#[derive(Debug, Clone)]
pub struct PageScreenshot {
    /// The time.
    pub at: f64,
    /// Its caption.
    pub caption: String,
    /// PNG.
    pub png: Vec<u8>,
}

/// Memory and CPU of one Pod during a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PodResources {
    /// The pod.
    pub pod: String,
    /// Maximum memory, in MiB.
    pub memory_mib: f64,
    /// Mean CPU, in thousandths.
    pub cpu_milli: f64,
}

impl StepRecord {
    /// Creates the record of a step that has just begun.
    #[must_use]
    pub fn of(step: &Step) -> Self {
        Self {
            id: step.id.clone(),
            title: step.title.clone(),
            description: step.description.clone(),
            kind: step.kind,
            installation: step.installation,
            installed_because: None,
            times: None,
            log: ActionLog::default(),
            verdict: Verdict::not_run("it did not start".to_owned()),
            explained: Vec::new(),
            pictures: Vec::new(),
            resources: Vec::new(),
            requests: 0,
            seconds: 0.0,
        }
    }

    /// Renders the line for the terminal.
    #[must_use]
    pub fn line(&self) -> String {
        let verdict = &self.verdict;
        let sign = match verdict.outcome {
            Outcome::Passed => "✓",
            Outcome::Failed => "✗",
            Outcome::Unsound => "?",
            Outcome::NotRun => "–",
        };
        let mut facts = Vec::new();
        let after = |event: &str, seconds: Option<f64>| {
            seconds.map(|seconds| format!("{event} after {seconds:.0} s"))
        };
        facts.extend(after("named", verdict.named_after));
        facts.extend(after("closed", verdict.closed_after));
        if self.kind == Kind::Fault {
            facts.push(format!(
                "in {} incidents, {} other incidents",
                verdict.named.len(),
                verdict.other_incidents.len()
            ));
        }
        let word = match verdict.outcome {
            Outcome::Passed => "as expected",
            Outcome::Failed => "not as expected",
            Outcome::Unsound => "proves nothing",
            Outcome::NotRun => "NOT RUN",
        };
        let mut line = format!("  {sign} {}: {word}", self.id);
        for fact in facts {
            line.push_str(", ");
            line.push_str(&fact);
        }
        let measured = self.log.measured.iter().map(ToString::to_string);
        for text in verdict.reasons.iter().cloned().chain(measured) {
            line.push_str("\n      ");
            line.push_str(&text);
        }
        line
    }
}

impl Report {
    /// Renders the summary for the terminal.
    #[must_use]
    pub fn summary(&self) -> String {
        let count = |outcome| {
            self.records
                .iter()
                .filter(|record| record.verdict.outcome == outcome)
                .count()
        };
        let mut text = format!(
            "{} of {} steps as expected, {} not, {} prove nothing, {:.0} min",
            count(Outcome::Passed),
            self.records.len(),
            count(Outcome::Failed),
            count(Outcome::Unsound),
            (self.seconds / 60.0).ceil()
        );
        for record in &self.records {
            if record.verdict.outcome == Outcome::NotRun {
                text.extend([
                    "\nnot run: ",
                    &record.id,
                    ": ",
                    &record.verdict.reasons.join("; "),
                ]);
            }
        }
        text
    }
}

/// Sums up the resource usage of Pods.
#[must_use]
pub(crate) fn took(usage: &[PodUsage]) -> Vec<PodResources> {
    let mut by_pod: BTreeMap<&str, Vec<&PodUsage>> = BTreeMap::new();
    for used in usage {
        by_pod.entry(&used.pod).or_default().push(used);
    }
    by_pod
        .into_iter()
        .map(|(pod, used)| {
            let most = used.iter().map(|used| used.memory).max().unwrap_or_default();
            let all: u64 = used.iter().map(|used| used.cpu).sum();
            PodResources {
                pod: pod.to_owned(),
                memory_mib: float(most) / float(1 << 20),
                cpu_milli: float(all) / float(used.len() as u64) / 1e6,
            }
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "for display")]
const fn float(whole: u64) -> f64 {
    whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_is_too_long_only_beyond_its_limit() {
        let measured = |seconds: f64, within: Option<u64>| Measurement {
            name: "helm test".to_owned(),
            seconds,
            within,
        };
        assert!(measured(60.1, Some(60)).is_too_long());
        assert!(!measured(60.0, Some(60)).is_too_long());
        assert!(!measured(600.0, None).is_too_long());
        assert_eq!(
            measured(7.25, Some(60)).to_string(),
            "helm test: 7.2 s, at most 60 s"
        );
    }

    #[test]
    fn memory_is_the_most_and_cpu_the_mean_of_each_pod() {
        let used = |pod: &str, memory: u64, cpu: u64| PodUsage {
            at: 0.0,
            pod: pod.to_owned(),
            memory,
            cpu,
        };
        let took = took(&[
            used("a", 1 << 20, 10_000_000),
            used("a", 3 << 20, 20_000_000),
            used("b", 0, 0),
        ]);
        assert_eq!(took.len(), 2);
        assert!((took[0].memory_mib - 3.0).abs() < 1e-9);
        assert!((took[0].cpu_milli - 15.0).abs() < 1e-9);
    }
}
