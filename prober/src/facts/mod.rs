//! What the prober's node says of itself: priors and hazards of the diagnosis, one source a file.
//!
//! ```text
//! host network: netlink + /sys + /proc + kube-proxy :10249 ─┐
//! pod network:  kube-proxy :10256 and health check ports ───┴▶ HostFacts ─▶ Desk ─▶ header of a report
//! ```
//!
//! Everything is read without privilege. What cannot be read is unknown, never a guess; nothing here delays a probe.

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

/// Time between two looks.
const EVERY: Duration = Duration::from_secs(15);

/// Where a host's facts are read.
#[derive(Debug, Clone)]
pub struct FactSources {
    /// The folder that holds `proc` and `sys`.
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

/// Looks now and then, for as long as the prober lives.
#[derive(Debug)]
pub(crate) struct FactCollector {
    /// None but on the host network: a pod's own network namespace says nothing of the node's.
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

    pub(crate) async fn run(mut self, desk: impl Fn(HostFacts), cancel: CancellationToken) {
        let mut tick = interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Without the plan's stream there are no new questions; the old ones stand.
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
                facts = self.look() => desk(facts),
            }
        }
    }

    async fn look(&mut self) -> HostFacts {
        let questions = self.questions.borrow_and_update().clone();
        let mut facts = match self.host.clone() {
            Some(sources) => {
                let mode = self.kube_proxy.mode(sources.kube_proxy).await;
                let read = tokio::task::spawn_blocking(move || host(&sources.root)).await;
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
        for address in questions.health_checks.into_iter().take(kube_proxy::MOST_CHECKS) {
            facts
                .health_checks
                .extend(self.kube_proxy.health_check(address).await);
        }
        facts
    }
}

/// What files and netlink say.
fn host(root: &Path) -> HostFacts {
    HostFacts {
        proxy_mode: None,
        ipvs_addresses: ipvs::addresses(root),
        hairpin: bridge::hairpin(root),
        bridge_nf_call_iptables: bridge::calls_iptables(root),
        strict_rp_filter: rp_filter::strict(root),
        conntrack: conntrack::read(root),
        martian_sources: martian::read(root),
        proxy_healthy: None,
        health_checks: Vec::new(),
    }
}

/// A small file of `/proc` or `/sys`, as text.
fn text(path: &Path) -> Option<String> {
    use io::Read as _;
    /// A table with a line for each of some hundred CPUs fits.
    const MOST: u64 = 256 << 10;
    let mut text = String::new();
    fs::File::open(path)
        .ok()?
        .take(MOST)
        .read_to_string(&mut text)
        .ok()?;
    Some(text)
}

/// A file that holds one number.
fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    text(path)?.trim().parse().ok()
}

/// Names in a folder, at most so many; none where it cannot be read.
fn names(folder: &Path) -> Vec<PathBuf> {
    /// Interfaces of a node: one for each pod, and some.
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
