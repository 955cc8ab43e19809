//! Names that have just become resolvable: a resolver that was asked before may go on saying that there is nothing.
//!
//! Negative answers are cached as positive ones are (RFC 2308). A Service that was created after somebody asked for it, a
//! headless one that got its first endpoint, a host whose record was published: for the negative TTL some clients are told
//! the past, each by the cache it asks.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{EventTime, Micros};

use super::Engine;
use crate::ids::NameIx;

/// The negative TTL of `CoreDNS` (`cache 30`), and two rounds until it has learned of the change.
const NEGATIVE_TTL: Micros = Micros::from_secs(30);

/// Until when each name's absence may be cached.
pub(super) type NegativeUntil = BTreeMap<NameIx, EventTime>;

impl Engine {
    fn negative_ttl(&self) -> Micros {
        Micros(
            NEGATIVE_TTL
                .0
                .saturating_add(self.settings.interval.0.saturating_mul(2)),
        )
    }

    /// Names that lead somewhere since `at`, and did not before.
    pub(super) fn note_new_names(&mut self, before: &BTreeSet<NameIx>, at: EventTime) {
        let until = at.plus(self.negative_ttl());
        let now = self.leading();
        for name in now.difference(before) {
            self.negative_until.insert(*name, until);
        }
        self.negative_until
            .retain(|name, until| *until > at && now.contains(name));
        self.routes.excuse(self.negative_until.clone());
    }

    /// A name was resolved for the first time.
    pub(super) fn note_first_answer(&mut self, name: NameIx, at: EventTime) {
        let until = at.plus(self.negative_ttl());
        self.negative_until.insert(name, until);
        self.routes.excuse(self.negative_until.clone());
    }

    /// Names of targets that have somewhere to lead to.
    pub(super) fn leading(&self) -> BTreeSet<NameIx> {
        let targets = self.topology.targets().keys();
        targets
            .filter_map(|id| self.world.targets.get(id))
            .filter(|target| !self.routes.leads_nowhere(*target))
            .filter_map(|target| self.routes.of(target).name)
            .collect()
    }
}
