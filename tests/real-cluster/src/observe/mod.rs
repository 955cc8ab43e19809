//! Observations while steps run: Parallax, its alerts, its command line, the users of the cluster, and resource usage.

mod alerts;
mod clock;
mod command;
mod discovery;
mod measurement;
mod page;
mod prober_counts;
mod prometheus;
mod requests;
mod state;
mod state_samples;
mod timeline;
mod usage;

use std::{cell::RefCell, path::PathBuf, rc::Rc, time::Duration};

use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

pub use clock::Clock;
pub use measurement::Measurement;
pub use page::Browser;
pub use prober_counts::{ProberCounts, VantageSample};
pub use prometheus::Prometheus;
pub use state::{AggregatorState, Cell, FindingOrHazard, Incident, Severity};
pub use timeline::{Alert, AlertSample, ExitCode, PodUsage, Request, StateSample, StatusResult, Timeline};

use crate::cluster::{Cluster, PodView, Proxy};
use requests::LogPositions;

/// Labels of the aggregators' Pods.
pub const AGGREGATORS: &str = "app.kubernetes.io/name=parallax,app.kubernetes.io/component=aggregator";
/// Labels of the probers' Pods.
pub const PROBERS: &str = "app.kubernetes.io/name=parallax,app.kubernetes.io/component=prober";

/// Observes everything, each thing at its own interval, until it is dropped.
#[derive(Debug)]
pub struct Observer {
    /// The observations.
    pub timeline: Rc<RefCell<Timeline>>,
    /// The run's clock.
    pub clock: Clock,
    tasks: JoinSet<()>,
}

/// Sources of an observer.
#[derive(Clone)]
pub struct ObserverSources {
    /// The cluster.
    pub cluster: Rc<Cluster>,
    /// The Prometheus, if there is one.
    pub prometheus: Option<Rc<Prometheus>>,
    /// The product's binary.
    pub binary: PathBuf,
}

impl Observer {
    /// Starts observing, and serves the proxy. Must be called within a `LocalSet`.
    #[must_use]
    pub fn start(clock: Clock, sources: &ObserverSources, proxy: Proxy) -> Self {
        let timeline = Rc::new(RefCell::new(Timeline::default()));
        let mut tasks = JoinSet::new();
        tasks.spawn_local(proxy.serve());
        let ObserverSources {
            cluster,
            prometheus,
            binary,
        } = sources;
        tasks.spawn_local(repeat(Duration::from_secs(1), {
            let (cluster, timeline, prometheus) =
                (Rc::clone(cluster), Rc::clone(&timeline), prometheus.clone());
            async move || {
                let up = cluster.pods.refresh().await;
                timeline.borrow_mut().api_server.push((clock.now(), up));
                if let Some(prometheus) = &prometheus {
                    prometheus.set_targets(&cluster.pods.all());
                }
            }
        }));
        tasks.spawn_local(repeat(Duration::from_secs(1), {
            let (cluster, timeline) = (Rc::clone(cluster), Rc::clone(&timeline));
            async move || state_samples::sample_all(&cluster, clock, &timeline).await
        }));
        tasks.spawn_local(repeat(Duration::from_secs(1), {
            let (cluster, timeline) = (Rc::clone(cluster), Rc::clone(&timeline));
            async move || prober_counts::sample_all(&cluster, clock, &timeline).await
        }));
        tasks.spawn_local(repeat(Duration::from_secs(2), {
            let (cluster, timeline, mut logs) =
                (Rc::clone(cluster), Rc::clone(&timeline), LogPositions::default());
            async move || logs.fetch(&cluster, clock, &timeline).await
        }));
        tasks.spawn_local(repeat(Duration::from_secs(4), {
            let (cluster, binary, timeline) = (Rc::clone(cluster), binary.clone(), Rc::clone(&timeline));
            async move || command::status(&binary, &cluster.kubeconfig, clock, &timeline).await
        }));
        tasks.spawn_local(repeat(Duration::from_secs(15), {
            let (cluster, timeline) = (Rc::clone(cluster), Rc::clone(&timeline));
            async move || usage::measure(&cluster, clock, &timeline).await
        }));
        if let Some(prometheus) = prometheus {
            tasks.spawn_local(repeat(Duration::from_secs(1), {
                let (prometheus, timeline) = (Rc::clone(prometheus), Rc::clone(&timeline));
                async move || alerts::take(&prometheus, clock, &timeline).await
            }));
        }
        Self {
            timeline,
            clock,
            tasks,
        }
    }

    /// Returns the number of its running tasks: all of them, unless one has panicked.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }
}

/// Returns the current aggregators.
#[must_use]
pub fn aggregators(cluster: &Cluster) -> Vec<PodView> {
    cluster.pods.in_namespace(crate::install::NAMESPACE, AGGREGATORS)
}

async fn repeat(period: Duration, mut look: impl AsyncFnMut()) {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        look().await;
    }
}
