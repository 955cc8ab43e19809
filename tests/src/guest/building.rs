//! Builds the cluster and starts its processes.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use parallax_model::PodName;

use super::{
    BuiltCluster, GuestMachine,
    processes::{ListenAddress, PodProcesses, SocketTable},
};
use crate::{
    cluster::{Cluster, Node, Resolver, Service, addresses},
    command::{GuestCommand, run_all},
    control::Event,
    dataplane::{self, NodeRules, balancer},
    external::{self, HookEvent, HookInput},
    incident::Incident,
    kernel::Kernel,
    net, report_path, resolvers,
    workloads::{self, ProberSettings, WorkloadProcess},
};

impl GuestMachine {
    pub(super) fn build(
        &mut self,
        incident: &Incident,
        folder: PathBuf,
        hook: Option<String>,
        kernel: Kernel,
    ) -> anyhow::Result<Event> {
        if self.built.is_some() {
            bail!("the cluster is built already");
        }
        let start = Instant::now();
        let cluster = Cluster::derive(incident)?;
        run_all(&net::build(&cluster)).context("building the network")?;
        if let Some(pod) = &cluster.aggregator {
            run_all(&report_path::commands(pod)).context("building the way to the aggregator")?;
        }
        for node in &cluster.nodes {
            let prepare = match hook {
                Some(_) => dataplane::prepare_plugin(&cluster, node),
                None => dataplane::prepare(&cluster, node, kernel),
            };
            run_all(&prepare).context("preparing the nodes")?;
            run_all(&net::return_path(&cluster, node))
                .context("preparing the return path through the balancer")?;
        }
        let pods = cluster.pods().count();
        self.built = Some(BuiltCluster {
            cluster,
            steps: incident.steps(),
            rules: BTreeMap::new(),
            folder,
            hook,
            kernel,
        });
        self.update_rules(HookEvent::Built)?;
        self.start_workloads()?;
        self.start_balancers()?;
        Ok(Event::Built {
            pods,
            millis: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    pub(super) fn start_workloads(&mut self) -> anyhow::Result<()> {
        let built = self.built.as_ref().context("the cluster is not built yet")?;
        let cluster = &built.cluster;
        for resolver in &cluster.resolvers {
            let workload = resolvers::names(cluster, resolver);
            start(&mut self.processes, &names_process(resolver)?, &workload)?;
            if let Some(cache) = resolvers::cache(resolver) {
                start(&mut self.processes, &resolver.pod.name, &cache)?;
            }
        }
        let public = public_name()?;
        start(&mut self.processes, &public, &resolvers::public(cluster, &public))?;
        for (_, pod) in cluster.workloads() {
            let workload = built.server(&self.lab, &pod.name)?;
            start(&mut self.processes, &pod.name, &workload)?;
            self.servers.insert(pod.name.clone(), workload.command);
        }
        for resolver in &cluster.resolvers {
            wait_for_names(&mut self.processes, resolver)?;
            self.processes.wait_until_listening(
                &resolver.pod.name,
                SocketTable::Udp,
                ListenAddress::Port(53),
            )?;
        }
        self.processes
            .wait_until_listening(&public, SocketTable::Udp, ListenAddress::Port(53))?;
        for (service, pod) in cluster.workloads() {
            wait_for_ports(&mut self.processes, &pod.name, service)?;
        }
        Ok(())
    }

    pub(super) fn start_balancers(&mut self) -> anyhow::Result<()> {
        let built = self.built.as_ref().context("the cluster is not built yet")?;
        if !built.cluster.has_balancers() {
            return Ok(());
        }
        let name = process_name("cloud-balancer")?;
        self.processes
            .start(&name, &GuestCommand::new([self.lab.as_str(), "balancer"]))?;
        let certificate = built
            .folder
            .join(workloads::CERTIFICATE_FILE)
            .display()
            .to_string();
        if let Some(text) = balancer::haproxy_conf(&built.cluster, &certificate) {
            fs::write(balancer::HAPROXY_CONF_PATH, text).context("writing the balancer's configuration")?;
            let command = GuestCommand::new(["haproxy", "-db", "-f", balancer::HAPROXY_CONF_PATH]);
            let haproxy = process_name("cloud-haproxy")?;
            self.processes.start(&haproxy, &command)?;
            for address in balancer::haproxy_listeners(&built.cluster) {
                self.processes.wait_until_listening(
                    &haproxy,
                    SocketTable::Tcp,
                    ListenAddress::Address(address),
                )?;
            }
        }
        self.await_balancers()
    }

    /// Waits until the balancers have checked the nodes of their current configuration.
    pub(super) fn await_balancers(&mut self) -> anyhow::Result<()> {
        let wanted =
            fs::read_to_string(balancer::CONFIG_PATH).context("reading the balancers' configuration")?;
        let begun = Instant::now();
        while fs::read_to_string(balancer::READY_PATH).ok().as_ref() != Some(&wanted) {
            if let Some(ended) = self.processes.exited()?.first() {
                bail!("while waiting for the balancers' health checks: {ended}");
            }
            if begun.elapsed() > BALANCER_TIMEOUT {
                bail!(
                    "the balancers did not complete their health checks within {} s",
                    BALANCER_TIMEOUT.as_secs()
                );
            }
            sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    pub(super) fn start_probers(&mut self) -> anyhow::Result<()> {
        let cluster = &self
            .built
            .as_ref()
            .context("the cluster is not built yet")?
            .cluster;
        let settings = self.probers.as_ref().context("no prober has been started yet")?;
        for node in cluster.present_nodes() {
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

    /// Updates the rules of every node and balancer to the current cluster; returns whether a balancer's configuration
    /// changed.
    pub(super) fn update_rules(&mut self, event: HookEvent) -> anyhow::Result<bool> {
        let built = self.built.as_mut().context("the cluster is not built yet")?;
        for node in &built.cluster.nodes {
            // A node whose kube-proxy is stopped keeps its rules.
            if built.cluster.is_kube_proxy_stopped(&node.name) && built.rules.contains_key(&node.name) {
                continue;
            }
            let new = match built.hook {
                Some(_) => NodeRules::for_network_plugin(&built.cluster, node),
                None => NodeRules::for_node(&built.cluster, node, built.kernel),
            };
            let old = built.rules.remove(&node.name).unwrap_or_default();
            run_all(&new.commands_from(&old, &built.cluster, node))
                .with_context(|| format!("changing the rules of {}", node.name))?;
            built.rules.insert(node.name.clone(), new);
        }
        if let Some(hook) = &built.hook {
            let text = serde_json::to_string_pretty(&HookInput::from_cluster(&built.cluster))?;
            replace(external::FILE, &text)?;
            external::command(hook, event)
                .run()
                .with_context(|| format!("running the hook {hook}"))?;
        }
        if !built.cluster.has_balancers() {
            return Ok(false);
        }
        let text = serde_json::to_string(&balancer::listeners(&built.cluster))?;
        if fs::read_to_string(balancer::CONFIG_PATH).is_ok_and(|old| old == text) {
            return Ok(false);
        }
        replace(balancer::CONFIG_PATH, &text)?;
        Ok(true)
    }
}

/// Replaces a file atomically: a reader sees the old or the new text.
fn replace(path: &str, text: &str) -> anyhow::Result<()> {
    let new = format!("{path}.new");
    fs::write(&new, text).with_context(|| format!("writing {new}"))?;
    fs::rename(&new, path).with_context(|| format!("replacing {path}"))
}

/// Timeout of the balancers' first health checks.
const BALANCER_TIMEOUT: Duration = Duration::from_mins(1);

pub(super) fn process_name(name: &str) -> anyhow::Result<PodName> {
    PodName::new(name).with_context(|| format!("naming the process {name}"))
}

pub(super) fn public_name() -> anyhow::Result<PodName> {
    process_name(addresses::PUBLIC_RESOLVER)
}

/// Returns the process with a resolver's names: the resolver itself, or the server behind its cache.
pub(super) fn names_process(resolver: &Resolver) -> anyhow::Result<PodName> {
    match resolver.cache_seconds {
        Some(_) => process_name(&format!("{}-names", resolver.pod.name)),
        None => Ok(resolver.pod.name.clone()),
    }
}

pub(super) fn wait_for_names(processes: &mut PodProcesses, resolver: &Resolver) -> anyhow::Result<()> {
    let port = resolver.cache_seconds.map_or(53, |_| addresses::NAMES_PORT);
    processes.wait_until_listening(
        &names_process(resolver)?,
        SocketTable::Udp,
        ListenAddress::Port(port),
    )
}

pub(super) fn host_prober_name(node: &Node) -> anyhow::Result<PodName> {
    process_name(&format!("prober-host-{}", node.name))
}

pub(super) fn start(
    processes: &mut PodProcesses,
    name: &PodName,
    workload: &WorkloadProcess,
) -> anyhow::Result<()> {
    write_files(workload)?;
    processes.start(name, &workload.command)
}

pub(super) fn write_files(workload: &WorkloadProcess) -> anyhow::Result<()> {
    workload
        .files
        .iter()
        .try_for_each(|(path, text)| fs::write(path, text).with_context(|| format!("writing {path}")))
}

pub(super) fn start_prober(
    processes: &mut PodProcesses,
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

pub(super) fn stop_prober(processes: &mut PodProcesses, node: &Node) -> anyhow::Result<()> {
    if node.probes && processes.runs(&node.prober.name) {
        processes.stop(&node.prober.name)?;
    }
    if node.host_prober {
        processes.stop(&host_prober_name(node)?)?;
    }
    Ok(())
}

pub(super) fn wait_for_ports(
    processes: &mut PodProcesses,
    pod: &PodName,
    service: &Service,
) -> anyhow::Result<()> {
    service.ports.iter().try_for_each(|port| {
        processes.wait_until_listening(pod, SocketTable::Tcp, ListenAddress::Port(port.target_port))
    })
}
