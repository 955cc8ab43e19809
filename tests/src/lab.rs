//! One lab, from the host's side: the run's directory, the machine, and the current cluster.

use std::{net::IpAddr, path::Path, time::Duration};

use anyhow::{Context, bail};
use parallax_model::{NodeName, ServiceKey};

use crate::{
    client::{ClientResult, Request, TimedRequest},
    cluster::{ChallengeRoute, Cluster, SolverPod},
    control::{Event, HostCommand},
    guest_connection::{GuestAddress, GuestConnection},
    host,
    incident::{Incident, PacketLine},
    kernel::Kernel,
    machine::RunningMachine,
    packets::{self, PacketResult},
    run_dir::RunDir,
    uml,
    uplink::OutsideProxy,
};

/// Timeout from start to the guest's first message.
const BOOT_TIMEOUT: Duration = Duration::from_mins(3);

/// Timeout to halt; afterwards the process group is killed.
const HALT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum part of a log that is shown, in bytes.
const MAX_TAIL_BYTES: usize = 4000;

/// A running lab. Dropping it kills the machine.
#[derive(Debug)]
pub struct Lab {
    // Fields are dropped in this order: the machine is killed before its directory is deleted.
    inside: GuestConnection,
    machine: RunningMachine,
    _uplink: Option<OutsideProxy>,
    kernel: Kernel,
    cluster: Cluster,
    incident: Incident,
    run: RunDir,
    hook: Option<String>,
}

/// Result of building the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildTimes {
    /// Number of Pods started.
    pub pods: usize,
    /// Duration.
    pub duration: Duration,
}

/// The machine did not boot.
#[derive(Debug, thiserror::Error)]
#[error("the machine did not boot ({kernel}; {why}); see its log {log}")]
pub struct BootError {
    kernel: Kernel,
    why: String,
    log: String,
}

impl Lab {
    /// Boots a machine for an incident; `program` is this crate's binary, which also runs inside. On failure the run's
    /// directory is kept for its log.
    pub async fn boot(
        program: &Path,
        mut run: RunDir,
        incident: Incident,
        kernel: Kernel,
    ) -> anyhow::Result<Self> {
        let cluster = Cluster::derive(&incident)?;
        crate::certificates::issue(&run, &incident)?;
        let (awaited, mut machine) = match kernel {
            Kernel::Uml => {
                let (awaited, control) = GuestAddress::listen(run.id()).await?;
                (awaited, uml::start(program, &run, control)?)
            }
            Kernel::Host => {
                let (awaited, control) = GuestAddress::pair(run.id())?;
                (awaited, host::start(program, &run, control)?)
            }
        };
        let ready = tokio::select! {
            ready = tokio::time::timeout(BOOT_TIMEOUT, awaited.ready()) => match ready {
                Ok(ready) => ready.map_err(|error| format!("{error:#}")),
                Err(_) => Err(format!("no message within {} s", BOOT_TIMEOUT.as_secs())),
            },
            ended = machine.wait() => Err(match ended {
                Ok(status) => format!("it exited with {status}"),
                Err(error) => error.to_string(),
            }),
        };
        match ready {
            Ok(inside) => Ok(Self {
                _uplink: match kernel {
                    // slirp leads to the host.
                    Kernel::Uml => None,
                    Kernel::Host => machine.pid().map(OutsideProxy::open).transpose()?,
                },
                inside,
                machine,
                kernel,
                cluster,
                incident,
                run,
                hook: None,
            }),
            Err(why) => {
                run.keep();
                Err(BootError {
                    kernel,
                    why: match kernel {
                        Kernel::Uml => uml::add_reason(&why, machine.log()).await,
                        Kernel::Host => why,
                    },
                    log: machine.log().display().to_string(),
                }
                .into())
            }
        }
    }

    /// Leaves the Services to a hook (see [`crate::external`]); call it before the cluster is built.
    pub fn set_service_hook(&mut self, hook: &Path) -> anyhow::Result<()> {
        let hook = hook
            .canonicalize()
            .with_context(|| format!("looking for the hook {}", hook.display()))?;
        let hook = hook.to_str().context("the hook's path is not valid UTF-8")?;
        self.hook = Some(hook.to_owned());
        Ok(())
    }

    /// Builds the healthy cluster.
    pub async fn build(&mut self) -> anyhow::Result<BuildTimes> {
        let order = HostCommand::Build {
            incident: Box::new(self.incident.clone()),
            folder: self.run.path().display().to_string(),
            hook: self.hook.clone(),
            kernel: self.kernel,
        };
        match self.execute(&order).await? {
            Event::Built { pods, millis } => Ok(BuildTimes {
                pods,
                duration: Duration::from_millis(millis),
            }),
            other => bail!("unexpected reply to Build: {other:?}"),
        }
    }

    /// Applies a step of the incident, a fault or the repair, to the data plane and to this side's copy of the cluster.
    pub async fn fault(&mut self, index: usize) -> anyhow::Result<()> {
        let steps = self.incident.steps();
        let fault = steps
            .get(index)
            .with_context(|| format!("the incident has no step {index}"))?;
        let mut cluster = self.cluster.clone();
        for op in &fault.ops {
            cluster.apply(op)?;
        }
        self.done(&HostCommand::Fault { index }).await?;
        self.cluster = cluster;
        Ok(())
    }

    /// Marks a node and its Pods not ready: the node controller's grace period has passed.
    pub async fn mark_node_unheard(&mut self, node: &NodeName) -> anyhow::Result<()> {
        let mut cluster = self.cluster.clone();
        cluster.set_heard(node, false)?;
        self.done(&HostCommand::NodeGracePeriodPassed { node: node.clone() })
            .await?;
        self.cluster = cluster;
        Ok(())
    }

    /// Starts a prober in each prober Pod, and wherever else the incident wants one.
    pub async fn start_probers(&mut self, parallax: &Path, aggregator_port: u16) -> anyhow::Result<()> {
        let order = HostCommand::StartProbers {
            parallax: parallax.display().to_string(),
            aggregator: format!("http://{}:{aggregator_port}", self.cluster.aggregator_address()),
            authority: crate::certificates::ca_path(&self.run, &self.incident),
        };
        self.done(&order).await
    }

    /// Starts a solver Pod behind its Service, in the data plane only: its objects are managed elsewhere.
    pub async fn start_solver(&mut self, solver: SolverPod) -> anyhow::Result<()> {
        let solver = Box::new(solver);
        self.done(&HostCommand::StartSolver { solver }).await
    }

    /// Routes a challenge in the controllers of a class.
    pub async fn route(&mut self, route: ChallengeRoute) -> anyhow::Result<()> {
        self.done(&HostCommand::Route { route }).await
    }

    /// Removes a solver and its routes.
    pub async fn end_solver(&mut self, solver: ServiceKey) -> anyhow::Result<()> {
        self.done(&HostCommand::EndSolver { solver }).await
    }

    /// Sends the requests for what an incident file expects of an ordinary client.
    pub async fn send_requests(&mut self, looks: &[PacketLine]) -> anyhow::Result<Vec<PacketResult>> {
        let questions = packets::packet_checks(&self.cluster, looks);
        let asks = questions
            .iter()
            .map(|q| {
                (
                    q.from.clone(),
                    TimedRequest::expecting(q.request.clone(), q.expected),
                )
            })
            .collect();
        let Event::Results { answers } = self.execute(&HostCommand::SendRequests { asks }).await? else {
            bail!("unexpected reply to Look");
        };
        if answers.len() != questions.len() {
            bail!("{} results for {} requests", answers.len(), questions.len());
        }
        Ok(questions
            .into_iter()
            .zip(answers)
            .map(|(question, answer)| PacketResult {
                check: question,
                result: answer,
            })
            .collect())
    }

    /// Sends one request from a node's prober Pod or from outside, and captures the packets between client and address.
    pub async fn capture(
        &mut self,
        node: &NodeName,
        address: IpAddr,
        ask: Request,
    ) -> anyhow::Result<(ClientResult, Vec<String>)> {
        match self
            .execute(&HostCommand::Capture {
                node: node.clone(),
                address,
                ask,
            })
            .await?
        {
            Event::Captured { answer, packets } => Ok((answer, packets)),
            other => bail!("unexpected reply to Capture: {other:?}"),
        }
    }

    /// Fails if a process inside has exited unexpectedly.
    pub async fn check_processes(&mut self) -> anyhow::Result<()> {
        match self.execute(&HostCommand::Alive).await? {
            Event::Alive { ended } if ended.is_empty() => Ok(()),
            Event::Alive { ended } => bail!("processes exited unexpectedly: {}", ended.join(", ")),
            other => bail!("unexpected reply to Alive: {other:?}"),
        }
    }

    async fn done(&mut self, order: &HostCommand) -> anyhow::Result<()> {
        match self.execute(order).await? {
            Event::Done => Ok(()),
            other => bail!("unexpected reply: {other:?}"),
        }
    }

    async fn execute(&mut self, order: &HostCommand) -> anyhow::Result<Event> {
        self.inside.execute(order).await
    }

    /// Returns the current cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns the incident.
    #[must_use]
    pub fn incident(&self) -> &Incident {
        &self.incident
    }

    /// Returns the run's directory.
    #[must_use]
    pub fn run(&self) -> &RunDir {
        &self.run
    }

    /// Describes the machine's kernel: its version, and whether it is the lab's own.
    #[must_use]
    pub fn kernel(&self) -> String {
        format!("{} ({})", self.inside.kernel(), self.kernel)
    }

    /// Returns the path of the machine's log.
    #[must_use]
    pub fn log(&self) -> &Path {
        self.machine.log()
    }

    /// Returns the end of the machine's log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        tail(self.machine.log())
    }

    /// Halts the machine, or kills it if it does not halt. `keep` keeps the run's directory.
    pub async fn stop(mut self, keep: bool) {
        if keep {
            self.run.keep();
        }
        // A machine that does not respond or halt is killed by the drop below.
        if self.inside.stop().await.is_ok() {
            let _ = tokio::time::timeout(HALT_TIMEOUT, self.machine.wait()).await;
        }
    }
}

/// Returns the end of a text file; invalid UTF-8 is replaced.
#[must_use]
pub fn tail(file: &Path) -> String {
    let bytes = std::fs::read(file).unwrap_or_default();
    let from = bytes.len().saturating_sub(MAX_TAIL_BYTES);
    let text = String::from_utf8_lossy(&bytes[from..]);
    text.chars().filter(|c| *c == '\n' || !c.is_control()).collect()
}
