//! Acquires and renews the Lease, or waits for it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, api::PostParams};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    LeaderAddress, ReplicaOptions, ReplicaRole, ReplicaState,
    candidate::{LeadershipTerm, LeaseAction, LeaseCandidate, LeaseRecord, LeaseTiming},
    mesh_nonce,
};
use crate::{api_client::ApiClient, object_key::ObjectKey, replicas::ReplicaMetrics};

/// Annotation with the address of the holder's page.
const PAGE_ANNOTATION: &str = "parallax.dev/page";

/// Maximum lease duration in seconds that is honoured, whatever the Lease says.
const MAX_LEASE_SECONDS: u64 = 60;

/// Timeout for releasing the Lease on shutdown.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
enum ElectionError {
    #[error(
        "the aggregator's account may not {0} leases in {1}; apply the manifests (they contain the Role for leases)"
    )]
    Forbidden(&'static str, String),
    #[error("the API server does not respond")]
    Timeout,
    /// The Lease or its namespace does not exist.
    #[error("the Lease or its namespace does not exist")]
    Missing,
    /// Another replica was faster. This is not an error; the next read shows which one.
    #[error("another client changed it in the meantime")]
    Conflict,
    #[error("{0}")]
    Other(kube::Error),
}

/// A leader election.
#[derive(Debug)]
pub struct LeaderElection {
    client: ApiClient,
    lease: ObjectKey,
    name: Arc<str>,
    /// `ADDRESS:PORT` of this replica's page, as others reach it.
    page: Option<String>,
    timing: LeaseTiming,
    candidate: LeaseCandidate,
    role: watch::Sender<ReplicaRole>,
    leads_until: Arc<Mutex<Option<Instant>>>,
    metrics: ReplicaMetrics,
    start: Instant,
    /// The last logged error.
    last_error: Option<String>,
}

impl LeaderElection {
    /// Creates an election and the handle to its replica's role.
    #[must_use]
    pub fn new(
        client: ApiClient,
        options: &ReplicaOptions,
        name: &str,
        page: Option<String>,
        metrics: ReplicaMetrics,
    ) -> (Self, ReplicaState) {
        let name: Arc<str> = Arc::from(name);
        let (part, part_out) = watch::channel(ReplicaRole::Standby { leader: None });
        let until = Arc::new(Mutex::new(None));
        let replica = ReplicaState {
            name: name.clone(),
            role: part_out,
            leads_until: until.clone(),
        };
        let terms = options.timing();
        let election = Self {
            client,
            lease: options.lease.clone(),
            page,
            timing: terms,
            candidate: LeaseCandidate::new(name.to_string(), terms),
            name,
            role: part,
            leads_until: until,
            metrics,
            start: Instant::now(),
            last_error: None,
        };
        (election, replica)
    }

    /// Runs until cancelled, then releases the Lease so that the other replica need not wait.
    pub async fn run(mut self, cancelled: CancellationToken) {
        let mut last_lease = None;
        loop {
            let begun = Instant::now();
            let turned = tokio::select! {
                () = cancelled.cancelled() => break,
                turned = self.run_once() => turned,
            };
            match turned {
                Ok(lease) => {
                    self.last_error = None;
                    last_lease = Some(lease);
                }
                Err(ElectionError::Conflict) => {}
                Err(error) => self.log_failure(&error.to_string()),
            }
            let end = self.current_term().map(|term| self.start + term.until);
            self.publish(last_lease.as_ref());
            let next = begun + self.timing.retry;
            tokio::select! {
                () = cancelled.cancelled() => break,
                () = sleep_until(end.map_or(next, |end| next.min(end))) => {}
            }
            self.publish(last_lease.as_ref());
        }
        self.release(last_lease).await;
    }

    fn elapsed_at(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.start)
    }

    fn current_term(&self) -> Option<LeadershipTerm> {
        self.candidate.leadership(self.elapsed_at(Instant::now()))
    }

    fn api(&self) -> Api<Lease> {
        Api::namespaced(self.client.0.clone(), self.lease.namespace.as_str())
    }

    /// Reads the Lease once and writes it if needed. Calls that outlast the current leadership are abandoned.
    async fn run_once(&mut self) -> Result<Lease, ElectionError> {
        let api = self.api();
        let name = self.lease.name.as_str().to_owned();
        let patience = Instant::now() + self.timing.retry;
        let patience = self
            .current_term()
            .map_or(patience, |term| patience.min(self.start + term.until));
        let read = match self.with_deadline("get", patience, api.get(&name)).await {
            Ok(lease) => Some(lease),
            Err(ElectionError::Missing) => None,
            Err(error) => return Err(error),
        };
        let record = read.as_ref().map(record);
        let (begun, wall) = (self.elapsed_at(Instant::now()), Timestamp::now().as_second());
        let wall = u64::try_from(wall).unwrap_or(0);
        let action = self.candidate.decide(begun, wall, record.as_ref());
        let patience = Instant::now() + self.timing.retry;
        let (epoch, lease) = match (action, read) {
            (LeaseAction::Wait, Some(lease)) => return Ok(lease),
            // The Lease was deleted, and its holder may not know that yet.
            (LeaseAction::Wait, None) => return Err(ElectionError::Conflict),
            (LeaseAction::Create { epoch }, _) => (epoch, self.lease_for_epoch(None, epoch)),
            (LeaseAction::Acquire { epoch } | LeaseAction::Renew { epoch }, lease) => {
                (epoch, self.lease_for_epoch(lease, epoch))
            }
        };
        let parameters = PostParams::default();
        let written = if matches!(action, LeaseAction::Create { .. }) {
            self.with_deadline("create", patience, api.create(&parameters, &lease))
                .await?
        } else {
            // With the version that was read, so that the API server rejects one of two concurrent writes.
            self.with_deadline("update", patience, api.replace(&name, &parameters, &lease))
                .await?
        };
        let version = written.metadata.resource_version.clone().unwrap_or_default();
        self.candidate.record_write(begun, epoch, version);
        if !matches!(action, LeaseAction::Renew { .. }) {
            tracing::info!(lease = %self.lease, epoch, "this aggregator leads");
        }
        Ok(written)
    }

    /// The Lease as this replica writes it.
    fn lease_for_epoch(&self, before: Option<Lease>, epoch: u64) -> Lease {
        let mut lease = before.unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(self.lease.name.as_str().to_owned()),
                namespace: Some(self.lease.namespace.as_str().to_owned()),
                labels: Some(
                    [
                        ("app.kubernetes.io/name".to_owned(), "parallax".to_owned()),
                        ("app.kubernetes.io/component".to_owned(), "aggregator".to_owned()),
                    ]
                    .into(),
                ),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        let annotations = lease.metadata.annotations.get_or_insert_with(BTreeMap::new);
        match &self.page {
            Some(page) => drop(annotations.insert(PAGE_ANNOTATION.to_owned(), page.clone())),
            None => drop(annotations.remove(PAGE_ANNOTATION)),
        }
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        let other = spec.holder_identity.as_deref() != Some(&*self.name);
        let acquired = i64::try_from(epoch)
            .ok()
            .and_then(|epoch| Timestamp::from_second(epoch).ok());
        let transitions = spec.lease_transitions.unwrap_or(0);
        spec.lease_transitions = Some(if other {
            transitions.saturating_add(1)
        } else {
            transitions
        });
        spec.holder_identity = Some(self.name.to_string());
        spec.lease_duration_seconds = i32::try_from(self.timing.duration.as_secs().max(1)).ok();
        spec.acquire_time = acquired.map(MicroTime);
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        lease
    }

    /// Publishes the current role.
    fn publish(&mut self, lease: Option<&Lease>) {
        let term = self.current_term();
        *self.leads_until.lock() = term.map(|term| self.start + term.until);
        let part = match term {
            Some(term) => {
                let uid = lease
                    .and_then(|lease| lease.metadata.uid.as_deref())
                    .unwrap_or("");
                ReplicaRole::Leader {
                    epoch: term.epoch,
                    nonce: mesh_nonce(uid),
                }
            }
            None => ReplicaRole::Standby {
                leader: lease.and_then(|lease| self.leader(lease)),
            },
        };
        let led = matches!(*self.role.borrow(), ReplicaRole::Leader { .. });
        if led && term.is_none() {
            tracing::warn!(lease = %self.lease, "this aggregator no longer leads");
        }
        self.metrics.set_leader(term.is_some());
        self.role.send_if_modified(|known| {
            let new = *known != part;
            *known = part;
            new
        });
    }

    /// The holder, if it is another replica.
    fn leader(&self, lease: &Lease) -> Option<LeaderAddress> {
        let name = record(lease).holder.filter(|holder| *holder != *self.name)?;
        let page = lease.metadata.annotations.as_ref()?.get(PAGE_ANNOTATION).cloned();
        Some(LeaderAddress { name, page })
    }

    /// Gives up leadership immediately and releases the Lease.
    async fn release(&mut self, last_lease: Option<Lease>) {
        let led = self.current_term().is_some();
        self.candidate.resign();
        self.publish(None);
        let Some(mut lease) = last_lease.filter(|_| led) else {
            return;
        };
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.renew_time = Some(MicroTime(Timestamp::now()));
        }
        let name = self.lease.name.as_str().to_owned();
        let (api, parameters) = (self.api(), PostParams::default());
        let patience = Instant::now() + RELEASE_TIMEOUT;
        let given = self
            .with_deadline("update", patience, api.replace(&name, &parameters, &lease))
            .await;
        match given {
            Ok(_) => tracing::info!(lease = %self.lease, "released the Lease"),
            Err(error) => {
                tracing::warn!(lease = %self.lease, reason = %error, "cannot release the Lease; the other aggregator acquires it when it expires");
            }
        }
    }

    async fn with_deadline<T>(
        &self,
        action: &'static str,
        deadline: Instant,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, ElectionError> {
        match timeout_at(deadline, call).await {
            Err(_) => Err(ElectionError::Timeout),
            Ok(Ok(value)) => Ok(value),
            Ok(Err(kube::Error::Api(status))) => Err(match status.code {
                403 => ElectionError::Forbidden(action, self.lease.namespace.to_string()),
                404 => ElectionError::Missing,
                409 => ElectionError::Conflict,
                _ => ElectionError::Other(kube::Error::Api(status)),
            }),
            Ok(Err(error)) => Err(ElectionError::Other(error)),
        }
    }

    /// Logs an error once per reason.
    fn log_failure(&mut self, reason: &str) {
        self.metrics.lease_failed();
        if self.last_error.as_deref() != Some(reason) {
            tracing::warn!(lease = %self.lease, reason, "cannot renew or acquire the Lease; leadership ends when the current term expires; retrying");
            self.last_error = Some(reason.to_owned());
        }
    }
}

fn record(lease: &Lease) -> LeaseRecord {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = |time: MicroTime| u64::try_from(time.0.as_second()).unwrap_or(0);
    LeaseRecord {
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
        duration: Duration::from_secs(
            spec.lease_duration_seconds
                .and_then(|seconds| u64::try_from(seconds).ok())
                .unwrap_or(0)
                .min(MAX_LEASE_SECONDS),
        ),
        epoch: spec.acquire_time.map_or(0, seconds),
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
    }
}
