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
    path::PathBuf,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use parallax_model::{NodeName, PodName};
use rustix::process::Signal;

use crate::{
    client::{Answer, Ask},
    cluster::{Cluster, Effect, Node, Pod, ProberChange, Service, addresses},
    command::{Cmd, run_all},
    control::{self, Event, MOST_BYTES, Order},
    dataplane::{
        balancer,
        ipvs::{self, Rules},
    },
    incident::{Fault, Incident},
    net,
    workloads::{self, ProberSettings, Workload},
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
    /// What runs in the pods behind Services.
    servers: BTreeMap<PodName, Cmd>,
    /// How probers are started, once they are.
    probers: Option<ProberSettings>,
}

struct Built {
    cluster: Cluster,
    faults: Vec<Fault>,
    rules: BTreeMap<NodeName, Rules>,
    folder: PathBuf,
}

impl Built {
    fn service_of(&self, name: &PodName) -> anyhow::Result<(&Service, &Pod)> {
        self.cluster
            .workloads()
            .find(|(_, pod)| pod.name == *name)
            .with_context(|| format!("there is no pod {name}"))
    }

    /// What runs in a pod.
    fn server(&self, lab: &str, name: &PodName) -> anyhow::Result<Workload> {
        let (service, pod) = self.service_of(name)?;
        Ok(workloads::server(lab, &self.folder, &self.cluster, service, pod))
    }
}

impl Guest {
    fn new() -> anyhow::Result<Self> {
        let lab = std::env::current_exe().context("finding the path of this program")?;
        Ok(Self {
            lab: lab.to_string_lossy().into_owned(),
            built: None,
            processes: Processes::default(),
            servers: BTreeMap::new(),
            probers: None,
        })
    }

    fn obey(&mut self, order: Order) -> anyhow::Result<Event> {
        match order {
            Order::Build { incident, folder } => self.build(&incident, folder.into()),
            Order::StartProbers {
                parallax,
                aggregator,
                authority,
            } => {
                self.probers = Some(ProberSettings {
                    parallax,
                    aggregator,
                    authority,
                });
                self.start_probers()?;
                Ok(Event::Done)
            }
            Order::Fault { index } => self.fault(index),
            Order::Look { asks } => Ok(Event::Looked {
                answers: self.look(&asks)?,
            }),
            Order::Capture { node, address, ask } => {
                let cluster = &self.built()?.cluster;
                let gateway = cluster
                    .node(&node)
                    .map_or(addresses::OUTSIDE_GATEWAY, |node| addresses::gateway(node.number));
                let namespace = namespace(cluster, &node)?;
                let (answer, packets) = capture::around(&self.lab, &namespace, gateway, address, &ask)?;
                Ok(Event::Captured { answer, packets })
            }
            Order::Alive => Ok(Event::Alive {
                ended: self.processes.ended()?,
            }),
            Order::Stop => bail!("a stop is no order to obey"),
        }
    }

    fn built(&self) -> anyhow::Result<&Built> {
        self.built.as_ref().context("nothing is built yet")
    }

    fn build(&mut self, incident: &Incident, folder: PathBuf) -> anyhow::Result<Event> {
        if self.built.is_some() {
            bail!("the cluster is built already");
        }
        let start = Instant::now();
        let cluster = Cluster::derive(incident)?;
        run_all(&net::build(&cluster)).context("building the network")?;
        for node in &cluster.nodes {
            run_all(&ipvs::prepare(&cluster, node)).context("preparing the nodes")?;
            if let Some(marks) = net::return_path(&cluster, node) {
                marks.run().context("preparing the way back to the balancer")?;
            }
        }
        let pods = cluster.pods().count();
        self.built = Some(Built {
            cluster,
            faults: incident.faults.clone(),
            rules: BTreeMap::new(),
            folder,
        });
        self.forward()?;
        self.start_workloads()?;
        self.start_balancers()?;
        Ok(Event::Built {
            pods,
            millis: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    fn start_workloads(&mut self) -> anyhow::Result<()> {
        let built = self.built.as_ref().context("nothing is built yet")?;
        let cluster = &built.cluster;
        for resolver in &cluster.resolvers {
            let workload = workloads::resolver(cluster, resolver);
            start(&mut self.processes, &resolver.pod.name, &workload)?;
        }
        let public = public_name()?;
        start(
            &mut self.processes,
            &public,
            &workloads::public_resolver(cluster, &public),
        )?;
        for (_, pod) in cluster.workloads() {
            let workload = built.server(&self.lab, &pod.name)?;
            start(&mut self.processes, &pod.name, &workload)?;
            self.servers.insert(pod.name.clone(), workload.command);
        }
        for resolver in &cluster.resolvers {
            self.processes
                .wait_until_listening(&resolver.pod.name, Table::Udp, 53)?;
        }
        self.processes.wait_until_listening(&public, Table::Udp, 53)?;
        for (service, pod) in cluster.workloads() {
            wait_for_ports(&mut self.processes, &pod.name, service)?;
        }
        Ok(())
    }

    fn start_balancers(&mut self) -> anyhow::Result<()> {
        let built = self.built.as_ref().context("nothing is built yet")?;
        if !built.cluster.has_balancers() {
            return Ok(());
        }
        let name = process_name("cloud-balancer")?;
        self.processes
            .start(&name, &Cmd::new([self.lab.as_str(), "balancer"]))?;
        if let Some(text) = balancer::haproxy_conf(&built.cluster) {
            fs::write(balancer::HAPROXY_CONF, text).context("writing the balancer's configuration")?;
            let command = Cmd::new(["haproxy", "-db", "-f", balancer::HAPROXY_CONF]);
            self.processes.start(&process_name("cloud-haproxy")?, &command)?;
        }
        self.await_balancers()
    }

    /// Until the balancers have checked the nodes as they are now told to.
    fn await_balancers(&mut self) -> anyhow::Result<()> {
        let wanted = fs::read_to_string(balancer::CONFIG).context("reading the balancers' configuration")?;
        let begun = Instant::now();
        while fs::read_to_string(balancer::READY).ok().as_ref() != Some(&wanted) {
            if let Some(ended) = self.processes.ended()?.first() {
                bail!("while the balancers check: {ended}");
            }
            if begun.elapsed() > BALANCER_PATIENCE {
                bail!(
                    "the balancers did not check within {} s",
                    BALANCER_PATIENCE.as_secs()
                );
            }
            sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn start_probers(&mut self) -> anyhow::Result<()> {
        let cluster = &self.built.as_ref().context("nothing is built yet")?.cluster;
        let settings = self.probers.as_ref().context("no prober was started yet")?;
        for node in cluster.present() {
            start_prober(&mut self.processes, settings, cluster, node)?;
        }
        for outside in &cluster.outside {
            let name = process_name(&format!("prober-outside-{}", outside.name))?;
            start(
                &mut self.processes,
                &name,
                &workloads::outside_prober(settings, outside),
            )?;
        }
        Ok(())
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
            let effect = self
                .built
                .as_mut()
                .context("nothing is built yet")?
                .cluster
                .apply(op)?;
            if let Effect::Stopped(pod) = effect {
                stopped.push(pod);
            } else {
                self.carry_out(effect)?;
            }
        }
        // As in a cluster: first nothing leads to the pod any more, then it ends.
        if self.forward()? {
            self.await_balancers()?;
        }
        for pod in stopped {
            if self.processes.runs(&pod.name) {
                self.processes.stop(&pod.name)?;
            }
        }
        Ok(Event::Done)
    }

    fn carry_out(&mut self, effect: Effect) -> anyhow::Result<()> {
        let built = self.built.as_ref().context("nothing is built yet")?;
        let cluster = &built.cluster;
        match effect {
            Effect::Rules | Effect::Outside | Effect::Stopped(_) => {}
            Effect::Started(pod) => {
                run_all(&net::pod(cluster, &pod))?;
                self.serve(&pod.name)?;
            }
            Effect::Crashed(pod) => self.processes.stop(&pod)?,
            Effect::Served(pods) => {
                for pod in &pods {
                    self.change_server(pod)?;
                }
            }
            Effect::Resolver(name) => {
                let resolver = cluster
                    .resolvers
                    .iter()
                    .find(|resolver| resolver.pod.name == name);
                let workload = match resolver {
                    Some(resolver) => workloads::resolver(cluster, resolver),
                    None => workloads::public_resolver(cluster, &name),
                };
                self.processes.stop(&name)?;
                start(&mut self.processes, &name, &workload)?;
                self.processes.wait_until_listening(&name, Table::Udp, 53)?;
            }
            Effect::Prober(node, change) => self.change_prober(&node, change)?,
            Effect::Run(namespace, script) => {
                let argv = ["sh".to_owned(), "-ec".to_owned(), script];
                let command = Cmd {
                    netns: namespace,
                    ..Cmd::new(argv)
                };
                command.run()?;
            }
        }
        Ok(())
    }

    /// A server that stays what it is reads its configuration anew, without a gap; any other starts anew.
    fn change_server(&mut self, name: &PodName) -> anyhow::Result<()> {
        let workload = self.built()?.server(&self.lab, name)?;
        let same = self.servers.get(name) == Some(&workload.command);
        if same && self.processes.runs(name) && workload.command.argv.first().is_some_and(|p| p == "nginx") {
            write_files(&workload)?;
            return self.processes.signal(name, Signal::HUP);
        }
        if self.processes.runs(name) {
            self.processes.stop(name)?;
        }
        self.serve(name)
    }

    /// Starts the server of a pod and waits until it listens.
    fn serve(&mut self, name: &PodName) -> anyhow::Result<()> {
        let built = self.built.as_ref().context("nothing is built yet")?;
        let workload = built.server(&self.lab, name)?;
        start(&mut self.processes, name, &workload)?;
        wait_for_ports(&mut self.processes, name, built.service_of(name)?.0)?;
        self.servers.insert(name.clone(), workload.command);
        Ok(())
    }

    fn change_prober(&mut self, name: &NodeName, change: ProberChange) -> anyhow::Result<()> {
        let cluster = &self.built.as_ref().context("nothing is built yet")?.cluster;
        let node = cluster
            .node(name)
            .with_context(|| format!("there is no node {name}"))?;
        // Without probers (`parallax-lab packets`) there is nothing to change.
        let Some(settings) = &self.probers else {
            return Ok(());
        };
        let processes = &mut self.processes;
        match change {
            ProberChange::Stall => processes.signal(&node.prober.name, Signal::STOP),
            ProberChange::Resume => processes.signal(&node.prober.name, Signal::CONT),
            ProberChange::Start => start_prober(processes, settings, cluster, node),
            ProberChange::Stop => stop_prober(processes, node),
            ProberChange::Restart => {
                stop_prober(processes, node)?;
                start_prober(processes, settings, cluster, node)
            }
        }
    }

    fn look(&self, asks: &[(NodeName, Ask)]) -> anyhow::Result<Vec<Answer>> {
        let mut by_client: BTreeMap<&NodeName, Vec<(usize, &Ask)>> = BTreeMap::new();
        for (i, (client, ask)) in asks.iter().enumerate() {
            by_client.entry(client).or_default().push((i, ask));
        }
        // Clients ask side by side, as what is dropped is waited for.
        let said: Vec<anyhow::Result<Vec<(usize, Answer)>>> = std::thread::scope(|scope| {
            let asking: Vec<_> = by_client
                .into_iter()
                .map(|(client, asks)| scope.spawn(move || self.look_from(client, &asks)))
                .collect();
            let joined = asking.into_iter();
            joined
                .map(|asking| asking.join().unwrap_or_else(|_| bail!("a client ended")))
                .collect()
        });
        let mut answers = BTreeMap::new();
        for said in said {
            answers.extend(said?);
        }
        Ok(answers.into_values().collect())
    }

    fn look_from(&self, client: &NodeName, asks: &[(usize, &Ask)]) -> anyhow::Result<Vec<(usize, Answer)>> {
        let lines: Vec<String> = asks
            .iter()
            .map(|(_, ask)| serde_json::to_string(ask))
            .collect::<Result<_, _>>()?;
        let said = workloads::client(&self.lab, &namespace(&self.built()?.cluster, client)?)
            .reading(&lines)
            .run()?;
        let said: Vec<Answer> = said.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        if said.len() != asks.len() {
            bail!(
                "the client on {client} gave {} answers to {} questions",
                said.len(),
                asks.len()
            );
        }
        Ok(asks.iter().map(|(i, _)| *i).zip(said).collect())
    }

    /// Makes every node and balancer forward as the cluster now is; answers whether balancers were told anything new.
    fn forward(&mut self) -> anyhow::Result<bool> {
        let built = self.built.as_mut().context("nothing is built yet")?;
        for node in &built.cluster.nodes {
            // A node whose kube-proxy stands still keeps what it has.
            if built.cluster.is_frozen(&node.name) && built.rules.contains_key(&node.name) {
                continue;
            }
            let new = Rules::of(&built.cluster, node);
            let old = built.rules.remove(&node.name).unwrap_or_default();
            run_all(&new.commands_from(&old, node))
                .with_context(|| format!("changing the rules of {}", node.name))?;
            built.rules.insert(node.name.clone(), new);
        }
        if !built.cluster.has_balancers() {
            return Ok(false);
        }
        let text = serde_json::to_string(&balancer::listeners(&built.cluster))?;
        if fs::read_to_string(balancer::CONFIG).is_ok_and(|old| old == text) {
            return Ok(false);
        }
        // A reader sees the old or the new text, never half of one.
        let new = format!("{}.new", balancer::CONFIG);
        fs::write(&new, text).with_context(|| format!("writing {new}"))?;
        fs::rename(&new, balancer::CONFIG).with_context(|| format!("replacing {}", balancer::CONFIG))?;
        Ok(true)
    }
}

/// Longest time until the balancers have checked the nodes for the first time.
const BALANCER_PATIENCE: Duration = Duration::from_secs(20);

fn namespace(cluster: &Cluster, client: &NodeName) -> anyhow::Result<String> {
    cluster
        .client(client)
        .with_context(|| format!("there is no client {client}"))
}

fn process_name(name: &str) -> anyhow::Result<PodName> {
    PodName::new(name).with_context(|| format!("naming the process {name}"))
}

fn public_name() -> anyhow::Result<PodName> {
    process_name(addresses::PUBLIC_RESOLVER)
}

fn host_prober_name(node: &Node) -> anyhow::Result<PodName> {
    process_name(&format!("prober-host-{}", node.name))
}

fn start(processes: &mut Processes, name: &PodName, workload: &Workload) -> anyhow::Result<()> {
    write_files(workload)?;
    processes.start(name, &workload.command)
}

fn write_files(workload: &Workload) -> anyhow::Result<()> {
    workload
        .files
        .iter()
        .try_for_each(|(path, text)| fs::write(path, text).with_context(|| format!("writing {path}")))
}

fn start_prober(
    processes: &mut Processes,
    settings: &ProberSettings,
    cluster: &Cluster,
    node: &Node,
) -> anyhow::Result<()> {
    if node.probes {
        let workload = workloads::prober(settings, cluster, node);
        start(processes, &node.prober.name, &workload)?;
    }
    if node.host_prober {
        let workload = workloads::host_prober(settings, cluster, node);
        start(processes, &host_prober_name(node)?, &workload)?;
    }
    Ok(())
}

fn stop_prober(processes: &mut Processes, node: &Node) -> anyhow::Result<()> {
    if node.probes {
        processes.stop(&node.prober.name)?;
    }
    if node.host_prober {
        processes.stop(&host_prober_name(node)?)?;
    }
    Ok(())
}

fn wait_for_ports(processes: &mut Processes, pod: &PodName, service: &Service) -> anyhow::Result<()> {
    service
        .ports
        .iter()
        .try_for_each(|port| processes.wait_until_listening(pod, Table::Tcp, port.target_port))
}
