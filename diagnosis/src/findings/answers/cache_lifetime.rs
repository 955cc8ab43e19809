//! How long the cache of a resolver keeps an answer.
//!
//! A cache returns the rest of a TTL, so that one answer is only a lower limit. All answers of a period that is longer
//! than their largest TTL contain one that the cache has just fetched.

use parallax_model::{Micros, Round};

use crate::settings::{CACHE_TTL, cache_allowance};

/// Upper limit of the TTL that excuses an old answer.
const MAX_TTL: Micros = Micros::from_secs(3600);

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

/// The two rounds of the allowance also cover that an answer is from any moment of its round, and that several caches
/// behind one address fetch at different times.
fn allowance(ttl: Option<u32>, interval: Micros) -> Micros {
    let ttl = ttl.map_or(CACHE_TTL, |ttl| Micros::from_secs(ttl.into()));
    cache_allowance(ttl.min(MAX_TTL), interval)
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
