//! What is kept of a step, for the reports.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::{
    judge::{Outcome, StepTimes, Verdict},
    observe::PodUsage,
    step::{Installation, Kind, Step},
};

/// A whole run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Version of the API server.
    pub version: String,
    /// The nodes.
    pub nodes: Vec<String>,
    /// When it began, in milliseconds since 1970.
    pub began_unix_ms: u64,
    /// How long it took.
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
    /// Whether something was wrong.
    pub kind: Kind,
    /// What was installed.
    pub installation: Installation,
    /// Why Parallax was installed anew before it.
    pub installed_because: Option<String>,
    /// When things happened; nothing where the event never came.
    pub marks: Option<StepTimes>,
    /// What was done, with the time.
    pub done: Vec<(f64, String)>,
    /// How it is judged.
    pub verdict: Verdict,
    /// Each incident as it was explained when it was new.
    pub explained: Vec<ExplainedIncident>,
    /// Pictures of the page.
    #[serde(skip)]
    pub pictures: Vec<PageScreenshot>,
    /// What Parallax' pods took.
    pub took: Vec<PodResources>,
    /// Requests of users during the step.
    pub requests: usize,
    /// Seconds from its beginning to its end, with everything before and after the event.
    pub seconds: f64,
}

/// An incident as it was explained.
#[derive(Debug, Clone, Serialize)]
pub struct ExplainedIncident {
    /// When.
    pub at: f64,
    /// The incident.
    pub id: String,
    /// The API's answer.
    pub explanation: Value,
}

/// A picture of the page.
#[derive(Debug, Clone)]
pub struct PageScreenshot {
    /// When.
    pub at: f64,
    /// What it shows.
    pub caption: String,
    /// PNG.
    pub png: Vec<u8>,
}

/// Memory and CPU of one pod during a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PodResources {
    /// The pod.
    pub pod: String,
    /// The most memory, in MiB.
    pub memory_mib: f64,
    /// CPU on average, in thousandths.
    pub cpu_milli: f64,
}

impl StepRecord {
    /// Of a step that has just begun.
    #[must_use]
    pub fn of(step: &Step) -> Self {
        Self {
            id: step.id.clone(),
            title: step.title.clone(),
            description: step.description.clone(),
            kind: step.kind,
            installation: step.installation,
            installed_because: None,
            marks: None,
            done: Vec::new(),
            verdict: Verdict::not_run("it did not begin".to_owned()),
            explained: Vec::new(),
            pictures: Vec::new(),
            took: Vec::new(),
            requests: 0,
            seconds: 0.0,
        }
    }

    /// For the terminal.
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
        let after =
            |what: &str, seconds: Option<f64>| seconds.map(|seconds| format!("{what} after {seconds:.0} s"));
        facts.extend(after("named", verdict.named_after));
        facts.extend(after("closed", verdict.closed_after));
        if self.kind == Kind::Fault {
            facts.push(format!(
                "in {} incidents, {} others beside",
                verdict.named.len(),
                verdict.extras.len()
            ));
        }
        let word = match verdict.outcome {
            Outcome::Passed => "as it should be",
            Outcome::Failed => "not as it should be",
            Outcome::Unsound => "nothing is proved",
            Outcome::NotRun => "NOT RUN",
        };
        let mut line = format!("  {sign} {}: {word}", self.id);
        for fact in facts {
            line.push_str(", ");
            line.push_str(&fact);
        }
        for reason in &verdict.reasons {
            line.push_str("\n      ");
            line.push_str(reason);
        }
        line
    }
}

impl Report {
    /// The last lines on the terminal.
    #[must_use]
    pub fn summary(&self) -> String {
        let count = |outcome| {
            self.records
                .iter()
                .filter(|record| record.verdict.outcome == outcome)
                .count()
        };
        let mut text = format!(
            "{} of {} steps as they should be, {} not, {} prove nothing, {:.0} min",
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

/// Sums up what pods used.
#[must_use]
pub(super) fn took(usage: &[PodUsage]) -> Vec<PodResources> {
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

#[expect(clippy::cast_precision_loss, reason = "for people")]
const fn float(whole: u64) -> f64 {
    whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

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
