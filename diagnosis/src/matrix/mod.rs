//! The matrix: the newest outcomes of each target from each vantage, before judgement, and which vantages report.
//!
//! In a large mesh, only some vantages probe a target. Cells exist for vantages that are planned to probe it and for
//! those that did.

mod cell;
mod not_excluded;
mod rows;

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{
    Channel, EventTime, Front, Micros, Outcome, OwnFault, Placement, Recorded, ReportSeq, TargetId,
};

use self::cell::Cell;
pub(crate) use self::not_excluded::not_excluded_by_mesh;
use crate::{
    evidence::{rounds::OpenRounds, routes::default_front},
    findings::LatestOutcome,
    ids::{NameRegistry, TargetIx, VantageIx},
    plan,
    settings::Settings,
    topology::{Topology, former_pods::FormerPods},
};

/// Fronts remembered per target, bounded because a name may resolve to ever new addresses.
const MAX_FRONTS: usize = 16;

/// Orders two probes by age, regardless of the order of arrival.
type ProbeOrder = (EventTime, ReportSeq);

#[derive(Debug, Clone, Default)]
struct Row {
    fronts: BTreeSet<Front>,
    /// Time of the first probe by any vantage, on any channel.
    first_probe: Option<EventTime>,
    /// Time of the first success that this process knows.
    first_success: Option<EventTime>,
    /// The front of users' connections according to the topology.
    default_front: Option<Front>,
    /// The vantages planned to probe it.
    planned: Vec<VantageIx>,
    cells: BTreeMap<VantageIx, Cell>,
    /// The newest probe that each vantage did not make because of a fault of its own.
    not_probed: BTreeMap<VantageIx, (ProbeOrder, OwnFault)>,
}

/// Detects changes of [`Matrix::seen`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MatrixVersion {
    changes: u64,
    fresh: usize,
}

/// The newest outcomes of every target from every vantage.
#[derive(Debug, Default)]
pub(crate) struct Matrix {
    rows: BTreeMap<TargetIx, Row>,
    last_seen: BTreeMap<VantageIx, EventTime>,
    /// Start of the newest probe of each vantage that was answered as it should.
    last_answered: BTreeMap<VantageIx, EventTime>,
    discarded: BTreeMap<VantageIx, DiscardedObservations>,
    /// Start of the earliest probe reported.
    first_probe: Option<EventTime>,
    /// Targets known to have succeeded from a checkpoint.
    known_to_work: BTreeSet<TargetId>,
    /// Number of changes of a cell's newest outcome.
    changes: u64,
}

/// Observations of a vantage that are no evidence because of when or how many it sent.
#[derive(Debug, Clone, Copy, Default)]
struct DiscardedObservations {
    count: u64,
    /// When the last of them arrived.
    last: Option<EventTime>,
}

/// Position of an observation in the matrix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CellPosition {
    pub(crate) vantage: VantageIx,
    /// `None` if the topology does not contain the target.
    pub(crate) target: Option<TargetIx>,
    /// The front it went to or would have gone to.
    pub(crate) front: Option<Front>,
    pub(crate) placement: Placement,
    /// A DNS cache or a Service rule sent it to an address or endpoint that no longer exists.
    pub(crate) stale: bool,
    /// The probe succeeds by getting no answer.
    pub(crate) requires_silence: bool,
}

impl Matrix {
    /// The start of the first probe that this process knows.
    pub(crate) const fn first_probe(&self) -> Option<EventTime> {
        self.first_probe
    }

    /// Adds an observation on arrival: failures show at once, although they are judged with their round.
    pub(crate) fn add(&mut self, recorded: &Recorded, place: CellPosition, settings: Settings) {
        let observation = &recorded.observation;
        let seen = self.last_seen.entry(place.vantage).or_default();
        *seen = (*seen).max(observation.started);
        keep_earliest(&mut self.first_probe, observation.started);
        let succeeded = matches!(observation.outcome, Outcome::Ok { .. });
        // A resolver on the same machine answers from its cache without a network.
        if succeeded && !place.requires_silence && observation.channel != Channel::Dns {
            let last = self.last_answered.entry(place.vantage).or_default();
            *last = (*last).max(observation.started);
        }
        let Some(row) = place.target.and_then(|target| self.rows.get_mut(&target)) else {
            return;
        };
        keep_earliest(&mut row.first_probe, observation.started);
        if succeeded {
            keep_earliest(&mut row.first_success, observation.started);
        }
        let shown_channel = matches!(observation.channel, Channel::Vip | Channel::Dns);
        if !shown_channel {
            return;
        }
        if let Outcome::NotProbed { fault } = observation.outcome {
            row.add_not_probed(place.vantage, (observation.started, observation.seq), fault);
            return;
        }
        if let Some(front) = observation.front
            && row.fronts.len() < MAX_FRONTS
        {
            row.fronts.insert(front);
        }
        let cell = row.cells.entry(place.vantage).or_default();
        let (before, after) = cell.add(recorded, place, settings);
        self.changes += u64::from(before != after);
    }

    /// Counts observations that were discarded at `now`.
    pub(crate) fn record_discarded(&mut self, vantage: VantageIx, observations: u64, now: Option<EventTime>) {
        let discarded = self.discarded.entry(vantage).or_default();
        discarded.count = discarded.count.saturating_add(observations);
        discarded.last = discarded.last.max(now);
    }

    /// Updates the planned vantages, and drops removed targets and vantages.
    pub(crate) fn replace_topology(
        &mut self,
        (old, new, former): (&Topology, &Topology, &FormerPods),
        world: &NameRegistry,
        is_known: impl Fn(VantageIx) -> bool,
    ) {
        let affects_all = old.proxy_mode() != new.proxy_mode() || zones(old).ne(zones(new));
        let stays = |front: &Front| {
            !affects_all
                && old.front(front) == new.front(front)
                && old.node_serving(front) == new.node_serving(front)
                && old.service_of(front) == new.service_of(front)
        };
        let mut rows = std::mem::take(&mut self.rows);
        for (id, vantages) in plan::clients(new) {
            // The targets and vantages of a topology are interned before anything else uses it.
            let Some(target) = world.targets.get(id) else {
                continue;
            };
            let mut row = rows.remove(&target).unwrap_or_default();
            let numbers = vantages.iter().filter_map(|vantage| world.vantages.get(vantage));
            row.planned = numbers.collect();
            row.default_front = default_front(new, id);
            row.cells.retain(|vantage, _| is_known(*vantage));
            row.not_probed.retain(|vantage, _| is_known(*vantage));
            for (vantage, cell) in &mut row.cells {
                let front = cell.front.or(row.default_front);
                if !front.is_some_and(|front| stays(&front)) {
                    let vantage = world.vantages.name(*vantage);
                    let probe = (vantage, front.as_ref(), cell.entry.as_ref());
                    let at = cell.last.map_or(EventTime(0), |(at, _)| at);
                    cell.placement = Some(former.placement(new, probe, at));
                }
            }
            self.rows.insert(target, row);
        }
        self.last_seen.retain(|vantage, _| is_known(*vantage));
        self.last_answered.retain(|vantage, _| is_known(*vantage));
        self.discarded.retain(|vantage, _| is_known(*vantage));
        self.changes += 1;
    }

    /// Maps the rounds of all cells to a new round length, each by its end.
    pub(crate) fn change_interval(&mut self, old: Settings, new: Settings) {
        for cell in self.rows.values_mut().flat_map(|row| row.cells.values_mut()) {
            cell.change_interval(|round| round.end(old.interval).minus(Micros(1)).round(new.interval));
        }
        self.changes += 1;
    }

    /// Targets that were seen to connect to a front.
    pub(crate) fn targets_of<'a>(
        &'a self,
        front: &Front,
        world: &'a NameRegistry,
    ) -> impl Iterator<Item = &'a TargetId> {
        self.rows
            .iter()
            .filter(move |(_, row)| row.fronts.contains(front))
            .map(|(target, _)| world.targets.name(*target))
    }

    /// The fresh newest outcome of each target from each vantage on the user's path.
    pub(crate) fn latest_outcomes(
        &self,
        now: EventTime,
        settings: Settings,
    ) -> impl Iterator<Item = LatestOutcome> {
        self.fresh(now, settings).filter_map(|(vantage, cell)| {
            Some(LatestOutcome {
                vantage,
                front: cell.front?,
                ok: cell.newest_succeeded()?,
            })
        })
    }

    /// Returns a value that stays equal as long as [`Self::seen`] does not change.
    pub(crate) fn version(&self, now: EventTime, settings: Settings) -> MatrixVersion {
        MatrixVersion {
            changes: self.changes,
            fresh: self.fresh(now, settings).count(),
        }
    }

    fn fresh(&self, now: EventTime, settings: Settings) -> impl Iterator<Item = (VantageIx, &Cell)> {
        let horizon = now.minus(OpenRounds::silence_timeout(settings));
        let cells = self.rows.values().flat_map(|row| &row.cells);
        cells
            .filter(move |(_, cell)| {
                let newest = cell.newest_round();
                newest.is_some_and(|round| round.end(settings.interval) > horizon)
            })
            .map(|(vantage, cell)| (*vantage, cell))
    }

    /// Reports whether a vantage got an answer that it wanted to a probe of `since` or later. Only then is the silence of a target
    /// to it evidence: a vantage without a network meets nothing but silence.
    pub(crate) fn was_answered_since(&self, vantage: VantageIx, since: EventTime) -> bool {
        self.last_answered.get(&vantage).is_some_and(|at| *at >= since)
    }

    /// Reports whether a vantage reported recently.
    pub(crate) fn is_reporting(&self, vantage: VantageIx, now: EventTime, settings: Settings) -> bool {
        let last = self.last_seen.get(&vantage);
        last.is_some_and(|at| now - *at <= OpenRounds::silence_timeout(settings))
    }

    /// Reports whether a target ever succeeded on any channel.
    pub(crate) fn ever_succeeded(&self, target: &TargetId, world: &NameRegistry) -> bool {
        let row = world
            .targets
            .get(target)
            .and_then(|target| self.rows.get(&target));
        row.is_some_and(|row| row.first_success.is_some()) || self.known_to_work.contains(target)
    }

    /// Records from a checkpoint that a target succeeded.
    pub(crate) fn mark_succeeded(&mut self, target: TargetId) {
        self.known_to_work.insert(target);
    }
}

fn keep_earliest(known: &mut Option<EventTime>, at: EventTime) {
    *known = Some(known.map_or(at, |known| known.min(at)));
}

/// The inputs of placements besides Services.
fn zones(
    topology: &Topology,
) -> impl Iterator<Item = (&parallax_model::NodeName, Option<&parallax_model::ZoneName>)> {
    topology
        .nodes()
        .iter()
        .map(|(name, node)| (name, node.zone.as_ref()))
}
