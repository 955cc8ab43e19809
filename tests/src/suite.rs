//! Runs all incidents, some of them at a time, and reports the results.

mod html;

use std::{
    cell::RefCell,
    collections::VecDeque,
    io::{Write, stderr},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use anyhow::Context;
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::{
    conductor::{self, Options, Report},
    incident::Incident,
    incident_file,
    kernel::Kernel,
    screen::ProgressScreen,
};

/// Options of a suite.
#[derive(Debug, Clone)]
pub struct SuiteOptions {
    /// Directory of the incident files.
    pub folder: PathBuf,
    /// Only incidents whose id starts with one of these; empty means all.
    pub only: Vec<String>,
    /// Number of concurrent labs, at most two for each CPU: a lab mostly waits.
    pub jobs: u8,
    /// Path of the HTML report.
    pub report: Option<PathBuf>,
    /// Duration of quiet incidents in seconds; overrides the files'.
    pub quiet_seconds: Option<u64>,
    /// Print the results as JSON lines on stdout.
    pub json: bool,
    /// Run a Prometheus with the shipped rules for each.
    pub alerts: bool,
    /// Kernel to run on; by default the one that suits each data plane.
    pub kernel: Option<Kernel>,
    /// Directory of the recordings. Each incident has a directory of its own, which is kept if it was not as expected.
    pub record: Option<PathBuf>,
}

/// Result of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuiteResult {
    /// All incidents were as expected.
    AsExpected,
    /// At least one was not.
    NotAsExpected,
    /// The suite was interrupted.
    Interrupted,
}

/// State shared by the workers, which run on one thread.
struct WorkerQueue {
    waiting: RefCell<VecDeque<Incident>>,
    reports: RefCell<Vec<Report>>,
    total: usize,
    interrupted: RefCell<bool>,
}

impl SuiteOptions {
    /// Runs all incidents. All files are parsed before the first boot.
    pub async fn run(&self) -> anyhow::Result<SuiteResult> {
        let mut incidents = self.incidents()?;
        for incident in &mut incidents {
            if let (Some(seconds), crate::incident::Outcome::Quiet { seconds: written }) =
                (self.quiet_seconds, &mut incident.expected.outcome)
            {
                *written = seconds;
            }
        }
        let start = Instant::now();
        let work = WorkerQueue {
            total: incidents.len(),
            waiting: RefCell::new(incidents.into()),
            reports: RefCell::default(),
            interrupted: RefCell::new(false),
        };
        let workers = (0..self.jobs).map(|_| self.worker(&work));
        for worker in join_all(workers).await {
            worker?;
        }
        let mut reports = work.reports.into_inner();
        reports.sort_by(|a, b| a.id.cmp(&b.id));
        if let Some(path) = &self.report {
            write_report(path, &html::page(&reports, start.elapsed()))?;
        }
        let good = reports.iter().filter(|report| report.ok).count();
        print_line(&format!(
            "{good} of {} as expected, {:.0} min{}",
            reports.len(),
            (start.elapsed().as_secs_f64() / 60.0).ceil(),
            self.report
                .as_ref()
                .map_or(String::new(), |path| format!("; report: {}", path.display()))
        ));
        Ok(if *work.interrupted.borrow() {
            SuiteResult::Interrupted
        } else if good == reports.len() {
            SuiteResult::AsExpected
        } else {
            SuiteResult::NotAsExpected
        })
    }

    fn incidents(&self) -> anyhow::Result<Vec<Incident>> {
        let mut all = Vec::new();
        for id in incident_file::list(&self.folder)? {
            let wanted = self.only.is_empty() || self.only.iter().any(|start| id.starts_with(start.as_str()));
            if wanted {
                all.push(incident_file::load(&self.folder, &id)?);
            }
        }
        anyhow::ensure!(
            !all.is_empty(),
            "no incident in {} starts with {}",
            self.folder.display(),
            self.only.join(" or ")
        );
        Ok(all)
    }

    async fn worker(&self, work: &WorkerQueue) -> anyhow::Result<()> {
        loop {
            let next = work.waiting.borrow_mut().pop_front();
            let Some(incident) = next else { return Ok(()) };
            let number = work.total - work.waiting.borrow().len();
            print_line(&format!(
                "▸ {number}/{} {}: {}",
                work.total, incident.id, incident.title
            ));
            let recording = self.record.as_ref().map(|folder| folder.join(&incident.id));
            // An aggregator that restarts records beside the one before.
            let first = recording.as_ref().map(|folder| folder.join("aggregator"));
            if let Some(first) = &first {
                std::fs::create_dir_all(first)
                    .with_context(|| format!("creating {} for the recording", first.display()))?;
            }
            let options = Options {
                once: true,
                healthy_rounds: None,
                listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
                keep_log: false,
                record: first,
                json: false,
                hook: None,
                kernel: self.kernel,
                alerts: self.alerts,
            };
            let screen = if self.jobs > 1 {
                ProgressScreen::silent()
            } else {
                ProgressScreen::status_only()
            };
            let report = match conductor::report(incident.clone(), options, screen).await {
                Ok(Some(report)) => report,
                Ok(None) => {
                    *work.interrupted.borrow_mut() = true;
                    work.waiting.borrow_mut().clear();
                    return Ok(());
                }
                // If one cannot run, the others still do.
                Err(error) => Report::could_not_run(&incident, &error),
            };
            print_line(&result(&report));
            if let Some(recording) = recording {
                if report.ok {
                    std::fs::remove_dir_all(&recording)
                        .with_context(|| format!("removing the recording {}", recording.display()))?;
                } else {
                    print_line(&format!("    recording: {}", recording.display()));
                }
            }
            if self.json {
                report.print(true)?;
            }
            work.reports.borrow_mut().push(report);
        }
    }
}

fn result(report: &Report) -> String {
    if let Some(problem) = &report.problem {
        return format!("  ✗ {} after {:.0} s: {problem}", report.id, report.seconds);
    }
    let named = match (&report.cause, report.probability, report.seconds_after_fault) {
        (Some(cause), Some(probability), Some(after)) => {
            format!(
                "{cause} with {probability:.4}, {after:.1} s after the fault{}",
                report.closed()
            )
        }
        (None, _, Some(after)) => format!("{}, after {after:.1} s", report.expected),
        _ => report.expected.clone(),
    };
    let instead = report.substitute.as_ref();
    let instead = instead.map_or(String::new(), |instead| format!("\n    {instead}"));
    let alarms = report.describe_alerts();
    let alarms = alarms.map_or(String::new(), |alarms| format!("\n    {alarms}"));
    format!("  ✓ {}: {named}{instead}{alarms}", report.id)
}

fn print_line(text: &str) {
    // A closed stderr is no reason to stop.
    let _ = writeln!(stderr(), "{text}");
}

fn write_report(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("writing the report {}", path.display()))
}
