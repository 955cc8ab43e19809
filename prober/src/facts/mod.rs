//! Facts about the prober's node, for priors and hazards of the diagnosis; one file per source.
//!
//! ```text
//! host network: netlink + /sys + /proc + kube-proxy :10249 ─┐
//! pod network:  kube-proxy :10256 and health check ports ───┴▶ HostFacts ─▶ LatestFacts ─▶ header of a report
//! ```
//!
//! Everything is read without privileges. Unreadable facts are unknown, never guessed. Collection never delays a probe.

mod bridge;
mod conntrack;
mod ipvs;
mod kube_proxy;
mod latest_facts;
mod martian;
mod rp_filter;

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use parallax_model::{FactQuestions, HostFacts, Network, Vantage};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use kube_proxy::KubeProxy;
pub(crate) use latest_facts::{FactDelivery, LatestFacts};

/// Interval of collections.
const COLLECT_INTERVAL: Duration = Duration::from_secs(15);

/// The sources of the facts of a host.
#[derive(Debug, Clone)]
pub struct FactSources {
    /// The directory that contains `proc` and `sys`.
    pub root: PathBuf,
    /// Base address of kube-proxy's metrics server (`/proxyMode`).
    pub kube_proxy: std::net::SocketAddr,
}

impl Default for FactSources {
    fn default() -> Self {
        Self {
            root: PathBuf::from("/"),
            kube_proxy: std::net::SocketAddr::from(([127, 0, 0, 1], 10_249)),
        }
    }
}

/// Collects facts periodically.
#[derive(Debug)]
pub(crate) struct FactCollector {
    /// `None` unless on the host network: a Pod's own network namespace says nothing about that of the node.
    host: Option<FactSources>,
    questions: watch::Receiver<FactQuestions>,
    kube_proxy: KubeProxy,
}

impl FactCollector {
    pub(crate) fn new(
        vantage: &Vantage,
        sources: FactSources,
        questions: watch::Receiver<FactQuestions>,
    ) -> Result<Self, reqwest::Error> {
        let on_host = matches!(
            vantage,
            Vantage::Cluster {
                network: Network::Host,
                ..
            }
        );
        Ok(Self {
            host: on_host.then_some(sources),
            questions,
            kube_proxy: KubeProxy::new()?,
        })
    }

    pub(crate) async fn run(mut self, publish: impl Fn(HostFacts), cancel: CancellationToken) {
        let mut tick = interval(COLLECT_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Once the sender is dropped, the last questions stay in force.
        let mut listening = true;
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                changed = self.questions.changed(), if listening => {
                    listening = changed.is_ok();
                }
                _ = tick.tick() => {}
            }
            tokio::select! {
                () = cancel.cancelled() => return,
                facts = self.collect() => publish(facts),
            }
        }
    }

    async fn collect(&mut self) -> HostFacts {
        let questions = self.questions.borrow_and_update().clone();
        let mut facts = match self.host.clone() {
            Some(sources) => {
                let mode = self.kube_proxy.mode(sources.kube_proxy).await;
                let read = tokio::task::spawn_blocking(move || read_host(&sources.root)).await;
                HostFacts {
                    proxy_mode: mode,
                    ..read.unwrap_or_default()
                }
            }
            None => HostFacts::default(),
        };
        if let Some(address) = questions.healthz {
            facts.proxy_healthy = self.kube_proxy.healthy(address).await;
        }
        for address in questions
            .health_checks
            .into_iter()
            .take(kube_proxy::MAX_HEALTH_CHECKS)
        {
            facts
                .health_checks
                .extend(self.kube_proxy.health_check(address).await);
        }
        facts
    }
}

/// Reads the facts from files and netlink.
fn read_host(root: &Path) -> HostFacts {
    HostFacts {
        proxy_mode: None,
        ipvs_addresses: ipvs::addresses(root),
        hairpin: bridge::hairpin(root),
        bridge_nf_call_iptables: bridge::calls_iptables(root),
        strict_rp_filter: rp_filter::is_strict(root),
        conntrack: conntrack::read(root),
        martian_sources: martian::read(root),
        proxy_healthy: None,
        health_checks: Vec::new(),
    }
}

/// Reads a small file of `/proc` or `/sys` as text.
fn read_text(path: &Path) -> Option<String> {
    use io::Read as _;
    /// Maximum size; enough for a table with a line for each of some hundred CPUs.
    const MOST: u64 = 256 << 10;
    let mut text = String::new();
    fs::File::open(path)
        .ok()?
        .take(MOST)
        .read_to_string(&mut text)
        .ok()?;
    Some(text)
}

/// Reads a file that contains one number.
fn read_number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    read_text(path)?.trim().parse().ok()
}

/// Returns the entries of a directory, up to a maximum; none if it cannot be read.
fn list_directory(folder: &Path) -> Vec<PathBuf> {
    /// Maximum number of entries; a node has one interface per Pod, and a few more.
    const MOST: usize = 4_096;
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .take(MOST)
        .collect()
}

#[cfg(test)]
mod tests;
