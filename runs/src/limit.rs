//! Rate limit of runs per user. Pure: the caller passes the time.

use std::collections::BTreeMap;

use parallax_model::{EventTime, Micros};

/// The burst size.
const BURST: u64 = 10;
/// The time per additional run.
const EACH: Micros = Micros::from_secs(6);
/// The maximum number of users tracked; users with a full budget are evicted first.
const MOST: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct RunLimit {
    /// For each user, the time until which the budget is spent.
    spent: BTreeMap<String, EventTime>,
}

impl RunLimit {
    /// Takes one run from a user's budget, or returns the time to wait.
    pub(super) fn take(&mut self, who: &str, now: EventTime) -> Result<(), Micros> {
        if self.spent.len() >= MOST && !self.spent.contains_key(who) {
            self.spent.retain(|_, until| *until > now);
            if self.spent.len() >= MOST {
                return Err(EACH);
            }
        }
        let spent = self.spent.get(who).map_or(now, |until| (*until).max(now));
        let room = Micros(EACH.0 * (BURST - 1));
        if spent - now > room {
            return Err(Micros((spent - now).0 - room.0));
        }
        self.spent.insert(who.to_owned(), spent.plus(EACH));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_has_a_burst_and_then_a_rate_and_others_have_their_own() {
        let mut limit = RunLimit::default();
        let now = EventTime(1_000_000);
        for _ in 0..BURST {
            limit.take("ann", now).unwrap();
        }
        assert_eq!(limit.take("ann", now), Err(EACH));
        limit.take("ben", now).unwrap();
        limit.take("ann", now.plus(EACH)).unwrap();
        assert!(limit.take("ann", now.plus(EACH)).is_err());
    }

    #[test]
    fn however_many_ask_the_memory_is_bounded() {
        let mut limit = RunLimit::default();
        let now = EventTime(0);
        for n in 0..MOST {
            limit.take(&n.to_string(), now).unwrap();
        }
        assert!(limit.take("one more", now).is_err());
        limit.take("one more", now.plus(EACH)).unwrap();
        assert_eq!(limit.spent.len(), 1);
    }
}
