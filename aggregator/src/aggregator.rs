//! Composition of the aggregator: binds its port, then runs until cancelled.

use std::{io, net::SocketAddr, sync::Arc};

use parallax_acme::forecast::{self, ForecastTask};
use parallax_diagnosis::{Settings, plan::PlanConfig, view::View};
use parallax_history::{
    recording::{RecordError, RecordWriter, Recorder},
    store::{SqliteFile, StoreHandle, StoreHold, StoreWorker},
};
use parallax_kubernetes::{
    api_client::ApiClient,
    objects::resource::WatchSource,
    replicas::{LeaderElection, ReplicaMetrics, ReplicaState},
    topology_state::{SourceState, TopologyState},
    watch::WatchHealth,
};
use parallax_notify::{self, Notifier, NotifierError, OutboxStore, incident_actions};
use parallax_runs::RunManager;
use parallax_runtime::{Clock, SnapshotReader, random};
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    certificates::CertManager,
    checkpoint::{CheckpointOptions, CheckpointStorage, CheckpointTask, EngineCheckpoint, NonceSource},
    config::{Config, TopologySource},
    crd::{self, TargetController},
    engine_task::{EngineSnapshot, EngineTask, REPORT_QUEUE_CAPACITY, RESET_QUEUE_CAPACITY},
    exposition::{Metrics, ScrapeSources},
    identity::EnrolledAccounts,
    plan::Planner,
    prober_listener::{ProberListener, ProberListenerError},
    serve::{self, ProberGate, ServerState},
    topology::{TargetInput, TopologyReducer},
    watch::{self as topology_watch, StartupConfig},
};

/// The aggregator cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is in use.
    #[error(
        "cannot listen on {address}: the address is in use by another process; stop it or set another `listen` address"
    )]
    AddressInUse {
        /// The address.
        address: SocketAddr,
    },
    /// The address is not one of this machine's.
    #[error(
        "cannot listen on {address}: this machine does not have this address; set `listen` to one of its addresses or to 0.0.0.0:{}",
        address.port()
    )]
    AddressNotAvailable {
        /// The address.
        address: SocketAddr,
    },
    /// The listener for probers cannot start.
    #[error(transparent)]
    ProberListener(#[from] ProberListenerError),
    /// The recording cannot start.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Notifications cannot start.
    #[error(transparent)]
    Notify(#[from] NotifierError),
    /// Leader election needs a name for this replica.
    #[error("replicas: this aggregator has no name; set its Pod's name with --pod or PARALLAX_POD")]
    MissingReplicaName,
    /// Leader election needs an API server.
    #[error("replicas: no API server for the Lease; run in a cluster, or set KUBECONFIG")]
    NoApiServerForLease,
    /// A checkpoint in a `ConfigMap` needs an API server.
    #[error(
        "checkpoint.configMap: no API server for the ConfigMap; run in a cluster, set KUBECONFIG, or set \
         checkpoint.file instead"
    )]
    NoApiServerForCheckpoint,
    /// Any other reason.
    #[error("cannot listen on {address}: {source}; set another `listen` address")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

/// A task of the aggregator failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It panicked, and its message was logged. State that it shares may be inconsistent.
    #[error("the aggregator's {task} task failed: {reason}; restart the aggregator and report this as a bug")]
    Failed {
        /// The task.
        task: &'static str,
        /// Its error.
        reason: String,
    },
}

/// An aggregator that has bound its port and is ready to run.
#[derive(Debug)]
pub struct Aggregator {
    listener: TcpListener,
    local_addr: SocketAddr,
    clock: Clock,
    engine_task: EngineTask,
    record_writer: Option<RecordWriter>,
    store_worker: Option<StoreWorker>,
    checkpoint_task: CheckpointTask,
    server_state: ServerState,
    notifier: Notifier,
    prober_listener: ProberListener,
    enrolled_accounts: Option<EnrolledAccounts>,
    reducer: TopologyReducer,
    leader_election: Option<LeaderElection>,
    target_controller: Option<(ApiClient, TargetController)>,
    topology_source: TopologySource,
    startup_config: StartupConfig,
    source_state: watch::Sender<SourceState>,
    watch_health: watch::Sender<WatchHealth<WatchSource>>,
    cert_manager: Option<CertManager>,
    forecast_task: ForecastTask,
}

impl Aggregator {
    /// Binds the port and builds all components.
    pub async fn bind(config: Config) -> Result<Self, StartError> {
        Self::bind_at(config, Clock::system()).await
    }

    /// As [`Self::bind`], with the given clock.
    #[expect(
        clippy::too_many_lines,
        reason = "each component is built once and passed to those that need it"
    )]
    pub async fn bind_at(config: Config, clock: Clock) -> Result<Self, StartError> {
        let address = config.listen;
        let refused = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => StartError::AddressInUse { address },
            io::ErrorKind::AddrNotAvailable => StartError::AddressNotAvailable { address },
            _ => StartError::Listen { address, source },
        };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let local = listener.local_addr().map_err(refused)?;
        let metrics = Metrics::new();
        let mut door = ProberListener::build(&config, &metrics).await?;
        if !local.ip().is_loopback() && matches!(door.gate, ProberGate::Open) {
            tracing::warn!(%local, "reports are accepted without authentication from any machine that can reach this address; set tokenFile");
        }

        let epoch = u64::try_from(clock.start().0 / 1_000_000).unwrap_or(0);
        let (replica, nonce, election) = replica_setup(&config, &door, local, &metrics.replicas, epoch)?;
        let (source, source_out) = watch::channel(SourceState::new(config.initial_topology.clone()));
        let (topology, topology_out) = watch::channel(TopologyState::new(config.initial_topology.clone()));
        let (watches, watches_out) = watch::channel(WatchHealth::default());
        let (cert_manager, certificates) = CertManager::channels(&config);
        let (reports, reports_in) = mpsc::channel(REPORT_QUEUE_CAPACITY);
        let (enrolment, enrolled) = door.take_enrolled().unzip();
        let (resources, targets) = door
            .client()
            .filter(|_| config.custom_resources)
            .map(|client| {
                let (objects, objects_out) = watch::channel(Arc::default());
                let (review, review_out) = watch::channel(Arc::default());
                let controller = TargetController {
                    client: client.clone(),
                    replica: replica.clone(),
                    objects,
                    review: review_out,
                };
                let input = TargetInput {
                    objects: objects_out,
                    review,
                };
                ((client.clone(), controller), input)
            })
            .unzip();
        let reducer = TopologyReducer {
            source: source_out,
            enrolled,
            targets,
            options: config.runs.clone(),
            out: topology,
        };
        let settings = Settings {
            interval: config.interval,
            timeout: config.longest_timeout(),
        };
        let planner = Planner {
            config: PlanConfig {
                interval: config.interval,
                timeout: config.timeout,
                // The epoch sets the nonce.
                echo_nonce: String::new(),
            },
        };
        let (restored, restored_in) = oneshot::channel();
        let (latest, latest_out) = watch::channel(None);
        let (ready, _) = watch::channel(false);
        let hub_checkpoint = EngineCheckpoint {
            restored: restored_in,
            latest,
            restored_flag: ready,
        };
        let (mut hub, outlook) = EngineTask::new(
            settings,
            clock,
            metrics.ingest.clone(),
            topology_out.clone(),
            reports_in,
            hub_checkpoint,
        );
        let writer = match &config.record {
            Some(options) => {
                let (recorder, writer) =
                    Recorder::open(options, settings, hub.topology(), clock.now(), &metrics.record)?;
                hub.attach_recorder(recorder);
                Some(writer)
            }
            None => None,
        };
        let mut hold = None;
        let (keeping, store) = match &config.store {
            Some(options) => {
                let file = Box::new(SqliteFile::new(options.clone()));
                let (keeper, worker, handle) = StoreWorker::new(file, clock, &metrics.store);
                hold = Some(keeper.hold());
                hub.attach_history(keeper);
                (Some(worker), handle)
            }
            None => (None, StoreHandle::off()),
        };
        let checkpoints = CheckpointTask {
            storage: checkpoint_storage(&config, &door, &store, hold.as_ref())?,
            nonce,
            clock,
            replica: replica.clone(),
            metrics: metrics.checkpoint.clone(),
            topology: topology_out.clone(),
            restored,
            latest: latest_out,
        };
        let runs = Arc::new(RunManager::new(
            clock,
            config.runs.clone(),
            planner.config.clone(),
            replica.clone(),
            (store.clone(), metrics.runs.clone()),
        ));
        hub.attach_runs(runs.clone());
        let (resets, resets_in) = mpsc::channel(RESET_QUEUE_CAPACITY);
        hub.attach_resets(resets_in);
        let ledger = config.actions_config_map.clone().zip(door.client().cloned());
        let ledger = ledger.map(|(place, client)| {
            incident_actions::ActionConfigMap::new(client, place, replica.clone(), metrics.actions.clone())
        });
        let handling = Arc::new(incident_actions::ActionManager::new(clock, store.clone(), ledger));
        let links = Arc::new(config.links.clone());
        let around = parallax_notify::NotificationContext {
            clock,
            replica: replica.clone(),
            actions: handling.clone(),
            views: outlook.views.subscribe(),
            topology: topology_out.clone(),
            links: links.clone(),
        };
        let remembered = outbox_store(&config, &door, &store, hold);
        let notifications = Arc::new(parallax_notify::NotificationState::new(
            around,
            remembered,
            metrics.notify.clone(),
        ));
        let staff = Notifier::new(notifications.clone(), &config.notify, door.client())?;
        let (forecasts, forecasts_out) =
            watch::channel(Arc::new(forecast::empty_forecasts(&certificates.state.borrow())));
        let forecaster = ForecastTask {
            clock,
            runs: runs.clone(),
            replica: replica.clone(),
            cert_manager: certificates.state.clone(),
            topology: topology_out.clone(),
            views: outlook.views.clone(),
            interval: config.forecast_interval,
            forecasts,
        };
        let live = ScrapeSources {
            notifications: notifications.clone(),
            clock,
            actions: handling.clone(),
            evidence_since: outlook.evidence_since.clone(),
            views: outlook.views.clone(),
            topology: topology_out.clone(),
            forecasts: forecasts_out.clone(),
            store: store.state.clone(),
            watch_health: watches_out,
            cert_manager_watches: certificates.watch_health,
            challenges: certificates.challenges.clone(),
        };
        let shared = ServerState {
            clock,
            gate: door.gate.clone(),
            access: door.access_control(&config, local),
            runs,
            actions: handling,
            form_key: serve::FormKey::new(),
            links,
            notifications,
            leader_proxy: serve::LeaderProxy::new(),
            replica,
            engine_snapshot: outlook,
            topology: topology_out,
            cert_manager: certificates.state,
            challenges: certificates.challenges,
            store,
            reports,
            resets,
            body_slots: ServerState::body_slots(),
            registry: Arc::new(metrics.registry(live)),
            ingest_metrics: metrics.ingest,
            planner: Arc::new(planner),
            forecasts: forecasts_out,
            stopping: CancellationToken::new(),
        };
        Ok(Self {
            listener,
            local_addr: local,
            clock,
            engine_task: hub,
            record_writer: writer,
            store_worker: keeping,
            checkpoint_task: checkpoints,
            server_state: shared,
            notifier: staff,
            prober_listener: door,
            enrolled_accounts: enrolment,
            reducer,
            leader_election: election,
            target_controller: resources,
            startup_config: StartupConfig::new(&config),
            forecast_task: forecaster,
            cert_manager,
            topology_source: config.source,
            source_state: source,
            watch_health: watches,
        })
    }

    /// Returns the listen address.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Returns the address of the TLS listener, if enabled.
    #[must_use]
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        self.prober_listener.address()
    }

    /// Returns the CA certificate as PEM, if TLS is enabled.
    #[must_use]
    pub fn ca_certificate(&self) -> Option<&str> {
        self.prober_listener.certificate()
    }

    /// Returns the views of the diagnosis, updated after each judged round and on request.
    #[must_use]
    pub fn views(&self) -> SnapshotReader<View> {
        let EngineSnapshot { views, .. } = &self.server_state.engine_snapshot;
        views.clone()
    }

    /// Runs until cancelled, then finishes requests in flight and returns.
    pub async fn run(mut self, cancelled: CancellationToken) -> Result<(), RunError> {
        // A child token, so that a failed task stops the others without cancelling the caller.
        let stopping = cancelled.child_token();
        let shared = ServerState {
            stopping: stopping.clone(),
            ..self.server_state
        };
        let mut parts = JoinSet::new();
        let mut names = Vec::new();
        let mut start = |name, handle: tokio::task::AbortHandle| names.push((handle.id(), name));
        start("diagnosis", parts.spawn(self.engine_task.run(stopping.clone())));
        // Ends once the engine task has dropped its sender and the last checkpoint is written.
        start(
            "checkpoint",
            parts.spawn(self.checkpoint_task.run(stopping.clone())),
        );
        if let Some(writer) = self.record_writer {
            // Ends once the engine task has dropped its sender and the queue is written.
            start("recording", parts.spawn_blocking(move || writer.run()));
        }
        if let Some(keeping) = self.store_worker {
            // As the recording.
            start("store", parts.spawn_blocking(move || keeping.run()));
        }
        let in_cluster = self.topology_source.kubernetes.is_some();
        let book = in_cluster
            .then(|| self.prober_listener.take_pod_registry())
            .flatten();
        start(
            "topology watch",
            parts.spawn(topology_watch::watch_source(
                (self.topology_source, self.startup_config),
                self.source_state,
                self.watch_health,
                book,
                self.clock,
                stopping.clone(),
            )),
        );
        start(
            "server",
            parts.spawn(serve::serve(
                self.listener,
                None,
                serve::router(shared.clone()),
                stopping.clone(),
            )),
        );
        start(
            "user actions",
            parts.spawn(shared.actions.clone().run(stopping.clone())),
        );
        start("notifications", parts.spawn(self.notifier.run(stopping.clone())));
        start("runs", parts.spawn(shared.runs.clone().run(stopping.clone())));
        self.prober_listener
            .start(&shared, &mut parts, &mut start, &stopping);
        start("topology", parts.spawn(self.reducer.run(stopping.clone())));
        if let Some(enrolment) = self.enrolled_accounts {
            start("enrolment", parts.spawn(enrolment.poll(stopping.clone())));
        }
        if let Some(election) = self.leader_election {
            start("leader election", parts.spawn(election.run(stopping.clone())));
        }
        start("forecast", parts.spawn(self.forecast_task.run(stopping.clone())));
        if let Some(cert_manager) = self.cert_manager {
            cert_manager.run(&shared, &mut parts, &mut start, &stopping);
        }
        if let Some((client, targets)) = self.target_controller {
            start("Target controller", parts.spawn(targets.run(stopping.clone())));
            let following = crd::follow_runs(
                client,
                (shared.runs.clone(), shared.replica.clone()),
                shared.topology.clone(),
                shared.engine_snapshot.views.clone(),
                stopping.clone(),
            );
            start("Run controller", parts.spawn(following));
        }
        drop(shared);
        let mut failure = None;
        while let Some(ended) = parts.join_next_with_id().await {
            if let Err(error) = ended {
                let part = names
                    .iter()
                    .find(|(id, _)| *id == error.id())
                    .map_or("task", |(_, name)| *name);
                failure.get_or_insert(RunError::Failed {
                    task: part,
                    reason: error.to_string(),
                });
                stopping.cancel();
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

/// Returns the storage of pending notifications: the configured `ConfigMap`, which the next leader can read,
/// otherwise the store.
fn outbox_store(
    config: &Config,
    prober_listener: &ProberListener,
    store: &StoreHandle,
    hold: Option<Arc<StoreHold>>,
) -> OutboxStore {
    let map = config
        .notify
        .outbox_config_map
        .clone()
        .zip(prober_listener.client().cloned());
    match (map, hold) {
        _ if config.notify.is_empty() => OutboxStore::Memory,
        (Some((place, client)), _) => OutboxStore::config_map(client, place),
        (None, Some(hold)) => OutboxStore::Store {
            store: store.clone(),
            _hold: hold,
        },
        (None, None) => OutboxStore::Memory,
    }
}

/// Returns the storage of the checkpoint: the configured one, otherwise the store.
fn checkpoint_storage(
    config: &Config,
    prober_listener: &ProberListener,
    store: &StoreHandle,
    hold: Option<&Arc<StoreHold>>,
) -> Result<CheckpointStorage, StartError> {
    Ok(match (&config.checkpoint, hold) {
        (Some(CheckpointOptions::ConfigMap(key)), _) => CheckpointStorage::ConfigMap {
            client: prober_listener
                .client()
                .cloned()
                .ok_or(StartError::NoApiServerForCheckpoint)?,
            key: key.clone(),
        },
        (Some(CheckpointOptions::File(path)), _) => CheckpointStorage::File(path.clone()),
        (None, Some(hold)) => CheckpointStorage::Store {
            store: store.clone(),
            _hold: Arc::clone(hold),
        },
        (None, None) => CheckpointStorage::Memory,
    })
}

/// Returns the replica's state, the source of the echo nonce, and the leader election if there are several replicas.
fn replica_setup(
    config: &Config,
    prober_listener: &ProberListener,
    local: SocketAddr,
    metrics: &ReplicaMetrics,
    epoch: u64,
) -> Result<(ReplicaState, NonceSource, Option<LeaderElection>), StartError> {
    let Some(options) = &config.replicas else {
        metrics.set_leader(true);
        let (replica, part) = ReplicaState::starting();
        let fresh = Arc::from(generate_nonce());
        return Ok((
            replica,
            NonceSource::Storage {
                epoch,
                fallback: fresh,
                role: part,
            },
            None,
        ));
    };
    let client = prober_listener.client().ok_or(StartError::NoApiServerForLease)?;
    let name = config
        .environment
        .name
        .as_deref()
        .ok_or(StartError::MissingReplicaName)?;
    let address = config
        .environment
        .address
        .or_else(|| Some(local.ip()).filter(|own| !own.is_unspecified()));
    let page = address.map(|address| SocketAddr::new(address, local.port()).to_string());
    let (election, replica) = LeaderElection::new(client.clone(), options, name, page, metrics.clone());
    Ok((replica, NonceSource::Election, Some(election)))
}

/// Generates an echo nonce for a mesh that has none yet: an echo responds only to its own mesh.
fn generate_nonce() -> String {
    format!("{:016x}{:016x}", random(), random())
}
