//! Values of the gauges that describe targets, vantages, nodes and Challenges.

use std::collections::BTreeMap;

use parallax_api::challenges::WaitingChallenge;
use parallax_diagnosis::{
    topology::Topology,
    view::{CellState, VantageState, View},
};
use parallax_model::{EventTime, Micros, Placement};
use prometheus_client::encoding::EncodeLabelSet;

use super::count_value;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(super) struct TargetPlacement {
    target: String,
    placement: &'static str,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(super) struct TargetState {
    target: String,
    state: &'static str,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(super) struct TargetPending {
    target: String,
    pending: &'static str,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(super) struct StateLabel {
    state: &'static str,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(super) struct ProberLabel {
    prober: &'static str,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(super) struct VantageLabel {
    vantage: String,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(super) struct CauseLabel {
    cause: String,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a shown window are far below 2^52"
)]
pub(super) fn reachable_ratios(view: &View) -> BTreeMap<TargetPlacement, f64> {
    let mut counts: BTreeMap<(&str, Placement), (u64, u64)> = BTreeMap::new();
    for row in &view.matrix {
        for cell in row.cells.iter().filter(|cell| cell.state != CellState::Unknown) {
            let count = counts.entry((row.target.as_str(), cell.placement)).or_default();
            count.0 += cell.probes;
            count.1 += cell.failures;
        }
    }
    counts
        .into_iter()
        .filter(|(_, (probes, _))| *probes > 0)
        .map(|((target, placement), (probes, failures))| {
            let labels = TargetPlacement {
                target: target.to_owned(),
                placement: placement.label(),
            };
            (labels, probes.saturating_sub(failures) as f64 / probes as f64)
        })
        .collect()
}

/// Counts vantages by target and state. All four states have a series, since ratios need all parts.
pub(super) fn vantage_states(view: &View) -> BTreeMap<TargetState, f64> {
    let mut counts = BTreeMap::new();
    for row in &view.matrix {
        for state in [
            CellState::Ok,
            CellState::Flaky,
            CellState::Failing,
            CellState::Unknown,
        ] {
            let labels = TargetState {
                target: row.target.to_string(),
                state: match state {
                    CellState::Ok => "ok",
                    CellState::Flaky => "flaky",
                    CellState::Failing => "failing",
                    CellState::Unknown => "unknown",
                },
            };
            let vantages = row.cells.iter().filter(|cell| cell.state == state).count();
            counts.insert(labels, count_value(vantages));
        }
    }
    counts
}

pub(super) fn never_ok_targets(view: &View) -> BTreeMap<TargetPending, f64> {
    let never = view.matrix.iter().filter(|row| row.never_succeeded);
    never
        .map(|row| {
            let labels = TargetPending {
                target: row.target.to_string(),
                pending: if row.pending { "yes" } else { "no" },
            };
            (labels, 1.0)
        })
        .collect()
}

pub(super) fn vantage_counts(view: &View) -> BTreeMap<StateLabel, f64> {
    [
        ("reporting", VantageState::Reporting),
        ("silent", VantageState::Silent),
        ("waiting", VantageState::Waiting),
    ]
    .into_iter()
    .map(|(label, state)| {
        let matching = view.vantages.iter().filter(|vantage| vantage.state == state);
        (StateLabel { state: label }, count_value(matching.count()))
    })
    .collect()
}

pub(super) fn node_counts(topology: &Topology) -> BTreeMap<ProberLabel, f64> {
    let all = topology.nodes().len();
    let probed = topology
        .nodes()
        .values()
        .filter(|node| node.prober.is_some())
        .count();
    [("yes", probed), ("no", all - probed)]
        .into_iter()
        .map(|(prober, nodes)| (ProberLabel { prober }, count_value(nodes)))
        .collect()
}

/// Returns the age of the latest judged round; without one, that of the aggregator.
pub(super) fn evidence_age(view: &View, now: EventTime, start: EventTime) -> f64 {
    let judged = view
        .last_judged_round
        .map_or(start, |round| round.end(view.interval));
    (now - judged).as_secs_f64()
}

pub(super) fn challenge_counts(waiting: &[WaitingChallenge]) -> BTreeMap<CauseLabel, f64> {
    let mut counts = BTreeMap::new();
    for challenge in waiting {
        let cause = challenge.cause().to_owned();
        *counts.entry(CauseLabel { cause }).or_insert(0.0) += 1.0;
    }
    counts
}

pub(super) fn silence_seconds(view: &View, now: EventTime, start: EventTime) -> BTreeMap<VantageLabel, f64> {
    view.vantages
        .iter()
        .map(|vantage| {
            let silent: Micros = now - vantage.last_seen.unwrap_or(start);
            let labels = VantageLabel {
                vantage: vantage.vantage.to_string(),
            };
            (labels, silent.as_secs_f64())
        })
        .collect()
}
