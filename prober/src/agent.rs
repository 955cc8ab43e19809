//! The prober of one node: follows the plan stream, probes, reports, and serves its echo.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use parallax_model::{FactQuestions, Incarnation, NodeName, PlanLine, PodName, Vantage};
use parking_lot::RwLock;
use rustls::pki_types::CertificateDer;
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinSet,
    time::{self, Instant},
};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{
    aggregator_client::{AggregatorClient, AggregatorRoots, ClientError, ProberCredential, error_chain},
    context::ProbeContext,
    credentials::{CredentialSource, CredentialStore, InvalidCredentials},
    echo::{self, EchoResponder},
    facts::{FactCollector, FactSources, LatestFacts},
    plan_client::PlanClient,
    replica_spools::ReplicaSpools,
    replicas::ReplicaResolver,
    report::ReporterSet,
    role::Role,
    runner::ProbeRunner,
    shared_state::Status,
};

/// Observations kept while the aggregator is unreachable: about 15 MB, or an hour of 60 targets every 5 s.
pub const SPOOL_CAPACITY: usize = 50_000;

/// Capacity of the channel of plan lines from the stream to the schedule.
const PLAN_CHANNEL_CAPACITY: usize = 64;

/// Time for echo, plan stream and reporters to end after cancellation.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(4);

/// The configuration of a prober.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// The vantage it probes from.
    pub vantage: Vantage,
    /// Its own Pod, which its echo names.
    pub pod: PodName,
    /// Base URL of the aggregator.
    pub aggregator: Url,
    /// The credential for the aggregator, if it requires one.
    pub credential: Option<ProberCredential>,
    /// The roots that the aggregator's certificate is verified with.
    pub aggregator_roots: AggregatorRoots,
    /// Its role.
    pub role: Role,
    /// The address on which echo, `/healthz`, `/readyz` and `/metrics` listen; port 0 takes a free one.
    pub echo_listen: SocketAddr,
    /// The resolv.conf of this machine: `/etc/resolv.conf`, except in tests.
    pub resolv_conf: PathBuf,
    /// Roots that probes trust in addition to those installed.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// Credentials that probes may use.
    pub credentials: Vec<CredentialSource>,
    /// Observations kept while the aggregator is unreachable; [`SPOOL_CAPACITY`] is a good value.
    pub spool_capacity: usize,
    /// The sources of node facts, for a prober on the host network.
    pub facts: FactSources,
}

/// An error that ends a prober or prevents its start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The echo cannot listen on its address.
    #[error(
        "cannot listen on {address} for the echo: {source}; stop the process that uses the port or choose another address"
    )]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The URL of the aggregator cannot be used.
    #[error("cannot use {url} as the aggregator: {reason}")]
    Aggregator {
        /// The configured URL.
        url: Url,
        /// The reason.
        reason: String,
    },
    /// The credentials are invalid.
    #[error("invalid credentials: {0}")]
    Credentials(#[from] InvalidCredentials),
    /// The operating system provides no random numbers for the name of this incarnation.
    #[error("cannot get random numbers from the operating system for the name of this incarnation")]
    RandomNumbers,
    /// A task of the agent ended without cancellation, which is a defect of the prober.
    #[error("the prober's {part} task ended unexpectedly; restart the prober and report its log")]
    TaskEnded {
        /// The name of the task.
        part: &'static str,
    },
}

/// A prober with its echo bound, not yet probing.
#[derive(Debug)]
pub struct Agent {
    config: AgentConfig,
    listener: TcpListener,
    echo_addr: SocketAddr,
    context: Arc<ProbeContext>,
    clients: Vec<AggregatorClient>,
    every_address: bool,
    incarnation: Incarnation,
    fact_collector: FactCollector,
    questions: watch::Sender<FactQuestions>,
}

/// Binds and runs a prober until cancelled.
pub async fn run_agent(config: AgentConfig, cancel: CancellationToken) -> Result<(), AgentError> {
    Agent::bind(config).await?.run(cancel).await
}

impl Agent {
    /// Binds the echo's port, loads the trusted roots and validates what can be validated without the aggregator.
    pub async fn bind(config: AgentConfig) -> Result<Self, AgentError> {
        let address = config.echo_listen;
        let listen = |source| AgentError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let echo_addr = listener.local_addr().map_err(listen)?;
        let credentials = CredentialStore::new(config.credentials.clone())?;
        let context =
            ProbeContext::new(config.resolv_conf.clone(), &config.extra_roots).with_credentials(credentials);
        let control = new_client(&config, &context, config.aggregator.clone())?;
        let (questions, question_updates) = watch::channel(FactQuestions::default());
        let collector =
            FactCollector::new(&config.vantage, config.facts.clone(), question_updates).map_err(|error| {
                AgentError::Aggregator {
                    url: config.aggregator.clone(),
                    reason: error_chain(&error),
                }
            })?;
        Ok(Self {
            listener,
            echo_addr,
            fact_collector: collector,
            questions,
            context: Arc::new(context),
            clients: vec![control],
            every_address: false,
            incarnation: random_incarnation()?,
            config,
        })
    }

    /// Adds aggregators to report to. The plan comes from the one that serves plans.
    pub fn with_replicas(mut self, others: Vec<Url>) -> Result<Self, AgentError> {
        for url in others {
            let control = new_client(&self.config, &self.context, url)?;
            self.clients.push(control);
        }
        Ok(self)
    }

    /// Sets whether each address of an aggregator's name is a separate aggregator, as with a headless Service.
    #[must_use]
    pub const fn resolve_every_address(mut self, every: bool) -> Self {
        self.every_address = every;
        self
    }

    /// The address on which the echo listens.
    #[must_use]
    pub const fn echo_addr(&self) -> SocketAddr {
        self.echo_addr
    }

    /// The incarnation of this process.
    #[must_use]
    pub const fn incarnation(&self) -> &Incarnation {
        &self.incarnation
    }

    /// Probes until cancelled. Then gives running probes a second to end and delivers the remaining observations.
    pub async fn run(self, cancel: CancellationToken) -> Result<(), AgentError> {
        let status = Arc::new(Status::new(ReplicaSpools::new(self.config.spool_capacity)));
        let (bell, rung) = watch::channel(());
        let (replicas, known) = ReplicaResolver::new(self.clients, Arc::clone(&status));
        let echo = Arc::new(EchoResponder {
            pod: self.config.pod.clone(),
            node: node_name(&self.config.vantage),
            instance: self.incarnation.clone(),
            nonces: RwLock::default(),
            status: Arc::clone(&status),
        });
        let (lines_in, lines) = mpsc::channel(PLAN_CHANNEL_CAPACITY);
        // Reporters and echo outlive the probes: the last results must be delivered, and other probers may still send
        // requests.
        let farewell = CancellationToken::new();
        let plan = PlanClient {
            replicas: known.clone(),
            status: Arc::clone(&status),
            incarnation: self.incarnation.clone(),
            vantage: self.config.vantage.clone(),
            pod: self.config.pod.clone(),
            echo_port: self.echo_addr.port(),
            role: self.config.role,
        };
        let facts = Arc::new(LatestFacts::default());
        let reports = ReporterSet {
            facts: Arc::clone(&facts),
            status: Arc::clone(&status),
            urgent_signal: rung,
            clock: self.context.clock,
            incarnation: self.incarnation,
            vantage: self.config.vantage.clone(),
        };
        let mut parts = JoinSet::new();
        let vantage = self.config.vantage.to_string();
        if self.every_address {
            parts.spawn(named_task(
                "look for aggregators",
                replicas.run(vantage, farewell.clone()),
            ));
        }
        parts.spawn(named_task("plan stream", plan.run(lines_in, cancel.clone())));
        if self.config.role == Role::Prober {
            parts.spawn(named_task("reporter", reports.run(known, farewell.clone())));
        }
        parts.spawn(named_task(
            "echo",
            echo::serve(self.listener, Arc::clone(&echo), farewell.clone()),
        ));
        let collecting = self
            .fact_collector
            .run(move |found| facts.set(found), cancel.clone());
        parts.spawn(named_task("facts", collecting));
        let runner = ProbeRunner::new(self.context, status, bell, &self.config.vantage);
        let ended = main_loop(runner, &echo, &self.questions, lines, &mut parts, &cancel).await;
        farewell.cancel();
        let all_ended = async { while parts.join_next().await.is_some() {} };
        if time::timeout(SHUTDOWN_TIMEOUT, all_ended).await.is_err() {
            tracing::warn!("aborting tasks that did not end in time");
            parts.shutdown().await;
        }
        ended
    }
}

/// Creates the client for an aggregator.
fn new_client(
    config: &AgentConfig,
    context: &ProbeContext,
    url: Url,
) -> Result<AggregatorClient, AgentError> {
    let made = AggregatorClient::new(
        url.clone(),
        config.credential.clone(),
        &context.tls,
        &config.aggregator_roots,
    );
    made.map_err(|error| AgentError::Aggregator {
        url,
        reason: match error {
            ClientError::Url => error.to_string(),
            ClientError::Client(error) => error_chain(&error),
        },
    })
}

async fn named_task(part: &'static str, running: impl Future<Output = ()>) -> &'static str {
    running.await;
    part
}

/// The main loop: applies plan lines and makes probes.
async fn main_loop(
    mut runner: ProbeRunner,
    echo: &EchoResponder,
    questions: &watch::Sender<FactQuestions>,
    mut lines: mpsc::Receiver<PlanLine>,
    parts: &mut JoinSet<&'static str>,
    cancel: &CancellationToken,
) -> Result<(), AgentError> {
    let ended = loop {
        tokio::select! {
            () = cancel.cancelled() => break Ok(()),
            Some(line) = lines.recv() => {
                if let PlanLine::Snapshot { settings, .. } = &line {
                    echo.nonces.write().set_current(&settings.echo_nonce, Instant::now());
                }
                match line {
                    PlanLine::Facts { request: wanted } => {
                        questions.send_if_modified(|known| {
                            let new = *known != wanted;
                            *known = wanted;
                            new
                        });
                    }
                    line => runner.apply(line, Instant::now()),
                }
            }
            () = runner.next_event() => {}
            Some(ended) = parts.join_next() => {
                if cancel.is_cancelled() {
                    continue;
                }
                break Err(AgentError::TaskEnded { part: ended.unwrap_or("work") });
            }
        }
    };
    runner.stop().await;
    ended
}

fn node_name(vantage: &Vantage) -> NodeName {
    match vantage {
        Vantage::Cluster { node, .. } => node.clone(),
        // A machine outside the cluster has no node name; its vantage name is just as unique and printable.
        outside @ Vantage::Outside { name, .. } => NodeName::new(outside.to_string())
            .or_else(|_| NodeName::new(name.as_str()))
            .unwrap_or_else(|error| unreachable!("a vantage name is a name: {error}")),
    }
}

/// Returns 64 random bits as a name.
fn random_incarnation() -> Result<Incarnation, AgentError> {
    let mut bits = [0; 8];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bits)
        .map_err(|_| AgentError::RandomNumbers)?;
    Incarnation::new(format!("{:016x}", u64::from_be_bytes(bits))).map_err(|_| AgentError::RandomNumbers)
}
