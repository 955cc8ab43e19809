//! Control protocol between host and guest: one JSON line per message, over one connection: TCP opened by the guest,
//! or a socket pair that it was started with. Each command gets one reply. The guest halts when the connection ends.

use std::net::IpAddr;

use parallax_model::{NodeName, ServiceKey};
use serde::{Deserialize, Serialize};

use crate::{
    client::{ClientResult, Request, TimedRequest},
    cluster::{ChallengeRoute, SolverPod},
    incident::Incident,
    kernel::Kernel,
};

/// Message of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
pub enum HostCommand {
    /// Build the cluster and start its workloads.
    Build {
        /// What to build.
        incident: Box<Incident>,
        /// The run's directory, as a path of the host.
        folder: String,
        /// Hook that implements the Services instead of the lab, as a path of the host.
        hook: Option<String>,
        /// The kernel in use.
        kernel: Kernel,
    },
    /// Start a prober in each prober Pod.
    StartProbers {
        /// The `parallax` binary.
        parallax: String,
        /// The aggregator's address as seen from the guest.
        aggregator: String,
        /// The CA that signed the servers' certificates, if any.
        authority: Option<String>,
    },
    /// Apply a fault.
    Fault {
        /// Its index in the incident.
        index: usize,
    },
    /// The node controller's grace period for a node has passed.
    NodeGracePeriodPassed {
        /// The node.
        node: NodeName,
    },
    /// Start a solver Pod and its Service.
    StartSolver {
        /// The solver.
        solver: Box<SolverPod>,
    },
    /// Route a challenge in an ingress controller.
    Route {
        /// The route.
        route: ChallengeRoute,
    },
    /// Remove a solver and its routes.
    EndSolver {
        /// The solver.
        solver: ServiceKey,
    },
    /// Send requests from the prober Pods of nodes or from clients outside.
    SendRequests {
        /// Client and request.
        asks: Vec<(NodeName, TimedRequest)>,
    },
    /// Send one request and capture the packets between the client and an address meanwhile.
    Capture {
        /// The node of the prober pod, or the client outside.
        node: NodeName,
        /// The address.
        address: IpAddr,
        /// The request.
        ask: Request,
    },
    /// Check that all processes still run.
    Alive,
    /// Halt.
    Stop,
}

/// Message of the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// Booted; sent once, without a command.
    Ready {
        /// The run it belongs to.
        run: String,
        /// Its kernel.
        kernel: String,
    },
    /// The cluster is built.
    Built {
        /// Number of Pods started.
        pods: usize,
        /// Duration in milliseconds.
        millis: u64,
    },
    /// The command is completed.
    Done,
    /// Results in the order of the requests.
    Results {
        /// The results.
        answers: Vec<ClientResult>,
    },
    /// Result and captured packets.
    Captured {
        /// The result.
        answer: ClientResult,
        /// One line per packet, as printed by tcpdump.
        packets: Vec<String>,
    },
    /// Processes that have exited unexpectedly.
    Alive {
        /// Their names.
        ended: Vec<String>,
    },
    /// The command failed; the cluster may be incomplete.
    Failed {
        /// The failed operation and its error.
        what: String,
    },
}

/// Serializes a message as a line.
pub fn line<T: Serialize>(message: &T) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn an_order_with_a_whole_incident_is_one_line_and_reads_back() {
        let text = include_str!("../incidents/i1-50-hosts.yaml");
        let incident = crate::incident_file::parse(Path::new("i1-50-hosts.yaml"), text).unwrap();
        let order = HostCommand::Build {
            incident: Box::new(incident),
            folder: "/tmp/run".to_owned(),
            hook: None,
            kernel: Kernel::Uml,
        };
        let line = line(&order).unwrap();
        assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        assert_eq!(serde_json::from_slice::<HostCommand>(&line).unwrap(), order);
    }
}
