//! Rate limit of runs per user. Pure: the caller passes the time.

use std::collections::BTreeMap;

use parallax_model::{EventTime, Micros};

/// The burst size.
const BURST_SIZE: u64 = 10;
/// The time per additional run.
const REFILL_INTERVAL: Micros = Micros::from_secs(6);
/// The maximum number of users tracked; users with a full budget are evicted first.
const MAX_USERS: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct RunLimit {
    /// For each user, the time until which the budget is spent.
    spent_until: BTreeMap<String, EventTime>,
}

impl RunLimit {
    /// Takes one run from a user's budget, or returns the time to wait.
    pub(super) fn take(&mut self, user: &str, now: EventTime) -> Result<(), Micros> {
        if self.spent_until.len() >= MAX_USERS && !self.spent_until.contains_key(user) {
            self.spent_until.retain(|_, until| *until > now);
            if self.spent_until.len() >= MAX_USERS {
                return Err(REFILL_INTERVAL);
            }
        }
        let spent = self.spent_until.get(user).map_or(now, |until| (*until).max(now));
        let burst = Micros(REFILL_INTERVAL.0 * (BURST_SIZE - 1));
        if spent - now > burst {
            return Err(Micros((spent - now).0 - burst.0));
        }
        self.spent_until
            .insert(user.to_owned(), spent.plus(REFILL_INTERVAL));
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
        for _ in 0..BURST_SIZE {
            limit.take("ann", now).unwrap();
        }
        assert_eq!(limit.take("ann", now), Err(REFILL_INTERVAL));
        limit.take("ben", now).unwrap();
        limit.take("ann", now.plus(REFILL_INTERVAL)).unwrap();
        assert!(limit.take("ann", now.plus(REFILL_INTERVAL)).is_err());
    }

    #[test]
    fn however_many_ask_the_memory_is_bounded() {
        let mut limit = RunLimit::default();
        let now = EventTime(0);
        for n in 0..MAX_USERS {
            limit.take(&n.to_string(), now).unwrap();
        }
        assert!(limit.take("one more", now).is_err());
        limit.take("one more", now.plus(REFILL_INTERVAL)).unwrap();
        assert_eq!(limit.spent_until.len(), 1);
    }
}
