//! The matrix for people: a row for each target, a cell for each vantage that is planned to probe it or did.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{EventTime, Micros, OwnFault, Round, TargetId, Vantage};

use super::{
    Matrix, ProbeOrder, Row,
    cell::{Cell, RoundCounts},
};
use crate::{
    evidence::{baseline::Baseline, rounds::OpenRounds, routes::Routes},
    ids::{NameRegistry, VantageIx},
    settings::{Settings, cache_ttl},
    topology::Topology,
    view::{CellState, MatrixCell, MatrixRow, VantageState, VantageView},
};

/// How long a target counts as new.
const NEW_TARGET_PERIOD: Micros = Micros::from_secs(60);

impl Matrix {
    pub(crate) fn vantages(
        &self,
        known: &BTreeSet<Vantage>,
        world: &NameRegistry,
        now: EventTime,
        settings: Settings,
    ) -> Vec<VantageView> {
        let spoke = self.last_seen.keys().map(|vantage| world.vantages.name(*vantage));
        let all: BTreeSet<&Vantage> = known.iter().chain(spoke).collect();
        all.into_iter()
            .map(|vantage| {
                let number = world.vantages.get(vantage);
                let last_seen = number.and_then(|number| self.last_seen.get(&number)).copied();
                let state = match last_seen {
                    None => VantageState::Waiting,
                    Some(at) if now - at > OpenRounds::silence_timeout(settings) => VantageState::Silent,
                    Some(_) => VantageState::Reporting,
                };
                let discarded = number
                    .and_then(|number| self.discarded.get(&number))
                    .copied()
                    .unwrap_or_default();
                let timeout = OpenRounds::silence_timeout(settings);
                VantageView {
                    discarded: discarded.count,
                    is_discarding: discarded.last.is_some_and(|at| now - at <= timeout),
                    vantage: vantage.clone(),
                    // A prober's clock is known only to within a report's latency; the last report is never in the
                    // future.
                    last_seen: last_seen.map(|at| at.min(now)),
                    state,
                    explained_by: None,
                }
            })
            .collect()
    }

    pub(crate) fn rows(
        &self,
        topology: &Topology,
        (world, routes, baselines): (&NameRegistry, &Routes, &BTreeMap<TargetId, Baseline>),
        vantages: &[VantageView],
        now: EventTime,
        settings: Settings,
    ) -> Vec<MatrixRow> {
        let mut columns = VantageColumns::default();
        for (column, vantage) in vantages.iter().enumerate() {
            if let Some(number) = world.vantages.get(&vantage.vantage) {
                columns.set(number, column);
            }
        }
        let empty = Row::default();
        let targets = topology.targets().iter();
        targets
            .map(|(id, placed)| {
                let number = world.targets.get(id);
                let row = number.and_then(|target| self.rows.get(&target));
                let own = placed.target.interval.unwrap_or(settings.interval);
                let never_succeeded = row
                    .is_some_and(|row| row.first_probe.is_some() && row.first_success.is_none())
                    && !self.known_to_work.contains(id);
                let window = FreshnessWindow {
                    now,
                    interval: settings.interval,
                    horizon: now.minus(OpenRounds::silence_timeout(Settings {
                        interval: own.max(settings.interval),
                        ..settings
                    })),
                    absence_until: self.negative_cache_until(
                        id,
                        row,
                        number.and_then(|target| routes.negative_cache_until(target)),
                        settings,
                    ),
                    never_succeeded,
                };
                MatrixRow {
                    target: id.clone(),
                    fronts: row
                        .map(|r| r.fronts.iter().copied().collect())
                        .unwrap_or_default(),
                    never_succeeded,
                    is_new: row.is_some_and(|row| self.is_new(id, row, now)),
                    pending: placed.target.pending,
                    baseline: baselines
                        .get(id)
                        .filter(|baseline| baseline.is_established())
                        .map(|baseline| baseline.answers.clone())
                        .unwrap_or_default(),
                    cells: row
                        .unwrap_or(&empty)
                        .cells(topology, world, &columns, window, |vantage| {
                            !placed.target.probe.requires_silence()
                                || self.was_answered_since(vantage, window.horizon)
                        }),
                }
            })
            .collect()
    }

    /// Reports whether a target has just appeared in an older mesh.
    fn is_new(&self, target: &TargetId, row: &Row, now: EventTime) -> bool {
        let Some(first) = row.first_probe else {
            return false;
        };
        // Targets from the start of this process are new only to this process.
        let appeared = self
            .first_probe
            .is_some_and(|began| first - began >= NEW_TARGET_PERIOD);
        appeared && now - first < NEW_TARGET_PERIOD && !self.known_to_work.contains(target)
    }

    /// Time until which a cache may hold a negative answer for a target's name: after the name got an address, and
    /// after its first success.
    fn negative_cache_until(
        &self,
        target: &TargetId,
        row: Option<&Row>,
        announced: Option<EventTime>,
        settings: Settings,
    ) -> Option<EventTime> {
        let first = row.and_then(|row| row.first_success);
        let first = first.filter(|_| !self.known_to_work.contains(target));
        announced.max(first.map(|at| at.plus(cache_ttl(settings))))
    }
}

/// The column of each vantage, by id.
#[derive(Debug, Default)]
struct VantageColumns(Vec<Option<usize>>);

impl VantageColumns {
    fn set(&mut self, vantage: VantageIx, column: usize) {
        let at = usize::from(vantage);
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        self.0[at] = Some(column);
    }

    fn column(&self, vantage: VantageIx) -> Option<usize> {
        self.0.get(usize::from(vantage)).copied().flatten()
    }
}

/// The window of fresh rounds of a target.
#[derive(Debug, Clone, Copy)]
struct FreshnessWindow {
    now: EventTime,
    interval: Micros,
    horizon: EventTime,
    /// Time until which a cache may hold a negative answer for the target's name.
    absence_until: Option<EventTime>,
    /// Whether no probe of the target has ever succeeded.
    never_succeeded: bool,
}

impl FreshnessWindow {
    fn is_fresh(self, round: Round) -> bool {
        round.end(self.interval) > self.horizon
    }

    /// Returns the counts of a round without failures that a cache may explain.
    fn without_cached_failures(self, round: Round, tally: RoundCounts) -> RoundCounts {
        let may_be_cached = self
            .absence_until
            .is_some_and(|until| round.start(self.interval) <= until);
        if may_be_cached {
            tally.without_negative_answers()
        } else {
            tally
        }
    }
}

impl Row {
    fn cells(
        &self,
        topology: &Topology,
        world: &NameRegistry,
        columns: &VantageColumns,
        window: FreshnessWindow,
        counts_success: impl Fn(VantageIx) -> bool,
    ) -> Vec<MatrixCell> {
        let asking = self.planned.iter().chain(self.cells.keys());
        let mut asking: Vec<(usize, VantageIx)> = asking
            .filter_map(|vantage| Some((columns.column(*vantage)?, *vantage)))
            .collect();
        asking.sort_unstable();
        asking.dedup();
        asking
            .into_iter()
            .map(|(column, vantage)| {
                let cell = self.cells.get(&vantage);
                let not_probed = self.not_probed(vantage, cell.and_then(|cell| cell.last), window);
                match cell {
                    Some(cell) => cell.view(column, window, counts_success(vantage), not_probed),
                    None => MatrixCell {
                        vantage: column,
                        state: CellState::Unknown,
                        placement: topology.placement(
                            world.vantages.name(vantage),
                            self.default_front.as_ref(),
                            None,
                        ),
                        last_probe: None,
                        probes: 0,
                        failures: 0,
                        last_failure: None,
                        not_probed,
                    },
                }
            })
            .collect()
    }

    /// Adds a probe that a vantage did not make.
    pub(super) fn add_not_probed(&mut self, vantage: VantageIx, order: ProbeOrder, fault: OwnFault) {
        let newest = self.not_probed.entry(vantage).or_insert((order, fault));
        if newest.0 <= order {
            *newest = (order, fault);
        }
    }

    /// The fault that prevented the newest probe from a vantage, unless a later one, at `last`, was made.
    fn not_probed(
        &self,
        vantage: VantageIx,
        last: Option<ProbeOrder>,
        window: FreshnessWindow,
    ) -> Option<OwnFault> {
        let (order, fault) = self.not_probed.get(&vantage)?;
        let is_newest = last.is_none_or(|last| last < *order);
        (is_newest && window.is_fresh(order.0.round(window.interval))).then_some(*fault)
    }
}

impl Cell {
    fn view(
        &self,
        column: usize,
        window: FreshnessWindow,
        counts_success: bool,
        not_probed: Option<OwnFault>,
    ) -> MatrixCell {
        // Only fresh rounds are evidence; without them a cell is never ok.
        let fresh = self.rounds.iter().filter(|(round, _)| window.is_fresh(*round));
        let tally = fresh.fold(RoundCounts::default(), |sum, (round, tally)| {
            sum.plus(window.without_cached_failures(*round, *tally))
        });
        let state = match (tally.probes, tally.failures) {
            (0, _) => CellState::Unknown,
            (_, 0) if counts_success => CellState::Ok,
            (_, 0) => CellState::Unknown,
            // One lost probe of a prober that has just started is no failing path.
            (1, 1) if !window.never_succeeded => CellState::Flaky,
            (n, f) if n == f => CellState::Failing,
            _ => CellState::Flaky,
        };
        let failure = self
            .failure
            .as_ref()
            .filter(|(round, ..)| window.is_fresh(*round));
        let failure = failure.map(|(.., words)| words);
        MatrixCell {
            vantage: column,
            state,
            placement: self.placement.unwrap_or(parallax_model::Placement::Unknown),
            last_probe: self.last.map(|(at, _)| at.min(window.now)),
            probes: tally.probes,
            failures: tally.failures,
            last_failure: match tally {
                RoundCounts { failures: 1.., .. } => failure.cloned(),
                RoundCounts { stale: 1.., .. } => failure.map(|words| {
                    format!("{words}: outdated, from before the latest change of names or endpoints")
                }),
                _ => None,
            },
            not_probed,
        }
    }
}
