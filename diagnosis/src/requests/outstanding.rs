//! What is asked for at present, and what came back.

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

/// A probe's path as far as a question is concerned: through which front matters only where it chooses the endpoint.
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

/// An ask with what the engine knows of it.
#[derive(Debug, Clone)]
pub(super) struct OutstandingRequest {
    pub(super) ask: ProbeRequest,
    pub(super) unit: JudgementUnit,
    pub(super) spot: ProbeRoute,
    pub(super) asked: Round,
    pub(super) answered: bool,
}

/// An ask is told apart from others by who makes it and by its assignment.
pub(super) type RequestId = (Vantage, AssignmentId);

impl OutstandingRequest {
    pub(super) fn identity(&self) -> RequestId {
        (self.ask.vantage.clone(), self.ask.id.clone())
    }
}

/// All asks of a mesh.
#[derive(Debug, Default)]
pub(crate) struct OutstandingRequests {
    pub(super) live: Vec<OutstandingRequest>,
    /// Those that are new, or asked again, since the last judged round: one line of a replay each.
    pub(super) fresh: Vec<ProbeRequest>,
    pub(super) asks: Vec<ProbeRequest>,
    /// What each subject would like to know after this round.
    pub(super) pleas: BTreeMap<JudgementUnit, ProbeRequests>,
    /// Nobody answered, or the answer stands and repeats nothing: not asked for again before this round.
    pub(super) resting: BTreeMap<RequestId, Round>,
    /// Probes of the base plan in the last round.
    pub(super) base: usize,
    /// When a vantage last reported.
    heard: BTreeMap<VantageIx, Round>,
    /// Cells of rounds with asked probes, as they would be without them.
    without: BTreeMap<CellBlock, BTreeMap<Round, ClosedCells>>,
    asides: BTreeMap<JudgementUnit, Vec<String>>,
}

/// Rounds of which it is remembered what they would have shown unasked: the longest window at the usual interval.
const REMEMBERED: i64 = 120;
/// Rounds without a word after which nobody is asked any more.
const SPEAKING: i64 = 3;
/// Answers beside the evidence that are kept of a subject.
const ASIDES: usize = 6;

impl OutstandingRequests {
    /// Everything that is asked for, by vantage and id.
    pub(crate) fn asks(&self) -> &[ProbeRequest] {
        &self.asks
    }

    /// What was asked for with the last round.
    pub(crate) fn fresh(&self) -> &[ProbeRequest] {
        &self.fresh
    }

    /// Takes the answers out of a round: splits its probes into base and asked, and keeps what stands beside the
    /// evidence. Returns of each probe whether it was asked for.
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

    /// Vantages that reported lately: only these can be asked.
    pub(crate) fn speaking(&self) -> BTreeSet<VantageIx> {
        self.heard.keys().copied().collect()
    }

    /// Whether a probe answers an ask. One that says which assignment it belongs to is believed; a recording without
    /// such words is held against what is asked for, once each.
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

    /// Keeps the answer of a probe that is no evidence like the others.
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
            let line = format!("asked {}: {came}", live.ask);
            let lines = self.asides.entry(live.unit.clone()).or_default();
            lines.retain(|other| *other != line);
            lines.push(line);
            if lines.len() > ASIDES {
                lines.remove(0);
            }
        }
        true
    }

    /// Answers that stand beside a subject's evidence.
    pub(crate) fn asides(&self, unit: &JudgementUnit) -> Vec<String> {
        self.asides.get(unit).cloned().unwrap_or_default()
    }

    /// Subjects that have said what they would like to know.
    pub(crate) fn pleading(&self) -> usize {
        self.pleas.len()
    }

    /// A subject's wishes after a round.
    pub(crate) fn plead(&mut self, unit: &JudgementUnit, plea: ProbeRequests) {
        self.pleas.insert(unit.clone(), plea);
    }

    /// A subject is well: nothing is asked for it any more.
    pub(crate) fn forget(&mut self, unit: &JudgementUnit) {
        self.live.retain(|live| live.unit != *unit);
        self.asides.remove(unit);
    }

    /// Remembers what the blocks that asked probes belong to would have shown in a round without them.
    pub(crate) fn remember(&mut self, round: Round, base: BTreeMap<CellBlock, ClosedCells>) {
        for (block, cells) in base {
            self.without.entry(block).or_default().insert(round, cells);
        }
        for rounds in self.without.values_mut() {
            *rounds = rounds.split_off(&Round(round.0 - REMEMBERED));
        }
        self.without.retain(|_, rounds| !rounds.is_empty());
    }

    /// The cells of a block in a round as they would be without asked probes; nothing where none was asked.
    pub(crate) fn unasked(&self, block: &CellBlock, round: Round) -> Option<&ClosedCells> {
        self.without.get(block)?.get(&round)
    }

    /// A block starts over.
    pub(crate) fn clear(&mut self, block: &CellBlock) {
        self.without.remove(block);
    }
}

/// How the last part of the id begins where the answer stands beside the evidence. No name of Kubernetes holds it.
pub(crate) const ASIDE: char = '!';

/// Whether an assignment's answer stands beside the evidence.
pub(crate) fn is_aside(id: &AssignmentId) -> bool {
    id.is_asked()
        && id
            .as_str()
            .rsplit('|')
            .next()
            .is_some_and(|last| last.starts_with(ASIDE))
}
