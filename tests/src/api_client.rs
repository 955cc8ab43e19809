//! The aggregator's state as its API returns it. Parsed leniently and without the product's own types: the lab judges
//! from outside, and fields that it does not need may change.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, bail};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Request, body::Bytes, client::conn::http1, header::HOST};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::{net::TcpStream, time::timeout};

/// Timeout of a request; the aggregator is on this machine.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of a response, in bytes.
const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// `GET /v1/state`, as far as the lab needs it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct AggregatorState {
    /// Vantages and whether they report.
    pub vantages: Vec<Vantage>,
    /// Targets by vantages.
    pub matrix: Vec<Row>,
    /// Open and closed incidents.
    pub incidents: Vec<Incident>,
    /// Deviations without a failing region.
    pub findings: Vec<FindingOrHazard>,
    /// Configurations that would fail for some client.
    pub hazards: Vec<FindingOrHazard>,
    /// Probe statistics.
    pub counters: Counters,
    /// Why the cluster cannot be read, if so.
    pub topology_error: Option<String>,
    /// Increases with each relevant change of the cluster.
    pub topology_revision: u64,
}

/// A finding or a hazard.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct FindingOrHazard {
    /// Its kind.
    pub kind: String,
    /// One-sentence summary.
    pub sentence: String,
    /// Evidence.
    pub evidence: Vec<String>,
    /// Remedies.
    pub remedies: Vec<Remedy>,
}

/// A remedy.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Remedy {
    /// What to do.
    pub action: String,
    /// Its trade-off.
    pub price: String,
}

/// A vantage.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Vantage {
    /// Its name.
    pub vantage: String,
    /// `reporting`, or another state.
    pub state: String,
}

/// One target.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Row {
    /// The target.
    pub target: String,
    /// One cell per vantage.
    pub cells: Vec<Cell>,
}

/// One target from one vantage.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Cell {
    /// `ok`, `failing`, `flaky`, `unknown`.
    pub state: String,
}

/// Probe statistics.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Observations that were counted.
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
    /// Its subject.
    pub subject: Subject,
    /// The region.
    pub region: Region,
    /// Every region that the evidence cannot separate from it, itself included.
    pub class: Vec<Region>,
    /// Causes, likeliest first.
    pub causes: Vec<Cause>,
    /// Probability of the region.
    pub probability: f64,
    /// The verdict's sentence.
    pub sentence: String,
    /// The evidence table.
    pub evidence: Vec<Evidence>,
    /// Which machine answers for the address.
    pub locality: Vec<String>,
    /// Remedies.
    pub remedies: Vec<Remedy>,
    /// The targets that it explains.
    pub targets: Vec<String>,
    /// What follows from its cause beside failures of targets.
    pub consequences: Vec<Consequence>,
    /// The unparsed JSON: shown, never judged.
    #[serde(skip)]
    pub raw: serde_json::Value,
}

/// A consequence of a cause.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Consequence {
    /// The vantage that does not report, if it is a silence.
    pub vantage: Option<String>,
}

/// Subject of a verdict.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Subject {
    /// Name of the front, target, node …
    pub name: String,
    /// Kind of subject.
    #[serde(rename = "type")]
    pub kind: String,
}

impl Subject {
    /// Returns its name, or its kind if there is only one of it (the network).
    #[must_use]
    pub fn display_name(&self) -> &str {
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
    /// Label of the region.
    pub region: String,
    /// Its Pods or nodes.
    pub members: Vec<String>,
}

/// A cause.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// Id in the catalogue.
    pub id: String,
    /// Short title.
    pub title: String,
    /// Share of the probability.
    pub probability: f64,
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// Clients and channel.
    pub who: String,
    /// Number of probes.
    pub probes: u64,
    /// Number of failed probes.
    pub failures: u64,
}

impl AggregatorState {
    /// Returns the incidents that are not closed.
    pub fn open(&self) -> impl Iterator<Item = &Incident> {
        self.incidents
            .iter()
            .filter(|incident| incident.state != "closed")
    }

    /// Counts the cells in a state.
    #[must_use]
    pub fn count_cells(&self, state: &str) -> usize {
        self.matrix
            .iter()
            .flat_map(|row| &row.cells)
            .filter(|cell| cell.state == state)
            .count()
    }

    /// Describes the first few problems.
    #[must_use]
    pub fn describe_problems(&self) -> String {
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

    /// Reports whether every vantage reports and every cell is fresh and ok. A client outside does not probe everything
    /// (cluster addresses are unreachable there): what it never probed may be unknown.
    #[must_use]
    pub fn is_all_ok(&self) -> bool {
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

/// Fetches the state.
pub async fn fetch_state(aggregator: SocketAddr) -> anyhow::Result<AggregatorState> {
    let body = match timeout(REQUEST_TIMEOUT, get(aggregator, "/v1/state")).await {
        Ok(body) => body?,
        Err(_) => bail!(
            "no response from the aggregator at {aggregator} within {} s",
            REQUEST_TIMEOUT.as_secs()
        ),
    };
    read(&body).context("parsing the response of GET /v1/state")
}

fn read(body: &[u8]) -> serde_json::Result<AggregatorState> {
    let whole: serde_json::Value = serde_json::from_slice(body)?;
    let mut state = AggregatorState::deserialize(&whole)?;
    for (i, incident) in state.incidents.iter_mut().enumerate() {
        incident.raw = whole["incidents"][i].clone();
    }
    Ok(state)
}

/// Sends a GET request to a server on this machine.
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
    let exchange = async move {
        let response = sender
            .send_request(request)
            .await
            .with_context(|| format!("sending GET {path}"))?;
        let status = response.status();
        if !status.is_success() {
            bail!("GET {path} answered {status}");
        }
        let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES)
            .collect()
            .await;
        Ok(body
            .map_err(|error| anyhow::anyhow!("reading the response of GET {path}: {error}"))?
            .to_bytes())
    };
    // The connection is driven here and ends with the request: nothing outlives this call.
    let (answer, _) = tokio::join!(exchange, connection);
    answer
}
