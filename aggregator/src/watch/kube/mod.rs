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
use super::POLL;
use crate::config::TopologySource;
use parallax_kubernetes::{
    topology_state::{SourceError, SourceNote, SourceState},
    watch::{KubernetesSettings, QUEUE, Reflector, TargetDefaults, WatchHealth, WatchUpdate, connect},
};
use parallax_runtime::Clock;

/// Watches the cluster until cancelled.
pub(crate) async fn follow(
    source: TopologySource,
    kubernetes: KubernetesSettings,
    state: watch::Sender<SourceState>,
    watches: watch::Sender<WatchHealth<WatchSource>>,
    book: Option<Arc<PodRegistry>>,
    clock: Clock,
    cancelled: CancellationToken,
) {
    // The namespaces to watch become known with the client.
    watches.send_replace(WatchHealth::starting(WatchSource::all(&[])));
    let follower = ClusterWatcher {
        start: clock.now(),
        source: Arc::new(source),
        kubernetes,
        state,
        watches,
        book,
        clock,
        cluster: ClusterState::default(),
        dirty: None,
        building: None,
        job_services: JobServices::default(),
        refused: None,
        waiting: Vec::new(),
    };
    cancelled.run_until_cancelled(follower.run()).await;
}

struct ClusterWatcher {
    start: EventTime,
    source: Arc<TopologySource>,
    kubernetes: KubernetesSettings,
    state: watch::Sender<SourceState>,
    watches: watch::Sender<WatchHealth<WatchSource>>,
    /// Registry of prober Pods to update, if there is one.
    book: Option<Arc<PodRegistry>>,
    clock: Clock,
    cluster: ClusterState,
    /// Times of the first and the last change since the last build.
    dirty: Option<(Instant, Instant)>,
    building: Option<JoinHandle<BuildResult>>,
    /// State of the last build.
    job_services: JobServices,
    /// Error of an invalid configuration; the previous one stays in effect.
    refused: Option<SourceError>,
    /// Notes about configuration changes that need a restart.
    waiting: Vec<SourceNote>,
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
        let mut settings = Settings::begin(&self.source).await;
        let client = self.connect().await;
        let (out, mut told) = mpsc::channel(QUEUE);
        let mut reflectors = JoinSet::new();
        let sources = WatchSource::all(&self.prober_namespaces(&client));
        self.watches.send_replace(WatchHealth::starting(sources.clone()));
        for source in sources {
            let reflector = Reflector {
                client: client.clone(),
                labels: (source.resource == ResourceKind::Pods)
                    .then(|| self.kubernetes.prober_selector.clone()),
                source,
                pace: self.kubernetes.pace,
                out: out.clone(),
            };
            reflectors.spawn(reflector.run());
        }
        drop(out);
        let mut poll = interval(POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = self.due();
            tokio::select! {
                // Updates come last, so that a flood of them does not starve the other branches.
                biased;
                Some(ended) = reflectors.join_next() => match ended {
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    // A reflector exits only when the receiver is dropped.
                    _ => unreachable!("a reflector ended while its receiver is open"),
                },
                built = finished(&mut self.building) => self.publish(built),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.build(),
                _ = poll.tick() => {
                    let look = match &mut settings {
                        Some(settings) => settings.look(&self.source).await,
                        None => None,
                    };
                    if let Some(look) = look {
                        self.configure(look);
                    }
                }
                Some((source, news)) = told.recv() => {
                    self.take(&source, news);
                    self.report();
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
    fn configure(&mut self, look: FileChange) {
        match look {
            FileChange::Refused(message) => {
                tracing::warn!(%message, "the configuration is invalid; keeping the previous one");
                let since = self
                    .refused
                    .as_ref()
                    .map_or_else(|| self.clock.now(), |trouble| trouble.since);
                self.refused = Some(SourceError { message, since });
            }
            FileChange::Taken(source, timing, waiting) => {
                tracing::info!(file = %source.config_file().display(), "reloaded the configuration");
                self.refused = None;
                self.source = Arc::from(source);
                self.waiting = waiting;
                self.state
                    .send_if_modified(|state| state.set_timing(Some(timing)));
                self.touch();
            }
        }
        self.report();
    }

    /// Schedules a rebuild of the topology after the debounce period.
    fn touch(&mut self) {
        let now = Instant::now();
        self.dirty = Some((self.dirty.map_or(now, |(first, _)| first), now));
    }

    /// Creates a client of the API server. Errors are shown and retried.
    async fn connect(&self) -> Client {
        connect(&self.kubernetes.access, self.kubernetes.pace, |message| {
            let since = self.start;
            self.state
                .send_modify(|state| state.trouble = Some(SourceError { message, since }));
        })
        .await
    }

    fn take(&mut self, source: &WatchSource, told: WatchUpdate<ClusterObject>) {
        if let (ResourceKind::Pods, Some(book)) = (source.resource, &self.book) {
            book.hear(source, &told);
        }
        let (now, start) = (self.clock.now(), self.start);
        let mut changed = false;
        let cluster = &mut self.cluster;
        self.watches.send_modify(|watches| {
            let first = !watches.settled();
            let watch = watches.of(source);
            match told {
                WatchUpdate::All(things, unreadable) => {
                    changed = cluster.replace(source, things);
                    watch.lists += 1;
                    watch.unreadable += unreadable;
                    watch.settled = true;
                }
                WatchUpdate::Put(thing) => {
                    changed = cluster.put(*thing);
                    watch.events += 1;
                }
                WatchUpdate::Gone(key) => {
                    changed = cluster.remove(source.resource, &key);
                    watch.events += 1;
                }
                WatchUpdate::Unreadable => {
                    watch.events += 1;
                    watch.unreadable += 1;
                }
                WatchUpdate::Live => watch.live(),
                WatchUpdate::Absent => {
                    changed = cluster.replace(source, Vec::new());
                    watch.absent();
                }
                WatchUpdate::Failed(failure) => watch.failed(failure, now, start),
            }
            watch.objects = cluster.count(source);
            // The first topology is built once all lists are complete, even for an empty cluster.
            changed |= first && watches.settled();
        });
        if changed {
            self.touch();
        }
    }

    /// Publishes the current errors of watches and configuration.
    fn report(&self) {
        let watches = self.watches.borrow().trouble(self.start);
        let trouble = SourceError::both(self.refused.clone(), watches);
        self.state.send_if_modified(|state| {
            let changed = state.trouble != trouble;
            state.trouble = trouble;
            changed
        });
    }

    /// Returns when to build the next topology: after all initial lists, one build at a time, debounced.
    fn due(&self) -> Option<Instant> {
        let (first, last) = self.dirty?;
        let pace = self.kubernetes.pace;
        let ready = self.building.is_none() && self.watches.borrow().settled();
        ready.then(|| (last + pace.quiet).min(first + pace.longest_burst))
    }

    fn build(&mut self) {
        self.dirty = None;
        let (cluster, defaults) = (self.cluster.clone(), self.kubernetes.defaults);
        let source = Arc::clone(&self.source);
        let job_services = std::mem::take(&mut self.job_services);
        self.building = Some(tokio::task::spawn_blocking(move || {
            build(&cluster, defaults, &source, job_services)
        }));
    }

    fn publish(&mut self, mut built: BuildResult) {
        self.building = None;
        self.job_services = built.job_services;
        built.notes.extend(self.waiting.iter().cloned());
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
async fn finished(building: &mut Option<JoinHandle<BuildResult>>) -> BuildResult {
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
    source.join(&mut spec);
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
        publishers: notes.publishers(),
        notes: notes.finish(),
        job_services,
    }
}

#[cfg(test)]
mod tests;
