//! Runs one step from beginning to end.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context;

use super::{StepRecord, SuiteRun, progress::ProgressReporter, quiet::QuietState, wait::UnmetCondition};
use crate::record::{ActionLog, took};
use crate::{
    install::MissingComponent,
    judge::{Outcome, Preparation, StepTimes, UserRequests, Verdict, judge},
    print_uncaptured,
    step::{Kind, Step, StepRequirement},
};

/// Additional wait for a fault to be named after its limit: how late it is named is worth knowing.
const EXTRA_NAMING_WAIT_S: u64 = 45;
/// Wait for the incident to close after the repair, if the step does not permit more.
const CLOSE_TIMEOUT_S: u64 = 150;
/// Observation after everything is closed: what recurs, recurs soon.
const RECURRENCE_WATCH_S: u64 = 30;
/// Maximum wait for requests of users that are still running at the end, for example in name resolution.
const HANGING_REQUEST_WAIT_S: u64 = 30;
/// Wait for the cluster to become quiet after the preparation.
const PREPARATION_TIMEOUT: Duration = Duration::from_mins(3);
/// How long observations before a step are kept, for what was open then.
const KEPT_BEFORE_S: f64 = 60.0;

impl SuiteRun {
    /// Runs a step. If it cannot run or does not behave as described, that is its verdict.
    ///
    /// # Errors
    /// The suite itself cannot continue.
    pub(super) async fn run(&self, step: &Step) -> anyhow::Result<StepRecord> {
        let mut record = StepRecord::of(step);
        let begin = self.observer.clock.now();
        if let Some(missing) = self.missing(step) {
            record.verdict = Verdict::not_run(missing);
            return Ok(record);
        }
        self.observer
            .timeline
            .borrow_mut()
            .forget_before(begin - KEPT_BEFORE_S);
        let mut fixed = BTreeMap::new();
        // On the heap: it contains the futures of whole installations.
        if let Err(error) = Box::pin(self.play(step, &mut fixed, &mut record)).await {
            record.verdict = match error.downcast_ref::<MissingComponent>() {
                Some(missing) => Verdict::not_run(missing.to_string()),
                None if error.is::<UnmetCondition>() => Verdict::failed(format!("{error:#}")),
                None => Verdict::unsound(format!("{error:#}")),
            };
        }
        self.restore_all().await;
        let mut log = ActionLog::default();
        for action in &step.clean {
            let cleaned = self
                .execute(step, std::slice::from_ref(action), &fixed, &mut log)
                .await;
            if let Err(error) = cleaned {
                print_uncaptured(&format!("    cleaning up: {error:#}"));
                // The cluster's state is unknown now.
                self.installed.set(None);
            }
        }
        let now = self.observer.clock.now();
        record.seconds = now - begin;
        let timeline = self.observer.timeline.borrow();
        let preparation = Preparation {
            from: begin,
            until: record.times.map_or(now, |marks| marks.fault),
            with_previous_version: step.prepares_previous_version(),
        };
        record
            .verdict
            .judge_preparation(&timeline, preparation, &step.expect.may);
        let from = record.times.map_or(begin, |marks| marks.fault);
        record.requests = UserRequests::new(&timeline.requests).count(from, now);
        let usage: Vec<_> = timeline
            .usage
            .iter()
            .filter(|usage| usage.at >= begin)
            .cloned()
            .collect();
        record.resources = took(&usage);
        Ok(record)
    }

    fn missing(&self, step: &Step) -> Option<String> {
        if (step.uses_hook() || step.needs.contains(&StepRequirement::Hook)) && !self.cluster.hook.is_some() {
            return Some("a hook; set PARALLAX_REAL_CLUSTER_HOOK".to_owned());
        }
        if step.needs.contains(&StepRequirement::TrustedRoot) && !self.trusted {
            return Some(
                "an image that trusts the suite's root; unset PARALLAX_REAL_CLUSTER_IMAGE".to_owned(),
            );
        }
        None
    }

    async fn play(
        &self,
        step: &Step,
        fixed: &mut BTreeMap<String, String>,
        record: &mut StepRecord,
    ) -> anyhow::Result<()> {
        let clock = self.observer.clock;
        let mut reporter = ProgressReporter::of_preparation(self, clock.now());
        let settled = reporter.during(record, self.settle(step.installation)).await;
        match settled.context("installing Parallax")? {
            QuietState::Quiet(because) => record.installed_because = because,
            QuietState::Noisy(noise) => {
                // A new installation on a healthy cluster that does not become quiet is a fault itself.
                self.installed.set(None);
                record.verdict = Verdict::failed(format!("not quiet before the event: {noise}"));
                return Ok(());
            }
        }
        *fixed = self.fixed_names();
        let step = &Step {
            expect: step.expect.resolved(fixed)?,
            ..step.clone()
        };
        if !step.prepare.is_empty() {
            let mut log = ActionLog::default();
            let prepare = async {
                self.execute(step, &step.prepare, fixed, &mut log).await?;
                match self.quiet_within(PREPARATION_TIMEOUT).await {
                    None => Ok(()),
                    Some(noise) => Err(anyhow::anyhow!(
                        "not quiet after the preparation of the step: {noise}"
                    )),
                }
            };
            let prepared = reporter.during(record, prepare).await;
            record.log = log;
            prepared?;
        }
        let mut marks = StepTimes {
            fault: clock.now(),
            acted: clock.now(),
            repaired: None,
            healed: None,
            ended: clock.now(),
        };
        let mut narrator = ProgressReporter::since_event(self, marks.fault);
        let acted = self.execute(step, &step.actions, fixed, &mut record.log).await;
        marks.acted = clock.now();
        let acted = match acted {
            Ok(()) if step.kind == Kind::Fault => {
                self.fault(step, fixed, &mut narrator, record, &mut marks).await
            }
            Ok(()) => {
                narrator.watch(step.watch, record, |_| false).await;
                let cured = self.execute(step, &step.cure, fixed, &mut record.log).await;
                if !step.cure.is_empty() {
                    narrator.watch(step.watch, record, |_| false).await;
                }
                cured
            }
            Err(error) => Err(error),
        };
        narrator.report_news(record).await;
        marks.ended = clock.now();
        let ended = marks.ended;
        narrator
            .watch(HANGING_REQUEST_WAIT_S, record, |timeline| {
                UserRequests::new(&timeline.requests).have_reported_since(ended)
            })
            .await;
        record.times = Some(marks);
        record.verdict = judge(step, &self.observer.timeline.borrow(), marks, &self.destinations);
        if record.verdict.outcome != Outcome::Passed {
            narrator.picture(record, "at the end").await;
        }
        let acted = match acted {
            Ok(()) => self.execute(step, &step.after, fixed, &mut record.log).await,
            failed => failed,
        };
        record.verdict.limit_times(&record.log.measured);
        match acted {
            Ok(()) => Ok(()),
            // Observations until then are kept.
            Err(error) if error.downcast_ref::<MissingComponent>().is_none() => {
                let failed = error.downcast_ref::<UnmetCondition>().is_some();
                record.verdict.outcome = if failed { Outcome::Failed } else { Outcome::Unsound };
                record.verdict.reasons.insert(0, format!("{error:#}"));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Runs a fault until it is named, until its end, and until the incident closes.
    async fn fault(
        &self,
        step: &Step,
        fixed: &BTreeMap<String, String>,
        narrator: &mut ProgressReporter<'_>,
        record: &mut StepRecord,
        marks: &mut StepTimes,
    ) -> anyhow::Result<()> {
        let clock = self.observer.clock;
        let patience = step.expect.within + EXTRA_NAMING_WAIT_S;
        narrator
            .watch(patience, record, |_| !self.named(step).is_empty())
            .await;
        if !step.then.is_empty() {
            self.execute(step, &step.then, fixed, &mut record.log).await?;
        }
        narrator.watch(step.watch, record, |_| false).await;
        narrator.picture(record, "just before the repair").await;
        marks.repaired = Some(clock.now());
        self.execute(step, &step.cure, fixed, &mut record.log).await?;
        marks.healed = Some(clock.now());
        let quiet = |timeline: &crate::observe::Timeline| {
            let newest = timeline.newest(clock.now(), 3.0);
            let open = newest.values().any(|state| state.open().next().is_some());
            !newest.is_empty() && !open
        };
        let patience = CLOSE_TIMEOUT_S.max(step.expect.closed_within);
        narrator.watch(patience, record, quiet).await;
        narrator.watch(RECURRENCE_WATCH_S, record, |_| false).await;
        Ok(())
    }
}
