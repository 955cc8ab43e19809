//! Debian's Prometheus and Alertmanager with the committed rules, and a receiver that records its notifications.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    extract::State,
    http::header::CONTENT_TYPE,
    routing::{get as get_route, post},
};
use parallax_control_plane::RunningProgram;
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{free_address, get, repository, tool, wait_until};

/// Time between two scrapes, and between two evaluations of the rules.
pub(crate) const INTERVAL: &str = "1s";

type Notifications = Arc<Mutex<Vec<Value>>>;

/// The webhook of Alertmanager.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    notifications: Notifications,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let notifications = Notifications::default();
        let stop = CancellationToken::new();
        let router = Router::new()
            .route(
                "/",
                post(
                    async |State(notifications): State<Notifications>, Json(notification): Json<Value>| {
                        notifications.lock().unwrap().push(notification);
                    },
                ),
            )
            .with_state(notifications.clone());
        let stopped = stop.clone().cancelled_owned();
        let task = tokio::spawn(async move {
            axum::serve(listener, router)
                .with_graceful_shutdown(stopped)
                .await
                .unwrap();
        });
        Self {
            address,
            notifications,
            stop,
            task,
        }
    }

    /// Every alert that it received: name, status and labels.
    pub(crate) fn alerts(&self) -> Vec<(String, String, Value)> {
        let notifications = self.notifications.lock().unwrap();
        notifications
            .iter()
            .flat_map(|notification| notification["alerts"].as_array().unwrap())
            .map(|alert| {
                let word = |value: &Value| value.as_str().unwrap().to_owned();
                (
                    word(&alert["labels"]["alertname"]),
                    word(&alert["status"]),
                    alert["labels"].clone(),
                )
            })
            .collect()
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

/// An Alertmanager with the committed inhibition rules that notifies the receiver: its address and process.
pub(crate) fn alertmanager(folder: &Path, receiver: &Receiver) -> (SocketAddr, RunningProgram) {
    let alertmanager = free_address();
    let inhibit = fs::read_to_string(repository("dashboards/alertmanager-inhibit.yaml")).unwrap();
    let routing = format!(
        "route: {{receiver: hook, group_by: [job, alertname, incident], group_wait: 0s, group_interval: 1s}}\n\
         receivers: [{{name: hook, webhook_configs: [{{url: \"http://{}/\", send_resolved: true}}]}}]\n{inhibit}",
        receiver.address
    );
    fs::write(folder.join("alertmanager.yaml"), routing).unwrap();
    let listen = format!("--web.listen-address={alertmanager}");
    let arguments = [
        "--config.file=alertmanager.yaml",
        "--storage.path=alertmanager",
        &listen,
        "--cluster.listen-address=",
    ];
    let alerting = RunningProgram::start(
        folder,
        "alertmanager",
        &tool("prometheus-alertmanager"),
        arguments,
        &[],
    )
    .unwrap();
    (alertmanager, alerting)
}

/// The alerts of an Alertmanager: name, state and labels.
pub(crate) async fn alertmanager_alerts(
    client: &reqwest::Client,
    alertmanager: SocketAddr,
) -> Vec<(String, String, Value)> {
    let url = format!("http://{alertmanager}/api/v2/alerts");
    let answer = get(client, &url).await.unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    answer
        .as_array()
        .cloned()
        .unwrap_or_default()
        .into_iter()
        .map(|alert| {
            (
                word(&alert["labels"]["alertname"]),
                word(&alert["status"]["state"]),
                alert["labels"].clone(),
            )
        })
        .collect()
}

/// Prometheus and Alertmanager, with their APIs.
pub(crate) struct Monitoring {
    client: reqwest::Client,
    prometheus: SocketAddr,
    alertmanager: SocketAddr,
    _processes: [RunningProgram; 2],
    _recorded: tokio_util::sync::DropGuard,
}

/// Metrics of renewals, which only an aggregator with a cluster exposes, and its leadership. A test of the aggregator
/// checks that the file is its exposition.
async fn serve_recorded_exposition() -> (SocketAddr, tokio_util::sync::DropGuard) {
    let file = fs::read_to_string(repository("dashboards/tests/fixtures/renewals.om")).unwrap();
    let text = format!("# TYPE parallax_aggregator_leader gauge\nparallax_aggregator_leader 1.0\n{file}");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let kind = (
        CONTENT_TYPE,
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
    );
    let router = Router::new().route("/metrics", get_route(async move || ([kind], text.clone())));
    let stop = CancellationToken::new();
    let stopped = stop.clone().cancelled_owned();
    // It ends with the guard; Prometheus ends before.
    tokio::spawn(
        axum::serve(listener, router)
            .with_graceful_shutdown(stopped)
            .into_future(),
    );
    (address, stop.drop_guard())
}

/// A scrape configuration with the labels that the Prometheus operator adds to the series of a `PodMonitor`.
fn scrape_job(name: &str, container: &str, endpoint: &str, address: SocketAddr) -> String {
    format!(
        "- {{job_name: {name}, honor_labels: true, static_configs: [{{targets: [\"{address}\"], labels: \
         {{namespace: parallax, pod: parallax-{container}-x, container: {container}, endpoint: {endpoint}}}}}]}}\n"
    )
}

impl Monitoring {
    pub(crate) async fn start(
        folder: &Path,
        client: &reqwest::Client,
        (aggregator, prober): (SocketAddr, SocketAddr),
        receiver: &Receiver,
    ) -> Self {
        let prometheus = free_address();
        let (recorded, recorded_guard) = serve_recorded_exposition().await;
        let (alertmanager, alerting) = alertmanager(folder, receiver);
        let rules = repository("dashboards/parallax.rules.yaml")
            .canonicalize()
            .unwrap();
        let scraping = format!(
            "global: {{scrape_interval: {INTERVAL}, scrape_timeout: {INTERVAL}, evaluation_interval: {INTERVAL}}}\n\
             rule_files: [\"{}\"]\n\
             alerting: {{alertmanagers: [{{static_configs: [{{targets: [\"{alertmanager}\"]}}]}}]}}\n\
             scrape_configs:\n{}{}{}",
            rules.display(),
            scrape_job("parallax/parallax-aggregator", "aggregator", "http", aggregator),
            scrape_job("recorded", "aggregator", "http", recorded),
            scrape_job("parallax/parallax-prober", "prober", "echo", prober),
        );
        fs::write(folder.join("prometheus.yaml"), scraping).unwrap();
        let listen = format!("--web.listen-address={prometheus}");
        let arguments = [
            "--config.file=prometheus.yaml",
            "--storage.tsdb.path=prometheus",
            &listen,
        ];
        let scraping =
            RunningProgram::start(folder, "prometheus", &tool("prometheus"), arguments, &[]).unwrap();
        let monitoring = Self {
            client: client.clone(),
            prometheus,
            alertmanager,
            _processes: [alerting, scraping],
            _recorded: recorded_guard,
        };
        wait_until("Prometheus scrapes all three", async || {
            (monitoring.value("sum(up)", None).await? >= 3.0).then_some(())
        })
        .await;
        monitoring
    }

    async fn query_api(&self, path: &str, query: &[(&str, String)]) -> Option<Value> {
        let mut url = reqwest::Url::parse(&format!("http://{}{path}", self.prometheus)).unwrap();
        url.query_pairs_mut().extend_pairs(query);
        get(&self.client, url.as_str()).await
    }

    /// The series of an expression, now or at a time: labels and value, without NaN.
    pub(crate) async fn series(
        &self,
        expression: &str,
        at: Option<f64>,
    ) -> Result<Vec<(String, f64)>, String> {
        let mut query = vec![("query", expression.to_owned())];
        query.extend(at.map(|at| ("time", at.to_string())));
        let answer = self.query_api("/api/v1/query", &query).await.ok_or("no answer")?;
        if answer["status"] != "success" {
            return Err(format!("{expression}: {answer}"));
        }
        let of = |series: &Value| {
            let value: f64 = series["value"][1].as_str()?.parse().ok()?;
            (!value.is_nan()).then(|| (series["metric"].to_string(), value))
        };
        let mut series: Vec<_> = answer["data"]["result"]
            .as_array()
            .ok_or("no series")?
            .iter()
            .filter_map(of)
            .collect();
        series.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(series)
    }

    /// The value of the first series of an expression.
    pub(crate) async fn value(&self, expression: &str, at: Option<f64>) -> Option<f64> {
        self.series(expression, at)
            .await
            .ok()?
            .first()
            .map(|(_, value)| *value)
    }

    /// Alerts of Prometheus: name, state, labels.
    pub(crate) async fn alerts(&self) -> Vec<(String, String, Value)> {
        let answer = self.query_api("/api/v1/alerts", &[]).await.unwrap_or_default();
        let alerts = answer["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        alerts
            .into_iter()
            .map(|alert| {
                (
                    word(&alert["labels"]["alertname"]),
                    word(&alert["state"]),
                    alert["labels"].clone(),
                )
            })
            .collect()
    }

    /// Errors of Prometheus when scraping an exposition, except timeouts, which depend on the machine.
    pub(crate) async fn scrape_errors(&self, address: &str) -> Vec<String> {
        let answer = self.query_api("/api/v1/targets", &[]).await.unwrap();
        let targets = answer["data"]["activeTargets"].as_array().unwrap().clone();
        let error = |target: Value| {
            let error = target["lastError"].as_str()?.to_owned();
            let of_it = target["labels"]["instance"] == address;
            (of_it && !error.is_empty() && !error.contains("deadline exceeded")).then_some(error)
        };
        targets.into_iter().filter_map(error).collect()
    }

    /// Alerts of Alertmanager: name, state and labels.
    pub(crate) async fn alertmanager_alerts(&self) -> Vec<(String, String, Value)> {
        alertmanager_alerts(&self.client, self.alertmanager).await
    }
}
