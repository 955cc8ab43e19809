//! The node controller: a disconnected node stays ready until its grace period has passed.

use std::time::Duration;

use anyhow::Context;
use tokio::time::Instant;

use super::IncidentRun;
use crate::incident::FaultOperation;

/// `--node-monitor-grace-period` of the controller manager. The default is 50 s since Kubernetes 1.32; most clusters
/// have 40 s.
const MONITOR_GRACE_PERIOD: Duration = Duration::from_secs(40);

impl IncidentRun {
    /// Records which nodes are disconnected from now on.
    pub(super) fn record_disconnections(&mut self, ops: &[FaultOperation]) {
        for op in ops {
            match op {
                FaultOperation::CrashNode { node } => {
                    self.disconnected_nodes
                        .insert(node.clone(), Instant::now() + MONITOR_GRACE_PERIOD);
                }
                FaultOperation::RecoverNode { node } | FaultOperation::LeaveNode { node } => {
                    self.disconnected_nodes.remove(node);
                }
                _ => {}
            }
        }
    }

    /// Marks nodes whose grace period has passed, and their Pods, as not ready.
    pub(super) async fn mark_expired_nodes(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        while let Some(node) = self
            .disconnected_nodes
            .iter()
            .find(|(_, due)| **due <= now)
            .map(|(node, _)| node.clone())
        {
            self.disconnected_nodes.remove(&node);
            let lab = self.lab.as_mut().context("the lab is not running")?;
            lab.mark_node_unheard(&node).await?;
            let publisher = self.publisher.as_mut().context("the topology is not published")?;
            publisher.publish(lab.run(), lab.cluster())?;
            self.screen.line(&format!("{node} is marked not ready"));
        }
        Ok(())
    }
}
