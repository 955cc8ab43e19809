//! The DNS facts of a name from all views, and what they mean for a certificate. Pure.
//!
//! ```text
//! (vantage, sight)… ─▶ NameFacts ─▶ judge (public CAA records; differences between the public and the inside view)
//! ```
//!
//! Only public DNS decides, because the CA never sees the cluster's own DNS responses. Differences are reported as
//! findings.

mod identity;
mod judge;
mod query;

use parallax_api::names::{CaaChain, NameFacts, ObservedAnswer, ResolverSide};
use parallax_model::{
    Reach, Vantage,
    dns::{NameSight, NameView, ServerOwner, name_differences},
};

pub use self::{
    identity::caa_identities,
    judge::judge_names,
    query::{NameAnswer, NameQuery},
};

/// The resolvers that were queried in addition to each machine's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueriedResolvers {
    /// The configuration names public resolvers.
    pub public: bool,
    /// The configuration enables queries to the zone's own servers.
    pub authoritative: bool,
}

/// Merges the DNS answers of several vantages.
#[must_use]
pub fn name_facts(name: &str, sights: &[(Vantage, NameSight)], resolvers: QueriedResolvers) -> NameFacts {
    let mut facts = NameFacts {
        name: name.to_owned(),
        views: Vec::new(),
        caa: Vec::new(),
        no_authority: None,
        differences: Vec::new(),
        not_queried: Vec::new(),
    };
    for (vantage, sight) in sights {
        let own = own_resolver_side(vantage);
        for view in &sight.views {
            let side = match view.owner {
                ServerOwner::Local => own,
                ServerOwner::Public => ResolverSide::Public,
                ServerOwner::Authority { .. } => ResolverSide::Zone,
            };
            let same = |seen: &ObservedAnswer| seen.side == side && seen.view == *view;
            // Several vantages query the same resolver; equal responses are listed once.
            if !facts.views.iter().any(same) {
                facts.views.push(ObservedAnswer {
                    vantage: vantage.clone(),
                    side,
                    view: view.clone(),
                });
            }
        }
        if !sight.caa.is_empty() {
            let asked_public = sight.views.iter().any(|view| view.owner == ServerOwner::Public);
            facts.caa.push(CaaChain {
                vantage: vantage.clone(),
                public: asked_public || own == ResolverSide::Public,
                names: sight.caa.clone(),
            });
        }
        if facts.no_authority.is_none() {
            facts.no_authority.clone_from(&sight.authority_failure);
        }
    }
    facts.views.sort_by_key(|seen| seen.side);
    let views: Vec<NameView> = facts.views.iter().map(|seen| seen.view.clone()).collect();
    facts.differences = name_differences(&views);
    if !resolvers.public && facts.on_side(ResolverSide::Public).next().is_none() {
        facts
                .not_queried
                .push("public resolvers: none are configured (resolvers.public in the aggregator's configuration), and there is no vantage on the internet".to_owned());
    }
    if !resolvers.authoritative {
        facts
            .not_queried
            .push("the zone's own servers: resolvers.authoritative is not set".to_owned());
    }
    facts
}

const fn own_resolver_side(vantage: &Vantage) -> ResolverSide {
    match vantage {
        Vantage::Cluster { .. } => ResolverSide::Inside,
        Vantage::Outside {
            reach: Reach::Internet,
            ..
        } => ResolverSide::Public,
        Vantage::Outside { .. } => ResolverSide::Near,
    }
}

#[cfg(test)]
mod tests;
