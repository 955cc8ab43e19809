//! Debian's `prometheus-blackbox-exporter`, driven through `/probe` as by Prometheus: one request per probe, keep-alive
//! connections.

use std::{cell::Cell, fs, net::TcpListener, path::Path, rc::Rc, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use reqwest::Client;
use tokio::{process::Command, sync::Semaphore, task::JoinSet, time};

use crate::{
    plan::{HOST, ProbeMix, ProbeRate, TargetPorts},
    process::{ChildProcess, CpuCore},
};

/// Debian's name for it.
pub(crate) const PROGRAM: &str = "prometheus-blackbox-exporter";

/// A running exporter.
#[derive(Debug)]
pub(crate) struct Blackbox {
    pub(crate) process: ChildProcess,
    client: Client,
    port: u16,
    ports: TargetPorts,
}

impl Blackbox {
    /// Starts it with a module per kind: IPv4, no redirects, the benchmark's own CA.
    pub(crate) async fn start(ports: TargetPorts, ca: &Path, folder: &Path) -> anyhow::Result<Self> {
        let ca = ca.display();
        let config = folder.join("blackbox.yml");
        fs::write(
            &config,
            format!(
                r#"modules:
  http: {{prober: http, timeout: 2s, http: {{preferred_ip_protocol: ip4, valid_status_codes: [200]}}}}
  https: {{prober: http, timeout: 2s, http: {{preferred_ip_protocol: ip4, valid_status_codes: [200],
    tls_config: {{ca_file: "{ca}", server_name: "{HOST}"}}}}}}
  tcp: {{prober: tcp, timeout: 2s, tcp: {{preferred_ip_protocol: ip4}}}}
  dns: {{prober: dns, timeout: 2s, dns: {{preferred_ip_protocol: ip4, query_name: "{HOST}", query_type: A}}}}
"#
            ),
        )?;
        // Free now; nothing else binds ports here within the next millisecond.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        // Killed with the harness, however that ends.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", PROGRAM])
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--log.level=error")
            .stderr(std::process::Stdio::null());
        let process = ChildProcess::start(&mut command, CpuCore::Subject)
            .with_context(|| format!("install it with: apt-get install {PROGRAM}"))?;
        let client = Client::builder()
            .no_proxy()
            .http1_only()
            .pool_max_idle_per_host(64)
            .timeout(Duration::from_secs(5))
            .build()?;
        let exporter = Self {
            process,
            client,
            port,
            ports,
        };
        for _ in 0..100 {
            if exporter.probe(ProbeMix::Tcp, 0).await.is_ok() {
                return Ok(exporter);
            }
            time::sleep(Duration::from_millis(50)).await;
        }
        bail!("{PROGRAM} does not answer on port {port}")
    }

    fn url(&self, kind: ProbeMix, i: u64) -> String {
        let target = self.ports.address(kind, i);
        let (module, target) = match kind {
            ProbeMix::Http => ("http", format!("http://{target}/")),
            ProbeMix::Https => ("https", format!("https://{target}/")),
            ProbeMix::Tcp => ("tcp", target.to_string()),
            ProbeMix::Dns => ("dns", target.to_string()),
        };
        format!(
            "http://127.0.0.1:{}/probe?module={module}&target={target}",
            self.port
        )
    }

    /// Makes one probe and reports whether it succeeded.
    async fn probe(&self, kind: ProbeMix, i: u64) -> reqwest::Result<bool> {
        let text = self.client.get(self.url(kind, i)).send().await?.text().await?;
        Ok(text.lines().any(|line| line == "probe_success 1"))
    }

    /// Makes probes at a rate (0: as fast as 16 concurrent ones can) until the future is dropped; counts failures.
    pub(crate) async fn drive(self: Rc<Self>, kind: ProbeMix, rate: u64, failed: Rc<Cell<u64>>) {
        let permits = Arc::new(Semaphore::new(if rate == 0 { 16 } else { 128 }));
        let mut probes = JoinSet::new();
        let pace = ProbeRate::start(rate);
        for i in 0_u64.. {
            if let Some(due) = pace.due(i) {
                time::sleep_until(due.into()).await;
            }
            // The semaphore is never closed.
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                return;
            };
            while probes.try_join_next().is_some() {}
            let (exporter, failed) = (Rc::clone(&self), Rc::clone(&failed));
            probes.spawn_local(async move {
                if !exporter.probe(kind, i).await.unwrap_or(false) {
                    failed.set(failed.get() + 1);
                }
                drop(permit);
            });
        }
    }
}
