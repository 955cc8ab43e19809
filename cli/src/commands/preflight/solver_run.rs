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
    CertManagerPlacement, FetchRequest, FetchResult, OWNER, PREFIX, PreflightOwner, SolverInputs,
    SolverRouting, SyntheticSolver, ready_pod, route_accepted,
};
use ring::digest;
use serde_json::Value;

use super::{
    AT_ONCE, JudgedHost, PreflightContext,
    args::Request,
    cluster::{ClusterClient, MissingReason, ObjectKind},
    edit_in_place,
    error::{NoVerdict, NoVerdictReason},
    fresh, leftovers,
    permission::{allowed, image},
    plan::PlannedName,
    random, runs,
};
use crate::exit::Failure;

/// The pause between two readiness checks.
const LOOK: Duration = Duration::from_millis(300);

/// The pauses between rounds of fetches until the route takes effect: short at first, then longer.
const ROUNDS: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(8),
];

/// The maximum number of attempts to remove an object.
const REMOVALS: usize = 3;

/// Makes the preflights of all names, a few at a time.
pub(super) async fn run(
    asked: &Request,
    place: &PreflightContext<'_>,
    cluster: &ClusterClient,
    seat: &CertManagerPlacement,
    planned: Vec<PlannedName>,
) -> Result<Vec<JudgedHost>, NoVerdict> {
    // Reject invalid requests before anything is created.
    for planned in &planned {
        allowed(asked, place.tell, cluster, planned).await?;
    }
    edit_in_place::collect(cluster, &asked.namespace, place.tell).await;
    leftovers::collect(cluster, &asked.namespace, place.tell).await;
    let image = image(&asked.setting, cluster).await?;
    let attempt = PreflightAttempt {
        asked,
        place,
        cluster,
        seat,
        progress: place.progress && planned.len() == 1,
    };
    // After the first failure no further preflight starts; those in progress finish in order, so that their objects
    // are removed.
    let failed = Cell::new(false);
    let (attempt, image, failed) = (&attempt, &image, &failed);
    let done: Vec<Result<Option<JudgedHost>, NoVerdict>> = stream::iter(planned)
        .map(async |planned| {
            if failed.get() || place.stop.is_cancelled() {
                return Ok(None);
            }
            let case = attempt.whole(planned, image).await;
            failed.set(failed.get() || case.is_err());
            case.map(Some)
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    let mut cases = Vec::new();
    for case in done {
        cases.extend(case?);
    }
    if place.stop.is_cancelled() {
        return Err(interrupted());
    }
    Ok(cases)
}

pub(super) fn interrupted() -> NoVerdict {
    NoVerdictReason::Interrupted.could_not("interrupted; the created objects are removed".to_owned())
}

/// Returns the name of all objects. For a Preflight object it is deterministic, so that concurrent attempts
/// conflict at the first object.
fn name(owner: Option<&PreflightOwner>, host: &str) -> Result<String, NoVerdict> {
    let bytes: [u8; 8] = match owner {
        None => random()?,
        Some(owner) => {
            let hash = digest::digest(&digest::SHA256, format!("{} {host}", owner.uid).as_bytes());
            std::array::from_fn(|n| hash.as_ref()[n])
        }
    };
    Ok(format!("{PREFIX}{:012x}", u64::from_be_bytes(bytes) >> 16))
}

/// Preflights in progress.
struct PreflightAttempt<'a> {
    asked: &'a Request,
    place: &'a PreflightContext<'a>,
    cluster: &'a ClusterClient,
    seat: &'a CertManagerPlacement,
    /// Whether to show progress.
    progress: bool,
}

impl PreflightAttempt<'_> {
    /// Creates the solver, makes the fetches, and removes the solver, whatever the result.
    async fn whole(&self, planned: PlannedName, image: &str) -> Result<JudgedHost, NoVerdict> {
        let (token, key) = fresh()?;
        let lifetime = SignedDuration::from_secs(self.asked.setting.lifetime.into());
        let material = SolverInputs {
            name: name(self.place.owner, planned.host.as_str())?,
            namespace: self.asked.namespace.clone(),
            host: planned.host.to_string(),
            token,
            key,
            image: image.to_owned(),
            deadline: (Timestamp::now() + lifetime).to_string(),
            lifetime_seconds: self.asked.setting.lifetime,
        };
        let Some(approach) = &planned.approach else {
            return Err(NoVerdictReason::Invalid.usage(format!(
                "{}: no issuer, class or Gateway determines the solver; give one",
                planned.host
            )));
        };
        let mut solver = SyntheticSolver::of(approach, &material);
        if let Some(owner) = self.place.owner {
            solver.belongs_to(owner);
        }
        let way = match &solver.way {
            SolverRouting::Ingress(_) => SolverRoute::Own(ObjectKind::Ingress),
            SolverRouting::Route(_) => SolverRoute::Own(ObjectKind::Route),
            SolverRouting::Path { ingress, .. } => SolverRoute::PathIn(ingress.clone()),
        };
        // Creation is never cancelled: a request in flight could create an object that no one removes.
        let pod = self
            .cluster
            .create(ObjectKind::Pod, &material.namespace, &solver.pod)
            .await;
        let done = match pod {
            Ok(pod) => self.made(solver, &pod, &way, &material, planned).await,
            // The object belongs to another process, which removes it.
            Err(MissingReason::Failed(NoVerdictReason::Busy, said)) => {
                return Err(NoVerdictReason::Busy.could_not(said));
            }
            Err(missing) => Err(missing.into()),
        };
        let removed = self.remove(&way, &material).await;
        match (done, removed) {
            (Err(trouble), Err(left)) => {
                (self.place.tell)(&format!("parallax: {}", left.failure));
                Err(trouble)
            }
            (done, removed) => {
                let case = done?;
                removed?;
                Ok(case)
            }
        }
    }

    async fn made(
        &self,
        mut solver: SyntheticSolver,
        pod: &Value,
        way: &SolverRoute,
        material: &SolverInputs,
        mut planned: PlannedName,
    ) -> Result<JudgedHost, NoVerdict> {
        let namespace = &material.namespace;
        let uid = pod["metadata"]["uid"].as_str();
        if let (None, Some(uid)) = (self.place.owner, uid) {
            solver.owned_by(uid);
        }
        self.cluster
            .create(ObjectKind::Service, namespace, &solver.service)
            .await?;
        match &solver.way {
            SolverRouting::Path { ingress, path } => {
                edit_in_place::add(self.cluster, namespace, ingress, (&material.host, path)).await?;
            }
            SolverRouting::Ingress(object) => {
                self.cluster
                    .create(ObjectKind::Ingress, namespace, object)
                    .await?;
            }
            SolverRouting::Route(object) => {
                self.cluster.create(ObjectKind::Route, namespace, object).await?;
            }
        }
        let begun = Instant::now();
        let work = async {
            self.ready(ObjectKind::Pod, material, ready_pod).await?;
            if matches!(way, SolverRoute::Own(ObjectKind::Route)) {
                self.ready(ObjectKind::Route, material, route_accepted).await?;
            }
            let wanted = FetchRequest {
                token: material.token.clone(),
                key: Some(material.key.clone()),
                ..runs::wanted(self.asked, &planned, self.seat)
            };
            let (mut fetched, propagation) = self.ask(&wanted, begun).await?;
            runs::rest(self.place.client, &wanted, &mut fetched, self.progress)
                .await
                .map_err(NoVerdict::of_the_aggregator)?;
            self.still_ours(material, uid).await?;
            Ok::<_, NoVerdict>((wanted, fetched, propagation))
        };
        let (wanted, fetched, propagation) = match self.place.stop.run_until_cancelled(work).await {
            Some(done) => done?,
            None => return Err(interrupted()),
        };
        planned.propagation = propagation;
        Ok(JudgedHost::of(planned, &wanted, fetched, self.seat))
    }

    /// Checks that the responder is still the created one: without it, a failure proves nothing.
    async fn still_ours(&self, material: &SolverInputs, uid: Option<&str>) -> Result<(), NoVerdict> {
        let pod = self
            .cluster
            .get(ObjectKind::Pod, &material.namespace, &material.name)
            .await?;
        let metadata = &pod["metadata"];
        if metadata["uid"].as_str() == uid && metadata["deletionTimestamp"].is_null() {
            return Ok(());
        }
        Err(NoVerdictReason::Replaced.could_not(format!(
            "{} was removed or replaced during the test; find out why (an eviction, a drain, another preflight), and try again",
            ObjectKind::Pod.named(&material.namespace, &material.name)
        )))
    }

    /// Waits until an object is ready.
    async fn ready(
        &self,
        sort: ObjectKind,
        material: &SolverInputs,
        is: impl Fn(&Value) -> Result<bool, String>,
    ) -> Result<(), NoVerdict> {
        let since = Instant::now();
        let what = sort.named(&material.namespace, &material.name);
        loop {
            let object = self
                .cluster
                .get(sort, &material.namespace, &material.name)
                .await?;
            if is(&object).map_err(|why| {
                NoVerdictReason::NotReady.could_not(format!("{what} will not become ready: {why}"))
            })? {
                return Ok(());
            }
            if since.elapsed() >= self.asked.patience() {
                return Err(NoVerdictReason::NotReady.could_not(format!(
                    "{what} is not ready after {} s; see its events for the reason, or wait longer with --ready",
                    self.asked.ready
                )));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Repeats the fetches until the route responds, or until waiting longer cannot help.
    async fn ask(
        &self,
        wanted: &FetchRequest,
        begun: Instant,
    ) -> Result<(FetchResult, Option<Duration>), NoVerdict> {
        let mut pauses = ROUNDS.iter().chain(std::iter::repeat(&ROUNDS[3]));
        let mut first = None;
        loop {
            let asked = runs::both(self.place.client, wanted, self.progress).await;
            let late = begun.elapsed() >= self.asked.patience();
            match asked {
                Ok(fetched) => {
                    let judged = wanted.judged(&fetched, self.seat);
                    if !judged.self_check.passed.is_empty() {
                        first = first.or(Some(begun.elapsed()));
                    }
                    let mut own = judged.self_check.failing.iter();
                    // With several controllers, one may have the route at the time of the first fetch while another
                    // does not have it yet at the second.
                    let mut ca = judged.ca.failing.iter();
                    let settled = !own.any(|group| on_its_way(&group.kind))
                        && !ca.any(|group| answered_otherwise(&group.kind));
                    if late || settled {
                        return Ok((fetched, first));
                    }
                }
                // The aggregator has not seen the new Ingress yet, so it does not know the host.
                Err(Failure::Usage(said)) if said.contains("no host of a known target") && !late => {}
                Err(failure) => return Err(NoVerdict::of_the_aggregator(failure)),
            }
            if let Some(pause) = pauses.next() {
                tokio::time::sleep(*pause).await;
            }
        }
    }

    /// Removes everything that may have been created, the route first. Failed deletions are retried.
    async fn remove(&self, way: &SolverRoute, material: &SolverInputs) -> Result<(), NoVerdict> {
        let (namespace, name) = (&material.namespace, &material.name);
        let mut left = Vec::new();
        for part in [
            way,
            &SolverRoute::Own(ObjectKind::Service),
            &SolverRoute::Own(ObjectKind::Pod),
        ] {
            let mut said = None;
            for _ in 0..REMOVALS {
                let removed = match part {
                    SolverRoute::PathIn(ingress) => {
                        edit_in_place::remove(self.cluster, namespace, ingress, name).await
                    }
                    SolverRoute::Own(sort) => self.cluster.delete(*sort, namespace, name).await,
                };
                match removed {
                    Ok(()) => {
                        said = None;
                        break;
                    }
                    Err(missing) => said = Some(NoVerdict::from(missing).failure.to_string()),
                }
            }
            left.extend(said);
        }
        if left.is_empty() {
            return Ok(());
        }
        let by_hand = match way {
            SolverRoute::Own(ObjectKind::Route) => {
                format!("kubectl -n {namespace} delete httproutes,services,pods -l {OWNER}={name}")
            }
            SolverRoute::Own(_) => {
                format!("kubectl -n {namespace} delete ingresses,services,pods -l {OWNER}={name}")
            }
            SolverRoute::PathIn(ingress) => format!(
                "remove the path to Service {name} from Ingress {namespace}/{ingress}, then kubectl -n {namespace} delete services,pods -l {OWNER}={name}"
            ),
        };
        Err(NoVerdictReason::NotRemoved.could_not(format!(
            "the created objects still exist ({}); the next preflight in namespace {namespace} removes them after {}; to remove them now: {by_hand}",
            left.join("; "),
            material.deadline,
        )))
    }
}

/// The created route.
#[derive(Debug)]
enum SolverRoute {
    /// An object of its own.
    Own(ObjectKind),
    /// A path in this existing Ingress.
    PathIn(String),
}

/// Failures that are typical of a controller without the route, or of a name that is published together with it.
const fn on_its_way(kind: &FailureKind) -> bool {
    answered_otherwise(kind) || matches!(kind, FailureKind::NxDomain | FailureKind::NoAddress)
}

/// Failures that are typical of a controller that does not have the route yet.
const fn answered_otherwise(kind: &FailureKind) -> bool {
    matches!(kind, FailureKind::Status | FailureKind::WrongBody)
}
