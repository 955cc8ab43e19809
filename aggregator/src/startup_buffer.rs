//! After a start, requests buffered observations from the probers, and holds back rounds until they have arrived.
//!
//! A round closes only once. If rounds closed before the buffered observations arrive, those would be late, and an
//! incident that began before the start would be opened again with another time and id. Therefore all rounds wait
//! from the first prober with buffered observations until every prober has resent its buffer, but at most
//! [`MAX_HOLD`].

use std::collections::{BTreeMap, BTreeSet};

use parallax_diagnosis::replay::RecordProgress;
use parallax_model::{EventTime, Incarnation, Micros, ReportHeader, Resend, Vantage};

/// Longest time span that probers are requested to resend.
const MAX_RESEND_SPAN: Micros = Micros::from_secs(600);
/// Maximum number of requested observations over all probers; open rounds hold up to a million.
const MAX_RESENT_OBSERVATIONS: u64 = 400_000;
/// Assumed number of assignments of a prober that does not report it.
const ASSUMED_ASSIGNMENTS: u64 = 100;
/// Maximum time that rounds wait, from the first prober with buffered observations.
const MAX_HOLD: Micros = Micros::from_secs(20);
/// Time after the first report from which no prober is requested to resend: rounds have been judged by then.
const OFFER_WINDOW: Micros = Micros::from_secs(20);

/// State of the catch-up after a start.
#[derive(Debug)]
pub(crate) struct StartupBuffer {
    incarnation: Incarnation,
    start: EventTime,
    stage: StartupStage,
}

#[derive(Debug)]
enum StartupStage {
    /// No prober has offered buffered observations yet; with the time of the first report.
    AwaitingOffers(Option<EventTime>),
    /// Rounds are held back.
    Holding(BufferedProber),
    Released,
}

#[derive(Debug)]
struct BufferedProber {
    until: EventTime,
    offers: BTreeMap<(Vantage, Incarnation), BufferOffer>,
    reporting: BTreeSet<Vantage>,
    /// Completeness reported in the meantime, applied at the release.
    progress: BTreeMap<Vantage, EventTime>,
}

/// One prober with observations from before the start.
#[derive(Debug)]
struct BufferOffer {
    /// When its first report was sent, by the prober's clock.
    first_sent: EventTime,
    /// Start of the requested span, by the prober's clock.
    requested_since: EventTime,
    /// Start of the span that the prober can resend, in event time.
    available_since: EventTime,
    complete: bool,
}

/// The end of the wait: rounds may close.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RoundsReleased {
    pub(crate) progress: Vec<RecordProgress>,
    /// Time from which the observations of at least half of the probers are known.
    pub(crate) evidence_since: EventTime,
}

impl StartupBuffer {
    pub(crate) fn new(incarnation: Incarnation, start: EventTime) -> Self {
        Self {
            incarnation,
            start,
            stage: StartupStage::AwaitingOffers(None),
        }
    }

    /// Reports whether rounds are held back.
    pub(crate) const fn is_holding(&self) -> bool {
        matches!(self.stage, StartupStage::Holding(_))
    }

    /// Processes a report's header before its observations are counted, and returns what the prober must resend.
    /// `offset` converts the prober's clock to event time.
    pub(crate) fn process_header(
        &mut self,
        header: &ReportHeader,
        (received, offset): (EventTime, i64),
        (vantages, interval): (impl FnOnce() -> usize, Micros),
    ) -> Option<Resend> {
        let keeps = header
            .oldest_held
            .map(|kept| kept.shifted(offset))
            .filter(|kept| *kept < self.start);
        match (&mut self.stage, keeps) {
            (StartupStage::Released, _) => return None,
            (StartupStage::AwaitingOffers(first), None) => {
                let first = first.get_or_insert(received);
                if received > first.plus(OFFER_WINDOW) {
                    self.stage = StartupStage::Released;
                }
                return None;
            }
            (StartupStage::AwaitingOffers(Some(first)), Some(_)) if received > first.plus(OFFER_WINDOW) => {
                self.stage = StartupStage::Released;
                return None;
            }
            (StartupStage::AwaitingOffers(_), Some(_)) => {
                tracing::info!("requesting observations from before the start from the probers");
                self.stage = StartupStage::Holding(BufferedProber {
                    until: received.plus(MAX_HOLD),
                    offers: BTreeMap::new(),
                    reporting: BTreeSet::new(),
                    progress: BTreeMap::new(),
                });
            }
            (StartupStage::Holding(_), _) => {}
        }
        let StartupStage::Holding(holding) = &mut self.stage else {
            return None;
        };
        holding.reporting.insert(header.vantage.clone());
        let sender = (header.vantage.clone(), header.incarnation.clone());
        let offer = match (holding.offers.get_mut(&sender), keeps) {
            (Some(offer), _) => offer,
            (None, Some(kept)) => {
                let since = self
                    .start
                    .minus(resend_span(vantages(), header.assignments, interval));
                holding.offers.entry(sender).or_insert(BufferOffer {
                    first_sent: header.sent_at,
                    requested_since: since.shifted(-offset),
                    available_since: kept.max(since),
                    complete: false,
                })
            }
            (None, None) => return None,
        };
        // Until everything queued has arrived, the reported completeness is older than the first report.
        offer.complete |= header.resent_for.as_ref() == Some(&self.incarnation)
            && header
                .complete_until
                .is_none_or(|complete| complete >= offer.first_sent);
        (!offer.complete).then(|| Resend {
            incarnation: self.incarnation.clone(),
            since: offer.requested_since,
        })
    }

    /// Stores a vantage's progress while rounds are held back; returns it otherwise.
    pub(crate) fn hold_progress(&mut self, progress: RecordProgress) -> Option<RecordProgress> {
        let StartupStage::Holding(holding) = &mut self.stage else {
            return Some(progress);
        };
        let known = holding
            .progress
            .entry(progress.vantage)
            .or_insert(progress.complete);
        *known = progress.complete.max(*known);
        None
    }

    /// Releases the rounds if everything has arrived or the wait has timed out.
    pub(crate) fn release(
        &mut self,
        now: EventTime,
        expected: impl FnOnce() -> Vec<Vantage>,
    ) -> Option<RoundsReleased> {
        let StartupStage::Holding(holding) = &self.stage else {
            return None;
        };
        let all = holding.offers.values().all(|offer| offer.complete)
            && expected()
                .iter()
                .all(|vantage| holding.reporting.contains(vantage));
        if all || now >= holding.until {
            return self.release_now();
        }
        None
    }

    /// Releases the rounds unconditionally.
    pub(crate) fn release_now(&mut self) -> Option<RoundsReleased> {
        let StartupStage::Holding(holding) = std::mem::replace(&mut self.stage, StartupStage::Released)
        else {
            return None;
        };
        let mut from: Vec<EventTime> = holding
            .offers
            .values()
            .map(|offer| {
                if offer.complete {
                    offer.available_since
                } else {
                    self.start
                }
            })
            .collect();
        from.sort_unstable();
        let (offer, done) = (
            from.len(),
            holding.offers.values().filter(|offer| offer.complete).count(),
        );
        tracing::info!(
            done,
            offer,
            "judging the observations from before and since the start"
        );
        let complete = holding.progress.into_iter();
        Some(RoundsReleased {
            progress: complete
                .map(|(vantage, complete)| RecordProgress { vantage, complete })
                .collect(),
            evidence_since: from.get(offer / 2).copied().unwrap_or(self.start),
        })
    }
}

/// Returns the span that each prober is requested to resend, so that all of them together stay below
/// [`MAX_RESENT_OBSERVATIONS`].
fn resend_span(vantages: usize, assignments: Option<u64>, interval: Micros) -> Micros {
    let each = assignments.unwrap_or(ASSUMED_ASSIGNMENTS).max(1);
    let round = each.saturating_mul(vantages.max(1) as u64);
    Micros(interval.0.saturating_mul(MAX_RESENT_OBSERVATIONS / round)).min(MAX_RESEND_SPAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Micros = Micros::from_secs(1);
    /// Start by the aggregator's clock; the probers' clocks are a thousand seconds behind.
    const START: EventTime = EventTime(2_000_000_000);
    const OFFSET: i64 = 1_000_000_000;

    fn warming() -> StartupBuffer {
        StartupBuffer::new("us".parse().unwrap(), START)
    }

    fn vantage(n: u8) -> Vantage {
        format!("n{n}/pod").parse().unwrap()
    }

    /// Header of a report sent `at` seconds after the start, of a prober that keeps observations from `kept` seconds
    /// before the start.
    fn header(n: u8, at: u64, kept: Option<u64>) -> ReportHeader {
        let sent = START.plus(Micros::from_secs(at)).shifted(-OFFSET);
        ReportHeader {
            v: 1,
            incarnation: format!("life-{n}").parse().unwrap(),
            vantage: vantage(n),
            sent_at: sent,
            complete_until: Some(sent),
            dropped: 0,
            assignments: Some(10),
            oldest_held: kept.map(|kept| START.minus(Micros::from_secs(kept)).shifted(-OFFSET)),
            resent_for: None,
            is_resend: false,
            facts: None,
        }
    }

    fn hear(warming: &mut StartupBuffer, header: &ReportHeader) -> Option<Resend> {
        warming.process_header(header, (header.sent_at.shifted(OFFSET), OFFSET), (|| 2, S))
    }

    fn sent_again(mut header: ReportHeader, complete: u64) -> ReportHeader {
        header.resent_for = Some("us".parse().unwrap());
        header.complete_until = Some(START.plus(Micros::from_secs(complete)).shifted(-OFFSET));
        header
    }

    #[test]
    fn without_buffered_observations_rounds_are_not_held() {
        let mut warming = warming();
        assert_eq!(hear(&mut warming, &header(1, 1, None)), None);
        let mut since = header(2, 2, Some(0));
        since.oldest_held = Some(START.plus(S).shifted(-OFFSET));
        assert_eq!(hear(&mut warming, &since), None);
        assert!(!warming.is_holding());
    }

    #[test]
    fn rounds_wait_until_every_prober_has_resent_its_buffer() {
        let mut warming = warming();
        let expected = || vec![vantage(1), vantage(2)];
        let resend = hear(&mut warming, &header(1, 1, Some(300))).unwrap();
        assert_eq!(resend.since, START.minus(MAX_RESEND_SPAN).shifted(-OFFSET));
        assert!(warming.is_holding());
        let progress = RecordProgress {
            vantage: vantage(1),
            complete: START.plus(S),
        };
        assert_eq!(warming.hold_progress(progress), None, "stored for the release");
        assert!(
            hear(&mut warming, &header(1, 2, Some(300))).is_some(),
            "the prober has not received the request"
        );
        assert!(
            hear(&mut warming, &sent_again(header(1, 3, Some(300)), 0)).is_some(),
            "only half has arrived"
        );
        assert_eq!(hear(&mut warming, &sent_again(header(1, 4, Some(300)), 4)), None);
        assert_eq!(
            warming.release(START.plus(Micros(4)), expected),
            None,
            "the other prober is missing"
        );
        hear(&mut warming, &header(2, 5, Some(200)));
        hear(&mut warming, &sent_again(header(2, 6, Some(200)), 6));
        let released = warming.release(START.plus(Micros(6)), expected).unwrap();
        assert_eq!(released.evidence_since, START.minus(Micros::from_secs(200)));
        assert_eq!(released.progress[0].complete, START.plus(S));
        assert!(!warming.is_holding());
        assert_eq!(
            hear(&mut warming, &header(1, 7, Some(300))),
            None,
            "requested only once"
        );
    }

    #[test]
    fn rounds_wait_at_most_twenty_seconds() {
        let mut warming = warming();
        hear(&mut warming, &header(1, 1, Some(300)));
        let at = |seconds| START.plus(Micros::from_secs(seconds));
        assert_eq!(warming.release(at(20), || vec![vantage(1)]), None);
        let released = warming.release(at(21), || vec![vantage(1)]).unwrap();
        assert_eq!(
            released.evidence_since, START,
            "observations that did not arrive are unknown"
        );
    }

    #[test]
    fn a_prober_without_a_buffer_is_not_waited_for() {
        let mut warming = warming();
        hear(&mut warming, &header(1, 1, Some(300)));
        assert_eq!(hear(&mut warming, &header(2, 1, None)), None);
        hear(&mut warming, &sent_again(header(1, 2, Some(300)), 2));
        assert!(
            warming
                .release(START.plus(Micros(3)), || vec![vantage(1), vantage(2)])
                .is_some()
        );
    }

    #[test]
    fn the_resend_span_shrinks_in_a_large_mesh() {
        assert_eq!(resend_span(12, Some(60), Micros::from_secs(5)), MAX_RESEND_SPAN);
        let large = resend_span(5_000, Some(14), Micros::from_secs(10));
        assert_eq!(large, Micros::from_secs(50), "400 000 observations");
    }
}
