//! Runs steps one after the other, and leaves the cluster as it was.

mod action;
mod live_names;
mod night;
mod options;
mod progress;
mod quiet;
mod setup;
mod step_run;
mod wait;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use anyhow::Context;
use tokio::{signal, task::LocalSet};

use crate::record::{ExplainedIncident, PageScreenshot, Report, StepRecord};
pub use options::Options;

use crate::{
    cluster::Cluster,
    install::{Application, Authority, Destinations, ParallaxInstallation},
    judge::Outcome,
    observe::{Browser, Clock, Observer, Prometheus},
    print_uncaptured,
    step::{self, Installation, Step},
};

/// State of a run.
pub struct SuiteRun {
    cluster: Rc<Cluster>,
    product: ParallaxInstallation,
    application: Application,
    authority: Authority,
    destinations: Destinations,
    observer: Observer,
    prometheus: Option<Rc<Prometheus>>,
    browser: Option<Browser>,
    /// Whether the product's image trusts the suite's CA.
    trusted: bool,
    /// The current installation; absent if it must be reinstalled.
    installed: Cell<Option<Installation>>,
    /// What the hook has broken.
    broken: RefCell<Vec<Vec<String>>>,
}

/// Result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunResult {
    /// Every step that ran passed.
    Passed,
    /// A step failed.
    Failed,
    /// No step failed, and at least one proves nothing.
    Unsound,
    /// The run was interrupted.
    Interrupted,
}

/// Runs the selected steps, and writes the reports.
///
/// # Errors
/// An invalid step file, an unusable cluster, or a failed installation.
pub async fn run(options: &Options) -> anyhow::Result<RunResult> {
    let steps = options.select(step::list(&options.steps)?)?;
    // Fails only if the same provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    LocalSet::new().run_until(run_all(options, steps)).await
}

async fn run_all(options: &Options, steps: Vec<Step>) -> anyhow::Result<RunResult> {
    let clock = Clock::start();
    let folder = tempfile_in(&options.folder)?;
    let records = RefCell::new(Vec::new());
    let setup = setup::RunSetup::new(options, clock, &folder).await?;
    let mut interrupted = false;
    let running = async {
        let suite = setup.install().await?;
        let result = match options.night {
            Some(hours) => suite.run_night(hours, options, &steps, &records).await,
            None => suite.each(options, &steps, &records).await,
        };
        anyhow::Ok((suite, result))
    };
    let ended = tokio::select! {
        ended = running => Some(ended),
        _ = signal::ctrl_c() => {
            interrupted = true;
            print_uncaptured("interrupted: restoring and removing");
            None
        }
    };
    let version = setup.cluster.version.clone();
    let failed = match ended {
        Some(Ok((suite, result))) => {
            suite.restore_all().await;
            result.err()
        }
        Some(Err(error)) => Some(error),
        None => None,
    };
    setup.restore_leftovers().await;
    if options.keep {
        print_uncaptured("keeping the installation as requested");
    } else {
        setup.remove().await.context("removing the installation")?;
    }
    let report = Report {
        version,
        nodes: setup.cluster.nodes.clone(),
        began_unix_ms: clock.began_unix_ms(),
        seconds: clock.now(),
        records: records.into_inner(),
    };
    options.write(&report)?;
    print_uncaptured(&report.summary());
    match failed {
        Some(error) => Err(error),
        None if interrupted => Ok(RunResult::Interrupted),
        None => Ok(report.ended()),
    }
}

fn tempfile_in(folder: &std::path::Path) -> anyhow::Result<std::path::PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    folder
        .canonicalize()
        .with_context(|| format!("finding {}", folder.display()))
}

impl SuiteRun {
    async fn each(
        &self,
        options: &Options,
        steps: &[Step],
        records: &RefCell<Vec<StepRecord>>,
    ) -> anyhow::Result<()> {
        let total = steps.len() * usize::try_from(options.repeat).unwrap_or(1);
        let mut number = 0;
        for step in steps {
            for _ in 0..options.repeat {
                number += 1;
                print_uncaptured(&format!("▸ {number}/{total} {}: {}", step.id, step.title));
                let record = self.run(step).await?;
                print_uncaptured(&record.line());
                records.borrow_mut().push(record);
                options.write_partial(&records.borrow())?;
            }
        }
        Ok(())
    }
}

impl Report {
    fn ended(&self) -> RunResult {
        let any = |outcome| {
            self.records
                .iter()
                .any(|record| record.verdict.outcome == outcome)
        };
        if any(Outcome::Failed) {
            RunResult::Failed
        } else if any(Outcome::Unsound) {
            RunResult::Unsound
        } else {
            RunResult::Passed
        }
    }
}
