//! Both fetches of a host, by cert-manager's rules and by the CA's: what is asked for, what comes back, and both verdicts.

use std::{collections::BTreeMap, net::SocketAddr};

use parallax_api::runs::{
    ChallengeRequest, NameFactsResult, PreflightRun, RunEvent, RunRequest, RunVantages,
};
use parallax_diagnosis::verdict::Incident;
use parallax_model::{
    CHALLENGE_PATH, ChallengeClient, Channel, HostName, Outcome, Phase, Placement, Reach, Vantage,
};

use super::{
    judge::{CheckInput, CheckKind, HostVerdict, VantageAnswer, Verdict, judge},
    names::{NameAnswer, NameQuery},
    placement::CertManagerPlacement,
};

/// One fetch a node proves that it fails; what makes the network fail it takes a few more to be named.
pub const DEEPER: u32 = 3;

/// Fetches from each vantage outside: a CA asks from about so many networks at once, and where one way in of several
/// leads nowhere a single fetch proves nothing.
const PERSPECTIVES: u32 = 5;

/// What is fetched, and how.
#[derive(Clone)]
pub struct FetchRequest {
    /// The name.
    pub host: HostName,
    /// 80, but in laboratories.
    pub port: u16,
    /// The token.
    pub token: String,
    /// The key authorization, where somebody serves it.
    pub key: Option<String>,
    /// Fetches in a row by cert-manager's rules; one where absent.
    pub passes: Option<u32>,
    /// By whose rules the CA's verdict is made.
    pub authority: ChallengeClient,
    /// cert-manager's own resolvers, in place of each node's.
    pub nameservers: Vec<SocketAddr>,
    /// Who would issue.
    pub issues: NameQuery,
}

/// What came of one of the two.
#[derive(Debug, Default)]
pub struct FetchPart {
    /// What each vantage saw.
    pub answers: Vec<VantageAnswer>,
    /// Who was asked and did not answer.
    pub silent: Vec<Vantage>,
    /// What the diagnosis makes of it.
    pub diagnosed: Option<Box<Incident>>,
    /// Public resolvers were asked for the name.
    pub public_names: bool,
    /// What was said of the name, where that was the question.
    pub names: Option<Box<NameFactsResult>>,
}

/// What came of both.
#[derive(Debug)]
pub struct FetchResult {
    /// By cert-manager's rules.
    pub self_check: FetchPart,
    /// By the CA's.
    pub ca: FetchPart,
    /// cert-manager's own nameservers were asked, as it does.
    pub as_it_resolves: bool,
    /// The runs, by their ids.
    pub runs: Vec<String>,
    /// What is said of the name.
    pub names: NameAnswer,
}

/// Collects what a run's stream tells.
#[derive(Debug, Default)]
pub struct FetchCollector(BTreeMap<Vantage, VantageAnswer>);

// === impl Wanted ===

impl FetchRequest {
    /// What is fetched.
    #[must_use]
    pub fn url(&self) -> String {
        let port = if self.port == 80 {
            String::new()
        } else {
            format!(":{}", self.port)
        };
        format!("http://{}{port}{CHALLENGE_PATH}{}", self.host, self.token)
    }

    /// The run that fetches it by one client's rules.
    #[must_use]
    pub fn request(&self, client: ChallengeClient) -> RunRequest {
        let own = client == ChallengeClient::CertManager;
        RunRequest {
            url: self.url(),
            from: if own { RunVantages::Nodes } else { RunVantages::All },
            rounds: None,
            timeout_ms: None,
            challenge: Some(ChallengeRequest {
                client,
                expected: self.key.clone(),
                passes: if own { self.passes } else { Some(PERSPECTIVES) },
                nameservers: if own { self.nameservers.clone() } else { Vec::new() },
            }),
            names: None,
        }
    }

    /// The run that lets the diagnosis name the cause of a self check that fails on its way; nothing where it is named, or
    /// nothing fails so.
    #[must_use]
    pub fn deeper(&self, fetched: &FetchResult) -> Option<RunRequest> {
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
        if part.diagnosed.is_some() || !part.answers.iter().any(of_the_network) {
            return None;
        }
        let mut request = self.request(ChallengeClient::CertManager);
        request.rounds = Some(DEEPER);
        if let Some(ask) = &mut request.challenge {
            ask.passes = None;
            if !fetched.as_it_resolves {
                ask.nameservers.clear();
            }
        }
        Some(request)
    }

    /// Both verdicts.
    #[must_use]
    pub fn judged(&self, fetched: &FetchResult, seat: &CertManagerPlacement) -> HostVerdict {
        let host = self.host.as_str();
        let differs = seat.differs(
            host,
            self.port,
            &fetched.self_check.answers,
            fetched.as_it_resolves,
        );
        HostVerdict {
            host: host.to_owned(),
            self_check: self.verdict(CheckKind::SelfCheck, &fetched.self_check, seat, &differs, None),
            ca: self.verdict(
                CheckKind::Ca(self.authority),
                &fetched.ca,
                seat,
                &[],
                fetched.names.found(),
            ),
            not_checked: self.not_checked(fetched),
        }
    }

    /// cert-manager's own check sees the cluster's answer alone, and made it itself: only the CA's knows of `names`.
    fn verdict(
        &self,
        check: CheckKind,
        part: &FetchPart,
        seat: &CertManagerPlacement,
        differs: &[String],
        names: Option<&NameFactsResult>,
    ) -> Verdict {
        judge(&CheckInput {
            check,
            url: &self.url(),
            with_key: self.key.is_some(),
            public_names: part.public_names,
            answers: &part.answers,
            silent: &part.silent,
            diagnosed: part.diagnosed.as_ref().map(|incident| &incident.verdict),
            seat: seat.node(),
            seat_in_host_network: seat.in_host_network(),
            differs,
            names: names.map(|found| &found.judged),
        })
    }

    /// What nobody looked at, so that no verdict reads as more than it is.
    fn not_checked(&self, fetched: &FetchResult) -> Vec<String> {
        let mut all = Vec::new();
        if !fetched
            .ca
            .answers
            .iter()
            .any(|answer| of_the_internet(&answer.vantage))
        {
            all.push(
                "whether the internet reaches port 80: no vantage stands there (parallax vantage enroll, or parallax check --profile ca from a machine outside)"
                    .to_owned(),
            );
        }
        all.push("the CA's secondary validation from several networks".to_owned());
        all.push("DNSSEC".to_owned());
        all.extend(fetched.names.not_checked());
        if self.authority == ChallengeClient::Pebble {
            all.push("CAA records, which Pebble does not look at".to_owned());
        }
        if !fetched.ca.public_names && self.authority == ChallengeClient::Boulder {
            all.push(
                "the name as public DNS has it: the cluster's own resolvers were asked (resolvers.public in the aggregator's configuration)"
                    .to_owned(),
            );
        }
        if self.key.is_none() {
            all.push(
                "the solver's pod, its Service, its class or Gateway and the route to its token: nothing was created (--no-create)"
                    .to_owned(),
            );
        }
        all
    }
}

/// A vantage that stands where users do.
pub(super) const fn of_the_internet(vantage: &Vantage) -> bool {
    matches!(
        vantage,
        Vantage::Outside {
            reach: Reach::Internet,
            ..
        }
    )
}

/// The key authorization is nothing for a log.
impl std::fmt::Debug for FetchRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wanted")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("passes", &self.passes)
            .field("authority", &self.authority)
            .field("nameservers", &self.nameservers)
            .finish_non_exhaustive()
    }
}

// === impl Gathering ===

impl FetchCollector {
    /// Takes one line: whether it was a probe's result, and the whole with the last one.
    pub fn take(&mut self, event: &RunEvent) -> (bool, Option<FetchPart>) {
        match event {
            RunEvent::Done { run } => (false, Some(self.part(run))),
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
                    total: *total,
                };
                self.0.insert(vantage.clone(), answer);
                (true, None)
            }
            RunEvent::Result { .. } => (true, None),
            RunEvent::Started { .. } | RunEvent::Unknown => (false, None),
        }
    }

    fn part(&mut self, run: &PreflightRun) -> FetchPart {
        let answers = std::mem::take(&mut self.0);
        let silent = run
            .vantages
            .iter()
            .filter(|asked| !answers.contains_key(&asked.vantage))
            .map(|asked| asked.vantage.clone())
            .collect();
        FetchPart {
            answers: answers.into_values().collect(),
            silent,
            diagnosed: run.verdict.clone(),
            public_names: !run.nameservers.is_empty(),
            names: run.names.clone(),
        }
    }
}
