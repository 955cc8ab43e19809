//! The repair: the only incident closes, and nothing else is named.

use std::time::Duration;

use anyhow::Context;
use tokio::time::Instant;

use super::{IncidentRun, report::rounded, setup::ground_truth};
use crate::{
    incident::{Incident, Repair},
    judge::{self, OutcomeJudgement},
};

/// Intervals after the incident has closed in which results that were delayed by the fault may arrive.
const LATE_ROUNDS: u32 = 4;

impl IncidentRun {
    /// Repairs the cluster after the verdict. Returns the seconds until the incident closed, or what is wrong.
    pub(super) async fn repair(
        &mut self,
        incident: &Incident,
        repair: &Repair,
        named: &str,
    ) -> anyhow::Result<Result<f64, String>> {
        let interval = Duration::from_millis(incident.interval_ms);
        let before = self
            .watch(interval * repair.after_rounds, |state| {
                judge::judge_only(named, state)
            })
            .await?;
        if let OutcomeJudgement::Wrong(wrong) = before {
            return Ok(Err(wrong));
        }
        let lab = self.lab.as_mut().context("the lab is not running")?;
        lab.fault(incident.faults.len()).await?;
        let publisher = self.publisher.as_mut().context("the topology is not published")?;
        publisher.publish(lab.run(), lab.cluster())?;
        self.record_disconnections(&repair.ops);
        self.screen.line(&format!("REPAIR: {}", repair.name));
        let begun = Instant::now();
        let closing = self
            .watch(Duration::from_secs(repair.closed_within_seconds), |state| {
                judge::judge_closed(named, state)
            })
            .await?;
        let seconds = rounded(begun.elapsed());
        match closing {
            OutcomeJudgement::Wrong(wrong) => return Ok(Err(format!("after the repair: {wrong}"))),
            OutcomeJudgement::Waiting(open) => {
                return Ok(Err(format!("{seconds:.0} s after the repair: {open}")));
            }
            OutcomeJudgement::Named(_) | OutcomeJudgement::Shown(_) => {}
        }
        let later = self
            .watch(interval * LATE_ROUNDS, |state| judge::judge_only(named, state))
            .await?;
        if let OutcomeJudgement::Wrong(wrong) = later {
            return Ok(Err(format!("after the incident closed: {wrong}")));
        }
        let lab = self.lab.as_mut().context("the lab is not running")?;
        let truth = ground_truth(lab, &incident.expected.packets.healthy).await?;
        self.screen.line(&format!("after the repair, {truth}"));
        Ok(Ok(seconds))
    }
}
