//! Preflights: the real binary uses the lab's aggregator, and the effects of its objects in a cluster happen in the
//! guest.

use std::{process::Stdio, time::Duration};

use anyhow::{Context, bail};
use parallax_model::{NodeName, ServiceKey};
use serde_json::{Value, json};
use tokio::{
    process::Command,
    time::{Instant, sleep, timeout},
};

use super::IncidentRun;
use crate::{
    aggregator_config,
    cluster::{ChallengeRoute, Cluster, SolverPod},
    incident::{Incident, PreflightRun, PreflightTime},
    lab::Lab,
    objects, parallax,
    preflight::{self, PreflightDocument, ReportedPreflight},
};
use parallax_api_server::ApiServer;

/// Timeout of one preflight.
const PREFLIGHT_TIMEOUT: Duration = Duration::from_mins(3);

/// Interval at which its objects are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Label of all objects of a preflight.
const PREFLIGHT_LABEL: &str = "parallax.dev/preflight";

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
struct PreflightControllers {
    running: Vec<RunningSolver>,
    /// When the first controller had its route.
    routed: Option<Instant>,
}

impl IncidentRun {
    /// Runs the preflights that are due. Returns what differs from the expectations.
    pub(super) async fn preflights(
        &mut self,
        incident: &Incident,
        when: PreflightTime,
    ) -> anyhow::Result<Option<String>> {
        for step in incident.preflight.iter().filter(|step| step.when == when) {
            let (shown, wrong) = self.preflight(incident, step).await?;
            self.screen.line(&format!(
                "preflight: {} ({:.1} s)",
                shown.sentences.join("; "),
                shown.seconds
            ));
            self.preflights.push(shown);
            if wrong.is_some() {
                return Ok(wrong);
            }
        }
        Ok(None)
    }

    async fn preflight(
        &mut self,
        incident: &Incident,
        step: &PreflightRun,
    ) -> anyhow::Result<(ReportedPreflight, Option<String>)> {
        let program = std::env::current_exe().context("finding the path of this program")?;
        let parallax = parallax::sibling_binary(&program)?;
        let lab = self.lab.as_mut().context("the lab is not running")?;
        let server = self
            .publisher
            .as_ref()
            .and_then(|publisher| publisher.api_server());
        if let Some(server) = server {
            place_cert_manager(server, step.cert_manager_on.as_ref());
        }
        let args = arguments(incident, step);
        let aggregator = self
            .aggregator
            .as_ref()
            .context("the aggregator is not running")?;
        let begun = Instant::now();
        let mut command = Command::new(&parallax);
        command
            .args(&args)
            .args(["--server", &aggregator_config::page_url(aggregator.address())])
            .env("KUBECONFIG", lab.run().file(aggregator_config::KUBECONFIG))
            .env_remove("PARALLAX_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let child = command
            .spawn()
            .with_context(|| format!("starting {}", parallax.display()))?;
        let mut controllers = PreflightControllers::default();
        let work = child.wait_with_output();
        tokio::pin!(work);
        let output = timeout(PREFLIGHT_TIMEOUT, async {
            loop {
                tokio::select! {
                    output = &mut work => return output.context("waiting for parallax preflight"),
                    () = sleep(POLL_INTERVAL) => {
                        if let Some(server) = server {
                            controllers.reconcile(server, lab, step, &parallax.display().to_string()).await?;
                        }
                    }
                }
            }
        })
        .await
        .with_context(|| {
            format!(
                "parallax preflight does not end within {} s",
                PREFLIGHT_TIMEOUT.as_secs()
            )
        })??;
        let ended = Instant::now();
        if let Some(server) = server {
            controllers
                .reconcile(server, lab, step, &parallax.display().to_string())
                .await?;
            if let Some(left) = controllers.running.first() {
                bail!("the preflight {:?} left {} behind", step.name, left.key);
            }
        }
        let typed = format!("parallax {}", args.join(" "));
        let Ok(document) = serde_json::from_slice::<PreflightDocument>(&output.stdout) else {
            bail!(
                "{typed} exited with {} without a document: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            );
        };
        let code = output.status.code();
        let mut shown = ReportedPreflight::of(step, typed, code.unwrap_or(-1), &document);
        shown.seconds = (ended - begun).as_secs_f64();
        shown.seconds_after_route = controllers.routed.map(|at| (ended - at).as_secs_f64());
        Ok((shown, preflight::first_difference(step, code, &document)))
    }
}

/// Returns the command-line arguments.
fn arguments(incident: &Incident, step: &PreflightRun) -> Vec<String> {
    let mut args = vec!["preflight".to_owned()];
    args.extend(step.hosts.iter().map(ToString::to_string));
    args.extend(["--json", "--profile", step.profile.argument()].map(str::to_owned));
    match &step.class {
        Some(class) => {
            let ingresses = &incident.topology.ingresses;
            let of_host = |host| {
                ingresses
                    .iter()
                    .find(|ingress| ingress.hosts.names().contains(host))
            };
            let namespace = step
                .hosts
                .first()
                .and_then(of_host)
                .map_or("default", |ingress| ingress.ingress.namespace.as_str());
            // The image is never pulled: the lab runs the binary under test.
            let words = [
                "--class",
                class.as_str(),
                "-n",
                namespace,
                "--image",
                "parallax:lab",
            ];
            args.extend(words.map(str::to_owned));
        }
        None => args.push("--no-create".to_owned()),
    }
    if let Some(seconds) = step.ready_seconds {
        args.extend(["--ready".to_owned(), seconds.to_string()]);
    }
    if step.strict {
        args.push("--strict".to_owned());
    }
    args
}

/// Creates cert-manager's Deployment, its only Pod and the Lease that this Pod holds, or deletes them.
fn place_cert_manager(server: &ApiServer, node: Option<&NodeName>) {
    let labels =
        json!({"app.kubernetes.io/name": "cert-manager", "app.kubernetes.io/component": "controller"});
    let pod = "cert-manager-1";
    let meta = |name: &str, namespace: &str| json!({"name": name, "namespace": namespace, "labels": labels});
    let all = [
        (
            "deployments",
            json!({"metadata": meta("cert-manager", "cert-manager"), "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "cert-manager-controller", "args": []}]}},
            }}),
        ),
        (
            "pods",
            json!({"metadata": meta(pod, "cert-manager"), "spec": {"nodeName": node}, "status": {"phase": "Running"}}),
        ),
        (
            "leases",
            json!({"metadata": meta("cert-manager-controller", "kube-system"),
                "spec": {"holderIdentity": format!("{pod}-external-cert-manager-controller")}}),
        ),
    ];
    for (resource, object) in all {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        match node {
            Some(_) => server.put(resource, object),
            None if server.get(resource, &namespace, &name).is_some() => {
                server.delete(resource, &namespace, &name);
            }
            None => {}
        }
    }
}

impl PreflightControllers {
    /// Applies the effects of new objects as a cluster would, and reverts those of deleted ones.
    async fn reconcile(
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
            let there = pods
                .iter()
                .any(|pod| key(pod).is_ok_and(|key| key == running.key));
            if !there {
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
