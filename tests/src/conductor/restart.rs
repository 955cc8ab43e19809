//! Restarts of the aggregator, and the incidents that must survive them.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, bail};
use tokio::time::sleep;

use super::IncidentRun;
use crate::{
    aggregator_config,
    api_client::AggregatorState,
    incident::FaultOperation,
    judge::OutcomeJudgement,
    parallax::{self, RunningAggregator},
};

/// Timeout from its first response until the previous incidents are open again.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(10);

impl IncidentRun {
    /// Executes an operation that restarts the aggregator. Returns what is wrong.
    pub(super) async fn restart(&mut self, op: &FaultOperation) -> anyhow::Result<Option<String>> {
        let FaultOperation::RestartAggregator {
            killed,
            away_seconds,
            keeps_incidents,
        } = op
        else {
            return Ok(None);
        };
        if *keeps_incidents {
            let open = self.state().await?;
            let open: BTreeSet<String> = open.open().map(|named| named.id.clone()).collect();
            if open.is_empty() {
                return Ok(Some(
                    "no incident is open when the aggregator is stopped".to_owned(),
                ));
            }
            self.kept_incidents = open;
        }
        let away = Duration::from_secs(away_seconds.unwrap_or_default().into());
        self.restart_aggregator(*killed, away).await?;
        if !*keeps_incidents {
            return Ok(None);
        }
        let kept = std::mem::take(&mut self.kept_incidents);
        let judgement = self
            .watch(RESTORE_TIMEOUT, |state| match lost_incident(&kept, state) {
                Some(lost) => OutcomeJudgement::Waiting(lost),
                None => OutcomeJudgement::Shown(Vec::new()),
            })
            .await?;
        self.kept_incidents = kept;
        Ok(match judgement {
            OutcomeJudgement::Waiting(lost) | OutcomeJudgement::Wrong(lost) => Some(lost),
            OutcomeJudgement::Named(_) | OutcomeJudgement::Shown(_) => None,
        })
    }

    async fn restart_aggregator(&mut self, killed: bool, away: Duration) -> anyhow::Result<()> {
        let Some(aggregator) = self.aggregator.take() else {
            bail!("the aggregator is not running");
        };
        let address = aggregator.address();
        if killed {
            aggregator.kill().await?;
        } else {
            aggregator.stop().await;
        }
        sleep(away).await;
        let lab = self.lab.as_ref().context("the lab is not running")?;
        let program = std::env::current_exe().context("finding the path of this program")?;
        let parallax = parallax::sibling_binary(&program)?;
        let config = aggregator_config::config_path(lab.run());
        // A recording belongs to one aggregator process, so each has its own directory.
        self.aggregator_processes += 1;
        let folder = self.options.record.as_ref();
        let record = folder.map(|folder| folder.with_added_extension(self.aggregator_processes.to_string()));
        let node = aggregator_config::node_argument(lab.incident());
        let aggregator =
            RunningAggregator::start(&parallax, &config, address, lab.run(), node, record.as_deref()).await?;
        self.aggregator = Some(aggregator);
        Ok(())
    }
}

/// Returns an incident from before the restart that is not open under its id.
pub(super) fn lost_incident(kept: &BTreeSet<String>, state: &AggregatorState) -> Option<String> {
    let open: BTreeSet<&str> = state.open().map(|named| named.id.as_str()).collect();
    let lost = kept.iter().find(|id| !open.contains(id.as_str()))?;
    let others: Vec<&str> = open.iter().copied().collect();
    Some(format!(
        "the incident {lost} does not continue after the restart of the aggregator; open incidents: {}",
        if others.is_empty() {
            "none".to_owned()
        } else {
            others.join(", ")
        }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incident_that_is_closed_or_has_another_id_does_not_go_on() {
        let state = |id: &str, word: &str| -> AggregatorState {
            serde_json::from_value(serde_json::json!({"incidents": [{"id": id, "state": word}]})).unwrap()
        };
        let kept = BTreeSet::from(["a1".to_owned()]);
        assert_eq!(lost_incident(&kept, &state("a1", "open")), None);
        assert_eq!(lost_incident(&kept, &state("a1", "recovering")), None);
        assert!(
            lost_incident(&kept, &state("a1", "closed"))
                .unwrap()
                .ends_with("none")
        );
        assert!(
            lost_incident(&kept, &state("b2", "open"))
                .unwrap()
                .ends_with("b2")
        );
        assert_eq!(lost_incident(&BTreeSet::new(), &state("b2", "open")), None);
    }
}
