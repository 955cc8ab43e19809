//! Outstanding probe requests and their results.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{AssignmentId, Channel, Front, Outcome, Round, Vantage};

use super::{ProbeRequest, ProbeVariant, choice::ProbeRequests};
use crate::{
    evidence::{
        block::CellBlock,
        cells::{CellKey, ClosedCells, Destination, is_through_front},
        fold::RoundFold,
        routes::Routes,
        row::Row,
    },
    ids::{NameRegistry, VantageIx},
    inference::unit::JudgementUnit,
};

/// The path of a requested probe. The front is part of it only if it selects the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProbeRoute {
    channel: Channel,
    client: VantageIx,
    dest: Destination,
    front: Option<Front>,
}

impl ProbeRoute {
    pub(crate) fn of(key: &CellKey, front: Option<Front>) -> Self {
        let chosen = is_through_front(key.channel);
        Self {
            channel: key.channel,
            client: key.client,
            dest: if chosen { Destination::Unknown } else { key.dest },
            front: front.filter(|_| chosen),
        }
    }

    fn of_probe(row: &Row, routes: &Routes) -> Option<Self> {
        let key = CellKey {
            channel: row.channel,
            client: row.client,
            dest: row.path(routes)?,
        };
        Some(Self::of(&key, row.front(routes)))
    }
}

/// A probe request with the state of its execution.
#[derive(Debug, Clone)]
pub(super) struct OutstandingRequest {
    pub(super) ask: ProbeRequest,
    pub(super) unit: JudgementUnit,
    pub(super) spot: ProbeRoute,
    pub(super) asked: Round,
    pub(super) answered: bool,
}

/// Identifies a request: the vantage and the assignment.
pub(super) type RequestId = (Vantage, AssignmentId);

impl OutstandingRequest {
    pub(super) fn identity(&self) -> RequestId {
        (self.ask.vantage.clone(), self.ask.id.clone())
    }
}

/// All probe requests of a mesh.
#[derive(Debug, Default)]
pub(crate) struct OutstandingRequests {
    pub(super) live: Vec<OutstandingRequest>,
    /// Requests that are new or repeated since the last judged round. A replay prints one line for each.
    pub(super) fresh: Vec<ProbeRequest>,
    pub(super) asks: Vec<ProbeRequest>,
    /// The probes that each subject proposes after this round.
    pub(super) pleas: BTreeMap<JudgementUnit, ProbeRequests>,
    /// Requests not to be repeated before this round: unanswered ones, and those reported separately from the
    /// evidence.
    pub(super) resting: BTreeMap<RequestId, Round>,
    /// Number of base plan probes in the last round.
    pub(super) base: usize,
    /// Last round in which each vantage reported.
    heard: BTreeMap<VantageIx, Round>,
    /// Cells of rounds with requested probes, computed without those probes.
    without: BTreeMap<CellBlock, BTreeMap<Round, ClosedCells>>,
    asides: BTreeMap<JudgementUnit, Vec<String>>,
}

/// Rounds of `without` that are kept: the longest window at the usual interval.
const REMEMBERED: i64 = 120;
/// Rounds without a report after which a vantage gets no more requests.
const SPEAKING: i64 = 3;
/// Maximum number of separate results kept per subject.
const ASIDES: usize = 6;

impl OutstandingRequests {
    /// Returns all requests, by vantage and id.
    pub(crate) fn asks(&self) -> &[ProbeRequest] {
        &self.asks
    }

    /// Returns the requests that were new in the last round.
    pub(crate) fn fresh(&self) -> &[ProbeRequest] {
        &self.fresh
    }

    /// Processes the results in a round: removes results that are reported separately from the evidence, and
    /// returns for each remaining probe whether it was requested.
    pub(crate) fn hear(
        &mut self,
        round: Round,
        rows: &mut Vec<Row>,
        (routes, world): (&Routes, &NameRegistry),
        folded: &RoundFold,
    ) -> Vec<bool> {
        self.fresh.clear();
        self.pleas.clear();
        for rows in rows.chunk_by(|a, b| a.client == b.client) {
            self.heard.insert(rows[0].client, round);
        }
        self.heard.extend(folded.clients().map(|client| (client, round)));
        self.heard.retain(|_, heard| round.0 - heard.0 < SPEAKING);
        rows.retain(|row| !self.aside(row));
        let asked: Vec<bool> = rows.iter().map(|row| self.answers(row, routes, world)).collect();
        self.base = folded.probes() + asked.iter().filter(|asked| !**asked).count();
        asked
    }

    /// Returns the vantages that reported recently; only these get requests.
    pub(crate) fn speaking(&self) -> BTreeSet<VantageIx> {
        self.heard.keys().copied().collect()
    }

    /// Reports whether a probe answers a request, and marks the request. Probes with an assignment id are matched
    /// by id. A recording without ids is matched by path, each request once.
    fn answers(&mut self, row: &Row, routes: &Routes, world: &NameRegistry) -> bool {
        if row.assigned {
            let Some(id) = row.asked() else { return false };
            let vantage = world.vantages.name(row.client);
            for live in &mut self.live {
                live.answered |= live.ask.vantage == *vantage && live.ask.id == *id;
            }
            return true;
        }
        if self.live.is_empty() {
            return false;
        }
        let Some(spot) = ProbeRoute::of_probe(row, routes) else {
            return false;
        };
        let open = self
            .live
            .iter_mut()
            .find(|live| !live.answered && live.spot == spot && live.ask.variant == ProbeVariant::Plain);
        open.map(|live| live.answered = true).is_some()
    }

    /// Records the result of a requested probe that is not ordinary evidence.
    fn aside(&mut self, row: &Row) -> bool {
        let (Some(recorded), Some(id)) = (&row.whole, row.asked().filter(|id| is_aside(id))) else {
            return false;
        };
        let observation = &recorded.observation;
        let found = self
            .live
            .iter_mut()
            .find(|live| live.ask.vantage == recorded.vantage && live.ask.id == *id);
        if let Some(live) = found {
            live.answered = true;
            let came = match &observation.outcome {
                Outcome::Ok { .. } => "passes".to_owned(),
                Outcome::Failed { phase, kind, .. } => format!("fails in {phase} ({})", kind.words()),
                Outcome::NotAsked { .. } => return true,
            };
            let line = format!("follow-up probe {}: {came}", live.ask);
            let lines = self.asides.entry(live.unit.clone()).or_default();
            lines.retain(|other| *other != line);
            lines.push(line);
            if lines.len() > ASIDES {
                lines.remove(0);
            }
        }
        true
    }

    /// Returns the results of a subject that are reported separately from its evidence.
    pub(crate) fn asides(&self, unit: &JudgementUnit) -> Vec<String> {
        self.asides.get(unit).cloned().unwrap_or_default()
    }

    /// Returns the number of subjects with proposed probes.
    pub(crate) fn pleading(&self) -> usize {
        self.pleas.len()
    }

    /// Stores the proposed probes of a subject for this round.
    pub(crate) fn plead(&mut self, unit: &JudgementUnit, plea: ProbeRequests) {
        self.pleas.insert(unit.clone(), plea);
    }

    /// Drops the requests and separate results of a healthy subject.
    pub(crate) fn forget(&mut self, unit: &JudgementUnit) {
        self.live.retain(|live| live.unit != *unit);
        self.asides.remove(unit);
    }

    /// Stores the cells that the affected blocks would have without the requested probes of the round.
    pub(crate) fn remember(&mut self, round: Round, base: BTreeMap<CellBlock, ClosedCells>) {
        for (block, cells) in base {
            self.without.entry(block).or_default().insert(round, cells);
        }
        for rounds in self.without.values_mut() {
            *rounds = rounds.split_off(&Round(round.0 - REMEMBERED));
        }
        self.without.retain(|_, rounds| !rounds.is_empty());
    }

    /// Returns the cells of a block without requested probes; `None` if the round had none.
    pub(crate) fn unasked(&self, block: &CellBlock, round: Round) -> Option<&ClosedCells> {
        self.without.get(block)?.get(&round)
    }

    /// Drops the stored cells of a block that is reset.
    pub(crate) fn clear(&mut self, block: &CellBlock) {
        self.without.remove(block);
    }
}

/// First character of the last id part of requests reported separately from the evidence. Not valid in Kubernetes
/// names.
pub(crate) const ASIDE: char = '!';

/// Reports whether the result of an assignment is reported separately from the evidence.
pub(crate) fn is_aside(id: &AssignmentId) -> bool {
    id.is_asked()
        && id
            .as_str()
            .rsplit('|')
            .next()
            .is_some_and(|last| last.starts_with(ASIDE))
}
