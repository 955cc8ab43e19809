//! Reports news while a step runs: on the terminal, with the explanation of each incident and a screenshot of the page.

use std::{collections::BTreeSet, pin::pin, time::Duration};

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{ExplainedIncident, PageScreenshot, StepRecord, SuiteRun};
use crate::{observe::Timeline, print_uncaptured};

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of screenshots of one step.
const MAX_SCREENSHOTS: usize = 4;
/// Maximum number of explanations of one step.
const MAX_EXPLANATIONS: usize = 12;

/// Reports what is new since the beginning of the step, or since its event.
pub(super) struct ProgressReporter<'a> {
    suite: &'a SuiteRun,
    /// Printed times are relative to it.
    origin: f64,
    label: &'static str,
    reported: BTreeSet<String>,
}

impl<'a> ProgressReporter<'a> {
    /// Creates a reporter for the time since the event.
    pub(super) fn since_event(suite: &'a SuiteRun, event: f64) -> Self {
        Self::new(suite, event, "")
    }

    /// Creates a reporter for the time before the event.
    pub(super) fn of_preparation(suite: &'a SuiteRun, begin: f64) -> Self {
        Self::new(suite, begin, "before the event ")
    }

    /// What exists already is not reported.
    fn new(suite: &'a SuiteRun, origin: f64, label: &'static str) -> Self {
        let mut narrator = Self {
            suite,
            origin,
            label,
            reported: BTreeSet::new(),
        };
        narrator.reported = narrator.news().into_iter().map(|news| news.key).collect();
        narrator
    }

    /// Reports news until the work is done, without screenshots.
    pub(super) async fn during<T>(&mut self, record: &mut StepRecord, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = self.poll_without_screenshots(record) => {}
            }
        }
    }

    async fn poll_without_screenshots(&mut self, record: &mut StepRecord) {
        sleep(POLL_INTERVAL).await;
        for news in self.unreported() {
            self.print(&news);
            self.explain(&news, record).await;
        }
    }

    /// Observes for a time, or until a condition holds.
    pub(super) async fn watch(
        &mut self,
        seconds: u64,
        record: &mut StepRecord,
        mut until: impl FnMut(&Timeline) -> bool,
    ) {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(seconds) {
            self.report_news(record).await;
            if until(&self.suite.observer.timeline.borrow()) {
                return;
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Reports news.
    pub(super) async fn report_news(&mut self, record: &mut StepRecord) {
        for news in self.unreported() {
            self.print(&news);
            self.explain(&news, record).await;
            if news.incident.is_some() {
                self.picture(record, &news.text).await;
            }
        }
    }

    /// Returns news, each only once.
    fn unreported(&mut self) -> Vec<StateChanges> {
        let mut news = self.news();
        news.retain(|news| self.reported.insert(news.key.clone()));
        news
    }

    fn print(&self, news: &StateChanges) {
        let after = self.suite.observer.clock.now() - self.origin;
        print_uncaptured(&format!("    {}{after:>4.0} s  {}", self.label, news.text));
    }

    /// Records the explanation of a new incident, up to the maximum.
    async fn explain(&self, news: &StateChanges, record: &mut StepRecord) {
        if let Some(id) = &news.incident
            && record.explained.len() < MAX_EXPLANATIONS
        {
            record.explained.extend(self.suite.explain(id).await);
        }
    }

    /// Takes a screenshot of the page, up to the maximum.
    pub(super) async fn picture(&self, record: &mut StepRecord, caption: &str) {
        let Some(browser) = &self.suite.browser else {
            return;
        };
        if record.pictures.len() >= MAX_SCREENSHOTS {
            return;
        }
        let at = self.suite.observer.clock.now();
        let name = format!("{}-{}", record.id, record.pictures.len());
        if let Some(png) = browser.screenshot(&self.suite.cluster, &name).await {
            record.pictures.push(PageScreenshot {
                at,
                caption: caption.to_owned(),
                png,
            });
        }
    }

    fn news(&self) -> Vec<StateChanges> {
        let timeline = self.suite.observer.timeline.borrow();
        let now = self.suite.observer.clock.now();
        let mut news = Vec::new();
        for state in timeline.newest(now, 5.0).values() {
            for incident in &state.incidents {
                let open = incident.is_open();
                let text = if open {
                    format!(
                        "{} {} ({}): {}",
                        incident.id, incident.cause, incident.region, incident.sentence
                    )
                } else {
                    format!("{} is closed", incident.id)
                };
                news.push(StateChanges {
                    key: format!("{} {open} {}", incident.id, incident.occurrences),
                    text,
                    incident: open.then(|| incident.id.clone()),
                });
            }
        }
        for alert in timeline.alerts_now().iter().filter(|alert| alert.firing) {
            let about = ["incident", "target", "vantage", "finding", "hazard"];
            let about: Vec<&str> = about
                .into_iter()
                .filter_map(|label| alert.labels.get(label).map(String::as_str))
                .collect();
            let text = format!("{} fires ({})", alert.name, about.join(", "));
            news.push(StateChanges {
                key: text.clone(),
                text,
                incident: None,
            });
        }
        if let Some(status) = timeline.statuses.last() {
            let code = status
                .code
                .0
                .map_or("a signal".to_owned(), |code| code.to_string());
            if code != "0" {
                news.push(StateChanges {
                    key: format!("status {code}"),
                    text: format!("parallax status exits with {code}: {}", status.line),
                    incident: None,
                });
            }
        }
        news
    }
}

struct StateChanges {
    key: String,
    text: String,
    incident: Option<String>,
}

impl SuiteRun {
    /// Fetches the leader's explanation of an incident.
    async fn explain(&self, id: &str) -> Option<ExplainedIncident> {
        let at = self.observer.clock.now();
        let leader = self.leader()?;
        let path = format!("/v1/incidents/{id}");
        let answer = self
            .cluster
            .pod_access
            .get(&leader, 8080, &path, &[])
            .await
            .ok()?;
        let explanation: Value = serde_json::from_slice(&answer.body).ok()?;
        Some(ExplainedIncident {
            at,
            id: id.to_owned(),
            explanation,
        })
    }
}
