//! What the host tells the machine inside, and what it answers: one JSON line each, over one connection: TCP that the
//! inside opens, or a pair of sockets it was started with. One order, one answer. When it ends, the machine halts.

use std::net::IpAddr;

use parallax_model::{NodeName, ServiceKey};
use serde::{Deserialize, Serialize};

use crate::{
    client::{ClientAnswer, ClientRequest, TimedAsk},
    cluster::{ChallengeRoute, SolverPod},
    incident::Incident,
    kernel::Kernel,
};

/// Longest line either side accepts, in bytes: an incident with a thousand hosts has about 40 KiB.
pub const MOST_BYTES: u64 = 1 << 20;

/// From the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
pub enum HostCommand {
    /// Build the cluster and start its workloads.
    Build {
        /// What to build.
        incident: Box<Incident>,
        /// The run's folder, as the host's file system has it.
        folder: String,
        /// Who makes the Services work instead of the lab, as the host's file system has it.
        hook: Option<String>,
        /// Whose kernel it is.
        kernel: Kernel,
    },
    /// Start a prober in each prober pod.
    StartProbers {
        /// The `parallax` binary.
        parallax: String,
        /// The aggregator, as seen from inside.
        aggregator: String,
        /// The authority that signed the servers' certificates, where there are any.
        authority: Option<String>,
    },
    /// Let a fault happen.
    Fault {
        /// Its place in the incident.
        index: usize,
    },
    /// The node controller has not heard of a node for its grace period.
    Unheard {
        /// The node.
        node: NodeName,
    },
    /// A solver's pod starts, behind its Service.
    StartSolver {
        /// It.
        solver: Box<SolverPod>,
    },
    /// Controllers pass a challenge on.
    Route {
        /// Which, and to whom.
        route: ChallengeRoute,
    },
    /// A solver and the routes to it go.
    EndSolver {
        /// It.
        solver: ServiceKey,
    },
    /// Try things, from the prober pods of nodes or from clients outside.
    Look {
        /// What to try from where.
        asks: Vec<(NodeName, TimedAsk)>,
    },
    /// Try one thing and record the packets between the client and an address meanwhile.
    Capture {
        /// The node of the prober pod, or the client outside.
        node: NodeName,
        /// The address.
        address: IpAddr,
        /// What to try.
        ask: ClientRequest,
    },
    /// Say whether all processes still run.
    Alive,
    /// Halt.
    Stop,
}

/// From the machine inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// Booted; sent once, unasked.
    Ready {
        /// The run it belongs to.
        run: String,
        /// Its kernel.
        kernel: String,
    },
    /// The cluster stands.
    Built {
        /// Pods started.
        pods: usize,
        /// Milliseconds it took.
        millis: u64,
    },
    /// The order is done.
    Done,
    /// What was seen, in the order asked.
    Looked {
        /// The answers.
        answers: Vec<ClientAnswer>,
    },
    /// What was seen, and the packets.
    Captured {
        /// The answer.
        answer: ClientAnswer,
        /// One line a packet, as tcpdump prints it.
        packets: Vec<String>,
    },
    /// Which processes have ended though nobody ended them.
    Alive {
        /// Their names.
        ended: Vec<String>,
    },
    /// The order failed; the cluster may be half built.
    Failed {
        /// What was tried and what is wrong.
        what: String,
    },
}

/// A line as it is sent.
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
        let incident = crate::incident::parse(Path::new("i1-50-hosts.yaml"), text).unwrap();
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
