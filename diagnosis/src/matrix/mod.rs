//! What people look at while nothing is judged yet: each target from each vantage that asks for it, and who speaks.
//!
//! A large mesh asks for a target from some of its vantages only. Cells are kept for those that are to ask and for those
//! that did: nobody expects an answer from the others.

mod cell;
mod not_excluded;
mod rows;

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{Channel, EventTime, Front, Micros, Outcome, Placement, Recorded, ReportSeq, TargetId};

use self::cell::Cell;
pub(crate) use self::not_excluded::by_mesh;
use crate::{
    evidence::{rounds::OpenRounds, routes::default_front},
    findings::LatestOutcome,
    ids::{NameRegistry, TargetIx, VantageIx},
    plan,
    settings::Settings,
    topology::{Topology, former::FormerPods},
};

/// Fronts remembered per target: a name that resolves to ever new addresses must not grow without end.
const MAX_FRONTS: usize = 16;

/// Which of two probes is the newer one, whichever arrives first.
type ProbeOrder = (EventTime, ReportSeq);

#[derive(Debug, Clone, Default)]
struct Row {
    fronts: BTreeSet<Front>,
    /// When anybody first asked, on any channel.
    first_probe: Option<EventTime>,
    /// When the first success that is known here was observed.
    first_success: Option<EventTime>,
    /// Where a user's connection goes, as the topology says.
    usual: Option<Front>,
    /// The vantages that are to ask for it.
    planned: Vec<VantageIx>,
    cells: BTreeMap<VantageIx, Cell>,
}

/// Tells whether [`Matrix::seen`] says something else than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ChangeDetector {
    changes: u64,
    fresh: usize,
}

/// The newest outcomes of every target from every vantage.
#[derive(Debug, Default)]
pub(crate) struct Matrix {
    rows: BTreeMap<TargetIx, Row>,
    last_seen: BTreeMap<VantageIx, EventTime>,
    /// The earliest probe that anybody told of.
    began: Option<EventTime>,
    /// Targets that are known to have succeeded, though not here.
    remembered: BTreeSet<TargetId>,
    /// How often a cell's newest outcome became another one.
    changes: u64,
}

/// Where an observation belongs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CellPosition {
    pub(crate) vantage: VantageIx,
    /// Nothing where the topology does not hold it.
    pub(crate) target: Option<TargetIx>,
    /// Where it went or would have gone.
    pub(crate) front: Option<Front>,
    pub(crate) placement: Placement,
    /// A DNS cache or a Service rule sent it to an address or endpoint that no longer exists.
    pub(crate) stale: bool,
}

impl Matrix {
    /// Takes an observation in as soon as it arrives: failures show at once, though they are judged with their round.
    pub(crate) fn take(&mut self, recorded: &Recorded, place: CellPosition, settings: Settings) {
        let observation = &recorded.observation;
        let seen = self.last_seen.entry(place.vantage).or_default();
        *seen = (*seen).max(observation.at);
        earliest(&mut self.began, observation.at);
        let Some(row) = place.target.and_then(|target| self.rows.get_mut(&target)) else {
            return;
        };
        earliest(&mut row.first_probe, observation.at);
        if matches!(observation.outcome, Outcome::Ok { .. }) {
            earliest(&mut row.first_success, observation.at);
        }
        let shown_channel = matches!(observation.channel, Channel::Vip | Channel::Dns);
        if !shown_channel || matches!(observation.outcome, Outcome::NotAsked { .. }) {
            return;
        }
        if let Some(front) = observation.front
            && row.fronts.len() < MAX_FRONTS
        {
            row.fronts.insert(front);
        }
        let cell = row.cells.entry(place.vantage).or_default();
        let (before, after) = cell.take(recorded, place, settings);
        self.changes += u64::from(before != after);
    }

    /// Takes over who is to ask for what, and forgets targets and vantages that there are no more.
    pub(crate) fn replace_topology(
        &mut self,
        (old, new, former): (&Topology, &Topology, &FormerPods),
        world: &NameRegistry,
        is_known: impl Fn(VantageIx) -> bool,
    ) {
        let everywhere = old.proxy_mode() != new.proxy_mode() || zones(old).ne(zones(new));
        let stays = |front: &Front| {
            !everywhere
                && old.front(front) == new.front(front)
                && old.machine(front) == new.machine(front)
                && old.service_of(front) == new.service_of(front)
        };
        let mut rows = std::mem::take(&mut self.rows);
        for (id, vantages) in plan::clients(new) {
            // The topology's targets and vantages are numbered before anything is done with them.
            let Some(target) = world.targets.get(id) else {
                continue;
            };
            let mut row = rows.remove(&target).unwrap_or_default();
            let numbers = vantages.iter().filter_map(|vantage| world.vantages.get(vantage));
            row.planned = numbers.collect();
            row.usual = default_front(new, id);
            row.cells.retain(|vantage, _| is_known(*vantage));
            for (vantage, cell) in &mut row.cells {
                let front = cell.front.or(row.usual);
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
        self.changes += 1;
    }

    /// Rounds are others from now on: each counts where it ended.
    pub(crate) fn divide(&mut self, old: Settings, new: Settings) {
        for cell in self.rows.values_mut().flat_map(|row| row.cells.values_mut()) {
            cell.divide(|round| round.end(old.interval).minus(Micros(1)).round(new.interval));
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

    /// The newest outcome of each target from each vantage as a user would go, where it is fresh.
    pub(crate) fn seen(&self, now: EventTime, settings: Settings) -> impl Iterator<Item = LatestOutcome> {
        self.fresh(now, settings).filter_map(|(vantage, cell)| {
            Some(LatestOutcome {
                vantage,
                front: cell.front?,
                ok: cell.newest()?,
            })
        })
    }

    /// The same as long as nothing that [`Self::seen`] says has changed.
    pub(crate) fn pulse(&self, now: EventTime, settings: Settings) -> ChangeDetector {
        ChangeDetector {
            changes: self.changes,
            fresh: self.fresh(now, settings).count(),
        }
    }

    fn fresh(&self, now: EventTime, settings: Settings) -> impl Iterator<Item = (VantageIx, &Cell)> {
        let horizon = now.minus(OpenRounds::patience(settings));
        let cells = self.rows.values().flat_map(|row| &row.cells);
        cells
            .filter(move |(_, cell)| {
                let newest = cell.newest_round();
                newest.is_some_and(|round| round.end(settings.interval) > horizon)
            })
            .map(|(vantage, cell)| (*vantage, cell))
    }

    /// Whether a vantage was heard lately.
    pub(crate) fn is_reporting(&self, vantage: VantageIx, now: EventTime, settings: Settings) -> bool {
        let last = self.last_seen.get(&vantage);
        last.is_some_and(|at| now - *at <= OpenRounds::patience(settings))
    }

    /// Whether a target ever succeeded on any channel.
    pub(crate) fn ever_ok(&self, target: &TargetId, world: &NameRegistry) -> bool {
        let row = world
            .targets
            .get(target)
            .and_then(|target| self.rows.get(&target));
        row.is_some_and(|row| row.first_success.is_some()) || self.remembered.contains(target)
    }

    /// Takes over that a target succeeded, which another process saw.
    pub(crate) fn remember(&mut self, target: TargetId) {
        self.remembered.insert(target);
    }
}

fn earliest(known: &mut Option<EventTime>, at: EventTime) {
    *known = Some(known.map_or(at, |known| known.min(at)));
}

/// What placements rest on besides Services.
fn zones(
    topology: &Topology,
) -> impl Iterator<Item = (&parallax_model::NodeName, Option<&parallax_model::ZoneName>)> {
    topology
        .nodes()
        .iter()
        .map(|(name, node)| (name, node.zone.as_ref()))
}
