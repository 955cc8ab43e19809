//! Letting the faults happen, and what of them is not inside the machine.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::sleep;

use super::Conductor;
use crate::{
    aggregator_config,
    incident::{Incident, Op, Outcome},
    judge::{self, Judgement},
    parallax::{self, Aggregator},
};

impl Conductor {
    /// Lets the faults happen, each at its time. Answers what was wrongly said before the first.
    pub(super) async fn faults(&mut self, incident: &Incident) -> anyhow::Result<Option<String>> {
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
                self.watch(wait, |state| judge::quiet(expected, state)).await?
            } else if i == 0 {
                self.watch(wait, judge::healthy).await?
            } else {
                self.watch(wait, |_| Judgement::Waiting(String::new())).await?
            };
            if let Judgement::Wrong(wrong) = judgement {
                return Ok(Some(wrong));
            }
            let (goes, comes) = (
                fault.ops.contains(&Op::ApiServerAway {}),
                fault.ops.contains(&Op::ApiServerBack {}),
            );
            if goes {
                self.set_reachable(false).await?;
            }
            let lab = self.lab.as_mut().context("there is no lab")?;
            lab.fault(i).await?;
            let publisher = self.publisher.as_mut().context("nobody publishes")?;
            publisher.publish(lab.run(), lab.cluster())?;
            if comes {
                self.set_reachable(true).await?;
            }
            self.hear_of_nodes(&fault.ops);
            for op in &fault.ops {
                if let Op::RestartAggregator { killed, away_seconds } = op {
                    let away = Duration::from_secs(away_seconds.unwrap_or_default().into());
                    self.restart_aggregator(*killed, away).await?;
                }
            }
            self.screen.line(&format!("FAULT: {}", fault.name));
            let wrong = match (goes, comes) {
                (true, _) => self.notices_absence().await?,
                (_, true) => self.notices_return().await?,
                _ => None,
            };
            if wrong.is_some() {
                return Ok(wrong);
            }
        }
        Ok(None)
    }

    async fn restart_aggregator(&mut self, killed: bool, away: Duration) -> anyhow::Result<()> {
        let Some(aggregator) = self.aggregator.take() else {
            bail!("there is no aggregator");
        };
        let address = aggregator.address();
        if killed {
            aggregator.kill().await?;
        } else {
            aggregator.stop().await;
        }
        sleep(away).await;
        let lab = self.lab.as_ref().context("there is no lab")?;
        let program = std::env::current_exe().context("finding the path of this program")?;
        let parallax = parallax::beside(&program)?;
        let config = aggregator_config::path(lab.run());
        // A recording is one life of an aggregator: each has a folder of its own.
        self.lives += 1;
        let folder = self.options.record.as_ref();
        let record = folder.map(|folder| folder.with_added_extension(self.lives.to_string()));
        let aggregator =
            Aggregator::start(&parallax, &config, address, lab.run(), record.as_deref()).await?;
        self.aggregator = Some(aggregator);
        Ok(())
    }
}
