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
    Cause, CertManagerPlacement, Challenge, FailureGroup, FetchCollector, FetchOutcome, FetchRequest,
    FetchResult, HostVerdict, NameAnswer, NameQuery, Verdict, caa_identities, skip_self_check_advice,
};
use parallax_runs::{RunManager, RunRefusedError};
use parallax_runtime::{Clock, SnapshotReader};
use tokio::{sync::watch, time::Instant};

use super::{ChallengeOptions, cluster::ClusterReader, linked_incident, registry::ExplanationState};

/// The user of these runs; all of them share one rate limit.
const RUN_USER: &str = "parallax (Challenges that wait)";

/// How long to retry while there is no capacity for a run.
const CAPACITY_TIMEOUT: Duration = Duration::from_mins(1);

/// The minimum pause between retries.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The dependencies of an explanation.
#[derive(Clone)]
pub(super) struct ChallengeExplainer {
    pub(super) options: ChallengeOptions,
    pub(super) client: Option<ApiClient>,
    pub(super) runs: Arc<RunManager>,
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
        let placement = self.locate_cert_manager().await;
        let spec = &challenge.spec;
        let host = match spec.dns_name.parse() {
            Ok(host) => host,
            Err(error) => return ExplanationState::NotReplayed(format!("spec.dnsName: {error}")),
        };
        let wanted = FetchRequest {
            host,
            port: self.options.port,
            token: spec.token.clone(),
            key: Some(spec.key.as_str().to_owned()).filter(|key| !key.is_empty()),
            passes: None,
            authority: ChallengeClient::Boulder,
            nameservers: placement.nameservers(),
            // The challenge's own URL identifies the CA.
            name_query: NameQuery {
                identities: caa_identities(&spec.url),
                account_uri: None,
            },
        };
        let mut runs = Vec::new();
        match self.fetch(&wanted, &mut runs).await {
            Ok(fetched) => self.explanation(challenge, &wanted, &fetched, &placement, runs),
            Err(ReplayError(reason)) => {
                ExplanationState::NotReplayed(format!("the self check could not be replayed: {reason}"))
            }
        }
    }

    async fn locate_cert_manager(&self) -> CertManagerPlacement {
        match (&self.client, &self.options.cert_manager_namespace) {
            (Some(client), Some(namespace)) => {
                CertManagerPlacement::locate(&ClusterReader(client.0.clone()), Some(namespace)).await
            }
            _ => CertManagerPlacement::unknown(
                "challenges.certManagerNamespace is not set in the configuration (the value certManagerNamespace of the Helm chart sets it and grants the permissions)",
            ),
        }
    }

    async fn fetch(
        &self,
        fetch_request: &FetchRequest,
        runs: &mut Vec<RunId>,
    ) -> Result<FetchResult, ReplayError> {
        let mut own = fetch_request.run_request(ChallengeClient::CertManager);
        let mut as_it_resolves = !fetch_request.nameservers.is_empty();
        let id = match self.start_run(&own).await {
            // The run may use only resolvers of the configuration.
            Err(RunRefusedError::OutOfScope(_)) if as_it_resolves => {
                as_it_resolves = false;
                if let Some(ask) = &mut own.challenge {
                    ask.nameservers.clear();
                }
                self.start_run(&own).await?
            }
            begun => begun?,
        };
        runs.push(id.clone());
        let ca = self
            .start_run(&fetch_request.run_request(fetch_request.authority))
            .await?;
        runs.push(ca.clone());
        let mut fetched = FetchResult {
            self_check: self.follow_run(&id).await?,
            ca: self.follow_run(&ca).await?,
            used_solver_nameservers: as_it_resolves,
            runs: Vec::new(),
            names: self.query_name(fetch_request, runs).await?,
        };
        if let Some(request) = fetch_request.diagnosis_request(&fetched) {
            let id = self.start_run(&request).await?;
            runs.push(id.clone());
            fetched.self_check.incident = self.follow_run(&id).await?.incident;
        }
        Ok(fetched)
    }

    /// Queries the DNS facts of the name, as far as the scope permits.
    async fn query_name(
        &self,
        fetch_request: &FetchRequest,
        runs: &mut Vec<RunId>,
    ) -> Result<NameAnswer, ReplayError> {
        let id = match self
            .start_run(&fetch_request.name_query.run_request(&fetch_request.host))
            .await
        {
            Ok(id) => id,
            Err(RunRefusedError::OutOfScope(reason)) => {
                return Ok(NameAnswer::NotQueried(reason.to_string()));
            }
            Err(refused) => return Err(refused.into()),
        };
        runs.push(id.clone());
        Ok(NameAnswer::from_run(self.follow_run(&id).await?.names))
    }

    /// Starts a run, and retries while there is no capacity.
    async fn start_run(&self, request: &RunRequest) -> Result<RunId, RunRefusedError> {
        let since = Instant::now();
        loop {
            let topology = self.topology.borrow().topology.clone();
            let view = self.views.current().await;
            match self.runs.start(request, RUN_USER, &topology, &view) {
                Err(RunRefusedError::RateLimited(wait)) if since.elapsed() < CAPACITY_TIMEOUT => {
                    tokio::time::sleep(Duration::from(wait).max(MIN_RETRY_DELAY)).await;
                }
                Err(refused) => return Err(refused),
                Ok(run) => return Ok(run.id),
            }
        }
    }

    /// Follows a run to its end and returns its result.
    async fn follow_run(&self, id: &RunId) -> Result<FetchOutcome, ReplayError> {
        let lost = || ReplayError(format!("run {id} was dropped before its end"));
        let mut follow = self.runs.follow(id.as_str()).ok_or_else(lost)?;
        let mut gathering = FetchCollector::default();
        while let Some(events) = follow.next().await {
            for event in events {
                if let (_, Some(part)) = gathering.push(&event) {
                    return Ok(part);
                }
            }
        }
        Err(lost())
    }

    fn explanation(
        &self,
        challenge: &Challenge,
        fetch_request: &FetchRequest,
        fetched: &FetchResult,
        placement: &CertManagerPlacement,
        runs: Vec<RunId>,
    ) -> ExplanationState {
        let judged = fetch_request.judge(fetched, placement);
        let topology = self.topology.borrow().topology.clone();
        let view = self.views.latest();
        let (causes, remedies, incident) =
            causes_and_remedies(&judged, placement, fetch_request, &topology, &view);
        let mut known: Vec<String> = placement.description().into_iter().collect();
        known.extend(placement.notes.iter().cloned());
        let explanation = ChallengeExplanation {
            replayed_at: self.clock.now(),
            runs,
            self_check: to_replay(&judged.self_check),
            ca: to_replay(&judged.ca),
            placement: known,
            remedies,
            wait_instead_of_self_check: skip_self_check_advice(&judged, challenge)
                .map(|way| way.sentence().to_owned()),
            incident: incident.map(|incident| incident.id.clone()),
        };
        ExplanationState::Replayed(Box::new(explanation), causes)
    }
}

/// Returns the causes: those of an open incident for the same front, otherwise those of the failures at
/// cert-manager's node, otherwise those of the largest group.
fn causes_and_remedies<'a>(
    judged: &HostVerdict,
    placement: &CertManagerPlacement,
    fetch_request: &FetchRequest,
    topology: &Topology,
    view: &'a View,
) -> (
    Vec<ChallengeCause>,
    Vec<parallax_diagnosis::verdict::Remedy>,
    Option<&'a Incident>,
) {
    let checks = [&judged.self_check, &judged.ca];
    let failing = checks
        .into_iter()
        .find(|verdict| !verdict.failure_groups.is_empty());
    let Some(failing) = failing else {
        return (Vec::new(), Vec::new(), None);
    };
    if let Some(incident) = linked_incident::find_linked_incident(fetch_request.host.as_str(), topology, view)
    {
        let named = incident.verdict.causes.iter().map(|cause| ChallengeCause {
            id: cause.id.clone(),
            title: cause.title.clone(),
            diagnosed: true,
        });
        return (named.collect(), Vec::new(), Some(incident));
    }
    let node = placement.node();
    let at_seat = |group: &&FailureGroup| {
        node.is_some_and(|node| group.vantages.iter().any(|vantage| vantage.node() == Some(node)))
    };
    let group = failing
        .failure_groups
        .iter()
        .find(at_seat)
        .or_else(|| failing.failure_groups.first());
    let causes = group
        .into_iter()
        .flat_map(|group| &group.causes)
        .map(to_challenge_cause)
        .collect();
    let remedies = group.map(|group| group.remedies.clone()).unwrap_or_default();
    (causes, remedies, None)
}

fn to_challenge_cause(cause: &Cause) -> ChallengeCause {
    ChallengeCause {
        id: cause.id.clone(),
        title: cause.title.clone(),
        diagnosed: cause.diagnosed,
    }
}

fn to_replay(verdict: &Verdict) -> SelfCheckReplay {
    // The sentence already contains the first problem in Parallax's words.
    let problems = verdict
        .problems
        .iter()
        .map(|problem| format!("{}: {}", problem.ca_error, problem.remedy));
    let mut caveats = verdict.caveats.clone();
    caveats.extend(problems);
    SelfCheckReplay {
        state: verdict.state,
        sentence: verdict.sentence.clone(),
        passing: verdict.passed.clone(),
        failing: verdict
            .failure_groups
            .iter()
            .map(|group| FailingVantages {
                vantages: group.vantages.clone(),
                description: group.reason.clone(),
                reported_error: group.client_message.clone(),
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
    fn what_about_the_name_fails_the_ca_is_reported_in_the_cas_wording_with_a_remedy() {
        let verdict = Verdict {
            check: CheckKind::Ca(ChallengeClient::Boulder),
            state: CheckState::Failed,
            unknown_reason: None,
            sentence: "its CAA records allow only other CAs".to_owned(),
            passed: Vec::new(),
            failure_groups: Vec::new(),
            problems: vec![NameProblem {
                cause: NameCause::Caa,
                description: "its CAA records allow only other CAs".to_owned(),
                ca_error: "caa: CAA record for example.test prevents issuance".to_owned(),
                remedy: "add a record".to_owned(),
            }],
            silent: Vec::new(),
            caveats: vec!["tested from inside only".to_owned()],
            findings: Vec::new(),
        };
        assert_eq!(
            to_replay(&verdict).caveats,
            [
                "tested from inside only",
                "caa: CAA record for example.test prevents issuance: add a record"
            ]
        );
    }
}
