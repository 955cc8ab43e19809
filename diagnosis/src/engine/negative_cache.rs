//! Names that have just become resolvable, which a resolver may still report as nonexistent.
//!
//! Resolvers cache negative answers as well as positive ones (RFC 2308). Examples are a Service created after a first
//! lookup, a headless Service that got its first endpoint, and a newly published record. For the negative TTL, some
//! clients get the old answer, depending on the cache they query.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{EventTime, Front, Observation, Outcome, Phase};

use super::Engine;
use crate::{
    ids::{NameIx, TargetIx},
    settings::cache_ttl,
};

/// Until when the nonexistence of each name may be cached.
pub(super) type NegativeUntil = BTreeMap<NameIx, EventTime>;

impl Engine {
    /// Records names that lead somewhere since `at` and did not before.
    pub(super) fn record_new_names(&mut self, before: &BTreeSet<NameIx>, at: EventTime) {
        let until = at.plus(cache_ttl(self.settings));
        let now = self.names_with_destination();
        for name in now.difference(before) {
            self.history.negative_until.insert(*name, until);
        }
        self.history
            .negative_until
            .retain(|name, until| *until > at && now.contains(name));
        self.cluster
            .routes
            .set_negative_until(self.history.negative_until.clone());
    }

    /// Records the first successful resolution of a name.
    pub(super) fn record_first_answer(&mut self, name: NameIx, at: EventTime) {
        let until = at.plus(cache_ttl(self.settings));
        self.history.negative_until.insert(name, until);
        self.cluster
            .routes
            .set_negative_until(self.history.negative_until.clone());
    }

    /// Reports whether a probe failed because a DNS cache or a Service rule sent it to an address or endpoint that no
    /// longer exists: an address that a Service has lost, or may have lost before the first probe, or an endpoint that
    /// outlives its node. Failures that last longer than the cache are real.
    pub(super) fn is_stale(
        &self,
        observation: &Observation,
        target: Option<TargetIx>,
        front: Option<Front>,
    ) -> bool {
        let Outcome::Failed { phase, .. } = observation.outcome else {
            return false;
        };
        let at = observation.started;
        let routes = &self.cluster.routes;
        let ended = front.and_then(|front| {
            let address = front.address.ip();
            // Which endpoints a headless Service lost before the first probe is not known.
            let lost_before = || {
                let is_unknown = target.is_some_and(|target| routes.is_unknown_endpoint(target, address));
                self.matrix.first_probe().filter(|_| is_unknown)
            };
            routes.ended_at(address).or_else(lost_before)
        });
        if ended.is_some_and(|ended| at <= ended.plus(cache_ttl(self.settings))) {
            return true;
        }
        if phase != Phase::Connect {
            return false;
        }
        let placed = self.cluster.topology.targets().get(&observation.target);
        let entry = placed.and_then(|placed| placed.entry.as_ref());
        entry.is_some_and(|(service, _)| self.orphan_age(service, at).is_some())
    }

    /// Names of targets that have a destination.
    pub(super) fn names_with_destination(&self) -> BTreeSet<NameIx> {
        let targets = self.cluster.topology.targets().keys();
        targets
            .filter_map(|id| self.registry.targets.get(id))
            .filter(|target| !self.cluster.routes.has_no_endpoints(*target))
            .filter_map(|target| self.cluster.routes.of(target).name)
            .collect()
    }
}
