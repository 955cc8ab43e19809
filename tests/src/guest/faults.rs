//! Applies faults.

use std::fs;

use anyhow::Context;
use parallax_model::{NodeName, PodName};
use rustix::process::Signal;

use super::{
    GuestMachine,
    building::{
        names_process, start, start_prober, stop_prober, wait_for_names, wait_for_ports, write_files,
    },
    processes::{ListenAddress, SocketTable},
};
use crate::{
    cluster::{ChangeEffect, ProberChange},
    command::{GuestCommand, run_all},
    control::Event,
    external::HookEvent,
    incident::ResolverSoftware,
    net, resolvers,
};

impl GuestMachine {
    pub(super) fn fault(&mut self, index: usize) -> anyhow::Result<Event> {
        let built = self.built.as_mut().context("the cluster is not built yet")?;
        let fault = built
            .steps
            .get(index)
            .with_context(|| format!("the incident has no step {index}"))?
            .clone();
        let mut stopped = Vec::new();
        for op in &fault.ops {
            let effect = self
                .built
                .as_mut()
                .context("the cluster is not built yet")?
                .cluster
                .apply(op)?;
            if let ChangeEffect::Stopped(pod) = effect {
                stopped.push(pod);
            } else {
                self.apply_effect(effect)?;
            }
        }
        // As in a cluster: first the rules stop forwarding to the Pod, then it exits.
        if self.update_rules(HookEvent::Changed)? {
            self.await_balancers()?;
        }
        self.publish_names()?;
        for pod in stopped {
            if self.processes.runs(&pod.name) {
                self.processes.stop(&pod.name)?;
            }
            net::delete_link(&pod).run()?;
        }
        Ok(Event::Done)
    }

    /// Marks a node whose grace period has passed; the kube-proxies of the other nodes follow.
    pub(super) fn mark_node_unheard(&mut self, node: &NodeName) -> anyhow::Result<Event> {
        let built = self.built.as_mut().context("the cluster is not built yet")?;
        built.cluster.set_heard(node, false)?;
        if self.update_rules(HookEvent::Changed)? {
            self.await_balancers()?;
        }
        self.publish_names()?;
        Ok(Event::Done)
    }

    /// Makes the resolvers reload the names of Services if they have changed. Caches keep their contents.
    fn publish_names(&mut self) -> anyhow::Result<()> {
        let cluster = &self
            .built
            .as_ref()
            .context("the cluster is not built yet")?
            .cluster;
        let names = resolvers::service_names(cluster);
        for resolver in &cluster.resolvers {
            let path = resolvers::service_names_path(&resolver.pod);
            let reads = resolver.software == ResolverSoftware::Dnsmasq;
            if reads && fs::read_to_string(&path).ok().as_ref() != Some(&names) {
                fs::write(&path, &names).with_context(|| format!("writing {path}"))?;
                self.processes.signal(&names_process(resolver)?, Signal::HUP)?;
            }
        }
        Ok(())
    }

    fn apply_effect(&mut self, effect: ChangeEffect) -> anyhow::Result<()> {
        let built = self.built.as_ref().context("the cluster is not built yet")?;
        let cluster = &built.cluster;
        match effect {
            ChangeEffect::Rules | ChangeEffect::Outside | ChangeEffect::Stopped(_) => {}
            ChangeEffect::Placed(pod) => run_all(&net::pod(cluster, &pod))?,
            ChangeEffect::Started(pod) => {
                run_all(&net::pod(cluster, &pod))?;
                self.start_server(&pod.name)?;
            }
            ChangeEffect::Crashed(pod) => self.processes.stop(&pod)?,
            ChangeEffect::Served(pods) => {
                for pod in &pods {
                    self.change_server(pod)?;
                }
            }
            ChangeEffect::Resolver(name) => {
                let resolver = cluster
                    .resolvers
                    .iter()
                    .find(|resolver| resolver.pod.name == name);
                let Some(resolver) = resolver else {
                    let workload = resolvers::public(cluster, &name);
                    self.processes.stop(&name)?;
                    start(&mut self.processes, &name, &workload)?;
                    return self.processes.wait_until_listening(
                        &name,
                        SocketTable::Udp,
                        ListenAddress::Port(53),
                    );
                };
                let process = names_process(resolver)?;
                self.processes.stop(&process)?;
                let workload = resolvers::names(cluster, resolver);
                start(&mut self.processes, &process, &workload)?;
                wait_for_names(&mut self.processes, resolver)?;
            }
            ChangeEffect::Prober(node, change) => self.change_prober(&node, change)?,
            ChangeEffect::Run(namespace, script) => {
                let argv = ["sh".to_owned(), "-ec".to_owned(), script];
                let command = GuestCommand {
                    netns: namespace,
                    ..GuestCommand::new(argv)
                };
                command.run()?;
            }
        }
        Ok(())
    }

    /// Reloads a server of the same kind without a gap; restarts any other.
    pub(super) fn change_server(&mut self, name: &PodName) -> anyhow::Result<()> {
        let workload = self.built_cluster()?.server(&self.lab, name)?;
        let same = self.servers.get(name) == Some(&workload.command);
        if same && self.processes.runs(name) && workload.command.argv.first().is_some_and(|p| p == "nginx") {
            write_files(&workload)?;
            return self.processes.signal(name, Signal::HUP);
        }
        if self.processes.runs(name) {
            self.processes.stop(name)?;
        }
        self.start_server(name)
    }

    /// Starts the server of a Pod and waits until it listens.
    pub(super) fn start_server(&mut self, name: &PodName) -> anyhow::Result<()> {
        let built = self.built.as_ref().context("the cluster is not built yet")?;
        let workload = built.server(&self.lab, name)?;
        start(&mut self.processes, name, &workload)?;
        wait_for_ports(&mut self.processes, name, built.service_of(name)?.0)?;
        self.servers.insert(name.clone(), workload.command);
        Ok(())
    }

    fn change_prober(&mut self, name: &NodeName, change: ProberChange) -> anyhow::Result<()> {
        let cluster = &self
            .built
            .as_ref()
            .context("the cluster is not built yet")?
            .cluster;
        let node = cluster
            .node(name)
            .with_context(|| format!("unknown node {name}"))?;
        // Without probers (`parallax-lab packets`) nothing needs to change.
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
}
