//! An aggregator's `/v1/state`, as far as the suite judges it. Unknown fields are ignored, and missing ones are empty,
//! because the product evolves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// State of an aggregator.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AggregatorState {
    /// Every incident that it lists, including closed ones.
    pub incidents: Vec<Incident>,
    /// Every cell that is not ok.
    pub cells: Vec<Cell>,
    /// Number of targets in the matrix.
    pub targets: usize,
    /// Number of cells that are ok.
    pub ok: usize,
    /// Vantages that report.
    pub reporting: Vec<String>,
    /// Vantages that do not report.
    pub silent: Vec<String>,
    /// Observations that the aggregator discarded since its start, by vantage.
    pub discarded: BTreeMap<String, u64>,
    /// Length of a round in seconds, if known.
    pub round_s: Option<f64>,
    /// Failures without a cause.
    pub investigating: Vec<String>,
    /// Findings and hazards.
    pub hints: Vec<FindingOrHazard>,
    /// Why the topology is not current.
    pub topology_error: Option<String>,
    /// `leads`, `stands_by` or `alone`.
    pub role: String,
    /// Whether it is catching up after a start.
    pub warming: bool,
}

/// An incident as one aggregator lists it.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Incident {
    /// Its id.
    pub id: String,
    /// `open`, `recovering` or `closed`.
    pub state: String,
    /// The region with its members.
    pub region: String,
    /// The likeliest cause.
    pub cause: String,
    /// Short title of that cause.
    pub title: String,
    /// Probability of the region.
    pub probability: f64,
    /// Its sentence.
    pub sentence: String,
    /// Its subject.
    pub subject: String,
    /// The targets that it explains.
    pub targets: Vec<String>,
    /// How often it has recurred.
    pub occurrences: u64,
}

/// A cell that is not ok.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Cell {
    /// The target.
    pub target: String,
    /// The vantage.
    pub vantage: String,
    /// `failing`, `flaky` or `unknown`.
    pub state: String,
    /// The newest failure.
    pub failure: String,
    /// Whether it has never worked.
    pub never_ok: bool,
    /// Whether it appeared within the last minute.
    pub new: bool,
}

/// A finding or a hazard.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FindingOrHazard {
    /// Its kind.
    pub kind: String,
    /// Its severity.
    pub severity: Severity,
    /// Its subject.
    pub subject: String,
    /// One-sentence summary.
    pub sentence: String,
    /// Whether it is a hazard, in which nothing fails yet.
    pub hazard: bool,
}

/// Severity of a finding or a hazard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// For information.
    Notice,
    /// Some client fails or will fail.
    Warning,
    /// Requires action now.
    Critical,
}

impl Incident {
    /// Reports whether it is not closed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state != "closed"
    }
}

impl AggregatorState {
    /// Parses a response.
    ///
    /// # Errors
    /// Invalid JSON.
    pub fn read(body: &[u8]) -> Result<Self, serde_json::Error> {
        let read: Value = serde_json::from_slice(body)?;
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let vantages: Vec<(String, bool)> = list(&read["vantages"])
            .iter()
            .map(|vantage| (text(&vantage["vantage"]), vantage["state"] == "reporting"))
            .collect();
        let (mut cells, mut ok) = (Vec::new(), 0);
        for row in list(&read["matrix"]) {
            for cell in list(&row["cells"]) {
                if cell["state"] == "ok" {
                    ok += 1;
                    continue;
                }
                let index = cell["vantage"]
                    .as_u64()
                    .and_then(|index| usize::try_from(index).ok());
                let vantage = index.and_then(|index| vantages.get(index));
                cells.push(Cell {
                    target: text(&row["target"]),
                    vantage: vantage.map(|(name, _)| name.clone()).unwrap_or_default(),
                    state: text(&cell["state"]),
                    failure: text(&cell["failure"]),
                    never_ok: row["never_ok"] == true,
                    new: row["new"] == true,
                });
            }
        }
        let findings = list(&read["findings"]).into_iter().map(|read| hint(&read, false));
        let hints = findings.chain(list(&read["hazards"]).into_iter().map(|read| hint(&read, true)));
        let until = read["replica"]["warming_until_us"].as_i64();
        let of_state = |wanted: bool| {
            let matching = vantages.iter().filter(move |(_, reports)| *reports == wanted);
            matching.map(|(name, _)| name.clone()).collect()
        };
        Ok(Self {
            incidents: list(&read["incidents"]).iter().map(incident).collect(),
            cells,
            targets: list(&read["matrix"]).len(),
            ok,
            reporting: of_state(true),
            silent: of_state(false),
            discarded: list(&read["vantages"])
                .iter()
                .filter_map(|vantage| Some((text(&vantage["vantage"]), vantage["discarded"].as_u64()?)))
                .collect(),
            round_s: read["interval_us"].as_f64().map(|micros| micros / 1e6),
            investigating: list(&read["investigating"])
                .iter()
                .map(|open| format!("{}: {}", subject(&open["subject"]), text(&open["sentence"])))
                .collect(),
            hints: hints.collect(),
            topology_error: read["topology_error"].as_str().map(ToOwned::to_owned),
            role: text(&read["replica"]["role"]),
            warming: until.is_some_and(|until| read["at"].as_i64().is_some_and(|at| at < until)),
        })
    }

    /// Returns the incidents that are not closed.
    pub fn open(&self) -> impl Iterator<Item = &Incident> {
        self.incidents.iter().filter(|incident| incident.is_open())
    }

    /// Returns the cells whose fresh probes all failed.
    pub fn red(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|cell| cell.state == "failing")
    }
}

fn incident(read: &Value) -> Incident {
    let members: Vec<String> = read["region"]["members"]
        .as_array()
        .into_iter()
        .flatten()
        .map(text)
        .collect();
    let cause = &read["causes"][0];
    Incident {
        id: text(&read["id"]),
        state: text(&read["state"]),
        region: [text(&read["region"]["region"]), members.join(" → ")]
            .join(" ")
            .trim()
            .to_owned(),
        cause: text(&cause["id"]),
        title: text(&cause["title"]),
        probability: number(&read["probability"]),
        sentence: text(&read["sentence"]),
        subject: subject(&read["subject"]),
        targets: read["targets"]
            .as_array()
            .into_iter()
            .flatten()
            .map(text)
            .collect(),
        occurrences: read["occurrences"].as_u64().unwrap_or_default(),
    }
}

fn hint(read: &Value, hazard: bool) -> FindingOrHazard {
    FindingOrHazard {
        kind: text(&read["kind"]),
        severity: Severity::deserialize(&read["severity"]).unwrap_or(Severity::Warning),
        subject: text(&read["subject"]),
        sentence: text(&read["sentence"]),
        hazard,
    }
}

fn subject(read: &Value) -> String {
    let name = text(&read["name"]);
    if name.is_empty() {
        text(&read["type"])
    } else {
        name
    }
}

fn text(read: &Value) -> String {
    match read {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn number(read: &Value) -> f64 {
    read.as_f64()
        .or_else(|| read.as_str()?.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_read_as_far_as_it_is_judged() {
        let answer = json!({
            "at": 10, "interval_us": 5_000_000, "replica": {"role": "alone", "warming_until_us": 20}, "something": "new",
            "vantages": [{"vantage": "n1/pod", "state": "reporting"}, {"vantage": "n2/pod", "state": "silent", "discarded": 7}],
            "matrix": [{"target": "http://shop/", "never_ok": false, "cells": [
                {"vantage": 0, "state": "ok"}, {"vantage": 1, "state": "failing", "failure": "refused in connect"}]}],
            "incidents": [{"id": "0a1b", "state": "open", "probability": 0.97, "occurrences": 1, "sentence": "it fails",
                "subject": {"type": "node", "name": "n2"}, "region": {"region": "pair", "members": ["n1", "n2"]},
                "causes": [{"id": "P7", "title": "the network", "probability": 1.0}], "targets": ["http://shop/"]}],
            "investigating": [{"subject": {"type": "network"}, "sentence": "something fails"}],
            "findings": [{"kind": "stale-answer", "severity": "notice", "subject": "shop", "sentence": "old"}],
        });
        let state = AggregatorState::read(answer.to_string().as_bytes()).unwrap();
        assert_eq!((state.targets, state.ok, state.red().count()), (1, 1, 1));
        assert_eq!(state.cells[0].vantage, "n2/pod");
        assert_eq!(
            (state.reporting.as_slice(), state.warming),
            (["n1/pod".to_owned()].as_slice(), true)
        );
        assert_eq!(state.discarded, BTreeMap::from([("n2/pod".to_owned(), 7)]));
        assert_eq!(state.round_s, Some(5.0));
        let incident = state.open().next().unwrap();
        assert_eq!(
            (incident.region.as_str(), incident.cause.as_str()),
            ("pair n1 → n2", "P7")
        );
        assert_eq!(incident.subject, "n2");
        assert_eq!(state.investigating, ["network: something fails"]);
        assert_eq!(state.hints[0].severity, Severity::Notice);
        assert!(AggregatorState::read(b"<html>").is_err());
    }
}
