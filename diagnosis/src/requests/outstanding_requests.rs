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
    inference::judgement_unit::JudgementUnit,
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
    pub(crate) fn from_cell(key: &CellKey, front: Option<Front>) -> Self {
        let chosen = is_through_front(key.channel);
        Self {
            channel: key.channel,
            client: key.client,
            dest: if chosen { Destination::Unknown } else { key.dest },
            front: front.filter(|_| chosen),
        }
    }

    fn from_row(row: &Row, routes: &Routes) -> Option<Self> {
        let key = CellKey {
            channel: row.channel,
            client: row.client,
            dest: row.planned_destination(routes)?,
        };
        Some(Self::from_cell(&key, row.front(routes)))
    }
}

/// A probe request with the state of its execution.
#[derive(Debug, Clone)]
pub(super) struct OutstandingRequest {
    pub(super) request: ProbeRequest,
    pub(super) unit: JudgementUnit,
    pub(super) route: ProbeRoute,
    pub(super) requested_in: Round,
    pub(super) answered: bool,
}

/// Identifies a request: the vantage and the assignment.
pub(super) type RequestId = (Vantage, AssignmentId);

impl OutstandingRequest {
    pub(super) fn id(&self) -> RequestId {
        (self.request.vantage.clone(), self.request.id.clone())
    }
}

/// All probe requests of a mesh.
#[derive(Debug, Default)]
pub(crate) struct OutstandingRequests {
    pub(super) outstanding: Vec<OutstandingRequest>,
    /// Requests that are new or repeated since the last judged round. A replay prints one line for each.
    pub(super) new_probe_requests: Vec<ProbeRequest>,
    pub(super) probe_requests: Vec<ProbeRequest>,
    /// The probes that each subject proposes after this round.
    pub(super) proposals: BTreeMap<JudgementUnit, ProbeRequests>,
    /// Requests not to be repeated before this round: unanswered ones, and those reported separately from the
    /// evidence.
    pub(super) not_before: BTreeMap<RequestId, Round>,
    /// Number of base plan probes in the last round.
    pub(super) base_probes: usize,
    /// Last round in which each vantage reported.
    last_report: BTreeMap<VantageIx, Round>,
    /// Cells of rounds with requested probes, computed without those probes.
    cells_without_requests: BTreeMap<CellBlock, BTreeMap<Round, ClosedCells>>,
    separate_results: BTreeMap<JudgementUnit, Vec<String>>,
}

/// Rounds of `without` that are kept: the longest window at the usual interval.
const RETENTION_ROUNDS: i64 = 120;
/// Rounds without a report after which a vantage gets no more requests.
const SILENCE_ROUNDS: i64 = 3;
/// Maximum number of separate results kept per subject.
const MAX_SEPARATE_RESULTS: usize = 6;

impl OutstandingRequests {
    /// Returns all requests, by vantage and id.
    pub(crate) fn probe_requests(&self) -> &[ProbeRequest] {
        &self.probe_requests
    }

    /// Returns the requests that were new in the last round.
    pub(crate) fn new_probe_requests(&self) -> &[ProbeRequest] {
        &self.new_probe_requests
    }

    /// Processes the results in a round: removes results that are reported separately from the evidence, and
    /// returns for each remaining probe whether it was requested.
    pub(crate) fn process_results(
        &mut self,
        round: Round,
        rows: &mut Vec<Row>,
        (routes, world): (&Routes, &NameRegistry),
        folded: &RoundFold,
    ) -> Vec<bool> {
        self.new_probe_requests.clear();
        self.proposals.clear();
        for rows in rows.chunk_by(|a, b| a.client == b.client) {
            self.last_report.insert(rows[0].client, round);
        }
        self.last_report
            .extend(folded.clients().map(|client| (client, round)));
        self.last_report
            .retain(|_, reported| round.0 - reported.0 < SILENCE_ROUNDS);
        rows.retain(|row| !self.take_separate_result(row));
        let requested: Vec<bool> = rows
            .iter()
            .map(|row| self.match_request(row, routes, world))
            .collect();
        self.base_probes = folded.probes() + requested.iter().filter(|requested| !**requested).count();
        requested
    }

    /// Returns the vantages that reported recently; only these get requests.
    pub(crate) fn reporting_vantages(&self) -> BTreeSet<VantageIx> {
        self.last_report.keys().copied().collect()
    }

    /// Reports whether a probe answers a request, and marks the request. Probes with an assignment id are matched
    /// by id. A recording without ids is matched by path, each request once.
    fn match_request(&mut self, row: &Row, routes: &Routes, world: &NameRegistry) -> bool {
        if row.has_assignment {
            let Some(id) = row.requested() else { return false };
            let vantage = world.vantages.name(row.client);
            for live in &mut self.outstanding {
                live.answered |= live.request.vantage == *vantage && live.request.id == *id;
            }
            return true;
        }
        if self.outstanding.is_empty() {
            return false;
        }
        let Some(spot) = ProbeRoute::from_row(row, routes) else {
            return false;
        };
        let open = self
            .outstanding
            .iter_mut()
            .find(|live| !live.answered && live.route == spot && live.request.variant == ProbeVariant::Plain);
        open.map(|live| live.answered = true).is_some()
    }

    /// Records the result of a requested probe that is not ordinary evidence.
    fn take_separate_result(&mut self, row: &Row) -> bool {
        let (Some(recorded), Some(id)) = (
            &row.full_observation,
            row.requested().filter(|id| is_separate(id)),
        ) else {
            return false;
        };
        let observation = &recorded.observation;
        let found = self
            .outstanding
            .iter_mut()
            .find(|live| live.request.vantage == recorded.vantage && live.request.id == *id);
        if let Some(live) = found {
            live.answered = true;
            let came = match &observation.outcome {
                Outcome::Ok { .. } => "passes".to_owned(),
                Outcome::Failed { phase, kind, .. } => format!("fails in {phase} ({})", kind.description()),
                Outcome::NotProbed { .. } => return true,
            };
            let line = format!("follow-up probe {}: {came}", live.request);
            let lines = self.separate_results.entry(live.unit.clone()).or_default();
            lines.retain(|other| *other != line);
            lines.push(line);
            if lines.len() > MAX_SEPARATE_RESULTS {
                lines.remove(0);
            }
        }
        true
    }

    /// Returns the results of a subject that are reported separately from its evidence.
    pub(crate) fn separate_results(&self, unit: &JudgementUnit) -> Vec<String> {
        self.separate_results.get(unit).cloned().unwrap_or_default()
    }

    /// Returns the number of subjects with proposed probes.
    pub(crate) fn subjects_with_proposals(&self) -> usize {
        self.proposals.len()
    }

    /// Stores the proposed probes of a subject for this round.
    pub(crate) fn set_proposals(&mut self, unit: &JudgementUnit, requests: ProbeRequests) {
        self.proposals.insert(unit.clone(), requests);
    }

    /// Drops the requests and separate results of a healthy subject.
    pub(crate) fn drop_subject(&mut self, unit: &JudgementUnit) {
        self.outstanding.retain(|live| live.unit != *unit);
        self.separate_results.remove(unit);
    }

    /// Stores the cells that the affected blocks would have without the requested probes of the round.
    pub(crate) fn record_without_requests(&mut self, round: Round, base: BTreeMap<CellBlock, ClosedCells>) {
        for (block, cells) in base {
            self.cells_without_requests
                .entry(block)
                .or_default()
                .insert(round, cells);
        }
        for rounds in self.cells_without_requests.values_mut() {
            *rounds = rounds.split_off(&Round(round.0 - RETENTION_ROUNDS));
        }
        self.cells_without_requests.retain(|_, rounds| !rounds.is_empty());
    }

    /// Returns the cells of a block without requested probes; `None` if the round had none.
    pub(crate) fn without_requests(&self, block: &CellBlock, round: Round) -> Option<&ClosedCells> {
        self.cells_without_requests.get(block)?.get(&round)
    }

    /// Drops the stored cells of a block that is reset.
    pub(crate) fn reset_block(&mut self, block: &CellBlock) {
        self.cells_without_requests.remove(block);
    }
}

/// First character of the last id part of requests reported separately from the evidence. Not valid in Kubernetes
/// names.
pub(crate) const SEPARATE_MARKER: char = '!';

/// Reports whether the result of an assignment is reported separately from the evidence.
pub(crate) fn is_separate(id: &AssignmentId) -> bool {
    id.is_requested()
        && id
            .as_str()
            .rsplit('|')
            .next()
            .is_some_and(|last| last.starts_with(SEPARATE_MARKER))
}
