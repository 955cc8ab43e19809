//! The node controller: a node that is cut off stays ready until nothing has been heard of it for the grace period.

use std::time::Duration;

use anyhow::Context;
use tokio::time::Instant;

use super::IncidentRun;
use crate::incident::FaultOperation;

/// `--node-monitor-grace-period` of the controller manager. It is 50 s since Kubernetes 1.32; 40 s is what most clusters have.
const GRACE: Duration = Duration::from_secs(40);

impl IncidentRun {
    /// Takes over which nodes are silent from now on.
    pub(super) fn hear_of_nodes(&mut self, ops: &[FaultOperation]) {
        for op in ops {
            match op {
                FaultOperation::CrashNode { node } => {
                    self.silent.insert(node.clone(), Instant::now() + GRACE);
                }
                FaultOperation::RecoverNode { node } | FaultOperation::LeaveNode { node } => {
                    self.silent.remove(node);
                }
                _ => {}
            }
        }
    }

    /// Marks the nodes whose grace period is over, and their pods, as not ready.
    pub(super) async fn check_nodes(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        while let Some(node) = self
            .silent
            .iter()
            .find(|(_, due)| **due <= now)
            .map(|(node, _)| node.clone())
        {
            self.silent.remove(&node);
            let lab = self.lab.as_mut().context("there is no lab")?;
            lab.unheard(&node).await?;
            let publisher = self.publisher.as_mut().context("nobody publishes")?;
            publisher.publish(lab.run(), lab.cluster())?;
            self.screen.line(&format!("{node} is marked as not ready"));
        }
        Ok(())
    }
}
