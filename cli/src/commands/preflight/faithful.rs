//! The whole way: a synthetic solver, asked for from everywhere, and gone again whatever happens.
//!
//! Every object has the preflight's name, its label and a deadline. They are removed on success, failure and Ctrl-C; what
//! a killed process leaves is removed by the next preflight in that namespace once its deadline has passed, and its Pod
//! ends by itself before.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use parallax_aggregator::preflight::{
    DEADLINE, Fetched, Made, Material, OWNER, PREFIX, Seat, Standing, SyntheticSolver, Wanted, ready_pod,
    route_accepted,
};
use parallax_model::FailureKind;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    AT_ONCE, Args, Case,
    beforehand::{allowed, image},
    cluster::{Cluster, Missing, Sort},
    edited, fresh,
    plan::Planned,
    random, runs,
};
use crate::{
    commands::{ask::Client, stop_on_signal},
    exit::Failure,
};

/// Between two looks at what is not ready yet.
const LOOK: Duration = Duration::from_millis(300);

/// Between two rounds of questions while the route is on its way: the first soon, the later ones less often.
const ROUNDS: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(8),
];

/// How often what was created is tried to be removed.
const REMOVALS: usize = 3;

pub(super) async fn run(
    args: &Args,
    client: &Client,
    cluster: &Cluster,
    seat: &Seat,
    planned: Vec<Planned>,
    cases: &mut Vec<Case>,
) -> Result<(), Failure> {
    let stop = stop_on_signal()?;
    // What can be refused is refused before anything is made.
    for planned in &planned {
        allowed(args, cluster, planned).await?;
    }
    edited::collect(cluster, &args.namespace).await;
    collect(cluster, &args.namespace).await;
    let image = image(args, cluster).await?;
    let attempt = Attempt {
        args,
        client,
        cluster,
        seat,
        stop: &stop,
        progress: args.progress() && planned.len() == 1,
    };
    // After the first failure none is begun any more; what has begun is ended in order, so that it is removed.
    let failed = Cell::new(false);
    let (attempt, image, failed) = (&attempt, &image, &failed);
    let done: Vec<Result<Option<Case>, Failure>> = stream::iter(planned)
        .map(async |planned| {
            if failed.get() || attempt.stop.is_cancelled() {
                return Ok(None);
            }
            let case = attempt.whole(planned, image).await;
            failed.set(failed.get() || case.is_err());
            case.map(Some)
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    for case in done {
        cases.extend(case?);
    }
    if stop.is_cancelled() {
        return Err(interrupted());
    }
    Ok(())
}

fn interrupted() -> Failure {
    Failure::CouldNot("interrupted; what was created is removed".to_owned())
}

/// Removes what earlier preflights left behind and whose time is over. What cannot be removed is said and does not
/// hinder this one.
async fn collect(cluster: &Cluster, namespace: &str) {
    let now = Timestamp::now();
    for sort in [Sort::Ingress, Sort::Route, Sort::Service, Sort::Pod] {
        let left = match cluster.list(sort, namespace, OWNER).await {
            Ok(left) => left,
            // Without the Gateway API there are no routes.
            Err(Missing::NotFound) => continue,
            Err(Missing::Failed(said)) => {
                eprintln!("cannot look for what earlier preflights left: {said}");
                continue;
            }
        };
        for object in left {
            let deadline = object["metadata"]["annotations"][DEADLINE].as_str();
            let over = deadline
                .and_then(|deadline| deadline.parse::<Timestamp>().ok())
                .is_none_or(|deadline| deadline < now);
            let Some(name) = object["metadata"]["name"].as_str().filter(|_| over) else {
                continue;
            };
            match cluster.delete(sort, namespace, name).await {
                Ok(()) => eprintln!(
                    "removed {}, left by an earlier preflight",
                    sort.named(namespace, name)
                ),
                Err(missing) => eprintln!("{}", Failure::from(missing)),
            }
        }
    }
}

/// One preflight under way.
struct Attempt<'a> {
    args: &'a Args,
    client: &'a Client,
    cluster: &'a Cluster,
    seat: &'a Seat,
    stop: &'a CancellationToken,
    /// Whether a person watches one host.
    progress: bool,
}

impl Attempt<'_> {
    /// Makes the solver, asks, and removes it again, whatever came of it.
    async fn whole(&self, planned: Planned, image: &str) -> Result<Case, Failure> {
        let (token, key) = fresh()?;
        let mark = u64::from_be_bytes(random()?) >> 16;
        let lifetime = SignedDuration::from_secs(self.args.lifetime.into());
        let material = Material {
            name: format!("{PREFIX}{mark:012x}"),
            namespace: self.args.namespace.clone(),
            host: planned.host.to_string(),
            token,
            key,
            image: image.to_owned(),
            deadline: (Timestamp::now() + lifetime).to_string(),
            lifetime_seconds: self.args.lifetime,
        };
        let Some(approach) = &planned.approach else {
            return Err(Failure::Usage(format!(
                "{}: nothing says how its challenge would be answered",
                planned.host
            )));
        };
        let solver = SyntheticSolver::of(approach, &material);
        let way = match &solver.way {
            Made::Ingress(_) => Way::Own(Sort::Ingress),
            Made::Route(_) => Way::Own(Sort::Route),
            Made::Path { ingress, .. } => Way::PathIn(ingress.clone()),
        };
        let done = self.made(solver, &way, &material, planned).await;
        let removed = self.remove(&way, &material).await;
        match (done, removed) {
            (Err(failure), Err(left)) => {
                eprintln!("parallax: {left}");
                Err(failure)
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
        way: &Way,
        material: &Material,
        mut planned: Planned,
    ) -> Result<Case, Failure> {
        let namespace = &material.namespace;
        // Creating is never broken off: a request on its way could make what nobody removes.
        let pod = self.cluster.create(Sort::Pod, namespace, &solver.pod).await?;
        if let Some(uid) = pod["metadata"]["uid"].as_str() {
            solver.owned_by(uid);
        }
        self.cluster
            .create(Sort::Service, namespace, &solver.service)
            .await?;
        match &solver.way {
            Made::Path { ingress, path } => {
                edited::add(self.cluster, namespace, ingress, (&material.host, path)).await?;
            }
            Made::Ingress(object) => {
                self.cluster.create(Sort::Ingress, namespace, object).await?;
            }
            Made::Route(object) => {
                self.cluster.create(Sort::Route, namespace, object).await?;
            }
        }
        let begun = Instant::now();
        let work = async {
            self.ready(Sort::Pod, material, ready_pod).await?;
            if matches!(way, Way::Own(Sort::Route)) {
                self.ready(Sort::Route, material, route_accepted).await?;
            }
            let wanted = Wanted {
                token: material.token.clone(),
                key: Some(material.key.clone()),
                ..runs::wanted(self.args, &planned.host, self.seat)
            };
            let (mut fetched, propagation) = self.ask(&wanted, begun).await?;
            runs::deeper(self.client, &wanted, &mut fetched, self.progress).await?;
            Ok::<_, Failure>((wanted, fetched, propagation))
        };
        let (wanted, fetched, propagation) = match self.stop.run_until_cancelled(work).await {
            Some(done) => done?,
            None => return Err(interrupted()),
        };
        planned.propagation = propagation;
        Ok(Case::of(planned, &wanted, fetched, self.seat))
    }

    /// Waits until an object is ready.
    async fn ready(
        &self,
        sort: Sort,
        material: &Material,
        is: impl Fn(&Value) -> Result<bool, String>,
    ) -> Result<(), Failure> {
        let since = Instant::now();
        let what = sort.named(&material.namespace, &material.name);
        loop {
            let object = self
                .cluster
                .get(sort, &material.namespace, &material.name)
                .await?;
            if is(&object).map_err(|why| Failure::CouldNot(format!("{what} will not be ready: {why}")))? {
                return Ok(());
            }
            if since.elapsed() >= self.args.patience() {
                return Err(Failure::CouldNot(format!(
                    "{what} is not ready after {} s; its events say why, --ready waits longer",
                    self.args.ready
                )));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Asks until the route answers, or it is clear that waiting longer does not help.
    async fn ask(&self, wanted: &Wanted, begun: Instant) -> Result<(Fetched, Option<Duration>), Failure> {
        let mut pauses = ROUNDS.iter().chain(std::iter::repeat(&ROUNDS[3]));
        let mut first = None;
        loop {
            let asked = runs::both(self.client, wanted, self.progress).await;
            let late = begun.elapsed() >= self.args.patience();
            match asked {
                Ok(fetched) => {
                    let judged = wanted.judged(&fetched, self.seat);
                    if !judged.self_check.passed.is_empty() {
                        first = first.or(Some(begun.elapsed()));
                    }
                    let settled = judged
                        .self_check
                        .failing
                        .iter()
                        .all(|group| !on_its_way(&group.kind));
                    if late || settled || judged.self_check.standing == Standing::Passed {
                        return Ok((fetched, first));
                    }
                }
                // The aggregator has not seen the new Ingress yet, so the host is none that it knows.
                Err(Failure::Usage(said)) if said.contains("no host of a known target") && !late => {}
                Err(failure) => return Err(failure),
            }
            if let Some(pause) = pauses.next() {
                tokio::time::sleep(*pause).await;
            }
        }
    }

    /// Removes what may have been created, the way in first. One try may fail where the next does not.
    async fn remove(&self, way: &Way, material: &Material) -> Result<(), Failure> {
        let (namespace, name) = (&material.namespace, &material.name);
        let mut left = Vec::new();
        for part in [way, &Way::Own(Sort::Service), &Way::Own(Sort::Pod)] {
            let mut said = None;
            for _ in 0..REMOVALS {
                let removed = match part {
                    Way::PathIn(ingress) => edited::remove(self.cluster, namespace, ingress, name).await,
                    Way::Own(sort) => self.cluster.delete(*sort, namespace, name).await,
                };
                match removed {
                    Ok(()) => {
                        said = None;
                        break;
                    }
                    Err(missing) => said = Some(Failure::from(missing).to_string()),
                }
            }
            left.extend(said);
        }
        if left.is_empty() {
            return Ok(());
        }
        let by_hand = match way {
            Way::Own(Sort::Route) => {
                format!("kubectl -n {namespace} delete httproutes,services,pods -l {OWNER}={name}")
            }
            Way::Own(_) => format!("kubectl -n {namespace} delete ingresses,services,pods -l {OWNER}={name}"),
            Way::PathIn(ingress) => format!(
                "take the path to Service {name} out of Ingress {namespace}/{ingress}, then kubectl -n {namespace} delete services,pods -l {OWNER}={name}"
            ),
        };
        Err(Failure::CouldNot(format!(
            "what was created is still there ({}); the next preflight in namespace {namespace} removes it after {}, or do so now: {by_hand}",
            left.join("; "),
            material.deadline,
        )))
    }
}

/// The way in that was made.
#[derive(Debug)]
enum Way {
    /// An object of its own.
    Own(Sort),
    /// A path in this Ingress.
    PathIn(String),
}

/// A controller that has not taken up the route yet answers so; a name that is published with it is not there yet.
const fn on_its_way(kind: &FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::Status | FailureKind::WrongBody | FailureKind::NxDomain | FailureKind::NoAddress
    )
}
