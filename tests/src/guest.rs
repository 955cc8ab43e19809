//! The machine inside: builds the cluster, starts its processes, does what the host orders, halts with it.
//!
//! Blocking on purpose: one order after the other, and nothing else to do meanwhile.

mod capture;
mod processes;

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Instant,
};

use anyhow::{Context, bail};
use parallax_model::NodeName;

use crate::{
    client::{Answer, Ask},
    cluster::{Cluster, Effect, Node, Pod},
    command::run_all,
    control::{self, Event, MOST_BYTES, Order},
    dataplane::ipvs::{self, Rules},
    incident::{Fault, Incident, ServicePort},
    net, workloads,
};

use processes::{Processes, Table};

/// Connects to the host and serves its orders until it stops or goes away.
pub fn run(control: SocketAddr, run: &str) -> anyhow::Result<()> {
    let stream =
        TcpStream::connect(control).with_context(|| format!("connecting to the host at {control}"))?;
    stream.set_nodelay(true)?;
    let mut host = BufReader::new(stream);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    answer(
        &mut host,
        &Event::Ready {
            run: run.to_owned(),
            kernel: kernel.trim().to_owned(),
        },
    )?;
    let mut guest = Guest::new()?;
    loop {
        let mut line = Vec::new();
        host.by_ref().take(MOST_BYTES).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(());
        }
        let event = match serde_json::from_slice(&line).context("reading an order") {
            Ok(Order::Stop) => return Ok(()),
            Ok(order) => guest.obey(order).unwrap_or_else(|error| Event::Failed {
                what: format!("{error:#}"),
            }),
            Err(error) => Event::Failed {
                what: format!("{error:#}"),
            },
        };
        answer(&mut host, &event)?;
    }
}

fn answer(host: &mut BufReader<TcpStream>, event: &Event) -> anyhow::Result<()> {
    host.get_mut().write_all(&control::line(event)?)?;
    Ok(())
}

struct Guest {
    /// This program, as the host's file system has it.
    lab: String,
    built: Option<Built>,
    processes: Processes,
}

struct Built {
    cluster: Cluster,
    faults: Vec<Fault>,
    rules: BTreeMap<NodeName, Rules>,
}

impl Guest {
    fn new() -> anyhow::Result<Self> {
        let lab = std::env::current_exe().context("finding the path of this program")?;
        Ok(Self {
            lab: lab.to_string_lossy().into_owned(),
            built: None,
            processes: Processes::default(),
        })
    }

    fn obey(&mut self, order: Order) -> anyhow::Result<Event> {
        match order {
            Order::Build { incident } => self.build(&incident),
            Order::StartProbers { parallax, aggregator } => {
                for node in &self.built.as_ref().context("nothing is built yet")?.cluster.nodes {
                    let prober = workloads::prober(&parallax, node, &aggregator);
                    self.processes.start(&node.prober.name, &prober)?;
                }
                Ok(Event::Done)
            }
            Order::Fault { index } => self.fault(index),
            Order::Look { asks } => Ok(Event::Looked {
                answers: self.look(&asks)?,
            }),
            Order::Capture { node, address, ask } => {
                let (answer, packets) = capture::around(&self.lab, self.node(&node)?, address, &ask)?;
                Ok(Event::Captured { answer, packets })
            }
            Order::Alive => Ok(Event::Alive {
                ended: self.processes.ended()?,
            }),
            Order::Stop => bail!("a stop is no order to obey"),
        }
    }

    fn build(&mut self, incident: &Incident) -> anyhow::Result<Event> {
        if self.built.is_some() {
            bail!("the cluster is built already");
        }
        let start = Instant::now();
        let cluster = Cluster::derive(incident)?;
        run_all(&net::build(&cluster)).context("building the network")?;
        for node in &cluster.nodes {
            ipvs::prepare(node).run().context("preparing IPVS")?;
        }
        let mut built = Built {
            cluster,
            faults: incident.faults.clone(),
            rules: BTreeMap::new(),
        };
        built.forward()?;
        let cluster = &built.cluster;

        fs::write(workloads::RESOLV_CONF, workloads::resolv_conf()).context("writing resolv.conf")?;
        fs::write(workloads::DNSMASQ_CONF, workloads::dnsmasq_conf(cluster))
            .context("writing dnsmasq.conf")?;
        self.processes
            .start(&cluster.dns.name, &workloads::resolver(cluster))?;
        for (pod, ports) in cluster.workloads() {
            self.processes
                .start(&pod.name, &workloads::origin(&self.lab, pod, ports))?;
        }
        self.processes
            .wait_until_listening(&cluster.dns.name, Table::Udp, 53)?;
        for (pod, ports) in cluster.workloads() {
            wait_for_origin(&mut self.processes, pod, ports)?;
        }
        let pods = cluster.pods().count();
        self.built = Some(built);
        Ok(Event::Built {
            pods,
            millis: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    fn fault(&mut self, index: usize) -> anyhow::Result<Event> {
        let built = self.built.as_mut().context("nothing is built yet")?;
        let fault = built
            .faults
            .get(index)
            .with_context(|| format!("there is no fault {index}"))?
            .clone();
        let mut stopped = Vec::new();
        for op in &fault.ops {
            match built.cluster.apply(op)? {
                Effect::Started(pod, ports) => {
                    run_all(&net::pod(&built.cluster, &pod))?;
                    self.processes
                        .start(&pod.name, &workloads::origin(&self.lab, &pod, &ports))?;
                    wait_for_origin(&mut self.processes, &pod, &ports)?;
                }
                Effect::Stopped(pod) => stopped.push(pod),
                Effect::Rules => {}
            }
        }
        // As in a cluster: first nothing leads to the pod any more, then it ends.
        built.forward()?;
        for pod in stopped {
            self.processes.stop(&pod.name)?;
        }
        Ok(Event::Done)
    }

    fn look(&self, asks: &[(NodeName, Ask)]) -> anyhow::Result<Vec<Answer>> {
        let mut by_node: BTreeMap<&NodeName, Vec<(usize, &Ask)>> = BTreeMap::new();
        for (i, (node, ask)) in asks.iter().enumerate() {
            by_node.entry(node).or_default().push((i, ask));
        }
        let mut answers = BTreeMap::new();
        for (node, asks) in by_node {
            let lines: Vec<String> = asks
                .iter()
                .map(|(_, ask)| serde_json::to_string(ask))
                .collect::<Result<_, _>>()?;
            let said = workloads::client(&self.lab, self.node(node)?)
                .reading(&lines)
                .run()?;
            let said: Vec<Answer> = said.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
            if said.len() != asks.len() {
                bail!(
                    "the client on {node} gave {} answers to {} questions",
                    said.len(),
                    asks.len()
                );
            }
            answers.extend(asks.iter().map(|(i, _)| *i).zip(said));
        }
        Ok(answers.into_values().collect())
    }

    fn node(&self, name: &NodeName) -> anyhow::Result<&Node> {
        let built = self.built.as_ref().context("nothing is built yet")?;
        built
            .cluster
            .node(name)
            .with_context(|| format!("there is no node {name}"))
    }
}

fn wait_for_origin(processes: &mut Processes, pod: &Pod, ports: &[ServicePort]) -> anyhow::Result<()> {
    ports
        .iter()
        .try_for_each(|port| processes.wait_until_listening(&pod.name, Table::Tcp, port.target_port))
}

impl Built {
    /// Makes every node forward as the cluster now is.
    fn forward(&mut self) -> anyhow::Result<()> {
        for node in &self.cluster.nodes {
            let new = Rules::of(&self.cluster, node);
            let old = self.rules.remove(&node.name).unwrap_or_default();
            run_all(&new.commands_from(&old, node))
                .with_context(|| format!("changing the rules of {}", node.name))?;
            self.rules.insert(node.name.clone(), new);
        }
        Ok(())
    }
}
