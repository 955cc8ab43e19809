//! The guest: builds the cluster, starts its processes, executes the host's commands, and halts with it.
//!
//! Blocking on purpose: it executes one command at a time and has nothing else to do.

mod building;
mod capture;
mod faults;
mod processes;
mod solvers;

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    os::{fd::AsFd, unix::net::UnixStream},
    path::PathBuf,
};

use anyhow::{Context, bail};
use parallax_model::{NodeName, PodName};

use crate::{
    client::{ClientResult, MAX_LINE_BYTES, TimedRequest},
    cluster::{Cluster, Pod, Service, addresses},
    command::GuestCommand,
    control::{self, Event, HostCommand},
    dataplane::NodeRules,
    incident::TimedFault,
    kernel::Kernel,
    workloads::{self, ProberSettings, WorkloadProcess},
};

use processes::PodProcesses;

/// A control connection of either kind.
trait GuestStream: Read + Write {}

impl<T: Read + Write> GuestStream for T {}

/// Connects to the host and serves its commands until it stops or the connection ends. Without an address, standard
/// input is the connection.
pub fn run(control: Option<SocketAddr>, run: &str) -> anyhow::Result<()> {
    let stream: Box<dyn GuestStream> = if let Some(control) = control {
        let stream =
            TcpStream::connect(control).with_context(|| format!("connecting to the host at {control}"))?;
        stream.set_nodelay(true)?;
        Box::new(stream)
    } else {
        let input = std::io::stdin().as_fd().try_clone_to_owned();
        Box::new(UnixStream::from(input.context("taking the standard input")?))
    };
    let mut host = BufReader::new(stream);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    answer(
        &mut host,
        &Event::Ready {
            run: run.to_owned(),
            kernel: kernel.trim().to_owned(),
        },
    )?;
    let mut guest = GuestMachine::new()?;
    loop {
        let mut line = Vec::new();
        host.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(());
        }
        let event = match serde_json::from_slice(&line).context("parsing a command") {
            Ok(HostCommand::Stop) => return Ok(()),
            Ok(order) => guest.execute(order).unwrap_or_else(|error| Event::Failed {
                what: format!("{error:#}"),
            }),
            Err(error) => Event::Failed {
                what: format!("{error:#}"),
            },
        };
        answer(&mut host, &event)?;
    }
}

fn answer(host: &mut BufReader<Box<dyn GuestStream>>, event: &Event) -> anyhow::Result<()> {
    host.get_mut().write_all(&control::line(event)?)?;
    Ok(())
}

struct GuestMachine {
    /// Path of this program on the host.
    lab: String,
    built: Option<BuiltCluster>,
    processes: PodProcesses,
    /// Servers in the Pods behind Services.
    servers: BTreeMap<PodName, GuestCommand>,
    /// How to start probers, once they run.
    probers: Option<ProberSettings>,
}

struct BuiltCluster {
    cluster: Cluster,
    /// Faults and repair.
    steps: Vec<TimedFault>,
    rules: BTreeMap<NodeName, NodeRules>,
    folder: PathBuf,
    /// Hook that implements the Services instead of the lab.
    hook: Option<String>,
    kernel: Kernel,
}

impl BuiltCluster {
    fn service_of(&self, name: &PodName) -> anyhow::Result<(&Service, &Pod)> {
        self.cluster
            .workloads()
            .find(|(_, pod)| pod.name == *name)
            .with_context(|| format!("no Pod {name} in the cluster"))
    }

    /// Returns the process in a Pod.
    fn server(&self, lab: &str, name: &PodName) -> anyhow::Result<WorkloadProcess> {
        let (service, pod) = self.service_of(name)?;
        Ok(workloads::server(lab, &self.folder, &self.cluster, service, pod))
    }
}

impl GuestMachine {
    fn new() -> anyhow::Result<Self> {
        let lab = std::env::current_exe().context("finding the path of this program")?;
        Ok(Self {
            lab: lab.to_string_lossy().into_owned(),
            built: None,
            processes: PodProcesses::default(),
            servers: BTreeMap::new(),
            probers: None,
        })
    }

    fn execute(&mut self, order: HostCommand) -> anyhow::Result<Event> {
        match order {
            HostCommand::Build {
                incident,
                folder,
                hook,
                kernel,
            } => self.build(&incident, folder.into(), hook, kernel),
            HostCommand::StartProbers {
                parallax,
                aggregator,
                authority,
            } => {
                self.probers = Some(ProberSettings {
                    parallax,
                    aggregator,
                    ca: authority,
                });
                self.start_probers()?;
                Ok(Event::Done)
            }
            HostCommand::Fault { index } => self.fault(index),
            HostCommand::NodeGracePeriodPassed { node } => self.mark_node_unheard(&node),
            HostCommand::StartSolver { solver } => self.start_solver(*solver),
            HostCommand::Route { route } => self.route(route),
            HostCommand::EndSolver { solver } => self.end_solver(&solver),
            HostCommand::SendRequests { asks } => Ok(Event::Results {
                answers: self.send_requests(&asks)?,
            }),
            HostCommand::Capture { node, address, ask } => {
                let cluster = &self.built_cluster()?.cluster;
                let gateway = cluster.node(&node).map_or(addresses::OUTSIDE_GATEWAY, |node| {
                    addresses::gateway_address(node.number)
                });
                let namespace = namespace(cluster, &node)?;
                let (answer, packets) =
                    capture::capture_request(&self.lab, &namespace, gateway, address, &ask)?;
                Ok(Event::Captured { answer, packets })
            }
            HostCommand::Alive => Ok(Event::Alive {
                ended: self.processes.exited()?,
            }),
            HostCommand::Stop => bail!("unexpected command Stop"),
        }
    }

    fn built_cluster(&self) -> anyhow::Result<&BuiltCluster> {
        self.built.as_ref().context("the cluster is not built yet")
    }

    fn send_requests(&self, asks: &[(NodeName, TimedRequest)]) -> anyhow::Result<Vec<ClientResult>> {
        let mut by_client: BTreeMap<&NodeName, Vec<(usize, &TimedRequest)>> = BTreeMap::new();
        for (i, (client, ask)) in asks.iter().enumerate() {
            by_client.entry(client).or_default().push((i, ask));
        }
        // Clients run in parallel, so that timeouts of dropped packets overlap.
        let results: Vec<anyhow::Result<Vec<(usize, ClientResult)>>> = std::thread::scope(|scope| {
            let asking: Vec<_> = by_client
                .into_iter()
                .map(|(client, asks)| scope.spawn(move || self.send_requests_from(client, &asks)))
                .collect();
            let joined = asking.into_iter();
            joined
                .map(|asking| {
                    asking
                        .join()
                        .unwrap_or_else(|_| bail!("a client thread panicked"))
                })
                .collect()
        });
        let mut answers = BTreeMap::new();
        for results in results {
            answers.extend(results?);
        }
        Ok(answers.into_values().collect())
    }

    fn send_requests_from(
        &self,
        client: &NodeName,
        asks: &[(usize, &TimedRequest)],
    ) -> anyhow::Result<Vec<(usize, ClientResult)>> {
        let lines: Vec<String> = asks
            .iter()
            .map(|(_, ask)| serde_json::to_string(ask))
            .collect::<Result<_, _>>()?;
        let results = workloads::client(&self.lab, &namespace(&self.built_cluster()?.cluster, client)?)
            .with_stdin(&lines)
            .run()?;
        let results: Vec<ClientResult> = results
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()?;
        if results.len() != asks.len() {
            bail!(
                "the client on {client} returned {} results for {} requests",
                results.len(),
                asks.len()
            );
        }
        Ok(asks.iter().map(|(i, _)| *i).zip(results).collect())
    }
}

fn namespace(cluster: &Cluster, client: &NodeName) -> anyhow::Result<String> {
    cluster
        .client_namespace(client)
        .with_context(|| format!("no client {client} in the cluster"))
}
