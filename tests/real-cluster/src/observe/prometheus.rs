//! A real Prometheus with the shipped rules, which scrapes the Pods selected by the product's own `PodMonitors`,
//! labelled as by the Prometheus operator.

use std::{fs, net::SocketAddr, path::Path, time::Duration};

use anyhow::{Context, bail};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use parallax_test_support::prometheus::{PrometheusProcess, data_directory, rules_file};
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use super::discovery::{Discovery, label_name};
use crate::{cluster::PodView, exchange::exchange};

/// Scrape and evaluation interval.
const INTERVAL: &str = "5s";

/// Timeout until it is ready.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout of a query.
const QUERY_TIMEOUT: Duration = Duration::from_secs(3);

/// A running Prometheus; killed on drop.
#[derive(Debug)]
pub struct Prometheus {
    process: PrometheusProcess,
    discovery: Discovery,
}

impl Prometheus {
    /// Starts it in a directory.
    ///
    /// # Errors
    /// It is not installed, or does not become ready.
    pub async fn start(folder: &Path, monitors: &[Value], proxy: SocketAddr) -> anyhow::Result<Self> {
        let pods = folder.join("pods.json");
        // Data of an earlier run.
        let _ = fs::remove_dir_all(data_directory(folder));
        let discovery = Discovery::begin(&pods).with_context(|| format!("writing {}", pods.display()))?;
        // JSON is YAML.
        let config = settings(&rules_file(folder), &pods, monitors, proxy).to_string();
        let process = PrometheusProcess::start("prometheus".as_ref(), folder, &config)?;
        let log = process.log().to_owned();
        let mut prometheus = Self { process, discovery };
        prometheus
            .ready()
            .await
            .with_context(|| format!("see {}", log.display()))?;
        Ok(prometheus)
    }

    /// Makes it scrape these Pods from now on, as far as its `PodMonitors` select them.
    pub fn set_targets(&self, pods: &[PodView]) {
        self.discovery.renew(pods);
    }

    /// Returns the address of its page.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.process.address()
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        let begin = Instant::now();
        while self.get("/api/v1/status/buildinfo").await.is_err() {
            if let Some(status) = self.process.exit_status()? {
                bail!("Prometheus exited: {status}");
            }
            if begin.elapsed() > START_TIMEOUT {
                bail!("Prometheus is not ready after {START_TIMEOUT:?}");
            }
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Queries its API.
    ///
    /// # Errors
    /// No response within three seconds, or invalid JSON.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let fetch = async {
            let stream = TcpStream::connect(self.address()).await?;
            let request = Request::get(path)
                .header("host", "prometheus")
                .body(Full::new(Bytes::new()))?;
            anyhow::Ok(serde_json::from_slice(&exchange(stream, request).await?.body)?)
        };
        timeout(QUERY_TIMEOUT, fetch)
            .await
            .context("no response from Prometheus")?
    }
}

/// Builds the configuration that the operator would generate for the `PodMonitors`, except for the interval and the
/// proxy.
fn settings(rules: &Path, pods: &Path, monitors: &[Value], proxy: SocketAddr) -> Value {
    let scrapes: Vec<Value> = monitors
        .iter()
        .flat_map(|monitor| {
            let endpoints = monitor["spec"]["podMetricsEndpoints"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            endpoints
                .into_iter()
                .enumerate()
                .map(move |(i, endpoint)| scrape(monitor, i, &endpoint, pods, proxy))
        })
        .collect();
    json!({
        "global": {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL, "scrape_timeout": "4s"},
        "rule_files": [rules],
        "scrape_configs": scrapes,
    })
}

fn scrape(monitor: &Value, i: usize, endpoint: &Value, pods: &Path, proxy: SocketAddr) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (
        text(&monitor["metadata"]["namespace"]),
        text(&monitor["metadata"]["name"]),
    );
    let port = text(&endpoint["port"]);
    let keep =
        |label: String, value: &str| json!({"action": "keep", "source_labels": [label], "regex": value});
    let copy = |label: &str, to: &str| json!({"source_labels": [label], "target_label": to});
    let set = |to: &str, value: String| json!({"target_label": to, "replacement": value});
    let labels = monitor["spec"]["selector"]["matchLabels"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let mut relabelled: Vec<Value> = labels
        .iter()
        .map(|(label, value)| {
            let label = format!("__meta_kubernetes_pod_label_{}", label_name(label));
            keep(label, &text(value))
        })
        .collect();
    relabelled.extend([
        keep("__meta_kubernetes_namespace".to_owned(), &namespace),
        json!({"action": "drop", "source_labels": ["__meta_kubernetes_pod_phase"], "regex": "(Failed|Succeeded)"}),
        keep("__meta_kubernetes_pod_container_port_name".to_owned(), &port),
        copy("__meta_kubernetes_namespace", "namespace"),
        copy("__meta_kubernetes_pod_container_name", "container"),
        copy("__meta_kubernetes_pod_name", "pod"),
        set("job", format!("{namespace}/{name}")),
        set("endpoint", port),
    ]);
    json!({
        "job_name": format!("podMonitor/{namespace}/{name}/{i}"),
        "honor_labels": endpoint["honorLabels"].as_bool().unwrap_or(false),
        "proxy_url": format!("http://{proxy}"),
        "file_sd_configs": [{"files": [pods]}],
        "relabel_configs": relabelled,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_monitor_becomes_a_scrape_of_its_pods_with_the_operators_labels() {
        let monitor = json!({"metadata": {"name": "parallax-aggregator", "namespace": "parallax"}, "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": "parallax"}}, "podMetricsEndpoints": [{"port": "http"}]}});
        let made = settings(
            Path::new("/r.yaml"),
            Path::new("/pods.json"),
            &[monitor],
            SocketAddr::from(([127, 0, 0, 1], 9)),
        );
        let scrape = &made["scrape_configs"][0];
        assert_eq!(scrape["honor_labels"], false);
        let relabelled = scrape["relabel_configs"].as_array().unwrap();
        let kept = json!({"action": "keep", "source_labels": ["__meta_kubernetes_pod_label_app_kubernetes_io_name"], "regex": "parallax"});
        assert!(relabelled.contains(&kept), "{relabelled:?}");
        let job = json!({"target_label": "job", "replacement": "parallax/parallax-aggregator"});
        assert!(relabelled.contains(&job), "{relabelled:?}");
    }
}
