//! The effects of a preflight's objects in a cluster: Pods run, and routes are served.

use anyhow::{Context, bail};
use parallax_api_server::ApiServer;
use parallax_model::ServiceKey;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::PREFLIGHT_LABEL;
use crate::{
    cluster::{ChallengeRoute, Cluster, SolverPod},
    incident::PreflightRun,
    lab::Lab,
    objects,
};

/// A solver whose Pod runs.
#[derive(Debug)]
struct RunningSolver {
    key: ServiceKey,
    host: String,
    path: String,
    route_ready_at: bool,
}

/// Acts as kubelet and ingress controller for the objects of preflights.
#[derive(Debug, Default)]
pub(super) struct PreflightControllers {
    running: Vec<RunningSolver>,
    /// When the first controller had its route.
    pub(super) routed: Option<Instant>,
}

impl PreflightControllers {
    /// Returns the first solver that still runs.
    pub(super) fn running_solver(&self) -> Option<&ServiceKey> {
        self.running.first().map(|running| &running.key)
    }

    /// Applies the effects of new objects as a cluster would, and reverts those of deleted ones.
    pub(super) async fn reconcile(
        &mut self,
        server: &ApiServer,
        lab: &mut Lab,
        step: &PreflightRun,
        parallax: &str,
    ) -> anyhow::Result<()> {
        let made = |resource: &str| -> Vec<Value> {
            let mut all = server.all(resource);
            all.retain(|object| object["metadata"]["labels"][PREFLIGHT_LABEL].is_string());
            all
        };
        let pods = made("pods");
        for pod in &pods {
            let key = key(pod)?;
            if !self.running.iter().any(|running| running.key == key) {
                self.start(server, lab, step, parallax, pod, key).await?;
            }
        }
        for ingress in made("ingresses") {
            self.route(server, lab, &ingress).await?;
        }
        let mut gone = Vec::new();
        for (at, running) in self.running.iter().enumerate() {
            let exists = pods
                .iter()
                .any(|pod| key(pod).is_ok_and(|key| key == running.key));
            if !exists {
                gone.push(at);
            }
        }
        for at in gone.into_iter().rev() {
            let running = self.running.remove(at);
            let (namespace, name) = (running.key.namespace.as_str(), running.key.name.as_str());
            let slice = format!("{name}-1");
            if server.get("endpointslices", namespace, &slice).is_some() {
                server.delete("endpointslices", namespace, &slice);
            }
            lab.end_solver(running.key).await?;
        }
        Ok(())
    }

    /// Starts the Pod, and gives its Service an address and an endpoint.
    async fn start(
        &mut self,
        server: &ApiServer,
        lab: &mut Lab,
        step: &PreflightRun,
        parallax: &str,
        pod: &Value,
        key: ServiceKey,
    ) -> anyhow::Result<()> {
        let args = &pod["spec"]["containers"][0]["args"];
        let mut words = vec![parallax.to_owned()];
        words.extend(
            args.as_array()
                .into_iter()
                .flatten()
                .filter_map(|arg| Some(arg.as_str()?.to_owned())),
        );
        let after = |flag: &str| {
            let at = words.iter().position(|arg| arg == flag)?;
            words.get(at + 1).cloned()
        };
        let (host, token) = (after("--domain"), after("--token"));
        let (Some(host), Some(token)) = (host, token) else {
            bail!("the arguments of the Pod {key} contain no domain and token: {words:?}");
        };
        let nodes = lab.cluster().present_nodes().map(|node| &node.name);
        let node = (step.solver_on.iter().chain(nodes).next())
            .context("the cluster has no node for a solver")?
            .clone();
        let mut after_it = lab.cluster().clone();
        let solver = SolverPod {
            key: key.clone(),
            node: node.clone(),
            cluster_ip: free_address(&after_it, self.running.len())?,
            argv: words.clone(),
        };
        // The same address as in the guest.
        let address = after_it.add_solver(solver.clone())?.address;
        lab.start_solver(solver.clone()).await?;
        let (namespace, name) = (key.namespace.to_string(), key.name.to_string());
        server.amend("services", &namespace, &name, |service| {
            service["spec"]["clusterIP"] = json!(solver.cluster_ip);
            service["spec"]["clusterIPs"] = json!([solver.cluster_ip]);
        });
        server.put(
            "endpointslices",
            json!({"metadata": {"name": format!("{name}-1"), "namespace": namespace,
                    "labels": {"kubernetes.io/service-name": name}},
                "addressType": "IPv4", "ports": [{"name": "http", "port": crate::cluster::SOLVER_PORT, "protocol": "TCP"}],
                "endpoints": [{"addresses": [address], "nodeName": node, "targetRef": {"kind": "Pod", "name": name},
                    "conditions": {"ready": true, "serving": true, "terminating": false}}]}),
        );
        server.amend("pods", &namespace, &name, |pod| {
            pod["spec"]["nodeName"] = json!(node);
            pod["status"] = json!({"phase": "Running", "podIP": address,
                "conditions": [{"type": "Ready", "status": "True"}]});
        });
        self.running.push(RunningSolver {
            key,
            host,
            path: token,
            route_ready_at: false,
        });
        Ok(())
    }

    /// Makes the controllers of the Ingress's class adopt it, and publishes their address in its status.
    async fn route(&mut self, server: &ApiServer, lab: &mut Lab, ingress: &Value) -> anyhow::Result<()> {
        let key = key(ingress)?;
        let Some(running) = self.running.iter_mut().find(|running| running.key == key) else {
            return Ok(());
        };
        if running.route_ready_at {
            return Ok(());
        }
        let path = &ingress["spec"]["rules"][0]["http"]["paths"][0];
        let (Some(class), Some(path)) = (
            ingress["spec"]["ingressClassName"].as_str(),
            path["path"].as_str(),
        ) else {
            bail!("the Ingress {key} lacks a class or a path");
        };
        if !path.ends_with(&running.path) {
            bail!("the Ingress {key} has the path {path}, and its Pod answers another token");
        }
        let route = ChallengeRoute {
            to: key.clone(),
            class: class
                .parse()
                .with_context(|| format!("the class of the Ingress {key}"))?,
            host: running
                .host
                .parse()
                .with_context(|| format!("the host of the Ingress {key}"))?,
            path: path.to_owned(),
        };
        let cluster = lab.cluster();
        let status = cluster
            .services
            .iter()
            .find(|service| service.class.as_ref() == Some(&route.class))
            .map(|service| objects::balancer(cluster, service));
        lab.route(route).await?;
        running.route_ready_at = true;
        self.routed = self.routed.or(Some(Instant::now()));
        if let Some(status) = status {
            server.amend(
                "ingresses",
                key.namespace.as_str(),
                key.name.as_str(),
                |ingress| {
                    ingress["status"] = status;
                },
            );
        }
        Ok(())
    }
}

fn key(object: &Value) -> anyhow::Result<ServiceKey> {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let key = format!("{}/{}", text("namespace"), text("name"));
    key.parse().with_context(|| format!("parsing the name {key:?}"))
}

/// Returns a ClusterIP that no Service of the incident has.
fn free_address(cluster: &Cluster, taken: usize) -> anyhow::Result<std::net::Ipv4Addr> {
    let free = (1..=254).map(|last| std::net::Ipv4Addr::new(10, 111, 255, last));
    let mut free = free.filter(|address| {
        cluster
            .services
            .iter()
            .all(|service| service.cluster_ip != Some(*address))
    });
    free.nth(taken).context("no free ClusterIP for a solver")
}
