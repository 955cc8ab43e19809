//! How long the cache of a resolver keeps an answer.
//!
//! A cache returns the rest of a TTL, so that one answer is only a lower limit. All answers of a period that is longer
//! than their largest TTL contain one that the cache has just fetched.

use parallax_model::{Micros, Round};

/// Upper limit of the TTL that excuses an old answer, in seconds.
const MAX_TTL: u32 = 3600;

/// TTL of an answer without one, in seconds; the longest that `CoreDNS` caches an answer (`cache 30`, the default of
/// most distributions).
const DEFAULT_TTL: u32 = 30;

/// The TTLs that one resolver returned to one vantage for one name.
#[derive(Debug, Clone, Default)]
pub(super) struct CacheLifetime {
    current: Option<TtlPeriod>,
    /// The last complete period.
    previous: Option<TtlPeriod>,
}

/// Rounds with their largest TTL.
#[derive(Debug, Clone, Copy)]
struct TtlPeriod {
    first: Round,
    largest: Option<u32>,
}

impl TtlPeriod {
    /// Reports whether every cache has fetched the answer again between the first round and `round`.
    fn is_complete(&self, round: Round, interval: Micros) -> bool {
        round.start(interval) >= self.first.end(interval).plus(allowance(self.largest, interval))
    }
}

/// A TTL and two rounds: resolvers learn of a change later than this process, an answer is from any moment of its
/// round, and several caches behind one address fetch at different times.
fn allowance(ttl: Option<u32>, interval: Micros) -> Micros {
    let ttl = Micros::from_secs(ttl.unwrap_or(DEFAULT_TTL).min(MAX_TTL).into());
    Micros(ttl.0.saturating_add(interval.0.saturating_mul(2)))
}

impl CacheLifetime {
    /// Adds an answer of a round that is not earlier than any known round.
    pub(super) fn add(&mut self, round: Round, ttl: Option<u32>, interval: Micros) {
        let period = self.current.get_or_insert(TtlPeriod {
            first: round,
            largest: ttl,
        });
        period.largest = period.largest.max(ttl);
        if period.is_complete(round, interval) {
            let next = TtlPeriod {
                first: round,
                largest: ttl,
            };
            self.previous = Some(std::mem::replace(period, next));
        }
    }

    /// The largest TTL, in seconds; may be too small before the end of the first period.
    pub(super) fn largest_ttl(&self) -> Option<u32> {
        let periods = [self.previous, self.current].into_iter().flatten();
        periods.filter_map(|period| period.largest).max()
    }

    /// How long after a change a cache may return answers from before it; `None` before the end of the first period.
    pub(super) fn allowance(&self, interval: Micros) -> Option<Micros> {
        self.previous?;
        Some(allowance(self.largest_ttl(), interval))
    }
}
