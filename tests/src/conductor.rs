//! Runs an incident: a healthy cluster, real probers and a real aggregator, a fault, and the expected verdict.

mod alerts;
mod api_server;
mod faults;
mod node_controller;
mod preflight;
mod repair;
mod report;
mod restart;
mod setup;
mod status;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::PathBuf,
    time::Duration,
};

use anyhow::Context;
use parallax_model::NodeName;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep},
};

use crate::{
    aggregator_config,
    api_client::AggregatorState,
    client::Request,
    incident::{ClientSight, Incident, Outcome, PreflightTime, ServiceApproach},
    judge::{self, OutcomeJudgement},
    kernel::Kernel,
    lab::Lab,
    packets,
    parallax::RunningAggregator,
    preflight::ReportedPreflight,
    prometheus::LabPrometheus,
    publisher::Publisher,
    screen::ProgressScreen,
};

pub use report::Report;

use setup::ground_truth;

/// Interval between queries of the aggregator's state.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// State queries between two checks of the guest's processes.
const POLLS_PER_PROCESS_CHECK: u32 = 10;

/// Timeout from the start of the probers until everything is ok.
const HEALTHY_TIMEOUT: Duration = Duration::from_mins(3);

/// Maximum number of packets to keep of a request.
const MAX_PACKETS: usize = 12;

/// Options of a run.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Options {
    /// Exit with the result; otherwise the cluster stays until Ctrl-C.
    pub once: bool,
    /// Intervals before the first fault; overrides the file's.
    pub healthy_rounds: Option<u32>,
    /// Where the aggregator's page and API listen.
    pub listen: SocketAddr,
    /// Keep the run's directory.
    pub keep_log: bool,
    /// Directory in which the aggregator records its input, for `parallax replay`.
    pub record: Option<PathBuf>,
    /// Print the result as JSON.
    pub json: bool,
    /// Hook that implements the Services instead of the lab.
    pub hook: Option<PathBuf>,
    /// Kernel to run on; by default the one that suits the data plane.
    pub kernel: Option<Kernel>,
    /// Run a Prometheus with the shipped rules.
    pub alerts: bool,
}

/// Result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunResult {
    /// Parallax reported what is expected.
    AsExpected,
    /// It did not, or not in time.
    NotAsExpected,
    /// The run was interrupted.
    Interrupted,
}

/// Runs an incident. An error means that it could not run.
pub async fn run(incident: Incident, options: Options) -> anyhow::Result<RunResult> {
    let (once, json) = (options.once, options.json);
    let Some(report) = report(incident, options, ProgressScreen::default()).await? else {
        return Ok(RunResult::Interrupted);
    };
    // A cluster that stays has shown its report already.
    if once {
        report.print(json)?;
    }
    Ok(if report.ok {
        RunResult::AsExpected
    } else {
        RunResult::NotAsExpected
    })
}

/// Runs an incident and returns its report, or `None` if it was interrupted first.
pub async fn report(
    incident: Incident,
    options: Options,
    screen: ProgressScreen,
) -> anyhow::Result<Option<Report>> {
    let mut conductor = IncidentRun {
        options,
        screen,
        aggregator: None,
        alarms: None,
        publisher: None,
        lab: None,
        ended: None,
        substitute: None,
        preflights: Vec::new(),
        known_revision: 0,
        disconnected_nodes: BTreeMap::new(),
        kept_incidents: BTreeSet::new(),
        aggregator_processes: 1,
    };
    let interrupted = interruption()?;
    let played = tokio::select! {
        played = conductor.play(incident) => played.map(Some),
        () = interrupted => Ok(conductor.ended.clone()),
    };
    let failed = played
        .as_ref()
        .map_or(true, |report| report.as_ref().is_some_and(|report| !report.ok));
    conductor.finish(failed).await;
    played
}

/// Completes on SIGINT or SIGTERM.
fn interruption() -> anyhow::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

struct IncidentRun {
    options: Options,
    screen: ProgressScreen,
    aggregator: Option<RunningAggregator>,
    alarms: Option<LabPrometheus>,
    publisher: Option<Publisher>,
    lab: Option<Lab>,
    ended: Option<Report>,
    /// Substitute kernel or rules, with the reason.
    substitute: Option<String>,
    /// Preflights that were run.
    preflights: Vec<ReportedPreflight>,
    /// Topology revision when the API server became unavailable.
    known_revision: u64,
    /// Disconnected nodes, and when the node controller notices.
    disconnected_nodes: BTreeMap<NodeName, Instant>,
    /// Incidents that must stay open across a restart of the aggregator.
    kept_incidents: BTreeSet<String>,
    /// Number of aggregator processes so far.
    aggregator_processes: u32,
}

impl IncidentRun {
    async fn play(&mut self, incident: Incident) -> anyhow::Result<Report> {
        self.screen.line(&format!("{}: {}", incident.id, incident.title));
        self.set_up(&incident).await?;
        let mut broken = self.healthy_phase(&incident).await?;
        if broken.is_none() {
            broken = self.preflights(&incident, PreflightTime::Healthy).await?;
        }
        let mut begun = Instant::now();
        if broken.is_none() && !incident.faults.is_empty() {
            broken = self.apply_faults(&incident).await?;
            begun = Instant::now();
        }
        let judgement = match broken {
            Some(broken) => OutcomeJudgement::Wrong(broken),
            None => self.judge(&incident, begun).await?,
        };
        let mut report = Report::new(&incident, judgement, self.screen.elapsed(), begun.elapsed());
        report.substitute = self.substitute.clone();
        self.report_alerts(&incident, &mut report).await?;
        if report.ok
            && let Some(wrong) = self.preflights(&incident, PreflightTime::Faulty).await?
        {
            report.ok = false;
            report.problem = Some(wrong);
        }
        report.preflights = std::mem::take(&mut self.preflights);
        if report.ok {
            self.capture_ground_truth(&incident, &mut report).await?;
        }
        if report.ok
            && let Some(repair) = &incident.repair
            && let Some(named) = report.named_id()
        {
            match self.repair(&incident, repair, &named).await? {
                Ok(seconds) => report.seconds_to_close = Some(seconds),
                Err(wrong) => {
                    report.ok = false;
                    report.problem = Some(wrong);
                }
            }
        }
        self.ended = Some(report.clone());
        self.screen.line(if report.ok {
            "as expected"
        } else {
            "NOT as expected"
        });
        if !self.options.once {
            report.print(self.options.json)?;
            let page = aggregator_config::page_url(self.aggregator()?.address());
            self.screen
                .line(&format!("the cluster stays until Ctrl-C; page: {page}"));
            self.watch(Duration::MAX, |_| OutcomeJudgement::Waiting(String::new()))
                .await?;
        }
        Ok(report)
    }

    /// Judges Parallax's result.
    async fn judge(&mut self, incident: &Incident, begun: Instant) -> anyhow::Result<OutcomeJudgement> {
        let expected = &incident.expected;
        let left = |seconds: u64| Duration::from_secs(seconds).saturating_sub(begun.elapsed());
        match &expected.outcome {
            Outcome::Verdict(wanted) => {
                self.watch(left(wanted.within_seconds), |state| {
                    judge::judge_verdict(incident, wanted, state)
                })
                .await
            }
            Outcome::Shown {
                within_seconds,
                besides,
            } => {
                self.watch(left(*within_seconds), |state| {
                    judge::judge_notices(expected, besides, state)
                })
                .await
            }
            Outcome::Quiet { seconds } => {
                let judgement = self
                    .watch(left(*seconds), |state| judge::judge_quiet(expected, state))
                    .await?;
                // No verdict until the end; the expected findings and hazards must be shown then.
                let missing = judge::missing_notice(expected, &self.state().await?);
                Ok(match (judgement, missing) {
                    (OutcomeJudgement::Waiting(_), Some(missing)) => OutcomeJudgement::Wrong(missing),
                    (judgement, _) => judgement,
                })
            }
        }
    }

    /// Checks what an ordinary client sees after the faults, and captures the packets of the first result of interest.
    async fn capture_ground_truth(&mut self, incident: &Incident, report: &mut Report) -> anyhow::Result<()> {
        let looks = &incident.expected.packets.faulty;
        let lab = self.lab.as_mut().context("the lab is not running")?;
        let truth = ground_truth(lab, looks).await?;
        if !looks.is_empty() {
            self.screen.line(&format!("after the faults, {truth}"));
        }
        let lab = self.lab.as_mut().context("the lab is not running")?;
        let questions = packets::packet_checks(lab.cluster(), looks);
        let telling = questions.into_iter().find(|question| {
            question.expected != ClientSight::Answered && question.approach != ServiceApproach::Ping
        });
        if let Some(question) = telling {
            let address = match &question.request {
                Request::Http { to, .. } => to.ip(),
                Request::Ping { to } => (*to).into(),
            };
            let (_, packets) = lab.capture(&question.from, address, question.request).await?;
            report.packets = packets.into_iter().take(MAX_PACKETS).collect();
            report.packets_of = Some(question.from.to_string());
        }
        Ok(())
    }

    /// Waits until everything is ok. Returns an unexpected verdict, or that it never became ok.
    async fn healthy_phase(&mut self, incident: &Incident) -> anyhow::Result<Option<String>> {
        let start = Instant::now();
        // An aggregator that watches an API server may know the outside clients before it knows any node.
        let wanted = api_server::vantages(self.lab.as_ref().context("the lab is not running")?.cluster());
        while start.elapsed() < HEALTHY_TIMEOUT {
            let state = self.state().await?;
            if let OutcomeJudgement::Wrong(wrong) = judge::judge_healthy(&state) {
                return Ok(Some(wrong));
            }
            let known = |wanted: &String| state.vantages.iter().any(|vantage| vantage.vantage == *wanted);
            if state.is_all_ok() && wanted.iter().all(known) {
                self.screen.line(&format!(
                    "all well: {} targets from {} vantages",
                    state.matrix.len(),
                    state.vantages.len()
                ));
                return Ok(None);
            }
            sleep(POLL_INTERVAL).await;
        }
        let lab = self.lab.as_mut().context("the lab is not running")?;
        let truth = ground_truth(lab, &incident.expected.packets.healthy).await?;
        let state = self.state().await?;
        Ok(Some(format!(
            "not everything is ok {} s after the start of the probers, although {truth}: {}",
            HEALTHY_TIMEOUT.as_secs(),
            state.describe_problems()
        )))
    }

    /// Polls the aggregator until the judge has decided or the time is up.
    async fn watch(
        &mut self,
        longest: Duration,
        judge: impl Fn(&AggregatorState) -> OutcomeJudgement,
    ) -> anyhow::Result<OutcomeJudgement> {
        let start = Instant::now();
        let mut looks = 0_u32;
        loop {
            self.mark_expired_nodes().await?;
            let state = self.state().await?;
            let judgement = match restart::lost_incident(&self.kept_incidents, &state) {
                Some(lost) => OutcomeJudgement::Wrong(lost),
                None => judge(&state),
            };
            if !matches!(judgement, OutcomeJudgement::Waiting(_)) || start.elapsed() >= longest {
                return Ok(judgement);
            }
            looks += 1;
            if looks.is_multiple_of(POLLS_PER_PROCESS_CHECK) {
                self.lab
                    .as_mut()
                    .context("the lab is not running")?
                    .check_processes()
                    .await?;
            }
            sleep(POLL_INTERVAL.min(longest.saturating_sub(start.elapsed()))).await;
        }
    }

    async fn state(&mut self) -> anyhow::Result<AggregatorState> {
        let state = self.aggregator()?.state().await?;
        self.screen.status(&status::line(&state));
        Ok(state)
    }

    fn aggregator(&self) -> anyhow::Result<&RunningAggregator> {
        self.aggregator.as_ref().context("the aggregator is not running")
    }

    /// Stops everything in order; after a failure, prints the ends of the logs first.
    async fn finish(mut self, failed: bool) {
        if failed {
            if let Some(aggregator) = &self.aggregator {
                self.screen.line(&format!(
                    "the aggregator's log ends with:\n{}",
                    aggregator.log_tail()
                ));
            }
            if let Some(lab) = &self.lab {
                self.screen
                    .line(&format!("the machine's log ends with:\n{}", lab.log_tail()));
            }
        }
        if let Some(lab) = &self.lab
            && self.options.keep_log
        {
            self.screen
                .line(&format!("logs are kept in {}", lab.run().path().display()));
        }
        // Prometheus writes into the run's directory, which is deleted with the lab.
        if let Some(alarms) = self.alarms.take() {
            alarms.stop().await;
        }
        if let Some(aggregator) = self.aggregator.take() {
            aggregator.stop().await;
        }
        if let Some(lab) = self.lab.take() {
            lab.stop(self.options.keep_log).await;
        }
    }
}
