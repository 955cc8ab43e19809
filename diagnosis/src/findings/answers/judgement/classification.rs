//! Classifies the answers of one resolver at one vantage over a window of rounds.

use std::{borrow::Cow, collections::BTreeMap, net::IpAddr, sync::Arc};

use parallax_model::{EventTime, Micros, Round, Vantage};

use super::ClassifiedAnswers;
use crate::findings::answers::{
    AnswerSource, FormerAnswer,
    address_kind::{self, AddressKind, KnownAddresses, NamedServices},
    resolver_answers::{RecentRounds, RoundAnswers},
};

/// Maximum number of distinct answers per name whose kind is cached.
const MAX_CACHED_KINDS: usize = 16;

/// Cache of the kinds of answers for one name; most vantages get the same answer.
pub(super) struct AnswerKinds<'n, 'a> {
    pub(super) own: &'n NamedServices,
    pub(super) known: &'n KnownAddresses,
    pub(super) former: &'n BTreeMap<IpAddr, FormerAnswer>,
    /// Addresses that Services lost before this time are not known.
    pub(super) changes_known_since: Option<EventTime>,
    pub(super) seen: Vec<(&'a Arc<RoundAnswers>, Arc<AddressKind>)>,
}

impl<'a> AnswerKinds<'_, 'a> {
    pub(super) fn of(&mut self, answers: &'a Arc<RoundAnswers>) -> Arc<AddressKind> {
        if let Some((_, nature)) = self.seen.iter().find(|(seen, _)| Arc::ptr_eq(seen, answers)) {
            return Arc::clone(nature);
        }
        let nature = Arc::new(address_kind::of(answers, self.own, self.known, self.former));
        if self.seen.len() < MAX_CACHED_KINDS {
            self.seen.push((answers, Arc::clone(&nature)));
        }
        nature
    }
}

pub(super) fn classify<'a>(
    asking: &'a AnswerSource,
    vantage: &'a Vantage,
    recent: &'a RecentRounds,
    interval: Micros,
    natures: &mut AnswerKinds<'_, 'a>,
) -> Option<ClassifiedAnswers<'a>> {
    let allowance = recent.cache_lifetime.allowance(interval);
    // A cached answer from before a change is not a change of kind. A Service may also have lost an unknown address before
    // changes were known.
    let (is_service, known_since) = (natures.own.is_known(), natures.changes_known_since);
    let cached = |nature: &AddressKind, round: Option<Round>| {
        let lost = match nature {
            AddressKind::Former(_, _, until) => Some(*until),
            AddressKind::UnknownPrivate(_) if is_service => known_since,
            _ => None,
        };
        let (Some(lost), Some(round)) = (lost, round) else {
            return false;
        };
        allowance.is_none_or(|allowance| round.start(interval) <= lost.plus(allowance))
    };
    let sort = |nature: &AddressKind, round| {
        if cached(nature, round) {
            AddressKind::INSIDE
        } else {
            nature.group()
        }
    };
    let mut runs = recent.runs();
    let newest = runs.next()?;
    let last = recent.last();
    let mut nature = natures.of(&newest.answer);
    let is_cached = cached(&nature, last);
    let first_sort = sort(&nature, last);
    let mut union = Cow::Borrowed(&newest.answer.addresses);
    let (mut changes, mut kept, mut broken) = (0, newest.rounds, false);
    let (mut later, mut older) = (first_sort, newest.rounds);
    for run in runs {
        let this = natures.of(&run.answer);
        let this_round = recent.round_before(older);
        let this_sort = sort(&this, this_round);
        older += run.rounds;
        changes += usize::from(later != this_sort);
        later = this_sort;
        broken |= first_sort != this_sort;
        if !broken {
            union.to_mut().extend(run.answer.addresses.iter().copied());
            kept += run.rounds;
            // A former address, seen before the change, must not become the worst kind of the window, nor a cached one.
            let is_former = matches!(*this, AddressKind::Former(..));
            let is_excused = !is_former && cached(&this, this_round);
            if !is_excused && (!is_former || matches!(*nature, AddressKind::Former(..))) {
                nature = nature.max(this);
            }
        }
    }
    Some(ClassifiedAnswers {
        source: asking,
        vantage,
        rounds: recent,
        kind: nature,
        union,
        cached: is_cached,
        changes,
        stable_rounds: kept,
        since: recent.round_before(kept - 1)?,
    })
}
