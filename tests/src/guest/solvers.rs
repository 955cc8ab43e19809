//! Adds and removes solvers of challenges, as a kubelet, kube-proxy and an ingress controller would for their objects.

use anyhow::Context;
use parallax_model::{PodName, ServiceKey};

use super::GuestMachine;
use crate::{
    cluster::{ChallengeRoute, SolverPod},
    command::run_all,
    control::Event,
    external::HookEvent,
    net,
};

impl GuestMachine {
    pub(super) fn start_solver(&mut self, solver: SolverPod) -> anyhow::Result<Event> {
        let built = self.built.as_mut().context("the cluster is not built yet")?;
        let pod = built.cluster.add_solver(solver)?;
        run_all(&net::pod(&built.cluster, &pod))?;
        self.start_server(&pod.name)?;
        self.update_rules(HookEvent::Changed)?;
        Ok(Event::Done)
    }

    pub(super) fn route(&mut self, route: ChallengeRoute) -> anyhow::Result<Event> {
        let built = self.built.as_mut().context("the cluster is not built yet")?;
        let controllers = built.cluster.controllers(&route.class);
        built.cluster.routes.push(route);
        self.reload(&controllers)
    }

    pub(super) fn end_solver(&mut self, solver: &ServiceKey) -> anyhow::Result<Event> {
        let built = self.built.as_mut().context("the cluster is not built yet")?;
        let routes = built.cluster.routes.iter().filter(|route| route.to == *solver);
        let controllers: Vec<PodName> = routes
            .flat_map(|route| built.cluster.controllers(&route.class))
            .collect();
        let pod = built.cluster.remove_solver(solver)?;
        self.reload(&controllers)?;
        self.update_rules(HookEvent::Changed)?;
        self.servers.remove(&pod);
        self.processes.stop(&pod)?;
        Ok(Event::Done)
    }

    /// Makes controllers reload their configuration.
    fn reload(&mut self, controllers: &[PodName]) -> anyhow::Result<Event> {
        for controller in controllers {
            self.change_server(controller)?;
        }
        Ok(Event::Done)
    }
}
