//! One lab, from the host: a run's folder, the machine, the cluster as it now is.

use std::{net::IpAddr, path::Path, time::Duration};

use anyhow::{Context, bail};
use parallax_model::{NodeName, ServiceKey};

use crate::{
    client::{ClientAnswer, ClientRequest, TimedAsk},
    cluster::{ChallengeRoute, Cluster, SolverPod, addresses},
    control::{Event, HostCommand},
    host,
    incident::{Incident, PacketLine},
    inside::{GuestAddress, GuestConnection},
    kernel::Kernel,
    machine::RunningMachine,
    packets::{self, PacketResult},
    run_dir::RunDir,
    uml,
    uplink::OutsideProxy,
};

/// Longest time from start to the first sign of life.
const BOOT: Duration = Duration::from_mins(3);

/// Longest time to halt; the process group is ended after it.
const HALT: Duration = Duration::from_secs(5);

/// Longest part of a log that is shown, in bytes.
const TAIL: usize = 4000;

/// A running lab. Dropping it ends the machine.
#[derive(Debug)]
pub struct Lab {
    // Fields are dropped in this order: the machine ends before its folder goes.
    inside: GuestConnection,
    machine: RunningMachine,
    _uplink: Option<OutsideProxy>,
    kernel: Kernel,
    cluster: Cluster,
    incident: Incident,
    run: RunDir,
    hook: Option<String>,
}

/// What building took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildTimes {
    /// Pods started.
    pub pods: usize,
    /// How long.
    pub took: Duration,
}

/// The machine did not come up.
#[derive(Debug, thiserror::Error)]
#[error("the machine did not come up ({kernel}; {why}); its log is {log}")]
pub struct BootError {
    kernel: Kernel,
    why: String,
    log: String,
}

impl Lab {
    /// Boots a machine for an incident; `program` is this crate's binary, which runs inside too. On failure the run's
    /// folder stays, for its log.
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
            ready = tokio::time::timeout(BOOT, awaited.ready()) => match ready {
                Ok(ready) => ready.map_err(|error| format!("{error:#}")),
                Err(_) => Err(format!("no sign of life within {} s", BOOT.as_secs())),
            },
            ended = machine.wait() => Err(match ended {
                Ok(status) => format!("it ended with {status}"),
                Err(error) => error.to_string(),
            }),
        };
        match ready {
            Ok(inside) => Ok(Self {
                _uplink: match kernel {
                    // slirp leads there.
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
                        Kernel::Uml => uml::explain(&why, machine.log()).await,
                        Kernel::Host => why,
                    },
                    log: machine.log().display().to_string(),
                }
                .into())
            }
        }
    }

    /// Leaves the Services to a program that is run inside (see [`crate::external`]); said before the cluster is built.
    pub fn leave_services_to(&mut self, hook: &Path) -> anyhow::Result<()> {
        let hook = hook
            .canonicalize()
            .with_context(|| format!("looking for the hook {}", hook.display()))?;
        let hook = hook.to_str().context("the hook's path is no UTF-8 text")?;
        self.hook = Some(hook.to_owned());
        Ok(())
    }

    /// Builds the cluster, healthy.
    pub async fn build(&mut self) -> anyhow::Result<BuildTimes> {
        let order = HostCommand::Build {
            incident: Box::new(self.incident.clone()),
            folder: self.run.path().display().to_string(),
            hook: self.hook.clone(),
            kernel: self.kernel,
        };
        match self.order(&order).await? {
            Event::Built { pods, millis } => Ok(BuildTimes {
                pods,
                took: Duration::from_millis(millis),
            }),
            other => bail!("unexpected answer to the order to build: {other:?}"),
        }
    }

    /// Lets a fault happen on the data plane, and in this side's picture of the cluster.
    pub async fn fault(&mut self, index: usize) -> anyhow::Result<()> {
        let fault = self
            .incident
            .faults
            .get(index)
            .with_context(|| format!("there is no fault {index}"))?;
        let mut cluster = self.cluster.clone();
        for op in &fault.ops {
            cluster.apply(op)?;
        }
        self.done(&HostCommand::Fault { index }).await?;
        self.cluster = cluster;
        Ok(())
    }

    /// The node controller has not heard of a node for its grace period: it and its pods are no longer ready.
    pub async fn unheard(&mut self, node: &NodeName) -> anyhow::Result<()> {
        let mut cluster = self.cluster.clone();
        cluster.set_heard(node, false)?;
        self.done(&HostCommand::Unheard { node: node.clone() }).await?;
        self.cluster = cluster;
        Ok(())
    }

    /// Starts a prober in each prober pod, and wherever else the incident wants one.
    pub async fn start_probers(&mut self, parallax: &Path, aggregator_port: u16) -> anyhow::Result<()> {
        let order = HostCommand::StartProbers {
            parallax: parallax.display().to_string(),
            aggregator: format!("http://{}:{aggregator_port}", addresses::HOST),
            authority: crate::certificates::authority(&self.run, &self.incident),
        };
        self.done(&order).await
    }

    /// A solver's pod starts, behind its Service. Only the data plane learns of it: its objects are another's.
    pub async fn start_solver(&mut self, solver: SolverPod) -> anyhow::Result<()> {
        let solver = Box::new(solver);
        self.done(&HostCommand::StartSolver { solver }).await
    }

    /// The controllers of a class pass a challenge on.
    pub async fn route(&mut self, route: ChallengeRoute) -> anyhow::Result<()> {
        self.done(&HostCommand::Route { route }).await
    }

    /// A solver goes, with the routes to it.
    pub async fn end_solver(&mut self, solver: ServiceKey) -> anyhow::Result<()> {
        self.done(&HostCommand::EndSolver { solver }).await
    }

    /// Asks what an incident file expects an ordinary client to see.
    pub async fn look(&mut self, looks: &[PacketLine]) -> anyhow::Result<Vec<PacketResult>> {
        let questions = packets::questions(&self.cluster, looks);
        let asks = questions
            .iter()
            .map(|q| (q.from.clone(), TimedAsk::expecting(q.ask.clone(), q.expected)))
            .collect();
        let Event::Looked { answers } = self.order(&HostCommand::Look { asks }).await? else {
            bail!("unexpected answer to the order to look");
        };
        if answers.len() != questions.len() {
            bail!("{} answers to {} questions", answers.len(), questions.len());
        }
        Ok(questions
            .into_iter()
            .zip(answers)
            .map(|(question, answer)| PacketResult { question, answer })
            .collect())
    }

    /// Asks one thing from a node's prober pod, or from outside, and records the packets between client and address.
    pub async fn capture(
        &mut self,
        node: &NodeName,
        address: IpAddr,
        ask: ClientRequest,
    ) -> anyhow::Result<(ClientAnswer, Vec<String>)> {
        match self
            .order(&HostCommand::Capture {
                node: node.clone(),
                address,
                ask,
            })
            .await?
        {
            Event::Captured { answer, packets } => Ok((answer, packets)),
            other => bail!("unexpected answer to the order to capture: {other:?}"),
        }
    }

    /// Fails when a process inside has ended on its own.
    pub async fn check_processes(&mut self) -> anyhow::Result<()> {
        match self.order(&HostCommand::Alive).await? {
            Event::Alive { ended } if ended.is_empty() => Ok(()),
            Event::Alive { ended } => bail!("ended though nobody ended them: {}", ended.join(", ")),
            other => bail!("unexpected answer to the question for life: {other:?}"),
        }
    }

    async fn done(&mut self, order: &HostCommand) -> anyhow::Result<()> {
        match self.order(order).await? {
            Event::Done => Ok(()),
            other => bail!("unexpected answer: {other:?}"),
        }
    }

    async fn order(&mut self, order: &HostCommand) -> anyhow::Result<Event> {
        self.inside.order(order).await
    }

    /// The cluster as it now is.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The incident.
    #[must_use]
    pub fn incident(&self) -> &Incident {
        &self.incident
    }

    /// The run's folder.
    #[must_use]
    pub fn run(&self) -> &RunDir {
        &self.run
    }

    /// The machine's kernel: its version, and whose it is.
    #[must_use]
    pub fn kernel(&self) -> String {
        format!("{} ({})", self.inside.kernel(), self.kernel)
    }

    /// The machine's log.
    #[must_use]
    pub fn log(&self) -> &Path {
        self.machine.log()
    }

    /// The end of the machine's log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        tail(self.machine.log())
    }

    /// Halts the machine; ends it by force when it does not. `keep` leaves the run's folder.
    pub async fn stop(mut self, keep: bool) {
        if keep {
            self.run.keep();
        }
        // A machine that does not hear or does not halt is ended by the drop below.
        if self.inside.stop().await.is_ok() {
            let _ = tokio::time::timeout(HALT, self.machine.wait()).await;
        }
    }
}

/// The end of a text file, readable whatever is in it.
#[must_use]
pub fn tail(file: &Path) -> String {
    let bytes = std::fs::read(file).unwrap_or_default();
    let from = bytes.len().saturating_sub(TAIL);
    let text = String::from_utf8_lossy(&bytes[from..]);
    text.chars().filter(|c| *c == '\n' || !c.is_control()).collect()
}
