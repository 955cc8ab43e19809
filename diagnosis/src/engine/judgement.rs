//! Judges one subject after a round: selects windows, cells and related subjects, and compares the regions.

use std::collections::BTreeSet;

use parallax_model::{Channel, EventTime, Round};

use super::{Engine, on_demand::OnDemandEvidence};
use crate::{
    evidence::{
        block::{CellBlock, EvidenceKind},
        cells::{CellKey, RoundCells},
        ledger::OutcomeSplit,
    },
    inference::{
        judgement::{FailingCells, Judgement, JudgementInput, judge},
        judgement_unit::JudgementUnit,
        likelihood::{Likelihood, RateGrid},
        multiple_comparisons::ResidualDoubt,
        prior::PriorFact,
        window::{CausePeriods, WindowCells},
    },
    regions::{
        Region, RegionKind,
        paths::{QuestionsPerLookup, UnhealthyNodes},
    },
};

/// How much better another number of questions per lookup must fit than the one selected before, in nats. At a low failure rate, eight
/// questions fit as well as fewer at a higher one, and the selected number, with the explanation, would change with every round.
const MIN_QUESTIONS_GAIN: f64 = 1.5;

impl Engine {
    /// Adds the subject's own cells of a round to its change detectors and to the recovery tests of its incidents.
    pub(super) fn update_detectors(&mut self, unit: &JudgementUnit, round: Round) {
        let (own, _) = self.blocks_of(unit);
        let totals = own
            .iter()
            .filter_map(|b| Some(self.evidence.blocks.get(b)?.total(round)));
        let (failures, all) = totals.fold((0, 0), |(f, n), total| (f + total.0, n + total.1));
        let fails = failures > 0;
        let rising = self
            .judgement
            .units
            .get(unit)
            .is_some_and(|state| state.detectors.any_rising());
        let concerned = self.incidents.has_open(unit);
        if !concerned && !self.judgement.investigating.contains_key(unit) {
            let state = self.judgement.units.entry(unit.clone()).or_default();
            state.background.learn(failures, all);
            if !fails && !rising {
                state.background_at_rest = state.background;
            }
        }
        if !fails && !rising && !concerned {
            return;
        }
        let mut cells = RoundCells::new();
        for block in &own {
            if let Some(found) = self.evidence.blocks.get(block).and_then(|ring| ring.at(round)) {
                found.add_to(&mut cells);
            }
        }
        self.judgement
            .units
            .entry(unit.clone())
            .or_default()
            .detectors
            .step(round, &cells);
        if concerned && !self.was_judged(round) {
            let paths = self.subject_paths(unit, &cells);
            self.incidents.add_cells(unit, &cells, &paths);
        }
    }

    pub(super) fn judge_unit(&mut self, unit: &JudgementUnit, round: Round, at: EventTime) {
        let Some(state) = self.judgement.units.get(unit) else {
            return;
        };
        let (own, controls) = self.blocks_of(unit);
        let first = own
            .iter()
            .filter_map(|b| self.evidence.blocks.get(b)?.first())
            .min()
            .unwrap_or(round);
        let floor = state.evidence_from(first);
        let fails = own
            .iter()
            .filter_map(|b| self.evidence.blocks.get(b))
            .any(|ring| ring.fails_since(floor));
        if !state.detectors.any_rising() || !fails {
            self.clear_subject(unit);
            return;
        }
        let windows = state.detectors.windows(floor);
        let start = state.detectors.rising_since().unwrap_or(floor);
        let background = self.background_rate(unit, &own, floor);
        let facts = self.facts_since(unit, start);
        let grid = RateGrid {
            fine: self.endpoints_unknown(&own, &controls, floor),
            dense: self.has_many_failures(&own, floor),
            background,
        };
        let mut likelihood = self
            .judgement
            .likelihoods
            .remove(&grid)
            .unwrap_or_else(|| Likelihood::with_grid(grid));
        let blocks = (own.as_slice(), controls.as_slice());
        let mut judged = self.judge_windows(unit, blocks, (windows, floor), &facts, &mut likelihood);
        if let Some((judgement, _)) = &mut judged
            && let Some(fresh) = self.expire_evidence(unit, judgement, blocks)
        {
            let fails = own.iter().filter_map(|b| self.evidence.blocks.get(b));
            let mut fails = fails.map(|ring| ring.fails_since(fresh));
            judged = if fails.any(|fails| fails) {
                self.judge_windows(
                    unit,
                    blocks,
                    (BTreeSet::from([fresh]), fresh),
                    &facts,
                    &mut likelihood,
                )
            } else {
                None
            };
        }
        if let Some((judgement, failing)) = judged {
            // Follow-up probes of a slow path add nothing to the planned ones.
            let inquiry = if unit.is_latency() {
                OnDemandEvidence::default()
            } else {
                self.request_probes(unit, &judgement, &failing, &facts, round, &mut likelihood)
            };
            self.conclude(unit, &judgement, &inquiry, &facts, at);
        } else {
            self.clear_subject(unit);
        }
        self.judgement.likelihoods.insert(grid, likelihood);
    }

    /// Clears the state of a subject about which nothing is open.
    fn clear_subject(&mut self, unit: &JudgementUnit) {
        self.judgement.investigating.remove(unit);
        self.judgement.tentative_causes.remove(unit);
        self.judgement.unexplained.remove(unit);
        self.judgement.pending.remove(unit);
        if let Some(state) = self.judgement.units.get_mut(unit) {
            state.held_since = None;
            state.doubtful_since = None;
        }
        self.outstanding_requests.drop_subject(unit);
        if matches!(unit, JudgementUnit::Dns) {
            self.judgement.questions = QuestionsPerLookup::default();
        }
    }

    /// Judges a subject on the window with the strongest evidence, with evidence from a round on.
    fn judge_windows(
        &mut self,
        unit: &JudgementUnit,
        (own, controls): (&[CellBlock], &[CellBlock]),
        (windows, floor): (BTreeSet<Round>, Round),
        facts: &[PriorFact],
        likelihood: &mut Likelihood,
    ) -> Option<(Judgement, FailingCells)> {
        let spans = self.known_spans(unit);
        let known: Vec<Region> = spans.keys().copied().collect();
        let mut periods = CausePeriods::of_known(spans);
        let mut windows: Vec<(Round, WindowCells)> = windows
            .into_iter()
            .map(|start| (start, self.cells_since((own, controls), start, &periods, false)))
            .collect();
        // Results from before the rise would hide which paths the failures take.
        let rise = self.judgement.units.get(unit);
        let rise = rise.and_then(|state| state.detectors.rising_since());
        let risen = windows
            .iter()
            .find(|(start, _)| rise.is_none_or(|rise| *start >= rise));
        let (start, cells) = risen.or(windows.last())?;
        let mut risen = self.assume_paths(unit, (*start, cells), &known, facts, likelihood);
        // Results from before a fault contradict it, and the whole window begins with the known causes.
        if let Some((start, cells)) = windows.first()
            && !known.is_empty()
        {
            let (start, paths) = (*start, self.subject_paths(unit, &cells.all));
            let onset = self.onset_beside_known((own, &paths), start, &periods.known);
            periods.onset = onset.filter(|onset| *onset > start);
            if periods.onset.is_some() {
                let cells = self.cells_since((own, controls), start, &periods, false);
                windows.push((start, cells));
            }
        }
        let mut cases = Vec::new();
        for (start, cells) in windows {
            let case = risen.take_if(|input| input.start == start);
            cases.push(case.unwrap_or_else(|| self.judgement_input(unit, start, cells, facts, likelihood)));
        }
        let (rounds, failing) = self.failing_cells(own, controls, floor, false);
        let doubt = self.residual_doubt(unit);
        let named = self.incidents.named_together(unit);
        let named_by_any = self.incidents.named_by_any(&named);
        let regions = (known.as_slice(), named.as_slice(), named_by_any.as_slice());
        let judgement = judge(cases, (&rounds, &failing), regions, doubt, likelihood)?;
        Some((judgement, failing))
    }

    /// Selects what fits the subject's evidence best where its paths are not known: how many questions a lookup asks, and
    /// whether balancers avoid nodes that fail. Returns the input of the judgement if a choice was necessary.
    fn assume_paths(
        &mut self,
        unit: &JudgementUnit,
        (start, cells): (Round, &WindowCells),
        known: &[Region],
        facts: &[PriorFact],
        likelihood: &mut Likelihood,
    ) -> Option<JudgementInput> {
        let paths = self.subject_paths(unit, &cells.all);
        let mut scored = |engine: &mut Self, cells: &WindowCells| {
            let input = engine.judgement_input(unit, start, cells.clone(), facts, likelihood);
            (input.comparison().best_score(known, likelihood), input)
        };
        let mut chosen = None;
        if paths.resolver_pods.len() > 1 {
            // Echoes to a node that fails are withheld for a while, and failures beside a failed echo count less: their rate is
            // not that of the questions.
            let failing_echo = |key: &CellKey| {
                let is_name = key.dest.name().is_some();
                !is_name && cells.all.get(key).is_some_and(|counts| counts.failures > 0)
            };
            let selecting = cells.selected(|key| !failing_echo(key));
            let before = self.judgement.questions;
            let mut best = scored(self, &selecting).0 + MIN_QUESTIONS_GAIN;
            let mut fitting = before;
            for questions in QuestionsPerLookup::ALL
                .into_iter()
                .filter(|other| *other != before)
            {
                self.judgement.questions = questions;
                let score = scored(self, &selecting).0;
                if score > best {
                    (best, fitting) = (score, questions);
                }
            }
            self.judgement.questions = fitting;
        }
        let mut clients = cells.all.keys().map(|key| paths.node_of_client(key.client));
        if clients.any(|node| paths.is_balanced_over_nodes(node)) {
            self.assume_unhealthy_nodes(unit, UnhealthyNodes::InPool);
            let used = scored(self, cells);
            self.assume_unhealthy_nodes(unit, UnhealthyNodes::OutOfPool);
            let avoided = scored(self, cells);
            chosen = Some(if avoided.0 > used.0 {
                avoided.1
            } else {
                self.assume_unhealthy_nodes(unit, UnhealthyNodes::InPool);
                used.1
            });
        }
        chosen
    }

    fn assume_unhealthy_nodes(&mut self, unit: &JudgementUnit, assumed: UnhealthyNodes) {
        if let Some(state) = self.judgement.units.get_mut(unit) {
            state.unhealthy_nodes = assumed;
        }
    }

    /// Counts the node addresses that any client connected to; the others are not hypotheses.
    pub(super) fn visited_node_fronts(&self) -> usize {
        let met = |block: &&CellBlock| {
            !block.slow
                && matches!(block.kind, EvidenceKind::Vip(front) if self.cluster.topology.node_serving(&front).is_some())
        };
        self.evidence.blocks.keys().filter(met).count()
    }

    /// Residual doubt for multiple comparisons: fronts and targets are each judged separately.
    pub(crate) fn residual_doubt(&self, unit: &JudgementUnit) -> ResidualDoubt {
        if self.rules.outcome_split == OutcomeSplit::PerPhase && unit.without_latency().is_service() {
            let fronts = self.cluster.topology.fronts().len() + self.evidence.visited_node_fronts;
            ResidualDoubt::for_subjects(fronts + self.cluster.topology.targets().len())
        } else {
            ResidualDoubt::for_subjects(1)
        }
    }

    /// Builds the input of a judgement from a window of the subject's cells.
    pub(super) fn judgement_input(
        &mut self,
        unit: &JudgementUnit,
        start: Round,
        window: WindowCells,
        facts: &[PriorFact],
        likelihood: &mut Likelihood,
    ) -> JudgementInput {
        let cells = &window.all;
        let paths = self.subject_paths(unit, cells);
        let channels: BTreeSet<Channel> = cells.keys().map(|key| key.channel).collect();
        let mut kinds = unit.region_kinds(&paths, &channels);
        if matches!(unit, JudgementUnit::Dns) && self.indicates_query_race(cells, start) {
            // Where one question of two is lost and a repeat answered every time, no Pod hangs.
            kinds.remove(&RegionKind::Backend);
        }
        if self.failing_front(unit, start).is_some() {
            // A lossy way from a zone to an address loses connections, too.
            kinds.insert(RegionKind::ZoneVip);
        }
        let case = JudgementInput::new(unit, start, window, paths, &self.registry, &kinds, facts);
        if unit.without_latency().is_service() {
            // What other subjects have seen before the onset would contradict every cause that they share.
            let pool = self.subject_pool(unit, case.onset(), &case.data.periods().known, likelihood);
            case.with_pool(pool)
        } else {
            case
        }
    }

    fn indicates_query_race(&self, cells: &RoundCells, start: Round) -> bool {
        let clients = cells.keys().map(|key| key.client).collect();
        let view = self
            .evidence
            .resolvers
            .view(&self.cluster.topology, &clients, start);
        view.symptoms.indicates_race()
    }
}
