//! Rounds, the unit of judgement. A round is closed once and folded in sorted order; later observations are kept as
//! history only.

use std::collections::BTreeMap;

use parallax_model::{EventTime, Incarnation, Micros, Recorded, ReportSeq, Round, hash};

use super::{row::Row, sequences::SequenceSet};
use crate::{
    ids::{NameRegistry, VantageIx},
    settings::Settings,
};

/// Maximum number of observations in open rounds; a mesh of five thousand nodes sends a third of this in a round of
/// ten seconds.
const MAX_BUFFERED: usize = 1_000_000;
/// Maximum number of observations of one vantage in open rounds: ten probes each of two thousand targets.
const MAX_BUFFERED_PER_VANTAGE: usize = 20_000;
/// New names that a vantage may introduce at once: endpoints, hosts and failures that nobody has reported before. Names are
/// kept for as long as the process runs.
const NEW_NAME_BURST: usize = 8_192;
/// New names that a vantage may introduce in each further round: the Pods of a node are replaced more slowly.
const NEW_NAMES_PER_ROUND: usize = 16;
/// A start further ahead than this is a broken clock.
const MAX_AHEAD: Micros = Micros::from_secs(3600);
/// Slack beyond the longest timeout before a round closes by time alone.
const GRACE: Micros = Micros::from_secs(1);
/// Closed rounds whose sequence numbers are remembered: a resent report may belong to the next round.
const SEQUENCE_HISTORY_ROUNDS: i64 = 3;

/// Why an observation is not added to a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    Late,
    Duplicate,
    Implausible,
    /// The vantage has used up its share of the buffer or of new names.
    OverBudget,
}

/// State of one vantage, in one place so that an observation needs one lookup: five thousand vantages report a
/// hundred thousand observations in a round.
#[derive(Debug, Default)]
struct VantageProgress {
    last_report: Option<LastReport>,
    /// The incarnation of its newest observation, and when that started.
    incarnation: Option<(EventTime, IncarnationHash)>,
    /// Received sequence numbers of each incarnation, by round.
    received: BTreeMap<Incarnation, BTreeMap<Round, SequenceSet>>,
    /// Its rows in open rounds.
    pending: BTreeMap<Round, Vec<(RowOrder, PendingRow)>>,
    /// The last round that is complete for this vantage.
    complete_round: Option<Round>,
    /// How much of [`NEW_NAME_BURST`] is used up.
    new_names: usize,
}

impl VantageProgress {
    /// Returns the number of its rows in open rounds.
    fn buffered(&self) -> usize {
        self.pending.values().map(Vec::len).sum()
    }
}

/// Hash of an [`Incarnation`], to compare two of one vantage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IncarnationHash(u64);

/// Sort key of a row within its vantage. Two incarnations may use the same sequence number at the same time.
type RowOrder = (EventTime, ReportSeq, u64);

/// An observation of an open round.
#[derive(Debug)]
pub(crate) enum PendingRow {
    /// All its names are interned.
    Row(Row),
    /// One of its names is new; it is interned when the round closes, in the order of the fold.
    NewName(VantageIx, Box<Recorded>),
}

#[derive(Debug, Clone, Copy)]
struct LastReport {
    last: EventTime,
    /// Everything started before this has been reported; `None` for senders without this information.
    complete: Option<EventTime>,
}

impl LastReport {
    fn update(report: &mut Option<Self>, at: EventTime, complete: Option<EventTime>) {
        let report = report.get_or_insert(Self {
            last: at,
            complete: None,
        });
        report.last = report.last.max(at);
        report.complete = report.complete.max(complete);
    }
}

/// Open rounds.
#[derive(Debug)]
pub(crate) struct OpenRounds {
    settings: Settings,
    /// Open rounds with their number of observations.
    open: BTreeMap<Round, usize>,
    buffered: usize,
    vantages: BTreeMap<VantageIx, VantageProgress>,
    now: Option<EventTime>,
    last_judged: Option<Round>,
}

impl OpenRounds {
    pub(crate) const fn new(settings: Settings) -> Self {
        Self {
            settings,
            open: BTreeMap::new(),
            buffered: 0,
            vantages: BTreeMap::new(),
            now: None,
            last_judged: None,
        }
    }

    /// Sets the longest probe timeout from now on.
    pub(crate) const fn set_timeout(&mut self, timeout: Micros) {
        self.settings.timeout = timeout;
    }

    /// Divides time into rounds of another length. Open rounds are dropped, and probes started before the end of the
    /// round that contains `at` are late. Received sequence numbers stay recorded.
    pub(crate) fn change_interval(&mut self, settings: Settings, at: EventTime) {
        self.settings = settings;
        self.open.clear();
        self.buffered = 0;
        let current = at.round(settings.interval);
        self.last_judged = Some(current);
        for sender in self.vantages.values_mut() {
            sender.pending.clear();
            sender.complete_round = None;
            for taken in sender.received.values_mut() {
                let mut all = SequenceSet::default();
                for seqs in taken.values() {
                    all.merge(seqs);
                }
                *taken = BTreeMap::from([(current, all)]);
            }
        }
    }

    /// The latest time of which the rounds know; `None` before the first judgement.
    pub(crate) const fn now(&self) -> Option<EventTime> {
        self.now
    }

    /// The last closed round.
    pub(crate) const fn last_judged(&self) -> Option<Round> {
        self.last_judged
    }

    /// How long a vantage may be silent before its last report is no longer evidence.
    pub(crate) const fn silence_timeout(settings: Settings) -> Micros {
        Micros(
            settings
                .interval
                .0
                .saturating_mul(3)
                .saturating_add(settings.timeout.0),
        )
    }

    /// Adds an observation to its round; `row` builds its row if it is accepted.
    pub(crate) fn add(
        &mut self,
        vantage: VantageIx,
        recorded: &Recorded,
        row: impl FnOnce() -> Option<Row>,
    ) -> Result<(), RefusalReason> {
        let at = recorded.observation.started;
        let ahead = self.now.is_some_and(|now| at > now.plus(MAX_AHEAD));
        if at.0 < 0 || ahead {
            return Err(RefusalReason::Implausible);
        }
        let round = at.round(self.settings.interval);
        let seq = recorded.observation.seq;
        let is_full = self.buffered >= MAX_BUFFERED;
        let share = MAX_BUFFERED / self.vantages.len().max(1);
        let sender = self.vantages.entry(vantage).or_default();
        let buffered = sender.buffered();
        let taken = sender.received.get_mut(&recorded.incarnation);
        if let Some(taken) = &taken
            && taken.values().any(|seqs| seqs.contains(seq))
        {
            return Err(RefusalReason::Duplicate);
        }
        LastReport::update(&mut sender.last_report, at, None);
        let incarnation = IncarnationHash(hash::fnv1a(&[recorded.incarnation.as_str()]));
        if sender.incarnation.is_none_or(|(newest, _)| at >= newest) {
            sender.incarnation = Some((at, incarnation));
        }
        let over = self.last_judged.max(sender.complete_round);
        if over.is_some_and(|over| round <= over) {
            return Err(RefusalReason::Late);
        }
        // A full buffer still has room for every vantage that uses less than an equal share of it.
        if buffered >= MAX_BUFFERED_PER_VANTAGE || is_full && buffered >= share {
            return Err(RefusalReason::OverBudget);
        }
        let row = row();
        if row.is_none() {
            if sender.new_names >= NEW_NAME_BURST {
                return Err(RefusalReason::OverBudget);
            }
            sender.new_names += 1;
        }
        if let Some(taken) = taken {
            taken.entry(round).or_default().insert(seq);
        } else {
            let taken = sender.received.entry(recorded.incarnation.clone()).or_default();
            taken.entry(round).or_default().insert(seq);
        }
        let waiting = row.map_or_else(
            || PendingRow::NewName(vantage, Box::new(recorded.clone())),
            PendingRow::Row,
        );
        let order = (at, seq, incarnation.0);
        sender.pending.entry(round).or_default().push((order, waiting));
        self.buffered += 1;
        *self.open.entry(round).or_default() += 1;
        Ok(())
    }

    pub(crate) fn progress(&mut self, vantage: VantageIx, complete: EventTime) {
        let ahead = self.now.is_some_and(|now| complete > now.plus(MAX_AHEAD));
        if complete.0 >= 0 && !ahead {
            let sender = self.vantages.entry(vantage).or_default();
            LastReport::update(&mut sender.last_report, complete, Some(complete));
        }
    }

    /// Takes the rows of a vantage out of the oldest open round if the vantage has reported that they are complete.
    /// Returns `None` if one of them is not `plain` or has a name that is not interned.
    pub(crate) fn take_complete(
        &mut self,
        vantage: VantageIx,
        plain: impl Fn(&Row) -> bool,
    ) -> Option<(Round, Vec<Row>)> {
        let (round, count) = self.open.iter_mut().next()?;
        let sender = self.vantages.get_mut(&vantage)?;
        let complete = sender.last_report?.complete?;
        let waiting = sender.pending.get(round)?;
        let ready =
            |(_, waiting): &(RowOrder, PendingRow)| matches!(waiting, PendingRow::Row(row) if plain(row));
        if complete < round.end(self.settings.interval) || !waiting.iter().all(ready) {
            return None;
        }
        let mut waiting = sender.pending.remove(round)?;
        waiting.sort_by_key(|(order, _)| *order);
        *count -= waiting.len();
        self.buffered -= waiting.len();
        sender.complete_round = Some(*round);
        let row = |(_, waiting)| match waiting {
            PendingRow::Row(row) => Some(row),
            PendingRow::NewName(..) => None,
        };
        Some((*round, waiting.into_iter().filter_map(row).collect()))
    }

    /// Time up to which a vantage has reported everything, if it sends this information.
    pub(crate) fn complete_until(&self, vantage: VantageIx) -> Option<EventTime> {
        self.vantages.get(&vantage)?.last_report?.complete
    }

    /// Returns the incarnation of a vantage's newest observation, and when that started.
    pub(crate) fn incarnation(&self, vantage: VantageIx) -> Option<(EventTime, IncarnationHash)> {
        self.vantages.get(&vantage)?.incarnation
    }

    /// Vantages with rows in open rounds.
    pub(crate) fn pending_vantages(&self) -> Vec<VantageIx> {
        let senders = self
            .vantages
            .iter()
            .filter(|(_, sender)| !sender.pending.is_empty());
        senders.map(|(vantage, _)| *vantage).collect()
    }

    /// Removes the next round that is over at `now`: its rows by vantage name, then by time and sequence number.
    pub(crate) fn close_next(
        &mut self,
        now: EventTime,
        world: &NameRegistry,
    ) -> Option<(Round, Vec<PendingRow>)> {
        self.now = self.now.max(Some(now));
        let round = *self.open.keys().next()?;
        if !self.is_over(round, now) {
            return None;
        }
        let count = self.open.remove(&round)?;
        self.buffered -= count;
        let mut clients: Vec<(VantageIx, Vec<(RowOrder, PendingRow)>)> = self
            .vantages
            .iter_mut()
            .filter_map(|(vantage, sender)| Some((*vantage, sender.pending.remove(&round)?)))
            .collect();
        clients.sort_by(|(a, _), (b, _)| world.vantages.name(*a).cmp(world.vantages.name(*b)));
        let mut observations = Vec::with_capacity(count);
        for (_, mut waiting) in clients {
            waiting.sort_by_key(|(order, _)| *order);
            observations.extend(waiting.into_iter().map(|(_, waiting)| waiting));
        }
        self.last_judged = Some(round);
        let horizon = round.start(self.settings.interval).minus(MAX_AHEAD);
        self.vantages.retain(|_, sender| {
            sender.new_names = sender.new_names.saturating_sub(NEW_NAMES_PER_ROUND);
            sender.received.retain(|_, rounds| {
                // Keeps the remembered rounds and later ones.
                *rounds = rounds.split_off(&Round(round.0 - SEQUENCE_HISTORY_ROUNDS + 1));
                !rounds.is_empty()
            });
            sender.last_report = sender.last_report.filter(|report| report.last >= horizon);
            sender.last_report.is_some() || !sender.received.is_empty()
        });
        Some((round, observations))
    }

    /// Reports whether every reporting vantage is past the end, or nothing more can arrive for the round.
    /// Reports whether an open round is over, so that it must be closed.
    pub(crate) fn has_overdue(&self, now: EventTime) -> bool {
        self.open
            .keys()
            .next()
            .is_some_and(|round| self.is_over(*round, now))
    }

    fn is_over(&self, round: Round, now: EventTime) -> bool {
        let end = round.end(self.settings.interval);
        if now >= end.plus(self.settings.timeout).plus(GRACE) {
            return true;
        }
        let silent_since = end.minus(Self::silence_timeout(self.settings));
        let mut speaking = self
            .vantages
            .values()
            .filter_map(|sender| sender.last_report)
            .filter(|report| report.last >= silent_since)
            .peekable();
        speaking.peek().is_some()
            && speaking.all(|report| report.complete.is_some_and(|complete| complete >= end))
    }
}
