//! The cluster as the source of the topology.
//!
//! ```text
//! API server ─▶ reflectors (one per kind) ─▶ cluster state ─▶ [debounce] ─▶ build ─▶ topology + notes
//!                        └────────── health ─▶ errors, age, metrics
//! ```
//! One task owns the state and the reflectors send updates to it, so there are no locks. A reflector that ends takes
//! this task and the aggregator down, so that it cannot go unnoticed.

mod settings;

use std::sync::Arc;

use kube::Client;
use parallax_diagnosis::topology::Topology;
use parallax_model::EventTime;
use tokio::{
    sync::{mpsc, watch},
    task::{JoinHandle, JoinSet},
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};
use tokio_util::sync::CancellationToken;

use parallax_kubernetes::{
    cluster::ClusterState,
    discovery::{self, JobServices, NoteCollector},
    objects::ClusterObject,
    objects::resource::{ResourceKind, WatchSource},
    pod_registry::PodRegistry,
};

use self::settings::{FileChange, Settings};
use super::POLL_INTERVAL;
use crate::config::TopologySource;
use parallax_kubernetes::{
    topology_state::{SourceError, SourceNote, SourceState},
    watch::{
        KubernetesSettings, QUEUE_CAPACITY, Reflector, TargetDefaults, WatchHealth, WatchUpdate, connect,
    },
};
use parallax_runtime::Clock;

/// Watches the cluster until cancelled.
pub(crate) async fn watch_cluster(
    source: TopologySource,
    kubernetes: KubernetesSettings,
    state: watch::Sender<SourceState>,
    watches: watch::Sender<WatchHealth<WatchSource>>,
    pod_registry: Option<Arc<PodRegistry>>,
    clock: Clock,
    cancelled: CancellationToken,
) {
    // The namespaces to watch become known with the client.
    watches.send_replace(WatchHealth::new(WatchSource::all(&[])));
    let follower = ClusterWatcher {
        started: clock.now(),
        source: Arc::new(source),
        kubernetes,
        state,
        watch_health: watches,
        pod_registry,
        clock,
        cluster: ClusterState::default(),
        changed_between: None,
        running_build: None,
        job_services: JobServices::default(),
        config_error: None,
        restart_notes: Vec::new(),
    };
    cancelled.run_until_cancelled(follower.run()).await;
}

struct ClusterWatcher {
    started: EventTime,
    source: Arc<TopologySource>,
    kubernetes: KubernetesSettings,
    state: watch::Sender<SourceState>,
    watch_health: watch::Sender<WatchHealth<WatchSource>>,
    /// Registry of prober Pods to update, if there is one.
    pod_registry: Option<Arc<PodRegistry>>,
    clock: Clock,
    cluster: ClusterState,
    /// Times of the first and the last change since the last build.
    changed_between: Option<(Instant, Instant)>,
    running_build: Option<JoinHandle<BuildResult>>,
    /// State of the last build.
    job_services: JobServices,
    /// Error of an invalid configuration; the previous one stays in effect.
    config_error: Option<SourceError>,
    /// Notes about configuration changes that need a restart.
    restart_notes: Vec<SourceNote>,
}

/// Result of a build.
struct BuildResult {
    topology: Result<Topology, String>,
    notes: Vec<SourceNote>,
    publishers: parallax_kubernetes::topology_state::TargetPublishers,
    job_services: JobServices,
}

impl ClusterWatcher {
    async fn run(mut self) {
        let mut settings = Settings::read_initial(&self.source).await;
        let client = self.connect().await;
        let (out, mut updates) = mpsc::channel(QUEUE_CAPACITY);
        let mut reflectors = JoinSet::new();
        let sources = WatchSource::all(&self.prober_namespaces(&client));
        self.watch_health.send_replace(WatchHealth::new(sources.clone()));
        for source in sources {
            let reflector = Reflector {
                client: client.clone(),
                label_selector: (source.resource == ResourceKind::Pods)
                    .then(|| self.kubernetes.prober_selector.clone()),
                source,
                timing: self.kubernetes.timing,
                updates: out.clone(),
            };
            reflectors.spawn(reflector.run());
        }
        drop(out);
        let mut poll = interval(POLL_INTERVAL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = self.next_build();
            tokio::select! {
                // Updates come last, so that a flood of them does not starve the other branches.
                biased;
                Some(ended) = reflectors.join_next() => match ended {
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    // A reflector exits only when the receiver is dropped.
                    _ => unreachable!("a reflector ended while its receiver is open"),
                },
                built = wait_for_build(&mut self.running_build) => self.publish(built),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.start_build(),
                _ = poll.tick() => {
                    let look = match &mut settings {
                        Some(settings) => settings.poll(&self.source).await,
                        None => None,
                    };
                    if let Some(look) = look {
                        self.apply_config(look);
                    }
                }
                Some((source, news)) = updates.recv() => {
                    self.apply_update(&source, news);
                    self.publish_errors();
                }
            }
        }
    }

    /// Returns the namespaces of the prober Pods.
    fn prober_namespaces(&self, client: &Client) -> Vec<Arc<str>> {
        let named = &self.kubernetes.prober_namespaces;
        let mut namespaces: Vec<Arc<str>> = named.iter().map(|name| Arc::from(name.as_str())).collect();
        if namespaces.is_empty() {
            namespaces.push(Arc::from(client.default_namespace()));
        }
        namespaces
    }

    /// Applies a changed configuration.
    fn apply_config(&mut self, look: FileChange) {
        match look {
            FileChange::Invalid(message) => {
                tracing::warn!(%message, "the configuration is invalid; keeping the previous one");
                let since = self
                    .config_error
                    .as_ref()
                    .map_or_else(|| self.clock.now(), |error| error.since);
                self.config_error = Some(SourceError { message, since });
            }
            FileChange::Valid(source, timing, waiting) => {
                tracing::info!(file = %source.config_file().display(), "reloaded the configuration");
                self.config_error = None;
                self.source = Arc::from(source);
                self.restart_notes = waiting;
                self.state
                    .send_if_modified(|state| state.set_timing(Some(timing)));
                self.schedule_build();
            }
        }
        self.publish_errors();
    }

    /// Schedules a rebuild of the topology after the debounce period.
    fn schedule_build(&mut self) {
        let now = Instant::now();
        self.changed_between = Some((self.changed_between.map_or(now, |(first, _)| first), now));
    }

    /// Creates a client of the API server. Errors are shown and retried.
    async fn connect(&self) -> Client {
        connect(&self.kubernetes.access, self.kubernetes.timing, |message| {
            let since = self.started;
            self.state
                .send_modify(|state| state.error = Some(SourceError { message, since }));
        })
        .await
    }

    fn apply_update(&mut self, source: &WatchSource, update: WatchUpdate<ClusterObject>) {
        if let (ResourceKind::Pods, Some(registry)) = (source.resource, &self.pod_registry) {
            registry.apply(source, &update);
        }
        let (now, start) = (self.clock.now(), self.started);
        let mut changed = false;
        let cluster = &mut self.cluster;
        self.watch_health.send_modify(|watches| {
            let first = !watches.is_settled();
            let watch = watches.state_mut(source);
            match update {
                WatchUpdate::Listed(objects, unreadable) => {
                    changed = cluster.replace(source, objects);
                    watch.lists += 1;
                    watch.unreadable += unreadable;
                    watch.settled = true;
                }
                WatchUpdate::Applied(object) => {
                    changed = cluster.put(*object);
                    watch.events += 1;
                }
                WatchUpdate::Deleted(key) => {
                    changed = cluster.remove(source.resource, &key);
                    watch.events += 1;
                }
                WatchUpdate::Unreadable => {
                    watch.events += 1;
                    watch.unreadable += 1;
                }
                WatchUpdate::Live => watch.set_live(),
                WatchUpdate::Absent => {
                    changed = cluster.replace(source, Vec::new());
                    watch.set_absent();
                }
                WatchUpdate::Failed(failure) => watch.record_failure(failure, now, start),
            }
            watch.objects = cluster.count(source);
            // The first topology is built once all lists are complete, even for an empty cluster.
            changed |= first && watches.is_settled();
        });
        if changed {
            self.schedule_build();
        }
    }

    /// Publishes the current errors of watches and configuration.
    fn publish_errors(&self) {
        let watches = self.watch_health.borrow().error(self.started);
        let error = SourceError::merge(self.config_error.clone(), watches);
        self.state.send_if_modified(|state| {
            let changed = state.error != error;
            state.error = error;
            changed
        });
    }

    /// Returns when to build the next topology: after all initial lists, one build at a time, debounced.
    fn next_build(&self) -> Option<Instant> {
        let (first, last) = self.changed_between?;
        let pace = self.kubernetes.timing;
        let ready = self.running_build.is_none() && self.watch_health.borrow().is_settled();
        ready.then(|| (last + pace.debounce).min(first + pace.max_debounce))
    }

    fn start_build(&mut self) {
        self.changed_between = None;
        let (cluster, defaults) = (self.cluster.clone(), self.kubernetes.defaults);
        let source = Arc::clone(&self.source);
        let job_services = std::mem::take(&mut self.job_services);
        self.running_build = Some(tokio::task::spawn_blocking(move || {
            build(&cluster, defaults, &source, job_services)
        }));
    }

    fn publish(&mut self, mut built: BuildResult) {
        self.running_build = None;
        self.job_services = built.job_services;
        built.notes.extend(self.restart_notes.iter().cloned());
        self.state.send_if_modified(|state| {
            let mut changed = *state.notes != *built.notes || *state.publishers != built.publishers;
            state.notes = built.notes.into();
            state.publishers = Arc::new(built.publishers);
            match built.topology {
                Ok(topology) => changed |= state.replace(topology),
                Err(message) => {
                    tracing::error!(%message, "cannot build a topology from the cluster; keeping the last one");
                }
            }
            changed
        });
    }
}

/// Waits for the running build; forever if there is none.
async fn wait_for_build(building: &mut Option<JoinHandle<BuildResult>>) -> BuildResult {
    match building {
        Some(handle) => match handle.await {
            Ok(built) => built,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // Cancelled: the runtime is shutting down.
            Err(_) => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

fn build(
    cluster: &ClusterState,
    defaults: TargetDefaults,
    source: &TopologySource,
    mut job_services: JobServices,
) -> BuildResult {
    let mut notes = NoteCollector::default();
    let mut spec = discovery::discover(cluster, defaults, &mut job_services, &mut notes);
    source.join_configured(&mut spec);
    let topology = loop {
        match Topology::try_from(spec.clone()) {
            Ok(topology) => break Ok(source.with_vantages(topology)),
            Err(problems) if discovery::prune(&mut spec, &problems, &mut notes) => {}
            Err(problems) => {
                let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
                break Err(lines.join("\n"));
            }
        }
    };
    BuildResult {
        topology,
        publishers: notes.take_publishers(),
        notes: notes.finish(),
        job_services,
    }
}

#[cfg(test)]
mod tests;
