//! The whole prober of one node: follows its plan, probes, reports, and serves its echo.

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
    aggregator_client::{AggregatorClient, AggregatorRoots, NoControl, ProberCredential, chain},
    context::ProbeContext,
    echo::{self, EchoResponder},
    facts::{FactCollector, FactSources, LatestFacts},
    plan_client::PlanClient,
    replicas::NamedReplicas,
    report::ReportHeaderSource,
    role::Role,
    runner::ProbeRunner,
    spools::ReplicaSpools,
    status::Status,
};

/// Observations kept while the aggregator is away: about 15 MB, or an hour of 60 targets every 5 s.
pub const SPOOL_CAPACITY: usize = 50_000;

/// Plan lines on their way from the stream to the timetable.
const PLAN_LINES: usize = 64;

/// Time for echo, plan and reports to end after they were told to.
const FAREWELL: Duration = Duration::from_secs(4);

/// What a prober needs to know.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// Where it probes from.
    pub vantage: Vantage,
    /// Its own pod, as the echo tells it.
    pub pod: PodName,
    /// Base URL of the aggregator.
    pub aggregator: Url,
    /// How it is let in there, if it must show anything.
    pub token: Option<ProberCredential>,
    /// Whom to trust to be the aggregator.
    pub aggregator_roots: AggregatorRoots,
    /// What it is there for.
    pub role: Role,
    /// Where its echo, `/healthz` and `/metrics` listen; port 0 takes a free one.
    pub echo_listen: SocketAddr,
    /// The resolvers of this machine, `/etc/resolv.conf` but for tests.
    pub resolv_conf: PathBuf,
    /// Roots the probes trust besides those installed.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// Observations kept while the aggregator is away; [`SPOOL_CAPACITY`] is a good value.
    pub spool_capacity: usize,
    /// Where a prober on the host network reads what its node says of itself.
    pub facts: FactSources,
}

/// Why a prober cannot run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The port of the echo is taken or not ours to take.
    #[error(
        "cannot listen on {address} for the echo: {source}; stop what holds the port or choose another address"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the machine said.
        source: std::io::Error,
    },
    /// The aggregator's address cannot be used.
    #[error("cannot use {url} as the aggregator: {reason}")]
    Aggregator {
        /// As given.
        url: Url,
        /// Why not.
        reason: String,
    },
    /// The machine gives no randomness for the name of this incarnation.
    #[error("cannot draw a random incarnation from the machine")]
    Random,
    /// A part of the agent ended though nobody asked it to; a defect of ours.
    #[error("the prober's {part} ended unexpectedly; restart it and report what it logged")]
    Part {
        /// Which.
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
    controls: Vec<AggregatorClient>,
    every_address: bool,
    incarnation: Incarnation,
    collector: FactCollector,
    questions: watch::Sender<FactQuestions>,
}

/// Binds and runs a prober until cancelled.
pub async fn run_agent(config: AgentConfig, cancel: CancellationToken) -> Result<(), AgentError> {
    Agent::bind(config).await?.run(cancel).await
}

impl Agent {
    /// Takes the echo's port, loads the trusted roots and checks what can be checked without the aggregator.
    pub async fn bind(config: AgentConfig) -> Result<Self, AgentError> {
        let address = config.echo_listen;
        let listen = |source| AgentError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let echo_addr = listener.local_addr().map_err(listen)?;
        let context = ProbeContext::new(config.resolv_conf.clone(), &config.extra_roots);
        let control = control(&config, &context, config.aggregator.clone())?;
        let (questions, asked) = watch::channel(FactQuestions::default());
        let collector =
            FactCollector::new(&config.vantage, config.facts.clone(), asked).map_err(|error| {
                AgentError::Aggregator {
                    url: config.aggregator.clone(),
                    reason: chain(&error),
                }
            })?;
        Ok(Self {
            listener,
            echo_addr,
            collector,
            questions,
            context: Arc::new(context),
            controls: vec![control],
            every_address: false,
            incarnation: incarnation()?,
            config,
        })
    }

    /// Reports to these aggregators as well, and takes its plan from whichever makes one.
    pub fn also_reporting_to(mut self, others: Vec<Url>) -> Result<Self, AgentError> {
        for url in others {
            let control = control(&self.config, &self.context, url)?;
            self.controls.push(control);
        }
        Ok(self)
    }

    /// Takes each address that the name of an aggregator leads to for one of its own, as behind a headless Service.
    #[must_use]
    pub const fn at_every_address(mut self, every: bool) -> Self {
        self.every_address = every;
        self
    }

    /// Where the echo listens.
    #[must_use]
    pub const fn echo_addr(&self) -> SocketAddr {
        self.echo_addr
    }

    /// The name of this life of the prober.
    #[must_use]
    pub const fn incarnation(&self) -> &Incarnation {
        &self.incarnation
    }

    /// Probes until cancelled; then lets running probes end for a second and delivers what is left.
    pub async fn run(self, cancel: CancellationToken) -> Result<(), AgentError> {
        let status = Arc::new(Status::new(ReplicaSpools::new(self.config.spool_capacity)));
        let (bell, rung) = watch::channel(());
        let (replicas, known) = NamedReplicas::new(self.controls, Arc::clone(&status));
        let echo = Arc::new(EchoResponder {
            pod: self.config.pod.clone(),
            node: node_of(&self.config.vantage),
            instance: self.incarnation.clone(),
            nonces: RwLock::default(),
            status: Arc::clone(&status),
        });
        let (lines_in, lines) = mpsc::channel(PLAN_LINES);
        // Reports and echo outlive the probes: the last results must go out, and others may still be asking.
        let farewell = CancellationToken::new();
        let plan = PlanClient {
            known: known.clone(),
            status: Arc::clone(&status),
            incarnation: self.incarnation.clone(),
            vantage: self.config.vantage.clone(),
            pod: self.config.pod.clone(),
            echo_port: self.echo_addr.port(),
            role: self.config.role,
        };
        let facts = Arc::new(LatestFacts::default());
        let reports = ReportHeaderSource {
            facts: Arc::clone(&facts),
            status: Arc::clone(&status),
            bell: rung,
            clock: self.context.clock,
            incarnation: self.incarnation,
            vantage: self.config.vantage.clone(),
        };
        let mut parts = JoinSet::new();
        let who = self.config.vantage.to_string();
        if self.every_address {
            parts.spawn(named(
                "look for aggregators",
                replicas.follow(who, farewell.clone()),
            ));
        }
        parts.spawn(named("plan stream", plan.follow(lines_in, cancel.clone())));
        if self.config.role == Role::Prober {
            parts.spawn(named("reporter", reports.run(known, farewell.clone())));
        }
        parts.spawn(named(
            "echo",
            echo::serve(self.listener, Arc::clone(&echo), farewell.clone()),
        ));
        let collecting = self.collector.run(move |found| facts.put(found), cancel.clone());
        parts.spawn(named("facts", collecting));
        let runner = ProbeRunner::new(self.context, status, bell, &self.config.vantage);
        let ended = probing(runner, &echo, &self.questions, lines, &mut parts, &cancel).await;
        farewell.cancel();
        let all_ended = async { while parts.join_next().await.is_some() {} };
        if time::timeout(FAREWELL, all_ended).await.is_err() {
            tracing::warn!("cutting off what did not end in time");
            parts.shutdown().await;
        }
        ended
    }
}

/// The way to an aggregator.
fn control(config: &AgentConfig, context: &ProbeContext, url: Url) -> Result<AggregatorClient, AgentError> {
    let made = AggregatorClient::new(
        url.clone(),
        config.token.clone(),
        &context.tls,
        &config.aggregator_roots,
    );
    made.map_err(|error| AgentError::Aggregator {
        url,
        reason: match error {
            NoControl::Url => error.to_string(),
            NoControl::Client(error) => chain(&error),
        },
    })
}

async fn named(part: &'static str, running: impl Future<Output = ()>) -> &'static str {
    running.await;
    part
}

/// The loop of the agent: plan lines in, probes out.
async fn probing(
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
                    echo.nonces.write().renew(&settings.echo_nonce, Instant::now());
                }
                match line {
                    PlanLine::Facts { questions: wanted } => {
                        questions.send_if_modified(|known| {
                            let new = *known != wanted;
                            *known = wanted;
                            new
                        });
                    }
                    line => runner.apply(line, Instant::now()),
                }
            }
            () = runner.turn() => {}
            Some(ended) = parts.join_next() => {
                if cancel.is_cancelled() {
                    continue;
                }
                break Err(AgentError::Part { part: ended.unwrap_or("work") });
            }
        }
    };
    runner.stop().await;
    ended
}

fn node_of(vantage: &Vantage) -> NodeName {
    match vantage {
        Vantage::Cluster { node, .. } => node.clone(),
        // A machine outside has no node name of the cluster; its vantage is as unique and as printable.
        outside @ Vantage::Outside { name, .. } => NodeName::new(outside.to_string())
            .or_else(|_| NodeName::new(name.as_str()))
            .unwrap_or_else(|error| unreachable!("a vantage name is a name: {error}")),
    }
}

/// 64 random bits as a name.
fn incarnation() -> Result<Incarnation, AgentError> {
    let mut bits = [0; 8];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bits)
        .map_err(|_| AgentError::Random)?;
    Incarnation::new(format!("{:016x}", u64::from_be_bytes(bits))).map_err(|_| AgentError::Random)
}
