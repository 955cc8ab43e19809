//! A recorded incident, reported to an aggregator as the probers reported it: I1 of the lab, seven healthy rounds and
//! two in which the nodes without an ingress Pod are refused. Each state repeats until it is changed, at five times
//! the speed.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Duration, interval},
};
use tokio_util::sync::CancellationToken;

/// Length of a recorded round, and of the same round in this replay, in microseconds.
const RECORDED_ROUND_US: i64 = 5_000_000;
pub(crate) const REPLAYED_ROUND_US: i64 = 1_000_000;
/// Time between two reports of a prober.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// Which of the recorded states is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Healthy,
    Broken,
}

/// The recording, split into its two states.
#[derive(Debug)]
pub(crate) struct Recording {
    topologies: [Value; 2],
    /// Observations by round of each state, with their offset in the round in microseconds.
    rounds: [Vec<Vec<(i64, Value)>>; 2],
}

impl Recording {
    pub(crate) fn read(path: &Path) -> Self {
        let mut topologies = Vec::new();
        let mut rounds: BTreeMap<i64, Vec<(i64, Value)>> = BTreeMap::new();
        for line in BufReader::new(GzDecoder::new(File::open(path).unwrap())).lines() {
            let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
            match line["type"].as_str().unwrap() {
                "topology_spec" => topologies.push(line["spec"].clone()),
                "observation" => {
                    let at = line["t_us"].as_i64().unwrap();
                    let round = rounds.entry(at.div_euclid(RECORDED_ROUND_US)).or_default();
                    round.push((at.rem_euclid(RECORDED_ROUND_US), line));
                }
                _ => {}
            }
        }
        // The first and the last round are incomplete.
        rounds.pop_first();
        rounds.pop_last();
        let failing = |round: &Vec<(i64, Value)>| round.iter().any(|(_, seen)| seen["result"] == "failed");
        let (broken, healthy): (Vec<_>, Vec<_>) = rounds.into_values().partition(failing);
        assert_eq!((healthy.len(), broken.len()), (7, 2), "the fixture has changed");
        Self {
            topologies: topologies.try_into().unwrap(),
            rounds: [healthy, broken],
        }
    }

    /// The topology of a state, as a topology file.
    pub(crate) fn topology(&self, state: State) -> String {
        self.topologies[state as usize].to_string()
    }

    /// The observations between two instants, in order.
    fn between(&self, state: State, from: i64, until: i64) -> Vec<(i64, &Value)> {
        let rounds = &self.rounds[state as usize];
        let mut seen: Vec<_> = (from.div_euclid(REPLAYED_ROUND_US)..=until.div_euclid(REPLAYED_ROUND_US))
            .flat_map(|number| {
                let round = &rounds[usize::try_from(number).unwrap() % rounds.len()];
                round.iter().map(move |(offset, seen)| {
                    (
                        number * REPLAYED_ROUND_US + offset * REPLAYED_ROUND_US / RECORDED_ROUND_US,
                        seen,
                    )
                })
            })
            .filter(|(at, _)| (from..until).contains(at))
            .collect();
        seen.sort_by_key(|(at, _)| *at);
        seen
    }
}

fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

/// Replays the recording until stopped; the state can be changed meanwhile.
#[derive(Debug)]
pub(crate) struct Replayer {
    pub(crate) state: watch::Sender<State>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Replayer {
    pub(crate) fn start(recording: Recording, aggregator: String, client: reqwest::Client) -> Self {
        Self::start_in_state(State::Healthy, recording, aggregator, client)
    }

    /// Starts with another state.
    pub(crate) fn start_in_state(
        state: State,
        recording: Recording,
        aggregator: String,
        client: reqwest::Client,
    ) -> Self {
        let (state, state_out) = watch::channel(state);
        let stop = CancellationToken::new();
        let task = tokio::spawn(replay(recording, aggregator, client, state_out, stop.clone()));
        Self { state, stop, task }
    }

    /// Stops it, and fails if it has failed.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

async fn replay(
    recording: Recording,
    aggregator: String,
    client: reqwest::Client,
    state: watch::Receiver<State>,
    stop: CancellationToken,
) {
    let vantages = ["n1/pod", "n2/pod", "n3/pod", "n4/pod"];
    let mut ticks = interval(REPORT_INTERVAL);
    let mut last_report = now();
    let incarnation = last_report;
    let mut seq = 0_u64;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let until = now();
        let seen = recording.between(*state.borrow(), last_report, until);
        last_report = until;
        for vantage in vantages {
            let header = json!({
                "v": 1,
                "incarnation": format!("told-{}-{incarnation}", &vantage[..2]),
                "vantage": vantage,
                "sent_us": now(),
                "complete_us": until,
            });
            let mut body = format!("{header}\n");
            for (at, seen) in seen.iter().filter(|(_, seen)| seen["vantage"] == vantage) {
                let mut line = (*seen).clone();
                let fields = line.as_object_mut().unwrap();
                for gone in ["type", "vantage", "incarnation"] {
                    fields.remove(gone);
                }
                fields.insert("seq".to_owned(), json!(seq));
                fields.insert("t_us".to_owned(), json!(at));
                seq += 1;
                writeln!(body, "{line}").unwrap();
            }
            let answer = client
                .post(format!("{aggregator}/v1/observations"))
                .header("content-type", "application/x-ndjson")
                .body(body)
                .send()
                .await
                .unwrap();
            assert!(
                answer.status().is_success(),
                "{}: {}",
                answer.status(),
                answer.text().await.unwrap()
            );
        }
    }
}
