//! Explains one Challenge: the aggregator replays its self check from every node with its own runs.

use std::{sync::Arc, time::Duration};

use parallax_api::{
    challenges::{ChallengeCause, ChallengeExplanation, FailingVantages, SelfCheckReplay},
    runs::RunRequest,
};
use parallax_diagnosis::{topology::Topology, verdict::Incident, view::View};
use parallax_kubernetes::{api_client::ApiClient, topology_state::TopologyState};
use parallax_model::{ChallengeClient, RunId};
use parallax_preflight::{
    Cause, CertManagerPlacement, Challenge, FailureGroup, FetchCollector, FetchPart, FetchRequest,
    FetchResult, HostVerdict, NameAnswer, NameQuery, Verdict, caa_identities, wait_instead,
};
use parallax_runs::{RunManager, RunRefusedError};
use parallax_runtime::{Clock, SnapshotReader};
use tokio::{sync::watch, time::Instant};

use super::{Options, cluster::ClusterReader, linked_incident, registry::ExplanationState};

/// The user of these runs; all of them share one rate limit.
const BY: &str = "parallax (Challenges that wait)";

/// How long to retry while there is no capacity for a run.
const ROOM: Duration = Duration::from_mins(1);

/// The minimum pause between retries.
const LOOK: Duration = Duration::from_secs(1);

/// The dependencies of an explanation.
#[derive(Clone)]
pub(super) struct ChallengeExplainer {
    pub(super) options: Options,
    pub(super) client: Option<ApiClient>,
    pub(super) desk: Arc<RunManager>,
    pub(super) topology: watch::Receiver<TopologyState>,
    pub(super) views: SnapshotReader<View>,
    pub(super) clock: Clock,
}

/// A run that was rejected or did not finish.
struct ReplayError(String);

impl From<RunRefusedError> for ReplayError {
    fn from(refused: RunRefusedError) -> Self {
        Self(refused.to_string())
    }
}

impl ChallengeExplainer {
    /// Replays the self check and evaluates the result.
    pub(super) async fn explain(&self, challenge: &Challenge) -> ExplanationState {
        let seat = self.seat().await;
        let spec = &challenge.spec;
        let host = match spec.dns_name.parse() {
            Ok(host) => host,
            Err(error) => return ExplanationState::Not(format!("spec.dnsName: {error}")),
        };
        let wanted = FetchRequest {
            host,
            port: self.options.port,
            token: spec.token.clone(),
            key: Some(spec.key.as_str().to_owned()).filter(|key| !key.is_empty()),
            passes: None,
            authority: ChallengeClient::Boulder,
            nameservers: seat.nameservers(),
            // The challenge's own URL identifies the CA.
            issues: NameQuery {
                identities: caa_identities(&spec.url),
                account_uri: None,
            },
        };
        let mut runs = Vec::new();
        match self.fetch(&wanted, &mut runs).await {
            Ok(fetched) => self.told(challenge, &wanted, &fetched, &seat, runs),
            Err(ReplayError(why)) => {
                ExplanationState::Not(format!("the self check could not be replayed: {why}"))
            }
        }
    }

    async fn seat(&self) -> CertManagerPlacement {
        match (&self.client, &self.options.cert_manager) {
            (Some(client), Some(namespace)) => {
                CertManagerPlacement::find(&ClusterReader(client.0.clone()), Some(namespace)).await
            }
            _ => CertManagerPlacement::nowhere(
                "challenges.certManagerNamespace is not set in the configuration (the value certManagerNamespace of `parallax manifests` sets it and grants the permissions)",
            ),
        }
    }

    async fn fetch(&self, wanted: &FetchRequest, runs: &mut Vec<RunId>) -> Result<FetchResult, ReplayError> {
        let mut own = wanted.request(ChallengeClient::CertManager);
        let mut as_it_resolves = !wanted.nameservers.is_empty();
        let id = match self.begin(&own).await {
            // The run may use only resolvers of the configuration.
            Err(RunRefusedError::Forbidden(_)) if as_it_resolves => {
                as_it_resolves = false;
                if let Some(ask) = &mut own.challenge {
                    ask.nameservers.clear();
                }
                self.begin(&own).await?
            }
            begun => begun?,
        };
        runs.push(id.clone());
        let ca = self.begin(&wanted.request(wanted.authority)).await?;
        runs.push(ca.clone());
        let mut fetched = FetchResult {
            self_check: self.followed(&id).await?,
            ca: self.followed(&ca).await?,
            as_it_resolves,
            runs: Vec::new(),
            names: self.of_the_name(wanted, runs).await?,
        };
        if let Some(request) = wanted.deeper(&fetched) {
            let id = self.begin(&request).await?;
            runs.push(id.clone());
            fetched.self_check.diagnosed = self.followed(&id).await?.diagnosed;
        }
        Ok(fetched)
    }

    /// Queries the DNS facts of the name, as far as the scope permits.
    async fn of_the_name(
        &self,
        wanted: &FetchRequest,
        runs: &mut Vec<RunId>,
    ) -> Result<NameAnswer, ReplayError> {
        let id = match self.begin(&wanted.issues.request(&wanted.host)).await {
            Ok(id) => id,
            Err(RunRefusedError::Forbidden(why)) => return Ok(NameAnswer::NotAsked(why.to_string())),
            Err(refused) => return Err(refused.into()),
        };
        runs.push(id.clone());
        Ok(NameAnswer::of(self.followed(&id).await?.names))
    }

    /// Starts a run, and retries while there is no capacity.
    async fn begin(&self, request: &RunRequest) -> Result<RunId, RunRefusedError> {
        let since = Instant::now();
        loop {
            let topology = self.topology.borrow().topology.clone();
            let view = self.views.current().await;
            match self.desk.begin(request, BY, &topology, &view) {
                Err(RunRefusedError::TooMany(wait)) if since.elapsed() < ROOM => {
                    tokio::time::sleep(Duration::from(wait).max(LOOK)).await;
                }
                Err(refused) => return Err(refused),
                Ok(run) => return Ok(run.id),
            }
        }
    }

    /// Follows a run to its end and returns its result.
    async fn followed(&self, id: &RunId) -> Result<FetchPart, ReplayError> {
        let lost = || ReplayError(format!("run {id} was dropped before its end"));
        let mut follow = self.desk.follow(id.as_str()).ok_or_else(lost)?;
        let mut gathering = FetchCollector::default();
        while let Some(events) = follow.next().await {
            for event in events {
                if let (_, Some(part)) = gathering.take(&event) {
                    return Ok(part);
                }
            }
        }
        Err(lost())
    }

    fn told(
        &self,
        challenge: &Challenge,
        wanted: &FetchRequest,
        fetched: &FetchResult,
        seat: &CertManagerPlacement,
        runs: Vec<RunId>,
    ) -> ExplanationState {
        let judged = wanted.judged(fetched, seat);
        let topology = self.topology.borrow().topology.clone();
        let view = self.views.latest();
        let (causes, remedies, incident) = behind(&judged, seat, wanted, &topology, &view);
        let mut known: Vec<String> = seat.words().into_iter().collect();
        known.extend(seat.notes.iter().cloned());
        let explanation = ChallengeExplanation {
            at: self.clock.now(),
            runs,
            self_check: replayed(&judged.self_check),
            ca: replayed(&judged.ca),
            seat: known,
            remedies,
            wait_instead_of_self_check: wait_instead(&judged, challenge).map(|way| way.words().to_owned()),
            incident: incident.map(|incident| incident.id.clone()),
        };
        ExplanationState::Replayed(Box::new(explanation), causes)
    }
}

/// Returns the causes: those of an open incident for the same front, otherwise those of the failures at
/// cert-manager's node, otherwise those of the largest group.
fn behind<'a>(
    judged: &HostVerdict,
    seat: &CertManagerPlacement,
    wanted: &FetchRequest,
    topology: &Topology,
    view: &'a View,
) -> (
    Vec<ChallengeCause>,
    Vec<parallax_diagnosis::verdict::Remedy>,
    Option<&'a Incident>,
) {
    let checks = [&judged.self_check, &judged.ca];
    let failing = checks.into_iter().find(|verdict| !verdict.failing.is_empty());
    let Some(failing) = failing else {
        return (Vec::new(), Vec::new(), None);
    };
    if let Some(incident) = linked_incident::incident(wanted.host.as_str(), topology, view) {
        let named = incident.verdict.causes.iter().map(|cause| ChallengeCause {
            id: cause.id.clone(),
            title: cause.title.clone(),
            diagnosed: true,
        });
        return (named.collect(), Vec::new(), Some(incident));
    }
    let node = seat.node();
    let at_seat = |group: &&FailureGroup| {
        node.is_some_and(|node| group.vantages.iter().any(|vantage| vantage.node() == Some(node)))
    };
    let group = failing
        .failing
        .iter()
        .find(at_seat)
        .or_else(|| failing.failing.first());
    let causes = group
        .into_iter()
        .flat_map(|group| &group.causes)
        .map(cause)
        .collect();
    let remedies = group.map(|group| group.remedies.clone()).unwrap_or_default();
    (causes, remedies, None)
}

fn cause(cause: &Cause) -> ChallengeCause {
    ChallengeCause {
        id: cause.id.clone(),
        title: cause.title.clone(),
        diagnosed: cause.diagnosed,
    }
}

fn replayed(verdict: &Verdict) -> SelfCheckReplay {
    // The sentence already contains the first problem in Parallax's words.
    let problems = verdict
        .problems
        .iter()
        .map(|problem| format!("{}: {}", problem.theirs, problem.remedy));
    let mut caveats = verdict.caveats.clone();
    caveats.extend(problems);
    SelfCheckReplay {
        standing: verdict.standing,
        sentence: verdict.sentence.clone(),
        passes: verdict.passed.clone(),
        fails: verdict
            .failing
            .iter()
            .map(|group| FailingVantages {
                vantages: group.vantages.clone(),
                words: group.words.clone(),
                theirs: group.theirs.clone(),
            })
            .collect(),
        silent: verdict.silent.clone(),
        caveats,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_api::names::NameCause;
    use parallax_api::names::NameProblem;
    use parallax_api::preflight::CheckState;
    use parallax_preflight::CheckKind;

    #[test]
    fn what_about_the_name_fails_the_ca_is_told_in_its_words_with_a_way_out() {
        let verdict = Verdict {
            check: CheckKind::Ca(ChallengeClient::Boulder),
            standing: CheckState::Failed,
            sentence: "its CAA records allow only other CAs".to_owned(),
            passed: Vec::new(),
            failing: Vec::new(),
            problems: vec![NameProblem {
                cause: NameCause::Caa,
                words: "its CAA records allow only other CAs".to_owned(),
                theirs: "caa: CAA record for example.test prevents issuance".to_owned(),
                remedy: "add a record".to_owned(),
            }],
            silent: Vec::new(),
            caveats: vec!["tested from inside only".to_owned()],
            findings: Vec::new(),
        };
        assert_eq!(
            replayed(&verdict).caveats,
            [
                "tested from inside only",
                "caa: CAA record for example.test prevents issuance: add a record"
            ]
        );
    }
}
