//! What was injected, and what an observer could have found out about it.
//!
//! A region is *equivalent* to the injected one if no cell that was probed while the fault was there crosses the two
//! with different probability. A failure through a virtual address that does not say who was chosen is a cell of its
//! own, crossed with the share of eligible endpoints in the region. Computed from the generator's own table of paths,
//! never from the engine's.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    draw::DrawnFault,
    region::{PodIx, ProbeApproach, ProbeClient, Region, RegionShape, Scope, TruePath},
    sets::OutputForm,
    simulate::{INTERVAL_US, SimulatedProbe, SimulatedTrial},
    world::SimulatedCluster,
};

/// A region by its name and its members, as verdicts print it.
pub type NamedRegion = (String, Vec<String>);

/// The truth about many trials.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TruthFile {
    /// What the generator was asked for.
    #[serde(default)]
    pub args: serde_json::Value,
    /// One entry a trial.
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
    /// Nothing was injected.
    pub healthy: bool,
    /// What was injected.
    pub faults: Vec<FaultTruth>,
    /// Background failure probability.
    pub theta0: f64,
    /// Probability of a stalled client-round.
    pub stall_rate: f64,
    /// How endpoints were placed.
    pub layout: String,
    /// Failures that no fault caused.
    pub background_failures: usize,
    /// Probes in all.
    pub observations: usize,
    /// Those among them that the engine asked for.
    #[serde(default)]
    pub asked: usize,
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
    /// Share of the region's probes that fail of it.
    pub theta1: f64,
    /// Seconds since the start of the trial.
    pub start_s: f64,
    /// When it was over; absent where it lasted.
    pub end_s: Option<f64>,
    /// How its failures look.
    pub kinds: Vec<String>,
    /// Probes in its region while it was there.
    pub probes: usize,
    /// Failures among them.
    pub failures: usize,
    /// How strongly the outcomes speak for it, in nats: the logarithm of the likelihood ratio with the true rates, over
    /// what an observer sees, against nothing at all or against the other hard fault alone.
    #[serde(default)]
    pub evidence_nats: f64,
    /// Whether anybody could have named it.
    pub observable: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unobservable_because: Option<String>,
    /// Every region that no observed cell can separate from it, itself included.
    pub equivalent: Vec<NamedRegion>,
    /// The front or target it sits at, in the words of a verdict's subject; absent where it concerns many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<serde_json::Value>,
}

/// What one kind of probe shows to an observer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    way: ProbeApproach,
    client: ProbeClient,
    front: Option<(usize, usize)>,
    /// The endpoint, where the observer knows it.
    pod: Option<PodIx>,
    peer: Option<usize>,
    name: Option<usize>,
    epoch: usize,
}

/// The cells probed while a fault was there.
#[must_use]
pub fn cells(run: &SimulatedTrial, fault: &DrawnFault) -> BTreeSet<Cell> {
    let world = &run.plan.world;
    run.shots
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
    // Without any background a single failure would prove everything.
    let theta0 = run.plan.theta0.max(1e-4);
    let without: Vec<(Region, Scope)> = others.iter().map(|other| (other.region, other.scope)).collect();
    let with = [&without[..], &[(fault.region, fault.scope)]].concat();
    let broken = 1.0 - (1.0 - fault.theta1.min(0.999)) * (1.0 - theta0);
    let sum: f64 = run
        .shots
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

/// Share of a cell's paths that cross any of the regions, in thousandths: what differs by less is the same.
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

/// Every region that no cell separates from a fault's, itself included. Other hard faults at the same time hide what
/// they break: regions are compared with them added.
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
    // The fault's own cells first: nearly every other region already differs there.
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

/// Writes down the truth about a run.
#[must_use]
pub fn of(run: &SimulatedTrial, set: &str, trial: usize) -> TrialTruth {
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
        observations: run.shots.len(),
        asked: run.shots.iter().filter(|shot| shot.assignment.is_some()).count(),
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
        .shots
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
            "{} failing client-rounds, 3 are needed",
            client_rounds.len()
        ))
    } else if rounds.len() < 2 {
        Some("failures in one round only".to_owned())
    } else if clients.len() < 2 && !alone {
        Some("only one of several clients met it".to_owned())
    } else {
        None
    };
    let observed = cells(run, fault);
    let mut equivalent = equivalent(fault, &others, &observed, world);
    let mut members = fault.region.members(world);
    if run.form == OutputForm::Stream {
        // Names are no members in this form.
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
