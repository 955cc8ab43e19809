//! Asking: two runs for a host, one by each client's rules, from everywhere at once.

use std::{
    collections::BTreeMap,
    io::Write as _,
    net::SocketAddr,
    time::{Duration, Instant},
};

use parallax_aggregator::{
    preflight::NodeAnswer,
    runs::api::{ChallengeAsk, NamesFound, Run, RunEvent, RunFrom, RunRequest},
};
use parallax_diagnosis::verdict::Incident;
use parallax_model::{
    CHALLENGE_PATH, ChallengeClient, Channel, HostName, Outcome, Phase, Placement, Vantage,
};

use super::{
    args::Request,
    names::{For, Names},
    plan::Planned,
    seat::Seat,
};
use crate::{commands::ask::Client, exit::Failure};

/// How long a run is asked for again that the aggregator has no room for: it gives some away each minute.
const ROOM: Duration = Duration::from_secs(75);

/// How long a stream that broke off is taken up again.
const AGAIN: Duration = Duration::from_secs(5);

/// Fetches from each vantage outside: a CA asks from about so many networks at once, and where one way in of several
/// leads nowhere a single fetch proves nothing.
const PERSPECTIVES: u32 = 5;

/// What is fetched, and how.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) host: HostName,
    pub(super) port: u16,
    pub(super) token: String,
    pub(super) key: Option<String>,
    pub(super) passes: Option<u32>,
    pub(super) authority: ChallengeClient,
    /// cert-manager's own, in place of each node's.
    pub(super) nameservers: Vec<SocketAddr>,
    /// Who would issue.
    pub(super) issues: For,
}

impl Wanted {
    pub(super) fn of(asked: &Request, planned: &Planned, seat: &Seat) -> Self {
        Self {
            host: planned.host.clone(),
            port: asked.setting.port,
            token: String::new(),
            key: None,
            passes: asked.faithful_timing.then_some(5),
            authority: asked.profile.into(),
            nameservers: seat.nameservers(),
            issues: planned.issues.clone(),
        }
    }

    pub(super) fn url(&self) -> String {
        let port = if self.port == 80 {
            String::new()
        } else {
            format!(":{}", self.port)
        };
        format!("http://{}{port}{CHALLENGE_PATH}{}", self.host, self.token)
    }

    fn request(&self, client: ChallengeClient) -> RunRequest {
        let own = client == ChallengeClient::CertManager;
        RunRequest {
            url: self.url(),
            from: if own { RunFrom::Nodes } else { RunFrom::All },
            rounds: None,
            timeout_ms: None,
            challenge: Some(ChallengeAsk {
                client,
                expected: self.key.clone(),
                passes: if own { self.passes } else { Some(PERSPECTIVES) },
                nameservers: if own { self.nameservers.clone() } else { Vec::new() },
            }),
            names: None,
        }
    }
}

/// What came of one of the two.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) answers: Vec<NodeAnswer>,
    pub(super) silent: Vec<Vantage>,
    pub(super) diagnosed: Option<Box<Incident>>,
    /// Public resolvers were asked for the name.
    pub(super) public_names: bool,
    /// What was said of the name, where that was the question.
    pub(super) names: Option<Box<NamesFound>>,
}

/// What came of both.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) self_check: Part,
    pub(super) ca: Part,
    /// cert-manager's own nameservers were asked, as it does.
    pub(super) as_it_resolves: bool,
    /// The runs, by their ids.
    pub(super) runs: Vec<String>,
    /// What is said of the name.
    pub(super) names: Names,
}

/// Asks by both clients' rules at once.
pub(super) async fn both(client: &Client, wanted: &Wanted, progress: bool) -> Result<Fetched, Failure> {
    let mut own = wanted.request(ChallengeClient::CertManager);
    let mut as_it_resolves = !wanted.nameservers.is_empty();
    let run = match begin(client, &own).await {
        // The aggregator asks only resolvers that it was told of.
        Err(Failure::Usage(said)) if as_it_resolves && said.contains("resolvers.public") => {
            as_it_resolves = false;
            if let Some(ask) = &mut own.challenge {
                ask.nameservers.clear();
            }
            begin(client, &own).await?
        }
        begun => begun?,
    };
    let ca = begin(client, &wanted.request(wanted.authority)).await?;
    let mut shown = Progress {
        visible: progress,
        expected: run.expected + ca.expected,
        came: 0,
    };
    let runs = vec![run.id.to_string(), ca.id.to_string()];
    // The streams are kept by the aggregator: the second waits for its reader.
    let self_check = follow(client, &run, &mut shown).await;
    let ca = follow(client, &ca, &mut shown).await;
    shown.clear();
    Ok(Fetched {
        self_check: self_check?,
        ca: ca?,
        as_it_resolves,
        runs,
        names: Names::NotAsked("nobody asked".to_owned()),
    })
}

/// Asks once what everybody says of the name.
pub(super) async fn of_the_name(
    client: &Client,
    wanted: &Wanted,
    fetched: &mut Fetched,
    progress: bool,
) -> Result<(), Failure> {
    let run = match begin(client, &wanted.issues.request(&wanted.host)).await {
        Ok(run) => run,
        // An older aggregator does not know the question, and its rules may forbid it: the verdicts say less then.
        Err(Failure::Usage(said)) => {
            fetched.names = Names::NotAsked(said);
            return Ok(());
        }
        Err(other) => return Err(other),
    };
    let mut shown = Progress {
        visible: progress,
        expected: run.expected,
        came: 0,
    };
    let part = follow(client, &run, &mut shown).await?;
    shown.clear();
    fetched.names = match part.names {
        Some(found) if !found.facts.views.is_empty() => Names::Found(found),
        _ => Names::NotAsked(
            "nobody answered; probers of an older version do not know the question".to_owned(),
        ),
    };
    Ok(())
}

/// One fetch a node proves that it fails; what makes the network fail it takes a few more to be named.
const DEEPER: u32 = 3;

/// Has the diagnosis name the cause of a self check that fails on its way, where it has not yet.
pub(super) async fn deeper(
    client: &Client,
    wanted: &Wanted,
    fetched: &mut Fetched,
    progress: bool,
) -> Result<(), Failure> {
    let part = &fetched.self_check;
    let of_the_network = |answer: &NodeAnswer| {
        matches!(
            answer.outcome,
            Outcome::Failed {
                phase: Phase::Resolve | Phase::Connect | Phase::FirstByte,
                ..
            }
        )
    };
    if part.diagnosed.is_some() || !part.answers.iter().any(of_the_network) {
        return Ok(());
    }
    let mut request = wanted.request(ChallengeClient::CertManager);
    request.rounds = Some(DEEPER);
    if let Some(ask) = &mut request.challenge {
        ask.passes = None;
        if !fetched.as_it_resolves {
            ask.nameservers.clear();
        }
    }
    let run = begin(client, &request).await?;
    fetched.runs.push(run.id.to_string());
    let mut shown = Progress {
        visible: progress,
        expected: run.expected,
        came: 0,
    };
    fetched.self_check.diagnosed = follow(client, &run, &mut shown).await?.diagnosed;
    shown.clear();
    Ok(())
}

/// Hands a run to the aggregator, and waits where it has too many.
async fn begin(client: &Client, request: &RunRequest) -> Result<Run, Failure> {
    let since = Instant::now();
    loop {
        match client.post(&["v1", "runs"], request).await {
            Err(Failure::CouldNot(said)) if said.contains("too many runs") && since.elapsed() < ROOM => {
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            done => return done,
        }
    }
}

/// Everything a run says, to its end.
async fn follow(client: &Client, run: &Run, progress: &mut Progress) -> Result<Part, Failure> {
    let path = ["v1", "runs", run.id.as_str()];
    let since = Instant::now();
    loop {
        let mut answers = BTreeMap::new();
        match client.lines(&path).await {
            Ok(mut lines) => {
                while let Some(line) = lines.next().await {
                    let event: RunEvent = serde_json::from_slice(&line).map_err(Failure::could_not)?;
                    match event {
                        RunEvent::Done { run } => return Ok(part(*run, answers)),
                        RunEvent::Result {
                            vantage,
                            channel: Channel::Vip,
                            outcome,
                            total,
                            challenge,
                            placement,
                            ..
                        } => {
                            progress.see();
                            answers.insert(
                                vantage.clone(),
                                NodeAnswer {
                                    vantage,
                                    placement: placement.unwrap_or(Placement::Unknown),
                                    outcome,
                                    sight: challenge.map(|sight| *sight).unwrap_or_default(),
                                    total,
                                },
                            );
                        }
                        RunEvent::Result { .. } => progress.see(),
                        RunEvent::Started { .. } | RunEvent::Unknown => {}
                    }
                }
            }
            // It is there and does not know the run: no use in waiting.
            Err(Failure::Usage(said)) => return Err(Failure::CouldNot(format!("the run is lost: {said}"))),
            Err(failure) if since.elapsed() > AGAIN => return Err(failure),
            Err(_) => {}
        }
        if since.elapsed() > AGAIN {
            return Err(Failure::CouldNot(
                "the aggregator breaks off before the run ends; see its log, then ask again".to_owned(),
            ));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn part(run: Run, answers: BTreeMap<Vantage, NodeAnswer>) -> Part {
    let silent = run
        .vantages
        .iter()
        .filter(|asked| !answers.contains_key(&asked.vantage))
        .map(|asked| asked.vantage.clone())
        .collect();
    Part {
        answers: answers.into_values().collect(),
        silent,
        diagnosed: run.verdict,
        public_names: !run.nameservers.is_empty(),
        names: run.names,
    }
}

/// A line that is written over, where a person looks.
struct Progress {
    visible: bool,
    expected: u64,
    came: u64,
}

impl Progress {
    fn see(&mut self) {
        self.came += 1;
        if self.visible {
            Self::write(&format!("\r\u{1b}[K{} of {} probes", self.came, self.expected));
        }
    }

    fn clear(&self) {
        if self.visible {
            Self::write("\r\u{1b}[K");
        }
    }

    fn write(text: &str) {
        let mut err = std::io::stderr().lock();
        // Whoever closed it does not want to see it.
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }
}
