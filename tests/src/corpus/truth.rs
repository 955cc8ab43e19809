//! The injected faults, and what an observer could have found out about them.
//!
//! A region is *equivalent* to the injected one if no cell that was probed during the fault crosses the two with
//! different probability. A failure through a virtual address that does not reveal the selected endpoint is a cell of
//! its own, crossed with the share of eligible endpoints in the region. Computed from the generator's own table of
//! paths, never from the engine's.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    draw::DrawnFault,
    region::{PodIx, ProbeApproach, ProbeClient, Region, RegionShape, Scope, TruePath},
    sets::OutputForm,
    simulate::{INTERVAL_US, SimulatedProbe, SimulatedTrial},
    world::SimulatedCluster,
};

/// A region by name and members, as printed in verdicts.
pub type NamedRegion = (String, Vec<String>);

/// The truth about many trials.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TruthFile {
    /// Arguments of the generator.
    #[serde(default)]
    pub args: serde_json::Value,
    /// One entry per trial.
    pub trials: Vec<TrialTruth>,
}

/// The truth about one trial.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TrialTruth {
    /// Its number in the recording.
    pub trial: usize,
    /// The set it was drawn from.
    #[serde(default)]
    pub set: String,
    /// Whether nothing was injected.
    pub healthy: bool,
    /// The injected faults.
    pub faults: Vec<FaultTruth>,
    /// Background failure probability.
    pub theta0: f64,
    /// Probability of a stalled client-round.
    pub stall_rate: f64,
    /// Layout of the endpoints.
    pub layout: String,
    /// Failures not caused by a fault.
    pub background_failures: usize,
    /// Total number of probes.
    pub observations: usize,
    /// Number of probes requested by the engine.
    #[serde(default)]
    #[serde(rename = "asked")]
    pub requested_probes: usize,
    /// Nodes.
    #[serde(default)]
    pub nodes: usize,
    /// Endpoints of the first front.
    #[serde(default)]
    pub backends: usize,
    /// Seconds between two rounds.
    #[serde(default = "five")]
    pub interval_s: f64,
}

const fn five() -> f64 {
    5.0
}

/// The truth about one fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultTruth {
    /// The region's name.
    pub cause: String,
    /// Its members.
    pub members: Vec<String>,
    /// Share of the region's probes that it fails.
    pub theta1: f64,
    /// Its start, in seconds since the start of the trial.
    pub start_s: f64,
    /// Its end; absent if it lasted.
    pub end_s: Option<f64>,
    /// Its failure kinds.
    pub kinds: Vec<String>,
    /// Number of probes in its region while it was active.
    pub probes: usize,
    /// Number of failed ones.
    pub failures: usize,
    /// Evidence in favour of it, in nats: the logarithm of the likelihood ratio with the true rates, over what an
    /// observer sees, against no fault or against the other hard fault alone.
    #[serde(default)]
    pub evidence_nats: f64,
    /// Whether it could have been named.
    pub observable: bool,
    /// The reason, if not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unobservable_because: Option<String>,
    /// Every region that no observed cell can separate from it, including itself.
    pub equivalent: Vec<NamedRegion>,
    /// The front or target it belongs to, as in a verdict's subject; absent if it concerns many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<serde_json::Value>,
}

/// What an observer sees of one kind of probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    way: ProbeApproach,
    client: ProbeClient,
    front: Option<(usize, usize)>,
    /// The endpoint, if the observer knows it.
    pod: Option<PodIx>,
    peer: Option<usize>,
    name: Option<usize>,
    epoch: usize,
}

/// Returns the cells probed while a fault was active.
#[must_use]
pub fn cells(run: &SimulatedTrial, fault: &DrawnFault) -> BTreeSet<Cell> {
    let world = &run.plan.world;
    run.probes
        .iter()
        .filter(|shot| fault.active(shot.round))
        .map(|shot| cell(world, shot))
        .collect()
}

fn cell(world: &SimulatedCluster, shot: &SimulatedProbe) -> Cell {
    let path = &shot.path;
    let known = path.way == ProbeApproach::Direct || (world.identifies && shot.failure.is_none());
    Cell {
        way: path.way,
        client: path.client,
        front: path.front,
        pod: path.pod.filter(|_| known),
        peer: path.node.filter(|_| path.way == ProbeApproach::Mesh),
        name: path.name,
        epoch: world.epoch(shot.round),
    }
}

fn evidence(run: &SimulatedTrial, fault: &DrawnFault, others: &[&DrawnFault]) -> f64 {
    let world = &run.plan.world;
    // Without any background failures a single failure would be proof.
    let theta0 = run.plan.theta0.max(1e-4);
    let without: Vec<(Region, Scope)> = others.iter().map(|other| (other.region, other.scope)).collect();
    let with = [&without[..], &[(fault.region, fault.scope)]].concat();
    let broken = 1.0 - (1.0 - fault.theta1.min(0.999)) * (1.0 - theta0);
    let sum: f64 = run
        .probes
        .iter()
        .filter(|shot| fault.active(shot.round))
        .map(|shot| {
            let cell = cell(world, shot);
            let failing = |regions: &[(Region, Scope)]| {
                let share = permille(regions, &cell, world);
                let alpha = f64::from(u32::try_from(share).unwrap_or(0)) / 1000.0;
                alpha * broken + (1.0 - alpha) * theta0
            };
            let (before, after) = (failing(&without), failing(&with));
            if shot.failure.is_some() {
                (after / before).ln()
            } else {
                ((1.0 - after) / (1.0 - before)).ln()
            }
        })
        .sum();
    // The last digits of a logarithm differ between machines.
    (sum * 10.0).round() / 10.0
}

/// Returns the share of a cell's paths that cross any of the regions, in thousandths; smaller differences are ignored.
fn permille(regions: &[(Region, Scope)], cell: &Cell, world: &SimulatedCluster) -> usize {
    let path = |pod: Option<PodIx>, node| TruePath {
        way: cell.way,
        client: cell.client,
        front: cell.front,
        pod,
        node,
        name: cell.name,
        no_local: cell
            .front
            .is_some_and(|(front, _)| world.no_local(cell.epoch, front, cell.client)),
    };
    let crossed = |path: &TruePath| {
        regions
            .iter()
            .any(|(region, scope)| region.breaks(path, *scope, world))
    };
    let to = |pod: PodIx| path(Some(pod), Some(world.pods[pod].node));
    match (cell.front, cell.pod) {
        (Some((front, _)), None) => {
            let eligible = world.eligible(cell.epoch, front, cell.client);
            let hit = eligible.iter().filter(|pod| crossed(&to(**pod))).count();
            (hit * 2000 + eligible.len()) / (2 * eligible.len().max(1))
        }
        (_, Some(pod)) => usize::from(crossed(&to(pod))) * 1000,
        (None, None) => usize::from(crossed(&path(None, cell.peer))) * 1000,
    }
}

/// Returns every region that no cell separates from a fault's, including itself. Simultaneous hard faults hide what
/// they break, so regions are compared together with them.
#[must_use]
pub fn equivalent(
    fault: &DrawnFault,
    others: &[&DrawnFault],
    cells: &BTreeSet<Cell>,
    world: &SimulatedCluster,
) -> Vec<NamedRegion> {
    let hidden: Vec<(Region, Scope)> = others.iter().map(|other| (other.region, other.scope)).collect();
    let with = |region: Region| {
        let mut regions = hidden.clone();
        regions.push((region, fault.scope));
        regions
    };
    let own = with(fault.region);
    let mut wanted: Vec<(Cell, usize)> = cells
        .iter()
        .map(|cell| (*cell, permille(&own, cell, world)))
        .collect();
    // The fault's own cells first, because nearly every other region already differs there.
    wanted.sort_by_key(|(cell, permille)| (std::cmp::Reverse(*permille), *cell));
    let mut found: Vec<NamedRegion> = Region::all(world, fault.scope.front)
        .into_iter()
        .filter(|region| {
            let regions = with(*region);
            wanted
                .iter()
                .all(|(cell, wanted)| permille(&regions, cell, world) == *wanted)
        })
        .map(|region| (region.kind().word().to_owned(), region.members(world)))
        .collect();
    found.sort();
    found
}

/// Builds the truth about a run.
#[must_use]
pub fn from_run(run: &SimulatedTrial, set: &str, trial: usize) -> TrialTruth {
    let world = &run.plan.world;
    TrialTruth {
        trial,
        set: set.to_owned(),
        healthy: run.plan.faults.is_empty(),
        faults: (0..run.plan.faults.len()).map(|i| of_fault(run, i)).collect(),
        theta0: run.plan.theta0,
        stall_rate: run.plan.stall,
        layout: world.layout.to_owned(),
        background_failures: run.background_failures,
        observations: run.probes.len(),
        requested_probes: run.probes.iter().filter(|shot| shot.assignment.is_some()).count(),
        nodes: world.zones.len(),
        backends: world.endpoints(0, 0).len(),
        interval_s: seconds(1),
    }
}

fn seconds(rounds: usize) -> f64 {
    let us = i64::try_from(rounds).unwrap_or(0) * INTERVAL_US;
    f64::from(i32::try_from(us / 1000).unwrap_or(i32::MAX)) / 1000.0
}

fn of_fault(run: &SimulatedTrial, index: usize) -> FaultTruth {
    let world = &run.plan.world;
    let fault = &run.plan.faults[index];
    let others: Vec<&DrawnFault> = run
        .plan
        .faults
        .iter()
        .enumerate()
        .filter(|(i, other)| *i != index && other.theta1 >= 0.9 && other.start <= fault.start)
        .map(|(_, other)| other)
        .collect();
    let inside: Vec<_> = run
        .probes
        .iter()
        .filter(|s| fault.active(s.round) && fault.breaks(&s.path, world))
        .collect();
    let failed: Vec<_> = inside.iter().filter(|s| s.failure.is_some()).collect();
    let rounds: BTreeSet<usize> = failed.iter().map(|s| s.round).collect();
    let clients: BTreeSet<ProbeClient> = failed.iter().map(|s| s.path.client).collect();
    let client_rounds: BTreeSet<(ProbeClient, usize)> =
        failed.iter().map(|s| (s.path.client, s.round)).collect();
    let probing: BTreeSet<ProbeClient> = inside.iter().map(|s| s.path.client).collect();
    let alone = fault.region.kind().seen_by_one() || probing.len() < 2;
    let because = if client_rounds.len() < 3 {
        Some(format!(
            "{} failing client-rounds, at least 3 are needed",
            client_rounds.len()
        ))
    } else if rounds.len() < 2 {
        Some("failures in one round only".to_owned())
    } else if clients.len() < 2 && !alone {
        Some("only one of several clients observed it".to_owned())
    } else {
        None
    };
    let observed = cells(run, fault);
    let mut equivalent = equivalent(fault, &others, &observed, world);
    let mut members = fault.region.members(world);
    if run.form == OutputForm::Stream {
        // Names are no members in this format.
        for (_, members) in equivalent
            .iter_mut()
            .filter(|(word, _)| word == RegionShape::DnsName.word())
        {
            members.clear();
        }
        equivalent.dedup();
        if fault.region.kind() == RegionShape::DnsName {
            members.clear();
        }
    }
    FaultTruth {
        cause: fault.region.kind().word().to_owned(),
        members,
        theta1: fault.theta1,
        start_s: seconds(fault.start),
        end_s: fault.end.map(seconds),
        kinds: fault.mix.iter().map(|(kind, _)| kind.word()).collect(),
        probes: inside.len(),
        failures: failed.len(),
        evidence_nats: evidence(run, fault, &others),
        observable: because.is_none(),
        unobservable_because: because,
        equivalent,
        subject: super::records::subject(run, fault),
    }
}
