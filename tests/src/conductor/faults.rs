//! Applies the faults, including their effects outside the machine.

use std::time::Duration;

use anyhow::Context;

use super::IncidentRun;
use crate::{
    incident::{FaultOperation, Incident, Outcome},
    judge::{self, OutcomeJudgement},
};

impl IncidentRun {
    /// Applies the faults, each at its time. Returns what was wrongly reported before the first.
    pub(super) async fn apply_faults(&mut self, incident: &Incident) -> anyhow::Result<Option<String>> {
        for (i, fault) in incident.faults.iter().enumerate() {
            let file = fault.after_rounds;
            let rounds = if i == 0 {
                self.options.healthy_rounds.unwrap_or(file)
            } else {
                file
            };
            let wait = Duration::from_millis(incident.interval_ms) * rounds;
            let expected = &incident.expected;
            let judgement = if matches!(expected.outcome, Outcome::Quiet { .. }) && i > 0 {
                self.watch(wait, |state| judge::judge_quiet(expected, state))
                    .await?
            } else if i == 0 {
                self.watch(wait, judge::judge_healthy).await?
            } else {
                self.watch(wait, |_| OutcomeJudgement::Waiting(String::new()))
                    .await?
            };
            if let OutcomeJudgement::Wrong(wrong) = judgement {
                return Ok(Some(wrong));
            }
            let (goes, comes) = (
                fault.ops.contains(&FaultOperation::ApiServerAway {}),
                fault.ops.contains(&FaultOperation::ApiServerBack {}),
            );
            if goes {
                self.set_reachable(false).await?;
            }
            let lab = self.lab.as_mut().context("the lab is not running")?;
            lab.fault(i).await?;
            let publisher = self.publisher.as_mut().context("the topology is not published")?;
            publisher.publish(lab.run(), lab.cluster())?;
            if comes {
                self.set_reachable(true).await?;
            }
            self.record_disconnections(&fault.ops);
            for op in &fault.ops {
                if let Some(wrong) = self.restart(op).await? {
                    return Ok(Some(wrong));
                }
            }
            self.screen.line(&format!("FAULT: {}", fault.name));
            let wrong = match (goes, comes) {
                (true, _) => self.check_unavailability_reported().await?,
                (_, true) => self.check_recovery().await?,
                _ => None,
            };
            if wrong.is_some() {
                return Ok(wrong);
            }
        }
        Ok(None)
    }
}
