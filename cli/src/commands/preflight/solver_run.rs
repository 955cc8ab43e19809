//! The complete preflight: creates a synthetic solver, fetches from all vantages, and removes the solver in all
//! cases.
//!
//! Every object has the preflight's name, its label and a deadline. The objects are removed on success, failure and
//! Ctrl-C. Those of a killed process are removed by the next preflight in that namespace once the deadline has
//! passed; the Pod ends by itself earlier. Objects of a Preflight object belong to it and are deleted with it.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use parallax_model::FailureKind;
use parallax_preflight::{
    CertManagerPlacement, FetchRequest, FetchResult, NAME_PREFIX, PREFLIGHT_LABEL, PreflightOwner,
    RouteObject, SolverInputs, SyntheticSolver, is_pod_ready, is_route_accepted,
};
use ring::digest;
use serde_json::Value;

use super::{
    JudgedHost, MAX_CONCURRENT_HOSTS, PreflightContext,
    admission::{check_allowed, responder_image},
    args::Request,
    cleanup,
    cluster::{ClusterClient, ClusterError, ObjectKind},
    edit_in_place,
    error::{NoVerdict, NoVerdictReason},
    new_token, random_bytes,
    route_plan::PlannedName,
    runs,
};
use crate::exit::Failure;

/// The pause between two readiness checks.
const POLL_INTERVAL: Duration = Duration::from_millis(300);

/// The pauses between rounds of fetches until the route takes effect: short at first, then longer.
const ROUTE_RETRY_DELAYS: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(8),
];

/// The maximum number of attempts to remove an object.
const MAX_REMOVAL_ATTEMPTS: usize = 3;

/// Makes the preflights of all names, a few at a time.
pub(super) async fn preflight_all(
    request: &Request,
    context: &PreflightContext<'_>,
    cluster: &ClusterClient,
    placement: &CertManagerPlacement,
    planned: Vec<PlannedName>,
) -> Result<Vec<JudgedHost>, NoVerdict> {
    // Reject invalid requests before anything is created.
    for planned in &planned {
        check_allowed(request, context.notify, cluster, planned).await?;
    }
    edit_in_place::remove_expired_paths(cluster, &request.namespace, context.notify).await;
    cleanup::remove_expired(cluster, &request.namespace, context.notify).await;
    let image = responder_image(&request.settings, cluster).await?;
    let attempt = PreflightAttempt {
        request,
        context,
        cluster,
        placement,
        progress: context.progress && planned.len() == 1,
    };
    // After the first failure no further preflight starts; those in progress finish in order, so that their objects
    // are removed.
    let failed = Cell::new(false);
    let (attempt, image, failed) = (&attempt, &image, &failed);
    let done: Vec<Result<Option<JudgedHost>, NoVerdict>> = stream::iter(planned)
        .map(async |planned| {
            if failed.get() || context.stop.is_cancelled() {
                return Ok(None);
            }
            let case = attempt.preflight_host(planned, image).await;
            failed.set(failed.get() || case.is_err());
            case.map(Some)
        })
        .buffered(MAX_CONCURRENT_HOSTS)
        .collect()
        .await;
    let mut cases = Vec::new();
    for case in done {
        cases.extend(case?);
    }
    if context.stop.is_cancelled() {
        return Err(interrupted());
    }
    Ok(cases)
}

pub(super) fn interrupted() -> NoVerdict {
    NoVerdictReason::Interrupted.indeterminate("interrupted; the created objects are removed".to_owned())
}

/// Returns the name of all objects. For a Preflight object it is deterministic, so that concurrent attempts
/// conflict at the first object.
fn object_name(owner: Option<&PreflightOwner>, host: &str) -> Result<String, NoVerdict> {
    let bytes: [u8; 8] = match owner {
        None => random_bytes()?,
        Some(owner) => {
            let hash = digest::digest(&digest::SHA256, format!("{} {host}", owner.uid).as_bytes());
            std::array::from_fn(|n| hash.as_ref()[n])
        }
    };
    Ok(format!("{NAME_PREFIX}{:012x}", u64::from_be_bytes(bytes) >> 16))
}

/// Preflights in progress.
struct PreflightAttempt<'a> {
    request: &'a Request,
    context: &'a PreflightContext<'a>,
    cluster: &'a ClusterClient,
    placement: &'a CertManagerPlacement,
    /// Whether to show progress.
    progress: bool,
}

impl PreflightAttempt<'_> {
    /// Creates the solver, makes the fetches, and removes the solver, whatever the result.
    async fn preflight_host(&self, planned: PlannedName, image: &str) -> Result<JudgedHost, NoVerdict> {
        let (token, key) = new_token()?;
        let lifetime = SignedDuration::from_secs(self.request.settings.lifetime.into());
        let material = SolverInputs {
            name: object_name(self.context.owner, planned.host.as_str())?,
            namespace: self.request.namespace.clone(),
            host: planned.host.to_string(),
            token,
            key,
            image: image.to_owned(),
            deadline: (Timestamp::now() + lifetime).to_string(),
            lifetime_seconds: self.request.settings.lifetime,
        };
        let Some(approach) = &planned.route else {
            return Err(NoVerdictReason::Invalid.usage(format!(
                "{}: no issuer, class or Gateway determines the solver; give one",
                planned.host
            )));
        };
        let mut solver = SyntheticSolver::from_route(approach, &material);
        if let Some(owner) = self.context.owner {
            solver.set_preflight_owner(owner);
        }
        let way = match &solver.route {
            RouteObject::Ingress(_) => CreatedRoute::Object(ObjectKind::Ingress),
            RouteObject::Route(_) => CreatedRoute::Object(ObjectKind::Route),
            RouteObject::Path { ingress, .. } => CreatedRoute::IngressPath(ingress.clone()),
        };
        // Creation is never cancelled: a request in flight could create an object that no one removes.
        let pod = self
            .cluster
            .create(ObjectKind::Pod, &material.namespace, &solver.pod)
            .await;
        let done = match pod {
            Ok(pod) => self.test_created(solver, &pod, &way, &material, planned).await,
            // The object belongs to another process, which removes it.
            Err(ClusterError::Failed(NoVerdictReason::Busy, message)) => {
                return Err(NoVerdictReason::Busy.indeterminate(message));
            }
            Err(missing) => Err(missing.into()),
        };
        let removed = self.remove_objects(&way, &material).await;
        match (done, removed) {
            (Err(error), Err(left)) => {
                (self.context.notify)(&format!("parallax: {}", left.failure));
                Err(error)
            }
            (done, removed) => {
                let case = done?;
                removed?;
                Ok(case)
            }
        }
    }

    async fn test_created(
        &self,
        mut solver: SyntheticSolver,
        pod: &Value,
        route: &CreatedRoute,
        inputs: &SolverInputs,
        mut planned: PlannedName,
    ) -> Result<JudgedHost, NoVerdict> {
        let namespace = &inputs.namespace;
        let uid = pod["metadata"]["uid"].as_str();
        if let (None, Some(uid)) = (self.context.owner, uid) {
            solver.set_pod_owner(uid);
        }
        self.cluster
            .create(ObjectKind::Service, namespace, &solver.service)
            .await?;
        match &solver.route {
            RouteObject::Path { ingress, path } => {
                edit_in_place::add_path(self.cluster, namespace, ingress, (&inputs.host, path)).await?;
            }
            RouteObject::Ingress(object) => {
                self.cluster
                    .create(ObjectKind::Ingress, namespace, object)
                    .await?;
            }
            RouteObject::Route(object) => {
                self.cluster.create(ObjectKind::Route, namespace, object).await?;
            }
        }
        let begun = Instant::now();
        let work = async {
            self.wait_ready(ObjectKind::Pod, inputs, is_pod_ready).await?;
            if matches!(route, CreatedRoute::Object(ObjectKind::Route)) {
                self.wait_ready(ObjectKind::Route, inputs, is_route_accepted)
                    .await?;
            }
            let wanted = FetchRequest {
                token: inputs.token.clone(),
                key: Some(inputs.key.clone()),
                ..runs::fetch_request(self.request, &planned, self.placement)
            };
            let (mut fetched, propagation) = self.fetch_until_settled(&wanted, begun).await?;
            runs::run_remaining(self.context.client, &wanted, &mut fetched, self.progress)
                .await
                .map_err(NoVerdict::from_aggregator)?;
            self.check_responder(inputs, uid).await?;
            Ok::<_, NoVerdict>((wanted, fetched, propagation))
        };
        let (wanted, fetched, propagation) = match self.context.stop.run_until_cancelled(work).await {
            Some(done) => done?,
            None => return Err(interrupted()),
        };
        planned.propagation = propagation;
        Ok(JudgedHost::judge(planned, &wanted, fetched, self.placement))
    }

    /// Checks that the responder is still the created one: without it, a failure proves nothing.
    async fn check_responder(&self, inputs: &SolverInputs, uid: Option<&str>) -> Result<(), NoVerdict> {
        let pod = self
            .cluster
            .get(ObjectKind::Pod, &inputs.namespace, &inputs.name)
            .await?;
        let metadata = &pod["metadata"];
        if metadata["uid"].as_str() == uid && metadata["deletionTimestamp"].is_null() {
            return Ok(());
        }
        Err(NoVerdictReason::Replaced.indeterminate(format!(
            "{} was removed or replaced during the test; find out why (an eviction, a drain, another preflight), and try again",
            ObjectKind::Pod.qualified_name(&inputs.namespace, &inputs.name)
        )))
    }

    /// Waits until an object is ready.
    async fn wait_ready(
        &self,
        kind: ObjectKind,
        inputs: &SolverInputs,
        is: impl Fn(&Value) -> Result<bool, String>,
    ) -> Result<(), NoVerdict> {
        let since = Instant::now();
        let object_name = kind.qualified_name(&inputs.namespace, &inputs.name);
        loop {
            let object = self.cluster.get(kind, &inputs.namespace, &inputs.name).await?;
            if is(&object).map_err(|reason| {
                NoVerdictReason::NotReady
                    .indeterminate(format!("{object_name} will not become ready: {reason}"))
            })? {
                return Ok(());
            }
            if since.elapsed() >= self.request.ready_timeout() {
                return Err(NoVerdictReason::NotReady.indeterminate(format!(
                    "{object_name} is not ready after {} s; see its events for the reason, or wait longer with --ready",
                    self.request.ready
                )));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Repeats the fetches until the route responds, or until waiting longer cannot help.
    async fn fetch_until_settled(
        &self,
        fetch_request: &FetchRequest,
        begun: Instant,
    ) -> Result<(FetchResult, Option<Duration>), NoVerdict> {
        let mut pauses = ROUTE_RETRY_DELAYS
            .iter()
            .chain(std::iter::repeat(&ROUTE_RETRY_DELAYS[3]));
        let mut first = None;
        loop {
            let result = runs::run_both(self.context.client, fetch_request, self.progress).await;
            let late = begun.elapsed() >= self.request.ready_timeout();
            match result {
                Ok(fetched) => {
                    let judged = fetch_request.judge(&fetched, self.placement);
                    if !judged.self_check.passed.is_empty() {
                        first = first.or(Some(begun.elapsed()));
                    }
                    let mut own = judged.self_check.failure_groups.iter();
                    // With several controllers, one may have the route at the time of the first fetch while another
                    // does not have it yet at the second.
                    let mut ca = judged.ca.failure_groups.iter();
                    let settled = !own.any(|group| may_be_pending(&group.kind))
                        && !ca.any(|group| is_other_response(&group.kind));
                    if late || settled {
                        return Ok((fetched, first));
                    }
                }
                // The aggregator has not seen the new Ingress yet, so it does not know the host.
                Err(Failure::Usage(message)) if message.contains("no host of a known target") && !late => {}
                Err(failure) => return Err(NoVerdict::from_aggregator(failure)),
            }
            if let Some(pause) = pauses.next() {
                tokio::time::sleep(*pause).await;
            }
        }
    }

    /// Removes everything that may have been created, the route first. Failed deletions are retried.
    async fn remove_objects(&self, route: &CreatedRoute, inputs: &SolverInputs) -> Result<(), NoVerdict> {
        let (namespace, name) = (&inputs.namespace, &inputs.name);
        let mut left = Vec::new();
        for part in [
            route,
            &CreatedRoute::Object(ObjectKind::Service),
            &CreatedRoute::Object(ObjectKind::Pod),
        ] {
            let mut last_error = None;
            for _ in 0..MAX_REMOVAL_ATTEMPTS {
                let removed = match part {
                    CreatedRoute::IngressPath(ingress) => {
                        edit_in_place::remove_path(self.cluster, namespace, ingress, name).await
                    }
                    CreatedRoute::Object(sort) => self.cluster.delete(*sort, namespace, name).await,
                };
                match removed {
                    Ok(()) => {
                        last_error = None;
                        break;
                    }
                    Err(missing) => last_error = Some(NoVerdict::from(missing).failure.to_string()),
                }
            }
            left.extend(last_error);
        }
        if left.is_empty() {
            return Ok(());
        }
        let by_hand = match route {
            CreatedRoute::Object(ObjectKind::Route) => {
                format!("kubectl -n {namespace} delete httproutes,services,pods -l {PREFLIGHT_LABEL}={name}")
            }
            CreatedRoute::Object(_) => {
                format!("kubectl -n {namespace} delete ingresses,services,pods -l {PREFLIGHT_LABEL}={name}")
            }
            CreatedRoute::IngressPath(ingress) => format!(
                "remove the path to Service {name} from Ingress {namespace}/{ingress}, then kubectl -n {namespace} delete services,pods -l {PREFLIGHT_LABEL}={name}"
            ),
        };
        Err(NoVerdictReason::NotRemoved.indeterminate(format!(
            "the created objects still exist ({}); the next preflight in namespace {namespace} removes them after {}; to remove them now: {by_hand}",
            left.join("; "),
            inputs.deadline,
        )))
    }
}

/// The created route.
#[derive(Debug)]
enum CreatedRoute {
    /// An object of its own.
    Object(ObjectKind),
    /// A path in this existing Ingress.
    IngressPath(String),
}

/// Failures that are typical of a controller without the route, or of a name that is published together with it.
const fn may_be_pending(kind: &FailureKind) -> bool {
    is_other_response(kind) || matches!(kind, FailureKind::NxDomain | FailureKind::NoAddress)
}

/// Failures that are typical of a controller that does not have the route yet.
const fn is_other_response(kind: &FailureKind) -> bool {
    matches!(kind, FailureKind::Status | FailureKind::WrongBody)
}
