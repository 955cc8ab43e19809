//! Composition of the aggregator: binds its port, then runs until cancelled.

mod error;
mod replica;
mod storage;
mod tasks;

use std::{io, net::SocketAddr, sync::Arc};

use parallax_acme::forecast::{self, ForecastTask};
use parallax_diagnosis::{Settings, plan::PlanConfig, view::View};
use parallax_history::{
    recording::{RecordWriter, Recorder},
    store::{SqliteFile, StoreHandle, StoreWorker},
};
use parallax_kubernetes::{
    api_client::ApiClient,
    objects::resource::WatchSource,
    replicas::LeaderElection,
    topology_state::{SourceState, TopologyState},
    watch::WatchHealth,
};
use parallax_notify::{self, Heartbeat, Notifier, incident_actions};
use parallax_runs::RunManager;
use parallax_runtime::{Clock, SnapshotReader};
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot, watch},
};
use tokio_util::sync::CancellationToken;

use crate::{
    certificates::CertManager,
    checkpoint::{CheckpointTask, EngineCheckpoint},
    config::{Config, TopologySource},
    crd::TargetController,
    engine_task::{EngineSnapshot, EngineTask, REPORT_QUEUE_CAPACITY, RESET_QUEUE_CAPACITY},
    exposition::{Metrics, ScrapeSources},
    identity::EnrolledAccounts,
    own_permissions::PermissionReviewer,
    plan::{OpenPlanStreams, Planner},
    prober_listener::ProberListener,
    serve::{self, InstallationSources, ProberGate, ReportSlots, ScrapeLog, ServerState},
    topology::{TargetInput, TopologyReducer},
    watch::StartupConfig,
};
pub use error::{RunError, StartError};
use replica::replica_setup;
use storage::{checkpoint_storage, outbox_store};

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
    heartbeat: Option<Heartbeat>,
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
        let metrics = Metrics::new(config.histogram_buckets);
        let mut prober_listener = ProberListener::build(&config, &metrics).await?;
        if !local.ip().is_loopback() && matches!(prober_listener.gate, ProberGate::Open) {
            tracing::warn!(%local, "reports are accepted without authentication from any machine that can reach this address; set tokenFile");
        }

        let epoch = u64::try_from(clock.start().0 / 1_000_000).unwrap_or(0);
        let (replica, nonce, election) =
            replica_setup(&config, &prober_listener, local, &metrics.replicas, epoch)?;
        let (source, source_out) = watch::channel(SourceState::new(config.initial_topology.clone()));
        let (topology, topology_out) = watch::channel(TopologyState::new(config.initial_topology.clone()));
        let (watches, watches_out) = watch::channel(WatchHealth::default());
        let (cert_manager, certificates) = CertManager::channels(&config);
        let (reports, reports_in) = mpsc::channel(REPORT_QUEUE_CAPACITY);
        let (enrolment, enrolled) = prober_listener.take_enrolled().unzip();
        let (resources, targets) = prober_listener
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
            tenants: config.tenants.clone(),
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
        let (mut engine_task, outlook) = EngineTask::new(
            settings,
            clock,
            metrics.ingest.clone(),
            topology_out.clone(),
            reports_in,
            hub_checkpoint,
        );
        let writer = match &config.record {
            Some(options) => {
                let (recorder, writer) = Recorder::open(
                    options,
                    settings,
                    engine_task.topology(),
                    clock.now(),
                    &metrics.record,
                )?;
                engine_task.attach_recorder(recorder);
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
                engine_task.attach_history(keeper);
                (Some(worker), handle)
            }
            None => (None, StoreHandle::off()),
        };
        let checkpoints = CheckpointTask {
            storage: checkpoint_storage(&config, &prober_listener, &store, hold.as_ref())?,
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
        engine_task.attach_runs(runs.clone());
        let (resets, resets_in) = mpsc::channel(RESET_QUEUE_CAPACITY);
        engine_task.attach_resets(resets_in);
        let config_map = config
            .actions_config_map
            .clone()
            .zip(prober_listener.client().cloned());
        let config_map = config_map.map(|(place, client)| {
            incident_actions::ActionConfigMap::new(client, place, replica.clone(), metrics.actions.clone())
        });
        let handling = Arc::new(incident_actions::ActionManager::new(
            clock,
            store.clone(),
            config_map,
        ));
        let links = Arc::new(config.links.clone());
        let around = parallax_notify::NotificationContext {
            clock,
            replica: replica.clone(),
            actions: handling.clone(),
            views: outlook.views.subscribe(),
            topology: topology_out.clone(),
            links: links.clone(),
        };
        let remembered = outbox_store(&config, &prober_listener, &store, hold);
        let notifications = Arc::new(parallax_notify::NotificationState::new(
            around,
            remembered,
            metrics.notify.clone(),
        ));
        let notifier = Notifier::new(notifications.clone(), &config.notify, prober_listener.client())?;
        let heartbeat = config.notify.heartbeat.clone();
        let heartbeat = heartbeat.map(|options| Heartbeat::new(options, metrics.notify.clone()));
        let heartbeat = heartbeat.transpose()?;
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
        let installation = InstallationSources {
            in_cluster: config.source.kubernetes.is_some(),
            prober_namespaces: config.source.prober_namespaces(),
            ca_publication: prober_listener.ca_publication(),
            watch_health: watches_out.clone(),
            cert_manager_watches: certificates.watch_health.clone(),
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
            gate: prober_listener.gate.clone(),
            access: prober_listener.access_control(&config, local),
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
            report_slots: ReportSlots::new(),
            plan_streams: OpenPlanStreams::default(),
            registry: Arc::new(metrics.registry(live)),
            ingest_metrics: metrics.ingest,
            planner: Arc::new(planner),
            forecasts: forecasts_out,
            scrapes: ScrapeLog::default(),
            permission_reviewer: PermissionReviewer::new(&config, prober_listener.client()),
            installation,
            stopping: CancellationToken::new(),
        };
        Ok(Self {
            listener,
            local_addr: local,
            clock,
            engine_task,
            record_writer: writer,
            store_worker: keeping,
            checkpoint_task: checkpoints,
            server_state: shared,
            notifier,
            heartbeat,
            prober_listener,
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
}
