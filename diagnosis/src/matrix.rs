//! What people look at while nothing is judged yet: each target from each vantage, and who speaks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use parallax_model::{
    Channel, EventTime, Front, Micros, Outcome, PodName, Recorded, Round, TargetId, Vantage,
};

use crate::{
    engine::Settings,
    rounds::Rounds,
    routes::default_front,
    topology::Topology,
    view::{CellState, MatrixCell, MatrixRow, VantageState, VantageView},
};

/// Rounds shown in a cell.
const SHOWN: usize = 3;
/// Fronts remembered per target: a name that resolves to ever new addresses must not grow without end.
const MAX_FRONTS: usize = 16;

#[derive(Debug, Clone, Default)]
struct Shown {
    rounds: VecDeque<(Round, u64, u64)>,
    last: EventTime,
    failure: Option<(Round, EventTime, String)>,
    front: Option<Front>,
    entry: Option<PodName>,
}

#[derive(Debug, Clone, Default)]
struct Row {
    fronts: BTreeSet<Front>,
    ok: bool,
    cells: BTreeMap<Vantage, Shown>,
}

/// One target's newest outcome from one vantage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) vantage: &'a Vantage,
    /// What was connected to.
    pub(crate) front: Front,
    pub(crate) ok: bool,
}

/// The newest outcomes of every target from every vantage.
#[derive(Debug, Default)]
pub(crate) struct Matrix {
    rows: BTreeMap<TargetId, Row>,
    last_seen: BTreeMap<Vantage, EventTime>,
}

impl Matrix {
    /// Takes an observation in as soon as it arrives: failures show at once, though they are judged with their round.
    /// `front` is where it went or would have gone.
    pub(crate) fn take(
        &mut self,
        recorded: &Recorded,
        front: Option<Front>,
        topology: &Topology,
        settings: Settings,
    ) {
        let observation = &recorded.observation;
        let seen = self.last_seen.entry(recorded.vantage.clone()).or_default();
        *seen = (*seen).max(observation.at);
        if !topology.targets().contains_key(&observation.target) {
            return;
        }
        let row = self.rows.entry(observation.target.clone()).or_default();
        row.ok |= matches!(observation.outcome, Outcome::Ok { .. });
        let shown_channel = matches!(observation.channel, Channel::Vip | Channel::Dns);
        if !shown_channel || matches!(observation.outcome, Outcome::NotAsked { .. }) {
            return;
        }
        if let Some(front) = observation.front
            && row.fronts.len() < MAX_FRONTS
        {
            row.fronts.insert(front);
        }
        let cell = row.cells.entry(recorded.vantage.clone()).or_default();
        let round = observation.at.round(settings.interval);
        let failed = u64::from(observation.outcome.is_failure());
        if let Some(entry) = cell.rounds.iter_mut().find(|(r, ..)| *r == round) {
            entry.1 += 1;
            entry.2 += failed;
        } else {
            let at = cell.rounds.partition_point(|(r, ..)| *r < round);
            cell.rounds.insert(at, (round, 1, failed));
            while cell.rounds.len() > SHOWN {
                cell.rounds.pop_front();
            }
        }
        if let Outcome::Failed { phase, kind, status } = &observation.outcome
            && cell
                .failure
                .as_ref()
                .is_none_or(|(_, at, _)| *at <= observation.at)
        {
            let status = status.map(|s| format!(" {s}")).unwrap_or_default();
            cell.failure = Some((round, observation.at, format!("{kind}{status} in {phase}")));
        }
        if observation.at >= cell.last {
            cell.last = observation.at;
            cell.front = front;
            cell.entry.clone_from(&observation.entry);
        }
    }

    /// Forgets targets and vantages that the topology no longer has.
    pub(crate) fn retain(&mut self, topology: &Topology, is_known: impl Fn(&Vantage) -> bool) {
        self.rows
            .retain(|target, _| topology.targets().contains_key(target));
        for row in self.rows.values_mut() {
            row.cells.retain(|vantage, _| is_known(vantage));
        }
        self.last_seen.retain(|vantage, _| is_known(vantage));
    }

    /// Targets that were seen to connect to a front.
    pub(crate) fn targets_of(&self, front: &Front) -> impl Iterator<Item = &TargetId> {
        self.rows
            .iter()
            .filter(move |(_, row)| row.fronts.contains(front))
            .map(|(id, _)| id)
    }

    /// The newest outcome of each target from each vantage as a user would go, where it is fresh.
    pub(crate) fn seen(&self, now: EventTime, settings: Settings) -> impl Iterator<Item = Seen<'_>> {
        let horizon = now.minus(Rounds::patience(settings));
        self.rows.values().flat_map(move |row| {
            row.cells.iter().filter_map(move |(vantage, shown)| {
                let (round, probes, failures) = shown.rounds.back().copied()?;
                (round.end(settings.interval) > horizon && probes > 0).then_some(Seen {
                    vantage,
                    front: shown.front?,
                    ok: failures == 0,
                })
            })
        })
    }

    /// Whether a target ever succeeded on any channel.
    pub(crate) fn ever_ok(&self, target: &TargetId) -> bool {
        self.rows.get(target).is_some_and(|row| row.ok)
    }

    pub(crate) fn vantages(
        &self,
        known: &BTreeSet<Vantage>,
        now: EventTime,
        settings: Settings,
    ) -> Vec<VantageView> {
        known
            .iter()
            .chain(self.last_seen.keys().filter(|v| !known.contains(v)))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .map(|vantage| {
                let last_seen = self.last_seen.get(vantage).copied();
                let state = match last_seen {
                    None => VantageState::Waiting,
                    Some(at) if now - at > Rounds::patience(settings) => VantageState::Silent,
                    Some(_) => VantageState::Reporting,
                };
                VantageView {
                    vantage: vantage.clone(),
                    last_seen,
                    state,
                }
            })
            .collect()
    }

    pub(crate) fn rows(
        &self,
        topology: &Topology,
        vantages: &[VantageView],
        now: EventTime,
        settings: Settings,
    ) -> Vec<MatrixRow> {
        topology
            .targets()
            .iter()
            .map(|(id, placed)| {
                let row = self.rows.get(id);
                // Once a row: it has a cell for every vantage.
                let usual = default_front(topology, id);
                let interval = placed
                    .target
                    .interval
                    .unwrap_or(settings.interval)
                    .max(settings.interval);
                MatrixRow {
                    target: id.clone(),
                    fronts: row
                        .map(|r| r.fronts.iter().copied().collect())
                        .unwrap_or_default(),
                    never_ok: row.is_some_and(|r| !r.ok),
                    cells: vantages
                        .iter()
                        .map(|v| {
                            let shown = row.and_then(|r| r.cells.get(&v.vantage));
                            let front = shown.and_then(|s| s.front).or(usual);
                            cell(topology, &v.vantage, shown, front, now, settings, interval)
                        })
                        .collect(),
                }
            })
            .collect()
    }
}

fn cell(
    topology: &Topology,
    vantage: &Vantage,
    shown: Option<&Shown>,
    front: Option<Front>,
    now: EventTime,
    settings: Settings,
    interval: Micros,
) -> MatrixCell {
    let entry = shown.and_then(|s| s.entry.as_ref());
    let placement = topology.placement(vantage, front.as_ref(), entry);
    // Only what is fresh is evidence; never ok without it.
    let horizon = now.minus(Rounds::patience(Settings { interval, ..settings }));
    let fresh = |round: Round| round.end(settings.interval) > horizon;
    let (mut probes, mut failures) = (0, 0);
    for (_, n, f) in shown
        .iter()
        .flat_map(|s| s.rounds.iter())
        .filter(|(round, ..)| fresh(*round))
    {
        probes += n;
        failures += f;
    }
    let state = match (probes, failures) {
        (0, _) => CellState::Unknown,
        (_, 0) => CellState::Ok,
        (n, f) if n == f => CellState::Failing,
        _ => CellState::Flaky,
    };
    MatrixCell {
        state,
        placement,
        last: shown.map(|s| s.last),
        probes,
        failures,
        failure: shown
            .and_then(|s| s.failure.as_ref())
            .filter(|(round, ..)| failures > 0 && fresh(*round))
            .map(|(_, _, words)| words.clone()),
    }
}
