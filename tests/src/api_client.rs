//! The aggregator as its API shows it. Read tolerantly and without the product's own types: the lab judges from
//! outside, and a field it does not need may change.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, bail};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Request, body::Bytes, client::conn::http1, header::HOST};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::{net::TcpStream, time::timeout};

/// Longest wait for an answer; the aggregator is on this machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Largest answer accepted, in bytes.
const MOST_BYTES: usize = 16 << 20;

/// `GET /v1/state`, as far as the lab needs it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct AggregatorState {
    /// Who reports.
    pub vantages: Vec<Vantage>,
    /// Targets against vantages.
    pub matrix: Vec<Row>,
    /// Open and closed incidents.
    pub incidents: Vec<Incident>,
    /// Wrong without being a region of failure.
    pub findings: Vec<FindingOrHazard>,
    /// Who would fail though nobody does yet.
    pub hazards: Vec<FindingOrHazard>,
    /// What was counted.
    pub counters: Counters,
    /// Why the cluster cannot be read, while that is so.
    pub topology_error: Option<String>,
    /// Grows with everything of use that changes in the cluster.
    pub topology_revision: u64,
}

/// A finding or a hazard.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct FindingOrHazard {
    /// Its kind.
    pub kind: String,
    /// It in one sentence.
    pub sentence: String,
    /// What it rests on.
    pub evidence: Vec<String>,
    /// Ways out.
    pub remedies: Vec<Remedy>,
}

/// A way out.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Remedy {
    /// What to do.
    pub action: String,
    /// What it costs.
    pub price: String,
}

/// A vantage.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Vantage {
    /// Its name.
    pub vantage: String,
    /// `reporting`, or not.
    pub state: String,
}

/// One target.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Row {
    /// The target.
    pub target: String,
    /// One cell a vantage.
    pub cells: Vec<Cell>,
}

/// One target from one vantage.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Cell {
    /// `ok`, `failing`, `flaky`, `unknown`.
    pub state: String,
}

/// Numbers.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Observations that count.
    pub counted: u64,
}

/// A verdict over time.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Incident {
    /// Its id.
    pub id: String,
    /// `open`, `recovering` or `closed`.
    pub state: String,
    /// What it is about.
    pub subject: Subject,
    /// The region.
    pub region: Region,
    /// Every region that the evidence cannot separate from it, itself included.
    pub class: Vec<Region>,
    /// Causes, likeliest first.
    pub causes: Vec<Cause>,
    /// Of the region.
    pub probability: f64,
    /// The finding.
    pub sentence: String,
    /// The table that proves it.
    pub evidence: Vec<Evidence>,
    /// Who answers for the address.
    pub locality: Vec<String>,
    /// Ways out.
    pub remedies: Vec<Remedy>,
    /// What it explains.
    pub targets: Vec<String>,
    /// All of it as it came: not judged, only shown.
    #[serde(skip)]
    pub whole: serde_json::Value,
}

/// What a verdict is about.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Subject {
    /// The front, target, node …
    pub name: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: String,
}

impl Subject {
    /// Its name; what it is, where there is but one of it (the network).
    #[must_use]
    pub fn called(&self) -> &str {
        if self.name.is_empty() {
            &self.kind
        } else {
            &self.name
        }
    }
}

/// A region.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Region {
    /// Its label.
    pub region: String,
    /// Its pods or nodes.
    pub members: Vec<String>,
}

/// A cause.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// Id in the catalogue.
    pub id: String,
    /// A few words.
    pub title: String,
    /// Its share.
    pub probability: f64,
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// Who asked, and how.
    pub who: String,
    /// Probes.
    pub probes: u64,
    /// Failures among them.
    pub failures: u64,
}

impl AggregatorState {
    /// Incidents that are not over.
    pub fn open(&self) -> impl Iterator<Item = &Incident> {
        self.incidents
            .iter()
            .filter(|incident| incident.state != "closed")
    }

    /// How many cells are in a state.
    #[must_use]
    pub fn cells(&self, state: &str) -> usize {
        self.matrix
            .iter()
            .flat_map(|row| &row.cells)
            .filter(|cell| cell.state == state)
            .count()
    }

    /// What is not well, in words: the first few.
    #[must_use]
    pub fn not_well(&self) -> String {
        let silent = self
            .vantages
            .iter()
            .filter(|vantage| vantage.state != "reporting")
            .map(|vantage| format!("{} is {}", vantage.vantage, vantage.state));
        let cells = self.matrix.iter().flat_map(|row| {
            let bad = row.cells.iter().zip(&self.vantages);
            bad.filter(|(cell, _)| cell.state != "ok")
                .map(move |(cell, vantage)| {
                    format!("{} from {} is {}", row.target, vantage.vantage, cell.state)
                })
        });
        silent.chain(cells).take(6).collect::<Vec<_>>().join(", ")
    }

    /// Every vantage reports and every cell is fresh and well. A client outside does not ask for everything (cluster
    /// addresses lead nowhere there): what it never asked for is no blemish.
    #[must_use]
    pub fn all_well(&self) -> bool {
        let reporting = self.vantages.iter().all(|vantage| vantage.state == "reporting");
        let well = |at: usize, vantage: &Vantage| {
            let mut cells = self.matrix.iter().filter_map(|row| row.cells.get(at));
            let outside = vantage.vantage.contains(':');
            let fine = |cell: &Cell| cell.state == "ok" || (outside && cell.state == "unknown");
            let some = self
                .matrix
                .iter()
                .any(|row| row.cells.get(at).is_some_and(|cell| cell.state == "ok"));
            some && cells.all(fine)
        };
        reporting
            && !self.vantages.is_empty()
            && self
                .vantages
                .iter()
                .enumerate()
                .all(|(at, vantage)| well(at, vantage))
    }
}

/// Asks for the state.
pub async fn state(aggregator: SocketAddr) -> anyhow::Result<AggregatorState> {
    let body = match timeout(PATIENCE, get(aggregator, "/v1/state")).await {
        Ok(body) => body?,
        Err(_) => bail!(
            "the aggregator at {aggregator} did not answer within {} s",
            PATIENCE.as_secs()
        ),
    };
    read(&body).context("reading the answer of GET /v1/state")
}

fn read(body: &[u8]) -> serde_json::Result<AggregatorState> {
    let whole: serde_json::Value = serde_json::from_slice(body)?;
    let mut state = AggregatorState::deserialize(&whole)?;
    for (i, incident) in state.incidents.iter_mut().enumerate() {
        incident.whole = whole["incidents"][i].clone();
    }
    Ok(state)
}

/// Asks a server on this machine for something.
pub(crate) async fn get(server: SocketAddr, path: &str) -> anyhow::Result<Bytes> {
    let stream = TcpStream::connect(server)
        .await
        .with_context(|| format!("connecting to {server}"))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .with_context(|| format!("starting HTTP with {server}"))?;
    let request = Request::get(path)
        .header(HOST, server.to_string())
        .body(Empty::<Bytes>::new())
        .context("building a request")?;
    let asked = async move {
        let response = sender
            .send_request(request)
            .await
            .with_context(|| format!("asking for {path}"))?;
        let status = response.status();
        if !status.is_success() {
            bail!("GET {path} answered {status}");
        }
        let body = Limited::new(response.into_body(), MOST_BYTES).collect().await;
        Ok(body
            .map_err(|error| anyhow::anyhow!("reading the answer of GET {path}: {error}"))?
            .to_bytes())
    };
    // The connection is driven here and ends with the question: nothing outlives this call.
    let (answer, _) = tokio::join!(asked, connection);
    answer
}
