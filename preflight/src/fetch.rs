//! Both fetches of a host, by cert-manager's rules and by the CA's: the requests, the results, and both verdicts.

use std::{collections::BTreeMap, net::SocketAddr};

use parallax_api::runs::{
    ChallengeRequest, NameFactsResult, PreflightRun, RunEvent, RunRequest, RunVantages,
};
use parallax_diagnosis::verdict::Incident;
use parallax_model::{
    CHALLENGE_PATH, ChallengeClient, Channel, HostName, Outcome, Phase, Placement, Vantage,
};

use super::{
    judge::{CheckInput, CheckKind, HostVerdict, REQUIRED_FETCHES, VantageAnswer, Verdict, judge_check},
    names::{NameAnswer, NameQuery},
    placement::CertManagerPlacement,
};

/// Rounds of the second pass: a single fetch per node proves that the node fails, but the diagnosis needs more to
/// name the cause.
pub const DIAGNOSIS_ROUNDS: u32 = 3;

/// The fetch to make.
#[derive(Clone)]
pub struct FetchRequest {
    /// The host name.
    pub host: HostName,
    /// 80, except in test environments.
    pub port: u16,
    /// The token.
    pub token: String,
    /// The key authorization, if a solver serves it.
    pub key: Option<String>,
    /// Consecutive fetches by cert-manager's rules; one if absent.
    pub passes: Option<u32>,
    /// The client whose rules decide the CA's verdict.
    pub authority: ChallengeClient,
    /// cert-manager's own resolvers, used instead of each node's.
    pub nameservers: Vec<SocketAddr>,
    /// The CA and account for CAA evaluation.
    pub name_query: NameQuery,
}

/// The result of one of the two fetches.
#[derive(Debug, Default)]
pub struct FetchOutcome {
    /// The results by vantage.
    pub answers: Vec<VantageAnswer>,
    /// Vantages that were expected to probe and did not respond.
    pub silent: Vec<Vantage>,
    /// The incident that the diagnosis named.
    pub incident: Option<Box<Incident>>,
    /// What the mesh knows of failures of the same host at present.
    pub known_failures: Vec<String>,
    /// Whether public resolvers resolved the name.
    pub used_public_resolvers: bool,
    /// The DNS facts of the name, if the run queried them.
    pub names: Option<Box<NameFactsResult>>,
}

/// The results of both fetches.
#[derive(Debug)]
pub struct FetchResult {
    /// The result by cert-manager's rules.
    pub self_check: FetchOutcome,
    /// The result by the CA's rules.
    pub ca: FetchOutcome,
    /// Whether cert-manager's own nameservers were queried, as cert-manager does.
    pub used_solver_nameservers: bool,
    /// The ids of the runs.
    pub runs: Vec<String>,
    /// The DNS facts of the name.
    pub names: NameAnswer,
}

/// Collects the results from the event stream of a run.
#[derive(Debug, Default)]
pub struct FetchCollector(BTreeMap<Vantage, VantageAnswer>);

// === impl FetchRequest ===

impl FetchRequest {
    /// Returns the URL to fetch.
    #[must_use]
    pub fn url(&self) -> String {
        let port = if self.port == 80 {
            String::new()
        } else {
            format!(":{}", self.port)
        };
        format!("http://{}{port}{CHALLENGE_PATH}{}", self.host, self.token)
    }

    /// Returns the run that fetches the URL by one client's rules.
    #[must_use]
    pub fn run_request(&self, client: ChallengeClient) -> RunRequest {
        let own = client == ChallengeClient::CertManager;
        RunRequest {
            url: self.url(),
            from: if own { RunVantages::Nodes } else { RunVantages::All },
            rounds: None,
            timeout_ms: None,
            challenge: Some(ChallengeRequest {
                client,
                expected: self.key.clone(),
                passes: if own { self.passes } else { Some(REQUIRED_FETCHES) },
                nameservers: if own { self.nameservers.clone() } else { Vec::new() },
            }),
            names: None,
        }
    }

    /// Returns the run that lets the diagnosis name the cause of a self check that fails on the network path, or
    /// `None` if the cause is known or no vantage fails that way.
    #[must_use]
    pub fn diagnosis_request(&self, fetched: &FetchResult) -> Option<RunRequest> {
        let part = &fetched.self_check;
        let of_the_network = |answer: &VantageAnswer| {
            matches!(
                answer.outcome,
                Outcome::Failed {
                    phase: Phase::Resolve | Phase::Connect | Phase::FirstByte,
                    ..
                }
            )
        };
        if part.incident.is_some() || !part.answers.iter().any(of_the_network) {
            return None;
        }
        let mut request = self.run_request(ChallengeClient::CertManager);
        request.rounds = Some(DIAGNOSIS_ROUNDS);
        if let Some(ask) = &mut request.challenge {
            ask.passes = None;
            if !fetched.used_solver_nameservers {
                ask.nameservers.clear();
            }
        }
        Some(request)
    }

    /// Returns both verdicts.
    #[must_use]
    pub fn judge(&self, fetched: &FetchResult, placement: &CertManagerPlacement) -> HostVerdict {
        let host = self.host.as_str();
        let differs = placement.path_differences(
            host,
            self.port,
            &fetched.self_check.answers,
            fetched.used_solver_nameservers,
        );
        HostVerdict {
            host: host.to_owned(),
            self_check: self.verdict(
                CheckKind::SelfCheck,
                &fetched.self_check,
                placement,
                &differs,
                None,
            ),
            ca: self.verdict(
                CheckKind::Ca(self.authority),
                &fetched.ca,
                placement,
                &[],
                fetched.names.facts(),
            ),
            not_checked: self.not_checked(fetched),
        }
    }

    /// Only the CA's verdict uses `names`: cert-manager's self check sees the cluster's own DNS response and has
    /// resolved the name itself.
    fn verdict(
        &self,
        check: CheckKind,
        part: &FetchOutcome,
        placement: &CertManagerPlacement,
        differs: &[String],
        names: Option<&NameFactsResult>,
    ) -> Verdict {
        judge_check(&CheckInput {
            check,
            url: &self.url(),
            key_served: self.key.is_some(),
            used_public_resolvers: part.used_public_resolvers,
            answers: &part.answers,
            silent: &part.silent,
            known_failures: &part.known_failures,
            diagnosis: part.incident.as_ref().map(|incident| &incident.verdict),
            pod_node: placement.node(),
            pod_uses_host_network: placement.uses_host_network(),
            path_differences: differs,
            names: names.map(|found| &found.verdict),
        })
    }

    /// Lists what was not tested, so that a verdict does not claim more than it proves.
    fn not_checked(&self, fetched: &FetchResult) -> Vec<String> {
        let mut all = Vec::new();
        if !fetched
            .ca
            .answers
            .iter()
            .any(|answer| answer.vantage.is_on_internet())
        {
            all.push(
                "access to port 80 from the internet: no vantage on the internet (parallax vantage enroll, or parallax check --profile ca on a machine outside)"
                    .to_owned(),
            );
        }
        all.push("the CA's secondary validation from several networks".to_owned());
        all.push("DNSSEC".to_owned());
        all.extend(fetched.names.not_checked());
        if self.authority == ChallengeClient::Pebble {
            all.push("CAA records, which Pebble ignores".to_owned());
        }
        if !fetched.ca.used_public_resolvers && self.authority == ChallengeClient::Boulder {
            all.push(
                "the name in public DNS: only the cluster's own resolvers were queried (set resolvers.public in the aggregator's configuration)"
                    .to_owned(),
            );
        }
        if self.key.is_none() {
            all.push(
                "the solver's Pod, its Service, its class or Gateway and the route to its token: nothing was created (--no-create)"
                    .to_owned(),
            );
        }
        all
    }
}

/// Omits the key authorization, which must not be logged.
impl std::fmt::Debug for FetchRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FetchRequest")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("passes", &self.passes)
            .field("authority", &self.authority)
            .field("nameservers", &self.nameservers)
            .finish_non_exhaustive()
    }
}

// === impl FetchCollector ===

impl FetchCollector {
    /// Processes one event. Returns whether it was a probe result, and the whole result after the last event.
    pub fn push(&mut self, event: &RunEvent) -> (bool, Option<FetchOutcome>) {
        match event {
            RunEvent::Done { run } => (false, Some(self.finish(run))),
            RunEvent::Result {
                vantage,
                channel: Channel::Vip,
                outcome,
                total,
                challenge,
                placement,
                ..
            } => {
                let answer = VantageAnswer {
                    vantage: vantage.clone(),
                    placement: placement.unwrap_or(Placement::Unknown),
                    outcome: outcome.clone(),
                    sight: challenge.as_deref().cloned().unwrap_or_default(),
                    total_duration: *total,
                };
                self.0.insert(vantage.clone(), answer);
                (true, None)
            }
            RunEvent::Result { .. } => (true, None),
            RunEvent::Started { .. } | RunEvent::Unknown => (false, None),
        }
    }

    fn finish(&mut self, run: &PreflightRun) -> FetchOutcome {
        let answers = std::mem::take(&mut self.0);
        let silent = run
            .vantages
            .iter()
            .filter(|planned| !answers.contains_key(&planned.vantage))
            .map(|planned| planned.vantage.clone())
            .collect();
        FetchOutcome {
            answers: answers.into_values().collect(),
            silent,
            incident: run.verdict.clone(),
            known_failures: run.known_failures.clone(),
            used_public_resolvers: !run.nameservers.is_empty(),
            names: run.names.clone(),
        }
    }
}
