//! Preflights: the real binary uses the lab's aggregator, and the effects of its objects in a cluster happen in the
//! guest.

mod controllers;

use std::{process::Stdio, time::Duration};

use anyhow::{Context, bail};
use parallax_model::NodeName;
use serde_json::json;
use tokio::{
    process::Command,
    time::{Instant, sleep, timeout},
};

use self::controllers::PreflightControllers;
use super::IncidentRun;
use crate::{
    aggregator_config,
    incident::{Incident, PreflightRun, PreflightTime},
    parallax,
    preflight::{self, PreflightDocument, ReportedPreflight},
};
use parallax_api_server::ApiServer;

/// Timeout of one preflight.
const PREFLIGHT_TIMEOUT: Duration = Duration::from_mins(3);

/// Interval at which its objects are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Label of all objects of a preflight.
const PREFLIGHT_LABEL: &str = "parallax.dev/preflight";

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
            if let Some(solver) = controllers.running_solver() {
                bail!("the preflight {:?} left {solver} behind", step.name);
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
