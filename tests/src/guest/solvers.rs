//! Solvers of challenges that come and go, as a kubelet, kube-proxy and an ingress controller make of their objects.

use anyhow::Context;
use parallax_model::{PodName, ServiceKey};

use super::Guest;
use crate::{
    cluster::{Route, Solver},
    command::run_all,
    control::Event,
    external::Why,
    net,
};

impl Guest {
    pub(super) fn start_solver(&mut self, solver: Solver) -> anyhow::Result<Event> {
        let built = self.built.as_mut().context("nothing is built yet")?;
        let pod = built.cluster.add_solver(solver)?;
        run_all(&net::pod(&built.cluster, &pod))?;
        self.serve(&pod.name)?;
        self.forward(Why::Changed)?;
        Ok(Event::Done)
    }

    pub(super) fn route(&mut self, route: Route) -> anyhow::Result<Event> {
        let built = self.built.as_mut().context("nothing is built yet")?;
        let controllers = built.cluster.controllers(&route.class);
        built.cluster.routes.push(route);
        self.reload(&controllers)
    }

    pub(super) fn end_solver(&mut self, solver: &ServiceKey) -> anyhow::Result<Event> {
        let built = self.built.as_mut().context("nothing is built yet")?;
        let routes = built.cluster.routes.iter().filter(|route| route.to == *solver);
        let controllers: Vec<PodName> = routes
            .flat_map(|route| built.cluster.controllers(&route.class))
            .collect();
        let pod = built.cluster.remove_solver(solver)?;
        self.reload(&controllers)?;
        self.forward(Why::Changed)?;
        self.servers.remove(&pod);
        self.processes.stop(&pod)?;
        Ok(Event::Done)
    }

    /// Controllers read their configuration anew.
    fn reload(&mut self, controllers: &[PodName]) -> anyhow::Result<Event> {
        for controller in controllers {
            self.change_server(controller)?;
        }
        Ok(Event::Done)
    }
}
